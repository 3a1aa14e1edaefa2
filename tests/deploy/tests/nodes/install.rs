//! The writer and a discoverer, each in a cluster with nodes: installed, killed, upgraded and uninstalled under requests.

use std::path::Path;
use std::time::{Duration, Instant};

use gimbal_deploy_tests::{deploy, list, text};
use gimbal_testkit::cluster::{Network, NodeCluster, Registry, Site, TestCluster};
use gimbal_testkit::pki::backend_identity;
use gimbal_testkit::{Pki, San, eventually};
use serde_json::{Value, json};

use crate::clients::{self, Clients};
use crate::images;

const WRITER: &str = "gimbal-writer";
const DISCOVERER: &str = "gimbal-kubernetes-discoverer";
/// The namespaces of the programs; the policy for Pods there is the strictest.
const PROGRAMS: [&str; 2] = ["gimbal", "gimbal-discovery"];
/// The namespace of the mirrored Service, in both clusters.
const SHOP: &str = "shop";
const ROLLED_WITHIN: Duration = Duration::from_secs(180);
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

#[test]
fn what_is_installed_serves_through_kills_and_upgrades() {
    let Some(site) = Site::enter("install::what_is_installed_serves_through_kills_and_upgrades").unwrap() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(through_a_life(&site));
}

