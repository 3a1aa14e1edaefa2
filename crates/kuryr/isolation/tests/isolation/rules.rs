//! What each part of a policy becomes.

use gimbal_kuryr_isolation::{AffectedPod, GroupName, MOST_RULES};
use gimbal_model::Protocol;
use serde_json::{Value, json};

use crate::common::{Scene, key, names, packet, tcp};

/// The ingress rules of a policy for all Pods of the shop, in the cluster of [`Scene::with_pods`].
fn ingress(rules: &Value) -> Vec<String> {
    let mut scene = Scene::with_pods();
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": rules}));
    scene.ingress("shop/p")
}

#[test]
fn peers() {
    for (from, expected) in [
        (json!([]), &["any IPv4", "any IPv6"][..]),
        (json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}]), &["any 10.0.0.0/8"]),
        (json!([{"ipBlock": {"cidr": "10.9.9.9/8"}}]), &["any 10.0.0.0/8"]),
        (json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}]), &["any IPv4"]),
        (json!([{"ipBlock": {"cidr": "::/0"}}]), &["any IPv6"]),
        (
            json!([{"ipBlock": {"cidr": "10.0.0.0/29", "except": ["10.0.0.2/31", "10.0.0.7/32"]}}]),
            &["any 10.0.0.0/31", "any 10.0.0.4/31", "any 10.0.0.6/32"],
        ),
        (json!([{"ipBlock": {"cidr": "10.0.0.0/29", "except": ["10.0.0.0/29"]}}]), &[]),
        (json!([{"podSelector": {"matchLabels": {"app": "web"}}}]), &["any 10.0.0.1/32"]),
        (json!([{"podSelector": {"matchLabels": {"app": "vault"}}}]), &[]),
        (json!([{"namespaceSelector": {"matchLabels": {"team": "money"}}}]), &["any 10.1.0.1/32"]),
        (
            json!([{"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["money"]}]},
                    "podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}]),
            &["any 10.0.0.2/32", "any 10.2.0.1/32"],
        ),
        // Both in one peer are both of one Pod; in two peers they are two.
        (
            json!([{"namespaceSelector": {"matchLabels": {"team": "money"}}, "podSelector": {"matchLabels": {"app": "web"}}}]),
            &[],
        ),
        (
            json!([{"namespaceSelector": {"matchLabels": {"team": "money"}}}, {"podSelector": {"matchLabels": {"app": "web"}}}]),
            &["any 10.0.0.1/32", "any 10.1.0.1/32"],
        ),
        // The policy's own Pods are the members of its group.
        (json!([{"podSelector": {}}]), &["any IPv4 shop/p", "any IPv6 shop/p"]),
        (
            json!([{"namespaceSelector": {}}]),
            &["any IPv4 shop/p", "any IPv6 shop/p", "any 10.1.0.1/32", "any 10.2.0.1/32"],
        ),
    ] {
        assert_eq!(ingress(&json!([{"from": from}])), expected, "{from}");
    }
    assert!(ingress(&json!([])).is_empty());
}

#[test]
fn ports() {
    for (ports, expected) in [
        (json!([{"port": 80}]), &["TCP 80 10.0.0.0/8"][..]),
        (json!([{"protocol": "SCTP", "port": 80}]), &["SCTP 80 10.0.0.0/8"]),
        (json!([{"protocol": "UDP"}]), &["UDP 10.0.0.0/8"]),
        (json!([{"port": 80, "endPort": 90}]), &["TCP 80-90 10.0.0.0/8"]),
        (json!([{"port": 80, "endPort": 80}]), &["TCP 80 10.0.0.0/8"]),
        (json!([{"port": 1, "endPort": 65535}]), &["TCP 10.0.0.0/8"]),
        (json!([{"port": 80}, {"port": 81}, {"port": 82, "endPort": 90}, {"port": 80}]), &["TCP 80-90 10.0.0.0/8"]),
        (
            json!([{"port": 80}, {"port": 80, "protocol": "UDP"}, {"port": 82}]),
            &["TCP 80 10.0.0.0/8", "TCP 82 10.0.0.0/8", "UDP 80 10.0.0.0/8"],
        ),
    ] {
        assert_eq!(
            ingress(&json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": ports}])),
            expected,
            "{ports}"
        );
    }
}

#[test]
fn what_is_open_already_is_not_opened_again() {
    let block = |cidr: &str, ports: Value| json!({"from": [{"ipBlock": {"cidr": cidr}}], "ports": ports});
    for (rules, expected) in [
        (json!([block("10.0.0.0/8", json!([])), block("10.1.0.0/16", json!([{"port": 80}]))]), &["any 10.0.0.0/8"][..]),
        (
            json!([block("10.0.0.0/9", json!([{"port": 80}])), block("10.128.0.0/9", json!([{"port": 80}]))]),
            &["TCP 80 10.0.0.0/8"],
        ),
        (
            json!([block("10.0.0.0/9", json!([{"port": 80}])), block("10.128.0.0/9", json!([{"port": 81}]))]),
            &["TCP 80 10.0.0.0/9", "TCP 81 10.128.0.0/9"],
        ),
        (
            json!([
                block("10.0.0.0/8", json!([{"port": 80, "endPort": 89}])),
                block("10.1.0.0/16", json!([{"port": 85, "endPort": 95}]))
            ]),
            &["TCP 80-89 10.0.0.0/8", "TCP 85-95 10.1.0.0/16"],
        ),
        // Ports that touch make ranges that touch, which make one rule.
        (
            json!([
                block("10.0.0.0/9", json!([{"port": 80}])),
                block("10.0.0.0/9", json!([{"port": 81}])),
                block("10.128.0.0/9", json!([{"port": 80, "endPort": 81}])),
            ]),
            &["TCP 80-81 10.0.0.0/8"],
        ),
        (
            json!([{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}, {"ports": [{"port": 80}]}]),
            &["TCP 80 IPv4", "TCP 80 IPv6"],
        ),
    ] {
        assert_eq!(ingress(&rules), expected, "{rules}");
    }
}

#[test]
fn addresses_of_pods_are_joined_and_the_pods_are_named() {
    let mut scene = Scene::new();
    for at in 0..8 {
        scene.pod("edge", &format!("e{at}"), &format!("10.2.0.{at}"), &json!([]));
    }
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}));
    assert_eq!(scene.ingress("shop/p"), ["any IPv4 shop/p", "any IPv6 shop/p", "any 10.2.0.0/29"]);
    let group = &scene.cloud.groups[&GroupName::Policy(key("shop/p"))];
    let affected = &group.ingress[2].affected_pods;
    assert_eq!(affected.len(), 8);
    assert_eq!(affected[3], AffectedPod { address: "10.2.0.3".parse().unwrap(), namespace: "edge".into() });
    assert!(group.ingress[0].affected_pods.is_empty());
}

