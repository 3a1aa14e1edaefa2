//! Lost answers, quotas, kills, and orphans.

use std::time::Duration;

use gimbal_kuryr_model::LoadBalancerReport;
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Service, Steer};
use serde_json::json;

use super::controller::{from_outside, wanted};
use super::stage::{PROD1, Stage};

fn owner(number: u32) -> String {
    format!("bbbbbbbb-0000-4000-8000-{number:012}")
}

/// A change whose answer is lost is looked up, and not made twice.
pub async fn lost_answers(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(1);
    let lose = async |service, method: &str, path: &str| {
        stage.cloud.steer(service, &Steer::calls(method, path).once().lose_the_answer()).await.unwrap()
    };
    let lost = async |rule, what: &str| {
        assert_eq!(stage.cloud.steered(rule).await.unwrap(), 1, "no answer was lost: {what}");
    };
    let create = lose(Service::Octavia, "POST", "/loadbalancers$").await;
    let port = lose(Service::Neutron, "POST", "/ports$").await;
    controller.want("lost", from_outside(wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"])));
    let id = controller.expect_ready("lost", 1).await;
    lost(create, "creation").await;
    lost(port, "port").await;
    assert_eq!(stage.balancers(&format!("k8s-svc-uid:{owner}")).await.len(), 1, "no twin");
    assert_eq!(stage.marked_ports(&owner).await.len(), 1, "no twin of the port");

    let members = lose(Service::Octavia, "PUT", "/members$").await;
    controller.want("lost", from_outside(wanted(&owner, 2, &stage.subnet, &[80], &["10.0.0.2"])));
    controller.expect_ready("lost", 2).await;
    lost(members, "members").await;
    stage.expect_members(&id, &[80], &["10.0.0.2"]).await;

    let pool = lose(Service::Octavia, "POST", "/pools$").await;
    let listener = lose(Service::Octavia, "POST", "/listeners$").await;
    controller.want("lost", from_outside(wanted(&owner, 3, &stage.subnet, &[80, 81], &["10.0.0.2"])));
    controller.expect_ready("lost", 3).await;
    lost(pool, "pool").await;
    lost(listener, "listener").await;
    stage.expect_members(&id, &[80, 81], &["10.0.0.2"]).await;

    let gone = lose(Service::Octavia, "DELETE", "/loadbalancers/").await;
    let port = lose(Service::Neutron, "DELETE", "/ports/").await;
    controller.remove("lost", &owner).await;
    lost(gone, "deletion").await;
    lost(port, "deletion of the port").await;
    assert!(stage.balancers("").await.is_empty() && stage.marked_ports(&owner).await.is_empty());
}

/// What the cloud's quota does not allow waits until something goes.
pub async fn a_quota_is_reached_and_freed(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let quota = |most: i32| json!({"load_balancer": most});
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(1)).await.unwrap();
    controller.want("first", wanted(&owner(2), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("first", 1).await;
    controller.want("second", wanted(&owner(3), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let over = |report: &LoadBalancerReport| report.conditions.iter().any(|one| &*one.kind == "QuotaExceeded");
    controller.expect("second", "over quota", over).await;
    controller.remove("first", &owner(2)).await;
    controller.expect_ready("second", 1).await;
    controller.remove("second", &owner(3)).await;
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(-1)).await.unwrap();
}

/// A writer that is killed in the middle leaves nothing that the next one does not find.
pub async fn killed_in_the_middle(stage: &mut Stage) {
    let controller = stage.controller(PROD1);
    for number in 0..4 {
        let wish = wanted(&owner(10 + number), 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]);
        controller.want(&format!("kill{number}"), from_outside(wish));
    }
    let wait = eventually("the first is made", Duration::from_secs(60), async || {
        if stage.balancers("").await.is_empty() { Err("none yet") } else { Ok(()) }
    });
    wait.await.unwrap();
    stage.kill_writer();
    stage.start_writer().await;
    for number in 0..4 {
        controller.expect_ready(&format!("kill{number}"), 1).await;
        // A request of the killed writer may still be under way when the next one looks: of twins the older one stays.
        let owner = owner(10 + number);
        let wait = eventually("there is one of each", Duration::from_secs(30), async || {
            let tag = format!("k8s-svc-uid:{owner}");
            match (stage.balancers(&tag).await.len(), stage.marked_ports(&owner).await.len()) {
                (1, 1) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        wait.await.unwrap();
    }
    for number in 0..4 {
        controller.remove(&format!("kill{number}"), &owner(10 + number)).await;
    }
    assert!(stage.balancers("").await.is_empty());
}

/// What was made for an owner that vanished without a word goes after a while.
pub async fn orphans_go(stage: &Stage) {
    let controller = stage.controller(PROD1);
    controller.want("orphan", wanted(&owner(20), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.want("kept", wanted(&owner(21), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("orphan", 1).await;
    let kept = controller.expect_ready("kept", 1).await;
    controller.forget("orphan");
    let wait = eventually("the orphan is gone", Duration::from_secs(60), async || {
        let left = stage.balancers("").await;
        let ids: Vec<&str> = left.iter().filter_map(|one| one["id"].as_str()).collect();
        if ids == [kept.as_str()] { Ok(()) } else { Err(format!("{ids:?}")) }
    });
    wait.await.unwrap();
    controller.remove("kept", &owner(21)).await;
}
