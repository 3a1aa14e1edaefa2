//! Certificates of routers: stored before a listener refers to them, and removed when none does any more.

use std::time::Duration;

use gimbal_octavia_plan::{BalancerStep, Block, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::{KeyManagerMode, SimRequest};
use gimbal_property::worlds;
use serde_json::{Value, json};

use crate::executor::{Way, World};
use crate::router_wish::{RouterWish, WantedRoute, answered, answered_at, certificate, router};

const ROUTES: [WantedRoute; 2] = [("a.test", "/a", "one"), ("a.test", "", "two")];
const TWO: [(&str, u8); 2] = [("shop/a", 1), ("shop/b", 2)];

fn name((secret, content): (&str, u8)) -> String {
    format!("gimbal/prod1/c1/u1/{}/{secret}", certificate(secret, content).hash)
}

pub fn names(certificates: &[(&'static str, u8)]) -> Vec<String> {
    certificates.iter().copied().map(name).collect()
}

/// The default certificate, and the others in the order of their names: which is chosen depends on what they are for.
pub fn served(world: &World) -> Option<Vec<String>> {
    let balancer = world.actor.balancer()?.id.clone();
    world.cloud.certificates(&balancer, 443).map(|all| sorted(all.to_vec()))
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    if let Some(others) = names.get_mut(1..) {
        others.sort();
    }
    names
}

pub fn stored(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.cloud.secrets().into_values().collect();
    names.sort();
    names
}

/// What was sent, in few words; a change of a listener only if it is about certificates.
fn told(world: &World) -> Vec<&'static str> {
    let words = |change: &CloudChange| match change {
        CloudChange::CreateSecret { .. } => Some("store"),
        CloudChange::DeleteSecret { .. } => Some("remove"),
        CloudChange::CreateBalancer { .. } => Some("load balancer"),
        CloudChange::CreateListener { .. } => Some("listener"),
        CloudChange::UpdateListener { fields, .. } if fields.get("default_tls_container_ref").is_some() => {
            Some("refer")
        }
        CloudChange::UpdateListener { fields, .. } if fields.get("sni_container_refs").is_some() => Some("refer"),
        CloudChange::DeleteBalancer { .. } => Some("load balancer goes"),
        CloudChange::DeleteListener { .. } => Some("listener goes"),
        CloudChange::DeletePort { .. } => Some("port goes"),
        CloudChange::DeleteFloatingIp { .. } => Some("floating IP goes"),
        _ => None,
    };
    world.sent.iter().filter_map(words).collect()
}

/// Every reference of a listener leads to a secret, and no TLS is served without a certificate.
#[track_caller]
pub fn assert_sound(world: &mut World, what: &str) {
    let secrets = world.cloud.secrets();
    let leads = |reference: &Value| reference.as_str().is_none_or(|one| secrets.contains_key(one));
    for row in world.rows("/v2/lbaas/listeners", "listeners", &[]) {
        let others = row["sni_container_refs"].as_array().unwrap();
        assert!(leads(&row["default_tls_container_ref"]) && others.iter().all(leads), "{what}: dangling {row}");
    }
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    for balancer in balancers.iter().filter_map(|row| row["id"].as_str()) {
        assert_ne!(world.cloud.certificates(balancer, 443), Some(&[][..]), "{what}: TLS without a certificate");
    }
}

fn made(certificates: &[(&'static str, u8)]) -> (RouterWish, World) {
    let (wish, mut world) = router(&ROUTES, |wish| {
        wish.certificates = certificates.to_vec();
        (wish.base.from_outside, wish.base.floating) = (true, true);
    });
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(served(&world), Some(names(certificates)));
    (wish, world)
}

#[test]
fn certificates_are_stored_before_the_load_balancer_is_made_with_all_that_refers_to_them() {
    let (wish, mut world) = made(&TWO);
    assert_eq!(told(&world), ["store", "store", "load balancer"]);
    assert_eq!(stored(&world), names(&TWO));
    assert_eq!(answered_at(&mut world, 443), wish.answers());
    world.sent.clear();
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0));
    let shown = format!("{:?}", world.actor);
    assert!(!shown.contains("MARKER") && !shown.contains("77, 65, 82"), "{shown}");
}

#[test]
fn the_old_certificate_goes_when_the_listener_refers_to_the_new_one() {
    let (mut wish, mut world) = made(&TWO);
    world.sent.clear();
    wish.certificates = vec![("shop/a", 3), ("shop/b", 2)];
    world.actor.want(wish.entry());
    while world.step() != BalancerStep::Done {
        let step = world.step();
        world.take(&step, Way::Arrives);
        assert_sound(&mut world, &format!("{step:?}"));
    }
    assert_eq!(told(&world), ["store", "refer", "remove"]);
    assert_eq!(served(&world), Some(names(&wish.certificates)));
    assert_eq!(stored(&world).len(), 2);
}

#[test]
fn of_a_router_that_goes_the_certificates_go_last() {
    let (wish, mut world) = made(&TWO);
    world.sent.clear();
    world.actor.want(wish.base.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert_eq!(told(&world), ["load balancer goes", "floating IP goes", "port goes", "remove", "remove"]);
    assert_eq!((stored(&world), world.actor.secrets_left(world.cloud.now())), (Vec::new(), None));
}

/// octavia-ingress-controller's ninth: what was removed for `foo` was all that had it in its name.
#[test]
fn of_two_secrets_of_which_one_begins_as_the_other_one_goes_and_the_other_stays() {
    const BOTH: [(&str, u8); 2] = [("shop/foo", 1), ("shop/foo-bar", 2)];
    // Of another router, whose UID begins with ours.
    const ANOTHERS: &str = "gimbal/prod1/c1/u11/00/shop/foo";
    for kept in BOTH {
        let (mut wish, mut world) = made(&BOTH);
        world.by_hand(&SimRequest::post("/v1/secrets", json!({"name": ANOTHERS})));
        wish.certificates = vec![kept];
        world.sent.clear();
        world.actor.want(wish.entry());
        assert_eq!(world.run(), BalancerStep::Done);
        assert_eq!(told(&world), ["refer", "remove"], "{kept:?}");
        assert_eq!((served(&world), stored(&world)), (Some(vec![name(kept)]), vec![name(kept), ANOTHERS.to_owned()]));
        world.actor.want(wish.base.deleting());
        assert_eq!(world.run(), BalancerStep::Gone);
        assert_eq!(stored(&world), [ANOTHERS]);
    }
}

#[test]
fn tls_that_is_no_longer_wanted_goes_before_its_certificates() {
    let (mut wish, mut world) = made(&TWO);
    world.sent.clear();
    wish.certificates.clear();
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(told(&world), ["listener goes", "remove", "remove"]);
    assert_eq!((served(&world), stored(&world)), (None, Vec::new()));
    assert_eq!(answered(&mut world), wish.answers());
}

#[test]
fn a_certificate_that_does_not_come_is_waited_for_while_the_rest_is_made() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.certificates = TWO.to_vec());
    world.is_silent = true;
    world.run_for(Duration::from_secs(30));
    assert_eq!((answered(&mut world), served(&world)), (wish.answers(), None));
    assert!(matches!(world.step(), BalancerStep::Wait(_)), "{:?}", world.step());
    world.is_silent = false;
    world.run_for(Duration::from_secs(120));
    assert_eq!((world.step(), served(&world)), (BalancerStep::Done, Some(names(&TWO))));
    assert_eq!(answered_at(&mut world, 443), wish.answers());
}

#[test]
fn what_was_stored_for_the_same_secret_serves_until_its_successor_comes() {
    let (mut wish, mut world) = made(&TWO);
    wish.certificates = vec![("shop/a", 3), ("shop/b", 4)];
    world.lost_contents.insert(certificate("", 3).hash);
    world.actor.want(wish.entry());
    let BalancerStep::Blocked(Block::Certificate(words)) = world.run() else { panic!("{:?}", world.step()) };
    assert_eq!(words, "certificate shop/a: the cluster has it no longer");
    let (old, new) = (name(("shop/a", 1)), name(("shop/b", 4)));
    assert_eq!(served(&world), Some(vec![old.clone(), new.clone()]));
    assert_eq!(stored(&world).len(), 2);
    // Another one in its place: none is there for it, and the listener keeps the one that it has.
    wish.certificates = vec![("shop/c", 3)];
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Certificate(_))), "{:?}", world.step());
    assert_eq!(served(&world), Some(vec![old, new]));
    world.lost_contents.clear();
    world.run_for(Duration::from_secs(120));
    assert_eq!((world.step(), served(&world)), (BalancerStep::Done, Some(vec![name(("shop/c", 3))])));
    assert_eq!(stored(&world).len(), 1);
}

