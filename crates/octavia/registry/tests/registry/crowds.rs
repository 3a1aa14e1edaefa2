//! Many owners, owners that alternate, and clocks that jump.

use gimbal_octavia_plan::{ApiService, CloudChange};
use gimbal_octavia_registry::CloudRead;

use crate::wish::{Wish, key};
use crate::world::{MS, SECOND, Way, World};

/// A Service that is deleted and made again under its name, over and over: none is left behind, and others have their turns.
#[test]
fn owners_that_alternate_under_one_name_leave_nothing_and_starve_nobody() {
    let mut world = World::usual();
    let web = key("shop", "web");
    for nth in 0..120 {
        world.want("prod1", web.clone(), Wish::new(["u1", "u2"][nth % 2], &world.subnet));
        world.run(700 * MS);
        if nth == 60 {
            world.want("prod1", key("other", "web"), Wish::new("other", &world.subnet));
        }
    }
    assert_eq!(world.balancers_of("other").len(), 1);
    assert!(world.sent.len() < 130, "{}", world.sent.len());
    world.converge(200 * SECOND);
    world.run(900 * SECOND);
    assert_eq!((world.balancers_of("u1").len(), world.balancers_of("u2").len()), (0, 1));
}

/// The machine sleeps for an hour: what is due is done once, and nothing for each time that it was missed.
#[test]
fn a_clock_that_jumps_an_hour_costs_one_round_of_lists() {
    let mut world = World::at_rest(20);
    for heard in [true, false] {
        world.sent.clear();
        if heard {
            // The heartbeat was the last that came.
            let now = world.now();
            world.writers[0].registry.heard("prod1", now);
        }
        world.cloud.advance(3_600 * SECOND);
        world.reads.clear();
        world.run(30 * SECOND);
        assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
        // Each is looked at once an hour anyway: its members, its ports, and its floating IP.
        assert!(
            world.reads.len() <= 6 + 20 * 3,
            "{}: {:?}",
            world.reads.len(),
            world.reads.iter().map(|(_, read)| &read.path).collect::<Vec<_>>()
        );
        world.converge(SECOND);
    }
}

#[test]
fn thousands_after_a_restart_cost_one_read_each_and_a_new_one_is_not_behind_them() {
    const COUNT: usize = 1_200;
    let mut world = World::usual();
    for nth in 0..COUNT {
        let owner = format!("u{nth}");
        let tags =
            ["gimbal-cluster:prod1".to_owned(), "k8s-cluster:uid-prod1".to_owned(), format!("k8s-svc-uid:{owner}")];
        let balancer = serde_json::json!({"loadbalancer": {"name": format!("shop/s{nth}"), "project_id": "p1",
            "vip_subnet_id": world.subnet, "tags": tags, "description": tags.join(" ")}});
        world.by_hand(&gimbal_octavia_sim::SimRequest::post("/v2/lbaas/loadbalancers", balancer));
        let mut wish = Wish::new(&owner, &world.subnet);
        (wish.ports, wish.members, wish.known) = (Vec::new(), Vec::new(), true);
        world.wishes.insert(("prod1".to_owned(), key("shop", &format!("s{nth}"))), wish);
    }
    world.cloud.advance(60 * SECOND);
    world.restart(0);
    world.run(SECOND / 5);
    world.want("prod1", key("few", "web"), Wish::new("few", &world.subnet));
    world.run(SECOND / 2);
    let is_made = world.sent.iter().any(|sent| format!("{:?}", sent.change).contains("k8s-svc-uid:few"));
    assert!(is_made, "it waits for those that are looked at: {}", world.reads.len());
    world.run(60 * SECOND);
    assert!(world.is_converged());
    let changes = |change: &CloudChange| !matches!(change, CloudChange::CreateBalancer { .. });
    assert_eq!(world.sent.iter().filter(|sent| changes(&sent.change)).count(), 0, "{:#?}", world.last_sent());
    let reads = world.reads.len();
    assert!(reads <= COUNT + COUNT / 50 + 60, "{reads}");
}

