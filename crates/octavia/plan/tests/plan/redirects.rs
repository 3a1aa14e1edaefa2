//! Redirects to HTTPS that are to go: what they lead to stays until then, and nothing of others waits for them.

use std::time::Duration;

use gimbal_kuryr_model::RouteState;
use gimbal_octavia_plan::{BalancerStep, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_sim::ProjectQuota;

use crate::certificates::{names, served, stored};
use crate::executor::{Way, World};
use crate::router_wish::{Answers, RouterWish, WantedRoute, answered, answered_at, router};

/// The first part of a host is the namespace of its Ingress.
const ROUTES: [WantedRoute; 4] =
    [("a.test", "/a", "two"), ("a.test", "", "one"), ("b.test", "", "two"), ("c.other", "", "three")];
const ALL: [(&str, u8); 3] = [("a/tls", 1), ("b/tls", 2), ("c/tls", 3)];

/// What keeps the redirect of the first host from going.
#[derive(Debug, Clone, Copy)]
enum Stuck {
    Removal,
    /// What takes its place cannot be made.
    Successor,
}

/// Returns a router with redirects and a default, and what it is to be then: it has neither, nor the second host, and HTTPS with the
/// last certificate alone, or not at all.
fn without_redirects(is_https_wanted: bool) -> (RouterWish, World) {
    let (mut wish, mut world) = router(&ROUTES, |wish| {
        (wish.certificates, wish.redirects, wish.by_host) = (ALL.to_vec(), true, true);
        wish.default = Some("rest");
    });
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(served(&world), Some(names(&ALL)));
    (wish.redirects, wish.default) = (false, None);
    wish.routes.remove(2);
    wish.certificates.drain(if is_https_wanted { 0..2 } else { 0..3 });
    (wish.base.generation, wish.base.known) = (2, true);
    world.sent.clear();
    (wish, world)
}

/// Returns the names of the routes that are there and not wanted.
fn left(world: &World) -> Vec<String> {
    let gaps = world.actor.route_gaps(&world.facts, world.cloud.now()).unwrap();
    gaps.into_iter().filter(|gap| gap.state == RouteState::Left).map(|gap| gap.name.to_string()).collect()
}

fn of_host(answers: Answers, host: &str) -> Answers {
    answers.into_iter().filter(|((asked, _), _)| *asked == host).collect()
}

fn are_sent(answers: &Answers) -> bool {
    answers.values().any(|answer| answer.starts_with("https://"))
}

/// One tenant's trouble must not keep the Ingresses of others, which go when nothing of theirs is left.
#[test]
fn a_redirect_that_cannot_go_keeps_what_it_leads_to_and_nothing_of_others() {
    for (stuck, is_https_wanted) in
        [(Stuck::Removal, true), (Stuck::Removal, false), (Stuck::Successor, true), (Stuck::Successor, false)]
    {
        let what = format!("{stuck:?}, {is_https_wanted}");
        let (wish, mut world) = without_redirects(is_https_wanted);
        let before = of_host(answered_at(&mut world, 443), "a.test");
        match stuck {
            Stuck::Removal => {
                let policies = world.rows("/v2/lbaas/l7policies", "l7policies", &[]);
                let is_it = |id: &&str| policies.iter().any(|row| row["id"] == **id && row["name"] == "a/web");
                let sent = policies.iter().filter(|row| row["redirect_prefix"] == "https://a.test");
                world.in_use = sent.filter_map(|row| row["id"].as_str()).find(is_it).map(str::to_owned);
                assert!(world.in_use.is_some(), "{policies:#?}");
            }
            Stuck::Successor => {
                world.refuses = Some(|change| {
                    let is_it = matches!(change, CloudChange::CreatePolicy { body } if body["name"] == "a/web");
                    is_it.then_some(ChangeOutcome::Refused(ServiceRefusal::ProviderFailed))
                });
            }
        }
        world.actor.want(wish.entry());
        world.run_for(Duration::from_secs(300));
        let left_now = left(&world);
        assert!(left_now.iter().all(|name| name == "a/web"), "{what}: {left_now:?}");
        // Whoever is sent there is answered, with the certificate that was there.
        assert!(are_sent(&of_host(answered(&mut world), "a.test")), "{what}");
        assert_eq!(of_host(answered_at(&mut world, 443), "a.test"), before, "{what}");
        // Of others none is kept for it.
        let kept = if is_https_wanted { vec![ALL[0], ALL[2]] } else { vec![ALL[0]] };
        let mut referred_to = served(&world).unwrap();
        referred_to.sort();
        assert_eq!((stored(&world), referred_to), (names(&kept), names(&kept)), "{what}");
        (world.in_use, world.refuses) = (None, None);
        world.run_for(Duration::from_secs(1200));
        assert_eq!((world.step(), left(&world)), (BalancerStep::Done, Vec::new()), "{what}");
        assert_eq!(answered(&mut world), wish.answers(), "{what}");
        assert_eq!(stored(&world), names(&wish.certificates), "{what}");
    }
}

/// What has no room while redirects go. No host of those has anything to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRoomFor {
    Nothing,
    FloatingIp,
    /// The route of a host that is new.
    Route,
}

