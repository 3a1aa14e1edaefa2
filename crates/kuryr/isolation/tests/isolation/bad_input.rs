//! What cannot be read is named, opens nothing, isolates, and leaves everything else as it is.

use serde_json::{Value, json};

use crate::common::{Scene, names, tcp};

#[test]
fn what_is_wrong_opens_nothing_and_the_rest_holds() {
    let good_peer = json!({"ipBlock": {"cidr": "192.0.2.0/24"}});
    let bad_peers = [
        (json!({}), "spec.ingress[0].from[0]", "no ipBlock and no selector"),
        (json!({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}), "spec.ingress[0].from[0]", "beside a selector"),
        (
            json!({"ipBlock": {"cidr": "10.0.0.0"}}),
            "spec.ingress[0].from[0].ipBlock.cidr",
            "\"10.0.0.0\" is not a range",
        ),
        (json!({"ipBlock": {"cidr": ""}}), "spec.ingress[0].from[0].ipBlock.cidr", "\"\" is not a range"),
        (
            json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "x"]}}),
            "spec.ingress[0].from[0].ipBlock.except[1]",
            "\"x\" is not a range",
        ),
        (
            json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
            "spec.ingress[0].from[0].podSelector.matchExpressions[0]",
            "operator \"Like\"",
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.ingress[0].from[0].namespaceSelector.matchExpressions[0]",
            "need values",
        ),
        (
            json!({"namespaceSelector": {}, "podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}),
            "spec.ingress[0].from[0].podSelector.matchExpressions[0]",
            "have no values",
        ),
    ];
    for (bad, field, words) in bad_peers {
        let found = found(&json!([{"from": [bad, good_peer]}]), &["any 192.0.2.0/24"]);
        assert_finding(&found, field, words);
        // A list of which nothing can be read is not an empty list, which would be everyone.
        assert_finding(&self::found(&json!([{"from": [bad]}]), &[]), field, words);
    }
    let bad_ports = [
        (json!({"port": 0}), "spec.ingress[0].ports[0].port", "0 is not between"),
        (json!({"port": 65536}), "spec.ingress[0].ports[0].port", "65536 is not between"),
        (json!({"port": -1}), "spec.ingress[0].ports[0].port", "-1 is not between"),
        (json!({"port": 80, "endPort": 79}), "spec.ingress[0].ports[0].endPort", "79 is below port 80"),
        (json!({"port": 80, "endPort": 70000}), "spec.ingress[0].ports[0].endPort", "70000 is not between"),
        (json!({"endPort": 80}), "spec.ingress[0].ports[0].endPort", "begins with a port's number"),
        (json!({"port": "http", "endPort": 80}), "spec.ingress[0].ports[0].endPort", "begins with a port's number"),
        (json!({"port": 80, "protocol": "tcp"}), "spec.ingress[0].ports[0].protocol", "\"tcp\" is not TCP"),
        (
            json!({"port": "smtp"}),
            "spec.ingress[0].ports[0].port",
            "no container of the Pods has a port \"smtp\" of TCP",
        ),
        (json!({"port": "http", "protocol": "UDP"}), "spec.ingress[0].ports[0].port", "a port \"http\" of UDP"),
    ];
    for (bad, field, words) in bad_ports {
        let found = found(&json!([{"from": [good_peer], "ports": [bad, {"port": 22}]}]), &["TCP 22 192.0.2.0/24"]);
        assert_finding(&found, field, words);
        assert_finding(&self::found(&json!([{"from": [good_peer], "ports": [bad]}]), &[]), field, words);
    }
}

/// What is found of a policy with these rules, which open this much.
fn found(ingress: &Value, opened: &[&str]) -> Vec<String> {
    let mut scene = Scene::with_pods();
    scene.policy(
        "shop/good",
        &json!({"podSelector": {"matchLabels": {"app": "api"}}, "ingress": [{"ports": [{"port": 8080}]}]}),
    );
    scene.policy("shop/bad", &json!({"podSelector": {}, "ingress": ingress}));
    let findings = scene.findings();
    assert_eq!(scene.ingress("shop/bad"), opened, "{ingress}");
    assert_eq!(names(&scene.carried("shop/web")), ["open-out", "base node-1", "policy shop/bad"], "{ingress}");
    assert!(scene.lets(&tcp("10.1.0.1", "10.0.0.2", 8080)) && !scene.lets(&tcp("10.1.0.1", "10.0.0.1", 80)));
    findings
}

