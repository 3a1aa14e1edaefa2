//! What is believed of a source, event by event.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use gimbal_discoverer::PATIENCE;
use gimbal_kubernetes_objects::{Meta, ServiceSpec};

use super::*;

/// A session, and what it offers by all that it has said.
struct Told {
    session: Session,
    offered: BTreeSet<SourceKey>,
}

impl Told {
    fn settle(&mut self, now: Instant) {
        for (key, service) in self.session.settle(now) {
            if service.is_some() {
                self.offered.insert(key)
            } else {
                self.offered.remove(&key)
            };
        }
    }

    /// The answer to the last question.
    fn found(&mut self, incarnation: &str, now: Instant) -> bool {
        let asked = self.session.asked();
        self.session.found_incarnation(incarnation, asked, now)
    }

    fn is_complete(&self) -> bool {
        self.standing() == Standing::Complete
    }

    fn unknown(&self) -> Option<String> {
        match self.standing() {
            Standing::Unknown(parts) => {
                assert_eq!((parts.len(), &parts[0].0), (1, &Scope::All));
                parts.into_iter().next().map(|(_, reason)| reason)
            }
            Standing::Nothing | Standing::Complete => None,
        }
    }
}

impl Deref for Told {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Told {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

fn session(flavour: Flavour) -> Told {
    let session = Session::new(Selection { flavour, ..Selection::default() });
    Told { session, offered: BTreeSet::new() }
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

fn offered(session: &Told) -> Vec<String> {
    session.offered.iter().map(ToString::to_string).collect()
}

fn complete(names: &[&str], now: Instant) -> Told {
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
    assert!(!session.found("two", now));
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
    let slices = "endpointslices: forbidden: the discoverer has no right to list and watch them";
    let both = format!("services: forbidden: the discoverer has no right to list and watch them; {slices}");
    assert_eq!((session.unknown(), session.is_complete()), (Some(both), false));
    list_services(&mut session, &["mine"], now);
    assert!(session.found("one", now));
    session.settle(now);
    assert_eq!(session.unknown().as_deref(), Some(slices));
    list_slices(&mut session, now);
    assert!(session.found("one", now));
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

/// A credential plug-in's error tells its environment and all that it printed.
#[test]
fn what_a_server_or_a_plug_in_says_is_not_told_to_the_writer() {
    let said = "auth exec command 'T=\"hunter2\" plugin' failed".to_owned();
    for error in [
        ApiError::Transport { message: said.clone() },
        ApiError::Timeout { message: said.clone() },
        ApiError::Forbidden { message: said.clone() },
        ApiError::Unauthorized { message: said.clone() },
        ApiError::Server { message: said.clone(), retry_after: None },
        ApiError::Undecodable { message: said.clone() },
        ApiError::Invalid { message: said },
    ] {
        let now = Instant::now();
        let mut session = complete(&["mine"], now);
        session.event(SourceEvent::Slice(WatchEvent::Failed(error.clone())), now);
        session.settle(now + PATIENCE);
        let told = session.unknown().unwrap();
        assert!(told.starts_with("endpointslices: ") && !told.contains("hunter2"), "{told}");
        let own = session.trouble().unwrap();
        assert_eq!(own, format!("endpointslices: {error}"), "who runs it is told all");
    }
}

#[test]
fn slices_that_come_later_are_noticed() {
    let now = Instant::now();
    let missing = || ApiError::NotFound { message: "404".into(), namespace: false };
    let mut session = session(Flavour::Endpoints);
    // As a watch tells it: that a list begins comes before the server is asked, and again before each try.
    for _ in 0..3 {
        session.event(SourceEvent::Slice(WatchEvent::ListBegin), now);
        assert!(!session.has_slices_after_all(), "nobody has answered");
        session.event(SourceEvent::Slice(WatchEvent::Failed(missing())), now);
        assert!(!session.has_slices_after_all() && session.trouble().is_none());
    }
    session.event(SourceEvent::Slice(WatchEvent::ListBegin), now);
    session.event(SourceEvent::Slice(WatchEvent::Alive), now);
    assert!(session.has_slices_after_all());
    assert!(session.freshness(now).iter().all(|kind| kind.age.is_none()), "they are not what is read");
}
