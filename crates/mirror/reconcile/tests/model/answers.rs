//! What the writer learns from the answers to a job, and from the watch before them.

use std::time::Duration;

use gimbal_kubernetes_objects::EndpointSlice;
use gimbal_plan::{Body, EndpointsApi};
use gimbal_reconcile::{JourneyEnd, Watched, WriteFailure, Written};
use gimbal_session::RejectReason;

use super::OPEN;
use super::server::{Luck, id};
use super::world::{World, key, service};

fn world() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.settle();
    world.set(0, &key(0), Some(service(0, 0, &[1])));
    while world.speak(0) | world.hear(0) {}
    world
}

/// The Service and its slice are one job, and the target need not be looked at again after it.
#[test]
fn a_service_is_created_by_one_job() {
    for watched_first in [false, true] {
        let mut world = world();
        assert!(world.start_job());
        assert!(!world.start_job());
        world.carry_out_job(Luck::Good);
        assert_eq!(world.server.writes, 2);
        while watched_first && world.watch() {}
        world.finish_job(Luck::Good);
        assert_eq!(world.writer.pending(), 0, "watched first: {watched_first}");
        while world.watch() {}
        assert_eq!(world.writer.pending(), 0, "watched first: {watched_first}");
    }
}

/// If the Service cannot be created, its slice is not sent, because no consumer would find it.
#[test]
fn what_follows_is_not_sent_where_the_first_fails() {
    let mut world = world();
    let job = world.writer.next_job(world.now).unwrap();
    let mut sent = 0;
    let written = job.carry_out(|_| {
        sent += 1;
        Written::Failed(WriteFailure::Api("refused".into()))
    });
    assert_eq!((sent, written.len(), &written[1]), (1, 2, &Written::NotSent));
    world.writer.finish(&job, written, world.now);
    world.settle();
    assert_eq!((world.services().count(), world.slices().count()), (1, 1));
}

/// Fails every write that may start now, and returns how many.
fn fail_all(world: &mut World, failure: &WriteFailure) -> usize {
    let mut failed = 0;
    while let Some(job) = world.writer.next_job(world.now) {
        let written = job.carry_out(|_| Written::Failed(failure.clone()));
        world.writer.finish(&job, written, world.now);
        failed += 1;
    }
    world.collect();
    failed
}

/// An outage shows in the time of the changes that it delays, and in what waits while it lasts.
#[test]
fn a_change_that_the_api_server_fails_to_write_is_on_its_way_until_it_is_written() {
    let minute = Duration::from_secs(60);
    let mut world = world();
    world.settled.clear();
    let begun = world.now;
    let mut failed = 0;
    while world.now < begun + minute {
        failed += fail_all(&mut world, &WriteFailure::Api("timeout".into()));
        assert_eq!(world.writer.oldest_pending(world.now), Some(world.now - begun));
        world.pass(Duration::from_secs(1));
    }
    assert!(failed > 3, "{failed} writes failed");
    assert_eq!(world.settled, [(JourneyEnd::Rejected, Duration::ZERO)]);
    world.settle();
    assert_eq!(world.settled.len(), 2, "{:?}", world.settled);
    let (end, took) = world.settled[1];
    assert!(end == JourneyEnd::Written && took >= minute, "{:?}", world.settled);
    assert_eq!(world.writer.oldest_pending(world.now), None);
}

/// What an admission webhook refuses is refused until a person changes something: it is not late.
#[test]
fn a_change_that_the_api_server_refuses_does_not_wait() {
    let mut world = world();
    world.settled.clear();
    fail_all(&mut world, &WriteFailure::Forbidden("a webhook".into()));
    assert_eq!(world.settled, [(JourneyEnd::Rejected, Duration::ZERO)]);
    assert_eq!(world.writer.oldest_pending(world.now), None);
    world.settle();
    assert_eq!((world.services().count(), world.settled.len()), (1, 1));
}

/// Whatever is against the object: after some tries it is a Service that is rejected, and not a change that is late.
#[test]
fn a_change_that_meets_a_conflict_time_and_again_does_not_wait_for_ever() {
    for contested in [None, Some(WriteFailure::Contested("409".into()))] {
        let mut world = world();
        world.settle();
        world.set(0, &key(0), Some(service(1, 0, &[1, 2])));
        while world.speak(0) | world.hear(0) {}
        let mut waits = Vec::new();
        for _ in 0..120 {
            while let Some(job) = world.writer.next_job(world.now) {
                let written = job.carry_out(|action| match &contested {
                    Some(failure) => Written::Failed(failure.clone()),
                    None => {
                        let id = (action.kind().kind, action.namespace().to_string(), action.name().to_string());
                        Written::Conflict { there: world.server.objects[&id].clone() }
                    }
                });
                world.writer.finish(&job, written, world.now);
            }
            world.collect();
            while world.hear(0) {}
            world.pass(Duration::from_secs(1));
            waits.push(world.writer.oldest_pending(world.now).is_some());
        }
        assert!(waits[0], "{contested:?}: one conflict is no refusal");
        assert!(!waits[60..].contains(&true), "{contested:?}: {waits:?}");
        assert_eq!(world.rejects(0)[0].reason, RejectReason::ApiError);
        world.settle_for(Duration::from_secs(60));
        assert!(world.rejects(0).is_empty(), "it is tried on");
    }
}

/// A list that has begun shows an edit but not the create before it, and the answer to the create comes last.
#[test]
fn an_edit_that_is_seen_before_the_answer_is_put_right() {
    let mut world = world();
    world.start_job();
    world.carry_out_job(Luck::Good);
    let slice = world.slices().next().cloned().unwrap();
    world.server.put(Body::Slice(EndpointSlice { endpoints: Vec::new(), ..slice }));
    world.server.events.clear();
    let edited = world.slices().next().cloned().unwrap();
    world.writer.list_begin(Watched::Slices);
    world.writer.apply_slice(&edited, world.now);
    world.finish_job(Luck::Good);
    assert_eq!(world.writer.pending(), 1);
    world.settle();
    assert_eq!(world.slices().next().unwrap().endpoints.len(), 1);
}

/// Nothing reports the removal: the list began after it, and the answer is older than the list.
#[test]
fn an_answer_that_comes_after_a_list_brings_nothing_back() {
    let mut world = world();
    world.start_job();
    world.carry_out_job(Luck::Good);
    let slice = world.slices().next().cloned().map(Body::Slice).unwrap();
    world.server.remove(&id(slice.kind(), slice.meta()));
    world.list();
    world.finish_job(Luck::Good);
    world.settle();
    assert_eq!((world.services().count(), world.slices().count()), (1, 1));
}

/// Data whose source is not named could be that of another cluster, so the agent is refused.
#[test]
fn an_agent_that_offers_data_says_of_which_source() {
    let mut world = world();
    let name = gimbal_model::BackendName::parse(super::world::BACKENDS[0]).unwrap();
    let hello = |held| gimbal_session::Hello {
        protocol: (1, 1),
        capabilities: Default::default(),
        backend: name.to_string(),
        agent_instance: "other".into(),
        source_incarnation: String::new(),
        held,
        agent_version: "test".into(),
    };
    let generation = world.writer.backends()[&name].generation();
    let refused = world.writer.open(&name, &hello(Some(gimbal_session::Summary::default())), world.now).unwrap_err();
    assert_eq!(refused.reason, gimbal_session::GoodbyeReason::Incarnation);
    let backend = &world.writer.backends()[&name];
    assert!(backend.is_connected() && backend.generation() == generation, "a refused stream fences no other");
    assert!(world.writer.open(&name, &hello(None), world.now).is_ok(), "heartbeats may come");
}
