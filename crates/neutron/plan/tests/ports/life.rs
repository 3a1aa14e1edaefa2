//! Pods come, live and go.

use std::time::Duration;

use gimbal_neutron_plan::{PortChange, PortObstacle, PortReport};
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::world::{World, owner};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_pod_gets_a_port_with_its_groups_name_and_tags_that_its_node_can_plug() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run();
    let port = world.port_of(&pod);
    let row = world.neutron.row("ports", &port.id).unwrap();
    assert_eq!((&row["name"], &row["device_owner"]), (&json!("shop/web-2"), &json!("compute:kuryr")));
    assert_eq!((&row["binding:host_id"], &port.groups), (&json!("node-1"), &place.groups));
    assert_eq!(row["tags"], json!(["gimbal-cluster:prod1", "k8s-cluster:c1", format!("k8s-svc-uid:{pod}")]));
    let Some(PortReport::Ready { port: reported, .. }) = world.reports.get(&pod) else { panic!("{:?}", world.reports) };
    assert!(!reported.active, "it is reported before it is plugged, for plugging makes it active");
    world.run_for(MINUTE);
    let Some(PortReport::Ready { port: reported, .. }) = world.reports.get(&pod) else { panic!("{:?}", world.reports) };
    assert!(reported.active && reported.id == port.id && reported.addresses.len() == 1);
}

#[test]
fn a_first_pod_costs_one_request_and_the_pool_comes_with_it() {
    let (mut world, place) = World::simple(|_| {});
    world.add_pod(&place);
    world.run();
    let sizes = world.sent.iter().filter_map(|(_, change)| match change {
        PortChange::Create { bodies } => Some(bodies.len()),
        _ => None,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [6], "one for the Pod, and five that are ready");
    assert_eq!(world.ready_on("node-1").len(), 5);
}

#[test]
fn from_a_pool_a_pod_gets_its_port_by_one_change() {
    let (mut world, place) = World::simple(|_| {});
    world.add_pod(&place);
    world.run_for(MINUTE);
    let (before, ready) = (world.sent.len(), world.ready_on("node-1"));
    let pod = world.add_pod(&place);
    let now = world.now;
    let call = world.plan().next(now).unwrap();
    let what = format!("{:?}", call.what);
    assert!(what.contains("Update") && what.contains(&format!("k8s-svc-uid:{pod}")), "{what}");
    assert_eq!((before, ready.len()), (world.sent.len(), 5));
}

#[test]
fn a_port_goes_back_to_its_pool_once_its_node_has_said_that_it_is_unplugged() {
    let (mut world, place) = World::simple(|_| {});
    let pods = [world.add_pod(&place), world.add_pod(&place)];
    world.run_for(MINUTE);
    let port = world.port_of(&pods[0]);
    world.end_pod(&pods[0]);
    world.run_for(MINUTE);
    assert_eq!(world.port_of(&pods[0]).id, port.id, "the node has not said it yet");
    assert!(
        matches!(world.reports.get(&pods[0]), Some(PortReport::Leaving { obstacle: PortObstacle::Plugged, .. })),
        "{:?}",
        world.reports.get(&pods[0])
    );
    // Another one comes right then: there is room in the pool.
    let third = world.add_pod(&place);
    world.kubernetes.unplug(&pods[0], &mut world.neutron);
    world.tell();
    world.run();
    assert_eq!(world.reports.get(&pods[0]), Some(&PortReport::Gone { pod: pods[0].clone() }));
    let row = world.neutron.row("ports", &port.id).unwrap();
    assert!(owner(&row).unwrap().starts_with("node"), "it is back in the pool: {row}");
    assert_eq!(row["name"], json!("kuryr-pool-port"));
    assert!(!row["tags"].to_string().contains(&*pods[0]), "{row}");
    assert_ne!(world.port_of(&third).id, port.id, "the one that was ready longest comes first");
}

#[test]
fn where_its_own_pool_is_full_a_port_goes_to_one_beside_it_with_the_groups_of_that() {
    let (mut world, place) = World::simple(|settings| settings.pool_min = 3);
    let pod = world.add_pod(&place);
    let other = world.neutron.add_group();
    let mut elsewhere = place.clone();
    elsewhere.groups = [other.as_str().into()].into();
    world.add_pod(&elsewhere);
    world.run_for(MINUTE);
    let port = world.port_of(&pod);
    // A port of the other pool is taken, and a Pod of this one goes.
    world.add_pod(&elsewhere);
    world.kubernetes.unplug(&pod, &mut world.neutron);
    world.end_pod(&pod);
    world.run_for(MINUTE);
    let row = world.neutron.row("ports", &port.id).unwrap();
    assert!(owner(&row).unwrap().starts_with("node"), "{row}");
    assert_eq!(row["security_groups"], json!([other]));
    assert!(!row["tags"].to_string().contains(&*pod), "it is no longer tagged as the Pod's: {row}");
}

#[test]
fn without_the_word_of_its_node_a_port_is_removed_and_never_used_again() {
    let (mut world, place) = World::simple(|_| {});
    let (pod, _other) = (world.add_pod(&place), world.add_pod(&place));
    world.run_for(MINUTE);
    let port = world.port_of(&pod);
    world.end_pod(&pod);
    world.run_for(4 * MINUTE);
    assert_eq!(world.port_of(&pod).id, port.id);
    world.run_for(2 * MINUTE);
    assert_eq!(world.neutron.row("ports", &port.id), None);
    assert_eq!(world.reports.get(&pod), Some(&PortReport::Gone { pod }));
}

#[test]
fn with_its_node_a_port_is_removed_at_once_and_so_is_what_was_ready_there() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    assert_eq!(world.ours().len(), 6);
    world.kubernetes.nodes.clear();
    world.tell();
    world.run_for(MINUTE);
    assert_eq!(world.port_of(&pod).id, world.kubernetes.pods[&pod].status.as_ref().unwrap().id, "the Pod is not over");
    assert_eq!(world.ours().len(), 1, "{:?}", world.ours());
    world.end_pod(&pod);
    world.run();
    assert_eq!(world.ours().len(), 0);
}

