//! `--publish`: the leader is the only endpoint of a Service without a selector.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{SOON, Scene, expect_log, expect_metric, writer_rights};
use serde_json::{Value, json};

const SECOND: &str = "user-1";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/front/endpointslices";

async fn published(scene: &Scene, address: &str) {
    eventually(&format!("{address} is published"), SOON, async || {
        let slice = scene.gimbal.admin().get(&format!("{SLICES}/writer-leader")).await?;
        anyhow::ensure!(addresses(&slice) == [address], "{slice}");
        assert_eq!(slice["ports"], json!([{"name": "agents", "port": 7443, "protocol": "TCP"}]));
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

fn addresses(slice: &Value) -> Vec<&str> {
    let all = slice["endpoints"].as_array().into_iter().flatten();
    all.filter_map(|endpoint| endpoint["addresses"][0].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_leads_to_whoever_leads() {
    let scene = Scene::start().await.unwrap();
    scene.gimbal.bind(&scene.gimbal.user(SECOND).unwrap(), &writer_rights().unwrap()).await.unwrap();
    scene.gimbal.namespace("front").await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let flags = |advertise| ["--publish", "front/writer", "--advertise", advertise];
    let first = scene.writer(&config, &flags("10.9.0.1:7443")).await.unwrap();
    expect_log(&first.process, &["cannot publish this leader", "front/writer", "no such Service"]).await.unwrap();

    let mut service = json!({
        "metadata": {"name": "writer"},
        "spec": {"selector": {"app": "writer"}, "ports": [{"name": "agents", "port": 443, "targetPort": 7443}]},
    });
    let services = "/api/v1/namespaces/front/services";
    scene.gimbal.admin().post(services, &service).await.unwrap();
    expect_log(&first.process, &["cannot publish this leader", "remove the selector"]).await.unwrap();
    expect_metric(first.admin_port, "gimbal_writer_published", "", 0.0).await.unwrap();
    scene.gimbal.admin().delete(&format!("{services}/writer")).await.unwrap();
    service["spec"].as_object_mut().unwrap().remove("selector");
    scene.gimbal.admin().post(services, &service).await.unwrap();
    published(&scene, "10.9.0.1").await;
    expect_metric(first.admin_port, "gimbal_writer_published", "", 1.0).await.unwrap();

    // What somebody does to the slice is set back.
    scene.gimbal.admin().patch(&format!("{SLICES}/writer-leader"), &json!({"endpoints": []})).await.unwrap();
    published(&scene, "10.9.0.1").await;

    let second = scene.writer_as(SECOND, free_port().unwrap(), &config, &flags("10.9.0.2:7443")).await.unwrap();
    let mark = scene.gimbal.audit_mark().await.unwrap();
    first.process.signal("STOP").unwrap();
    published(&scene, "10.9.0.2").await;
    // The one that slept finds that another one leads, and writes nothing more.
    first.process.signal("CONT").unwrap();
    expect_metric(first.admin_port, "gimbal_writer_leading", "", 0.0).await.unwrap();
    expect_metric(first.admin_port, "gimbal_writer_published", "", 0.0).await.unwrap();
    published(&scene, "10.9.0.2").await;
    let entries = scene.gimbal.audit_since(mark).await.unwrap();
    let writes = entries.iter().filter(|entry| entry.name == "writer-leader" && entry.verb != "get");
    assert_eq!(writes.map(|entry| &*entry.user).collect::<Vec<_>>(), [SECOND]);

    let mut second = second;
    second.process.terminate(Duration::from_secs(5)).await.unwrap();
    published(&scene, "10.9.0.1").await;
}
