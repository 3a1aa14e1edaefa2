//! Annotations against a writer that leads, and what comes of them.
#![allow(clippy::disallowed_methods)] // A moment to begin with.

use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::HoldRecord;
use gimbal_reconcile::{BackendState, Output, Policy, RemovalState, Settings, Watched};
use gimbal_session::{Credit, Hello, PROTOCOL, WriterLimits};

use super::*;

/// A writer that leads, node02, and what its status says.
struct Led {
    state: Reconciler,
    book: OrderBook,
    said: BackendResourceStatus,
    now: Instant,
}

fn node02() -> BackendName {
    BackendName::parse("node02").unwrap()
}

impl Led {
    /// Begins to lead with this stored state.
    fn with(stored: BackendState) -> Self {
        let limits =
            WriterLimits { credit: Credit { changes: 1, bytes: 1 }, heartbeat_timeout: Duration::from_secs(15) };
        let comparison_interval = Duration::from_secs(600);
        let mut state = Reconciler::new(Settings { api: Default::default(), limits, comparison_interval });
        let now = Instant::now();
        state.add_backend(&node02(), Policy::default(), now);
        state.restore(&node02(), stored, now, SystemTime::UNIX_EPOCH);
        state.lead(Some(1));
        Self { state, book: OrderBook::default(), said: BackendResourceStatus::default(), now }
    }

    /// One whose name belongs to source `a`.
    fn of_a() -> Self {
        Self::with(BackendState { incarnation: Some("a".into()), ..BackendState::default() })
    }

    /// An agent of this source dials. Returns whether it is let in.
    fn dial(&mut self, incarnation: &str) -> bool {
        let hello = Hello {
            protocol: (PROTOCOL, PROTOCOL),
            capabilities: Vec::new(),
            backend: "node02".into(),
            agent_instance: "1".into(),
            source_incarnation: incarnation.into(),
            held: None,
            agent_version: "test".into(),
        };
        self.state.open(&node02(), &hello, self.now).is_ok()
    }

    /// Looks at the object with these orders. Returns the answers, each as its result and message.
    fn look(&mut self, orders: &[(BackendOrder, &str)]) -> Vec<(AnswerResult, String)> {
        let orders = orders.iter().map(|(order, value)| (*order, (*value).to_owned())).collect();
        let asked = AskedOrders { name: node02(), orders, said: self.said.clone() };
        let answers = self.book.carry_out(&mut self.state, &asked, self.now);
        let shown = answers.iter().map(|answer| (answer.result, answer.message.clone())).collect();
        self.said.answers = answers;
        shown
    }

    /// Everything that was given to be stored is.
    fn store(&mut self) {
        for output in self.state.take_outputs() {
            if let Output::Keep { backend, version, .. } = output {
                self.state.kept(&backend, version, self.now);
            }
        }
    }

    fn incarnation(&self) -> Option<&str> {
        self.state.backends()[&node02()].state().incarnation.as_deref()
    }
}

#[test]
fn orders_are_read_without_spaces_and_not_at_any_length() {
    let annotations = [
        (BackendOrder::Approve.annotation(), " 0a\n".to_owned()),
        (BackendOrder::ConfirmIncarnation.annotation(), "\u{e4}".repeat(1000)),
        ("gimbal.projectcontour.io/other", "x".to_owned()),
    ];
    let annotations = annotations.into_iter().map(|(key, value)| (key.into(), value.as_str().into())).collect();
    let orders = BackendOrder::among(&annotations);
    assert_eq!((orders.len(), &*orders[&BackendOrder::Approve]), (2, "0a"));
    assert_eq!(orders[&BackendOrder::ConfirmIncarnation].len(), LONGEST);
    let empty = [(BackendOrder::Approve.annotation().into(), " ".into())].into();
    assert!(BackendOrder::among(&empty).is_empty());
}

