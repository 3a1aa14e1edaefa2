//! Services that are not offered: how they are counted and explained.

use std::collections::BTreeMap;

use crate::common::{
    addresses, at, endpoints_from, key, list_nothing, listed, only, service, service_from, slice, slice_from,
};
use gimbal_kubernetes_source::{Export, Flavour, KubernetesIndex, Omission, Selection};
use gimbal_model::{AddressInSource, AddressObject};
use serde_json::{Value, json};

fn patterns(texts: &[&str]) -> Vec<gimbal_model::NamespacePattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn services_that_are_not_offered() {
    let selection = || Selection {
        namespaces: patterns(&["team-*", "default", "kube-system"]),
        exclude: patterns(&["*-test"]),
        ..Selection::default()
    };
    let plain = json!({"ports": [{"port": 80}]});
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    for (name, labels, spec, skip, sentence) in [
        ("kube-system/dns", json!({}), &plain, Omission::KubeSystem, "namespace kube-system is never offered"),
        (
            "team-test/x",
            json!({}),
            &plain,
            Omission::NamespaceExcluded,
            "its namespace is excluded (--exclude-namespaces)",
        ),
        ("other/x", json!({}), &plain, Omission::NamespaceNotSelected, "its namespace is not selected (--namespaces)"),
        ("default/kubernetes", json!({}), &plain, Omission::ApiServer, "it is the source's own API server"),
        (
            "team-a/x",
            json!({}),
            &external,
            Omission::ExternalName,
            "it is of type ExternalName, which has no endpoints",
        ),
        (
            "team-a/x",
            json!({"gimbal.projectcontour.io/backend": "b"}),
            &plain,
            Omission::Mirror,
            "it carries the label gimbal.projectcontour.io/backend: it is itself a mirror",
        ),
    ] {
        let mut index = KubernetesIndex::new(selection());
        list_nothing(&mut index);
        let source = key(name);
        index.apply_service(service_from(json!({
            "metadata": {"namespace": *source.namespace, "name": *source.name, "labels": labels},
            "spec": spec,
        })));
        index.apply_slice(slice(&source.namespace, "s", &source.name, json!([at("10.0.0.1")])));
        assert_eq!(index.drain(), [(source.clone(), None)], "{name}");
        assert_eq!(index.skipped(), &BTreeMap::from([(skip, 1)]), "{name}");
        assert_eq!(index.explain(&source), [format!("Service {name} is not offered: {sentence}")]);
        index.delete_service(&source.namespace, &source.name);
        assert!(index.skipped().is_empty(), "{name}");
    }
}

#[test]
fn a_label_that_comes_and_goes() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    assert!(only(&mut index).is_some());
    let mut mirror = service("a", "web");
    mirror.metadata.labels.insert("gimbal.projectcontour.io/backend".into(), "b".into());
    index.apply_service(mirror);
    assert!(only(&mut index).is_none());
    index.apply_service(service("a", "web"));
    assert!(only(&mut index).is_some());
    assert!(index.skipped().is_empty());
}

