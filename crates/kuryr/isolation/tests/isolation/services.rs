//! Services whose load balancer hides its clients.

use gimbal_kuryr_isolation::{ProxiedPort, ProxiedService};
use gimbal_kuryr_model::ClientRanges;
use gimbal_model::{Protocol, TargetPort};
use serde_json::json;

use crate::common::{Scene, key, names, namespace, tcp};

const BALANCER: &str = "10.9.0.5";

/// `shop/front`, port 443 to the port `http` of the Pods with this label.
fn service(app: &str, clients: ClientRanges) -> ProxiedService {
    ProxiedService {
        selector: [("app".into(), app.into())].into(),
        ports: vec![ProxiedPort { port: 443, protocol: Protocol::Tcp, target: TargetPort::Name("http".into()) }],
        clients,
        subnets: vec!["10.9.0.0/24".parse().unwrap()],
    }
}

fn only(ranges: &[&str]) -> ClientRanges {
    ClientRanges::Only(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

/// Whom the listener lets in after what has changed; `None` if that is as before.
fn clients(scene: &mut Scene) -> Option<ClientRanges> {
    let changes = scene.drain();
    let (_, listeners) = changes.clients.first()?;
    listeners.as_ref()?.get(&(443, Protocol::Tcp)).cloned()
}

#[test]
fn the_pods_let_the_balancer_in_and_the_listener_lets_in_whom_they_would() {
    let mut scene = Scene::with_pods();
    scene.index.apply_service(key("shop/front"), service("web", ClientRanges::Everyone));
    assert_eq!(clients(&mut scene), Some(ClientRanges::Everyone));
    assert_eq!(names(&scene.carried("shop/web")), ["open-in", "open-out", "base node-1"]);
    let from =
        json!([{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 80}]}, {"ports": [{"port": 81}]}]);
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": from}));
    assert_eq!(clients(&mut scene), Some(only(&["192.0.2.0/24"])));
    assert_eq!(
        names(&scene.carried("shop/web")),
        ["open-out", "base node-1", "policy shop/p", "service shop/front 80"]
    );
    // Another Pod of the same port is not behind it.
    assert!(!names(&scene.carried("shop/api")).iter().any(|name| name.starts_with("service")));
    for (port, passes) in [(80, true), (8080, false)] {
        assert_eq!(scene.lets(&tcp(BALANCER, "10.0.0.1", port)), passes, "{port}");
    }
    assert!(!scene.lets(&tcp(BALANCER, "10.0.0.2", 8080)) && !scene.lets(&tcp("10.8.0.1", "10.0.0.1", 80)));
}

#[test]
fn clients_are_those_whom_the_service_and_every_pod_behind_it_let_in() {
    let pod = |app: &str| json!({"podSelector": {"matchLabels": {"app": app}}});
    let block = |cidrs: &[&str]| {
        let blocks: Vec<_> = cidrs.iter().map(|cidr| json!({"ipBlock": {"cidr": cidr}})).collect();
        json!([{"from": blocks}])
    };
    let with = |mut spec: serde_json::Value, rules| {
        spec["ingress"] = rules;
        spec
    };
    let mut scene = Scene::with_pods();
    scene.index.apply_service(key("shop/front"), service("web", only(&["10.0.0.0/8", "192.0.2.0/24"])));
    assert_eq!(clients(&mut scene), Some(only(&["10.0.0.0/8", "192.0.2.0/24"])));
    scene.policy("shop/web", &with(pod("web"), block(&["10.0.0.0/9", "203.0.113.0/24"])));
    assert_eq!(clients(&mut scene), Some(only(&["10.0.0.0/9"])));
    // A second Pod behind it, which nothing isolates, and then something does.
    scene.index.apply_pod(&crate::common::pod(
        "shop",
        "api",
        &json!({"app": "web", "second": "yes"}),
        "10.0.0.2",
        &json!([
            {"name": "http", "containerPort": 8080},
        ]),
    ));
    assert_eq!(clients(&mut scene), None, "shop/web selects it, too");
    let second = json!({"podSelector": {"matchLabels": {"second": "yes"}}});
    scene.policy(
        "shop/web",
        &with(
            json!({"podSelector": {"matchExpressions": [
                {"key": "second", "operator": "DoesNotExist"},
            ]}}),
            block(&["10.0.0.0/9", "203.0.113.0/24"]),
        ),
    );
    scene.policy("shop/second", &with(second.clone(), block(&["10.64.0.0/10"])));
    assert_eq!(clients(&mut scene), Some(only(&["10.64.0.0/10"])));
    scene.policy("shop/second", &second);
    assert_eq!(clients(&mut scene), Some(ClientRanges::NoOne));
    scene.index.delete_policy("shop", "second");
    assert_eq!(clients(&mut scene), Some(only(&["10.0.0.0/9"])));
    scene.index.delete_pod("shop", "web");
    assert_eq!(clients(&mut scene), Some(only(&["10.0.0.0/8", "192.0.2.0/24"])));
    scene.index.apply_service(key("shop/front"), service("web", ClientRanges::NoOne));
    assert_eq!(clients(&mut scene), Some(ClientRanges::NoOne));
    scene.index.delete_service("shop", "front");
    assert!(scene.drain().clients[0].1.is_none());
}

