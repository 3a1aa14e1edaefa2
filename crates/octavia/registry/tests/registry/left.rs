//! Projects that are taken out of the policy.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_registry::RegistryEvent;
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::wish::{Wish, forwarded, going, key};
use crate::world::{SECOND, World};

/// A world with a load balancer in each of two projects, the second of which is then not allowed any more.
fn left() -> World {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    for (name, project) in [("s1", "p1"), ("s2", "p2")] {
        let mut wish = Wish::new(name, &world.subnet);
        (wish.project, wish.from_outside, wish.floating) = (project.to_owned(), true, true);
        world.want("prod1", key("shop", name), wish);
    }
    world.converge(120 * SECOND);
    world.run(70 * SECOND);
    world.clusters.get_mut("prod1").unwrap().projects.pop();
    world.events.clear();
    world
}

fn told(world: &World) -> Vec<Option<usize>> {
    let left = |event: &RegistryEvent| match event {
        RegistryEvent::Left { owners, .. } => Some(*owners),
        _ => None,
    };
    world.events.iter().filter_map(left).collect()
}

#[test]
fn what_moves_out_of_a_project_leaves_nothing_there() {
    let mut world = left();
    world.disconnect(0, "prod1");
    // Its controller knows already, and it is looked for anew.
    world.wishes.get_mut(&("prod1".to_owned(), key("shop", "s2"))).unwrap().project = "p1".to_owned();
    world.run(20 * SECOND);
    world.connect(0, "prod1");
    world.converge(120 * SECOND);
    world.run(1_300 * SECOND);
    assert_eq!((world.balancers().len(), told(&world)), (2, vec![Some(1)]));
    assert!(world.balancers().iter().all(|row| row["project_id"] == "p1"));
}

#[test]
fn what_was_made_in_a_project_goes_with_its_owner_after_a_restart_too() {
    for is_deleted in [true, false] {
        let mut world = left();
        let name = ("prod1".to_owned(), key("shop", "s2"));
        let wish = world.wishes.remove(&name).unwrap();
        world.restart(0);
        let now = world.now();
        // The entry names it, and is refused for that.
        world.writers[0].registry.refuse("prod1", &name.1, &going("s2"), now);
        world.writers[0].registry.search_too("prod1", &"p2".into());
        world.run(1_300 * SECOND);
        assert_eq!((world.balancers().len(), told(&world)), (2, vec![Some(1)]));
        if is_deleted {
            world.want("prod1", name.1.clone(), Wish { deleting: true, ..wish });
            world.converge(60 * SECOND);
        } else {
            world.forget("prod1", &name.1);
            world.run(2_000 * SECOND);
        }
        let left = world.left_of("prod1");
        let of = |kind: &str| left.iter().filter(|one| one.starts_with(kind)).count();
        assert_eq!((of("loadbalancers"), of("ports"), of("floatingips")), (1, 1, 1), "{is_deleted}");
    }
}

#[test]
fn a_project_that_cannot_be_read_any_more_stops_nothing_else() {
    let mut world = left();
    world.closed_project = Some("p2".to_owned());
    world.connect(0, "prod1");
    let s1 = key("shop", "s1");
    world.change("prod1", &s1, |wish| wish.members = vec![(9, 80)]);
    world.run(1_300 * SECOND);
    world.change("prod1", &s1, |wish| wish.deleting = true);
    world.run(60 * SECOND);
    assert_eq!((world.balancers_of("s1").len(), world.balancers_of("s2").len()), (0, 1));
    assert_eq!(told(&world), [None]);
}

/// The same, and `s2` has moved to `p1` when `p2` can be read no more.
fn moved_out_of_a_closed_project() -> World {
    let mut world = left();
    world.connect(0, "prod1");
    world.run(70 * SECOND);
    assert_eq!(told(&world), [Some(1)]);
    world.closed_project = Some("p2".to_owned());
    world.change("prod1", &key("shop", "s2"), |wish| wish.project = "p1".to_owned());
    world.run(120 * SECOND);
    world
}

#[test]
fn what_may_be_left_in_a_project_that_cannot_be_read_does_not_stop_its_owner_elsewhere() {
    let mut world = moved_out_of_a_closed_project();
    let s2 = key("shop", "s2");
    world.change("prod1", &s2, |wish| wish.members = vec![(9, 80)]);
    world.run(60 * SECOND);
    assert_eq!(world.phase("prod1", &s2), Some(Phase::Ready));
    let made = world.balancers_of("s2").into_iter().filter(|id| world.row(id)["project_id"] == "p1");
    let made: Vec<String> = made.collect();
    assert_eq!((made.len(), forwarded(&world.cloud, &made[0])[0].1.len()), (1, 1));
    world.closed_project = None;
    world.run(1_300 * SECOND);
    let left = world.balancers_of("s2");
    assert!(left.len() == 1 && world.row(&left[0])["project_id"] == "p1", "{left:?}");
}

