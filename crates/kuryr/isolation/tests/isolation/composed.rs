//! Which groups a port carries, and what they let through together.

use gimbal_kuryr_isolation::CarriedGroup;
use gimbal_model::Protocol;
use serde_json::{Value, json};

use crate::common::{Scene, names, namespace, node, packet, tcp};

const WEB: &str = "10.0.0.1";
const API: &str = "10.0.0.2";
const VAULT: &str = "10.1.0.1";
const OUTSIDE: &str = "203.0.113.7";

#[test]
fn policies_of_one_direction_do_not_open_the_other() {
    let mut scene = Scene::with_pods();
    let web = json!({"matchLabels": {"app": "web"}});
    scene.policy(
        "shop/in",
        &json!({"podSelector": web, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}),
    );
    assert_eq!(names(&scene.carried("shop/web")), ["open-out", "base node-1", "policy shop/in"]);
    assert!(scene.lets(&tcp(WEB, OUTSIDE, 443)) && scene.lets(&tcp(OUTSIDE, WEB, 80)));
    assert!(!scene.lets(&tcp(OUTSIDE, WEB, 81)));
    scene.policy(
        "shop/out",
        &json!({"podSelector": web, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 443}]}]}),
    );
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "policy shop/in", "policy shop/out"]);
    for (packet, passes) in [
        (tcp(OUTSIDE, WEB, 80), true),
        (tcp(OUTSIDE, WEB, 443), false),
        (tcp(WEB, OUTSIDE, 443), true),
        (tcp(WEB, OUTSIDE, 80), false),
    ] {
        assert_eq!(scene.lets(&packet), passes, "{packet:?}");
    }
    scene.index.delete_policy("shop", "in");
    assert_eq!(names(&scene.carried("shop/web")), ["open-in", "base node-1", "policy shop/out"]);
    assert!(scene.lets(&tcp(OUTSIDE, WEB, 81)) && !scene.lets(&tcp(WEB, OUTSIDE, 80)));
}

#[test]
fn which_directions_a_policy_isolates() {
    for (types, egress, expected) in [
        (json!(null), json!(null), &["open-out", "base node-1", "policy shop/p"][..]),
        (json!([]), json!([]), &["open-out", "base node-1", "policy shop/p"]),
        (json!(null), json!([{}]), &["base node-1", "policy shop/p"]),
        (json!(["Ingress"]), json!([{}]), &["open-out", "base node-1", "policy shop/p"]),
        (json!(["Egress"]), json!(null), &["open-in", "base node-1", "policy shop/p"]),
        (json!(["Egress", "Ingress"]), json!(null), &["base node-1", "policy shop/p"]),
    ] {
        let mut scene = Scene::with_pods();
        scene.policy("shop/p", &json!({"podSelector": {}, "policyTypes": types, "egress": egress}));
        assert_eq!(names(&scene.carried("shop/web")), expected, "{types} {egress}");
        // Those of another namespace are not its Pods.
        assert_eq!(names(&scene.carried("bank/vault")), ["open-in", "open-out", "base node-1"]);
    }
}

#[test]
fn policies_add_up() {
    let mut scene = Scene::with_pods();
    scene.policy("shop/none", &json!({"podSelector": {}}));
    assert!(!scene.lets(&tcp(VAULT, WEB, 80)) && !scene.lets(&tcp(API, WEB, 80)));
    scene.policy(
        "shop/web",
        &json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"ports": [{"port": 80}]}]}),
    );
    scene.policy("shop/inside", &json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}));
    for (packet, passes) in [
        (tcp(VAULT, WEB, 80), true),
        (tcp(VAULT, WEB, 81), false),
        (tcp(VAULT, API, 80), false),
        (tcp(API, WEB, 81), true),
        (packet(API, WEB, None, 0), true),
        (packet(VAULT, WEB, None, 0), false),
        (packet(API, WEB, Some(Protocol::Sctp), 9), true),
        (tcp(WEB, WEB, 1), true),
    ] {
        assert_eq!(scene.lets(&packet), passes, "{packet:?}");
    }
}