#[test]
fn lists_that_are_over_before_the_entries_come_are_still_of_use() {
    let mut world = World::at_rest(100);
    world.sent.clear();
    world.reads.clear();
    world.restart_before_entries(0);
    world.run(60 * SECOND);
    assert!(world.is_converged());
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    // Its members and its port; the lists show the rest.
    assert!(world.reads.len() <= 100 * 2 + 20, "{}", world.reads.len());
}

/// An entry that cannot be read keeps a snapshot incomplete for as long as it is there.
#[test]
fn lists_do_not_wait_for_entries_that_never_come() {
    let mut world = World::at_rest(1);
    world.kill(0);
    world.open(0, "prod1");
    world.run(11 * SECOND);
    world.reads.clear();
    let now = world.now();
    for ((_, key), wish) in world.wishes.clone() {
        world.writers[0].registry.want("prod1", key, wish.entry(), now);
    }
    world.run(SECOND);
    assert!(!world.reads.is_empty(), "it looks alone");
}

/// Whoever has its port waits in line for a while; lists that come meanwhile show nothing of it, as is known.
#[test]
fn lists_that_come_while_many_are_made_cost_no_look_at_each() {
    const MANY: usize = 200;
    let mut world = World::usual();
    world.converge(SECOND);
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Slow));
    world.reads.clear();
    for nth in 0..MANY {
        let wish = Wish { from_outside: true, ..Wish::new(&format!("u{nth}"), &world.subnet) };
        world.want("prod1", key("many", &format!("s{nth}")), wish);
    }
    world.converge(600 * SECOND);
    let lists = world.reads.iter().filter(|(_, read)| read.is_long && read.path == "loadbalancers").count();
    assert!(lists > 1, "lists come meanwhile");
    let by_owner = |read: &CloudRead| read.path == "loadbalancers" && read.query[0].1.contains("k8s-svc-uid");
    let looks = world.reads.iter().filter(|(_, read)| by_owner(read)).count();
    assert!(looks <= MANY, "{looks} looks at {MANY} that are new");
}

/// Whoever waits to be made has been looked at, and what was seen grows old: few are looked at before there is room for them.
#[test]
fn the_first_of_many_are_made_before_the_last_are_looked_at() {
    let mut world = World::usual();
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Slow));
    for nth in 0..400 {
        let wish = Wish { from_outside: true, ..Wish::new(&format!("u{nth}"), &world.subnet) };
        world.want("prod1", key("many", &format!("s{nth}")), wish);
    }
    let created =
        |world: &World, is_it: fn(&CloudChange) -> bool| world.sent.iter().filter(|sent| is_it(&sent.change)).count();
    let balancers = |world: &World| created(world, |change| matches!(change, CloudChange::CreateBalancer { .. }));
    world.run_until(120 * SECOND, "the first are made", |world| balancers(world) >= 20);
    let ports = created(&world, |change| matches!(change, CloudChange::CreatePort { .. }));
    assert!(ports <= 80, "{ports} ports before 20 load balancers");
    assert!(world.reads.len() <= 400, "{} reads before 20 load balancers", world.reads.len());
    world.converge(600 * SECOND);
    assert!(world.reads.len() < 3_300, "{} reads for 400 load balancers", world.reads.len());
}

/// A cluster that was in quarantine: all of its owners stand in line at once.
#[test]
fn a_namespace_of_which_nothing_stands_in_line_is_looked_at_at_once() {
    let mut world = World::usual();
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Slow));
    let quarantine = |world: &mut World, quarantine| {
        let settings = world.clusters.get_mut("prod1").unwrap();
        settings.quarantine = quarantine;
        let (settings, now) = (settings.clone(), world.now());
        world.writers[0].registry.set_cluster(settings, now);
    };
    quarantine(&mut world, true);
    world.want_many("prod1", "many", 100);
    world.run(10 * SECOND);
    quarantine(&mut world, false);
    world.run(SECOND);
    world.want("prod1", key("few", "web"), Wish::new("few", &world.subnet));
    world.run_until(5 * SECOND, "it has one", |world| !world.balancers_of("few").is_empty());
}

