//! Quotas: what stands stays, what is over waits, and what only waits is lost by nobody.

use gimbal_plan::EndpointsApi;
use gimbal_stream::RejectReason;

use super::policy::{check_policies, claim, endpoints, name, open, quota};
use super::server::Luck;
use super::world::{BACKENDS, World, key, service};
use super::{OPEN, check};

/// First come keeps, also over a restart of everything; who waits comes when there is room.
#[test]
fn a_quota_keeps_what_stands_and_lets_the_rest_wait() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(Some(2), Some(6), None)));
    for k in [2, 3] {
        world.set(0, &key(k), Some(service(0, 0, &[1, 2])));
    }
    world.settle();
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!((world.rejects(0).len(), endpoints(&world)), (1, 4));
    let reject = world.rejects(0).remove(0);
    assert_eq!((reject.reason, reject.retryable, reject.key), (RejectReason::Quota, true, Some(key(0))));
    assert!(reject.message.contains("services") && reject.message.contains("would be 3"), "{}", reject.message);
    // What was there before the restart comes after the new one in the order of keys.
    world.restart_writer();
    world.restart_agent(0);
    world.settle();
    assert_eq!(world.rejects(0).iter().map(|r| r.key.clone()).collect::<Vec<_>>(), [Some(key(0))]);
    world.set(0, &key(2), Some(service(0, 0, &[1, 2, 3, 4, 5])));
    world.settle();
    assert_eq!((endpoints(&world), world.rejects(0).len()), (4, 2), "growth over the quota waits, what stands stays");
    // Lowered: nothing goes, and it may shrink.
    world.configure(0, Some(quota(Some(1), Some(1), None)));
    world.settle();
    assert_eq!(endpoints(&world), 4);
    world.set(0, &key(3), Some(service(0, 0, &[1])));
    world.settle();
    assert_eq!(endpoints(&world), 3);
    world.configure(0, Some(quota(Some(2), Some(6), None)));
    world.set(0, &key(3), None);
    world.settle();
    assert_eq!((endpoints(&world), world.rejects(0).len()), (6, 0), "there is room for all that wait");
    assert_eq!(world.writer.backends()[&name(0)].usage.total().endpoints, 6);
}

/// Deletions wait for their turn like changes, and none of them is lost; another backend is not slowed.
#[test]
fn a_paced_backend_ends_as_its_source_is() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.configure(0, Some(quota(None, None, Some(1))));
    for k in 0..4 {
        world.set(0, &key(k), Some(service(0, 0, &[k])));
    }
    world.set(1, &key(3), Some(service(0, 0, &[9])));
    world.connect(0);
    world.connect(1);
    let run = |world: &mut World| {
        for _ in 0..100 {
            let _moved = world.speak(0) | world.hear(0) | world.speak(1) | world.hear(1) | world.watch();
            let _moved = world.start_job() | world.finish_job(Luck::Good);
        }
    };
    run(&mut world);
    let of = |world: &World, n: usize| world.services().filter(|s| claim(&s.metadata).unwrap().0 == n).count();
    assert_eq!((of(&world, 0), of(&world, 1)), (1, 1), "one at once, and the other backend's");
    world.settle();
    check(&world);
    for k in 0..4 {
        world.set(0, &key(k), None);
    }
    run(&mut world);
    assert!(of(&world, 0) > 1);
    world.settle();
    assert_eq!(of(&world, 0), 0);
    assert!(world.rejects(0).is_empty());
}

/// Of two that want one name and both wait for room, neither pushes the other away for ever.
#[test]
fn two_that_wait_for_one_name_and_for_room_come_to_rest() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    for agent in 0..BACKENDS.len() {
        world.configure(agent, Some(quota(Some(0), None, None)));
    }
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.set(1, &key(0), Some(service(0, 0, &[2])));
    world.settle();
    assert_eq!(world.server.objects.len(), 0);
    world.configure(1, Some(open()));
    world.settle();
    assert_eq!(endpoints(&world), 1, "who has room has the name");
    check_policies(&world);
}
