//! What one adoption takes: named by an id that is computed from it, so that an order is about what a person has seen.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::{Kind, Object as _, Service};
use gimbal_model::BackendName;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::decide::{Consent, Decided, Taking, Verdict};
use crate::output::OutputForm;
use crate::table::columns;

/// The objects that an adoption is about: those that it takes at once, and those that it takes as soon as they may be.
pub struct AdoptionOrder {
    id: String,
    services: usize,
    endpoints: usize,
    /// What is taken, by its UID, with the changes that were named.
    named: BTreeMap<String, BTreeSet<String>>,
}

impl AdoptionOrder {
    /// Returns the order to take what was decided so.
    pub fn of(backend: &BackendName, decided: &[Decided], consent: Consent) -> Self {
        let taken = || decided.iter().filter(|one| !matches!(one.verdict, Verdict::Leave(_)));
        let changes = |one: &Decided| match &one.verdict {
            Verdict::Take(taking) => taking.changes.clone(),
            _ => BTreeSet::new(),
        };
        let named: BTreeMap<String, BTreeSet<String>> =
            taken().map(|one| (one.meta.uid.to_string(), changes(one))).collect();
        let mut digest = Sha256::new();
        digest.update([u8::from(consent.drop_gone), u8::from(consent.change_app_protocol)]);
        for (uid, changes) in &named {
            for text in std::iter::once(uid).chain(changes) {
                digest.update(text);
                digest.update([0]);
            }
            digest.update([0]);
        }
        let digest: String = digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let services = taken().filter(|one| one.kind == Service::KIND).count();
        Self { id: format!("{backend}-{digest}"), services, endpoints: taken().count() - services, named }
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether an object is among those that are taken.
    pub fn names(&self, one: &Decided) -> bool {
        self.named.contains_key(&*one.meta.uid)
    }

    /// Returns a change that follows when an object is taken now, and that the order does not name.
    pub fn unnamed<'a>(&self, uid: &str, taking: &'a Taking) -> Option<&'a String> {
        taking.changes.iter().find(|change| self.named.get(uid).is_none_or(|named| !named.contains(*change)))
    }

    /// Returns what a dry run prints; `command` is the command line without `--id`.
    pub fn dry_run(&self, decided: &[Decided], command: &str, output: OutputForm) -> String {
        let Self { id, services, endpoints, .. } = self;
        if output == OutputForm::Json {
            return decided.iter().map(|one| format!("{}\n", json_of(one, id))).collect();
        }
        let mut text = table(decided);
        text.push_str(&format!("to take: {services} Services, {endpoints} Endpoints\ndry run: nothing was changed\n"));
        text.push_str(&match self.named.len() {
            0 => "nothing is to be done\n".to_owned(),
            _ => format!("next: {command} --id {id} takes these and no others\n"),
        });
        text
    }

    /// Returns what is printed when an order was carried out but for what is `left`.
    pub fn done(&self, left: &[Decided], output: OutputForm) -> String {
        let of = |kind: Kind| left.iter().filter(|one| one.kind == kind).count();
        let waiting = of(Service::KIND);
        let (services, endpoints) = (self.services - waiting, self.endpoints - (left.len() - waiting));
        if output == OutputForm::Json {
            let counts = json!({"id": self.id, "services": services, "endpoints": endpoints, "waiting": left.len()});
            return format!("{counts}\n");
        }
        let mut text = if left.is_empty() { String::new() } else { table(left) };
        text.push_str(&format!("taken: {services} Services, {endpoints} Endpoints; they are the writer's now\n"));
        text
    }
}

fn table(decided: &[Decided]) -> String {
    let heads = ["KIND", "OBJECT", "VERDICT", "WHY"].map(str::to_owned).to_vec();
    let row = |one: &Decided| {
        let (verdict, why) = words(one);
        vec![one.kind.kind.to_owned(), name(one), verdict.to_owned(), why]
    };
    columns(&std::iter::once(heads).chain(decided.iter().map(row)).collect::<Vec<_>>())
}

fn json_of(one: &Decided, id: &str) -> Value {
    let (verdict, why) = words(one);
    json!({"id": id, "kind": one.kind.kind, "object": name(one), "verdict": verdict, "why": why})
}

fn name(one: &Decided) -> String {
    format!("{}/{}", one.meta.namespace, one.meta.name)
}