#[test]
fn where_the_key_manager_refuses_everything_http_is_served() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.certificates = TWO.to_vec());
    world.cloud.set_key_manager(KeyManagerMode::Forbidden);
    let BalancerStep::Blocked(Block::Certificate(words)) = world.run() else { panic!("{:?}", world.step()) };
    assert!(words.contains("cannot be stored") && words.contains("privileges"), "{words}");
    assert_eq!((answered(&mut world), served(&world)), (wish.answers(), None));
    let gaps = world.actor.route_gaps(&world.facts, world.cloud.now()).unwrap();
    assert!(gaps.iter().all(|gap| gap.why.is_some()), "{gaps:?}");
    world.cloud.set_key_manager(KeyManagerMode::Open);
    world.run_for(Duration::from_secs(320));
    assert_eq!((world.step(), served(&world)), (BalancerStep::Done, Some(names(&TWO))));
}

/// What is not seen is not missing.
#[test]
fn a_key_manager_that_shows_nothing_for_a_while_changes_nothing() {
    let (_, mut world) = made(&TWO);
    world.cloud.set_key_manager(KeyManagerMode::Broken);
    world.sent.clear();
    world.actor.look_again();
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Certificate(_))), "{:?}", world.step());
    world.restart();
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Certificate(_))), "{:?}", world.step());
    assert_eq!((told(&world), served(&world)), (Vec::new(), Some(names(&TWO))));
    world.cloud.set_key_manager(KeyManagerMode::Open);
    world.run_for(Duration::from_secs(320));
    assert_eq!((world.step(), told(&world)), (BalancerStep::Done, Vec::new()));
}

