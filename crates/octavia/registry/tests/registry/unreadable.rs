//! Projects that cannot be read.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_registry::{CloudRead, RegistryEvent};

use crate::wish::{Wish, forwarded, key};
use crate::world::{SECOND, World};

/// A writer that has just started, and a load balancer in each of two projects, the second of which cannot be read.
fn closed() -> World {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    for (name, project) in [("s1", "p1"), ("s2", "p2"), ("s3", "p1")] {
        let mut wish = Wish::new(name, &world.subnet);
        wish.project = project.to_owned();
        world.want("prod1", key("shop", name), wish);
    }
    world.converge(120 * SECOND);
    world.wishes.values_mut().for_each(|wish| wish.known = true);
    world.closed_project = Some("p2".to_owned());
    world.restart(0);
    world.events.clear();
    world
}

#[test]
fn a_project_that_cannot_be_read_stops_what_is_wanted_there_and_nothing_else() {
    let mut world = closed();
    let (s1, s2) = (key("shop", "s1"), key("shop", "s2"));
    world.change("prod1", &s1, |wish| wish.members = vec![(9, 80)]);
    world.want("prod1", key("shop", "new"), Wish::new("new", &world.subnet.clone()));
    world.run(60 * SECOND);
    for one in [&s1, &key("shop", "new")] {
        assert_eq!(world.phase("prod1", one), Some(Phase::Ready), "{one}");
    }
    assert_eq!(world.phase("prod1", &s2), Some(Phase::Waiting));
    assert_eq!(world.conditions("prod1", &s2), ["Degraded/ProjectUnreadable"]);
    let view = world.writers[0].registry.cluster("prod1", world.now()).unwrap();
    assert_eq!(view.unreadable, [("p2".into(), "403".into())]);
    let now = world.now();
    let explained = world.writers[0].registry.explain("prod1", &s2, now).unwrap();
    assert!(explained.report.conditions[0].message.contains("project p2 cannot be read: 403"), "{explained:?}");
    let told = world.events.iter().filter(|event| matches!(event, RegistryEvent::Unreadable { .. })).count();
    let listed: Vec<bool> = world
        .events
        .iter()
        .filter_map(|event| match event {
            RegistryEvent::Listed { is_complete, .. } => Some(*is_complete),
            _ => None,
        })
        .collect();
    assert_eq!((told, listed), (1, vec![false]));
    // What is drift is found, and what no entry wants stays.
    world.forget("prod1", &key("shop", "s3"));
    world.run(2_000 * SECOND);
    assert_eq!((world.balancers_of("s2").len(), world.balancers_of("s3").len()), (1, 1));
    world.closed_project = None;
    world.converge(120 * SECOND);
    assert_eq!(world.conditions("prod1", &s2), [""; 0]);
    let view = world.writers[0].registry.cluster("prod1", world.now()).unwrap();
    assert!(view.unreadable.is_empty());
    world.run(900 * SECOND);
    assert_eq!((world.balancers().len(), world.balancers_of("s3").len()), (3, 0));
}

/// Seven changes are under way, so that Octavia is asked for lists.
#[test]
fn changes_under_way_in_a_project_that_cannot_be_read_any_more_keep_no_others_waiting() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    for nth in 0..7 {
        let mut wish = Wish::new(&format!("u{nth}"), &world.subnet);
        wish.project = if nth == 0 { "p1".to_owned() } else { "p2".to_owned() };
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
    world.converge(300 * SECOND);
    world.sent.clear();
    world.cloud.provider_mut().update_time = 20 * SECOND;
    for nth in 0..7 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.members.push((9, 80)));
    }
    world.run_until(10 * SECOND, "all are changed", |world| world.sent.len() == 7);
    world.closed_project = Some("p2".to_owned());
    for host in [8, 7] {
        world.change("prod1", &key("shop", "s0"), |wish| wish.members.push((host, 80)));
        world.run(200 * SECOND);
        let served = world.balancers_of("u0").remove(0);
        assert!(forwarded(&world.cloud, &served)[0].1.contains(&format!("10.1.0.{host}")), "{host}");
    }
    world.closed_project = None;
    world.converge(300 * SECOND);
}

