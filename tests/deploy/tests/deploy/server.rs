//! A real API server takes what is installed: unknown fields are refused, as are values that no such object can have.

use std::path::Path;
use std::time::Duration;

use gimbal_deploy_tests::{Chart, PROGRAMS, deploy, documents, list, objects, text};
use gimbal_testkit::TestCluster;
use gimbal_testkit::cluster::Method;
use serde_json::{Value, json};

/// Definitions of other projects whose objects charts may have, from the modules in which these publish them.
const DEFINITIONS: [(&str, &str, &[&str]); 3] = [
    (
        "github.com/cert-manager/cert-manager",
        "1.21.2",
        &["deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"],
    ),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "0.85.0",
        &[
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ],
    ),
    ("github.com/projectcontour/contour", "1.33.0", &["examples/contour/01-crds.yaml"]),
];

const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// Every namespace of an example, and one with another name than the charts know.
const NAMESPACES: [&str; 3] = ["gimbal", "gimbal-discovery", "elsewhere"];

/// Applies an object without storing it.
async fn try_to_apply(cluster: &TestCluster, object: &Value) -> Result<(), String> {
    let path = path_of(cluster, object).await;
    let path = format!("{path}?dryRun=All&fieldManager=installer&fieldValidation=Strict&force=true");
    let kinds = ("application/apply-patch+yaml", "application/json");
    let taken = cluster.admin().exchange(Method::PATCH, &path, kinds, object.to_string().into_bytes()).await;
    taken.map(drop).map_err(|refused| format!("{path}: {refused}"))
}

/// Returns where an object is applied. The API server says which kinds have namespaces.
async fn path_of(cluster: &TestCluster, object: &Value) -> String {
    let version = text(&object["apiVersion"]);
    let api = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let known = cluster.admin().get(&api).await.unwrap();
    let resource = list(&known["resources"])
        .find(|resource| resource["kind"] == object["kind"] && !text(&resource["name"]).contains('/'))
        .unwrap_or_else(|| panic!("no {} in {version}", object["kind"]));
    let name = format!("{}/{}", text(&resource["name"]), text(&object["metadata"]["name"]));
    let namespace = text(&object["metadata"]["namespace"]);
    assert_eq!(resource["namespaced"], !namespace.is_empty(), "the namespace of {} {name}", object["kind"]);
    if namespace.is_empty() { format!("{api}/{name}") } else { format!("{api}/namespaces/{namespace}/{name}") }
}

/// Starts a cluster with the definitions of other projects.
pub async fn with_definitions() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    for (module, version, files) in DEFINITIONS {
        let folder = gimbal_assets::go_module(module, version).unwrap();
        for file in files {
            install(&cluster, &folder.join(file)).await;
        }
    }
    cluster
}

/// As [`with_definitions`], with the namespaces, which are as strict as can be.
async fn cluster() -> TestCluster {
    let cluster = with_definitions().await;
    for name in NAMESPACES {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        cluster.admin().post("/api/v1/namespaces", &namespace).await.unwrap();
    }
    cluster
}

/// Installs definitions, and waits until their objects are served.
pub async fn install(cluster: &TestCluster, file: &Path) {
    for definition in documents(&std::fs::read_to_string(file).unwrap()).unwrap() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.admin().post(path, &definition).await.unwrap();
        let spec = &definition["spec"];
        let served = list(&spec["versions"]).find(|version| version["served"] == true).unwrap();
        let objects =
            format!("/apis/{}/{}/{}", text(&spec["group"]), text(&served["name"]), text(&spec["names"]["plural"]));
        gimbal_testkit::eventually("the definition is served", SERVED_WITHIN, async || {
            cluster.admin().get(&objects).await.map(drop).map_err(anyhow::Error::from)
        })
        .await
        .unwrap();
    }
}

/// Creates the pod of a deployment without storing it.
async fn try_pod(cluster: &TestCluster, deployment: &Value) -> Result<(), String> {
    let template = &deployment["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["name"] = json!("one");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", text(&deployment["metadata"]["namespace"]));
    cluster.admin().post(&path, &pod).await.map(drop).map_err(|refused| refused.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_takes_what_is_installed() {
    let cluster = cluster().await;
    // The example of a Backend is an object of it.
    install(&cluster, &deploy("crds").join("backend.yaml")).await;
    let mut all: Vec<(String, Value)> = Vec::new();
    for folder in ["crds", "rbac", "manifests", "examples"] {
        // A configuration of a program is no object.
        all.extend(objects(folder).unwrap().into_iter().filter(|(_, object)| !object["kind"].is_null()));
    }
    for example in PROGRAMS.into_iter().flat_map(|program| Chart::examples(program).unwrap()) {
        for chart in [example.clone(), Chart { release: "other", namespace: "elsewhere", ..example }] {
            let name = format!("{} {}", chart.release, chart.values.concat());
            all.extend(chart.render().unwrap().into_iter().map(|object| (name.clone(), object)));
        }
    }
    let definitions = Chart { values: Vec::new(), ..Chart::example("gimbal-crds", "") };
    all.extend(definitions.render().unwrap().into_iter().map(|object| ("gimbal-crds".to_owned(), object)));
    let (mut pods, mut kinds) = (0, std::collections::BTreeSet::new());
    for (from, object) in &all {
        try_to_apply(&cluster, object).await.unwrap_or_else(|refused| panic!("{from}: {refused}"));
        kinds.insert(text(&object["kind"]));
        if object["kind"] == "Deployment" {
            try_pod(&cluster, object).await.unwrap_or_else(|refused| panic!("{from}: {refused}"));
            pods += 1;
        }
    }
    assert!(pods >= 30 && all.len() > 200, "{pods} pods of {} objects", all.len());
    for kind in ["Certificate", "ServiceMonitor", "PrometheusRule", "HTTPProxy", "CustomResourceDefinition"] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
}

/// What the test above relies on: the server looks at fields, and at what pods ask for.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_refuses_what_is_wrong() {
    let cluster = cluster().await;
    let objects = Chart::example("gimbal-writer", "full.yaml").render().unwrap();
    let of_kind = |kind: &str| gimbal_deploy_tests::of_kind(&objects, kind).next().unwrap().clone();
    for (kind, place, value) in [
        ("Deployment", "/spec/template/spec/misspelt", json!(1)),
        ("NetworkPolicy", "/spec/policyTypes", json!(["Inbound"])),
        ("Certificate", "/spec/misspelt", json!(1)),
        ("ServiceMonitor", "/spec/endpoints/0/interval", json!("often")),
    ] {
        let mut object = of_kind(kind);
        try_to_apply(&cluster, &object).await.unwrap();
        let (parent, key) = place.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
        try_to_apply(&cluster, &object).await.unwrap_err();
    }
    for key in ["runAsNonRoot", "seccompProfile"] {
        let mut deployment = of_kind("Deployment");
        try_pod(&cluster, &deployment).await.unwrap();
        deployment["spec"]["template"]["spec"]["securityContext"].as_object_mut().unwrap().remove(key);
        let refused = try_pod(&cluster, &deployment).await.unwrap_err();
        assert!(refused.contains("violates PodSecurity \"restricted"), "{key}: {refused}");
    }
}
