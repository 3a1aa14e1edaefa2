//! The life of load balancers: made, changed, repaired, removed.

use std::time::Duration;

use gimbal_kuryr_wire::KuryrReason;
use gimbal_testkit::eventually;
use serde_json::json;

use super::controller::wanted;
use super::stage::{PROD1, PROD2, Stage};

/// Several looks for drift: long enough to show that something does not happen.
const A_WHILE: Duration = Duration::from_secs(5);

fn owner(number: u32) -> String {
    format!("aaaaaaaa-0000-4000-8000-{number:012}")
}

pub async fn one_port(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let facts = controller.expect_facts().await;
    assert_eq!(*facts.project, *stage.project);
    let subnet = &facts.subnets[&*stage.subnet];
    assert_eq!(subnet.cidr.to_string(), "10.60.0.0/24");
    assert!(facts.api_version.major == 2 && facts.api_version.minor > 20, "{:?}", facts.api_version);

    let owner = owner(1);
    let marks = stage.marks();
    controller.want("one", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1", "10.0.0.2", "10.0.0.3"]));
    let id = controller.expect_ready("one", 1).await;
    stage.expect_members(&id, &[80], &["10.0.0.1", "10.0.0.2", "10.0.0.3"]).await;
    assert_eq!(stage.changes_since(marks), ["POST /v2/lbaas/loadbalancers"], "one populated request");
    let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{owner}")).await[..] else { panic!("not one") };
    assert_eq!(balancer["name"], "shop/one");
    let tags = balancer["tags"].as_array().unwrap();
    assert!(tags.contains(&json!(format!("k8s-cluster:{}", PROD1.1))) && tags.contains(&json!("gimbal-cluster:prod1")));

    let marks = stage.marks();
    controller.want("one", wanted(&owner, 2, &stage.subnet, &[80], &["10.0.0.1", "10.0.0.2", "10.0.0.4"]));
    assert_eq!(controller.expect_ready("one", 2).await, id);
    stage.expect_members(&id, &[80], &["10.0.0.1", "10.0.0.2", "10.0.0.4"]).await;
    let changes = stage.changes_since(marks);
    assert!(matches!(&changes[..], [one] if one.starts_with("PUT /v2/lbaas/pools/")), "one PUT: {changes:?}");

    controller.delete("one", &owner);
    controller.expect_gone("one").await;
    assert!(stage.balancers("").await.is_empty() && stage.marked_ports(&owner).await.is_empty());
    controller.forget("one");
}

pub async fn ten_ports(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let (owner, ports): (_, Vec<u16>) = (owner(2), (8000..8010).collect());
    let numbers: Vec<u64> = ports.iter().copied().map(u64::from).collect();
    controller.want("ten", wanted(&owner, 1, &stage.subnet, &ports, &["10.0.1.1", "10.0.1.2"]));
    let id = controller.expect_ready("ten", 1).await;
    stage.expect_members(&id, &numbers, &["10.0.1.1", "10.0.1.2"]).await;
    // A port goes, and another comes.
    let ports: Vec<u16> = (8001..8011).collect();
    let numbers: Vec<u64> = ports.iter().copied().map(u64::from).collect();
    controller.want("ten", wanted(&owner, 2, &stage.subnet, &ports, &["10.0.1.1", "10.0.1.2"]));
    assert_eq!(controller.expect_ready("ten", 2).await, id);
    stage.expect_members(&id, &numbers, &["10.0.1.1", "10.0.1.2"]).await;
    controller.delete("ten", &owner);
    controller.expect_gone("ten").await;
    assert!(stage.balancers("").await.is_empty());
    controller.forget("ten");
}

pub async fn what_the_policy_does_not_allow(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let (refused, good) = (owner(3), owner(4));
    let marks = stage.marks();
    controller.want("bad", wanted(&refused, 1, &stage.subnet, &[80], &["192.168.0.1"]));
    let words = controller.expect_reject("bad", KuryrReason::MemberNotAllowed).await;
    assert!(words.contains("192.168.0.1"), "{words}");
    controller.want("far", wanted(&owner(5), 1, "50b00000-0000-4000-8000-000000000000", &[80], &["10.0.0.1"]));
    controller.expect_reject("far", KuryrReason::NetworkNotAllowed).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "nothing of it reaches OpenStack");
    controller.want("good", wanted(&good, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("good", 1).await;
    // One that is not allowed beside one that is: the one is served, and a condition names the other.
    controller.want("bad", wanted(&refused, 2, &stage.subnet, &[80], &["10.0.0.1", "192.168.0.1"]));
    let id = controller.expect_ready("bad", 2).await;
    stage.expect_members(&id, &[80], &["10.0.0.1"]).await;
    let conditions = controller.report("bad").unwrap().conditions;
    let left_out = conditions.iter().find(|one| &*one.kind == "Unsupported").unwrap();
    assert!(left_out.message.contains("1 of 2 members are left out: 192.168.0.1"), "{left_out:?}");
    for (name, owner) in [("bad", &refused), ("good", &good)] {
        controller.delete(name, owner);
        controller.expect_gone(name).await;
        controller.forget(name);
    }
    controller.forget("far");
}

pub async fn deleted_by_hand_it_comes_back(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(6);
    controller.want("back", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("back", 1).await;
    stage.cloud.delete(&format!("/loadbalancers/{id}")).await.unwrap();
    let another = |report: &gimbal_kuryr_model::LoadBalancerReport| {
        report.phase == gimbal_kuryr_model::Phase::Ready
            && report.objects.load_balancer.as_ref().is_some_and(|made| *made.id != *id)
    };
    let report = controller.expect("back", "made again", another).await;
    assert_eq!(
        report.missing.unwrap().load_balancers,
        [std::sync::Arc::<str>::from(id)],
        "it is heard what was removed"
    );
    assert_eq!(stage.balancers("").await.len(), 1);
    controller.delete("back", &owner);
    controller.expect_gone("back").await;
    controller.forget("back");
}

pub async fn what_was_changed_by_hand_is_set_back(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(7);
    controller.want("drift", wanted(&owner, 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]));
    let id = controller.expect_ready("drift", 1).await;
    let listeners = stage.cloud.octavia().get(&format!("/listeners?loadbalancer_id={id}")).await.unwrap();
    let [first, second] = &listeners["listeners"].as_array().unwrap()[..] else { panic!("not two") };
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    // A listener goes, a member comes, another goes.
    stage.cloud.delete(&format!("/listeners/{}", text(&first["id"]))).await.unwrap();
    let pool = text(&second["default_pool_id"]);
    let more = json!({"address": "10.0.9.9", "protocol_port": 8080});
    stage.cloud.create(&format!("/pools/{pool}/members"), &more).await.unwrap();
    let members = stage.cloud.octavia().get(&format!("/pools/{pool}/members")).await.unwrap();
    let ours = members["members"].as_array().unwrap().iter().find(|member| member["address"] == "10.0.0.1").unwrap();
    stage.cloud.delete(&format!("/pools/{pool}/members/{}", text(&ours["id"]))).await.unwrap();
    stage.expect_members(&id, &[80, 81], &["10.0.0.1", "10.0.0.2"]).await;
    controller.delete("drift", &owner);
    controller.expect_gone("drift").await;
    controller.forget("drift");
}

pub async fn a_restart_changes_nothing(stage: &mut Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(8);
    controller.want("kept", wanted(&owner, 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]));
    let id = controller.expect_ready("kept", 1).await;
    let marks = stage.marks();
    stage.stop_writer().await;
    controller.expect_goodbye("shuts down").await;
    stage.start_writer().await;
    // A new controller, too, as after a restart of both.
    drop(controller);
    let controller = stage.controller(PROD1);
    controller.want("kept", wanted(&owner, 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]));
    assert_eq!(controller.expect_ready("kept", 1).await, id);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());
    controller.delete("kept", &owner);
    controller.expect_gone("kept").await;
    controller.forget("kept");
}

pub async fn without_a_stream_nothing_is_changed(stage: &Stage) {
    let (controller, other) = (stage.controller(PROD1), stage.controller(PROD2));
    let owner = owner(9);
    controller.want("frozen", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("frozen", 1).await;
    controller.silence();
    controller.expect_open(false).await;
    stage.cloud.delete(&format!("/loadbalancers/{id}")).await.unwrap();
    let marks = stage.marks();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "it is not made again");
    other.expect_open(true).await;
    controller.speak();
    let what = "it is made again once the controller is back";
    let wait = eventually(what, Duration::from_secs(60), async || {
        let found = stage.balancers(&format!("k8s-svc-uid:{owner}")).await.len();
        if found == 1 { Ok(()) } else { Err(found) }
    });
    wait.await.unwrap();
    controller.delete("frozen", &owner);
    controller.expect_gone("frozen").await;
    controller.forget("frozen");
}
