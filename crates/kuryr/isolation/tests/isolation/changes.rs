//! A change is about what it touches, and nothing else is compiled or returned.

use gimbal_kuryr_isolation::{GroupName, IsolationChanges};
use serde_json::json;

use crate::common::{Scene, key, namespace, node, pod};

/// Policies of all kinds of peers.
fn scene() -> Scene {
    let mut scene = Scene::with_pods();
    scene.policy("shop/inside", &json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}));
    let web = json!([{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]);
    scene.policy("shop/web", &json!({"podSelector": {"matchLabels": {"app": "api"}}, "ingress": web}));
    let money = json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "money"}}}]}]);
    scene.policy("edge/money", &json!({"podSelector": {}, "ingress": money}));
    let https = json!([{"ports": [{"port": "https"}]}]);
    scene.policy("edge/named", &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": https}));
    let range = json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]);
    scene.policy("bank/range", &json!({"podSelector": {"matchLabels": {"app": "vault"}}, "ingress": range}));
    assert_eq!(scene.drain().compiled, 5);
    scene
}

fn touched(changes: &IsolationChanges) -> (usize, Vec<String>, Vec<String>) {
    let policy = |name: &GroupName| match name {
        GroupName::Policy(policy) => policy.to_string(),
        other => format!("{other:?}"),
    };
    let groups = changes.groups.iter().map(|(name, _)| policy(name)).collect();
    (changes.compiled, groups, changes.pods.iter().map(|(pod, _)| pod.to_string()).collect())
}

#[test]
fn what_a_pod_touches() {
    let https = json!([{"name": "https", "containerPort": 443}]);
    let none = json!([]);
    let app = |name: &str| json!({"app": name});
    // How many policies are compiled, whose rules are others then, and which Pods have other groups.
    for (what, pod, compiled, policies, pods) in [
        // It is a member of shop/inside, and no rule names its address. Only its ports may have a name.
        ("one more", pod("shop", "new", &app("new"), "10.0.0.9", &none), 1, &[][..], &["shop/new"][..]),
        ("another address", pod("shop", "web", &app("web"), "10.0.0.8", &none), 2, &["shop/web"], &[]),
        ("it is named no more", pod("shop", "web", &app("x"), "10.0.0.1", &none), 2, &["shop/web"], &[]),
        (
            "in a namespace that is named",
            pod("bank", "new", &json!({}), "10.1.0.9", &https),
            2,
            &["edge/money", "edge/named"],
            &["bank/new"],
        ),
        (
            "a label of no meaning",
            pod("bank", "vault", &json!({"app": "vault", "x": "y"}), "10.1.0.1", &https),
            0,
            &[],
            &[],
        ),
        ("it is selected no more", pod("bank", "vault", &json!({}), "10.1.0.1", &https), 0, &[], &["bank/vault"]),
        ("the same again", pod("bank", "vault", &app("vault"), "10.1.0.1", &https), 0, &[], &[]),
    ] {
        let mut scene = scene();
        scene.index.apply_pod(&pod);
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        assert_eq!(touched(&scene.drain()), (compiled, texts(policies), texts(pods)), "{what}");
    }
}

#[test]
fn what_namespaces_nodes_and_policies_touch() {
    let mut scene = scene();
    scene.index.apply_namespace(&namespace("shop", &json!({"team": "money"}), &json!({})));
    assert_eq!(touched(&scene.drain()), (1, vec!["edge/money".to_owned()], Vec::new()));
    scene.index.apply_namespace(&namespace("shop", &json!({"team": "money", "x": "y"}), &json!({})));
    assert_eq!(scene.drain(), IsolationChanges::default());
    scene.index.apply_node(&node("node-1", &["192.168.0.1", "fd01::1"]));
    assert_eq!(scene.drain(), IsolationChanges::default());
    scene.index.apply_node(&node("node-1", &["192.168.0.1"]));
    assert_eq!(touched(&scene.drain()), (0, vec!["Base(\"node-1\")".to_owned()], Vec::new()));
    scene.policy("bank/other", &json!({"podSelector": {"matchLabels": {"app": "vault"}}}));
    assert_eq!(touched(&scene.drain()), (1, vec!["bank/other".to_owned()], vec!["bank/vault".to_owned()]));
    scene.policy("bank/other", &json!({"podSelector": {"matchLabels": {"app": "vault"}}}));
    assert_eq!(scene.drain(), IsolationChanges::default());
    scene.index.delete_policy("bank", "other");
    assert_eq!(touched(&scene.drain()), (1, vec!["bank/other".to_owned()], vec!["bank/vault".to_owned()]));
}

#[test]
fn what_a_list_lacks_is_gone() {
    let mut scene = scene();
    scene.index.begin_policies();
    scene.policy("bank/range", &json!({"podSelector": {}}));
    scene.index.end_policies();
    scene.index.begin_pods();
    scene.pod("bank", "vault", "10.1.0.1", &json!([]));
    scene.index.end_pods();
    scene.drain();
    let policies = scene.cloud.groups.keys().filter(|name| matches!(name, GroupName::Policy(_))).count();
    assert_eq!((policies, scene.cloud.ports.len()), (1, 1));
    assert!(scene.cloud.ports.contains_key(&key("bank/vault")));
    // A node without Pods has no group once it is gone.
    scene.index.begin_pods();
    scene.index.end_pods();
    scene.index.begin_nodes();
    scene.index.end_nodes();
    scene.drain();
    assert!(!scene.cloud.groups.contains_key(&GroupName::Base("node-1".into())));
}