async fn through_a_life(site: &Site) {
    let start = Instant::now();
    let tell = |what: &str| eprintln!("{:>6.1} s  {what}", start.elapsed().as_secs_f64());
    let registry = Registry::start().await.unwrap();
    images::push(&registry, &[WRITER, DISCOVERER]);
    tell("images are pushed");
    let gimbal = NodeCluster::start(site, Network::FIRST, 2, &registry).await.unwrap();
    let source = NodeCluster::start(site, Network::SECOND, 1, &registry).await.unwrap();
    tell("three nodes are ready");

    let files = tempfile::tempdir().unwrap();
    let pki = Pki::create(files.path().join("pki")).unwrap();
    for (cluster, namespace) in [(&gimbal, PROGRAMS[0]), (&source, PROGRAMS[1])] {
        cluster.kubectl(&["create", "namespace", SHOP]).unwrap();
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        let strict = "pod-security.kubernetes.io/enforce=restricted";
        cluster.kubectl(&["label", "namespace", namespace, strict]).unwrap();
    }
    secret(&gimbal, PROGRAMS[0], WRITER, &pki, &[San::Ip(&Network::FIRST.node(1)), San::Ip(&Network::FIRST.node(2))]);
    secret(&source, PROGRAMS[1], DISCOVERER, &pki, &[San::Uri(&backend_identity("node02"))]);

    let writer_values = files.path().join("writer.yaml");
    write(&writer_values, &writer());
    helm(&gimbal, "install", PROGRAMS[0], WRITER, &writer_values, &[]);
    tell("the writer is installed, both replicas are ready");
    let port =
        gimbal.kubectl(&["get", "service", WRITER, "-n", PROGRAMS[0], "-o", "jsonpath={.spec.ports[0].nodePort}"]);
    let urls = [1, 2].map(|node| format!("https://{}:{}", Network::FIRST.node(node), port.as_ref().unwrap()));
    let discoverer_values = files.path().join("discoverer.yaml");
    write(&discoverer_values, &discoverer(&urls));
    helm(&source, "install", PROGRAMS[1], DISCOVERER, &discoverer_values, &[]);
    tell("the discoverer is installed and ready");

    apply(&source, files.path(), &shop(2));
    arrive(&gimbal, 2).await;
    tell("two endpoints are mirrored");
    let clients = Clients::start(gimbal.admin().clone(), SHOP);
    let at_rest = versions(&gimbal).await;

    // The leader's Pod goes, without notice.
    let leader = leader(&gimbal).await;
    gimbal.kubectl(&["delete", "pod", &leader, "-n", PROGRAMS[0], "--grace-period=0", "--force"]).unwrap();
    eventually("another one leads", ARRIVES_WITHIN, async || {
        let now = self::leader(&gimbal).await;
        if now == leader { Err(format!("{now} leads")) } else { Ok(()) }
    })
    .await
    .unwrap();
    rolled(&gimbal, PROGRAMS[0], WRITER);
    tell("another one leads, and both replicas are ready again");
    assert_eq!(versions(&gimbal).await, at_rest, "a change of leader wrote");
    apply(&source, files.path(), &shop(3));
    arrive(&gimbal, 3).await;
    tell("a third endpoint is mirrored by it");

    // Both programs are upgraded, the writer first, and what is there stays untouched.
    let at_rest = versions(&gimbal).await;
    let next = format!("image.tag={}", images::TAGS[1]);
    helm(&gimbal, "upgrade", PROGRAMS[0], WRITER, &writer_values, &["--set", &next]);
    helm(&source, "upgrade", PROGRAMS[1], DISCOVERER, &discoverer_values, &["--set", &next]);
    for (cluster, namespace) in [(&gimbal, PROGRAMS[0]), (&source, PROGRAMS[1])] {
        let pods = cluster.admin().items(&format!("/api/v1/namespaces/{namespace}/pods")).await.unwrap();
        let running = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        for pod in running {
            let image = text(&pod["spec"]["containers"][0]["image"]);
            assert!(image.ends_with(images::TAGS[1]), "{image}");
        }
    }
    tell("both are upgraded");
    assert_eq!(versions(&gimbal).await, at_rest, "an upgrade wrote");
    apply(&source, files.path(), &shop(4));
    arrive(&gimbal, 4).await;
    tell("a fourth endpoint is mirrored");

    // Back to the version before.
    gimbal.helm(&["rollback", WRITER, "1", "-n", PROGRAMS[0], "--wait", "--timeout", "3m"]).unwrap();
    apply(&source, files.path(), &shop(5));
    arrive(&gimbal, 5).await;
    tell("the writer is rolled back, and a fifth endpoint is mirrored");

    // What was mirrored outlives the programs.
    let at_rest = versions(&gimbal).await;
    source.helm(&["uninstall", DISCOVERER, "-n", PROGRAMS[1], "--wait"]).unwrap();
    gimbal.helm(&["uninstall", WRITER, "-n", PROGRAMS[0], "--wait"]).unwrap();
    for (cluster, namespace) in [(&gimbal, PROGRAMS[0]), (&source, PROGRAMS[1])] {
        eventually("no Pod is left", ARRIVES_WITHIN, async || {
            let pods = cluster.admin().items(&format!("/api/v1/namespaces/{namespace}/pods")).await.unwrap();
            if pods.is_empty() { Ok(()) } else { Err(format!("{} are", pods.len())) }
        })
        .await
        .unwrap();
    }
    assert_eq!(versions(&gimbal).await, at_rest, "uninstalling took something away");
    let traffic = clients.traffic();
    tell(&format!("uninstalled; {} requests were answered, {} failed", traffic.answered, traffic.failed.len()));
    assert!(traffic.answered > 500, "{traffic:?}");
    assert!(traffic.failed.is_empty(), "{traffic:?}");
}

fn writer() -> Value {
    json!({
        "image": {"repository": format!("registry.example/{WRITER}")},
        "service": {"type": "NodePort"},
        "config": {
            "admins": ["spiffe://gimbal.example/admin"],
            "refusedAddresses": [Network::FIRST.pods(), Network::FIRST.services()],
            "backends": [{
                "name": "node02",
                "identity": backend_identity("node02"),
                "addresses": {"allow": [Network::SECOND.pods()]},
            }],
        },
    })
}

fn discoverer(urls: &[String]) -> Value {
    json!({
        "image": {"repository": format!("registry.example/{DISCOVERER}")},
        "backendName": "node02",
        "writer": urls,
        "namespaces": [SHOP],
    })
}

/// A Service and its Pods.
fn shop(replicas: u32) -> Value {
    let labels = json!({"app": "web"});
    let container = json!({
        "name": "web", "image": format!("registry.example/{}", images::SERVER),
        "args": ["registry", "serve", "--address", ":8080"],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/v2/", "port": 8080}, "periodSeconds": 1},
    });
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let web = json!({"name": "web", "namespace": SHOP});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": web,
            "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": web,
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}},
    ]})
}