fn assert_finding(findings: &[String], field: &str, words: &str) {
    let [finding] = findings else { panic!("{findings:?}") };
    assert!(finding.starts_with(&format!("NetworkPolicy shop/bad: {field}: ")) && finding.contains(words), "{finding}");
}

#[test]
fn an_exception_outside_of_its_range_is_named_and_harms_nobody() {
    let block = json!({"ipBlock": {"cidr": "192.0.2.0/24", "except": ["10.0.0.0/8", "fd00::/8"]}});
    let mut scene = Scene::with_pods();
    scene.policy("shop/bad", &json!({"podSelector": {}, "ingress": [{"from": [block]}]}));
    let findings = scene.findings();
    assert!(
        findings.len() == 2 && findings[0].contains("ipBlock.except[0]: \"10.0.0.0/8\" is not within"),
        "{findings:?}"
    );
    assert_eq!(scene.ingress("shop/bad"), ["any 192.0.2.0/24"]);
}

#[test]
fn a_selector_that_cannot_be_read_isolates_all_that_it_may_mean_and_opens_nothing() {
    let mut scene = Scene::with_pods();
    let selector =
        json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
    scene.policy(
        "shop/bad",
        &json!({"podSelector": selector, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}),
    );
    let findings = scene.findings();
    assert_finding(&findings, "spec.podSelector.matchExpressions[0]", "operator \"Like\"");
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "policy shop/bad"]);
    assert_eq!(names(&scene.carried("shop/api")), ["open-in", "open-out", "base node-1"]);
    assert!(scene.ingress("shop/bad").is_empty() && scene.egress("shop/bad").is_empty());
    // Who its members are meant to be is not known, so others do not name them by its group.
    scene.policy(
        "shop/good",
        &json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]}),
    );
    assert_eq!(scene.ingress("shop/good"), ["any 10.0.0.1/32"]);
}

#[test]
fn a_direction_that_cannot_be_read_may_be_either() {
    for (types, expected, ingress) in [
        (json!(["ingress"]), &["base node-1", "policy shop/bad"][..], &[][..]),
        (json!(["Ingress", "egress"]), &["base node-1", "policy shop/bad"], &["any IPv4", "any IPv6"]),
    ] {
        let mut scene = Scene::with_pods();
        scene.policy("shop/bad", &json!({"podSelector": {}, "policyTypes": types, "ingress": [{}], "egress": [{}]}));
        let findings = scene.findings();
        assert!(findings.len() == 1 && findings[0].contains(": spec.policyTypes["), "{findings:?}");
        assert_eq!(names(&scene.carried("shop/web")), expected, "{types}");
        assert_eq!(
            (scene.ingress("shop/bad"), scene.egress("shop/bad").len()),
            (ingress.iter().map(|rule| (*rule).to_owned()).collect(), 0)
        );
    }
}

#[test]
fn a_name_that_no_pod_has_is_found_until_one_has() {
    let mut scene = Scene::with_pods();
    let to = json!([{"to": [{"podSelector": {}}], "ports": [{"port": "smtp"}]}]);
    scene.policy("shop/bad", &json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": to}));
    assert_finding(&scene.findings(), "spec.egress[0].ports[0].port", "\"smtp\" of TCP");
    assert!(scene.findings().is_empty(), "nothing changed");
    scene.pod("shop", "mail", "10.0.0.3", &json!([{"name": "smtp", "containerPort": 25}]));
    let changes = scene.drain();
    assert!(changes.findings.len() == 1 && changes.findings[0].1.is_empty(), "{:?}", changes.findings);
    assert_eq!(scene.egress("shop/bad"), ["TCP 25 10.0.0.3/32"]);
}

#[test]
fn findings_go_with_the_policy() {
    let mut scene = Scene::with_pods();
    scene.policy("shop/bad", &json!({"podSelector": {}, "ingress": [{"from": [{}]}]}));
    assert_eq!(scene.findings().len(), 1);
    scene.index.delete_policy("shop", "bad");
    let changes = scene.drain();
    assert!(changes.findings.len() == 1 && changes.findings[0].1.is_empty(), "{:?}", changes.findings);
}
