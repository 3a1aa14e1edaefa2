//! A load balancer that takes another one's place.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_octavia_plan::{BalancerStep, Block, CloudAbility, CloudChange};
use gimbal_octavia_sim::{Fate, ProjectQuota, SimRequest};
use serde_json::json;

use crate::executor::{Way, World};
use crate::services::{change, made, world};
use crate::wish::{Wish, forwarded};

const FLAVOR: &str = "f0000000-0000-4000-8000-000000000000";

fn outside() -> (Wish, World) {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    (wish, world)
}

/// Returns what a client of the floating IP gets.
fn behind_the_floating_ip(world: &mut World) -> Vec<(u16, Vec<(String, u16)>)> {
    let rows = world.rows("/v2.0/floatingips", "floatingips", &[]);
    let port = rows[0]["port_id"].as_str().unwrap_or_default().to_owned();
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    let serving = balancers.iter().find(|row| row["vip_port_id"] == port);
    serving.map(|row| forwarded(&world.cloud, row["id"].as_str().unwrap())).unwrap_or_default()
}

fn kinds(changes: &[CloudChange]) -> Vec<String> {
    changes.iter().map(|change| format!("{:?} {}", change.request().verb, change.request().resource)).collect()
}

#[test]
fn behind_a_floating_ip_the_new_one_comes_first() {
    let (mut wish, mut world) = outside();
    let first = world.balancer();
    let changes = change(&mut world, &mut wish, |wish| wish.flavor = Some(FLAVOR));
    assert_ne!(world.balancer(), first);
    let steps = ["Create port", "Create loadbalancer", "Update floatingip", "Delete loadbalancer", "Delete port"];
    assert_eq!(kinds(&changes), steps);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
}

/// The contract: whoever comes by the floating IP is served at every instant, and restarts change nothing about that.
#[test]
fn nobody_behind_the_floating_ip_notices() {
    for populated in [true, false] {
        let (mut wish, mut world) = outside();
        world.cloud.provider_mut().populated = populated;
        wish.flavor = Some(FLAVOR);
        wish.generation += 1;
        world.actor.want(wish.entry());
        for nth in 0..400 {
            let step = world.step();
            if step == BalancerStep::Done {
                break;
            }
            world.take(&step, Way::Arrives);
            assert!(!behind_the_floating_ip(&mut world)[0].1.is_empty(), "step {nth}: {step:?}");
            if matches!(step, BalancerStep::Change(_)) && nth % 3 == 0 {
                world.restart();
            }
        }
        assert_eq!(world.run(), BalancerStep::Done);
        assert_eq!(behind_the_floating_ip(&mut world), wish.forwards());
        assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
    }
}

#[test]
fn the_old_one_gets_new_members_while_the_new_one_is_made() {
    let (mut wish, mut world) = outside();
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    while world.actor.seen().balancers.len() < 2 {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    wish.members = vec![(9, 80, 1)];
    wish.known = true;
    world.actor.want(wish.entry());
    let old = world.balancer();
    for _ in 0..10 {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    assert_eq!(forwarded(&world.cloud, &old), wish.forwards());
    made(&wish, &mut world);
}

/// Amphorae take minutes to boot, and endpoints change all the while.
#[test]
fn the_old_one_follows_its_members_however_long_the_new_one_takes() {
    let (mut wish, mut world) = outside();
    let old = world.balancer();
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    world.expect(Fate::DoneAfter(Duration::from_secs(300)));
    until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::CreateBalancer { .. }));
    for host in [8, 9, 10] {
        (wish.members, wish.known) = (vec![(host, 80, 1)], true);
        world.actor.want(wish.entry());
        let begin = world.cloud.now();
        while forwarded(&world.cloud, &old) != wish.forwards() {
            let step = world.step();
            world.take(&step, Way::Arrives);
            assert!(world.cloud.now() < begin + Duration::from_secs(10), "{host}: {step:?}");
        }
    }
    assert_eq!(world.balancer(), old);
    made(&wish, &mut world);
}

#[test]
fn a_wish_that_is_taken_back_leaves_the_old_one() {
    let (mut wish, mut world) = outside();
    let first = world.balancer();
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    while world.actor.seen().balancers.len() < 2 {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    change(&mut world, &mut wish, |wish| wish.flavor = None);
    assert_eq!(world.balancer(), first);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
    assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
}

#[test]
fn without_a_quota_for_both_the_old_one_serves_on() {
    let (mut wish, mut world) = outside();
    let first = world.balancer();
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(1), ..ProjectQuota::default() });
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    assert_eq!((world.balancer(), behind_the_floating_ip(&mut world)), (first, wish.forwards()));
}

