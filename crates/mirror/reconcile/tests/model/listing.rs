//! Listings come in parts, and show each Service once.

use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::EndpointsApi;

use super::OPEN;
use super::world::{BACKENDS, World, key, service};

/// Lists in parts of one Service; real listings use parts of some hundred.
pub(super) fn listed(world: &World, name: &BackendName, namespace: &str) -> Vec<SourceKey> {
    let mut all: Vec<SourceKey> = Vec::new();
    while let [next] = &*world.writer.keys_after(name, namespace, all.last(), 1) {
        all.push(next.clone());
    }
    assert_eq!(world.writer.keys_after(name, namespace, None, 100), all);
    all
}

/// Services that only the Gimbal cluster knows are listed in order among those of the agent.
#[test]
fn a_listing_in_parts_shows_all_once() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let name = BackendName::parse(BACKENDS[0]).unwrap();
    let in_order = [key(1), key(0), key(3), key(2)];
    for k in &in_order {
        world.set(0, k, Some(service(0, 0, &[1])));
    }
    world.settle();
    world.restart_writer();
    assert_eq!(listed(&world, &name, ""), in_order, "of the objects alone");
    world.connect(0);
    while world.speak(0) | world.hear(0) {
        assert_eq!(listed(&world, &name, ""), in_order, "of both");
    }
    world.settle();
    world.cut(0);
    world.server.set_namespace("two", false);
    while world.watch() {}
    assert_eq!(listed(&world, &name, ""), in_order, "of the agent's word alone");
    assert_eq!(listed(&world, &name, "one"), in_order[..2]);
    assert_eq!(listed(&world, &name, "two"), in_order[2..]);
    assert_eq!(listed(&world, &name, "three"), []);
}
