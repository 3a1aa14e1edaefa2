//! The README's first look: two programs and two kubeconfigs.

use gimbal_testkit::Process;
use gimbal_testkit::process::{binary, free_port, wait_url};
use gimbal_tests::{Grpcurl, Mirror, SOON, Scene, slice_of, svc};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn neither_certificates_nor_configuration_are_needed() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let start = |name: &str, flags: String| {
        let args: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        Process::start(name, &binary(name).unwrap(), &args, &scene.path(&format!("{name}.log"))).unwrap()
    };
    let (port, admin, own, own_admin) =
        (free_port().unwrap(), free_port().unwrap(), free_port().unwrap(), free_port().unwrap());
    let (gimbal, source) = (scene.gimbal.user("writer").unwrap(), scene.source.user("discoverer").unwrap());
    // The flag names of the original Gimbal.
    let kubeconfig = gimbal.kubeconfig().display();
    let listen = format!("--listen 127.0.0.1:{port} --admin-listen 127.0.0.1:{admin}");
    let _writer = start("gimbal-writer", format!("--gimbal-kubecfg-file {kubeconfig} --plaintext {listen}"));
    wait_url(&format!("http://127.0.0.1:{admin}/readyz"), SOON).await.unwrap();
    let kubeconfig = source.kubeconfig().display();
    let listen = format!("--listen 127.0.0.1:{own} --admin-listen 127.0.0.1:{own_admin}");
    let writer = format!("--writer http://127.0.0.1:{port}");
    let _discoverer = start(
        "gimbal-kubernetes-discoverer",
        format!("--backend-name node02 --discover-kubecfg-file {kubeconfig} {writer} {listen}"),
    );
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();

    // Every user of this machine may inspect.
    let backends = Grpcurl::plaintext(port).call("InspectionService/ListBackends", &json!({})).unwrap();
    assert_eq!(
        (&backends["backends"][0]["name"], &backends["backends"][0]["connected"]),
        (&json!("node02"), &json!(true))
    );
}
