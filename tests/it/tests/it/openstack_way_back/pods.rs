//! Kubernetes' own controllers beside ours: EndpointSlices of Pods, garbage collection, a namespace that goes.

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Got;
use gimbal_tests::{NAMESPACE, WayBack};
use serde_json::{Value, json};

use super::{SERVICES, WITHIN};

const PODS: &str = "/api/v1/namespaces/shop/pods";
/// Name, address, and the name that it answers with.
const TWO: [(&str, &str); 2] = [("one", "10.1.1.1"), ("two", "10.1.1.2")];

async fn make_pod(stage: &WayBack, name: &str, address: &str) {
    let api = stage.cluster.admin();
    let containers = json!([{"name": "server", "image": "none"}]);
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"nodeName": "node-1", "containers": containers},
    });
    api.post(PODS, &pod).await.unwrap();
    let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
    api.patch(&format!("{PODS}/{name}/status"), &status).await.unwrap();
    set_ready(stage, name, true).await;
}

async fn set_ready(stage: &WayBack, name: &str, ready: bool) {
    let status = if ready { "True" } else { "False" };
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    stage.cluster.admin().patch(&format!("{PODS}/{name}/status"), &status).await.unwrap();
}

async fn until_no_member_answers(stage: &WayBack, address: &str) {
    let result =
        eventually("no member answers", WITHIN, async || match stage.plane()?.get(address, 80, None).await? {
            Got::Answer(200, name) => anyhow::bail!("{name} answers"),
            _ => Ok(()),
        });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

async fn weights(stage: &WayBack, name: &str) -> anyhow::Result<Vec<(String, u64)>> {
    let balancer = stage.balancer(name).await?;
    let mut found = Vec::new();
    for pool in balancer["pools"].as_array().into_iter().flatten() {
        let path = format!("/pools/{}/members", pool["id"].as_str().unwrap_or_default());
        let members = stage.cloud.octavia().get(&path).await?;
        let weight = |one: &Value| (one["address"].as_str().unwrap_or_default().to_owned(), one["weight"].as_u64());
        let rows = members["members"].as_array().into_iter().flatten().map(weight);
        found.extend(rows.filter_map(|(address, weight)| Some((address, weight?))));
    }
    found.sort();
    Ok(found)
}

async fn until_weights(stage: &WayBack, name: &str, expected: &[(&str, u64)]) {
    let expected: Vec<(String, u64)> =
        expected.iter().map(|(address, weight)| ((*address).to_owned(), *weight)).collect();
    let result = eventually("the members are so", WITHIN, async || {
        let found = weights(stage, name).await?;
        anyhow::ensure!(found == expected, "{found:?}");
        Ok(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// What is ready answers, what is not does not, what ends drains; and a load balancer without anyone stays.
pub async fn pods_that_are_ready_are_members(stage: &WayBack) {
    let api = stage.cluster.admin();
    api.post("/api/v1/nodes", &json!({"metadata": {"name": "node-1"}})).await.unwrap();
    for (name, address) in TWO {
        stage.plane().unwrap().member(address, 8080, name).await.unwrap();
        make_pod(stage, name, address).await;
    }
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let spec = json!({"type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports});
    let service = api.post(SERVICES, &json!({"metadata": {"name": "pods"}, "spec": spec})).await.unwrap();
    let address = stage.until_address("pods").await.unwrap();
    stage.until_answers(&address, 80, &["one", "two"]).await.unwrap();
    let id = stage.balancer("pods").await.unwrap()["id"].clone();
    set_ready(stage, "one", false).await;
    stage.until_answers(&address, 80, &["two"]).await.unwrap();
    set_ready(stage, "two", false).await;
    until_no_member_answers(stage, &address).await;
    until_weights(stage, "pods", &[]).await;
    let empty = |object: &Value| object["status"]["memberCount"] == 0 && is_ready(object);
    stage.until_resource("pods", "is ready without members", empty).await.unwrap();
    for (name, _) in TWO {
        set_ready(stage, name, true).await;
    }
    stage.until_answers(&address, 80, &["one", "two"]).await.unwrap();
    // It ends, and still serves what it has begun.
    api.delete(&format!("{PODS}/one")).await.unwrap();
    until_weights(stage, "pods", &[("10.1.1.1", 0), ("10.1.1.2", 1)]).await;
    stage.until_answers(&address, 80, &["two"]).await.unwrap();
    api.delete(&format!("{PODS}/one?gracePeriodSeconds=0")).await.unwrap();
    until_weights(stage, "pods", &[("10.1.1.2", 1)]).await;
    assert_eq!(stage.balancer("pods").await.unwrap()["id"], id, "it was one load balancer all the time");
    // Its slices and its KuryrLoadBalancer go by garbage collection.
    api.delete(&format!("{SERVICES}/pods")).await.unwrap();
    stage.until_gone("pods", service["metadata"]["uid"].as_str().unwrap()).await.unwrap();
    let result = eventually("the slices are gone", WITHIN, async || {
        let slices = api.items(&format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")).await?;
        anyhow::ensure!(slices.is_empty(), "{slices:?}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap();
    api.delete(&format!("{PODS}/two?gracePeriodSeconds=0")).await.unwrap();
}

fn is_ready(object: &Value) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Everything in it is deleted at the same time. What was made of it goes, and only then does the namespace.
pub async fn a_namespace_that_goes_leaves_nothing(stage: &WayBack) {
    let api = stage.cluster.admin();
    stage.cluster.namespace("brief").await.unwrap();
    let services = "/api/v1/namespaces/brief/services";
    let mut uids = Vec::new();
    for name in ["a", "b"] {
        let spec = json!({"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]});
        let made = api.post(services, &json!({"metadata": {"name": name}, "spec": spec})).await.unwrap();
        uids.push(made["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    let result = eventually("they have addresses", WITHIN, async || {
        for service in api.items(services).await? {
            let address = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
            anyhow::ensure!(address.is_string(), "{service}");
        }
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    api.delete("/api/v1/namespaces/brief").await.unwrap();
    let result =
        eventually("the namespace is gone", WITHIN, async || match api.get("/api/v1/namespaces/brief").await {
            Err(error) if error.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    let left = stage.left().await.unwrap();
    assert!(left.iter().all(|one| uids.iter().all(|uid| !one.contains(uid.as_str()))), "{left:?}");
}
