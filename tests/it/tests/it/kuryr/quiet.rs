//! No write without a difference.

use std::collections::BTreeMap;

use gimbal_testkit::eventually;
use gimbal_tests::{SOON, metric};
use serde_json::{Value, json};

use super::stage::{BALANCERS, Stage, USERS};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_nothing_changed_writes_nothing() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    for (name, type_) in [("a", "ClusterIP"), ("b", "LoadBalancer"), ("c", "LoadBalancer")] {
        stage.make_service(name, type_).await;
        stage.make_slice(name, &["10.1.0.4"]).await;
    }
    let headless = json!({"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    stage.post(super::stage::SERVICES, &headless).await;
    for name in ["a", "b", "c"] {
        let whole = |object: Option<&Value>| object.is_some_and(|object| object["status"]["memberCount"] == 1);
        stage.until("its member is reported", (BALANCERS, name), whole).await;
        stage.until_ready(name).await;
    }
    eventually("the reports are acknowledged", SOON, async || {
        let awaits = ["a", "b", "c"].map(|name| stage.openstack.awaits("team", name));
        if awaits == [false; 3] { Ok(()) } else { Err(format!("{awaits:?}")) }
    })
    .await
    .unwrap();
    controller.process.terminate(SOON).await.unwrap();
    // Each Service cost a finalizer, a load balancer, and what its status says as it comes about.
    let made = stage.writes(0).await;
    assert!(made.iter().filter(|write| !write.contains(" events ")).count() <= 3 * 8, "{made:#?}");
    let mark = stage.cluster.audit_mark().await.unwrap();
    let mut controller = stage.controller();
    controller.ready().await;
    eventually("the second stream has brought everything", SOON, async || {
        let acknowledged = metric(controller.admin_port, "gimbal_discoverer_pending", "").await?;
        let offered = metric(controller.admin_port, "gimbal_discoverer_services", "").await?;
        let received = metric(controller.admin_port, "gimbal_discoverer_messages_received_total", "").await?;
        anyhow::ensure!(offered > 2.5 && acknowledged < 0.5 && received > 2.5, "{offered} {acknowledged} {received}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    // Reports come again on a new stream, and are what the statuses say.
    eventually("the reports are acknowledged", SOON, async || {
        let awaits = ["a", "b", "c"].map(|name| stage.openstack.awaits("team", name));
        if awaits == [false; 3] { Ok(()) } else { Err(format!("{awaits:?}")) }
    })
    .await
    .unwrap();
    assert_eq!(stage.writes(mark).await, [""; 0]);
    stage.expect_rights_to_suffice().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_slices_is_a_handful_of_writes() {
    let stage = Stage::start().await;
    // One that is alone needs no Lease.
    let mut controller = stage.controller_as(USERS[0], &["--leader-election=false"]);
    controller.ready().await;
    stage.make_service("web", "ClusterIP").await;
    stage.make_slice("web", &["10.1.0.1"]).await;
    stage.until_ready("web").await;
    let mark = stage.cluster.audit_mark().await.unwrap();
    for number in 0..100 {
        let last = format!("10.1.1.{number}");
        stage.set_addresses("web", &["10.1.0.1", &last]).await;
    }
    eventually("the last change has arrived", SOON, async || {
        let members = stage.openstack.members("team", "web");
        if members == ["10.1.0.1:8080", "10.1.1.99:8080"] { Ok(()) } else { Err(format!("{members:?}")) }
    })
    .await
    .unwrap();
    stage.until_ready("web").await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for write in stage.writes(mark).await {
        *counts.entry(write).or_default() += 1;
    }
    let specs = counts.get("patch kuryrloadbalancers team/web 200").copied().unwrap_or_default();
    // One write is in flight at a time, so there are as many as fit into the time that the changes took.
    assert!((1..=60).contains(&specs), "{counts:#?}");
    let conflicts = counts.iter().filter(|(write, _)| write.ends_with(" 409")).map(|(_, count)| count).sum::<usize>();
    assert!(conflicts <= specs, "{counts:#?}");
}
