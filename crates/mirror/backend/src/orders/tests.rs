//! Annotations against a writer that leads, and what comes of them.
#![allow(clippy::disallowed_methods)] // A moment to begin with.

use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::HoldRecord;
use gimbal_reconcile::{BackendState, Output, Policy, RemovalState, Settings, Watched};
use gimbal_session::{Credit, Hello, PROTOCOL, WriterLimits};

use super::*;
use crate::BackendRemoval;

/// A writer that leads, node02, and what its status says.
struct Led {
    state: Reconciler,
    book: OrderBook,
    said: BackendResourceStatus,
    uid: &'static str,
    is_leaving: bool,
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
        let said = BackendResourceStatus::default();
        Self { state, book: OrderBook::default(), said, uid: "one", is_leaving: false, now }
    }

    /// One whose name belongs to source `a`.
    fn of_a() -> Self {
        Self::with(BackendState { incarnation: Some("a".into()), ..BackendState::default() })
    }

    /// An agent of this source dials. Returns whether it is let in.
    fn dial(&mut self, incarnation: &str) -> bool {
        let hello = Hello {
            protocol: (PROTOCOL, PROTOCOL),
            capabilities: Default::default(),
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
        let (uid, is_leaving, said) = (self.uid.into(), self.is_leaving, self.said.clone());
        let asked = AskedOrders { name: node02(), uid, is_leaving, orders, said };
        let answers = self.book.carry_out(&mut self.state, &asked);
        let shown = answers.iter().map(|answer| (answer.result, answer.message.clone())).collect();
        self.said.answers = answers;
        if self.is_leaving {
            let removal = self.state.removal(&node02(), 1);
            self.said.removal = removal
                .map(|state| BackendRemoval::of(&node02(), &state, self.said.removal.as_ref(), |_| "then".to_owned()));
        }
        shown
    }

    /// The configuration says that node02 is to leave, and so does its object.
    fn delete(&mut self) {
        let leaving = Policy { leaving: true, ..Policy::default() };
        self.state.configure([(node02(), leaving)].into(), self.now);
        self.state.set_objects([(node02(), self.uid.into())].into(), self.now);
        self.is_leaving = true;
    }

    /// The Gimbal cluster is listed.
    fn listed(mut self) -> Self {
        for kind in Watched::ALL {
            self.state.list_begin(kind);
            self.state.list_end(kind, self.now);
        }
        self
    }

    fn is_being_removed(&self) -> bool {
        let removal = self.state.removal(&node02(), 1);
        let Some(removal) = removal else { return false };
        !matches!(removal, RemovalState::Awaited { .. } | RemovalState::OfAnotherWriter { .. })
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
    assert!(answers[0].1.contains("refused was b; "), "{answers:?}");
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
    assert!(answers[0].1.contains("nothing is held; "), "{answers:?}");
}

/// What is followed once is not followed again because its annotation is set to and fro.
#[test]
fn an_annotation_that_goes_to_and_fro_decides_nothing_twice() {
    let mut led = Led::of_a();
    assert!(!led.dial("b"));
    let (to_b, to_a) = ([(BackendOrder::ConfirmIncarnation, "b")], [(BackendOrder::ConfirmIncarnation, "a")]);
    led.look(&to_b);
    led.store();
    assert_eq!(led.look(&to_b)[0].0, AnswerResult::Done);
    assert!(!led.dial("a"));
    let waits = led.look(&to_a);
    assert_eq!((waits[0].0, &*led.said.answers[0].value), (AnswerResult::Done, "b"), "that to the value before stays");
    led.store();
    led.look(&to_a);
    assert_eq!((led.incarnation(), &*led.said.answers[0].value), (Some("a"), "a"));
    assert!(!led.dial("b"));
    for restarted in [false, true] {
        if restarted {
            led.book.forget();
        }
        let answers = led.look(&to_b);
        assert_eq!(answers[0].0, AnswerResult::Refused);
        let again = "`kubectl annotate backend node02 gimbal.projectcontour.io/confirm-incarnation-` comes before";
        assert!(answers[0].1.contains(again), "{answers:?}");
        assert_eq!(led.look(&to_a)[0].0, AnswerResult::Refused, "that was followed as well");
        assert_eq!(led.incarnation(), Some("a"));
    }
    led.look(&[]);
    led.look(&to_b);
    assert_eq!(led.incarnation(), Some("b"), "it is another word");
}

/// Each of several was followed, and not only the last.
#[test]
fn all_values_of_an_annotation_that_were_followed_are_remembered() {
    let mut led = Led::of_a();
    for source in ["b", "c", "d"] {
        assert!(!led.dial(source));
        let order = [(BackendOrder::ConfirmIncarnation, source)];
        led.look(&order);
        led.store();
        assert_eq!(led.look(&order)[0].0, AnswerResult::Done);
    }
    assert!(!led.dial("b"));
    assert_eq!(led.look(&[(BackendOrder::ConfirmIncarnation, "b")])[0].0, AnswerResult::Refused);
    assert_eq!(led.incarnation(), Some("d"));
}

/// What was refused was not followed: it may be asked again after something else was.
#[test]
fn a_value_that_was_refused_is_decided_anew_after_another_one() {
    let mut led = Led::of_a();
    assert!(!led.dial("b"));
    let (to_b, to_c) = ([(BackendOrder::ConfirmIncarnation, "b")], [(BackendOrder::ConfirmIncarnation, "c")]);
    assert_eq!(led.look(&to_c)[0].0, AnswerResult::Refused);
    led.look(&to_b);
    led.store();
    assert_eq!(led.look(&to_b)[0].0, AnswerResult::Done);
    assert!(!led.dial("c"));
    led.look(&to_c);
    assert_eq!(led.incarnation(), Some("c"));
}

/// What was decided for one value is no answer to the next.
#[test]
fn a_value_that_is_replaced_before_its_answer_has_none() {
    let mut led = Led::of_a();
    assert!(!led.dial("b"));
    assert!(led.look(&[(BackendOrder::ConfirmIncarnation, "b")]).is_empty(), "it is not stored yet");
    led.store();
    let answers = led.look(&[(BackendOrder::ConfirmIncarnation, "c")]);
    assert_eq!(answers[0].0, AnswerResult::Refused, "{answers:?}");
}

/// A copied object does not keep out the source that comes first.
#[test]
fn an_annotation_confirms_nothing_in_advance() {
    let mut led = Led::with(BackendState::default());
    let order = [(BackendOrder::ConfirmIncarnation, "b")];
    assert!(led.look(&order).is_empty());
    assert_eq!(led.incarnation(), None);
    assert!(led.dial("a"));
    assert_eq!(led.look(&order)[0].0, AnswerResult::Refused);
    assert_eq!(led.incarnation(), Some("a"));
    // One that names the source which has come is answered.
    let mut led = Led::with(BackendState::default());
    assert!(led.look(&order).is_empty());
    assert!(led.dial("b"));
    led.look(&order);
    led.store();
    assert_eq!(led.look(&order)[0].0, AnswerResult::Done);
}

/// What was decided for an object, and is not answered yet, is no answer to another object of its name.
#[test]
fn another_object_of_the_name_has_orders_of_its_own() {
    let mut led = Led::of_a();
    assert!(!led.dial("b"));
    let order = [(BackendOrder::ConfirmIncarnation, "b")];
    assert!(led.look(&order).is_empty());
    led.store();
    led.uid = "two";
    led.state.confirm_incarnation(&node02(), "b").unwrap();
    assert!(!led.dial("a"));
    led.state.confirm_incarnation(&node02(), "a").unwrap();
    assert_eq!(led.look(&order)[0].0, AnswerResult::Refused, "nothing was done for this one");
    assert_eq!(led.incarnation(), Some("a"));
}

#[test]
fn a_backend_is_removed_by_the_id_that_was_shown_once_its_object_is_deleted() {
    let mut led = Led::of_a().listed();
    let id = led.state.inventory(&node02()).id(&node02());
    let order = [(BackendOrder::Decommission, &*id)];
    let answers = led.look(&order);
    assert!(answers[0].1.starts_with("the object is not being deleted"), "{answers:?}");
    led.delete();
    assert_eq!(led.look(&order), answers, "a word from before does not count for the deletion");
    led.look(&[]);
    assert_eq!(led.said.removal.as_ref().map(|removal| &*removal.id), Some(&*id));
    let other = led.look(&[(BackendOrder::Decommission, "node02-1-1-0-8-00000000")]);
    assert!(other[0].1.contains(&format!("{id} is the id of that")), "{other:?}");
    assert!(matches!(led.state.removal(&node02(), 1), Some(RemovalState::Awaited { .. })));
    assert_eq!(led.look(&order)[0], other[0], "it is not stored yet");
    assert!(led.is_being_removed());
    led.store();
    assert_eq!(led.look(&order)[0].0, AnswerResult::Done);
    // A writer that died before it answered: the next one knows of the order, and not of the answer.
    led.book.forget();
    led.said.answers.clear();
    assert!(led.look(&order).is_empty(), "it is not stored by this writer yet");
    led.store();
    assert_eq!(led.look(&order), [(AnswerResult::Done, "its removal was ordered before".to_owned())]);
}

/// A Service that node02 published comes to light.
fn publish(led: &mut Led, name: &str) {
    let service = serde_json::json!({"metadata": {
        "name": format!("node02-{name}"), "namespace": "team1", "uid": name, "resourceVersion": "1",
        "labels": {"gimbal.projectcontour.io/backend": "node02"},
        "annotations": {"gimbal.projectcontour.io/source": format!("team1/{name}")},
    }});
    led.state.apply_service(&serde_json::from_value(service).unwrap(), led.now);
}

/// By the time at which the approval is stored it is over: nothing was done for it.
#[test]
fn an_approval_that_is_withdrawn_is_refused() {
    type Withdraw = fn(&mut Led);
    let withdrawals: [(Withdraw, &str); 2] = [
        (|led| publish(led, "other"), "what would go is another by now"),
        (
            |led| led.state.configure([(node02(), Policy::default())].into(), led.now),
            "the configuration of this writer admits it",
        ),
    ];
    for (withdraw, why) in withdrawals {
        let mut led = Led::of_a().listed();
        publish(&mut led, "web");
        led.delete();
        led.look(&[]);
        let id = led.said.removal.clone().unwrap().id;
        let order = [(BackendOrder::Decommission, &*id)];
        assert!(led.look(&order).is_empty(), "it is not stored yet");
        withdraw(&mut led);
        led.store();
        let answers = led.look(&order);
        assert_eq!(answers[0].0, AnswerResult::Refused, "{answers:?}");
        assert!(
            answers[0].1.starts_with("its removal was approved, and is over: ") && answers[0].1.contains(why),
            "{answers:?}"
        );
        assert!(!led.is_being_removed());
        assert_eq!(led.look(&order), answers);
        // What is there now can be approved.
        led.delete();
        led.look(&[]);
        let id = led.said.removal.clone().unwrap().id;
        let order = [(BackendOrder::Decommission, &*id)];
        led.look(&order);
        led.store();
        assert_eq!(led.look(&order)[0].0, AnswerResult::Done);
    }
}

/// Who has not seen the whole cluster does not know what would go.
#[test]
fn an_approval_waits_until_the_cluster_is_listed() {
    let mut led = Led::of_a();
    led.delete();
    assert!(led.look(&[(BackendOrder::Decommission, "node02-0-0-0-0-00000000")]).is_empty());
    led = led.listed();
    assert_eq!(led.look(&[(BackendOrder::Decommission, "node02-0-0-0-0-00000000")])[0].0, AnswerResult::Refused);
}

/// An id that was not shown orders nothing, however right it is: an exported object has it in its annotations.
#[test]
fn an_id_that_the_object_never_showed_removes_nothing() {
    let mut led = Led::of_a().listed();
    led.delete();
    let id = led.state.inventory(&node02()).id(&node02());
    let order = [(BackendOrder::Decommission, &*id)];
    let answers = led.look(&order);
    assert_eq!(answers[0].0, AnswerResult::Refused, "{answers:?}");
    assert!(!led.is_being_removed());
    // It is shown by now, and the answer stays as long as the annotation does.
    assert_eq!(led.look(&order), answers);
    assert!(!led.is_being_removed());
    led.look(&[]);
    led.look(&order);
    assert!(led.is_being_removed());
}

/// Object and configuration agree that it is deleted, or nothing is removed.
#[test]
fn nothing_is_removed_before_the_object_and_the_configuration_say_so() {
    let mut led = Led::of_a().listed();
    led.delete();
    led.look(&[]);
    let id = led.said.removal.clone().unwrap().id;
    let order = [(BackendOrder::Decommission, &*id)];
    led.state.configure([(node02(), Policy::default())].into(), led.now);
    assert!(led.look(&order).is_empty(), "the configuration follows");
    assert!(!led.is_being_removed());
    led.delete();
    led.is_leaving = false;
    assert!(led.look(&order)[0].1.starts_with("the object is not being deleted"));
    assert!(!led.is_being_removed());
    led.look(&[]);
    led.is_leaving = true;
    led.look(&order);
    assert!(led.is_being_removed());
}

/// What was approved for one object is not done to another that has its name by then.
#[test]
fn an_approval_waits_until_its_object_is_the_one_that_is_known() {
    let mut led = Led::of_a().listed();
    led.delete();
    led.look(&[]);
    let id = led.said.removal.clone().unwrap().id;
    let order = [(BackendOrder::Decommission, &*id)];
    led.uid = "two";
    assert!(led.look(&order).is_empty());
    assert!(!led.is_being_removed());
    led.delete();
    led.look(&order);
    assert!(led.is_being_removed());
    let state = led.state.backends()[&node02()].state();
    assert_eq!(state.decommission.as_ref().unwrap().object.as_deref(), Some("two"), "the order is about this one");
}

/// A writer that ends before it has stored an approval leaves it to the next one: it need not be given again.
#[test]
fn an_approval_that_was_not_stored_counts_for_the_next_writer() {
    let mut led = Led::of_a().listed();
    led.delete();
    led.look(&[]);
    let id = led.said.removal.clone().unwrap().id;
    let order = [(BackendOrder::Decommission, &*id)];
    assert!(led.look(&order).is_empty(), "it is not stored yet");
    let mut next = Led::of_a().listed();
    next.delete();
    next.said = led.said;
    assert!(!next.is_being_removed());
    next.look(&order);
    assert!(next.is_being_removed());
    next.store();
    assert_eq!(next.look(&order)[0].0, AnswerResult::Done);
}

/// Whoever reads it can do it as it is written.
#[test]
fn a_command_takes_away_first_what_was_answered() {
    let set = "kubectl annotate backend node02 --overwrite gimbal.projectcontour.io/decommission=node02-1";
    let answer = |order: BackendOrder, value: &str| BackendAnswer {
        annotation: order.annotation().to_owned(),
        value: value.to_owned(),
        result: AnswerResult::Refused,
        message: String::new(),
        earlier: Vec::new(),
    };
    let command = |answers: &[BackendAnswer]| BackendOrder::Decommission.command(&node02(), "node02-1", answers);
    assert_eq!(command(&[]), set);
    assert_eq!(command(&[answer(BackendOrder::Decommission, "node02-2")]), set, "another value is news");
    assert_eq!(command(&[answer(BackendOrder::Approve, "node02-1")]), set);
    let again = format!("kubectl annotate backend node02 gimbal.projectcontour.io/decommission- && {set}");
    assert_eq!(command(&[answer(BackendOrder::Decommission, "node02-1")]), again);
}

#[test]
fn no_agent_chooses_what_a_shell_reads() {
    let of = |value: &str| BackendOrder::ConfirmIncarnation.command(&node02(), value, &[]);
    let command = "kubectl annotate backend node02 --overwrite gimbal.projectcontour.io/confirm-incarnation=";
    assert_eq!(of("https://k.example:5000/v3"), format!("{command}https://k.example:5000/v3"));
    for value in ["a;b", "$(b)", "a b", "'a", "a\nb", "`b`"] {
        assert_eq!(of(value), format!("{command}VALUE"));
    }
}
