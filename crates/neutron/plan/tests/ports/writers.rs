//! Two writers at a time, ports without owners, and ports of others.

use std::time::Duration;

use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::world::{Way, World};

const MINUTE: Duration = Duration::from_secs(60);

/// Both have seen the same port ready, and each gives it to another Pod.
#[test]
fn of_two_writers_one_gives_a_port_away() {
    let (mut world, place) = World::simple(|settings| settings.pool_min = 1);
    world.add_pod(&place);
    world.run_for(MINUTE);
    world.start_writer();
    world.tell();
    assert!(world.begin(1));
    world.end(1, 0, Way::Arrives);
    // Only one of them knows of the second Pod when it begins, and the other one only of the third.
    let second = world.kubernetes.add_pod(&place);
    world.groups.entry(second.clone()).or_default().insert(place.groups.clone());
    let wish = world.kubernetes.pods[&second].wish.clone();
    let now = world.now;
    world.writers[0].plan.want(wish, now);
    assert!(world.begin(0));
    let third = world.kubernetes.add_pod(&place);
    world.groups.entry(third.clone()).or_default().insert(place.groups.clone());
    let wish = world.kubernetes.pods[&third].wish.clone();
    world.writers[1].plan.want(wish, now);
    assert!(world.begin(1));
    world.end(0, 0, Way::Arrives);
    world.end(1, 0, Way::Arrives);
    let ports: Vec<usize> = [&second, &third].map(|pod| world.ports_of(pod).len()).into();
    assert_eq!(ports, [1, 0], "the second change names a revision that is no more");
    world.tell();
    world.run_for(20 * MINUTE);
    assert_ne!(world.port_of(&second).id, world.port_of(&third).id);
}

/// Two writers have made a port for one Pod: the one that the status names stays.
#[test]
fn of_two_ports_of_a_pod_the_one_that_is_used_stays() {
    let (mut world, place) = World::simple(|_| {});
    world.start_writer();
    let pod = world.add_pod(&place);
    for writer in [0, 1] {
        assert!(world.begin(writer));
        world.end(writer, 0, Way::Arrives);
    }
    for writer in [0, 1] {
        assert!(world.begin(writer));
    }
    for writer in [0, 1] {
        world.end(writer, 0, Way::Arrives);
    }
    assert_eq!(world.ports_of(&pod).len(), 2);
    let used = world.kubernetes.pods[&pod].status.clone().unwrap();
    world.tell();
    world.run_for(30 * MINUTE);
    assert_eq!(world.port_of(&pod).id, used.id, "it is the younger one");
}

/// One writer is removing a Pod's second port when the first one vanishes, and the other writer finds only the second.
#[test]
fn a_port_that_another_writer_is_removing_is_given_to_no_pod() {
    let (mut world, pod, used) = World::with_a_port_being_removed();
    world.start_writer();
    world.tell();
    world.neutron.handle(&SimRequest::delete(&format!("/v2.0/ports/{used}")));
    assert!(world.begin(1));
    world.end(1, 0, Way::Arrives);
    world.end(0, 0, Way::Arrives);
    world.tell();
    world.run_for(20 * MINUTE);
    assert_eq!(Some(world.port_of(&pod).id), world.kubernetes.pods[&pod].wish.port);
}

/// The other writer is faster, and gives the second port to the Pod by a change of its own.
#[test]
fn a_port_that_is_given_to_a_pod_again_is_removed_by_no_one() {
    let (mut world, pod, used) = World::with_a_port_being_removed();
    world.start_writer();
    world.tell();
    world.neutron.handle(&SimRequest::delete(&format!("/v2.0/ports/{used}")));
    for _ in ["the list", "the port is given to the Pod"] {
        assert!(world.begin(1));
        world.end(1, 0, Way::Arrives);
    }
    let kept = world.kubernetes.pods[&pod].wish.port.clone();
    assert_ne!(kept.as_ref(), Some(&used), "it is reported");
    world.end(0, 0, Way::Arrives);
    world.tell();
    world.run_for(MINUTE);
    assert_eq!(Some(world.port_of(&pod).id), kept, "the removal names a revision that is no more");
}

#[test]
fn what_was_made_for_a_pod_that_is_unknown_is_removed_after_a_grace() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    // Somebody has taken the finalizer off.
    world.kubernetes.pods.clear();
    world.tell();
    world.run_for(9 * MINUTE);
    assert_eq!(world.ports_of(&pod).len(), 1);
    world.plan().hold_orphans(true);
    world.run_for(60 * MINUTE);
    assert_eq!((world.ports_of(&pod).len(), world.plan().orphans()), (1, 1), "the guard holds it");
    world.plan().hold_orphans(false);
    world.run_for(MINUTE);
    assert_eq!(world.ports_of(&pod).len(), 0);
}

#[test]
fn as_long_as_not_everything_is_known_nothing_is_missing() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    world.run_for(MINUTE);
    world.start_writer();
    world.kill(|| unreachable!("nothing is under way"));
    // It has a stream, and that has said nothing yet.
    world.sent.clear();
    let now = world.now;
    for hour in 0..3 {
        world.advance(60 * MINUTE);
        while world.begin(0) {
            world.end(0, 0, Way::Arrives);
        }
        assert_eq!(world.sent.len(), 0, "hour {hour}: {:?}", world.sent);
    }
    assert!(world.ports_of(&pod).len() == 1 && world.now > now);
}

#[test]
fn ports_of_other_clusters_and_of_people_are_left_alone() {
    let (mut world, place) = World::simple(|settings| settings.orphan_grace = Duration::from_secs(1));
    let strangers: Vec<Value> = ["k8s-cluster:c2 gimbal-cluster:prod2 k8s-svc-uid:pod-uid-0002", "k8s-cluster:c1 gimbal-cluster:other k8s-svc-uid:pod-uid-0002", "of a person", ""]
        .map(|description| {
            let body = json!({"port": {
                "network_id": &*place.network, "project_id": "p1", "device_owner": "compute:kuryr", "description": description,
            }});
            world.neutron.handle(&SimRequest::post("/v2.0/ports", body)).body["port"].clone()
        })
        .into();
    let pod = world.add_pod(&place);
    world.run_for(60 * MINUTE);
    world.kubernetes.unplug(&pod, &mut world.neutron);
    world.end_pod(&pod);
    world.run_for(60 * MINUTE);
    for stranger in strangers {
        assert_eq!(world.neutron.row("ports", stranger["id"].as_str().unwrap()), Some(stranger));
    }
}
