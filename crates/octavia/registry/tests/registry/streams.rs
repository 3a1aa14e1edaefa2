//! Streams that are lost and come back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use gimbal_kuryr_model::Phase;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::wish::{Wish, key};
use crate::world::{SECOND, Way, World};

fn made() -> World {
    let mut world = World::usual();
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    world.converge(60 * SECOND);
    world.status_written("prod1", &key("shop", "web"));
    world.run(130 * SECOND);
    world.sent.clear();
    world.reads.clear();
    world
}

fn delete_by_hand(world: &mut World) {
    let id = world.balancers_of("u1").remove(0);
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true"));
    world.cloud.advance(60 * SECOND);
}

#[test]
fn a_silent_stream_freezes_everything_and_what_happened_meanwhile_is_repaired_when_it_is_back() {
    for ended in [false, true] {
        let mut world = made();
        if ended {
            world.disconnect(0, "prod1");
        } else {
            world.silence(0, "prod1");
        }
        world.run(11 * SECOND);
        delete_by_hand(&mut world);
        world.reads.clear();
        world.run(1_800 * SECOND);
        assert_eq!((world.sent.len(), world.reads.len()), (0, 0), "ended: {ended}");
        world.connect(0, "prod1");
        world.converge(40 * SECOND);
    }
}

#[test]
fn a_load_balancer_that_was_deleted_by_hand_is_back_within_a_minute() {
    let mut world = made();
    delete_by_hand(&mut world);
    // The next lists show it, and it takes Octavia twenty seconds.
    world.converge(85 * SECOND);
    let creations = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::CreateBalancer { .. }));
    assert_eq!(creations.count(), 1);
    let now = world.now();
    assert_eq!(world.writers[0].registry.counts(now).drift, 1);
}

#[test]
fn a_load_balancer_that_is_deleted_before_any_list_showed_it_is_back_as_well() {
    let mut world = World::usual();
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    world.converge(60 * SECOND);
    delete_by_hand(&mut world);
    world.converge(85 * SECOND);
}

#[test]
fn what_somebody_added_goes_also_where_a_look_came_between_the_first_and_the_second() {
    let mut world = made();
    let id = world.balancers_of("u1").remove(0);
    let pool = world.row(&id)["pools"][0]["id"].as_str().unwrap().to_owned();
    let members = format!("/v2/lbaas/pools/{pool}/members");
    let stranger = json!({"member": {"address": "10.9.9.1", "protocol_port": 80}});
    world.by_hand(&SimRequest::post(&members, stranger));
    world.cloud.advance(2 * SECOND);
    let is_there = |world: &mut World| world.rows(&members, "members").iter().any(|row| row["address"] == "10.9.9.1");
    // The next lists show it. Then it is looked at once more, for its status was wiped.
    world.run(64 * SECOND);
    world.change("prod1", &key("shop", "web"), |wish| wish.known = false);
    world.run(20 * SECOND);
    world.status_written("prod1", &key("shop", "web"));
    assert!(is_there(&mut world));
    world.run(120 * SECOND);
    assert!(!is_there(&mut world));
}

#[test]
fn what_somebody_changed_is_set_back_and_what_he_added_goes_a_minute_later() {
    let mut world = made();
    let id = world.balancers_of("u1").remove(0);
    let pool = world.row(&id)["pools"][0]["id"].as_str().unwrap().to_owned();
    let members = format!("/v2/lbaas/pools/{pool}/members");
    let rows = world.rows(&members, "members");
    let member = rows[0]["id"].as_str().unwrap().to_owned();
    world.by_hand(&SimRequest::put(&format!("{members}/{member}"), json!({"member": {"weight": 9}})));
    world.cloud.advance(2 * SECOND);
    for (address, tags) in [("10.9.9.1", json!([])), ("10.9.9.2", json!(["gimbal:keep"]))] {
        let stranger = json!({"member": {"address": address, "protocol_port": 80, "weight": 5, "tags": tags}});
        world.by_hand(&SimRequest::post(&members, stranger));
        world.cloud.advance(2 * SECOND);
    }
    let targets = |world: &World| {
        let targets = &world.cloud.forwards(&id)[0].targets;
        targets.iter().map(|one| (one.address.clone(), one.weight)).collect::<Vec<_>>()
    };
    world.run(64 * SECOND);
    let seen = targets(&world);
    assert!(seen.len() == 5 && seen.iter().all(|(_, weight)| *weight != 9), "{seen:?}");
    world.run(130 * SECOND);
    let seen = targets(&world);
    assert!(seen.len() == 4 && seen.contains(&("10.9.9.2".into(), 5)), "{seen:?}");
    world.sent.clear();
    world.run(300 * SECOND);
    assert_eq!(world.sent.len(), 0);
}

