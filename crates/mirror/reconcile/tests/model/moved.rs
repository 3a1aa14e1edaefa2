//! Services that a policy maps to another namespace, and what the writer knows of them at different times.

use std::sync::Arc;

use gimbal_kubernetes_objects::keys;
use gimbal_model::Service;
use gimbal_plan::EndpointsApi;

use super::OPEN;
use super::policy::{map, open};
use super::world::{World, key, service};

fn namespaces(world: &World) -> Vec<String> {
    world.services().map(|service| service.metadata.namespace.to_string()).collect()
}

/// An unknown scope of another namespace does not keep a Service of this one in two places.
#[test]
fn what_moves_leaves_its_old_place_whatever_else_is_unknown() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.set(0, &key(3), Some(service(0, 0, &[2])));
    world.settle();
    world.scope_unknown(0, Some("one"));
    world.configure(0, Some(map("two", "one", false)));
    world.settle();
    assert_eq!(namespaces(&world), ["one", "one"]);
    // While the Service's own namespace is unknown, the Service keeps its old place too.
    world.source_complete(0);
    world.settle();
    world.scope_unknown(0, Some("two"));
    world.configure(0, Some(open()));
    world.settle();
    assert_eq!(namespaces(&world), ["one", "one", "two"]);
    world.source_complete(0);
    world.settle();
    assert_eq!(namespaces(&world), ["one", "two"]);
}

/// A project's ID is known only from its Services. A Service that is removed before the first of them arrived is
/// found where it is.
#[test]
fn what_is_removed_by_name_is_found_wherever_a_map_has_put_it() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(map("0f3a", "two", false)));
    let of_project = |hosts: &[u8]| {
        let mut service = Service::clone(&service(0, 0, hosts));
        let mut header = (*service.header).clone();
        header.annotations.insert(keys::PROJECT.into(), "0f3a".into());
        service.header = header.into();
        Arc::new(service)
    };
    world.set(0, &key(0), Some(of_project(&[1])));
    world.set(0, &key(3), Some(service(0, 0, &[2])));
    world.settle();
    assert_eq!(namespaces(&world), ["two", "two"]);
    // It is removed before the first snapshot, and for long no snapshot covers its namespace.
    world.restart_writer();
    world.scope_unknown(0, Some("one"));
    world.connect(0);
    world.speak(0);
    world.set(0, &key(0), None);
    world.settle();
    assert_eq!(namespaces(&world), ["two"]);
    assert_eq!((world.services().next().unwrap().metadata.name.as_ref(), world.unacknowledged(0)), ("a-other", 0));
}
