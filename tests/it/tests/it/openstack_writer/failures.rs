//! How OpenStack fails, and what the writer makes of it.

use std::time::Duration;

use gimbal_kuryr_model::{LoadBalancerReport, Phase};
use gimbal_testkit::openstack::Steer;

use super::controller::{from_outside, wanted};
use super::stage::{PROD1, Stage};

/// What Octavia says while a load balancer is PENDING.
const IMMUTABLE: &str = r#"{"faultcode": "Client", "faultstring": "Load Balancer 1 is immutable and cannot be updated.", "debuginfo": null}"#;
const CHANGES: &str = "^(POST|PUT|DELETE)$";
/// How long a load balancer is busy where there is time.
const STORM: Duration = Duration::from_secs(60);

fn owner(number: u32) -> String {
    format!("eeeeeeee-0000-4000-8000-{number:012}")
}

fn busy(method: &str, path: &str) -> Steer {
    Steer::calls(method, path).answer(409, &[], IMMUTABLE)
}

/// A provider without populated creation gets the parts one by one, pools with their members before listeners; one without
/// batches gets members one by one, new ones before old ones go.
pub async fn a_provider_takes_one_part_at_a_time(stage: &mut Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(1);
    let populated = stage.steer(&Steer::provider("^loadbalancer_create$").populated().unsupported()).await;
    let batch = stage.steer(&Steer::provider("^member_batch_update$").unsupported()).await;
    let marks = stage.marks();
    controller.want("steps", wanted(&owner, 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]));
    let id = controller.expect_ready("steps", 1).await;
    stage.expect_members(&id, &[80, 81], &["10.0.0.1", "10.0.0.2"]).await;
    stage.expect_steered(populated, 1).await;
    stage.expect_steered(batch, 1).await;
    let changes = stage.changes_since(marks);
    let (mut members, mut listeners) = (0, 0);
    for change in &changes {
        members += usize::from(change.starts_with("POST") && change.ends_with("/members"));
        listeners += usize::from(change.ends_with("/listeners"));
        assert!(members >= 2 * listeners, "a listener before its members: {changes:?}");
    }
    assert_eq!((members, listeners), (4, 2), "{changes:?}");

    let marks = stage.marks();
    controller.want("steps", wanted(&owner, 2, &stage.subnet, &[80, 81], &["10.0.0.3"]));
    controller.expect_ready("steps", 2).await;
    stage.expect_members(&id, &[80, 81], &["10.0.0.3"]).await;
    let changes = stage.changes_since(marks);
    let first_gone = changes.iter().position(|change| change.starts_with("DELETE")).unwrap();
    assert!(changes[..first_gone].iter().any(|change| change.starts_with("POST")), "new before old: {changes:?}");
    controller.remove("steps", &owner).await;
    for rule in [populated, batch] {
        stage.cloud.stop_steering(rule).await.unwrap();
    }
    // What was learned of the provider is believed for a day.
    stage.stop_writer().await;
    stage.start_writer().await;
}

