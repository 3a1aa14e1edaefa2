//! The order of events does not matter.

use gimbal_kuryr_translate::{CertificateProblem, RouterTranslated};
use gimbal_model::SourceKey;
use proptest::prelude::*;
use serde_json::json;

use super::common::{Cluster, class, created, ingress, rule, secret, service, slice};

/// A change of one object; `None` removes it.
#[derive(Debug, Clone)]
enum Step {
    Ingress(u8, Option<u8>),
    Service(u8, Option<u8>),
    Slice(u8, Option<u8>),
    Class(u8, Option<u8>),
    Secret(u8, Option<u8>),
    /// Everything is listed again.
    Relist,
}

fn an_ingress(name: u8, variant: u8) -> gimbal_kubernetes_objects::Ingress {
    let host = ["a.example.com", "b.example.com", "*.example.com", ""][usize::from(variant % 4)];
    let paths = [["/a* s0:80", "/b s1:http"], ["* s0:http", "/a* s1:80"], ["/* s2:80", "/c* s0:80"]];
    let mut spec = json!({"rules": [rule(host, &paths[usize::from(variant / 4) % 3])]});
    if variant.is_multiple_of(5) {
        spec["defaultBackend"] = super::common::backend("s1:80");
    }
    let mut object = ingress(&format!("i{name}"), spec);
    object.metadata.creation_timestamp = (!variant.is_multiple_of(7)).then(|| created(usize::from(variant % 3)));
    object.spec.ingress_class_name = match variant % 6 {
        0 => None,
        1 => Some("c1".into()),
        _ => Some("c0".into()),
    };
    if variant.is_multiple_of(3) {
        let tls = json!([{"hosts": ["a.example.com"], "secretName": format!("x{}", variant % 2)}]);
        object.spec.tls = serde_json::from_value(tls).unwrap();
        let redirect = ["true", "false", "what"][usize::from(variant / 8) % 3];
        object.metadata.meta.annotations.insert("kuryr.openstack.org/redirect-http".into(), redirect.into());
    }
    let router = [None, Some("own"), Some("group:g"), Some("what")][usize::from(variant / 16) % 4];
    let annotations = &mut object.metadata.meta.annotations;
    annotations.extend(router.map(|router| ("kuryr.openstack.org/l7-router".into(), router.into())));
    object
}

fn a_class(name: u8, variant: u8) -> gimbal_kubernetes_objects::IngressClass {
    let controller = if variant.is_multiple_of(3) { "k8s.io/ingress-nginx" } else { "kuryr.openstack.org/ingress" };
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": if variant.is_multiple_of(2) { "true" } else { "false" }});
    let mut class = class(&format!("c{name}"), controller, annotations);
    class.metadata.creation_timestamp = Some(created(usize::from(variant % 4)));
    class
}

fn apply(cluster: &mut Cluster, step: &Step) {
    match *step {
        Step::Ingress(name, Some(variant)) => cluster.ingresses.apply_ingress(an_ingress(name, variant)),
        Step::Ingress(name, None) => cluster.ingresses.delete_ingress("team", &format!("i{name}")),
        Step::Service(name, Some(variant)) => {
            let ports = if variant % 2 == 0 { vec!["http:80"] } else { vec!["http:81", "more:80"] };
            cluster.services.apply_service(service(&format!("s{name}"), &ports));
        }
        Step::Service(name, None) => cluster.services.delete_service("team", &format!("s{name}")),
        Step::Slice(name, Some(variant)) => {
            let pods: Vec<String> = (0..variant % 4).map(|n| format!("10.1.{name}.{n}")).collect();
            let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
            let of = format!("s{}", variant % 3);
            cluster.services.apply_slice(slice(&format!("p{name}"), &of, &["http:80", "more:80"], &pods));
        }
        Step::Slice(name, None) => cluster.services.delete_slice("team", &format!("p{name}")),
        Step::Class(name, Some(variant)) => cluster.ingresses.apply_class(&a_class(name, variant)),
        Step::Class(name, None) => cluster.ingresses.delete_class(&format!("c{name}")),
        Step::Secret(name, variant) => {
            let key = SourceKey { namespace: "team".into(), name: format!("x{name}").as_str().into() };
            let names = [&["a.example.com", "*.example.com"][..], &["b.example.com"]];
            let has_changed = match variant {
                Some(variant) => {
                    let mut known = secret(&key.to_string(), variant % 4, names[usize::from(variant) % 2]);
                    if variant.is_multiple_of(5) {
                        known.state = Err(CertificateProblem::Chain);
                    }
                    cluster.secrets.apply(known)
                }
                None => cluster.secrets.delete(&key),
            };
            if has_changed {
                cluster.ingresses.secret_changed(&key);
            }
        }
        Step::Relist => {}
    }
    for (service, _) in cluster.services.drain() {
        cluster.ingresses.service_changed(&service);
    }
}

