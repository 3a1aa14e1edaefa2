//! What is believed of a source, event by event.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use gimbal_discoverer::PATIENCE;
use gimbal_kubernetes_objects::{Meta, ServiceSpec};

use super::*;

/// A state, and the Services that its changes so far add up to.
struct TestSource {
    state: SourceState,
    offered: BTreeSet<SourceKey>,
}

impl TestSource {
    fn drain(&mut self, now: Instant) {
        for (key, service) in self.state.drain(now, SystemTime::UNIX_EPOCH) {
            if service.is_some() {
                self.offered.insert(key)
            } else {
                self.offered.remove(&key)
            };
        }
    }

    /// The answer to the last question.
    fn found(&mut self, incarnation: &str, now: Instant) -> bool {
        let asked = self.state.asked();
        self.state.found_incarnation(incarnation, asked, now)
    }

    fn is_complete(&self) -> bool {
        self.coverage() == Coverage::Complete
    }

    fn unknown(&self) -> Option<String> {
        match self.coverage() {
            Coverage::Unknown(parts) => {
                assert_eq!((parts.len(), &parts[0].0), (1, &Scope::All));
                parts.into_iter().next().map(|(_, reason)| reason)
            }
            Coverage::Nothing | Coverage::Complete => None,
        }
    }
}

impl Deref for TestSource {
    type Target = SourceState;
    fn deref(&self) -> &SourceState {
        &self.state
    }
}

impl DerefMut for TestSource {
    fn deref_mut(&mut self) -> &mut SourceState {
        &mut self.state
    }
}

fn state(flavour: Flavour) -> TestSource {
    let state = SourceState::new(Selection { flavour, ..Selection::default() });
    TestSource { state, offered: BTreeSet::new() }
}

fn service(name: &str) -> objects::Service {
    let metadata = Meta { namespace: "a".into(), name: name.into(), ..Meta::default() };
    objects::Service { metadata, spec: ServiceSpec::default() }
}

fn list_services(state: &mut SourceState, names: &[&str], now: Instant) {
    let page = names.iter().map(|name| service(name)).collect();
    for event in [WatchEvent::Alive, WatchEvent::ListBegin, WatchEvent::Listed(page), WatchEvent::ListDone] {
        state.event(SourceEvent::Service(event), now);
    }
}

fn list_slices(state: &mut SourceState, now: Instant) {
    for event in [WatchEvent::Alive, WatchEvent::ListBegin, WatchEvent::ListDone] {
        state.event(SourceEvent::Slice(event), now);
    }
}

fn offered(state: &TestSource) -> Vec<String> {
    state.offered.iter().map(ToString::to_string).collect()
}

fn complete(names: &[&str], now: Instant) -> TestSource {
    let mut state = state(Flavour::Slices);
    list_services(&mut state, names, now);
    state.drain(now);
    assert!(!state.is_complete() && offered(&state).is_empty());
    list_slices(&mut state, now);
    state.drain(now);
    assert!(state.is_complete());
    assert!(state.found_incarnation("one", 0, now));
    state
}

#[test]
fn a_relist_removes_only_once_the_source_is_found_to_be_the_same() {
    let now = Instant::now();
    let mut state = complete(&["kept", "gone"], now);
    let before = state.asked();
    list_services(&mut state, &["kept", "new"], now);
    state.drain(now);
    assert_eq!(offered(&state), ["a/gone", "a/kept", "a/new"]);
    assert_eq!(state.asked(), before + 1);
    // An answer to an older question proves nothing.
    assert!(state.found_incarnation("one", before, now));
    state.drain(now);
    assert_eq!(offered(&state).len(), 3);
    assert!(state.found_incarnation("one", before + 1, now));
    state.drain(now);
    assert_eq!(offered(&state), ["a/kept", "a/new"]);
    assert_eq!(state.trouble(), None);
}

#[test]
fn another_source_under_the_same_address_removes_nothing() {
    let now = Instant::now();
    let mut state = complete(&["mine"], now);
    list_services(&mut state, &["theirs"], now);
    assert!(!state.found("two", now));
    state.drain(now);
    assert!(offered(&state).contains(&"a/mine".to_owned()));
}