/// Who waits for room says so after a while, with what keeps the others.
#[test]
fn who_waits_to_be_made_is_reported_and_explained() {
    let mut world = World::usual();
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Throttled));
    world.want_many("prod1", "many", 40);
    world.run(30 * SECOND);
    let waits = |world: &World, nth: usize| world.phase("prod1", &key("many", &format!("s{nth}")));
    let silent = (0..40).filter(|nth| waits(&world, *nth).is_none()).count();
    assert_eq!(silent, 0, "nothing is reported of {silent}");
    let now = world.now();
    let explained = |nth: usize| {
        let key = key("many", &format!("s{nth}"));
        world.writers[0].registry.explain("prod1", &key, now).unwrap().next
    };
    let words: Vec<String> = (0..40).map(explained).collect();
    assert!(words.iter().any(|words| words.contains("room for one more")), "{words:?}");
}

#[test]
fn members_do_not_wait_for_a_crowd_of_floating_ips() {
    let mut world = World::at_rest(1);
    for nth in 0..40 {
        let mut wish = Wish::new(&format!("f{nth}"), &world.subnet);
        (wish.from_outside, wish.floating) = (true, true);
        world.want("prod1", key("crowd", &format!("f{nth}")), wish);
    }
    world.converge(600 * SECOND);
    world.clusters.get_mut("prod1").unwrap().mutations_per_second = 2;
    world.connect(0, "prod1");
    world.run(SECOND);
    for nth in 0..40 {
        world.change("prod1", &key("crowd", &format!("f{nth}")), |wish| wish.floating = false);
    }
    world.run(SECOND);
    world.change("prod1", &key("shop", "s0"), |wish| wish.members.push((9, 80)));
    world.sent.clear();
    world.run(6 * SECOND);
    let puts = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::SetMembers { .. })).count();
    assert_eq!(puts, 1, "{:?}", world.last_sent());
    assert!(world.sent.len() > 4, "the crowd goes on: {:?}", world.last_sent());
}

/// Twenty that are served, each with a floating IP.
fn with_floating_ips() -> World {
    let mut world = World::at_rest(0);
    for nth in 0..20 {
        let mut wish = Wish::new(&format!("f{nth}"), &world.subnet);
        (wish.from_outside, wish.floating) = (true, true);
        world.want("prod1", key("crowd", &format!("f{nth:02}")), wish);
    }
    world.converge(600 * SECOND);
    world
}

/// Its own floating IP waits in that line, too.
#[test]
fn members_do_not_wait_for_neutron_that_asks_for_a_pause() {
    for is_in_line_before in [false, true] {
        let mut world = with_floating_ips();
        world.way_of = Some(|change| (change.request().service == ApiService::Neutron).then_some(Way::Throttled));
        for nth in 0..20 {
            world.change("prod1", &key("crowd", &format!("f{nth:02}")), |wish| wish.floating = false);
        }
        if is_in_line_before {
            world.run(SECOND / 2);
        }
        world.change("prod1", &key("crowd", "f19"), |wish| wish.members.push((9, 80)));
        world.sent.clear();
        world.run(3 * SECOND);
        let puts = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::SetMembers { .. })).count();
        assert_eq!(puts, 1, "{is_in_line_before}: {:#?}", world.last_sent());
        world.way_of = None;
        world.converge(600 * SECOND);
    }
}

/// Its members wait in that of Octavia.
#[test]
fn a_floating_ip_does_not_wait_for_octavia_that_asks_for_a_pause() {
    let mut world = with_floating_ips();
    world.way_of = Some(|change| (change.request().service == ApiService::Octavia).then_some(Way::Throttled));
    for nth in 0..20 {
        world.change("prod1", &key("crowd", &format!("f{nth:02}")), |wish| {
            wish.floating = false;
            wish.members.push((9, 80));
        });
    }
    world.sent.clear();
    world.run(3 * SECOND);
    let led_away = |sent: &&crate::world::SentChange| matches!(sent.change, CloudChange::UpdateFloatingIp { .. });
    assert_eq!(world.sent.iter().filter(led_away).count(), 20, "{:#?}", world.last_sent());
    world.way_of = None;
    world.converge(600 * SECOND);
}