#[test]
fn a_successor_that_fails_is_made_again_within_the_budget() {
    let (mut wish, mut world) = outside();
    let first = world.balancer();
    for _ in 0..4 {
        world.cloud.expect(Fate::Fails);
        world.cloud.expect(Fate::Done);
    }
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    assert_eq!(world.run(), BalancerStep::Blocked(Block::RepairBudget));
    assert_eq!((world.balancer(), behind_the_floating_ip(&mut world)), (first, wish.forwards()));
    world.cloud.forget_expectations();
    world.advance(std::time::Duration::from_secs(3600));
    made(&wish, &mut world);
}

#[test]
fn at_a_fixed_address_the_old_one_goes_first_and_the_port_stays() {
    let (mut wish, mut world) =
        world(|wish| (wish.from_outside, wish.floating, wish.address) = (true, true, Some("10.0.0.50")));
    made(&wish, &mut world);
    let port = world.actor.balancer().unwrap().vip_port.clone();
    let changes = change(&mut world, &mut wish, |wish| wish.flavor = Some(FLAVOR));
    assert_eq!(kinds(&changes), ["Delete loadbalancer", "Create loadbalancer"]);
    assert_eq!(world.actor.balancer().unwrap().vip_port, port);
}

#[test]
fn in_another_project_everything_is_made_anew() {
    let (mut wish, mut world) = outside();
    change(&mut world, &mut wish, |wish| wish.project = "p2");
    let of_p2 = |rows: Vec<serde_json::Value>| rows.len() == 1 && rows[0]["project_id"] == json!("p2");
    assert!(of_p2(world.rows("/v2.0/ports", "ports", &[])));
    assert!(of_p2(world.rows("/v2.0/floatingips", "floatingips", &[])));
    assert!(of_p2(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[])));
}

#[test]
fn a_second_address_comes_with_the_port_or_without() {
    for outside in [true, false] {
        let (wish, mut world) = world(|wish| (wish.from_outside, wish.address) = (outside, Some("10.0.0.50")));
        let second = world.cloud.add_subnet_beside(&wish.subnet, "10.8.0.0/24");
        world.know_subnet(&second, "10.8.0.0/24");
        let mut wish = wish;
        wish.second = Some((second.clone(), "10.8.0.50"));
        world.actor.want(wish.entry());
        made(&wish, &mut world);
        assert_eq!(world.actor.balancer().unwrap().additional_vips, [(second.clone(), "10.8.0.50".to_owned())]);
        assert_eq!(world.actor.balancer().unwrap().vip_address, "10.0.0.50");
        world.sent.clear();
        world.restart();
        made(&wish, &mut world);
        assert_eq!(world.sent, []);
        // Another one cannot be had without another load balancer; our own port with it.
        change(&mut world, &mut wish, |wish| wish.second = Some((second, "10.8.0.51")));
        assert_eq!(world.actor.balancer().unwrap().additional_vips[0].1, "10.8.0.51");
        assert_eq!(world.rows("/v2.0/ports", "ports", &[]).len(), 1);
    }
}

#[test]
fn an_old_octavia_is_not_asked_for_a_second_address() {
    let (mut wish, mut world) = world(|wish| wish.address = Some("10.0.0.50"));
    world.facts.api_version.minor = 25;
    world.facts.api_version.major = 2;
    let second = world.cloud.add_subnet_beside(&wish.subnet, "10.8.0.0/24");
    world.know_subnet(&second, "10.8.0.0/24");
    wish.second = Some((second.clone(), "10.8.0.50"));
    world.actor.want(wish.entry());
    made(&wish, &mut world);
    assert!(world.actor.balancer().unwrap().additional_vips.is_empty());
    assert_eq!(world.actor.missing_address(&world.facts), None);
    // Nor is what serves replaced for it when Octavia was upgraded.
    world.facts.api_version.minor = 26;
    world.sent.clear();
    made(&wish, &mut world);
    assert_eq!(world.sent, []);
    assert!(world.actor.missing_address(&world.facts).is_some());
    // Octavia would refuse ranges of the second family.
    let ranges = ["192.0.2.0/24", "2001:db8::/32"].iter().map(|range| range.parse().unwrap()).collect();
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Only(ranges));
    let allowed = world.cloud.forwards(&world.balancer())[0].allowed.clone();
    assert_eq!(allowed.as_deref(), Some(&["192.0.2.0/24".to_owned()][..]));
    // The next one has both.
    change(&mut world, &mut wish, |wish| wish.clients = ClientRanges::Everyone);
    let path = format!("/v2/lbaas/loadbalancers/{}", world.balancer());
    world.by_hand(&SimRequest::delete(&path).with_query("cascade", "true"));
    world.actor.look_again();
    made(&wish, &mut world);
    assert_eq!(world.actor.balancer().unwrap().additional_vips, [(second, "10.8.0.50".to_owned())]);
    assert_eq!(world.actor.missing_address(&world.facts), None);
}

