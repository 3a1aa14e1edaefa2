//! Limits, quotas, turns, and who is stuck.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_plan::{ApiService, CloudChange};
use gimbal_octavia_registry::{CallAnswer, CloudCall, RegistryEvent};
use gimbal_octavia_sim::{Fate, ProjectQuota, SimRequest};
use serde_json::json;

use crate::wish::{Wish, going, key};
use crate::world::{SECOND, Way, World};

#[test]
fn two_creations_at_a_time_in_a_project_and_everybody_in_turn() {
    let mut world = World::usual();
    world.add_cluster("prod2");
    world.connect(0, "prod2");
    world.want_many("prod1", "many", 150);
    world.run(SECOND / 2);
    world.want("prod1", key("few", "web"), Wish::new("few", &world.subnet));
    world.want("prod2", key("other", "web"), Wish::new("other", &world.subnet));
    world.run(SECOND / 2);
    let made = world.balancers().len();
    assert!(made < 148, "{made}: nothing to wait for");
    assert_eq!((world.balancers_of("few").len(), world.balancers_of("other").len()), (1, 1));
    world.converge(300 * SECOND);
    assert_eq!(world.most_creating, 2);
}

#[test]
fn a_creation_waits_for_its_project_alone() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    world.want_many("prod1", "many", 100);
    let mut wish = Wish::new("elsewhere", &world.subnet);
    wish.project = "p2".to_owned();
    world.want("prod1", key("few", "elsewhere"), wish);
    world.run(SECOND / 2);
    assert_eq!(world.balancers_of("elsewhere").len(), 1);
}

#[test]
fn no_second_sees_more_changes_than_the_policy_allows() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().mutations_per_second = 3;
    world.connect(0, "prod1");
    world.want_many("prod1", "many", 60);
    world.run(10 * SECOND);
    assert!((30..=34).contains(&world.sent.len()), "{}", world.sent.len());
}

#[test]
fn what_is_pending_for_ever_is_told_and_stops_nobody_else() {
    let mut world = World::usual();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
    world.converge(60 * SECOND);
    world.cloud.expect(Fate::Stalls);
    world.change("prod1", &web, |wish| wish.members.push((4, 80)));
    world.run(SECOND);
    world.want_many("prod1", "other", 10);
    world.run(120 * SECOND);
    assert_eq!(
        world.wishes.keys().filter(|(cluster, key)| world.phase(cluster, key) == Some(Phase::Ready)).count(),
        10
    );
    assert_eq!(world.phase("prod1", &web), Some(Phase::Making));
    world.reads.clear();
    world.run(900 * SECOND);
    assert_eq!(world.phase("prod1", &web), Some(Phase::Degraded));
    assert_eq!(world.conditions("prod1", &web), ["Degraded/Stuck"]);
    assert!(world.events.iter().any(|event| matches!(event, RegistryEvent::Stuck { .. })));
    // A look every five seconds, then one a minute.
    let looks = world.reads.iter().filter(|(_, read)| !read.list).count();
    assert!(looks < 200, "{looks}");
}

/// Octavia's health manager fails it over, for instance. When that began is not known.
#[test]
fn what_somebody_else_has_begun_is_not_stuck_and_says_nothing_about_our_changes() {
    for minutes in [2, 20] {
        let mut world = World::at_rest(1);
        let web = key("shop", "s0");
        // Lists show what its answer did, so that nothing is looked at.
        world.change("prod1", &web, |wish| wish.members.push((6, 80)));
        world.converge(10 * SECOND);
        world.run(minutes * 60 * SECOND);
        let id = world.balancers_of("prod1-shop-0").remove(0);
        world.cloud.expect(Fate::DoneAfter(30 * SECOND));
        let same = json!({"loadbalancer": {"admin_state_up": true}});
        world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{id}"), same));
        let now = world.now();
        world.writers[0].registry.look_anew("prod1", &"prod1-shop-0".into(), now);
        world.run(SECOND);
        world.change("prod1", &web, |wish| wish.members.push((4, 80)));
        world.run(29 * SECOND);
        world.converge(10 * SECOND);
        let is_stuck = |event: &RegistryEvent| matches!(event, RegistryEvent::Stuck { .. });
        assert!(!world.events.iter().any(is_stuck), "after {minutes} minutes");
        // Half a minute is not what changes of members take.
        world.change("prod1", &web, |wish| wish.members.push((5, 80)));
        world.converge(3 * SECOND);
    }
}