fn words(one: &Decided) -> (&'static str, String) {
    match &one.verdict {
        Verdict::Take(taking) => ("take", taking.changes.iter().cloned().collect::<Vec<_>>().join("; ")),
        Verdict::Wait(why) => ("wait", why.clone()),
        Verdict::Leave(why) => ("leave", why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::{Endpoints, Meta};

    use super::*;

    fn decided(kind: Kind, name: &str, verdict: Verdict) -> Decided {
        let meta = Meta {
            namespace: "team1".into(),
            name: name.into(),
            uid: format!("{}-{name}", kind.kind).into(),
            ..Meta::default()
        };
        Decided { kind, meta, verdict }
    }

    fn take(changes: &[&str]) -> Verdict {
        let changes = changes.iter().map(ToString::to_string).collect();
        Verdict::Take(Taking { source: "team1/a".to_owned(), changes })
    }

    fn all() -> Vec<Decided> {
        vec![
            decided(Service::KIND, "a", take(&[])),
            decided(Service::KIND, "b", Verdict::Leave("it has a selector".to_owned())),
            decided(Endpoints::KIND, "a", Verdict::Wait("its Service is first".to_owned())),
        ]
    }

    fn order(decided: &[Decided]) -> AdoptionOrder {
        AdoptionOrder::of(&"node02".parse().unwrap(), decided, Consent::default())
    }

    /// Whoever reads it knows what to do next.
    #[test]
    fn what_a_dry_run_says() {
        let (all, order) = (all(), order(&all()));
        let id = order.id();
        assert_eq!(
            order.dry_run(&all, "gimbalctl adopt --backend node02", OutputForm::Table),
            format!(
                "KIND       OBJECT   VERDICT  WHY\n\
                 Service    team1/a  take\n\
                 Service    team1/b  leave    it has a selector\n\
                 Endpoints  team1/a  wait     its Service is first\n\
                 to take: 1 Services, 1 Endpoints\ndry run: nothing was changed\n\
                 next: gimbalctl adopt --backend node02 --id {id} takes these and no others\n"
            )
        );
        let none = self::order(&all[1..2]).dry_run(&all[1..2], "gimbalctl adopt", OutputForm::Table);
        assert!(none.ends_with("nothing is to be done\n"), "{none}");
        let lines = order.dry_run(&all, "", OutputForm::Json);
        let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        assert_eq!(
            last,
            json!({"id": id, "kind": "Endpoints", "object": "team1/a", "verdict": "wait", "why": "its Service is first"})
        );
    }

    #[test]
    fn what_was_done_counts_what_is_left() {
        let (all, order) = (all(), order(&all()));
        let none = order.done(&[], OutputForm::Table);
        assert_eq!(none, "taken: 1 Services, 1 Endpoints; they are the writer's now\n");
        let left = order.done(&all[2..], OutputForm::Table);
        assert!(left.ends_with("taken: 1 Services, 0 Endpoints; they are the writer's now\n"), "{left}");
        assert!(left.contains("its Service is first"), "{left}");
    }

    #[test]
    fn an_id_is_of_these_objects_and_no_others() {
        let (first, mut other) = (order(&all()), all());
        other[0].verdict = Verdict::Wait("later".to_owned());
        assert_eq!(order(&other).id(), first.id(), "what waits is named as well");
        assert!(first.names(&other[0]) && !first.names(&other[1]));
        other[1].verdict = take(&[]);
        assert_ne!(order(&other).id(), first.id(), "one more");
        other = all();
        other[0].meta.uid = "made anew".into();
        assert_ne!(order(&other).id(), first.id(), "another object of that name");
    }
    /// A person has seen what goes, and agrees to that and no more.
    #[test]
    fn an_id_is_of_what_changes_and_of_what_was_agreed_to() {
        let of = |changes: &[&str], consent| {
            let decided = [decided(Endpoints::KIND, "a", take(changes))];
            AdoptionOrder::of(&"node02".parse().unwrap(), &decided, consent)
        };
        let dropping = Consent { drop_gone: true, ..Consent::default() };
        let order = of(&["10.0.0.9 goes"], dropping);
        for other in [
            of(&["10.0.0.9 goes"], Consent::default()),
            of(&["10.0.0.9 goes"], Consent { change_app_protocol: true, ..dropping }),
            of(&["10.0.0.9 goes", "10.0.0.8 goes"], dropping),
            of(&[], dropping),
        ] {
            assert_ne!(other.id(), order.id());
        }
        let unnamed = |changes: &[&str]| {
            let Verdict::Take(taking) = take(changes) else { unreachable!() };
            order.unnamed("Endpoints-a", &taking).cloned()
        };
        assert_eq!(unnamed(&[]), None, "it is back");
        assert_eq!(unnamed(&["10.0.0.9 goes"]), None);
        assert_eq!(unnamed(&["10.0.0.8 goes", "10.0.0.9 goes"]).as_deref(), Some("10.0.0.8 goes"));
        let decided = [decided(Endpoints::KIND, "a", take(&["10.0.0.9 goes"]))];
        let shown = order.dry_run(&decided, "gimbalctl adopt", OutputForm::Table);
        assert!(shown.contains("Endpoints  team1/a  take     10.0.0.9 goes\n"), "{shown}");
    }
}