/// A writer is killed whose last request leads the floating IP to a successor, and comes late; its successor's wish is another
/// one.
#[test]
fn a_late_move_of_a_killed_writer_finds_its_load_balancer() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
    world.actor.want(wish.entry());
    world.cloud.provider_mut().update_time = Duration::from_secs(6);
    loop {
        let step = world.step();
        let moves = matches!(&step, BalancerStep::Change(CloudChange::UpdateFloatingIp { .. }));
        world.take(&step, if moves { Way::Late } else { Way::Arrives });
        if moves {
            break;
        }
    }
    wish.flavor = None;
    world.actor.want(wish.entry());
    world.restart();
    for _ in 0..100 {
        let step = world.step();
        world.take(&step, Way::Arrives);
        let floating = world.rows("/v2.0/floatingips", "floatingips", &[]).remove(0);
        let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
        assert!(balancers.iter().any(|row| row["vip_port_id"] == floating["port_id"]), "nowhere after {step:?}");
    }
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
}

/// A creation that came late has left an empty twin which is older than the load balancer behind the floating IP, and whose
/// predecessor is long gone.
#[test]
fn the_floating_ip_is_not_led_to_an_older_twin() {
    let (wish, mut world) = outside();
    let serving = world.balancer();
    let tags = ["gimbal-cluster:prod1", "k8s-cluster:c1", "k8s-svc-uid:u1", "gimbal-replaces:gone"];
    let body = json!({"loadbalancer": {"vip_subnet_id": wish.subnet, "project_id": "p1", "tags": tags}});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", body));
    let mut seen = world.look();
    for one in seen.balancers.iter_mut().filter(|one| one.id == serving) {
        one.created_at = "2036-01-01T00:00:00".into();
    }
    assert_eq!(seen.balancers.len(), 2);
    world.actor.looked(seen, world.cloud.now());
    assert_eq!(world.balancer(), serving);
    world.sent.clear();
    made(&wish, &mut world);
    assert_eq!(kinds(&world.sent), ["Delete loadbalancer"]);
    assert_eq!(world.balancer(), serving);
}

/// Takes steps up to and with the first change of this kind, which goes this way.
fn until(world: &mut World, way: Way, is: impl Fn(&CloudChange) -> bool) {
    loop {
        let step = world.step();
        let found = matches!(&step, BalancerStep::Change(change) if is(change));
        world.take(&step, if found { way } else { Way::Arrives });
        if found {
            return;
        }
    }
}

/// A writer is killed whose last request deletes a successor that is not wanted any more, and comes late; its successor wants it
/// again.
#[test]
fn a_late_deletion_of_a_killed_writer_does_not_meet_what_serves() {
    let (mut wish, mut world) = outside();
    for (flavor, way) in [(Some(FLAVOR), Way::Arrives), (None, Way::Late)] {
        wish.flavor = flavor;
        wish.generation += 1;
        world.actor.want(wish.entry());
        match way {
            Way::Arrives => {
                until(&mut world, way, |change| matches!(change, CloudChange::CreateBalancer { .. }));
                world.advance(Duration::from_secs(60));
                world.actor.look_again();
                // Long after the first look, nothing that was sent before it comes any more.
                let step = world.step();
                world.take(&step, Way::Arrives);
            }
            _ => until(&mut world, way, |change| matches!(change, CloudChange::DeleteBalancer { .. })),
        }
    }
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    world.restart();
    serves_until_it_is_done(&wish, &mut world);
}

/// Goes on to the end; the floating IP leads to what is wanted after each step.
fn serves_until_it_is_done(wish: &Wish, world: &mut World) {
    for _ in 0..100 {
        let step = world.step();
        world.take(&step, Way::Arrives);
        assert_eq!(behind_the_floating_ip(world), wish.forwards(), "after {step:?}");
    }
    assert_eq!(world.run_on(), BalancerStep::Done);
}

/// Right after a start nothing is deleted; what was made for an earlier wish does not hide what is made for this one.
#[test]
fn one_successor_is_made_where_another_one_is_left() {
    let (mut wish, mut world) = outside();
    wish.flavor = Some(FLAVOR);
    world.actor.want(wish.entry());
    until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::CreateBalancer { .. }));
    world.advance(Duration::from_secs(60));
    wish.flavor = Some("f0000000-0000-4000-8000-000000000001");
    world.actor.want(wish.entry());
    world.restart();
    world.sent.clear();
    for _ in 0..50 {
        let step = world.step();
        world.take(&step, Way::Arrives);
    }
    let made = world.sent.iter().filter(|change| matches!(change, CloudChange::CreateBalancer { .. })).count();
    assert_eq!(made, 1, "{:#?}", kinds(&world.sent));
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 1);
}