#[test]
fn many_that_are_pending_are_waited_for_by_lists() {
    let mut world = World::usual();
    world.want_many("prod1", "many", 100);
    world.converge(120 * SECOND);
    let one_by_one = world.reads.iter().filter(|(_, read)| !read.list && read.resource == "loadbalancer").count();
    let lists = world.reads.iter().filter(|(_, read)| read.query.iter().any(|(key, _)| *key == "provisioning_status"));
    let lists = lists.count();
    // Where many have settled, one list shows all.
    assert!(one_by_one < 25 && (3..40).contains(&lists), "{one_by_one} reads, {lists} lists");
}

#[test]
fn a_quota_is_told_and_tried_again_as_soon_as_something_was_deleted() {
    let mut world = World::usual();
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(3), ..ProjectQuota::default() });
    world.want_many("prod1", "shop", 6);
    world.run(120 * SECOND);
    let phases = |world: &World, phase| {
        world.wishes.keys().filter(|(cluster, key)| world.phase(cluster, key) == Some(phase)).count()
    };
    assert_eq!((phases(&world, Phase::Ready), phases(&world, Phase::Blocked)), (3, 3));
    let blocked = world.wishes.keys().find(|(of, key)| world.phase(of, key) == Some(Phase::Blocked)).unwrap().1.clone();
    assert_eq!(world.conditions("prod1", &blocked), ["QuotaExceeded/Quota"]);
    let refused = |world: &World| {
        world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::CreateBalancer { .. })).count() - 3
    };
    assert!(refused(&world) <= 2, "two at a time, and then no more");
    world.run(900 * SECOND);
    assert!(refused(&world) <= 12, "{}", refused(&world));
    let ready = world.wishes.keys().find(|(of, key)| world.phase(of, key) == Some(Phase::Ready)).unwrap().1.clone();
    world.change("prod1", &ready, |wish| wish.deleting = true);
    world.run_until(40 * SECOND, "another one has the place", |world| phases(world, Phase::Ready) == 3);
}

#[test]
fn who_asks_for_more_listeners_than_there_are_stops_nobody_who_asks_for_fewer() {
    let mut world = World::usual();
    world.cloud.set_quota("p1", ProjectQuota { listeners: Some(15), ..ProjectQuota::default() });
    let (big, mut wish) = (key("big", "web"), Wish::new("big", &world.subnet));
    wish.ports = (1..=20).collect();
    world.want("prod1", big.clone(), wish);
    world.want_many("prod1", "small", 10);
    world.run(60 * SECOND);
    let ready = world.wishes.keys().filter(|(of, key)| world.phase(of, key) == Some(Phase::Ready)).count();
    assert_eq!(ready, 10, "{:?}", world.balancers());
    assert_eq!(world.conditions("prod1", &big), ["QuotaExceeded/Quota"]);
}

/// Two owners with a listener each, which are as many as there may be, and a third one that was refused.
fn without_listeners() -> World {
    let mut world = World::usual();
    world.cloud.set_quota("p1", ProjectQuota { listeners: Some(2), ..ProjectQuota::default() });
    world.want_many("prod1", "shop", 3);
    world.run(30 * SECOND);
    let ready = world.wishes.keys().filter(|(of, key)| world.phase(of, key) == Some(Phase::Ready)).count();
    assert_eq!(ready, 2);
    world.sent.clear();
    world
}

#[test]
fn who_lacks_a_quota_gives_up_what_it_does_not_want() {
    let mut world = without_listeners();
    let served = world.wishes.keys().find(|(of, key)| world.phase(of, key) == Some(Phase::Ready)).unwrap().1.clone();
    world.change("prod1", &served, |wish| {
        wish.ports = vec![8080];
        wish.members.clear();
    });
    world.run(10 * SECOND);
    let gone = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::DeleteListener { .. })).count();
    assert_eq!(gone, 1, "{:?}", world.sent);
}

#[test]
fn members_that_change_make_no_room_for_listeners() {
    let mut world = World::usual();
    world.cloud.set_quota("p1", ProjectQuota { listeners: Some(15), ..ProjectQuota::default() });
    let small = key("small", "web");
    world.want("prod1", small.clone(), Wish::new("small", &world.subnet));
    world.converge(30 * SECOND);
    for number in 0..10 {
        let mut wish = Wish::new(&format!("big{number}"), &world.subnet);
        wish.ports = (1..=20).collect();
        world.want("prod1", key("big", &format!("s{number}")), wish);
    }
    world.run(30 * SECOND);
    world.sent.clear();
    for second in 0..60 {
        world.change("prod1", &small, |wish| wish.members = vec![(second % 9 + 1, 80)]);
        world.run(SECOND);
    }
    let refused = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::CreateBalancer { .. })).count();
    let changed = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::SetMembers { .. })).count();
    assert!(refused == 0 && changed > 10, "{refused} creations, {changed} changes of members");
}

