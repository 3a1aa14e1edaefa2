//! What the writer says of an address of a Service, and of how far the Service has come.

use std::net::IpAddr;
use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{AddressExplanation, Claim, Mode, Policy, WriteAnswer};

use super::OPEN;
use super::before_removal::{WAIT, ordered};
use super::policy::open;
use super::world::{BACKENDS, World, key, service};

fn claim(agent: usize, n: u8) -> Claim {
    Claim { backend: BackendName::parse(BACKENDS[agent]).unwrap(), key: key(n) }
}

/// Returns the generation of an agent's open stream.
fn generation(world: &World, agent: usize) -> u64 {
    world.agents[agent].stream.as_ref().unwrap().0
}

/// Explains the address of a host of [`service`]: whether the agent sent it as ready, its objects, and why.
fn explained(world: &World, claim: &Claim, host: u8) -> (Option<bool>, Vec<(&'static str, bool)>, Vec<String>) {
    let address = IpAddr::from([10, 0, 0, host + 1]);
    let explanation = world.writer.explain_source(claim);
    let AddressExplanation { sent, objects, reasons, .. } = world.writer.explain_address(&explanation, address);
    let objects = objects.iter().map(|object| (object.kind, object.conditions.ready)).collect();
    (sent.map(|conditions| conditions.ready), objects, reasons)
}

#[test]
fn an_address_is_followed_from_its_agent_to_the_gimbal_cluster() {
    let mut world = World::new(EndpointsApi::Both, OPEN);
    let web = claim(0, 0);
    world.set(0, &key(0), Some(service(0, 0, &[1, 2])));
    world.settle();
    let there = || vec![("EndpointSlice", true), ("Endpoints", true)];
    let is = |reasons: &[&str]| reasons.iter().map(ToString::to_string).collect::<Vec<_>>();
    let none = Vec::new;
    assert_eq!(explained(&world, &web, 1), (Some(true), there(), is(&["it is published as the agent sent it"])));
    let unsent = "the agent sent 2 endpoints, and none with this address";
    assert_eq!(explained(&world, &web, 7), (None, none(), is(&[unsent])));

    // What came since the backend is in quarantine is not there, and what went since then still is.
    world.configure(0, Some(Policy { mode: Mode::Quarantine, ..open() }));
    world.set(0, &key(0), Some(service(0, 0, &[2, 3])));
    world.settle();
    let quarantined = "its Service is rejected (Quarantined): the backend is in quarantine: nothing is written for it until it is admitted";
    let absent = format!("it is not published: {quarantined}");
    assert_eq!(explained(&world, &web, 3), (Some(true), none(), is(&[&absent])));
    let stays = format!("it is still published: {quarantined}");
    assert_eq!(explained(&world, &web, 1), (None, there(), is(&[unsent, &stays])));

    // A writer that no agent has spoken to knows only what is published.
    world.restart_writer();
    world.cut(0);
    let (sent, objects, reasons) = explained(&world, &web, 1);
    assert_eq!((sent, objects), (None, there()));
    assert_eq!(reasons[0], "the agent has sent no such Service");
    assert!(reasons[1].starts_with("it is still published: "), "{reasons:?}");
}

#[test]
fn the_objects_of_another_claim_are_no_place_of_an_address() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    // Both want one/a-b-svc.
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.settle();
    world.set(1, &key(0), Some(service(0, 0, &[1, 9])));
    world.settle();
    let (sent, objects, reasons) = explained(&world, &claim(1, 0), 1);
    assert_eq!((sent, objects), (Some(true), Vec::new()), "the slice is the other one's");
    assert_eq!(reasons, ["it is not published: its Service is rejected (NameConflict): the name one/a-b-svc is taken"]);
    assert_eq!(explained(&world, &claim(0, 1), 1).1, [("EndpointSlice", true)]);
}

#[test]
fn the_frame_and_the_last_write_are_those_of_the_claim_that_has_the_name() {
    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(1), Some(service(0, 0, &[1])));
    world.settle();
    world.set(1, &key(0), Some(service(0, 0, &[9])));
    world.settle();
    let (first, second) = (claim(0, 1), claim(1, 0));
    let before = world.writer.explain_source(&first);
    let frame = before.progress.carried.unwrap();
    assert_eq!((frame.generation, &before.progress.last_write), (generation(&world, 0), &None));

    let target = before.target.unwrap();
    let at = |seconds| world.now + Duration::from_secs(seconds);
    let answer = |status, answer, at| {
        let (verb, kind, name) = ("patch", "EndpointSlice", "s".into());
        WriteAnswer { verb, kind, name, status: Some(status), answer, at }
    };
    world.writer.note_answer(&target, answer(200, WriteAnswer::OK, at(1)));
    world.writer.note_answer(&target, answer(409, "conflict", at(2)));
    let progress = world.writer.explain_source(&first).progress;
    assert_eq!((progress.last_write.unwrap().status, progress.written), (Some(409), Some(at(1))));
    // The other claim has sent something, and nothing of it was written.
    let other = world.writer.explain_source(&second).progress;
    assert_eq!((other.carried.map(|frame| frame.generation), other.last_write), (Some(generation(&world, 1)), None));
    assert_eq!(other.written, None);

    world.set(0, &key(1), Some(service(1, 0, &[1])));
    world.settle();
    let later = world.writer.explain_source(&first).progress.carried.unwrap();
    assert!(later.seq > frame.seq, "{later:?} after {frame:?}");
    assert_eq!(world.writer.explain_source(&claim(0, 3)).progress, gimbal_reconcile::TargetProgress::default());
}

/// What an admin ordered is no loss, and what is about to be deleted does not stay.
#[test]
fn an_address_that_goes_is_said_to_go() {
    let web = claim(0, 0);
    let unsent = "the agent has sent no such Service".to_owned();
    let expected = |cause: &str| vec![unsent.clone(), format!("it is still published: {cause}")];
    let (mut world, _, _) = ordered(EndpointsApi::EndpointSlices, WAIT);
    world.settle_for(Duration::from_secs(5));
    let (sent, objects, reasons) = explained(&world, &web, 0);
    assert_eq!((sent, objects), (None, vec![("EndpointSlice", false)]));
    let removal = "the removal of its backend is approved: its endpoints are not ready, and are deleted later (onRemoval.notReadyFor)";
    assert_eq!(reasons, expected(removal));

    let (mut world, _, _) = ordered(EndpointsApi::EndpointSlices, Duration::ZERO);
    world.collect();
    assert_eq!(explained(&world, &web, 0).2, expected("its backend is being removed, and this with it"));

    let mut world = World::new(EndpointsApi::EndpointSlices, OPEN);
    world.set(0, &key(0), Some(service(0, 0, &[0])));
    world.settle();
    world.set(0, &key(0), None);
    while world.speak(0) | world.hear(0) {}
    let gone = "the agent has said that its Service is gone: a write is waiting or under way";
    assert_eq!(explained(&world, &web, 0).2, expected(gone));
}