#[test]
fn a_removal_does_not_wait_for_a_key_manager_that_refuses() {
    let (wish, mut world) = made(&TWO);
    world.refuses = Some(|change| {
        let is_it = matches!(change, CloudChange::DeleteSecret { .. });
        is_it.then(|| ChangeOutcome::Refused(ServiceRefusal::Forbidden("no".to_owned())))
    });
    world.actor.want(wish.base.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    assert!(world.actor.secrets_left(world.cloud.now()).is_some_and(|words| words.contains("no")));
    assert_eq!(stored(&world).len(), 2);
}

#[test]
fn a_certificate_that_octavia_cannot_read_stops_nothing_else() {
    let (wish, mut world) = router(&ROUTES, |wish| wish.certificates = TWO.to_vec());
    world.refuses = Some(|change| {
        let body = change.request().body.to_string();
        let words = "Could not retrieve certificate: ['http://b']".to_owned();
        body.contains("default_tls_container_ref").then_some(ChangeOutcome::Refused(ServiceRefusal::Invalid(words)))
    });
    world.run_for(Duration::from_secs(60));
    let BalancerStep::Blocked(Block::Invalid(words)) = world.step() else { panic!("{:?}", world.step()) };
    assert!(words.contains("Could not retrieve"), "{words}");
    assert_eq!((answered(&mut world), served(&world)), (wish.answers(), None));
    world.refuses = None;
    world.run_for(Duration::from_secs(320));
    assert_eq!((world.step(), served(&world)), (BalancerStep::Done, Some(names(&TWO))));
}

#[test]
fn a_secret_that_somebody_removes_is_stored_again() {
    let (_, mut world) = made(&TWO);
    let id = world.actor.secrets()[0].id.clone();
    world.by_hand(&SimRequest::delete(&format!("/v1/secrets/{id}")));
    world.by_hand(&SimRequest::post("/v1/secrets", json!({"name": "gimbal/prod1/c1/u2/00/shop/a"})));
    world.sent.clear();
    world.actor.look_again();
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(told(&world), ["store", "refer"]);
    assert_eq!(stored(&world).len(), 3, "what carries another mark stays");
}

/// Whatever is lost or killed: no leak, no reference that leads nowhere, no TLS without a certificate.
#[test]
fn any_trouble_ends_with_the_certificates_that_are_wanted() {
    worlds("certificates at every instant", 60, |seed| {
        let mut dice = gimbal_octavia_sim::Dice::new(seed + 2_000_000);
        let (mut wish, mut world) = router(&ROUTES, |wish| wish.certificates = TWO.to_vec());
        for nth in 0..200 {
            if dice.one_in(12) {
                wish.certificates = [("shop/a", 1), ("shop/a", 3), ("shop/b", 2), ("shop/b", 4)]
                    .into_iter()
                    .filter(|_| dice.one_in(2))
                    .collect();
                wish.base.generation += 1;
                gimbal_property::note(|| format!("{:?} wants {:?}", world.cloud.now(), wish.certificates));
                world.actor.want(wish.entry());
            }
            if dice.one_in(15) {
                world.cloud.set_key_manager(dice.pick(&[
                    KeyManagerMode::Open,
                    KeyManagerMode::Open,
                    KeyManagerMode::Forbidden,
                    KeyManagerMode::Broken,
                ]));
            }
            if dice.one_in(10) {
                world.restart();
            }
            world.is_silent = dice.one_in(3);
            let way = dice.pick(&[Way::Lost, Way::AnswerLost, Way::Arrives, Way::Arrives, Way::Arrives, Way::Arrives]);
            let step = world.step();
            world.take(&step, way);
            assert_sound(&mut world, &format!("world {seed}, step {nth}, after {step:?}"));
        }
        world.cloud.set_key_manager(KeyManagerMode::Open);
        world.is_silent = false;
        for _ in 0..3 {
            world.run_for(Duration::from_secs(3700));
            world.actor.look_again();
        }
        assert_eq!(world.run(), BalancerStep::Done, "world {seed}: {:#?}", world.actor);
        let mut wanted = names(&wish.certificates);
        assert_eq!(served(&world).unwrap_or_default(), sorted(wanted.clone()), "world {seed}");
        wanted.sort();
        assert_eq!(stored(&world), wanted, "world {seed}");
        world.counts()
    });
}

/// Redirects, as long as nothing answers there, would take away what HTTP serves.
#[test]
fn clients_are_sent_to_https_only_when_it_answers() {
    let (wish, mut world) = router(&ROUTES, |wish| (wish.certificates, wish.redirects) = (TWO.to_vec(), true));
    let is_sent_there = |world: &mut World| answered(world).values().any(|answer| answer.starts_with("https://"));
    world.is_silent = true;
    world.run_for(Duration::from_secs(30));
    assert_eq!((answered(&mut world), served(&world)), (wish.answers(), None));
    world.is_silent = false;
    let end = world.cloud.now() + Duration::from_secs(300);
    while !is_sent_there(&mut world) && world.cloud.now() < end {
        let step = world.step();
        world.take(&step, Way::Arrives);
        if is_sent_there(&mut world) {
            assert_eq!(answered_at(&mut world, 443), wish.answers(), "{step:?}");
        }
    }
    assert!(is_sent_there(&mut world));
    world.run_for(Duration::from_secs(120));
    assert_eq!(world.step(), BalancerStep::Done);
    assert_eq!(world.actor.route_gaps(&world.facts, world.cloud.now()), Some(Vec::new()));
}

/// Another's certificate would be shown there.
#[test]
fn a_host_is_sent_to_https_only_when_its_own_certificate_is_stored() {
    let routes = [("a.test", "", "one"), ("b.test", "", "two")];
    let (wish, mut world) = router(&routes, |wish| {
        (wish.certificates, wish.redirects, wish.by_host) = (vec![("a/tls", 1), ("b/tls", 2)], true, true);
    });
    world.refuses = Some(|change| {
        let words = || ChangeOutcome::Refused(ServiceRefusal::Invalid("it is too large".to_owned()));
        matches!(change, CloudChange::CreateSecret { name, .. } if name.ends_with("/b/tls")).then(words)
    });
    let is_sent = |world: &mut World, host: &str| {
        let answers = answered(world);
        let of_host: Vec<&String> =
            answers.iter().filter(|((asked, _), _)| asked.starts_with(host)).map(|(_, answer)| answer).collect();
        !of_host.is_empty() && of_host.iter().all(|answer| answer.starts_with("https://"))
    };
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Certificate(_))), "{:?}", world.step());
    assert_eq!((is_sent(&mut world, "a.test"), is_sent(&mut world, "b.test")), (true, false));
    assert_eq!(answered_at(&mut world, 443), wish.answers());
    world.refuses = None;
    world.run_for(Duration::from_secs(900));
    assert_eq!(world.step(), BalancerStep::Done);
    assert!(is_sent(&mut world, "b.test"));
    // One more that is not stored takes nothing away from those who are sent there.
    let mut wish = wish;
    wish.certificates.push(("b/other", 3));
    world.is_silent = true;
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(30));
    assert!(is_sent(&mut world, "b.test"));
}

