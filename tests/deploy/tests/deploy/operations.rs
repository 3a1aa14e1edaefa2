//! The commands of docs/operations.md, and those of the README about installing, as they are there.

use std::path::Path;
use std::process::Command;

use gimbal_assets::Asset;
use gimbal_deploy_tests::{deploy, list, text};
use gimbal_testkit::TestCluster;
use gimbal_testkit::process::binary;
use serde_json::Value;

use crate::server;

/// Returns the shell commands of a page, each block with the line at which it begins.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in page.lines().enumerate() {
        match (line, is_inside) {
            ("```sh", false) => {
                found.push((number + 2, String::new()));
                is_inside = true;
            }
            ("```", true) => is_inside = false,
            (line, true) => found.last_mut().unwrap().1.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    found
}

/// Returns a folder like the root of the repository, with programs and certificates.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, folder.path().join(name)).unwrap();
    link(&deploy("").canonicalize().unwrap(), "deploy");
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    link(&Asset::Helm.path().unwrap(), "bin/helm");
    link(&Asset::Kubectl.path().unwrap(), "bin/kubectl");
    link(&binary("gimbalctl").unwrap(), "bin/gimbalctl");
    folder
}

/// Runs the commands of a page, and returns how many blocks there are.
fn run(cluster: &TestCluster, page: &str) -> usize {
    let folder = folder();
    let path = format!("{}/bin:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let blocks = blocks(page);
    for (line, commands) in &blocks {
        let mut shell = Command::new("sh");
        shell.args(["-eux", "-c", commands]).current_dir(folder.path()).env("PATH", &path);
        // Helm keeps its own files there.
        shell.env("HOME", folder.path()).env("KUBECONFIG", cluster.kubeconfig());
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the commands at line {line}: {said}");
    }
    blocks.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_installs() {
    let cluster = TestCluster::start().await.unwrap();
    let readme = std::fs::read_to_string(deploy("../README.md")).unwrap();
    let section = readme.split("\n## Install\n").nth(1).unwrap().split("\n## ").next().unwrap();
    assert_eq!(run(&cluster, section), 1);
    let deployments = cluster.admin().items("/apis/apps/v1/deployments").await.unwrap();
    assert_eq!(deployments.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_page_works() {
    let cluster = server::with_definitions().await;
    let count = run(&cluster, &std::fs::read_to_string(deploy("../docs/operations.md")).unwrap());
    assert!(count >= 10, "{count}");
    let items = async |path: &str| cluster.admin().items(path).await.unwrap();
    let names = |objects: &[Value]| -> Vec<String> {
        objects.iter().map(|object| text(&object["metadata"]["name"]).to_owned()).collect()
    };
    // What stays: the definition, and what was made by hand.
    let definitions = names(&items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await);
    assert!(definitions.iter().any(|name| name == "kuryrloadbalancers.openstack.org"), "{definitions:?}");
    let secrets = names(&items("/api/v1/secrets").await);
    for name in ["gimbal-writer-tls", "gimbal-openstack-writer-credentials", "openstack-osp1"] {
        assert!(secrets.iter().any(|secret| secret == name), "{name}: {secrets:?}");
    }
    assert!(!secrets.iter().any(|name| name == "gimbal-writer-config"), "{secrets:?}");
    // What goes: everything else.
    for path in [
        "/apis/apps/v1/deployments",
        "/api/v1/services",
        "/api/v1/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "/apis/networking.k8s.io/v1/networkpolicies",
    ] {
        let left = items(path).await;
        let left: Vec<&Value> =
            left.iter().filter(|object| text(&object["metadata"]["name"]).starts_with("gimbal")).collect();
        assert!(left.is_empty(), "{path}: {left:?}");
    }
    let lists = items("/api/v1/namespaces").await;
    assert!(list(&Value::from(lists)).any(|namespace| namespace["metadata"]["name"] == "gimbal"));
}

#[test]
fn blocks_are_those_of_the_shell() {
    let page = "a\n```sh\nb\nc\n```\n```yaml\nd\n```\n```sh\ne\n```\n";
    assert_eq!(blocks(page), [(3, "b\nc\n".to_owned()), (10, "e\n".to_owned())]);
}