#[test]
fn a_list_of_neutron_that_fails_hides_neither_the_name_nor_what_exists() {
    let mut world = closed();
    world.closed_project = None;
    world.closed_lists = Some(|read: &CloudRead| read.path == "floatingips");
    world.restart(0);
    world.events.clear();
    world.run(2 * SECOND);
    let listed = |event: &RegistryEvent| matches!(event, RegistryEvent::Listed { found, is_complete: true, .. } if found.len() == 3);
    assert!(world.events.iter().any(listed), "{:?}", world.events);
}

#[test]
fn as_long_as_nothing_can_be_listed_nothing_is_decided() {
    let mut world = closed();
    world.closed_project = None;
    world.closed_lists = Some(|_| true);
    world.restart(0);
    world.events.clear();
    world.run(300 * SECOND);
    assert!(!world.events.iter().any(|event| matches!(event, RegistryEvent::Listed { .. })));
    assert_eq!(world.writers[0].registry.cluster("prod1", world.now()).unwrap().unreadable.len(), 2);
}

/// The role is lost while nothing has to be looked at: only changes show it.
#[test]
fn who_may_change_nothing_any_more_tries_seldom_and_says_so() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    for (name, project) in [("s1", "p1"), ("s2", "p2")] {
        let mut wish = Wish::new(name, &world.subnet);
        wish.project = project.to_owned();
        world.want("prod1", key("shop", name), wish);
    }
    world.converge(120 * SECOND);
    world.unsendable_project = Some("p2".to_owned());
    world.sent.clear();
    for name in ["s1", "s2"] {
        world.change("prod1", &key("shop", name), |wish| wish.members = vec![(9, 80)]);
    }
    world.run(600 * SECOND);
    let tried = world.sent.len() - 1;
    assert!((5..=20).contains(&tried), "{tried}");
    assert_eq!(world.phase("prod1", &key("shop", "s1")), Some(Phase::Ready));
    let s2 = key("shop", "s2");
    assert_eq!(world.conditions("prod1", &s2), ["Degraded/ProjectUnreadable"]);
    let message = &world.reports[&("prod1".to_owned(), s2.clone())].conditions[0].message;
    assert_eq!(&**message, "nothing can be changed in project p2: no role");
    // As it is, so it is wanted again.
    world.change("prod1", &s2, |wish| wish.members = vec![(1, 80), (2, 80), (3, 80)]);
    world.run(120 * SECOND);
    assert_eq!((world.phase("prod1", &s2), world.conditions("prod1", &s2)), (Some(Phase::Ready), Vec::new()));
    world.change("prod1", &s2, |wish| wish.members = vec![(9, 80)]);
    world.run(600 * SECOND);
    assert_eq!(world.conditions("prod1", &s2), ["Degraded/ProjectUnreadable"]);
    world.unsendable_project = None;
    world.converge(120 * SECOND);
    assert_eq!(world.conditions("prod1", &s2), [""; 0]);
}

/// What lost its owner stays meanwhile, and nothing else shows it.
#[test]
fn for_how_long_orphans_were_not_searched_for_is_told() {
    let mut world = closed();
    let unsearched = |world: &World| world.writers[0].registry.unsearched("prod1", world.now());
    world.run(3_700 * SECOND);
    assert!(unsearched(&world).is_some_and(|time| time > 3_600 * SECOND), "{:?}", unsearched(&world));
    world.closed_project = None;
    world.run(120 * SECOND);
    assert!(unsearched(&world).is_some_and(|time| time < 120 * SECOND), "{:?}", unsearched(&world));
    // Not everything is said that the cluster wants.
    world.writers[0].registry.set_current("prod1", true, false);
    world.run(600 * SECOND);
    assert!(unsearched(&world).is_some_and(|time| time > 500 * SECOND), "{:?}", unsearched(&world));
    world.disconnect(0, "prod1");
    assert_eq!(unsearched(&world), None, "another writer may have it");
}