/// A key that was given away has to be out of use when it is renewed, whatever others do.
#[test]
fn a_certificate_that_cannot_be_stored_keeps_none_of_another_namespace() {
    let (mut wish, mut world) = made(&[("shop/a", 1), ("shop/b", 2)]);
    world.refuses = Some(|change| {
        let words = || ChangeOutcome::Refused(ServiceRefusal::Invalid("it is too large".to_owned()));
        matches!(change, CloudChange::CreateSecret { name, .. } if name.ends_with("/bad/tls")).then(words)
    });
    wish.certificates = vec![("bad/tls", 9), ("shop/a", 3)];
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(60));
    assert_eq!((served(&world), stored(&world)), (Some(names(&[("shop/a", 3)])), names(&[("shop/a", 3)])));
    // Nothing takes the last one away: a listener for HTTPS has to have one.
    wish.certificates = vec![("bad/tls", 9)];
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(60));
    assert_eq!(served(&world), Some(names(&[("shop/a", 3)])));
}

/// Clients are sent to HTTPS all the while, and would be shown another's.
#[test]
fn a_host_that_moves_to_another_namespace_has_its_certificate_until_the_next_is_stored() {
    let (mut wish, mut world) = made(&[("a/tls", 1), ("c/tls", 2)]);
    let before = served(&world);
    wish.certificates = vec![("b/tls", 3), ("c/tls", 2)];
    world.is_silent = true;
    world.sent.clear();
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(3));
    assert_eq!((served(&world), told(&world)), (before, Vec::new()));
    world.is_silent = false;
    world.run_for(Duration::from_secs(120));
    assert_eq!(told(&world), ["store", "refer", "remove"]);
    assert_eq!(served(&world), Some(names(&wish.certificates)));
    // A content that never comes does not keep for good what another has given up.
    wish.certificates = vec![("a/tls", 4), ("c/tls", 2)];
    world.is_silent = true;
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(180));
    assert_eq!(served(&world), Some(names(&[("c/tls", 2)])));
}