fn lacks_room(change: &CloudChange) -> Option<ChangeOutcome> {
    let is_it = match change {
        CloudChange::CreateFloatingIp { .. } => true,
        CloudChange::CreatePolicy { body } => body["name"] == "x/web",
        _ => false,
    };
    is_it.then(|| ChangeOutcome::Refused(ServiceRefusal::Quota("it is used up".to_owned())))
}

/// Takes every step that can be taken. Before each next one, whoever is sent to HTTPS is answered there as before.
fn follow(world: &mut World, before: &Answers, what: &str) {
    while !matches!(world.step(), BalancerStep::Done | BalancerStep::Blocked(_)) {
        let step = world.step();
        world.take(&step, Way::Arrives);
        for host in ["a.test", "b.test:8080", "c.other"] {
            if are_sent(&of_host(answered(world), host)) {
                let now = of_host(answered_at(world, 443), host);
                assert_eq!(now, of_host(before.clone(), host), "{what}: after {step:?}");
            }
        }
    }
}

#[test]
fn each_host_is_answered_over_https_as_long_as_clients_are_sent_there() {
    for no_room in [NoRoomFor::Nothing, NoRoomFor::FloatingIp, NoRoomFor::Route] {
        for is_https_wanted in [true, false] {
            let what = format!("{no_room:?}, {is_https_wanted}");
            let (mut wish, mut world) = without_redirects(is_https_wanted);
            let before = answered_at(&mut world, 443);
            match no_room {
                NoRoomFor::Nothing => {}
                NoRoomFor::FloatingIp => wish.base.floating = true,
                NoRoomFor::Route => wish.routes.push(("x.a.test", "", "three")),
            }
            world.refuses = Some(lacks_room);
            world.actor.want(wish.entry());
            follow(&mut world, &before, &what);
            for host in ["a.test", "b.test:8080", "c.other"] {
                assert_eq!(of_host(answered(&mut world), host), of_host(wish.answers(), host), "{what}");
            }
            assert_eq!(world.step() == BalancerStep::Done, no_room == NoRoomFor::Nothing, "{what}");
            // One change for the listener, where it goes with all of its policies.
            let is_one = |change: &&CloudChange| matches!(change, CloudChange::DeletePolicy { .. });
            let of_policies = world.sent.iter().filter(is_one).count();
            assert_eq!(of_policies, if is_https_wanted { 4 } else { 3 }, "{what}: {:#?}", world.sent);
        }
    }
}

fn lacks_room_behind(change: &CloudChange) -> Option<ChangeOutcome> {
    let is_it = match change {
        CloudChange::CreatePool { body } => body["name"] == "shop_four",
        CloudChange::CreateMember { body, .. } => body["address"] == "10.1.0.3",
        CloudChange::SetMembers { members, .. } => members.iter().any(|one| one["address"] == "10.1.0.3"),
        _ => false,
    };
    is_it.then(|| ChangeOutcome::Refused(ServiceRefusal::Quota("it is used up".to_owned())))
}

/// A policy over HTTPS has the room of no pool and of no member.
#[test]
fn a_redirect_whose_host_lacks_room_for_pools_or_members_keeps_what_it_leads_to() {
    let pool: fn(&mut RouterWish) = |wish| wish.routes.push(("a.test", "/new", "four"));
    let members: fn(&mut RouterWish) = |wish| drop(wish.members.insert("one", vec![1, 2, 3]));
    for (lacking, wants_more) in [("a pool", pool), ("members", members)] {
        for is_https_wanted in [true, false] {
            let what = format!("{lacking}, {is_https_wanted}");
            let (mut wish, mut world) = without_redirects(is_https_wanted);
            let before = answered_at(&mut world, 443);
            wish.without_https = Some("a.test");
            wants_more(&mut wish);
            world.refuses = Some(lacks_room_behind);
            world.actor.want(wish.entry());
            follow(&mut world, &before, &what);
            assert_ne!(world.step(), BalancerStep::Done, "{what}");
            world.refuses = None;
            world.run_for(Duration::from_secs(1200));
            assert_eq!((world.step(), answered(&mut world)), (BalancerStep::Done, wish.answers()), "{what}");
        }
    }
}

/// What takes the place of a redirect may have nothing but the room of what that leads to.
#[test]
fn a_redirect_whose_successor_lacks_room_keeps_none_over_https() {
    let (wish, mut world) = without_redirects(false);
    let used: u64 = world.rows("/v2/lbaas/l7policies", "l7policies", &[]).len().try_into().unwrap();
    // Those of the host that goes are not enough.
    world.cloud.set_quota("p1", ProjectQuota { policies: Some(used - 2), ..ProjectQuota::default() });
    world.actor.want(wish.entry());
    world.run_for(Duration::from_secs(900));
    assert_eq!((world.step(), left(&world)), (BalancerStep::Done, Vec::new()));
    assert_eq!(answered(&mut world), wish.answers());
}