#[test]
fn a_source_is_confirmed_once_and_answered_when_that_is_stored() {
    let mut led = Led::of_a();
    assert!(!led.dial("b"));
    let order = [(BackendOrder::ConfirmIncarnation, "b")];
    assert!(led.look(&order).is_empty(), "it is not stored yet");
    assert!(led.look(&order).is_empty());
    led.store();
    let done = (AnswerResult::Done, "the name belongs to this source, and no longer to a".to_owned());
    assert_eq!(led.look(&order), std::slice::from_ref(&done));
    assert!(led.dial("b"));
    // The name is given back another way. The annotation that stayed is no word for the next time.
    assert!(!led.dial("a"));
    led.state.confirm_incarnation(&node02(), "a").unwrap();
    assert!(!led.dial("b"));
    assert_eq!(led.look(&order), [done]);
    assert_eq!(led.incarnation(), Some("a"));
    // Neither after a restart.
    led.book.forget();
    led.look(&order);
    assert_eq!(led.incarnation(), Some("a"));
    // One that is taken back and given again is a new word.
    led.look(&[]);
    led.look(&order);
    assert_eq!(led.incarnation(), Some("b"));
}

#[test]
fn a_wrong_incarnation_is_refused_for_good() {
    let mut led = Led::of_a();
    assert!(!led.dial("b"));
    let order = [(BackendOrder::ConfirmIncarnation, "c")];
    let answers = led.look(&order);
    assert_eq!(answers[0].0, AnswerResult::Refused);
    assert!(answers[0].1.ends_with("refused was b"), "{answers:?}");
    // It comes later: that is another question.
    assert!(!led.dial("c"));
    assert_eq!(led.look(&order), answers);
    assert_eq!(led.incarnation(), Some("a"));
}

#[test]
fn what_the_writer_before_refused_waits_until_it_is_seen_again() {
    let mut led = Led::of_a();
    led.said.refused_incarnation = Some("b".into());
    let order = [(BackendOrder::ConfirmIncarnation, "b")];
    assert!(led.look(&order).is_empty());
    assert_eq!(led.incarnation(), Some("a"));
    assert!(!led.dial("b"));
    led.look(&order);
    assert_eq!(led.incarnation(), Some("b"));
}

#[test]
fn an_id_of_no_hold_is_refused_and_one_of_before_the_restart_waits() {
    let hold = HoldRecord { id: "0a".into(), since: SystemTime::UNIX_EPOCH, endpoints: 40, told: 40, to_nothing: true };
    let mut led = Led::with(BackendState { hold: Some(hold), ..BackendState::default() });
    assert!(led.look(&[(BackendOrder::Approve, "0a")]).is_empty());
    let answers = led.look(&[(BackendOrder::Approve, "0b")]);
    assert_eq!(answers[0].0, AnswerResult::Refused);
    assert!(answers[0].1.ends_with("nothing is held"), "{answers:?}");
}

#[test]
fn a_backend_is_removed_by_the_id_that_was_shown_once_its_object_is_deleted() {
    let mut led = Led::of_a();
    for kind in Watched::ALL {
        led.state.list_begin(kind);
        led.state.list_end(kind, led.now);
    }
    let order = [(BackendOrder::Decommission, "node02-0-0-0-0")];
    let answers = led.look(&order);
    assert!(answers[0].1.starts_with("the object is not being deleted"), "{answers:?}");
    let leaving = Policy { leaving: true, ..Policy::default() };
    led.state.configure([(node02(), leaving)].into(), led.now);
    assert_eq!(led.look(&order), answers, "a word from before does not count for the deletion");
    led.look(&[]);
    let other = led.look(&[(BackendOrder::Decommission, "node02-1-1-0-8")]);
    assert!(other[0].1.ends_with("node02-0-0-0-0 is the id of what would go"), "{other:?}");
    assert!(matches!(led.state.removal(&node02(), 1), Some(RemovalState::Awaited { .. })));
    assert!(led.look(&order).is_empty(), "it is not stored yet");
    assert!(matches!(led.state.removal(&node02(), 1), Some(RemovalState::UnderWay { .. })));
    led.store();
    assert_eq!(led.look(&order)[0].0, AnswerResult::Done);
}