#[test]
fn a_list_that_is_never_proven_makes_the_kind_unknown() {
    let now = Instant::now();
    let mut state = complete(&["mine"], now);
    list_services(&mut state, &[], now);
    state.drain(now + PATIENCE - Duration::from_millis(1));
    assert_eq!((state.unknown(), state.trouble()), (None, None));
    state.drain(now + PATIENCE);
    assert!(state.unknown().is_some_and(|reason| reason.contains("not yet found to be the same")));
    assert_eq!(offered(&state), ["a/mine"]);
}

#[test]
fn unknown_until_every_kind_that_was_lost_is_listed_again() {
    let now = Instant::now();
    let mut state = complete(&["mine"], now);
    let forbidden = || ApiError::Forbidden { message: "no right".into() };
    state.event(SourceEvent::Service(WatchEvent::Failed(forbidden())), now);
    state.event(SourceEvent::Slice(WatchEvent::Failed(forbidden())), now);
    state.drain(now);
    let slices = "endpointslices: forbidden: the discoverer has no right to list and watch them";
    let both = format!("services: forbidden: the discoverer has no right to list and watch them; {slices}");
    assert_eq!((state.unknown(), state.is_complete()), (Some(both), false));
    list_services(&mut state, &["mine"], now);
    assert!(state.found("one", now));
    state.drain(now);
    assert_eq!(state.unknown().as_deref(), Some(slices));
    list_slices(&mut state, now);
    assert!(state.found("one", now));
    state.drain(now);
    assert!(state.is_complete());
}

#[test]
fn a_cluster_without_slices_is_told_from_one_that_does_not_answer() {
    let now = Instant::now();
    let missing = || ApiError::NotServed { message: "404".into() };
    let mut first = state(Flavour::Slices);
    first.event(SourceEvent::Slice(WatchEvent::Failed(missing())), now);
    assert!(!first.lacks_slices(now), "nothing has answered yet");
    list_services(&mut first, &[], now);
    assert!(first.lacks_slices(now));

    // Once there were slices, a 404 is trouble.
    let mut later = complete(&["mine"], now);
    later.event(SourceEvent::Slice(WatchEvent::Failed(missing())), now);
    assert!(!later.lacks_slices(now));
}

/// A credential plug-in's error contains its environment and its output.
#[test]
fn what_a_server_or_a_plug_in_says_is_not_told_to_others() {
    let said = "auth exec command 'T=\"hunter2\" plugin' failed".to_owned();
    for error in [
        ApiError::Transport { message: said.clone() },
        ApiError::Timeout { message: said.clone() },
        ApiError::Forbidden { message: said.clone() },
        ApiError::Unauthorized { message: said.clone() },
        ApiError::Server { message: said.clone(), status: 500, retry_after: None },
        ApiError::Undecodable { message: said.clone() },
        ApiError::Invalid { message: said, status: Some(422) },
    ] {
        let now = Instant::now();
        let mut state = complete(&["mine"], now);
        state.event(SourceEvent::Slice(WatchEvent::Failed(error.clone())), now);
        state.drain(now + PATIENCE);
        let reason = state.unknown().unwrap();
        assert!(reason.starts_with("endpointslices: ") && !reason.contains("hunter2"), "{reason}");
        let own = state.trouble().unwrap();
        assert_eq!(own, format!("endpointslices: {error}"), "the operator sees the whole error");
        assert_eq!(
            state.public_trouble(),
            Some(reason),
            "and who reaches the status page sees what is sent to the writer"
        );
    }
}

#[test]
fn slices_that_come_later_are_noticed() {
    let now = Instant::now();
    let missing = || ApiError::NotServed { message: "404".into() };
    let mut state = state(Flavour::Endpoints);
    // As a watch tells it: that a list begins comes before the server is asked, and again before each try.
    for _ in 0..3 {
        state.event(SourceEvent::Slice(WatchEvent::ListBegin), now);
        assert!(!state.has_slices_after_all(), "the server has not answered");
        state.event(SourceEvent::Slice(WatchEvent::Failed(missing())), now);
        assert!(!state.has_slices_after_all() && state.trouble().is_none());
    }
    state.event(SourceEvent::Slice(WatchEvent::ListBegin), now);
    state.event(SourceEvent::Slice(WatchEvent::Alive), now);
    assert!(state.has_slices_after_all());
    assert!(state.freshness(now).iter().all(|kind| kind.age.is_none()), "they are not what is read");
}
