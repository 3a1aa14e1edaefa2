//! Services that share a load balancer by their annotation.

use gimbal_testkit::eventually;
use gimbal_tests::{OFTEN, WayBack};
use serde_json::{Value, json};

use super::{SERVICES, WITHIN};

const TARGET: u16 = 8080;
/// The tag of the group's load balancer.
const GROUP: &str = "gimbal-group:shop:web";

async fn make(stage: &WayBack, name: &str, member: &str, ports: &[(&str, u16)]) {
    stage.plane().unwrap().member(member, TARGET, name).await.unwrap();
    let wanted = ports.iter().map(|(name, port)| json!({"name": name, "port": port, "targetPort": TARGET}));
    let metadata = json!({"name": name, "annotations": {"openstack.org/kuryr-shared-group": "web"}});
    let spec = json!({"type": "LoadBalancer", "ports": wanted.collect::<Vec<_>>()});
    stage.cluster.admin().post(SERVICES, &json!({"metadata": metadata, "spec": spec})).await.unwrap();
    let slice: Vec<(&str, u16)> = ports.iter().map(|(name, _)| (*name, TARGET)).collect();
    stage.set_members(name, &[member], &slice).await.unwrap();
}

async fn shared(stage: &WayBack) -> Vec<Value> {
    let mut found = stage.balancers().await.unwrap();
    found.retain(|one| one["tags"].as_array().is_some_and(|tags| tags.contains(&json!(GROUP))));
    found
}

/// Each is answered at its ports of one address. The port that both want is the older one's, and the younger one's when that
/// has gone.
pub async fn two_services_share_a_load_balancer(stage: &WayBack) {
    let plane = stage.plane().unwrap();
    make(stage, "older", "10.1.2.1", &[("http", 80)]).await;
    let address = stage.until_address("older").await.unwrap();
    make(stage, "younger", "10.1.2.2", &[("http", 80), ("admin", 81)]).await;
    assert_eq!(stage.until_address("younger").await.unwrap(), address);
    stage.until_answers(&address, 80, &["older"]).await.unwrap();
    stage.until_answers(&address, 81, &["younger"]).await.unwrap();
    let taken = |object: &Value| has(object, "Conflict", "PortTaken");
    stage.until_resource("younger", "says that a port is taken", taken).await.unwrap();
    let events = stage.events("younger").await.unwrap();
    assert!(events.iter().any(|(_, message)| message.contains("80")), "{events:?}");
    let [balancer] = &shared(stage).await[..] else { panic!("not one load balancer") };
    assert_eq!(balancer["listeners"].as_array().map(Vec::len), Some(2));

    plane.client("sharer", &address, 81, OFTEN).await.unwrap();
    let uid = stage.delete_service("older").await.unwrap();
    stage.until_gone("older", &uid).await.unwrap();
    stage.until_answers(&address, 80, &["younger"]).await.unwrap();
    let whole = |object: &Value| has(object, "Ready", "") && !has(object, "Conflict", "");
    stage.until_resource("younger", "has both ports", whole).await.unwrap();
    let visits = plane.stop_client("sharer").await.unwrap();
    assert_eq!((visits.answered, visits.failed), (visits.sent, Vec::new()), "one of the two goes");
    assert_eq!(stage.address("younger").await.unwrap(), address);
    let uid = stage.delete_service("younger").await.unwrap();
    stage.until_gone("younger", &uid).await.unwrap();
    let result = eventually("the load balancer goes with the last one", WITHIN, async || {
        let left = shared(stage).await;
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Whether a condition is true, with this reason unless that is empty.
fn has(object: &Value, kind: &str, reason: &str) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == kind && one["status"] == "True" && (reason.is_empty() || one["reason"] == reason))
}
