//! Names of slices that objects without our mark have.

use gimbal_kubernetes_objects::keys;
use gimbal_plan::{Body, EndpointsApi};

use super::OPEN;
use super::check::check;
use super::server::{self, is_marked, meta_mut};
use super::world::{World, key, service};

fn our_slices(world: &World) -> Vec<String> {
    let ours = world.slices().filter(|slice| is_marked(&Body::Slice((*slice).clone())));
    ours.map(|slice| slice.metadata.name.to_string()).collect()
}

/// A name that another object had once is used again after that object is gone.
#[test]
fn a_name_is_taken_only_while_another_object_has_it() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    let set = |world: &mut World, hosts: &[u8]| {
        world.set(0, &key(0), Some(service(0, 0, hosts)));
        world.settle();
        check(world);
        our_slices(world)
    };
    let first = set(&mut world, &[1]);
    let mut foreign = Body::Slice(world.slices().next().unwrap().clone());
    assert_eq!(set(&mut world, &[]), [""; 0]);
    meta_mut(&mut foreign).labels.remove(keys::SLICE_MANAGED_BY);
    world.server.put(foreign.clone());
    let second = set(&mut world, &[1]);
    assert_ne!(second, first, "another object has the name");
    set(&mut world, &[]);
    world.server.remove(&server::id(foreign.kind(), foreign.meta()));
    assert_eq!(set(&mut world, &[1]), first, "the name is free");
}