#[test]
fn pods_that_a_policy_selects_are_named_by_its_group() {
    let mut scene = Scene::with_pods();
    let from = json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "money"}}, "podSelector": {"matchLabels": {"app": "vault"}}}]}]);
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": from}));
    assert_eq!(scene.ingress("shop/p"), ["any 10.1.0.1/32"]);
    // The same Pods in other words.
    let same = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["vault"]}]});
    scene.policy("bank/vaults", &json!({"podSelector": same}));
    assert_eq!(scene.ingress("shop/p"), ["any IPv4 bank/vaults", "any IPv6 bank/vaults"]);
    scene.policy("bank/all", &json!({"podSelector": same}));
    assert_eq!(scene.ingress("shop/p"), ["any IPv4 bank/all", "any IPv6 bank/all"]);
    scene.index.delete_policy("bank", "all");
    scene.policy("bank/vaults", &json!({"podSelector": {}}));
    assert_eq!(scene.ingress("shop/p"), ["any 10.1.0.1/32"]);
}

#[test]
fn names_of_own_ports_open_to_each_pod_its_own_number() {
    let mut scene = Scene::with_pods();
    let rule = json!([{"ports": [{"port": "http"}, {"port": 22}]}]);
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": rule}));
    assert_eq!(scene.ingress("shop/p"), ["TCP 22 IPv4", "TCP 22 IPv6"]);
    assert_eq!(names(&scene.carried("shop/web")), ["open-out", "base node-1", "policy shop/p", "named shop/p http=80"]);
    for (address, port, passes) in [
        ("10.0.0.1", 80, true),
        ("10.0.0.1", 8080, false),
        ("10.0.0.2", 80, false),
        ("10.0.0.2", 8080, true),
        ("10.0.0.1", 22, true),
        ("10.0.0.2", 22, true),
    ] {
        assert_eq!(scene.lets(&tcp("10.2.0.1", address, port)), passes, "{address} {port}");
    }
    assert!(!scene.lets(&packet("10.2.0.1", "10.0.0.1", Some(Protocol::Udp), 80)));
    // A Pod without such a port carries no group for it, and is isolated all the same.
    scene.pod("shop", "job", "10.0.0.3", &json!([]));
    assert_eq!(names(&scene.carried("shop/job")), ["open-out", "base node-1", "policy shop/p"]);
    // One group for all Pods that have the same numbers; it goes with the last one.
    let named =
        |scene: &Scene| scene.cloud.groups.keys().filter(|name| matches!(name, GroupName::NamedPorts(..))).count();
    assert_eq!(named(&scene), 2);
    scene.pod("shop", "api", "10.0.0.2", &json!([{"name": "http", "containerPort": 80}]));
    scene.drain();
    assert_eq!(named(&scene), 1);
}

