//! KuryrLoadBalancers that name one owner, of which only one can be the Service's.

use serde_json::json;

use crate::api::Kind;
use crate::common::of_owner;
use crate::world::World;

const OWNER: &str = "6d0e7f4e-0000-4000-8000-000000000001";

fn removals(world: &World) -> usize {
    world.offered.values().filter(|entry| entry.is_deleting()).count()
}

/// Each has to be asked for. The first one removes what there is, and the others go.
#[test]
fn of_many_one_removes_what_exists() {
    let mut world = World::new(true);
    world.works = false;
    for number in 0..40 {
        world.api.create(Kind::Balancer, &format!("copy-{number}"), of_owner(OWNER));
    }
    world.rest();
    assert_eq!(removals(&world), 1, "{:?}", world.offered);
    assert_eq!(world.api.of(Kind::Balancer).len(), 1, "the copies go");
}

/// One that nothing can be said of keeps the others waiting, for as long as it is there.
#[test]
fn one_that_goes_unread_ends_the_wait_of_the_others() {
    let mut world = World::new(true);
    world.works = false;
    world.api.create(Kind::Balancer, "a", of_owner(OWNER));
    world.api.create(Kind::Balancer, "b", of_owner(OWNER));
    while world.watch(Kind::Balancer) {}
    while world.plan() {}
    // The answer about one of the Services comes, and that about the other one does not.
    assert!(world.answer(0, 0));
    world.drain();
    assert_eq!(removals(&world), 0, "{:?}", world.offered);
    let unread = world.in_flight[0].object.name.to_string();
    world.api.edit(Kind::Balancer, &unread, |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Balancer, &unread);
    while world.watch(Kind::Balancer) {}
    world.drain();
    assert_eq!(removals(&world), 1, "{:?}", world.offered);
}
