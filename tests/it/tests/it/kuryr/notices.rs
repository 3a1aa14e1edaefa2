//! What is reported of a load balancer while it is not there, takes its time, or does not serve: Events, and metrics.

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, LoadBalancerReport, Phase, ReportedObjects};
use gimbal_testkit::eventually;
use gimbal_testkit::scripted_openstack::made;
use gimbal_tests::{SOON, expect_metric, metric};

use super::stage::{BALANCERS, Controller, SERVICES, Stage, USERS, finalizers};

/// Kuryr's name of a metric.
const STUCK: &str = "kuryr_load_balancer_readiness_total";
const BALANCED: &str = "gimbal_kuryr_controller_load_balancers";

async fn leads(stage: &Stage, flags: &[&str]) -> Controller {
    let mut controller = stage.controller_as(USERS[0], flags);
    controller.ready().await;
    expect_metric(controller.admin_port, "gimbal_kuryr_controller_leading", "", 1.0).await.unwrap();
    controller
}

/// Returns the messages of Events of this reason on a Service.
async fn messages(stage: &Stage, name: &str, reason: &str) -> Vec<String> {
    let events = stage.events(name).await;
    events.into_iter().filter(|[found, ..]| found == reason).map(|[_, _, message]| message).collect()
}

/// Waits until an Event of this reason has this message, and no other one of this reason is there.
async fn until_reported(stage: &Stage, name: &str, reason: &str, message: &str) {
    eventually(&format!("{reason} on {name} says {message:?}"), SOON, async || {
        let found = messages(stage, name, reason).await;
        if found == [message] { Ok(()) } else { Err(format!("{found:?} of {:?}", stage.events(name).await)) }
    })
    .await
    .unwrap();
}

/// A report about the load balancer as it is wanted now.
fn report(stage: &Stage, name: &str, phase: Phase) -> LoadBalancerReport {
    let entry = stage.openstack.entry("team", name).expect("it is streamed");
    let DesiredEntry::LoadBalancer(wanted) = &*entry else { panic!("{entry:?}") };
    LoadBalancerReport { phase, ..made(&DesiredKey::new(DesiredKind::LoadBalancer, "team", name), wanted) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_skipped_until_it_has_an_endpoint_where_that_is_required() {
    let stage = Stage::start().await;
    let _controller = leads(&stage, &["--require-endpoints"]).await;
    stage.make_service("web", "LoadBalancer").await;
    let why = "it has no endpoints yet, and --require-endpoints is set";
    until_reported(&stage, "web", "KuryrServiceSkipped", why).await;
    assert_eq!(stage.get(BALANCERS, "web").await, None);
    assert!(finalizers(&stage.get(SERVICES, "web").await.unwrap()).is_empty(), "nothing holds it");
    stage.make_slice("web", &["10.1.0.4"]).await;
    stage.until_ready("web").await;
    assert_eq!(stage.openstack.members("team", "web"), ["10.1.0.4:8080"]);
    assert_eq!(messages(&stage, "web", "KuryrServiceSkipped").await.len(), 1, "once");
    stage.expect_rights_to_suffice().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_its_time_and_what_does_not_serve_is_reported() {
    let stage = Stage::start().await;
    let controller = leads(&stage, &[]).await;
    stage.make_service("quick", "LoadBalancer").await;
    stage.until_ready("quick").await;
    steps![one_that_takes_its_time(&stage), one_that_does_not_serve(&stage, &controller)];
    stage.expect_rights_to_suffice().await;
}

/// That it is being made is reported after some seconds, and that it is there once.
async fn one_that_takes_its_time(stage: &Stage) {
    stage.openstack.make_at_once(false);
    stage.make_service("slow", "LoadBalancer").await;
    stage.openstack.until_held(&["team/quick", "team/slow"]).await;
    let making = LoadBalancerReport { objects: ReportedObjects::default(), ..report(stage, "slow", Phase::Making) };
    stage.openstack.report("team", "slow", making);
    until_reported(stage, "slow", "KuryrEnsureLB", "the load balancer is being made").await;
    assert_eq!(messages(stage, "slow", "KuryrEnsuredLB").await, [""; 0]);
    stage.openstack.make_at_once(true);
    stage.until_ready("slow").await;
    for name in ["slow", "quick"] {
        until_reported(stage, name, "KuryrEnsuredLB", "the load balancer serves at 172.24.4.7").await;
    }
    assert_eq!(messages(stage, "slow", "KuryrEnsureLB").await.len(), 1, "once");
    assert_eq!(messages(stage, "quick", "KuryrEnsureLB").await, [""; 0], "it was there at once");
}

/// Counted each time that it begins, and not for each report of it.
async fn one_that_does_not_serve(stage: &Stage, controller: &Controller) {
    let (_, metrics) = gimbal_tests::get(controller.admin_port, "/metrics").await.unwrap();
    assert!(metrics.lines().any(|line| line == format!("{STUCK} 0")), "{metrics}");
    for _ in 0..2 {
        for (phase, error) in
            [(Phase::Degraded, None), (Phase::Degraded, Some("once more".into())), (Phase::Ready, None)]
        {
            let report = LoadBalancerReport { last_error: error, ..report(stage, "quick", phase) };
            stage.openstack.report("team", "quick", report);
            eventually("the report is acknowledged", SOON, async || match stage.openstack.awaits("team", "quick") {
                false => Ok(()),
                true => Err("it is not"),
            })
            .await
            .unwrap();
        }
    }
    // Metrics are set all at once, now and then.
    stage.make_service("last", "LoadBalancer").await;
    expect_metric(controller.admin_port, BALANCED, r#"state="all""#, 3.0).await.unwrap();
    let count = metric(controller.admin_port, STUCK, "").await.unwrap();
    assert!((count - 2.0).abs() < 0.5, "{count}");
}