#[test]
fn names_of_the_ports_of_others_open_each_by_its_own_number() {
    let mut scene = Scene::with_pods();
    let to = json!([{"to": [{"podSelector": {}}], "ports": [{"port": "http"}]}]);
    scene.policy("shop/p", &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": to}));
    assert_eq!(scene.egress("shop/p"), ["TCP 80 10.0.0.1/32", "TCP 8080 10.0.0.2/32"]);
    let anyone = json!([{"ports": [{"port": "https"}]}]);
    scene.policy("shop/p", &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": anyone}));
    assert_eq!(scene.egress("shop/p"), ["TCP 443 10.1.0.1/32", "TCP 443 10.2.0.1/32"]);
    let range = json!([{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": "https"}]}]);
    scene.policy("shop/p", &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": range}));
    assert_eq!(scene.egress("shop/p"), ["TCP 443 10.1.0.1/32"]);
    // A Pod that comes to have the name.
    scene.pod("bank", "till", "10.1.0.2", &json!([{"name": "https", "containerPort": 8443}]));
    assert_eq!(scene.egress("shop/p"), ["TCP 443 10.1.0.1/32", "TCP 8443 10.1.0.2/32"]);
}

#[test]
fn pods_without_a_port_of_their_own_are_no_peers() {
    for (path, value) in [
        ("/spec/hostNetwork", json!(true)),
        ("/status/phase", json!("Succeeded")),
        ("/status/phase", json!("Failed")),
        ("/spec/nodeName", json!(null)),
    ] {
        let mut scene = Scene::with_pods();
        scene.policy("shop/p", &json!({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}));
        scene.drain();
        let pod = crate::common::pod("bank", "vault", &json!({}), "10.1.0.1", &json!([]));
        let mut object = serde_json::to_value(&pod).unwrap();
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        scene.index.apply_pod(&serde_json::from_value(object).unwrap());
        assert_eq!(scene.ingress("shop/p"), ["any IPv4 shop/p", "any IPv6 shop/p", "any 10.2.0.1/32"], "{path}");
        assert!(!scene.cloud.ports.contains_key(&key("bank/vault")), "{path}");
    }
}

#[test]
fn a_group_has_so_many_rules_at_most_and_the_narrowest_are_left_out() {
    let mut scene = Scene::new();
    let block = |at: usize| json!({"ipBlock": {"cidr": format!("10.{}.{}.0/32", at / 256, at % 256)}});
    let mut blocks: Vec<_> = (0..MOST_RULES).map(block).collect();
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": [{"from": blocks}]}));
    assert_eq!((scene.ingress("shop/p").len(), scene.findings().len()), (MOST_RULES, 0));
    blocks.push(json!({"ipBlock": {"cidr": "192.168.0.0/16"}}));
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": [{"from": blocks}]}));
    let findings = scene.findings();
    assert_eq!(
        findings,
        [format!(
            "NetworkPolicy shop/p: spec.ingress: {} rules are needed, more than {MOST_RULES}; the others are left out, the \
         narrowest first: use wider ranges",
            MOST_RULES + 1
        )]
    );
    let rules = scene.ingress("shop/p");
    assert_eq!((rules.len(), rules[0].as_str()), (MOST_RULES, "any 192.168.0.0/16"));
}