#[test]
fn probes_of_the_own_node_pass_under_every_policy() {
    let mut scene = Scene::with_pods();
    scene.policy("shop/none", &json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    scene.index.apply_node(&node("node-2", &["192.168.0.2"]));
    for (from, to, passes) in [
        ("192.168.0.1", WEB, true),
        ("192.168.0.1", API, true),
        ("192.168.0.2", WEB, false),
        ("192.168.0.3", WEB, false),
    ] {
        assert_eq!(scene.lets(&tcp(from, to, 8080)), passes, "{from}");
    }
    assert!(!scene.lets(&tcp(WEB, "192.168.0.1", 6443)));
    // The node gets another address.
    scene.index.apply_node(&node("node-1", &["192.168.0.9"]));
    assert!(scene.lets(&tcp("192.168.0.9", WEB, 80)) && !scene.lets(&tcp("192.168.0.1", WEB, 80)));
    // Its object goes before its Pods do: the group that they carry stays.
    scene.index.delete_node("node-1");
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "policy shop/none"]);
    assert!(!scene.lets(&tcp("192.168.0.9", WEB, 80)));
}

#[test]
fn groups_that_somebody_else_made() {
    let mut scene = Scene::with_pods();
    scene.index.set_pod_groups(vec!["sg-1".into(), "sg-2".into()]);
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "given sg-1", "given sg-2"]);
    scene.policy("shop/p", &json!({"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]}));
    assert_eq!(names(&scene.carried("shop/web")), ["open-out", "base node-1", "policy shop/p"]);
    assert_eq!(scene.carried("shop/api").last(), Some(&CarriedGroup::Given("sg-2".into())));
    scene.index.set_pod_groups(Vec::new());
    assert_eq!(names(&scene.carried("shop/api")), ["open-in", "open-out", "base node-1"]);
}

#[test]
fn isolated_namespaces() {
    let isolation = |text: &str| json!({"net.beta.kubernetes.io/network-policy": text});
    let open = &["open-in", "open-out", "base node-1"][..];
    let closed = &["open-out", "base node-1"][..];
    for (annotations, expected, findings) in [
        (json!({}), open, 0),
        (isolation("{}"), open, 0),
        (isolation(r#"{"ingress":{}}"#), open, 0),
        (isolation(r#"{"ingress":{"isolation":null},"egress":1}"#), open, 0),
        (isolation(r#"{"ingress":{"isolation":"DefaultDeny"}}"#), closed, 0),
        (isolation(r#"{"ingress":{"isolation":"DefaultAllow"}}"#), closed, 1),
        (isolation(r#"{"ingress":true}"#), closed, 1),
        (isolation("DefaultDeny"), closed, 1),
        (isolation(""), closed, 1),
    ] {
        let mut scene = Scene::with_pods();
        scene.drain();
        scene.index.apply_namespace(&namespace("shop", &json!({}), &annotations));
        assert_eq!(scene.findings().len(), findings, "{annotations}");
        assert_eq!(names(&scene.carried("shop/web")), expected, "{annotations}");
        assert_eq!(scene.lets(&tcp(OUTSIDE, WEB, 80)), expected == open, "{annotations}");
        assert!(scene.lets(&tcp("192.168.0.1", WEB, 80)) && scene.lets(&tcp(WEB, OUTSIDE, 80)));
    }
}

#[test]
fn a_policy_opens_an_isolated_namespace() {
    let mut scene = Scene::with_pods();
    let isolated: Value =
        json!({"net.beta.kubernetes.io/network-policy": r#"{"ingress":{"isolation":"DefaultDeny"}}"#});
    scene.index.apply_namespace(&namespace("shop", &json!({}), &isolated));
    scene.policy("shop/out", &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}));
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "policy shop/out"]);
    assert!(!scene.lets(&tcp(OUTSIDE, WEB, 80)));
    scene.policy("shop/in", &json!({"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}));
    assert!(scene.lets(&tcp(OUTSIDE, WEB, 80)) && !scene.lets(&tcp(OUTSIDE, WEB, 81)));
}

#[test]
fn a_namespace_that_is_not_known_yet_is_closed() {
    let mut scene = Scene::new();
    scene.policy(
        "shop/p",
        &json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {
            "matchExpressions": [{"key": "team", "operator": "DoesNotExist"}],
        }}]}]}),
    );
    scene.pod("new", "n", "10.3.0.1", &json!([]));
    assert_eq!(names(&scene.carried("new/n")), ["open-out", "base node-1"]);
    assert_eq!(scene.ingress("shop/p"), ["any IPv4 shop/p", "any IPv6 shop/p"]);
    scene.index.apply_namespace(&namespace("new", &json!({}), &json!({})));
    assert_eq!(names(&scene.carried("new/n")), ["open-in", "open-out", "base node-1"]);
    assert_eq!(scene.ingress("shop/p"), ["any IPv4 shop/p", "any IPv6 shop/p", "any 10.3.0.1/32"]);
}
