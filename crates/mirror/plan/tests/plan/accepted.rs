//! The form that a mutating server stores is accepted and not overwritten again and again (`docs/design.md#rule-6`).

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Object as _, Service};
use gimbal_plan::{Action, Body, EndpointsApi, Observed};
use serde_json::Value;

use crate::server::{Server, from_json, meta_mut, observe};
use crate::world::{planned, v4, wanted_by, web};

/// Executes a plan as the writer does: answers are applied and, where they differ, accepted. Returns how many
/// accepted forms were new.
fn execute(server: &mut Server, observed: &mut Observed, actions: &[Action]) -> usize {
    let mut new = 0;
    for action in actions {
        let answer = server.apply(action).unwrap().unwrap();
        let (Action::Create(sent) | Action::Replace(sent)) = action else { panic!("{action:?}") };
        assert!(observe(observed, &answer));
        let accepted = observed.accept(answer.kind(), answer.name(), sent.fingerprint(), answer.fingerprint());
        new += usize::from(accepted);
    }
    new
}

fn label(body: &mut Body) {
    meta_mut(body).labels.insert("webhook".into(), "was-here".into());
}

#[test]
fn until_either_side_changes() {
    let mut server = Server { webhook: Some(label), ..Server::default() };
    let mut observed = Observed::default();
    let wanted = |n| wanted_by(&web((0..n).map(v4)), EndpointsApi::Both);
    let plan = planned(Some(&wanted(3)), &observed);
    let actions: Vec<_> = plan.actions().cloned().collect();
    assert_eq!(execute(&mut server, &mut observed, &actions), 3);

    assert!(planned(Some(&wanted(3)), &observed).is_empty());
    // The event that follows the answer changes nothing.
    for body in server.objects.values() {
        observe(&mut observed, body);
    }
    assert!(planned(Some(&wanted(3)), &observed).is_empty());

    // Our side changes: one write each for slice and Endpoints, and a new form.
    let actions: Vec<_> = planned(Some(&wanted(4)), &observed).actions().cloned().collect();
    assert_eq!(actions.len(), 2);
    assert_eq!(execute(&mut server, &mut observed, &actions), 2);
    assert!(planned(Some(&wanted(4)), &observed).is_empty());

    // The other side changes.
    server.edit(Service::KIND, "node02-web", |object| object["metadata"]["labels"]["app"] = "edited".into());
    observe(&mut observed, &server.objects[&("services", "node02-web".to_string())]);
    let actions: Vec<_> = planned(Some(&wanted(4)), &observed).actions().cloned().collect();
    assert_eq!(actions.len(), 1);
    // It is the same form as before, but it was dropped in between, so it counts as new.
    assert_eq!(execute(&mut server, &mut observed, &actions), 1);
    assert!(planned(Some(&wanted(4)), &observed).is_empty());

    // The webhook is gone: the server would now store our form, but nothing causes a write.
    server.webhook = None;
    assert!(planned(Some(&wanted(4)), &observed).is_empty());
    assert!(!planned(Some(&wanted(4)), &server.observe()).is_empty());
}

#[test]
fn what_the_server_fills_in_is_no_form() {
    let mut server = Server::default();
    let mut observed = Observed::default();
    let plan = planned(Some(&wanted_by(&web((0..3).map(v4)), EndpointsApi::Both)), &observed);
    let actions: Vec<_> = plan.actions().cloned().collect();
    assert_eq!(execute(&mut server, &mut observed, &actions), 0);
}

/// The recorded answers of kube-apiserver 1.36.1 to the bodies of the golden test: the fields that it fills in make
/// no difference.
#[test]
fn a_real_server_fills_in_nothing_that_counts() {
    let recorded: Vec<Value> = serde_json::from_str(include_str!("answers.json")).unwrap();
    let kinds = [Service::KIND, EndpointSlice::KIND, EndpointSlice::KIND, Endpoints::KIND];
    assert_eq!(recorded.len(), kinds.len());
    for (pair, kind) in recorded.iter().zip(kinds) {
        let [sent, answer] = ["sent", "answer"].map(|side| from_json(kind, pair[side].clone()));
        assert_eq!(pair["answer"]["kind"], kind.kind);
        assert_ne!(sent, answer);
        assert_eq!(sent.fingerprint(), answer.fingerprint(), "{}", kind.kind);
    }
}

/// An accepted form is new only once, and a form is not accepted if the object has changed since.
#[test]
fn counted_once() {
    let mut server = Server { webhook: Some(label), ..Server::default() };
    let mut observed = Observed::default();
    let plan = planned(Some(&wanted_by(&web([]), EndpointsApi::EndpointSlices)), &observed);
    let Some(Action::Create(sent)) = plan.actions().next() else { panic!("{plan:?}") };
    let answer = server.apply(&Action::Create(sent.clone())).unwrap().unwrap();
    let (from, to) = (sent.fingerprint(), answer.fingerprint());
    assert_ne!(from, to);
    assert!(!observed.accept(Service::KIND, "node02-web", from, to), "nothing is held yet");
    observe(&mut observed, &answer);
    assert!(observed.accept(Service::KIND, "node02-web", from, to));
    assert!(!observed.accept(Service::KIND, "node02-web", from, to));
    assert!(!observed.accept(Service::KIND, "node02-web", from, from));
}
