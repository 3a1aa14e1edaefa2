//! Quotas that have no room for the pool of a route, or for HTTPS: what serves goes on.

use gimbal_kuryr_model::{LoadBalancerReport, Phase};
use gimbal_testkit::openstack::Service;
use serde_json::json;

use super::controller::{Controller, wanted};
use super::routes::{Led, ROUTER, expect_answers, expect_shape, routed, shape};
use super::stage::{PROD1, Stage};
use super::tls::issued;

const ROUTES: [Led<'_>; 3] = [("a.test", "", "one"), ("b.test", "", "two"), ("c.test", "", "three")];
/// Another load balancer, whose going makes the writer try again what a quota was in the way of.
const OTHER: &str = "other";

fn owner(number: u32) -> String {
    format!("edededed-0000-4000-8000-{number:012}")
}

async fn limit(stage: &Stage, resource: &str, most: i32) {
    stage.cloud.set_quota(Service::Octavia, &stage.project, &json!({resource: most})).await.unwrap();
}

async fn expect_over(controller: &Controller, generation: i64) {
    let over = |report: &LoadBalancerReport| {
        report.phase == Phase::Blocked
            && report.generation == generation
            && report.conditions.iter().any(|one| &*one.kind == "QuotaExceeded")
    };
    controller.expect(ROUTER, "over quota", over).await;
}

/// A route whose Service has no pool yet waits, and the others serve. With the pool of another load balancer that goes, room
/// comes.
pub async fn of_pools(stage: &Stage) {
    let (controller, owner, other) = (stage.controller(PROD1), owner(1), owner(2));
    controller.want(ROUTER, routed(stage, (&owner, 1), &ROUTES[..2], &[]));
    controller.want(OTHER, wanted(&other, 1, &stage.subnet, &[8080], &["10.0.0.1"]));
    controller.expect_ready(ROUTER, 1).await;
    controller.expect_ready(OTHER, 1).await;
    let before = shape(stage).await;
    limit(stage, "pool", 3).await;
    controller.want(ROUTER, routed(stage, (&owner, 2), &ROUTES, &[]));
    expect_over(&controller, 2).await;
    expect_shape(stage, &before).await;
    expect_answers(stage, &controller, &ROUTES[..2]).await;
    expect_answers(stage, &controller, &[("c.test", "", "503")]).await;
    controller.remove(OTHER, &other).await;
    controller.expect_ready(ROUTER, 2).await;
    expect_answers(stage, &controller, &ROUTES).await;
    limit(stage, "pool", -1).await;
    controller.remove(ROUTER, &owner).await;
}

/// HTTPS waits, and HTTP serves, with a route more. With the listener of another load balancer that goes, room comes.
pub async fn of_listeners(stage: &Stage) {
    let (controller, owner, other) = (stage.controller(PROD1), owner(3), owner(4));
    controller.want(ROUTER, routed(stage, (&owner, 1), &ROUTES[..2], &[]));
    controller.want(OTHER, wanted(&other, 1, &stage.subnet, &[8080], &["10.0.0.1"]));
    controller.expect_ready(ROUTER, 1).await;
    controller.expect_ready(OTHER, 1).await;
    limit(stage, "listener", 2).await;
    let certificate = issued(stage, &controller, "a.test", 9);
    controller.want(ROUTER, routed(stage, (&owner, 2), &ROUTES, &[("a", certificate.hash)]));
    expect_over(&controller, 2).await;
    expect_answers(stage, &controller, &ROUTES).await;
    assert_eq!(stage.rows("listeners", "protocol_port=443").await.len(), 0);
    controller.remove(OTHER, &other).await;
    controller.expect_ready(ROUTER, 2).await;
    assert_eq!(stage.rows("listeners", "protocol_port=443").await.len(), 1);
    expect_answers(stage, &controller, &ROUTES).await;
    limit(stage, "listener", -1).await;
    controller.remove(ROUTER, &owner).await;
    assert_eq!(stage.secrets().await, [""; 0]);
}