/// What is freed is for everybody who waits, one after the other: some of those who try may want it no more.
#[test]
fn room_for_many_is_found_by_all_who_wait_for_it() {
    let mut world = World::usual();
    world.cloud.set_quota("p1", ProjectQuota { listeners: Some(20), ..ProjectQuota::default() });
    let big = key("big", "web");
    let mut wish = Wish::new("big", &world.subnet);
    wish.ports = (1..=20).collect();
    world.want("prod1", big.clone(), wish);
    world.converge(60 * SECOND);
    world.want_many("prod1", "small", 15);
    world.run(30 * SECOND);
    world.change("prod1", &big, |wish| wish.deleting = true);
    world.run_until(60 * SECOND, "all have their place", |world| {
        world.wishes.keys().filter(|(of, key)| world.phase(of, key) == Some(Phase::Ready)).count() == 15
    });
}

#[test]
fn the_policy_limits_what_a_cluster_has() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().limits.load_balancers = Some(2);
    world.connect(0, "prod1");
    world.want_many("prod1", "shop", 4);
    world.run(300 * SECOND);
    assert_eq!(world.balancers().len(), 2);
    let told = world.wishes.keys().filter(|(of, key)| world.conditions(of, key) == ["QuotaExceeded/Quota"]).count();
    assert_eq!(told, 2);
}

/// A hostile controller lets everything leave the stream as soon as it is there, and wants something else.
#[test]
fn what_has_left_the_stream_counts_until_it_is_gone() {
    for never_made in [false, true] {
        let mut world = World::usual();
        let limits = &mut world.clusters.get_mut("prod1").unwrap().limits;
        (limits.load_balancers, limits.floating_ips) = (Some(2), Some(1));
        world.connect(0, "prod1");
        if never_made {
            world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::Lost));
        }
        let counts = |world: &mut World| {
            let lists = [
                ("/v2/lbaas/loadbalancers", "loadbalancers"),
                ("/v2.0/ports", "ports"),
                ("/v2.0/floatingips", "floatingips"),
            ];
            lists.map(|(path, key)| world.rows(path, key).len())
        };
        let made = if never_made { [0, 2, 0] } else { [2, 2, 1] };
        for round in 0..6 {
            for nth in 0..2 {
                let mut wish = Wish::new(&format!("u{round}-{nth}"), &world.subnet);
                (wish.from_outside, wish.floating) = (true, true);
                world.want("prod1", key("shop", &format!("s{nth}")), wish);
            }
            world.run(if round < 3 { 8 } else { 50 } * SECOND);
            assert_eq!(counts(&mut world), made, "round {round}");
            for nth in 0..2 {
                world.forget("prod1", &key("shop", &format!("s{nth}")));
            }
        }
        world.way_of = None;
        let mut wish = Wish::new("last", &world.subnet);
        (wish.from_outside, wish.floating) = (true, true);
        world.want("prod1", key("shop", "last"), wish);
        world.run(60 * SECOND);
        assert_eq!(counts(&mut world), made);
        // Those that are not wanted go after their grace.
        world.run(3_000 * SECOND);
        world.converge(300 * SECOND);
        assert_eq!(counts(&mut world), [1, 1, 1]);
    }
}

#[test]
fn at_a_full_quota_one_gives_way_to_another_in_its_own_place() {
    for floating in [true, false] {
        let mut world = World::usual();
        let settings = world.clusters.get_mut("prod1").unwrap();
        (settings.limits.load_balancers, settings.limits.floating_ips) = (Some(1), Some(1));
        settings.projects.push("p2".into());
        world.connect(0, "prod1");
        let (s0, s1) = (key("shop", "s0"), key("shop", "s1"));
        for (key, owner) in [(&s1, "u1"), (&s0, "u0")] {
            let mut wish = Wish::new(owner, &world.subnet);
            (wish.from_outside, wish.floating) = (floating, floating);
            world.want("prod1", key.clone(), wish);
            world.run(30 * SECOND);
        }
        world.change("prod1", &s1, |wish| wish.project = "p2".to_owned());
        world.run(600 * SECOND);
        assert_eq!((world.phase("prod1", &s1), world.balancers_of("u0").len()), (Some(Phase::Ready), 0));
        let made = world.balancers_of("u1");
        assert!(made.len() == 1 && world.row(&made[0])["project_id"] == "p2", "{made:?}");
        // What is no longer wanted is no place.
        world.change("prod1", &s1, |wish| wish.deleting = true);
        world.converge(120 * SECOND);
        assert_eq!(world.balancers_of("u0").len(), 1);
    }
}

