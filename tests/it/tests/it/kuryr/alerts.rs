//! Which alerts fire for what a controller exposes.

use gimbal_tests::{Alerts, Target, expect_metric};

use super::stage::{BALANCERS, Controller, Stage, USERS};

async fn leads(controller: &mut Controller) -> Target {
    controller.ready().await;
    expect_metric(controller.admin_port, "gimbal_kuryr_controller_leading", "", 1.0).await.unwrap();
    Target { job: "gimbal-kuryr-controller", admin_port: controller.admin_port }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_writer_and_an_absent_controller_fire_theirs() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    let target = leads(&mut controller).await;
    stage.make_service("web", "LoadBalancer").await;
    stage.make_slice("web", &["10.1.0.4"]).await;
    stage.until_ready("web").await;
    // What is exposed is a little behind.
    expect_metric(controller.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
    let alerts = Alerts::watch(&[target]).await;
    alerts.expect(&[]).await.unwrap();

    controller.process.kill().unwrap();
    alerts.expect(&["GimbalKuryrControllerWithoutLeader"]).await.unwrap();

    // One whose openstack-writer is nowhere.
    let mut controller = stage.controller_without_writer(USERS[0], &["--writer=http://127.0.0.1:9"]);
    let alerts = Alerts::watch(&[leads(&mut controller).await]).await;
    stage.make_service("late", "LoadBalancer").await;
    stage.until("the next one is asked for", (BALANCERS, "late"), |object| object.is_some()).await;
    alerts.expect(&["GimbalKuryrControllerDisconnected", "GimbalLoadBalancersWaitForWriter"]).await.unwrap();
}
