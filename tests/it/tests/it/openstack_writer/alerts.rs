//! Which alerts fire for what openstack-writer exposes while the real services are in trouble.

use gimbal_kuryr_model::LoadBalancerReport;
use gimbal_kuryr_wire::KuryrReason;
use gimbal_testkit::openstack::{Service, Steer};
use gimbal_tests::{Alerts, Target, expect_metric};
use serde_json::json;

use super::controller::{Controller, wanted};
use super::stage::{PROD1, PROD2, Stage};

fn owner(number: u32) -> String {
    format!("cccccccc-0000-4000-8000-{number:012}")
}

fn target(stage: &Stage) -> Target {
    Target { job: "gimbal-openstack-writer", admin_port: stage.writer().admin_port }
}

/// Returns what is exposed while one load balancer is served and nothing is wrong.
async fn all_is_well(stage: &Stage) -> (Alerts, Controller, Controller) {
    let (controller, other) = (stage.controller(PROD1), stage.controller(PROD2));
    controller.want("served", wanted(&owner(1), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("served", 1).await;
    for (cluster, _) in [PROD1, PROD2] {
        let port = stage.writer().admin_port;
        expect_metric(port, "gimbal_openstack_writer_cluster_connected", cluster, 1.0).await.unwrap();
    }
    let alerts = Alerts::watch(&[target(stage)]).await;
    alerts.expect(&[]).await.unwrap();
    (alerts, controller, other)
}

pub async fn each_trouble_fires_its_own(stage: &Stage) {
    let (alerts, controller, other) = all_is_well(stage).await;

    // A policy that refuses.
    controller.want("refused", wanted(&owner(2), 1, &stage.subnet, &[80], &["192.168.0.1"]));
    controller.expect_reject("refused", KuryrReason::MemberNotAllowed).await;
    alerts.expect(&["GimbalLoadBalancersRejected"]).await.unwrap();
    controller.forget("refused");
    alerts.expect(&[]).await.unwrap();

    // A quota. That not much is left is another alert, about a figure that is read now and then.
    let quota = |most: i32| json!({"load_balancer": most});
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(1)).await.unwrap();
    controller.want("over", wanted(&owner(3), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let over = |report: &LoadBalancerReport| report.conditions.iter().any(|one| &*one.kind == "QuotaExceeded");
    controller.expect("over", "over quota", over).await;
    alerts.expect(&["GimbalLoadBalancerQuotaExceeded"]).await.unwrap();
    controller.remove("over", &owner(3)).await;
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(-1)).await.unwrap();
    alerts.expect(&[]).await.unwrap();

    // A configuration that cannot be read.
    let good = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, "clusters: {").unwrap();
    alerts.expect(&["GimbalOpenstackWriterConfigurationBad"]).await.unwrap();
    std::fs::write(&stage.config, good).unwrap();
    alerts.expect(&[]).await.unwrap();

    // A controller that is away.
    drop(other);
    alerts.expect(&["GimbalClusterDisconnected"]).await.unwrap();
    let other = stage.controller(PROD2);
    other.expect_open(true).await;
    alerts.expect(&[]).await.unwrap();

    // Octavia answers nothing but 503.
    let alerts = Alerts::watch(&[target(stage)]).await;
    let rule = Steer::calls(".*", "/lbaas/").by("^gimbal-openstack-writer").unavailable();
    let away = stage.cloud.steer(Service::Octavia, &rule).await.unwrap();
    alerts.expect(&["GimbalOpenstackCallsFail"]).await.unwrap();
    stage.cloud.stop_steering(away).await.unwrap();
    controller.remove("served", &owner(1)).await;
}