#[test]
fn clients_that_are_members_of_a_group_are_those_of_now() {
    let mut scene = Scene::with_pods();
    scene.index.apply_service(key("shop/front"), service("web", ClientRanges::Everyone));
    let money = json!([{"from": [{"namespaceSelector": {"matchLabels": {"team": "money"}}}]}]);
    scene.policy("shop/p", &json!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": money}));
    scene.policy("bank/all", &json!({"podSelector": {}}));
    assert_eq!(scene.ingress("shop/p"), ["any IPv4 bank/all", "any IPv6 bank/all"]);
    scene.pod("bank", "two", "10.1.0.2", &json!([]));
    assert_eq!(clients(&mut scene), Some(only(&["10.1.0.1/32", "10.1.0.2/32"])));
    scene.pod("bank", "three", "10.1.0.3", &json!([]));
    assert_eq!(clients(&mut scene), Some(only(&["10.1.0.1/32", "10.1.0.2/31"])));
    scene.index.delete_pod("bank", "vault");
    assert_eq!(clients(&mut scene), Some(only(&["10.1.0.2/31"])));
}

#[test]
fn an_isolated_namespace_closes_its_listeners_until_a_policy_opens_them() {
    let mut scene = Scene::with_pods();
    scene.index.apply_service(key("shop/front"), service("web", ClientRanges::Everyone));
    scene.drain();
    let isolated = json!({"net.beta.kubernetes.io/network-policy": r#"{"ingress":{"isolation":"DefaultDeny"}}"#});
    scene.index.apply_namespace(&namespace("shop", &json!({}), &isolated));
    assert_eq!(clients(&mut scene), Some(ClientRanges::NoOne));
    scene.policy("shop/p", &json!({"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]}));
    assert_eq!(clients(&mut scene), Some(ClientRanges::Everyone));
}

#[test]
fn groups_that_somebody_else_made_get_the_balancer_in_beside() {
    let mut scene = Scene::with_pods();
    scene.index.set_pod_groups(vec!["sg-1".into()]);
    scene.index.apply_service(key("shop/front"), service("web", ClientRanges::Everyone));
    assert_eq!(clients(&mut scene), Some(ClientRanges::Everyone));
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "service shop/front 80", "given sg-1"]);
    // Without a selector, who is behind it is not known.
    let unselected =
        ProxiedService { selector: std::collections::BTreeMap::new(), ..service("web", only(&["10.0.0.0/8"])) };
    scene.index.apply_service(key("shop/front"), unselected);
    assert_eq!(clients(&mut scene), Some(only(&["10.0.0.0/8"])));
    assert_eq!(names(&scene.carried("shop/web")), ["base node-1", "given sg-1"]);
}