#[test]
fn a_floating_ip_that_somebody_added_leads_nowhere_a_minute_later() {
    let mut world = made();
    let mut outside = Wish::new("u2", &world.subnet);
    (outside.from_outside, outside.floating) = (true, true);
    world.want("prod1", key("shop", "outside"), outside);
    world.converge(60 * SECOND);
    let ours = world.rows("/v2.0/floatingips", "floatingips").remove(0);
    let id = world.balancers_of("u1").remove(0);
    let port = world.row(&id)["vip_port_id"].clone();
    let body = json!({"floatingip": {"floating_network_id": ours["floating_network_id"], "project_id": "p1",
        "description": "mine", "port_id": port}});
    let added = world.by_hand(&SimRequest::post("/v2.0/floatingips", body))["floatingip"]["id"].clone();
    let leads = |world: &mut World| {
        let rows = world.rows("/v2.0/floatingips", "floatingips");
        rows.into_iter().filter(|row| row["port_id"].is_string()).map(|row| row["id"].clone()).collect::<Vec<_>>()
    };
    world.run(40 * SECOND);
    assert!(leads(&mut world).contains(&added), "it is not clear yet whether it stays");
    world.run(200 * SECOND);
    assert_eq!(leads(&mut world), [ours["id"].clone()]);
}

#[test]
fn a_floating_ip_that_somebody_frees_serves_within_two_minutes() {
    for is_deleted in [false, true] {
        let mut world = World::usual();
        let network = world.facts.external.as_ref().unwrap().network.to_string();
        let port = json!({"port": {"fixed_ips": [{"subnet_id": world.subnet}], "project_id": "p1"}});
        let port = world.by_hand(&SimRequest::post("/v2.0/ports", port))["port"]["id"].clone();
        let theirs = json!({"floatingip": {"floating_network_id": network, "project_id": "p1", "port_id": port}});
        let theirs = world.by_hand(&SimRequest::post("/v2.0/floatingips", theirs))["floatingip"].clone();
        let mut wish = Wish::new("u1", &world.subnet);
        (wish.floating, wish.from_outside) = (true, true);
        wish.floating_address = Some(theirs["floating_ip_address"].as_str().unwrap().to_owned());
        world.want("prod1", key("shop", "web"), wish);
        world.run(700 * SECOND);
        let path = format!("/v2.0/floatingips/{}", theirs["id"].as_str().unwrap());
        let freed = match is_deleted {
            true => SimRequest::delete(&path),
            false => SimRequest::put(&path, json!({"floatingip": {"port_id": null}})),
        };
        world.by_hand(&freed);
        world.run(120 * SECOND);
        let vip = world.balancers_of("u1").remove(0);
        let vip = world.row(&vip)["vip_port_id"].clone();
        let rows = world.rows("/v2.0/floatingips", "floatingips");
        assert!(rows.iter().any(|row| row["port_id"] == vip), "deleted: {is_deleted}: {rows:?}");
    }
}