/// Eight are asked for at a time, and the ninth was waited for behind those that never come.
#[test]
fn certificates_that_never_come_keep_none_that_was_given_up() {
    let (mut wish, mut world) = made(&[("a/tls", 1), ("c/tls", 2)]);
    let new = ["b/0", "b/1", "b/2", "b/3", "b/4", "b/5", "b/6", "b/7", "b/8"];
    wish.certificates = [("c/tls", 2)].into_iter().chain(new.into_iter().zip(10..)).collect();
    world.is_silent = true;
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(180));
    assert_eq!((served(&world), stored(&world)), (Some(names(&[("c/tls", 2)])), names(&[("c/tls", 2)])));
    world.is_silent = false;
    world.run_for(Duration::from_secs(300));
    assert_eq!((world.step(), stored(&world).len()), (BalancerStep::Done, 10));
}

/// Who was sent there finds the certificate and the route that were there, until no one is sent there any more.
#[test]
fn what_clients_are_sent_to_goes_after_the_redirect() {
    let (mut wish, mut world) = router(&ROUTES, |wish| (wish.certificates, wish.redirects) = (TWO.to_vec(), true));
    assert_eq!(world.run(), BalancerStep::Done);
    let before = (served(&world), answered_at(&mut world, 443));
    (wish.certificates, wish.redirects) = (vec![TWO[0]], false);
    wish.routes.remove(0);
    world.actor.want(wish.entry());
    while world.step() != BalancerStep::Done {
        let step = world.step();
        world.take(&step, Way::Arrives);
        if answered(&mut world).values().any(|answer| answer.starts_with("https://")) {
            assert_eq!((served(&world), answered_at(&mut world, 443)), before, "{step:?}");
        }
    }
    assert_eq!((served(&world), stored(&world)), (Some(names(&TWO[..1])), names(&TWO[..1])));
    assert_eq!((answered(&mut world), answered_at(&mut world, 443)), (wish.answers(), wish.answers()));
}

