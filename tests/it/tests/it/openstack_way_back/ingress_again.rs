//! What fails for a router is tried again.

use gimbal_testkit::openstack::Steer;
use gimbal_tests::{INGRESSES, WayBack};
use serde_json::json;

use super::ingress::{make, policies, remove, rule, until_routed};
use super::{applied, steer};

const HOST: &str = "again.example.com";
/// What Octavia says where something breaks that it has no words for.
const BROKEN: &str = r#"{"faultcode": "Server", "faultstring": "(a failure)", "debuginfo": null}"#;

/// octavia-ingress-controller leaves an Ingress alone after a call that fails, until somebody edits it.
pub async fn a_route_comes_after_a_failure_without_an_edit(stage: &WayBack, router: &str) {
    let fails = Steer::calls("POST", "/l7policies$").of_client("^gimbal-openstack-writer").once();
    let fails = steer(stage, &fails.answer(500, &[], BROKEN)).await;
    make(stage, "again", &json!([rule(HOST, &[("/", "Prefix", "s1")])])).await;
    applied(stage, fails).await;
    until_routed(stage, router, HOST, "/", "s1").await;
    let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/again")).await.unwrap();
    assert_eq!(ingress["metadata"]["generation"], 1, "no one has edited it: {ingress}");
    let policies = policies(stage).await.unwrap();
    assert_eq!(policies.iter().filter(|one| one["name"] == "shop/again").count(), 1, "{policies:?}");
    stage.cloud.stop_steering(fails).await.unwrap();
    remove(stage, "again").await;
    until_routed(stage, router, HOST, "/", "503").await;
}