#[test]
fn another_writer_takes_over_and_changes_nothing() {
    let mut world = made();
    world.add_writer();
    world.connect(1, "prod1");
    world.silence(0, "prod1");
    world.run(300 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.change("prod1", &key("shop", "web"), |wish| wish.members = vec![(9, 80)]);
    world.converge(10 * SECOND);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn the_end_is_said_again_if_it_was_wanted_in_between() {
    let mut world = made();
    let web = key("shop", "web");
    world.change("prod1", &web, |wish| wish.deleting = true);
    world.converge(60 * SECOND);
    // Its creation is under way, and nothing was reported of it, when it is to be deleted again.
    world.change("prod1", &web, |wish| (wish.deleting, wish.known) = (false, true));
    world.run(SECOND);
    assert_eq!(world.balancers_of("u1").len(), 1);
    world.reports.clear();
    world.change("prod1", &web, |wish| wish.deleting = true);
    world.converge(60 * SECOND);
}

#[test]
fn on_a_new_stream_the_end_is_said_again_after_another_look() {
    let mut world = made();
    let web = key("shop", "web");
    world.change("prod1", &web, |wish| wish.deleting = true);
    world.converge(60 * SECOND);
    world.disconnect(0, "prod1");
    world.run(20 * SECOND);
    world.reads.clear();
    world.reports.clear();
    // The controller wants the same as before, so nothing is wanted anew.
    let now = world.now();
    world.writers[0].streams.push("prod1".to_owned());
    world.writers[0].registry.heard("prod1", now);
    world.writers[0].registry.set_current("prod1", true, true);
    world.run_until(30 * SECOND, "it is said again", |world| world.phase("prod1", &web) == Some(Phase::Gone));
    let looks = world.reads.iter().filter(|(_, read)| format!("{read:?}").contains("k8s-svc-uid:u1")).count();
    assert!(looks > 0, "{:?}", world.reads);
}

#[test]
fn what_waits_while_nothing_may_be_changed_can_be_deleted() {
    let mut world = World::new(0);
    world.add_cluster("prod1").quarantine = true;
    world.add_writer();
    world.connect(0, "prod1");
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    world.run(30 * SECOND);
    world.change("prod1", &key("shop", "web"), |wish| wish.deleting = true);
    world.run_until(30 * SECOND, "gone", |world| world.phase("prod1", &key("shop", "web")) == Some(Phase::Gone));
    assert_eq!(world.sent.len(), 0);
}

#[test]
fn what_a_former_stream_wanted_is_not_made_before_the_new_one_says_so() {
    let mut world = made();
    world.disconnect(0, "prod1");
    delete_by_hand(&mut world);
    world.wishes.clear();
    let now = world.now();
    // It is heard, and has not said yet what it wants.
    world.writers[0].streams.push("prod1".to_owned());
    world.writers[0].registry.heard("prod1", now);
    world.run(200 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.connect(0, "prod1");
    world.run(200 * SECOND);
    assert_eq!((world.sent.len(), world.balancers_of("u1").len()), (0, 0), "{:#?}", world.last_sent());
}

/// It may be days old: another writer has had the stream since, and this one says everything but what became of it.
#[test]
fn what_a_stream_cannot_speak_of_is_looked_at_and_not_changed() {
    let mut world = made();
    let web = key("shop", "web");
    world.disconnect(0, "prod1");
    delete_by_hand(&mut world);
    let now = world.now();
    world.writers[0].streams.push("prod1".to_owned());
    world.writers[0].registry.heard("prod1", now);
    world.writers[0].registry.doubt("prod1", [web.clone()]);
    world.writers[0].registry.set_current("prod1", true, false);
    world.reads.clear();
    world.run(200 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    assert!(world.reads.iter().any(|(_, read)| format!("{read:?}").contains("k8s-svc-uid:u1")), "{:?}", world.reads);
    let explained = world.writers[0].registry.explain("prod1", &web, now).unwrap();
    assert_eq!(explained.next, "waits until its controller says that it is still wanted");
    world.writers[0].registry.namespaces_proven("prod1", Some(&["other".into()]));
    world.run(70 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.writers[0].registry.namespaces_proven("prod1", Some(&["shop".into()]));
    world.converge(60 * SECOND);
}

/// The next stream holds just what this one did, and so it says nothing about any entry.
#[test]
fn what_a_stream_could_not_speak_of_is_repaired_under_the_next_one_that_holds_the_same() {
    let mut world = made();
    let web = key("shop", "web");
    world.disconnect(0, "prod1");
    delete_by_hand(&mut world);
    let now = world.now();
    world.writers[0].streams.push("prod1".to_owned());
    world.writers[0].registry.heard("prod1", now);
    world.writers[0].registry.doubt("prod1", [web]);
    world.writers[0].registry.set_current("prod1", true, false);
    world.run(200 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.disconnect(0, "prod1");
    let now = world.now();
    world.writers[0].streams.push("prod1".to_owned());
    world.writers[0].registry.heard("prod1", now);
    world.writers[0].registry.set_current("prod1", true, true);
    world.converge(120 * SECOND);
}

/// What the others want together with it would take its ports away, or bring them back.
#[test]
fn a_group_is_not_changed_while_one_of_its_entries_may_be_out_of_date() {
    let mut world = crate::sharing::two();
    let (a, b) = (crate::sharing::at("a"), crate::sharing::at("b"));
    world.disconnect(0, "prod1");
    world.connect(0, "prod1");
    world.writers[0].registry.doubt("prod1", [a.clone()]);
    world.sent.clear();
    world.change("prod1", &b, |wish| wish.members = vec![(9, 81)]);
    world.run(130 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.writers[0].registry.entry_proven("prod1", &a);
    world.converge(60 * SECOND);
}

/// The writer is killed in the middle of a creation, whose row appears only when the next one has looked.
#[test]
fn what_a_killed_writer_has_asked_for_and_appears_late_is_not_made_twice() {
    let kinds: [fn(&CloudChange) -> Option<Way>; 3] = [
        |change| matches!(change, CloudChange::CreatePort { .. }).then_some(Way::Late),
        |change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Late),
        |change| matches!(change, CloudChange::CreateFloatingIp { .. }).then_some(Way::Late),
    ];
    for (nth, way_of) in kinds.into_iter().enumerate() {
        let mut world = World::usual();
        world.way_of = Some(way_of);
        let mut wish = Wish::new("u1", &world.subnet);
        (wish.from_outside, wish.floating) = (true, true);
        world.want("prod1", key("shop", "web"), wish);
        let count = |world: &World| world.sent.iter().filter(|sent| way_of(&sent.change).is_some()).count();
        world.run_until(60 * SECOND, "it is sent", |world| count(world) > 0);
        world.restart(0);
        world.converge(90 * SECOND);
        assert_eq!(count(&world), 1, "{nth}");
        let left = world.left_of("prod1");
        let of = |kind: &str| left.iter().filter(|one| one.starts_with(kind)).count();
        assert_eq!((of("loadbalancers"), of("ports"), of("floatingips")), (1, 1, 1), "{nth}: {left:?}");
    }
}

/// Its owner is forgotten by whoever hears that nothing is left, so that must not be said while something may still appear.
#[test]
fn what_a_killed_writer_has_asked_for_is_awaited_before_its_owner_is_gone() {
    let kinds: [fn(&CloudChange) -> Option<Way>; 3] = [
        |change| matches!(change, CloudChange::CreatePort { .. }).then_some(Way::Late),
        |change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Late),
        |change| matches!(change, CloudChange::CreateFloatingIp { .. }).then_some(Way::Late),
    ];
    for (nth, way_of) in kinds.into_iter().enumerate() {
        for from_outside in [true, false] {
            let mut world = World::usual();
            world.way_of = Some(way_of);
            let (web, mut wish) = (key("shop", "web"), Wish::new("u1", &world.subnet));
            (wish.from_outside, wish.floating) = (from_outside, from_outside);
            if !from_outside && nth != 1 {
                continue;
            }
            world.want("prod1", web.clone(), wish);
            let count = |world: &World| world.sent.iter().filter(|sent| way_of(&sent.change).is_some()).count();
            world.run_until(60 * SECOND, "it is sent", |world| count(world) > 0);
            world.wishes.values_mut().for_each(|wish| wish.deleting = true);
            world.restart(0);
            world.run_until(90 * SECOND, "gone", |world| world.phase("prod1", &web) == Some(Phase::Gone));
            assert_eq!(world.left_of("prod1"), [""; 0], "{nth} {from_outside}");
            world.run(15 * SECOND);
            assert_eq!(world.left_of("prod1"), [""; 0], "{nth} {from_outside}: came late");
        }
    }
}

/// The first read of a look shows nothing of what the last one would.
#[test]
fn a_look_that_began_too_early_proves_nothing_however_late_it_ends() {
    let is_late = |change: &CloudChange| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Late);
    let mut world = World::usual();
    world.way_of = Some(is_late);
    let (web, mut wish) = (key("shop", "web"), Wish::new("u1", &world.subnet));
    wish.from_outside = true;
    world.want("prod1", web.clone(), wish);
    let count = |world: &World| world.sent.iter().filter(|sent| is_late(&sent.change).is_some()).count();
    world.run_until(60 * SECOND, "it is sent", |world| count(world) > 0);
    world.wishes.values_mut().for_each(|wish| wish.deleting = true);
    world.slow_reads = Some(|read| {
        let is_of_a_look = read.query.iter().any(|(key, _)| *key == "description");
        (read.resource == "port" && is_of_a_look).then_some(15 * SECOND)
    });
    world.restart(0);
    world.run_until(180 * SECOND, "gone", |world| world.phase("prod1", &web) == Some(Phase::Gone));
    world.run(15 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

#[test]
fn what_is_wanted_first_while_a_stream_goes_on_waits_for_nobody() {
    let mut world = World::usual();
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    world.run(SECOND);
    assert_eq!(world.sent.len(), 1);
}

/// Neither endpoints nor what is new wait for the slowest list of a cloud.
#[test]
fn one_slow_list_holds_up_nothing_that_does_not_need_it() {
    for restarts in [false, true] {
        let mut world = made();
        world.slow_reads = Some(|read| (read.is_long && read.resource == "listener").then_some(170 * SECOND));
        if restarts {
            world.restart(0);
        } else {
            world.disconnect(0, "prod1");
            world.run(SECOND);
            world.connect(0, "prod1");
        }
        world.run(2 * SECOND);
        let new = Wish::new("u2", &world.subnet);
        world.want("prod1", key("shop", "new"), new);
        if !restarts {
            world.change("prod1", &key("shop", "web"), |wish| wish.members[0].0 = 9);
        }
        world.converge(60 * SECOND);
    }
}

/// One of twenty reads is refused, and a look at fifty pools has more than fifty.
#[test]
fn a_look_at_much_ends_although_some_of_its_reads_fail() {
    static READS: AtomicUsize = AtomicUsize::new(0);
    let mut world = World::usual();
    let mut wish = Wish::new("u1", &world.subnet);
    wish.ports = (1..=50).collect();
    wish.members = wish.ports.iter().map(|port| (1, *port)).collect();
    world.want("prod1", key("shop", "web"), wish);
    world.converge(600 * SECOND);
    world.closed_lists = Some(|read| {
        let is_nth = || READS.fetch_add(1, Ordering::Relaxed) % 20 == 19;
        read.path.ends_with("/members") && is_nth()
    });
    world.restart(0);
    world.reads.clear();
    world.change("prod1", &key("shop", "web"), |wish| wish.members[0].0 = 9);
    world.converge(60 * SECOND);
    assert!(READS.load(Ordering::Relaxed) > 20, "some failed");
    let mut at_once = BTreeMap::new();
    for (at, _) in world.reads.iter().filter(|(_, read)| read.path.ends_with("/members")) {
        *at_once.entry(*at).or_insert(0) += 1;
    }
    assert!(at_once.values().all(|count| *count <= 6), "others have their turn: {at_once:?}");
}
