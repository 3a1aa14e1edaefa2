//! Histories of a watch, and what is in force after them.

use serde_json::{Value, json};

use super::*;

fn object(name: &str, spec: Value) -> BackendResource {
    let metadata = json!({"name": name, "uid": format!("uid-{name}"), "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn created(at: &str, mut object: BackendResource) -> BackendResource {
    object.metadata.creation_timestamp = Some(at.into());
    object
}

/// A cluster with these backends, each of which has its name as identity.
fn listed(names: &[&str]) -> BackendObjects {
    let mut objects = BackendObjects::default();
    list(&mut objects, "definition", names);
    objects
}

fn list(objects: &mut BackendObjects, definition: &str, names: &[&str]) {
    objects.list_begin(definition);
    for name in names {
        objects.apply(&object(name, json!({"identity": name}))).unwrap();
    }
    objects.list_end();
}

/// Returns each backend that is in force, with its identity.
fn in_force(objects: &BackendObjects) -> Vec<String> {
    let known = objects.known().filter_map(|(name, known)| Some(format!("{name}={}", known.in_force?.identity.0)));
    known.collect()
}

fn problem(objects: &BackendObjects, name: &str) -> Option<String> {
    let found = objects.known().find(|(known, _)| known.as_str() == name);
    found.unwrap().1.problem.map(|problem| problem.to_string())
}

#[test]
fn what_cannot_be_used_leaves_the_last_spec_in_force_and_touches_no_other() {
    let mut objects = listed(&["a", "b"]);
    objects.apply(&object("a", json!({"identity": "a", "namespaces": {"allow": ["A_"]}}))).unwrap();
    assert_eq!(in_force(&objects), ["a=a", "b=b"]);
    assert!(problem(&objects, "a").unwrap().starts_with("spec: namespace pattern \"A_\" is invalid"));
    assert_eq!(problem(&objects, "b"), None);
    // What was never in force is not.
    objects.apply(&object("c", json!({"identity": "c", "later": 1}))).unwrap();
    assert_eq!(in_force(&objects), ["a=a", "b=b"]);
    assert!(problem(&objects, "c").unwrap().starts_with("spec: unknown field `later`"));
    objects.apply(&object("a", json!({"identity": "z"}))).unwrap();
    objects.apply(&object("c", json!({"identity": "c"}))).unwrap();
    assert_eq!(in_force(&objects), ["a=z", "b=b", "c=c"]);
    assert_eq!(problem(&objects, "a"), None);
    let error = objects.apply(&object("D.d", json!({"identity": "d"}))).unwrap_err().to_string();
    assert!(error.contains("\"D.d\" is invalid"), "{error}");
}

#[test]
fn an_identity_stays_with_who_has_it_and_else_goes_to_the_older_object() {
    let mut objects = BackendObjects::default();
    objects.list_begin("definition");
    for (at, name) in [("2026-01-02", "a"), ("2026-01-01", "b"), ("2026-01-03", "c")] {
        objects.apply(&created(at, object(name, json!({"identity": "x.example"})))).unwrap();
    }
    objects.list_end();
    assert_eq!(in_force(&objects), ["b=x.example"]);
    let has = "spec.identity: backend b has the same: each needs its own";
    assert_eq!([problem(&objects, "a").as_deref(), problem(&objects, "c").as_deref()], [Some(has); 2]);
    // Once it is free, the older one of the others has it.
    objects.apply(&created("2026-01-01", object("b", json!({"identity": "b.example"})))).unwrap();
    assert_eq!(in_force(&objects), ["a=x.example", "b=b.example"]);
    // In whatever case: DNS names have none. That it is the older one does not help who had it before.
    objects.apply(&created("2026-01-01", object("b", json!({"identity": "X.example"})))).unwrap();
    assert_eq!(in_force(&objects), ["a=x.example", "b=b.example"]);
}

#[test]
fn two_that_change_places_do_so_one_after_the_other() {
    let mut objects = listed(&["a", "b"]);
    objects.apply(&object("a", json!({"identity": "b"}))).unwrap();
    assert_eq!(in_force(&objects), ["a=a", "b=b"]);
    objects.apply(&object("b", json!({"identity": "a"}))).unwrap();
    assert_eq!(in_force(&objects), ["a=b", "b=a"]);
    // Who is refused keeps what it has, and so another one is refused, too.
    objects.apply(&object("c", json!({"identity": "c"}))).unwrap();
    objects.apply(&object("b", json!({"identity": "c"}))).unwrap();
    objects.apply(&object("a", json!({"identity": "a"}))).unwrap();
    assert_eq!(in_force(&objects), ["a=b", "b=a", "c=c"]);
    assert!(problem(&objects, "a").unwrap().contains("backend b has"));
    assert!(problem(&objects, "b").unwrap().contains("backend c has"));
}

#[test]
fn who_is_deleted_leaves_once_the_definition_is_known_to_stand() {
    let mut objects = listed(&["a", "b"]);
    let gone = object("a", json!({}));
    objects.gone(&gone);
    assert!(objects.awaits_definition());
    assert_eq!(in_force(&objects), ["a=a", "b=b"], "not before");
    objects.definition_is(Some("definition"));
    assert_eq!((in_force(&objects), objects.awaits_definition()), (vec!["b=b".to_owned()], false));
    // An older object of the same name is not this one.
    let mut older = object("b", json!({}));
    older.metadata.meta.uid = "older".into();
    objects.gone(&older);
    assert!(!objects.awaits_definition());
    // By a list.
    list(&mut objects, "definition", &["c"]);
    objects.definition_is(Some("definition"));
    assert_eq!(in_force(&objects), ["c=c"]);
}

#[test]
fn who_goes_with_the_definition_stays_in_force() {
    for (served, again) in [(None, "definition"), (Some("another"), "another")] {
        let mut objects = listed(&["a", "b"]);
        objects.gone(&object("a", json!({})));
        objects.definition_is(served);
        objects.gone(&object("b", json!({})));
        objects.definition_is(served);
        let kept = |objects: &BackendObjects| objects.known().filter(|(_, known)| known.is_kept).count();
        assert_eq!((in_force(&objects), kept(&objects)), (vec!["a=a".to_owned(), "b=b".to_owned()], 2));
        // The definition is back, and the objects one after the other.
        list(&mut objects, again, &[]);
        list(&mut objects, again, &["b"]);
        objects.definition_is(Some(again));
        assert_eq!((in_force(&objects), kept(&objects)), (vec!["a=a".to_owned(), "b=b".to_owned()], 1));
        objects.gone(&object("b", json!({})));
        objects.definition_is(Some(again));
        assert_eq!(in_force(&objects), ["a=a"]);
    }
}

#[test]
fn a_list_that_is_suddenly_empty_takes_nobody_away() {
    let mut objects = listed(&["a", "b"]);
    list(&mut objects, "definition", &[]);
    objects.definition_is(Some("definition"));
    assert_eq!(in_force(&objects), ["a=a", "b=b"]);
    list(&mut objects, "definition", &["a", "b"]);
    list(&mut objects, "definition", &["b"]);
    objects.definition_is(Some("definition"));
    assert_eq!(in_force(&objects), ["b=b"]);
}

#[test]
fn who_is_being_deleted_stays_and_who_was_removed_goes_even_with_the_definition() {
    let leaving = |name: &str, phase: &str| {
        let mut object = object(name, json!({"identity": name}));
        object.metadata.meta.deletion_timestamp = Some("2026-01-02T00:00:00Z".into());
        let figures =
            json!({"id": "", "services": 0, "endpointSlices": 0, "endpointsObjects": 0, "endpoints": 0, "first": []});
        let mut removal = figures;
        removal["phase"] = json!(phase);
        object.status = serde_json::from_value(json!({"removal": removal})).unwrap();
        object
    };
    for empty_list in [false, true] {
        let mut objects = listed(&["a", "b", "c", "d"]);
        let (a, b, c) = (leaving("a", "Removed"), leaving("b", "AwaitsApproval"), leaving("c", "NotReady"));
        // One that was not deleted, and whose status says so all the same.
        let mut d = leaving("d", "Removed");
        d.metadata.meta.deletion_timestamp = None;
        let all = [&a, &b, &c, &d];
        all.into_iter().for_each(|object| objects.apply(object).unwrap());
        assert_eq!(in_force(&objects), ["a=a", "b=b", "c=c", "d=d"]);
        let leaving = objects.known().filter(|(_, known)| known.is_leaving && !known.is_kept).count();
        assert_eq!(leaving, 3);
        if empty_list {
            list(&mut objects, "definition", &[]);
        } else {
            all.into_iter().for_each(|object| objects.gone(object));
        }
        objects.definition_is(None);
        assert_eq!(in_force(&objects), ["b=b", "c=c", "d=d"], "by a list: {empty_list}");
    }
}

/// A writer that starts decides as the one before: it reads in the status of an object that this was refused.
#[test]
fn who_was_refused_an_identity_does_not_get_it_by_a_restart() {
    let refused = |mut object: BackendResource| {
        let condition = json!({"type": "Stalled", "status": "True", "reason": "IdentityTaken", "message": "",
            "lastTransitionTime": "t", "observedGeneration": 1});
        object.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
        object
    };
    let older = refused(created("2026-01-01", object("a", json!({"identity": "x.example"}))));
    let mut objects = BackendObjects::default();
    objects.list_begin("definition");
    objects.apply(&older).unwrap();
    objects.apply(&created("2026-01-02", object("b", json!({"identity": "x.example"})))).unwrap();
    objects.list_end();
    assert_eq!(in_force(&objects), ["b=x.example"]);
    // Alone it gets what is free.
    let mut objects = BackendObjects::default();
    objects.list_begin("definition");
    objects.apply(&older).unwrap();
    objects.list_end();
    assert_eq!(in_force(&objects), ["a=x.example"]);
}

/// An object that was deleted and made anew while no one watched has nothing of the one before.
#[test]
fn another_object_of_the_name_has_its_own_spec_or_none() {
    let anew = |spec: Value| {
        let mut object = object("a", spec);
        object.metadata.meta.uid = "another".into();
        object
    };
    let unusable = || anew(json!({"identity": "a", "later": 1}));
    let mut objects = listed(&["a", "b"]);
    objects.list_begin("definition");
    objects.apply(&unusable()).unwrap();
    objects.apply(&object("b", json!({"identity": "b"}))).unwrap();
    objects.list_end();
    assert_eq!(in_force(&objects), ["b=b"]);
    // One that went with its definition was not deleted: it stays as it was.
    let mut objects = listed(&["a"]);
    objects.gone(&object("a", json!({})));
    objects.definition_is(None);
    objects.apply(&unusable()).unwrap();
    assert_eq!(in_force(&objects), ["a=a"]);
}

/// `kubectl annotate KEY-` and `kubectl annotate KEY=VALUE` come one right after the other.
#[test]
fn an_annotation_that_is_taken_back_and_set_again_counts_once_its_answer_is_gone() {
    let key = BackendOrder::Approve.annotation();
    let with = |value: Option<&str>, answered: bool| {
        let mut object = object("a", json!({"identity": "a"}));
        object.metadata.meta.annotations.extend(value.map(|value| (key.into(), value.into())));
        let answer = json!({"annotation": key, "value": "0a", "result": "Refused", "message": ""});
        let answers = if answered { json!([answer]) } else { json!([]) };
        object.status = serde_json::from_value(json!({ "answers": answers })).unwrap();
        object
    };
    let mut objects = listed(&["a"]);
    let mut ordered = |value, answered| {
        objects.apply(&with(value, answered)).unwrap();
        objects.known().next().unwrap().1.orders.values().cloned().collect::<Vec<_>>()
    };
    assert_eq!(ordered(Some("0a"), false), ["0a"]);
    assert_eq!(ordered(Some("0a"), true), ["0a"], "it has its answer");
    assert_eq!(ordered(Some("0b"), true), ["0b"], "another value is news at once");
    assert_eq!(ordered(None, true), [""; 0]);
    assert_eq!(ordered(Some("0a"), true), [""; 0], "so that the answer to the one before goes");
    assert_eq!(ordered(Some("0a"), false), ["0a"]);
    assert_eq!(ordered(Some("0a"), true), ["0a"], "it has an answer of its own");
}