#[test]
fn groups_of_a_living_pod_are_changed_in_place() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    let before = world.port_of(&pod);
    let group = world.neutron.add_group();
    world.kubernetes.pods.get_mut(&pod).unwrap().wish.place.groups = [group.as_str().into()].into();
    world.tell();
    world.run_for(MINUTE);
    let after = world.port_of(&pod);
    assert_eq!((after.id, after.addresses), (before.id, before.addresses));
    assert_eq!(after.groups, [group.as_str().into()].into());
}

#[test]
fn groups_that_cannot_be_set_are_reported_until_they_can() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    world.kubernetes.pods.get_mut(&pod).unwrap().wish.place.groups = ["no-such-group".into()].into();
    world.tell();
    world.run();
    let report = world.reports.get(&pod);
    assert!(matches!(report, Some(PortReport::Waiting { obstacle: PortObstacle::Missing(_), .. })), "{report:?}");
    assert_eq!(world.port_of(&pod).groups, place.groups, "what it has stays");
    world.kubernetes.pods.get_mut(&pod).unwrap().wish.place.groups = place.groups.clone();
    world.tell();
    world.run();
    assert!(matches!(world.reports.get(&pod), Some(PortReport::Ready { .. })));
}

#[test]
fn a_port_that_cannot_be_bound_is_no_port_and_the_node_is_named() {
    let (mut world, place) = World::simple(|_| {});
    world.neutron.set_dead("node-1", true);
    let pod = world.add_pod(&place);
    world.run();
    let report = world.reports.get(&pod);
    let unbound = |obstacle: &PortObstacle| obstacle.to_string().contains("node-1");
    assert!(matches!(report, Some(PortReport::Waiting { obstacle, .. }) if unbound(obstacle)), "{report:?}");
    world.neutron.set_dead("node-1", false);
    world.run_for(10 * MINUTE);
    assert!(matches!(world.reports.get(&pod), Some(PortReport::Ready { .. })));
    assert!(world.ours().iter().all(|row| row["binding:vif_type"] == "ovs"), "those that were not bound are gone");
}

#[test]
fn a_port_that_somebody_has_removed_is_replaced_and_reported() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    let before = world.port_of(&pod);
    world.neutron.handle(&SimRequest::delete(&format!("/v2.0/ports/{}", before.id)));
    world.run_for(11 * MINUTE);
    let after = world.port_of(&pod);
    assert_ne!(after.id, before.id);
    assert_eq!(world.kubernetes.pods[&pod].wish.port, Some(after.id));
}

#[test]
fn a_network_that_is_being_removed_is_left_by_all_ports_without_a_pod() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    world.plan().set_leaving(&place.network, true);
    world.run_for(MINUTE);
    assert_eq!(world.ours().len(), 1, "the Pod's own");
    let late = world.add_pod(&place);
    world.run();
    assert!(matches!(world.reports.get(&late), Some(PortReport::Waiting { .. })), "{:?}", world.reports.get(&late));
    world.kubernetes.unplug(&pod, &mut world.neutron);
    world.end_pod(&pod);
    world.run_for(MINUTE);
    assert_eq!(world.ours().len(), 0, "it does not go back to a pool");
}

#[test]
fn an_idle_hour_is_some_lists_and_no_change() {
    let (mut world, place) = World::simple(|_| {});
    (0..20).for_each(|_| _ = world.add_pod(&place));
    world.run_for(20 * MINUTE);
    (world.reads, _) = (0, world.sent.clear());
    world.run_for(60 * MINUTE);
    assert_eq!((world.sent.len(), world.reads), (0, 6), "{:?}", world.sent);
}

#[test]
fn a_restart_with_nothing_changed_is_one_list() {
    let (mut world, place) = World::simple(|_| {});
    (0..20).for_each(|_| _ = world.add_pod(&place));
    world.run_for(20 * MINUTE);
    (world.reads, _) = (0, world.sent.clear());
    world.reports.clear();
    world.start_writer();
    world.kill(|| unreachable!("nothing is under way"));
    world.tell();
    world.run();
    assert_eq!((world.sent.len(), world.reads), (0, 1), "{:?}", world.sent);
    assert_eq!(world.reports.len(), 20, "a new stream hears everything");
}