#[test]
fn nobody_is_gone_as_long_as_something_may_be_left_where_nothing_can_be_read() {
    let mut world = moved_out_of_a_closed_project();
    let s2 = key("shop", "s2");
    world.change("prod1", &s2, |wish| wish.deleting = true);
    world.reads.clear();
    world.run(600 * SECOND);
    assert_eq!((world.balancers_of("s2").len(), world.phase("prod1", &s2)), (1, Some(Phase::Removing)));
    assert_eq!(world.conditions("prod1", &s2), ["Degraded/ProjectUnreadable"]);
    let looks = world.reads.iter().filter(|(_, read)| format!("{read:?}").contains("k8s-svc-uid:s2")).count();
    assert!(looks < 150, "{looks}");
    world.closed_project = None;
    world.run(120 * SECOND);
    assert_eq!((world.balancers_of("s2").len(), world.phase("prod1", &s2)), (0, Some(Phase::Gone)));
}

#[test]
fn what_is_in_such_a_project_is_not_looked_at_every_minute() {
    let mut world = left();
    world.connect(0, "prod1");
    world.run(200 * SECOND);
    world.reads.clear();
    world.run(590 * SECOND);
    let looks: Vec<_> = world.reads.iter().filter(|(_, read)| format!("{read:?}").contains("k8s-svc-uid:s2")).collect();
    assert!(looks.is_empty(), "{looks:?}");
}

#[test]
fn invented_projects_keep_no_real_one_out() {
    let mut world = left();
    for nth in 0..40 {
        world.writers[0].registry.search_too("prod1", &format!("invented-{nth}").as_str().into());
    }
    world.connect(0, "prod1");
    world.run(700 * SECOND);
    assert_eq!(told(&world), [Some(1)]);
}

#[test]
fn an_invented_project_is_asked_for_once_an_hour() {
    let mut world = World::usual();
    world.connect(0, "prod1");
    world.closed_project = Some("invented".to_owned());
    world.writers[0].registry.search_too("prod1", &"invented".into());
    world.reads.clear();
    let asked = |world: &World| world.reads.iter().filter(|(_, read)| format!("{read:?}").contains("invented")).count();
    world.run(3_000 * SECOND);
    assert_eq!(asked(&world), 3, "load balancers, floating IPs and ports");
    world.run(1_500 * SECOND);
    assert_eq!(asked(&world), 6);
}

#[test]
fn what_is_left_in_a_former_project_is_found_after_a_restart_if_no_entry_names_it() {
    let mut world = left();
    world.clusters.get_mut("prod1").unwrap().former_projects.push("p2".into());
    world.wishes.remove(&("prod1".to_owned(), key("shop", "s2")));
    world.restart(0);
    world.run(2_000 * SECOND);
    assert_eq!((world.balancers_of("s1").len(), world.balancers_of("s2").len()), (1, 0));
}

/// What is left of the load balancer in the former project: its floating IP first, then its port.
#[test]
fn what_is_left_goes_from_its_own_project_when_its_service_moves() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    let s1 = key("shop", "s1");
    let mut wish = Wish::new("s1", &world.subnet);
    (wish.from_outside, wish.floating) = (true, true);
    world.want("prod1", s1.clone(), wish);
    world.converge(120 * SECOND);
    world.change("prod1", &s1, |wish| wish.project = "p2".to_owned());
    world.converge(300 * SECOND);
    world.run(120 * SECOND);
    let projects = |world: &mut World| -> Vec<String> {
        let lists = [("/v2.0/ports", "ports"), ("/v2.0/floatingips", "floatingips")];
        let rows = lists.into_iter().flat_map(|(path, key)| world.rows(path, key));
        rows.map(|row| row["project_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(projects(&mut world), ["p2", "p2"]);
    world.sent.clear();
    world.run(600 * SECOND);
    assert!(world.sent.is_empty(), "{:?}", world.sent);
    world.change("prod1", &s1, |wish| wish.deleting = true);
    world.converge(120 * SECOND);
    assert_eq!(world.left_of("prod1"), Vec::<String>::new());
}

/// Nothing else of the owner is left that would tell the project.
#[test]
fn a_port_or_a_floating_ip_alone_in_another_project_goes_with_its_owner_after_a_restart() {
    for list in ["ports", "floatingips"] {
        for is_told in [true, false] {
            let mut world = World::usual();
            world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
            world.connect(0, "prod1");
            let mark = "gimbal-cluster:prod1 k8s-cluster:uid-prod1 k8s-svc-uid:s2";
            let network = world.cloud.network_of(&world.subnet).unwrap().to_owned();
            let outside = world.facts.external.as_ref().unwrap().network.to_string();
            let body = match list {
                "ports" => json!({"port": {"network_id": network, "project_id": "p2", "description": mark}}),
                _ => json!({"floatingip": {"floating_network_id": outside, "project_id": "p2", "description": mark}}),
            };
            world.by_hand(&SimRequest::post(&format!("/v2.0/{list}"), body));
            world.restart(0);
            let s2 = key("shop", "s2");
            if is_told {
                world.want("prod1", s2.clone(), Wish { deleting: true, ..Wish::new("s2", "") });
                world.converge(120 * SECOND);
            } else {
                world.run(3_000 * SECOND);
            }
            assert_eq!(world.left_of("prod1"), Vec::<String>::new(), "{list} {is_told}");
        }
    }
}