#[test]
fn what_is_there_when_the_quota_is_lowered_is_made_again() {
    let mut world = World::usual();
    world.want_many("prod1", "shop", 2);
    world.converge(60 * SECOND);
    world.clusters.get_mut("prod1").unwrap().limits.load_balancers = Some(1);
    let (settings, now) = (world.clusters["prod1"].clone(), world.now());
    world.writers[0].registry.set_cluster(settings, now);
    let id = world.balancers_of("prod1-shop-0").remove(0);
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true"));
    world.run(10 * SECOND);
    world.want("prod1", key("shop", "new"), Wish::new("new", &world.subnet));
    world.run(200 * SECOND);
    let made = ["prod1-shop-0", "prod1-shop-1", "new"].map(|owner| world.balancers_of(owner).len());
    assert_eq!(made, [1, 1, 0]);
}

#[test]
fn a_floating_ip_that_is_no_longer_wanted_leaves_its_place() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().limits.floating_ips = Some(1);
    world.connect(0, "prod1");
    let (s0, s1) = (key("shop", "s0"), key("shop", "s1"));
    for (key, owner) in [(&s1, "u1"), (&s0, "u0")] {
        world.want("prod1", key.clone(), Wish { floating: true, ..Wish::new(owner, &world.subnet) });
        world.run(30 * SECOND);
    }
    assert_eq!(world.conditions("prod1", &s0), ["QuotaExceeded/Quota"]);
    world.change("prod1", &s1, |wish| wish.floating = false);
    world.converge(120 * SECOND);
    assert_eq!(world.rows("/v2.0/floatingips", "floatingips").len(), 1);
}

#[test]
fn what_exists_counts_after_a_restart_before_it_is_looked_at_and_where_it_is_refused() {
    let mut world = World::usual();
    for nth in [1, 2] {
        let mut wish = Wish::new(&format!("u{nth}"), &world.subnet);
        (wish.floating, wish.from_outside) = (true, true);
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
    world.converge(120 * SECOND);
    for limit in ["load balancers", "floating IPs"] {
        let limits = &mut world.clusters.get_mut("prod1").unwrap().limits;
        (limits.load_balancers, limits.floating_ips) = (None, None);
        let limit = if limit == "load balancers" { &mut limits.load_balancers } else { &mut limits.floating_ips };
        *limit = Some(2);
        let mut wish = Wish::new("u0", &world.subnet);
        wish.floating = true;
        world.wishes.insert(("prod1".to_owned(), key("shop", "s0")), wish);
        let refused = world.wishes.remove(&("prod1".to_owned(), key("shop", "s1")));
        world.restart(0);
        let now = world.now();
        if refused.is_some() {
            world.writers[0].registry.refuse("prod1", &key("shop", "s1"), &going("u1"), now);
        }
        world.run(120 * SECOND);
        let floating = world.rows("/v2.0/floatingips", "floatingips").len();
        let is_limited = world.clusters["prod1"].limits.load_balancers.is_some();
        assert_eq!((world.balancers().len(), floating), (if is_limited { 2 } else { 3 }, 2));
    }
}

#[test]
fn nothing_is_sent_while_the_service_asks_to_be_left_alone() {
    let mut world = World::usual();
    world.trouble = 3;
    world.want_many("prod1", "shop", 30);
    world.run(300 * SECOND);
    world.trouble = 0;
    world.run(900 * SECOND);
    world.converge(300 * SECOND);
    let twins = world.balancers().len();
    assert_eq!(twins, 30);
}

#[test]
fn a_dry_run_and_a_quarantine_say_what_they_would_do() {
    for dry in [true, false] {
        let mut world = World::new(0);
        world.settings.dry_run = dry;
        world.add_cluster("prod1").quarantine = !dry;
        world.add_writer();
        world.connect(0, "prod1");
        world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
        world.run(60 * SECOND);
        assert_eq!(world.sent.len(), 0);
        let now = world.now();
        let explained = world.writers[0].registry.explain("prod1", &key("shop", "web"), now).unwrap();
        assert!(explained.next.contains("Create loadbalancers"), "{}", explained.next);
        assert_eq!(explained.steps.len(), 2, "{:?}", explained.steps);
        let told = world
            .reports
            .iter()
            .filter(|(_, report)| report.conditions.iter().any(|one| &*one.reason == "Quarantined"));
        assert_eq!(told.count(), usize::from(!dry), "{:?}", world.reports);
        assert_eq!(world.phase("prod1", &key("shop", "web")) == Some(Phase::Held), !dry);
    }
}

#[test]
fn a_pause_that_openstack_asks_for_is_told() {
    let mut world = World::usual();
    world.run(SECOND);
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    let now = world.now();
    let registry = &mut world.writers[0].registry;
    let call = registry.next_call(now).unwrap();
    let busy = CallAnswer::ReadFailed { words: "429".to_owned(), retry_after: Some(120 * SECOND) };
    registry.answered(call.id, busy, now);
    world.run(3 * SECOND);
    let now = world.now();
    let explained = world.writers[0].registry.explain("prod1", &key("shop", "web"), now).unwrap();
    assert!(explained.next.ends_with("; OpenStack asks for a pause of 118 s more"), "{}", explained.next);
}

/// Its reads of Octavia are those that a change of members waits for.
#[test]
fn a_pause_that_neutron_asks_for_is_not_one_of_octavia() {
    let mut world = World::at_rest(1);
    world.want("prod1", key("shop", "other"), Wish::new("u2", &world.subnet));
    let now = world.now();
    let registry = &mut world.writers[0].registry;
    while let Some(call) = registry.next_call(now) {
        let CloudCall::Read(read) = &call.what else { panic!("{call:?}") };
        let answer = match read.service {
            ApiService::Neutron => CallAnswer::ReadFailed { words: "429".to_owned(), retry_after: Some(120 * SECOND) },
            _ => CallAnswer::Rows(Vec::new()),
        };
        registry.answered(call.id, answer, now);
    }
    (world.sent, world.reads) = (Vec::new(), Vec::new());
    for host in [7, 8] {
        world.change("prod1", &key("shop", "s0"), |wish| wish.members.push((host, 80)));
        world.run(2 * SECOND);
    }
    world.run(6 * SECOND);
    let puts = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::SetMembers { .. })).count();
    assert_eq!(puts, 2, "{:#?}", world.last_sent());
    assert!(world.reads.iter().all(|(_, read)| read.service == ApiService::Octavia), "{:#?}", world.reads);
    world.run(120 * SECOND);
    world.converge(60 * SECOND);
}

