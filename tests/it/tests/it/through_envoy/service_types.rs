//! The conformance test `HTTPRouteServiceTypes` of Gateway API, with its own manifests: against Contour as they are, and once more
//! with its Services in the source, so that Gimbal publishes them.

use std::path::Path;

use gimbal_testkit::contour::{GATEWAY, conformance_tests, kubectl};
use gimbal_testkit::{TestCluster, eventually};
use serde_json::{Value, json};

use super::{HEARS, NAMESPACE, ROUTES, Stage, is_alone, servers};

const PODS: &str = "/api/v1/namespaces/gateway-conformance-infra/pods";
const NODES: &str = "/api/v1/nodes";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/gateway-conformance-infra/endpointslices";
/// The Services of the manifests, which are also the paths of the route.
const SERVICES: [&str; 3] = ["manual-endpointslices", "headless", "headless-manual-endpointslices"];
/// The port of its Pods.
const TARGET_PORT: u16 = 3000;

/// Makes the Pod that the conformance tests have, as a kubelet would.
async fn pod(cluster: &TestCluster, four: &str, six: &str) {
    let api = cluster.admin();
    // Kubernetes' controller leaves out a Pod whose node is unknown.
    api.post(NODES, &json!({"metadata": {"name": "node-1"}})).await.unwrap();
    let pod = json!({
        "metadata": {"name": "infra-backend-v1", "labels": {"app": "infra-backend-v1"}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "infra-backend-v1", "image": "none"}]},
    });
    api.post(PODS, &pod).await.unwrap();
    let status = json!({"status": {
        "phase": "Running", "podIP": four, "podIPs": [{"ip": four}, {"ip": six}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    api.patch(&format!("{PODS}/infra-backend-v1/status"), &status).await.unwrap();
}

/// Fills the slices, as the test's code does.
async fn fill(cluster: &TestCluster, four: &str, six: &str) {
    for service in [SERVICES[0], SERVICES[2]] {
        for (suffix, address) in [("ip4", four), ("ip6", six)] {
            let conditions = json!({"ready": true, "serving": true, "terminating": false});
            let reference = json!({"kind": "Pod", "name": "infra-backend-v1", "namespace": NAMESPACE});
            let endpoint = json!({
                "addresses": [address], "conditions": conditions, "nodeName": "node-1", "targetRef": reference,
            });
            let slice = format!("{SLICES}/{service}-{suffix}");
            cluster.admin().patch(&slice, &json!({"endpoints": [endpoint]})).await.unwrap();
        }
    }
}

/// Waits until Contour has accepted a route and found everything that it names.
async fn accepted(stage: &Stage, route: &str) {
    let what = format!("{route} is accepted");
    let result = eventually(&what, HEARS, async || {
        let object = stage.scene.gimbal.admin().get(&format!("{ROUTES}/{route}")).await?;
        let conditions = object["status"]["parents"][0]["conditions"].as_array().cloned().unwrap_or_default();
        for wanted in ["Accepted", "ResolvedRefs"] {
            let is = conditions.iter().any(|one: &Value| one["type"] == wanted && one["status"] == "True");
            anyhow::ensure!(is, "not {wanted}: {conditions:?}");
        }
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.contour.logs()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_as_they_are_and_published_by_gimbal() {
    if !is_alone("service_types::the_manifests_as_they_are_and_published_by_gimbal") {
        return;
    }
    let stage = Stage::start().await;
    let scene = &stage.scene;
    let manifests = conformance_tests().unwrap().join("httproute-service-types.yaml");
    let (own, sources) = (["10.77.9.1", "fd77::9:1"], ["10.77.9.2", "fd77::9:2"]);
    let _servers = servers(&[own, sources].concat(), TARGET_PORT).await;
    // Its Pods' slices are made by Kubernetes' own controller.
    let _controllers =
        [scene.gimbal.start_controllers().await.unwrap(), scene.source.start_controllers().await.unwrap()];

    kubectl(&scene.gimbal, &["apply", "-f"], &manifests).unwrap();
    pod(&scene.gimbal, own[0], own[1]).await;
    fill(&scene.gimbal, own[0], own[1]).await;
    accepted(&stage, "service-types").await;
    for service in SERVICES {
        stage.expect("any.example", &format!("/{service}"), 200, &format!("{} HTTP/1.1", own[0])).await;
    }
    stage.expect("any.example", "/headless-manual-endpointslices", 200, &format!("{} HTTP/1.1", own[1])).await;

    // The source has no such routes.
    let text = std::fs::read_to_string(&manifests).unwrap();
    let without_route: Vec<&str> = text.split("\n---\n").filter(|part| !part.contains("kind: HTTPRoute")).collect();
    assert_eq!(text.split("\n---\n").count(), without_route.len() + 1);
    let file = scene.path("services.yaml");
    std::fs::write(&file, without_route.join("\n---\n")).unwrap();
    kubectl(&scene.source, &["apply", "-f"], Path::new(&file)).unwrap();
    pod(&scene.source, sources[0], sources[1]).await;
    fill(&scene.source, sources[0], sources[1]).await;
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let rule = |service: &str| {
        json!({
            "matches": [{"path": {"type": "Exact", "value": format!("/published/{service}")}}],
            "backendRefs": [{"name": format!("node02-{service}"), "port": 8080}],
        })
    };
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "published"},
        "spec": {"parentRefs": [{"name": GATEWAY.1}], "rules": SERVICES.map(rule)},
    });
    scene.gimbal.admin().post(ROUTES, &route).await.unwrap();
    accepted(&stage, "published").await;
    for service in SERVICES {
        let path = format!("/published/{service}");
        stage.expect("any.example", &path, 200, &format!("{} HTTP/1.1", sources[0])).await;
    }
    stage.expect("any.example", "/published/manual-endpointslices", 200, &format!("{} HTTP/1.1", sources[1])).await;
}
