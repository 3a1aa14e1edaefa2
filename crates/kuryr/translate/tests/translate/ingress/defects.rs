//! What octavia-ingress-controller of cloud-provider-openstack did wrong, as far as it is about translation. The other defects of
//! its list (retries, finalizers, change detection, rotation and removal of secrets, serial creation) are of the controller and of
//! openstack-writer.

use gimbal_kubernetes_objects::Ingress;
use gimbal_kuryr_model::LoadBalancerDefaults;
use serde_json::{Value, json};

use super::common::{Cluster, backend, findings, ingress, one_rule, routes, rule};

fn of(spec: Value) -> (Vec<String>, Vec<String>) {
    let made =
        Cluster::with([ingress("web", spec)]).and_services([super::common::service("s1", &["http:80"])]).shared();
    (routes(&made.spec), findings(&made))
}

/// Its third: `pathType` was ignored.
#[test]
fn the_type_of_a_path_counts() {
    let made = Cluster::with([one_rule("web", "www.example.com", &["/foo s1:80", "/bar* s1:80"])]).shared();
    assert_eq!(routes(&made.spec), ["www.example.com /foo -> team/s1:80", "www.example.com /bar* -> team/s1:80"]);
}

/// Its fourth: a wildcard broke the expression for hosts.
#[test]
fn a_wildcard_is_a_host() {
    let (routes, findings) = of(json!({"rules": [rule("*.a.example.com", &["* s1:80"])]}));
    assert_eq!((routes, findings), (vec!["*.a.example.com * -> team/s1:80".to_owned()], vec![]));
}

/// Its fifth: routes were tried in the order in which they are written.
#[test]
fn the_longest_path_is_tried_first_however_it_is_written() {
    let expected =
        ["w.example.com /a/b* -> team/s2:80", "w.example.com /a* -> team/s1:80", "w.example.com * -> team/s3:80"];
    for paths in [
        ["/a* s1:80", "/a/b* s2:80", "* s3:80"],
        ["* s3:80", "/a* s1:80", "/a/b* s2:80"],
        ["/a/b* s2:80", "* s3:80", "/a* s1:80"],
    ] {
        assert_eq!(routes(&Cluster::with([one_rule("web", "w.example.com", &paths)]).shared().spec), expected);
    }
}

/// Its seventh: `rule.http` unset, resource backends and pools without members were panics.
#[test]
fn whatever_the_api_takes_is_read() {
    assert_eq!(of(json!({})), (vec![], vec![]));
    let said = |host: &str| {
        format!(
            "Unsupported/NoPaths: Ingress team/web: a rule for {host} has no paths: its requests go to the default \
             backend"
        )
    };
    assert_eq!(of(json!({"rules": [{}]})), (vec![], vec![said("every host")]));
    let host = "host \"www.example.com\"";
    assert_eq!(of(json!({"rules": [{"host": "www.example.com"}]})), (vec![], vec![said(host)]));
    assert_eq!(of(json!({"rules": [{"host": "www.example.com", "http": {"paths": []}}]})), (vec![], vec![said(host)]));
    let resource = json!({"resource": {"apiGroup": "k8s.example.com", "kind": "Bucket", "name": "icons"}});
    let (routes, findings) = of(json!({
        "defaultBackend": resource,
        "rules": [
            {"host": "www.example.com", "http": {"paths": [
                {"path": "/icons", "pathType": "Prefix", "backend": resource},
                {"path": "/none", "pathType": "Prefix", "backend": {}},
                {"path": "/", "pathType": "Prefix", "backend": backend("s1:80")},
            ]}},
        ],
    }));
    assert_eq!(
        routes,
        ["www.example.com /icons* -> 503", "www.example.com /none* -> 503", "www.example.com * -> team/s1:80",]
    );
    assert_eq!(
        findings,
        [
            "Unsupported/ResourceBackend: Ingress team/web: path \"/icons\" of host \"www.example.com\" is answered with 503: \
             its backend is the Bucket \"icons\", and only Services are served",
            "Unsupported/NoBackend: Ingress team/web: path \"/none\" of host \"www.example.com\" is answered with 503: its \
             backend names no Service, or no port of it",
            "Unsupported/ResourceBackend: Ingress team/web: its default backend is answered with 503: its backend is the \
             Bucket \"icons\", and only Services are served",
        ]
    );
    let text = r#"{"metadata":{"name":"web","namespace":"team"},"spec":{"ingressClassName":"kuryr","rules":[{"http":{"paths":[{}]}}]}}"#;
    let bare: Ingress = serde_json::from_str(text).unwrap();
    assert_eq!(findings_of(bare), ["NoBackend"]);
}

fn findings_of(ingress: Ingress) -> Vec<&'static str> {
    Cluster::with([ingress]).shared().findings.iter().map(|one| one.reason()).collect()
}

/// Its tenth: one time-out without the other was a panic.
#[test]
fn each_timeout_counts_by_itself() {
    for (client, member) in [(0, 0), (1, 0), (0, 2), (1, 2)] {
        let mut cluster = Cluster::new();
        let defaults = &mut cluster.facts.defaults;
        *defaults =
            LoadBalancerDefaults { timeout_client_data: client, timeout_member_data: member, ..defaults.clone() };
        let spec = cluster.shared().spec;
        let set = |time: u32| (time > 0).then_some(i64::from(time));
        assert_eq!((spec.timeout_client_data, spec.timeout_member_data), (set(client), set(member)));
    }
}

#[test]
fn a_cloud_that_cannot_is_told_to_every_ingress() {
    let mut cluster =
        Cluster::with(["a", "b"].map(|name| one_rule(name, &format!("{name}.example.com"), &["* s1:80"])))
            .and_services([super::common::service("s1", &["http:80"])]);
    cluster.facts.enable_ingress = false;
    cluster.facts.provider = Some("ovn".into());
    let cannot = gimbal_kuryr_model::ProviderAbilities { l7: false, ..Default::default() };
    cluster.facts.providers.insert("ovn".into(), cannot);
    let made = cluster.shared();
    let said: Vec<_> = made.findings.iter().map(|one| (one.ingress().unwrap().to_string(), one.reason())).collect();
    let expected = ["a", "b"].map(|name| ["NotEnabled", "NoPolicies"].map(|reason| (format!("team/{name}"), reason)));
    assert_eq!(said, expected.concat());
    assert_eq!(made.spec.routes.len(), 2, "a setting takes nothing away");
}