/// Routers take a moment until they follow the floating IP.
#[test]
fn the_old_one_stays_until_the_network_has_followed() {
    let (mut wish, mut world) = outside();
    wish.flavor = Some(FLAVOR);
    wish.generation += 1;
    world.actor.want(wish.entry());
    until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::UpdateFloatingIp { .. }));
    let moved = world.cloud.now();
    until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::DeleteBalancer { .. }));
    let took = world.cloud.now().saturating_sub(moved);
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(world.run_on(), BalancerStep::Done);
}

/// One deletion ends while another one is on its way: the former must not be taken for the effect of the latter.
#[test]
fn a_late_deletion_does_not_meet_what_serves_beside_another_one() {
    let (mut wish, mut world) = outside();
    let [second, third] = [Some(FLAVOR), Some("f0000000-0000-4000-8000-000000000001")];
    for flavor in [second, third] {
        wish.flavor = flavor;
        world.actor.want(wish.entry());
        // Nothing goes right after a start, so both stay.
        world.restart();
        until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::CreateBalancer { .. }));
    }
    wish.flavor = None;
    world.actor.want(wish.entry());
    world.advance(Duration::from_secs(60));
    world.actor.look_again();
    until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::DeleteBalancer { .. }));
    until(&mut world, Way::Late, |change| matches!(change, CloudChange::DeleteBalancer { .. }));
    let CloudChange::DeleteBalancer { id } = world.sent.last().unwrap().clone() else { unreachable!() };
    let flavor = world.actor.seen().balancers.iter().find(|one| one.id == id).unwrap().flavor.clone();
    wish.flavor = [second, third].into_iter().find(|one| one.is_some_and(|one| one == flavor)).unwrap();
    world.actor.want(wish.entry());
    serves_until_it_is_done(&wish, &mut world);
}

/// Somebody has led a floating IP to the port of the new one, and a port has one at a time.
#[test]
fn a_floating_ip_that_was_added_to_the_new_one_makes_way() {
    let (mut wish, mut world) = outside();
    wish.flavor = Some(FLAVOR);
    wish.generation += 1;
    world.actor.want(wish.entry());
    until(&mut world, Way::Arrives, |change| matches!(change, CloudChange::CreateBalancer { .. }));
    let new = world.actor.seen().balancers.last().unwrap().vip_port.clone();
    let network = world.facts.external.as_ref().unwrap().network.to_string();
    let body = json!({"floatingip": {"floating_network_id": network, "port_id": new, "project_id": "p1"}});
    let theirs = world.by_hand(&SimRequest::post("/v2.0/floatingips", body))["floatingip"]["id"].clone();
    for _ in 0..3 {
        world.advance(Duration::from_secs(60));
        world.actor.look_again();
        world.run_on();
    }
    made(&wish, &mut world);
    assert_eq!(world.actor.balancer().unwrap().vip_port, new);
    let rows = world.rows("/v2.0/floatingips", "floatingips", &[]);
    let of = |theirs_one: bool| rows.iter().find(|row| (row["id"] == theirs) == theirs_one).unwrap()["port_id"].clone();
    assert_eq!((of(false), of(true)), (json!(new), json!(null)));
}

/// Who may connect is set at the former one, too: by a provider that knows no ranges it is closed, and nothing is learned from that
/// about the one that is wanted.
#[test]
fn ranges_that_the_former_one_cannot_have_are_not_asked_for_all_the_time() {
    for is_other in [true, false] {
        let (mut wish, mut world) = world(|wish| {
            (wish.from_outside, wish.floating, wish.provider) = (true, true, Some("lab"));
        });
        made(&wish, &mut world);
        world.cloud.provider_mut().allowed_cidrs = false;
        world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(1), ..ProjectQuota::default() });
        if is_other {
            wish.provider = Some("other");
            world.cloud.provider_mut().name = "other".into();
        } else {
            wish.flavor = Some(FLAVOR);
        }
        wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
        (wish.generation, wish.known) = (2, true);
        world.sent.clear();
        world.actor.want(wish.entry());
        world.run_for(Duration::from_secs(120));
        let asks = |change: &&CloudChange| match change {
            CloudChange::UpdateListener { fields, .. } => fields.get("allowed_cidrs").is_some(),
            _ => false,
        };
        assert_eq!(world.sent.iter().filter(asks).count(), 1, "{is_other}: {:#?}", world.sent);
        assert_eq!(world.missing.iter().any(|one| one.ability == CloudAbility::ClientRanges), !is_other);
        assert_eq!(behind_the_floating_ip(&mut world), [], "no client connects that may not");
        if is_other {
            world.cloud.provider_mut().allowed_cidrs = true;
            world.cloud.set_quota("p1", ProjectQuota::default());
            world.run_for(Duration::from_secs(900));
            made(&wish, &mut world);
            assert_eq!(behind_the_floating_ip(&mut world), wish.forwards());
        }
    }
}