#[test]
fn with_its_certificates_a_router_is_made_at_once_and_redirects() {
    let (wish, mut world) = router(&ROUTES, |wish| (wish.certificates, wish.redirects) = (TWO.to_vec(), true));
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(told(&world), ["store", "store", "load balancer"]);
    assert_eq!(answered_at(&mut world, 443), wish.answers());
    assert!(answered(&mut world).values().any(|answer| answer.starts_with("https://a.test")));
}

/// A Secret of another name: nothing that was stored is for it, and what serves has to stay until it is.
#[test]
fn what_serves_stays_until_all_that_is_wanted_is_stored() {
    let (mut wish, mut world) = made(&TWO);
    world.is_silent = true;
    wish.certificates = vec![("shop/other", 3), ("shop/b", 2)];
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(30));
    assert_eq!(served(&world), Some(names(&TWO)), "with its default");
    assert_eq!(stored(&world).len(), 2);
    world.is_silent = false;
    world.run_for(Duration::from_secs(120));
    assert_eq!((served(&world), stored(&world).len()), (Some(names(&wish.certificates)), 2));
}

/// The key manager shows what it has and stores nothing.
#[test]
fn members_change_while_nothing_can_be_stored() {
    const MANY: [(&str, u8); 6] =
        [("shop/a", 1), ("shop/b", 2), ("shop/c", 3), ("shop/d", 4), ("shop/e", 5), ("shop/f", 6)];
    let (mut wish, mut world) = router(&ROUTES, |wish| wish.certificates = MANY.to_vec());
    world.refuses = Some(|change| {
        matches!(change, CloudChange::CreateSecret { .. }).then_some(ChangeOutcome::Unknown("503".to_owned()))
    });
    world.run_for(Duration::from_secs(120));
    assert_eq!(answered(&mut world), wish.answers());
    wish.members.insert("one", vec![7]);
    world.actor.want(wish.entry());
    let before = world.cloud.now();
    while answered(&mut world) != wish.answers() {
        world.run_for(Duration::from_secs(1));
        assert!(world.cloud.now() < before + Duration::from_secs(20), "{:?}", world.step());
    }
}