pub fn write(path: &Path, value: &Value) {
    // JSON is YAML.
    std::fs::write(path, value.to_string()).unwrap();
}

pub fn apply(cluster: &NodeCluster, folder: &Path, objects: &Value) {
    let file = folder.join("apply.json");
    write(&file, objects);
    cluster.kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()]).unwrap();
}

fn secret(cluster: &NodeCluster, namespace: &str, program: &str, pki: &Pki, sans: &[San<'_>]) {
    let pair = pki.issue(program, sans).unwrap();
    let file = |key: &str, path: &Path| format!("--from-file={key}={}", path.display());
    let files = [file("tls.crt", &pair.cert), file("tls.key", &pair.key), file("ca.crt", pki.ca())];
    let name = format!("{program}-tls");
    let args = ["create", "secret", "generic", &name, "--namespace", namespace];
    cluster.kubectl(&[&args[..], &files.each_ref().map(String::as_str)[..]].concat()).unwrap();
}

pub fn helm(cluster: &NodeCluster, verb: &str, namespace: &str, chart: &str, values: &Path, more: &[&str]) {
    let [folder, values] = [&deploy("charts").join(chart), values].map(|path| path.display().to_string());
    let args = [verb, chart, &folder, "--namespace", namespace, "--values", &values, "--wait", "--timeout", "3m"];
    if let Err(error) = cluster.helm(&[&args[..], more].concat()) {
        let pods = cluster.kubectl(&["describe", "pods", "--namespace", namespace]).unwrap();
        let logs = ["logs", "--prefix", "--tail=30", "--namespace", namespace, "--selector"];
        let chart = format!("app.kubernetes.io/name={chart}");
        let logs = cluster.kubectl(&[&logs[..], &[&chart]].concat()).unwrap_or_else(|error| format!("{error:#}"));
        panic!("{error:#}\n{pods}\n{logs}");
    }
}

fn rolled(cluster: &NodeCluster, namespace: &str, deployment: &str) {
    let within = format!("--timeout={}s", ROLLED_WITHIN.as_secs());
    let deployment = format!("deployment/{deployment}");
    cluster.kubectl(&["rollout", "status", &deployment, "-n", namespace, &within]).unwrap();
}

/// Waits until this number of endpoints is mirrored and ready.
async fn arrive(gimbal: &TestCluster, count: usize) {
    eventually("mirrored endpoints", ARRIVES_WITHIN, async || {
        let ready = clients::ready(&gimbal.admin().items(&clients::slices(SHOP)).await?);
        anyhow::ensure!(ready.len() == count, "{ready:?}");
        anyhow::Ok(())
    })
    .await
    .unwrap();
}

/// Returns the versions of everything that is mirrored.
async fn versions(gimbal: &TestCluster) -> Vec<(String, String)> {
    let services = format!("/api/v1/namespaces/{SHOP}/services");
    let mut found = Vec::new();
    for path in [&services, &clients::slices(SHOP)] {
        let objects = gimbal.admin().items(path).await.unwrap();
        let of = |object: &Value, field: &str| text(&object["metadata"][field]).to_owned();
        found.extend(objects.iter().map(|object| (of(object, "name"), of(object, "resourceVersion"))));
    }
    assert_eq!(found.len(), 2, "{found:?}");
    found
}

/// Returns the name of the Pod of the writer that leads.
async fn leader(gimbal: &TestCluster) -> String {
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{WRITER}", PROGRAMS[0]);
    let lease = gimbal.admin().get(&lease).await.unwrap();
    let holder = text(&lease["spec"]["holderIdentity"]).to_owned();
    let pods = gimbal.admin().items(&format!("/api/v1/namespaces/{}/pods", PROGRAMS[0])).await.unwrap();
    let pods = Value::from(pods);
    let names = list(&pods).map(|pod| text(&pod["metadata"]["name"]));
    let mut leaders = names.filter(|name| holder.starts_with(*name));
    leaders.next().map(str::to_owned).unwrap_or(holder)
}