pub async fn one_is_pending_for_ever_and_the_others_go_on(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let stall = stage.steer(&Steer::settling("create").named("^shop/stuck$").stall()).await;
    let (stuck, others) = (owner(2), [owner(3), owner(4), owner(5)]);
    controller.want("stuck", from_outside(wanted(&stuck, 1, &stage.subnet, &[80], &["10.0.0.1"])));
    stage.expect_steered(stall, 1).await;
    for (number, owner) in others.iter().enumerate() {
        let name = format!("other{number}");
        controller.want(&name, wanted(owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
        let id = controller.expect_ready(&name, 1).await;
        controller.want(&name, wanted(owner, 2, &stage.subnet, &[80], &["10.0.0.2"]));
        controller.expect_ready(&name, 2).await;
        stage.expect_members(&id, &[80], &["10.0.0.2"]).await;
        controller.remove(&name, owner).await;
    }
    assert!(controller.report("stuck").is_none_or(|report| report.phase != Phase::Ready));
    // Its owner goes meanwhile: the removal waits, and is not lost.
    controller.delete("stuck", &stuck);
    stage.expect_looks(2).await;
    assert!(controller.report("stuck").is_none_or(|report| report.phase != Phase::Gone));
    assert_eq!(stage.balancers("").await.len(), 1);
    stage.cloud.stop_steering(stall).await.unwrap();
    controller.expect_gone("stuck").await;
    controller.forget("stuck");
    assert!(stage.balancers("").await.is_empty() && stage.marked_ports(&stuck).await.is_empty());
}

/// ERROR at its creation: it never served, so it is made again at once, at the same port. ERROR at a change: it is repaired.
pub async fn errors_are_repaired(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(6);
    let create = stage.steer(&Steer::settling("create").once().end_in("ERROR")).await;
    controller.want("error", from_outside(wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"])));
    let id = controller.expect_ready("error", 1).await;
    stage.expect_steered(create, 1).await;
    let one = async |members: &[&str], id: &str| {
        let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{owner}")).await[..] else { panic!("not one") };
        assert_eq!((balancer["id"].as_str(), balancer["provisioning_status"].as_str()), (Some(id), Some("ACTIVE")));
        assert_eq!(stage.marked_ports(&owner).await.len(), 1);
        stage.expect_members(id, &[80], members).await;
    };
    one(&["10.0.0.1"], &id).await;
    controller.remove("error", &owner).await;

    controller.want("error", from_outside(wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"])));
    controller.expect_ready("error", 1).await;
    let update = stage.steer(&Steer::settling("update").once().end_in("ERROR")).await;
    controller.want("error", from_outside(wanted(&owner, 2, &stage.subnet, &[80], &["10.0.0.2"])));
    let id = controller.expect_ready("error", 2).await;
    stage.expect_steered(update, 1).await;
    one(&["10.0.0.2"], &id).await;
    controller.remove("error", &owner).await;
    assert!(stage.marked_ports(&owner).await.is_empty());
}

/// The provider fails (500), and the next try finds the load balancer busy (409).
pub async fn a_failed_change_is_made_again(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(7);
    controller.want("again", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("again", 1).await;
    let fails = stage.steer(&Steer::provider("^member_batch_update$").once().fail()).await;
    let busy = stage.steer(&busy("PUT", "/members$").after(1).once()).await;
    let marks = stage.marks();
    controller.want("again", wanted(&owner, 2, &stage.subnet, &[80], &["10.0.0.2"]));
    controller.expect_ready("again", 2).await;
    stage.expect_members(&id, &[80], &["10.0.0.2"]).await;
    assert_eq!((stage.cloud.steered(fails).await.unwrap(), stage.cloud.steered(busy).await.unwrap()), (1, 1));
    assert_eq!(stage.changes_since(marks).len(), 3);
    controller.remove("again", &owner).await;
}

/// A load balancer that is busy for long is asked again at a pace, costs no repair, and gets what is wanted by then. With
/// `GIMBAL_PROVE` it is busy for a minute.
pub async fn a_storm_of_conflicts_passes(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(8);
    controller.want("storm", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("storm", 1).await;
    let storm = stage.steer(&busy(CHANGES, "/lbaas/")).await;
    let (marks, begun) = (stage.marks(), std::time::Instant::now());
    controller.want("storm", wanted(&owner, 2, &stage.subnet, &[80, 81], &["10.0.0.2"]));
    stage.expect_steered(storm, 4).await;
    let calm = begun.elapsed();
    controller.want("storm", wanted(&owner, 3, &stage.subnet, &[80, 81], &["10.0.0.3"]));
    stage.expect_steered(storm, 7).await;
    assert!(calm > Duration::from_secs(2), "four tries in {calm:?}");
    if std::env::var_os("GIMBAL_PROVE").is_some() {
        tokio::time::sleep(STORM.saturating_sub(begun.elapsed())).await;
    }
    let lasted = usize::try_from(begun.elapsed().as_secs()).unwrap();
    stage.cloud.stop_steering(storm).await.unwrap();
    assert_eq!(controller.expect_ready("storm", 3).await, id, "it is not made anew");
    stage.expect_members(&id, &[80, 81], &["10.0.0.3"]).await;
    // One a second, and what is wanted takes some as well.
    let tries = stage.changes_since(marks).len();
    assert!(tries < lasted + 12, "{tries} tries in {lasted} s");
    controller.remove("storm", &owner).await;
}

/// Too many requests, and a proxy in front that is down: the same call is sent again, and nothing is made twice.
pub async fn busy_services_are_asked_again(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(9);
    let limited = stage.steer(&Steer::calls("POST", "/loadbalancers$").times(2).too_many(1)).await;
    let (marks, begun) = (stage.marks(), std::time::Instant::now());
    controller.want("busy", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("busy", 1).await;
    assert_eq!(stage.cloud.steered(limited).await.unwrap(), 2);
    assert!(begun.elapsed() >= Duration::from_secs(2), "Retry-After was not respected");
    assert_eq!(stage.changes_since(marks), ["POST /v2/lbaas/loadbalancers"; 3]);
    let down = stage.steer(&Steer::calls("PUT", "/members$").once().unavailable()).await;
    controller.want("busy", wanted(&owner, 2, &stage.subnet, &[80], &["10.0.0.2"]));
    controller.expect_ready("busy", 2).await;
    stage.expect_steered(down, 1).await;
    stage.expect_members(&id, &[80], &["10.0.0.2"]).await;
    let failed = |report: &LoadBalancerReport| report.last_error.is_some();
    assert!(!failed(&controller.report("busy").unwrap()), "a passed trouble is no last error");
    controller.remove("busy", &owner).await;
}

/// The controller goes to another writer while a load balancer is being made: that one goes on, and the first one, which has no
/// stream any more, changes nothing.
pub async fn another_writer_goes_on_in_the_middle(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(10);
    let wish =
        |generation, members: &[&str]| from_outside(wanted(&owner, generation, &stage.subnet, &[80, 81], members));
    let stall = stage.steer(&Steer::settling("create").named("^shop/goes$").stall()).await;
    controller.want("goes", wish(1, &["10.0.0.1"]));
    stage.expect_steered(stall, 1).await;
    drop(controller);
    let other = stage.another_writer().await;
    let controller = stage.controller_to(other.port, PROD1);
    controller.want("goes", wish(1, &["10.0.0.1"]));
    controller.expect_open(true).await;
    let marks = stage.marks();
    stage.cloud.stop_steering(stall).await.unwrap();
    let id = controller.expect_ready("goes", 1).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "the other one made it");
    controller.want("goes", wish(2, &["10.0.0.2"]));
    assert_eq!(controller.expect_ready("goes", 2).await, id);
    stage.expect_members(&id, &[80, 81], &["10.0.0.2"]).await;
    let changes = stage.changes_since(marks);
    assert!(changes.len() == 2 && changes.iter().all(|one| one.ends_with("/members")), "one each: {changes:?}");
    controller.remove("goes", &owner).await;
    assert!(stage.balancers("").await.is_empty() && stage.marked_ports(&owner).await.is_empty());
}
