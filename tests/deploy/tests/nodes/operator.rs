//! The operator in a cluster with a node: a Backend with a source gets a pod that reads it and streams to the writer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gimbal_deploy_tests::{list, text};
use gimbal_testkit::cluster::{Network, NodeCluster, Registry, Site};
use gimbal_testkit::eventually;
use gimbal_testkit::pki::backend_identity;
use gimbal_testkit::process::binary;
use serde_json::{Value, json};

use crate::images;
use crate::install::{apply, helm, write};

const WRITER: &str = "gimbal-writer";
const OPERATOR: &str = "gimbal-operator";
const DISCOVERERS: [&str; 2] = ["gimbal-kubernetes-discoverer", "gimbal-openstack-discoverer"];
/// The namespaces of the programs; the policy for Pods there is the strictest.
const PROGRAMS: [&str; 2] = ["gimbal", "gimbal-discovery"];
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

#[test]
fn a_backend_with_a_source_has_a_pod_that_streams() {
    let Some(site) = Site::enter("operator::a_backend_with_a_source_has_a_pod_that_streams").unwrap() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(through_a_life(&site));
}

async fn through_a_life(site: &Site) {
    let start = Instant::now();
    let tell = |what: &str| eprintln!("{:>6.1} s  {what}", start.elapsed().as_secs_f64());
    let registry = Registry::start().await.unwrap();
    images::push(&registry, &[WRITER, OPERATOR, DISCOVERERS[0]]);
    tell("images are pushed");
    let gimbal = NodeCluster::start(site, Network::FIRST, 1, &registry).await.unwrap();
    tell("the node is ready");
    for namespace in PROGRAMS {
        gimbal.kubectl(&["create", "namespace", namespace]).unwrap();
        let strict = "pod-security.kubernetes.io/enforce=restricted";
        gimbal.kubectl(&["label", "namespace", namespace, strict]).unwrap();
    }
    let files = tempfile::tempdir().unwrap();
    certificates(&gimbal, files.path());
    let crds = gimbal_deploy_tests::deploy("charts/gimbal-crds").display().to_string();
    gimbal.helm(&["install", "gimbal-crds", &crds, "-n", PROGRAMS[0]]).unwrap();
    let values = files.path().join("values.yaml");
    write(&values, &writer());
    helm(&gimbal, "install", PROGRAMS[0], WRITER, &values, &[]);
    tell("the writer is installed and ready");
    let port = ["get", "service", WRITER, "-n", PROGRAMS[0], "-o", "jsonpath={.spec.ports[0].nodePort}"];
    let url = format!("https://{}:{}", Network::FIRST.node(1), gimbal.kubectl(&port).unwrap());
    write(&values, &operator(&url));
    helm(&gimbal, "install", PROGRAMS[1], OPERATOR, &values, &[]);
    tell("the operator is installed and ready");

    // The cluster is its own source, so that one is enough.
    let web = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"ports": [{"port": 80}]}});
    apply(&gimbal, files.path(), &web);
    kubeconfig(&gimbal, files.path(), "one");
    let source = json!({"kubernetes": {"kubeconfigSecret": {"name": "kubeconfig"}, "namespaces": ["default"]}});
    let backend = json!({"apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend",
        "metadata": {"name": "node02"}, "spec": {"identity": backend_identity("node02"), "source": source}});
    apply(&gimbal, files.path(), &backend);
    expect_conditions(&gimbal, &["DiscovererReady", "Connected", "Synced", "Ready"]).await;
    let mirrored = ["get", "service", "node02-web", "-n", "default", "-o", "name"];
    assert_eq!(gimbal.kubectl(&mirrored).unwrap().trim(), "service/node02-web");
    tell("its pod streams, and what it offers is mirrored");

    let first = pods(&gimbal).await;
    kubeconfig(&gimbal, files.path(), "two");
    eventually("another pod runs", SETTLED_WITHIN, async || {
        let now = pods(&gimbal).await;
        if now.len() == 1 && now != first { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await
    .unwrap();
    expect_conditions(&gimbal, &["DiscovererReady", "Connected", "Synced", "Ready"]).await;
    tell("another kubeconfig has another pod, which streams too");

    gimbal.kubectl(&["patch", "backend", "node02", "--type=merge", "--patch", r#"{"spec":{"source":null}}"#]).unwrap();
    eventually("no pod is left", SETTLED_WITHIN, async || {
        let left = pods(&gimbal).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await
    .unwrap();
    assert_eq!(gimbal.kubectl(&mirrored).unwrap().trim(), "service/node02-web", "what was mirrored stays");
    tell("without a source there is no pod");
}

/// Makes two authorities, the pair of the writer by the first, and Secrets as docs/operations.md says: the second signs discoverers
/// alone, and each side trusts the other's.
fn certificates(gimbal: &NodeCluster, folder: &Path) {
    let gimbalctl = binary("gimbalctl").unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&gimbalctl).arg("certs").args(args).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["authority"]);
    run(&["authority", "--dir", "discovery-authority"]);
    run(&["issue", "writer", "--ip", &Network::FIRST.node(1), "--trust", "discovery-authority/ca.crt"]);
    let secret = |namespace: &str, name: &str, dir: &str, keys: &[&str]| {
        let files = keys.iter().map(|key| format!("--from-file={key}={}", folder.join(dir).join(key).display()));
        let files: Vec<String> = files.collect();
        let args = ["create", "secret", "generic", name, "--namespace", namespace];
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        gimbal.kubectl(&[&args[..], &files].concat()).unwrap();
    };
    secret(PROGRAMS[0], "gimbal-writer-tls", "writer", &["tls.crt", "tls.key", "ca.crt"]);
    let trust = std::fs::read_to_string(folder.join("authority/ca.crt")).unwrap();
    std::fs::write(folder.join("discovery-authority/trust.crt"), trust).unwrap();
    secret(PROGRAMS[1], "gimbal-authority", "discovery-authority", &["ca.crt", "ca.key", "trust.crt"]);
}

/// Makes the Secret with a kubeconfig of the cluster itself, or changes it.
fn kubeconfig(gimbal: &NodeCluster, folder: &Path, comment: &str) {
    let config = gimbal.kubectl(&["config", "view", "--raw", "--flatten"]).unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kubeconfig", "namespace": PROGRAMS[1]},
        "stringData": {"kubeconfig": format!("# {comment}\n{config}")}});
    apply(gimbal, folder, &object);
}

fn writer() -> Value {
    json!({
        "image": {"repository": format!("registry.example/{WRITER}")},
        "replicas": 1,
        "service": {"type": "NodePort"},
        "backends": "objects",
        "config": {"admins": ["spiffe://gimbal.example/admin"]},
    })
}

fn operator(url: &str) -> Value {
    let image = |program: &str| format!("registry.example/{program}:{}", images::TAGS[0]);
    json!({
        "image": {"repository": format!("registry.example/{OPERATOR}")},
        "replicas": 1,
        "writer": [url],
        "identityPrefix": "spiffe://gimbal.example/backend/",
        "discoverers": {"kubernetesImage": image(DISCOVERERS[0]), "openstackImage": image(DISCOVERERS[1])},
    })
}

/// Returns the names of the pods of discoverers.
async fn pods(gimbal: &NodeCluster) -> Vec<String> {
    let selector = "labelSelector=app.kubernetes.io/instance%3Dnode02";
    let path = format!("/api/v1/namespaces/{}/pods?{selector}", PROGRAMS[1]);
    let pods = gimbal.admin().items(&path).await.unwrap();
    pods.iter().map(|pod| text(&pod["metadata"]["name"]).to_owned()).collect()
}

async fn expect_conditions(gimbal: &NodeCluster, types: &[&str]) {
    let path = "/apis/gimbal.projectcontour.io/v1alpha1/backends/node02";
    eventually("the conditions are true", SETTLED_WITHIN, async || {
        let status = gimbal.admin().get(path).await?["status"].take();
        let is =
            |type_: &&str| list(&status["conditions"]).any(|one| one["type"] == **type_ && one["status"] == "True");
        anyhow::ensure!(types.iter().all(is), "{status}");
        anyhow::Ok(())
    })
    .await
    .unwrap();
}