/// By labels, and by what its owner says.
#[test]
fn services_that_are_not_selected() {
    let by_label = || Selection { services: "app in (web, api), !internal".parse().unwrap(), ..Selection::default() };
    let opt_in = || Selection { export: Export::OptIn, ..Selection::default() };
    let labelled = |labels: Value| json!({"labels": labels});
    let annotated = |value: &str| json!({"annotations": {"gimbal.projectcontour.io/export": value}});
    let unlabelled = "its labels are not those of --service-selector";
    let out = "its annotation gimbal.projectcontour.io/export is \"false\"";
    let not_in = "it has no annotation gimbal.projectcontour.io/export: \"true\" (--export opt-in)";
    for (selection, metadata, left_out) in [
        (by_label(), labelled(json!({"app": "web"})), None),
        (by_label(), labelled(json!({"app": "db"})), Some((Omission::LabelsNotSelected, unlabelled))),
        (by_label(), labelled(json!({"app": "api", "internal": ""})), Some((Omission::LabelsNotSelected, unlabelled))),
        (by_label(), labelled(json!({})), Some((Omission::LabelsNotSelected, unlabelled))),
        (Selection::default(), labelled(json!({})), None),
        (Selection::default(), annotated("true"), None),
        (Selection::default(), annotated("no"), None),
        (Selection::default(), annotated("false"), Some((Omission::OptedOut, out))),
        (opt_in(), annotated("true"), None),
        (opt_in(), annotated("false"), Some((Omission::OptedOut, out))),
        (opt_in(), annotated("yes"), Some((Omission::NotOptedIn, not_in))),
        (opt_in(), labelled(json!({})), Some((Omission::NotOptedIn, not_in))),
    ] {
        let mut index = KubernetesIndex::new(selection);
        list_nothing(&mut index);
        let mut service = json!({
            "metadata": {"namespace": "a", "name": "web"}, "spec": {"ports": [{"port": 80}]},
        });
        for (field, value) in metadata.as_object().unwrap() {
            service["metadata"][field] = value.clone();
        }
        index.apply_service(service_from(service));
        assert_eq!(only(&mut index).is_none(), left_out.is_some(), "{metadata}");
        let skips: BTreeMap<_, _> = left_out.iter().map(|(skip, _)| (*skip, 1)).collect();
        assert_eq!(index.skipped(), &skips, "{metadata}");
        let reasons = index.explain(&key("a/web"));
        match left_out {
            Some((_, sentence)) => assert_eq!(reasons, [format!("Service a/web is not offered: {sentence}")]),
            None => assert!(!reasons[0].contains("not offered"), "{reasons:?}"),
        }
    }
}

/// A Service that stops matching is gone by name, not by absence.
#[test]
fn a_service_that_stops_matching_is_removed_and_one_that_matches_again_is_back_with_its_endpoints() {
    let selection = Selection { services: "app=web".parse().unwrap(), ..Selection::default() };
    let mut index = KubernetesIndex::new(selection);
    list_nothing(&mut index);
    let with = |app: &str, export: &str| {
        service_from(json!({
            "metadata": {"namespace": "a", "name": "web", "labels": {"app": app},
                "annotations": {"gimbal.projectcontour.io/export": export}},
            "spec": {"ports": [{"port": 80}]},
        }))
    };
    index.apply_slice(slice("a", "s", "web", json!([at("10.0.0.1")])));
    for (app, export, offered) in [
        ("web", "true", true),
        ("api", "true", false),
        ("web", "true", true),
        ("web", "false", false),
        ("web", "", true),
    ] {
        index.apply_service(with(app, export));
        let service = only(&mut index);
        assert_eq!(service.map(|service| service.endpoint_count()), offered.then_some(1), "{app} {export}");
    }
    assert!(index.skipped().is_empty());
}

#[test]
fn what_a_service_has_and_is_not_carried_is_told() {
    let mut index = listed(Flavour::Slices);
    let affine = |affinity: &str| {
        service_from(json!({
            "metadata": {"namespace": "a", "name": "web"},
            "spec": {"ports": [{"port": 80}], "sessionAffinity": affinity},
        }))
    };
    index.apply_service(affine("ClientIP"));
    assert!(only(&mut index).is_some());
    assert_eq!(index.skipped(), &BTreeMap::from([(Omission::SessionAffinity, 1)]));
    let reason = "sessionAffinity is not carried: whoever routes to it decides on affinity";
    assert_eq!(index.explain(&key("a/web"))[0], reason);
    index.apply_service(affine("None"));
    assert!(index.skipped().is_empty());
    assert!(!index.explain(&key("a/web")).contains(&reason.to_owned()));
}