/// The last state of each object.
fn last(steps: &[Step]) -> Vec<Step> {
    let key = |step: &Step| match *step {
        Step::Ingress(name, _) => (0, name),
        Step::Service(name, _) => (1, name),
        Step::Slice(name, _) => (2, name),
        Step::Class(name, _) => (3, name),
        Step::Secret(name, _) => (4, name),
        Step::Relist => (5, 0),
    };
    let mut states = std::collections::BTreeMap::new();
    for step in steps {
        states.insert(key(step), step.clone());
    }
    states.into_values().filter(|step| !matches!(step, Step::Relist)).collect()
}

fn routers(cluster: &Cluster) -> Vec<(SourceKey, RouterTranslated)> {
    cluster.ingresses.routers().map(|key| (key.clone(), cluster.router(key))).collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let variant = || proptest::option::weighted(0.8, 0u8..64);
    let step = prop_oneof![
        6 => (0u8..5, variant()).prop_map(|(name, variant)| Step::Ingress(name, variant)),
        2 => (0u8..3, variant()).prop_map(|(name, variant)| Step::Service(name, variant)),
        2 => (0u8..3, variant()).prop_map(|(name, variant)| Step::Slice(name, variant)),
        2 => (0u8..2, variant()).prop_map(|(name, variant)| Step::Class(name, variant)),
        2 => (0u8..2, variant()).prop_map(|(name, variant)| Step::Secret(name, variant)),
        1 => Just(Step::Relist),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened, the routers are those of a cluster that saw only the last state of each object, in another order; and
    /// each that changed has been returned.
    #[test]
    fn any_order_of_events_ends_in_the_same_routers(
        (steps, order) in steps().prop_flat_map(|steps| {
            let last = last(&steps);
            (Just(steps), Just(last).prop_shuffle())
        }),
    ) {
        let mut cluster = Cluster::new();
        let mut known = std::collections::BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            if matches!(step, Step::Relist) {
                cluster.ingresses.begin_ingresses();
                cluster.ingresses.begin_classes();
                cluster.ingresses.apply_class(&class("kuryr", "kuryr.openstack.org/ingress", json!({})));
                for step in last(&steps[..at]) {
                    if matches!(step, Step::Ingress(_, Some(_)) | Step::Class(_, Some(_))) {
                        apply(&mut cluster, &step);
                    }
                }
                cluster.ingresses.end_classes();
                prop_assert_eq!(cluster.ingresses.end_ingresses(), vec![]);
            }
            apply(&mut cluster, step);
            for router in cluster.ingresses.drain() {
                let made = cluster.router(&router);
                let has_any = cluster.ingresses.ingresses_of(&router).next().is_some();
                if has_any { known.insert(router, made); } else { known.remove(&router); }
            }
            prop_assert_eq!(known.clone().into_iter().collect::<Vec<_>>(), routers(&cluster), "after {:?}", step);
        }
        let mut fresh = Cluster::new();
        order.iter().for_each(|step| apply(&mut fresh, step));
        prop_assert_eq!(routers(&cluster), routers(&fresh));
    }

    /// Any order of rules within an Ingress gives the same spec, unless two of them are equal.
    #[test]
    fn the_order_of_rules_does_not_matter(
        order in Just(vec![
            rule("a.example.com", &["/a* s1:80"]), rule("a.example.com", &["/b* s1:80", "/a s2:80"]),
            rule("*.example.com", &["* s1:80"]), rule("", &["/a* s1:80"]), json!({"host": "b.example.com"}),
        ]).prop_shuffle(),
    ) {
        let of = |rules: &[serde_json::Value]| Cluster::with([ingress("web", json!({"rules": rules}))]).shared().spec;
        let mut sorted = order.clone();
        sorted.sort_by_key(ToString::to_string);
        prop_assert_eq!(of(&order), of(&sorted));
    }
}

#[test]
fn nothing_is_told_before_everything_is_listed() {
    use gimbal_kuryr_translate::{IngressIndex, IngressSettings};
    let mut index = IngressIndex::new(IngressSettings::in_namespace("gimbal-system"));
    index.begin_ingresses();
    index.apply_ingress(an_ingress(0, 2));
    index.end_ingresses();
    assert!(!index.is_complete() && index.drain().is_empty());
    index.begin_classes();
    index.apply_class(&a_class(0, 1));
    index.end_classes();
    assert!(index.is_complete());
    assert_eq!(index.drain().len(), 1);
    // A list that lacks it removes it.
    index.begin_ingresses();
    assert_eq!(index.end_ingresses(), [SourceKey::new("team", "i0")]);
    assert_eq!((index.drain().len(), index.routers().count()), (1, 0));
}
