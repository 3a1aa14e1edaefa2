//! What is believed of a source, event by event.

use std::time::Duration;

use gimbal_objects::{Meta, ServiceSpec};

use super::*;
use crate::health::PATIENCE;

fn session(flavour: Flavour) -> Session {
    let config = AgentConfig { backend: "b".into(), instance: "i".into(), version: "v".into() };
    Session::new(config, Selection { flavour, ..Selection::default() }, 0)
}

fn service(name: &str) -> objects::Service {
    let metadata = Meta { namespace: "a".into(), name: name.into(), ..Meta::default() };
    objects::Service { metadata, spec: ServiceSpec::default() }
}

fn list_services(session: &mut Session, names: &[&str], now: Instant) {
    let page = names.iter().map(|name| service(name)).collect();
    for event in [WatchEvent::Alive, WatchEvent::ListBegin, WatchEvent::Listed(page), WatchEvent::ListDone] {
        session.event(SourceEvent::Service(event), now);
    }
}

fn list_slices(session: &mut Session, now: Instant) {
    for event in [WatchEvent::Alive, WatchEvent::ListBegin, WatchEvent::ListDone] {
        session.event(SourceEvent::Slice(event), now);
    }
}

fn offered(session: &Session) -> Vec<String> {
    session.agent.services().map(|(key, _)| key.to_string()).collect()
}

fn complete(names: &[&str], now: Instant) -> Session {
    let mut session = session(Flavour::Slices);
    list_services(&mut session, names, now);
    session.settle(now);
    assert!(!session.is_complete() && offered(&session).is_empty());
    list_slices(&mut session, now);
    session.settle(now);
    assert!(session.is_complete());
    assert!(session.found_incarnation("one", 0, now));
    session
}

#[test]
fn a_relist_removes_only_once_the_source_is_found_to_be_the_same() {
    let now = Instant::now();
    let mut session = complete(&["kept", "gone"], now);
    let before = session.asked();
    list_services(&mut session, &["kept", "new"], now);
    session.settle(now);
    assert_eq!(offered(&session), ["a/gone", "a/kept", "a/new"]);
    assert_eq!(session.asked(), before + 1);
    // An answer to an older question proves nothing.
    assert!(session.found_incarnation("one", before, now));
    session.settle(now);
    assert_eq!(offered(&session).len(), 3);
    assert!(session.found_incarnation("one", before + 1, now));
    session.settle(now);
    assert_eq!(offered(&session), ["a/kept", "a/new"]);
    assert_eq!(session.trouble(), None);
}

#[test]
fn another_source_under_the_same_address_removes_nothing() {
    let now = Instant::now();
    let mut session = complete(&["mine"], now);
    list_services(&mut session, &["theirs"], now);
    assert!(!session.found_incarnation("two", session.asked(), now));
    session.settle(now);
    assert!(offered(&session).contains(&"a/mine".to_owned()));
}

#[test]
fn a_list_that_is_never_proven_makes_the_kind_unknown() {
    let now = Instant::now();
    let mut session = complete(&["mine"], now);
    list_services(&mut session, &[], now);
    session.settle(now + PATIENCE - Duration::from_millis(1));
    assert_eq!((session.unknown(), session.trouble()), (None, None));
    session.settle(now + PATIENCE);
    assert!(session.unknown().is_some_and(|reason| reason.contains("not yet found to be the same")));
    assert_eq!(offered(&session), ["a/mine"]);
}

#[test]
fn unknown_until_every_kind_that_was_lost_is_listed_again() {
    let now = Instant::now();
    let mut session = complete(&["mine"], now);
    let forbidden = || ApiError::Forbidden { message: "no right".into() };
    session.event(SourceEvent::Service(WatchEvent::Failed(forbidden())), now);
    session.event(SourceEvent::Slice(WatchEvent::Failed(forbidden())), now);
    session.settle(now);
    let both = "services: forbidden: no right; endpointslices: forbidden: no right";
    assert_eq!((session.unknown(), session.is_complete()), (Some(both), false));
    list_services(&mut session, &["mine"], now);
    assert!(session.found_incarnation("one", session.asked(), now));
    session.settle(now);
    assert_eq!(session.unknown(), Some("endpointslices: forbidden: no right"));
    list_slices(&mut session, now);
    assert!(session.found_incarnation("one", session.asked(), now));
    session.settle(now);
    assert!(session.is_complete());
}

#[test]
fn a_cluster_without_slices_is_told_from_one_that_does_not_answer() {
    let now = Instant::now();
    let missing = || ApiError::NotFound { message: "404".into(), namespace: false };
    let mut first = session(Flavour::Slices);
    first.event(SourceEvent::Slice(WatchEvent::Failed(missing())), now);
    assert!(!first.lacks_slices(now), "nothing has answered yet");
    list_services(&mut first, &[], now);
    assert!(first.lacks_slices(now));

    // Once there were slices, a 404 is trouble.
    let mut later = complete(&["mine"], now);
    later.event(SourceEvent::Slice(WatchEvent::Failed(missing())), now);
    assert!(!later.lacks_slices(now));
}