#[test]
fn slices_that_are_left_out() {
    for (change, skip) in [
        (json!({"addressType": "FQDN"}), Omission::Fqdn),
        (json!({"addressType": ""}), Omission::Unsupported),
        (json!({"ports": [{"port": 80, "protocol": "QUIC"}]}), Omission::Unsupported),
        (json!({"ports": [{"port": 70000}]}), Omission::Unsupported),
        (
            json!({"metadata": {"namespace": "a", "name": "s2", "labels": {
                "kubernetes.io/service-name": "web", "gimbal.projectcontour.io/backend": "b"}}}),
            Omission::MirrorSlice,
        ),
    ] {
        let mut index = listed(Flavour::Slices);
        index.apply_service(service("a", "web"));
        index.apply_slice(slice("a", "s1", "web", json!([at("10.0.0.1")])));
        let mut odd = serde_json::to_value(slice("a", "s2", "web", json!([at("10.0.0.2")]))).unwrap();
        for (field, value) in change.as_object().unwrap() {
            odd[field] = value.clone();
        }
        index.apply_slice(slice_from(odd));
        assert_eq!(addresses(&only(&mut index).unwrap()), ["10.0.0.1 rs"], "{change}");
        assert_eq!(index.skipped(), &BTreeMap::from([(skip, 1)]), "{change}");
        assert!(index.explain(&key("a/web")).iter().any(|reason| reason.contains("s2 is left out")), "{change}");
        index.delete_slice("a", "s2");
        assert!(index.skipped().is_empty(), "{change}");
    }
}

#[test]
fn addresses_that_cannot_be_read() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    let endpoints: Value = json!([
        at("10.0.0.1"), at("fd00::1"), at("ten"), at("010.0.0.2"), {"addresses": []}, {},
        {"addresses": ["10.0.0.3", "10.0.0.4"]},
    ]);
    index.apply_slice(slice("a", "s", "web", endpoints));
    assert_eq!(addresses(&only(&mut index).unwrap()), ["10.0.0.1 rs", "10.0.0.3 rs"]);
    assert_eq!(index.skipped(), &BTreeMap::from([(Omission::BadAddress, 5)]));
    assert_eq!(
        index.explain(&key("a/web")),
        [
            "Service a/web has 2 endpoints, 2 of them ready, from 1 EndpointSlice objects: s",
            "EndpointSlice s: 5 endpoints without a readable address are left out",
        ]
    );
}

#[test]
fn ports_that_cannot_be_represented() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service_from(json!({
        "metadata": {"namespace": "a", "name": "web"},
        "spec": {"ports": [{"name": "a", "port": 0}, {"name": "b", "port": 80, "protocol": "X"}, {"name": "c", "port": 81}]},
    })));
    assert_eq!(only(&mut index).unwrap().header.ports.len(), 1);
    assert_eq!(index.skipped(), &BTreeMap::from([(Omission::BadPort, 2)]));
    assert_eq!(index.explain(&key("a/web"))[0], "2 of its ports cannot be represented and are left out");
}

#[test]
fn what_explain_says_of_the_unknown() {
    let mut index = KubernetesIndex::new(Selection::default());
    index.apply_service(service("a", "web"));
    assert!(index.explain(&key("a/web"))[0].contains("not been read completely"));
    list_nothing(&mut index);
    assert_eq!(index.explain(&key("a/web")), ["the source has no Service a/web"]);
    index.apply_service(service("a", "web"));
    assert_eq!(
        index.explain(&key("a/web")),
        ["Service a/web has no endpoints: the source has no EndpointSlice for it"]
    );
}

