//! Names of slices that objects without our mark have.

use gimbal_kubernetes_objects::keys;
use gimbal_plan::{Body, EndpointsApi};

use super::OPEN;
use super::check::check;
use super::server::{self, is_marked, meta_mut};
use super::world::{BACKENDS, World, key, service};

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

/// Two claims have tried in vain to create a Service, because one without our mark has the name. `first` tried first.
fn refused_to_both(first: usize) -> (World, Body) {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(1, &key(0), Some(service(1, 0, &[9])));
    world.settle();
    let mut there = Body::Service(world.services().next().unwrap().clone());
    world.set(1, &key(0), None);
    world.settle();
    meta_mut(&mut there).labels.remove(keys::MANAGED_BY);
    world.server.put(there.clone());
    let mut claims = [(0, key(1)), (1, key(0))];
    claims.rotate_left(first);
    for (agent, key) in claims {
        world.set(agent, &key, Some(service(0, 0, &[1])));
        world.settle();
    }
    assert_eq!((world.rejects(0).len(), world.rejects(1).len()), (1, 1), "the name is taken");
    (world, there)
}

/// A person gives it to one of them (`gimbalctl adopt`).
#[test]
fn an_object_that_gets_the_mark_is_whose_it_says() {
    for (first, owner) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (mut world, mut given) = refused_to_both(first);
        let meta = meta_mut(&mut given);
        meta.labels.insert(keys::MANAGED_BY.into(), keys::MANAGER.into());
        meta.labels.insert(keys::BACKEND.into(), BACKENDS[owner].into());
        meta.annotations.insert(keys::SOURCE.into(), ["one/b-svc", "one/svc"][owner].into());
        world.server.put(given);
        world.settle();
        let label = &world.services().next().unwrap().metadata.labels[keys::BACKEND];
        assert_eq!(&**label, BACKENDS[owner], "{first} tried first");
        assert_eq!((world.rejects(owner).len(), world.rejects(1 - owner).len()), (0, 1));
        check(&world);
    }
}