/// Octavia has locked its quota for somebody else all the time.
#[test]
fn a_project_that_octavia_is_busy_with_stops_no_other() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    let web = key("other", "web");
    world.want("prod1", web.clone(), Wish { project: "p2".to_owned(), ..Wish::new("u2", &world.subnet) });
    world.converge(60 * SECOND);
    world.status_written("prod1", &web);
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::ProjectBusy));
    world.sent.clear();
    world.want_many("prod1", "busy", 20);
    world.run(10 * SECOND);
    let tries = world.sent.len();
    assert!((10..=22).contains(&tries), "{tries}: two at a time, and a pause of a second");
    for host in 4..14 {
        world.sent.clear();
        world.change("prod1", &web, |wish| wish.members.push((host, 80)));
        world.run(SECOND / 10);
        let is_sent = world.sent.iter().any(|sent| matches!(sent.change, CloudChange::SetMembers { .. }));
        assert!(is_sent, "{host}: {:?}", world.sent);
        world.run(3 * SECOND);
    }
    world.way_of = None;
    world.converge(900 * SECOND);
}

/// Whoever serves and is to be made anew does not lose its place to one that waits.
#[test]
fn one_that_is_made_anew_has_the_quota_that_it_frees() {
    let mut world = World::usual();
    world.want_many("prod1", "many", 2);
    world.converge(60 * SECOND);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(2), ..ProjectQuota::default() });
    let waits = key("aaa", "waits");
    world.want("prod1", waits.clone(), Wish::new("waits", &world.subnet));
    world.run(10 * SECOND);
    assert_eq!(world.conditions("prod1", &waits).len(), 1, "{:?}", world.conditions("prod1", &waits));
    let keys: Vec<_> = world.wishes.keys().filter(|(_, one)| *one != waits).cloned().collect();
    for (nth, (cluster, key)) in keys.iter().enumerate() {
        world.change(cluster, key, |wish| wish.address = Some(format!("10.0.0.{}", 100 + nth)));
        world.run(30 * SECOND);
    }
    let owners: Vec<String> = keys.iter().map(|key| world.wishes[key].owner.clone()).collect();
    let found: Vec<usize> = owners.iter().map(|owner| world.balancers_of(owner).len()).collect();
    assert_eq!((found, world.balancers_of("waits").len()), (vec![1, 1], 0));
    // Whoever waits has what is left when one of them goes.
    world.change("prod1", &keys[0].1, |wish| wish.deleting = true);
    world.run(60 * SECOND);
    assert_eq!(world.balancers_of("waits").len(), 1);
}