#[test]
fn endpoints_of_an_older_cluster() {
    let mut index = listed(Flavour::Endpoints);
    index.apply_service(service("a", "web"));
    let endpoints = |labels: Value| {
        endpoints_from(json!({
            "metadata": {"namespace": "a", "name": "web", "labels": labels},
            "subsets": [
                {"addresses": [{"ip": "10.0.0.1", "hostname": "one", "nodeName": "n", "targetRef": {"kind": "Pod"}}],
                 "notReadyAddresses": [{"ip": "10.0.0.2"}, {"ip": "x"}], "ports": [{"port": 8080}]},
                {"addresses": [{"ip": "10.0.0.2"}], "ports": [{"port": 8080, "protocol": "TCP"}]},
            ],
        }))
    };
    index.apply_endpoints(endpoints(json!({})));
    // A slice is not read there, so that nothing counts twice.
    index.apply_slice(slice("a", "s", "web", json!([at("10.0.0.9")])));
    let web = only(&mut index).unwrap();
    assert_eq!(addresses(&web), ["10.0.0.1 rs", "10.0.0.2 rs"]);
    assert_eq!(web.groups().len(), 1);
    assert_eq!(index.skipped(), &BTreeMap::from([(Omission::BadAddress, 1)]));
    index.apply_endpoints(endpoints(json!({"gimbal.projectcontour.io/backend": "b"})));
    assert_eq!(only(&mut index).unwrap().endpoint_count(), 0);
    index.delete_endpoints("a", "web");
    assert!(index.skipped().is_empty());
}

#[test]
fn an_address_is_found_in_its_slices_or_there_is_why_not() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    let of = |index: &KubernetesIndex, address: &str| {
        let found = index.explain_address(&key("a/web"), address.parse().unwrap());
        let object = |one: &AddressObject| format!("{} {} {}", one.kind, one.name, one.conditions.ready);
        (found.objects.iter().map(object).collect::<Vec<_>>(), found.reasons)
    };
    let nowhere = |why: &str| (Vec::<String>::new(), vec![why.to_owned()]);
    assert_eq!(of(&index, "10.0.0.1"), nowhere("the source has no EndpointSlice for Service a/web that can be read"));

    let condition = |address: &str, name: &str, set: bool| json!({"addresses": [address], "conditions": {name: set}});
    let both = json!([at("10.0.0.1"), condition("10.0.0.2", "ready", false)]);
    index.apply_slice(slice("a", "s1", "web", both));
    let leaving = json!({"addresses": ["10.0.0.3"], "conditions": {"ready": false, "terminating": true}});
    index.apply_slice(slice("a", "s2", "web", json!([at("10.0.0.2"), leaving])));
    let names = json!({
        "metadata": {"namespace": "a", "name": "s3", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "FQDN", "endpoints": [at("example.com")],
    });
    index.apply_slice(slice_from(names));
    assert_eq!(of(&index, "10.0.0.1"), (vec!["EndpointSlice s1 true".to_owned()], Vec::new()));
    let twice = [
        "EndpointSlice s1 has it as not ready",
        "several objects have it: where they have the same ports, the better endpoint is offered",
    ];
    let found = ["EndpointSlice s1 false", "EndpointSlice s2 true"];
    assert_eq!(of(&index, "10.0.0.2"), (found.map(str::to_owned).to_vec(), twice.map(str::to_owned).to_vec()));
    let leaves = vec!["EndpointSlice s2 has it as terminating, and not ready".to_owned()];
    assert_eq!(of(&index, "10.0.0.3"), (vec!["EndpointSlice s2 false".to_owned()], leaves));
    for absent in ["10.0.0.4", "fd00::1"] {
        let why = "none of the 2 EndpointSlice objects of Service a/web has an endpoint with it";
        assert_eq!(of(&index, absent), nowhere(why));
    }
    // What is not a Service of the source has its sentence there.
    assert_eq!(index.explain_address(&key("a/none"), "10.0.0.1".parse().unwrap()), AddressInSource::default());
}

#[test]
fn a_sentence_names_few_of_many_slices() {
    let mut index = listed(Flavour::Slices);
    index.apply_service(service("a", "web"));
    for n in 0..5 {
        index.apply_slice(slice("a", &format!("s{n}"), "web", json!([at(&format!("10.0.0.{n}"))])));
    }
    let expected =
        "Service a/web has 5 endpoints, 5 of them ready, from 5 EndpointSlice objects: s0, s1, s2 and 2 more";
    assert_eq!(index.explain(&key("a/web")), [expected]);
}
