//! What people do to the objects of the cluster.

use gimbal_testkit::eventually;
use gimbal_tests::{WayBack, expect_metric};
use serde_json::{Value, json};

use super::{BALANCERS, CONTROLLER, SERVICES, WITHIN, WRITER, expect_looks, expect_no_change};

const HTTP: (&str, u16, u16) = ("http", 80, 8080);
const SLICED: (&str, u16) = ("http", 8080);

async fn made(stage: &WayBack, name: &str) -> Value {
    stage.make_service(name, &[HTTP]).await.unwrap();
    stage.set_members(name, &["10.1.0.1"], &[SLICED]).await.unwrap();
    stage.until_address(name).await.unwrap();
    stage.until_resource(name, "is whole", is_whole).await.unwrap()
}

pub(super) fn is_whole(object: &Value) -> bool {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    object["metadata"]["deletionTimestamp"].is_null()
        && object["status"]["members"].as_array().is_some_and(|members| members.len() == 1)
        && all.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

async fn removed(stage: &WayBack, name: &str) {
    let uid = stage.delete_service(name).await.unwrap();
    stage.until_gone(name, &uid).await.unwrap();
}

/// Nothing is changed in OpenStack, where everything is still there.
pub async fn a_status_that_is_wiped_is_filled_in_again(stage: &WayBack) {
    let before = made(stage, "wiped").await;
    let marks = stage.marks().unwrap();
    for change in [json!({"members": null}), Value::Null, json!({"loadbalancer": null})] {
        let path = format!("{BALANCERS}/wiped/status");
        stage.cluster.admin().patch(&path, &json!({"status": change})).await.unwrap();
        let filled_in = |object: &Value| is_whole(object) && object["status"]["loadbalancer"].is_object();
        let after = stage.until_resource("wiped", "is filled in", filled_in).await.unwrap();
        for field in ["loadbalancer", "listeners", "pools", "members", "service_pub_ip_info"] {
            assert_eq!(after["status"][field], before["status"][field], "{field} after {change}");
        }
    }
    expect_no_change(stage, marks);
    removed(stage, "wiped").await;
}

/// Somebody deletes the load balancer while openstack-writer does not run, and empties the status: another one is made, with the
/// addresses of before.
pub async fn a_status_that_is_wiped_while_the_load_balancer_goes(stage: &mut WayBack) {
    let before = made(stage, "anew").await;
    let (old, address) = (before["status"]["loadbalancer"].clone(), stage.address("anew").await.unwrap());
    stage.writer.take().unwrap().process.terminate(WITHIN).await.unwrap();
    stage.cloud.delete(&format!("/loadbalancers/{}", old["id"].as_str().unwrap())).await.unwrap();
    stage.cluster.admin().patch(&format!("{BALANCERS}/anew/status"), &json!({"status": null})).await.unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    let has_another = |object: &Value| {
        is_whole(object) && object["status"]["loadbalancer"]["id"].as_str().is_some_and(|id| old["id"] != id)
    };
    let after = stage.until_resource("anew", "names another load balancer", has_another).await.unwrap();
    let new = &after["status"]["loadbalancer"];
    assert_eq!((&new["ip"], &new["ip"]), (&old["ip"], &after["spec"]["ip"]), "the VIP is the Service's own address");
    assert_eq!(stage.address("anew").await.unwrap(), address, "the floating IP leads there again");
    assert_eq!(stage.balancer("anew").await.unwrap()["id"], new["id"], "there is one");
    assert_eq!(after["status"]["members"].as_array().map(Vec::len), Some(1));
    removed(stage, "anew").await;
}

pub async fn finalizers_that_are_removed_by_hand_are_set_again(stage: &WayBack) {
    made(stage, "bare").await;
    let (api, marks) = (stage.cluster.admin(), stage.marks().unwrap());
    for collection in [SERVICES, BALANCERS] {
        let path = format!("{collection}/bare");
        let before = api.get(&path).await.unwrap()["metadata"]["finalizers"].clone();
        assert_eq!(before.as_array().map(Vec::len), Some(1), "{collection}");
        api.patch(&path, &json!({"metadata": {"finalizers": null}})).await.unwrap();
        let result = eventually("it has its finalizer", WITHIN, async || match api.get(&path).await {
            Ok(object) if object["metadata"]["finalizers"] == before => Ok(()),
            other => Err(format!("{other:?}")),
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    }
    expect_no_change(stage, marks);
    removed(stage, "bare").await;
}

pub async fn one_that_is_deleted_beside_its_service_comes_back(stage: &WayBack) {
    let before = made(stage, "beside").await;
    let marks = stage.marks().unwrap();
    stage.cluster.admin().delete(&format!("{BALANCERS}/beside")).await.unwrap();
    let again = |object: &Value| is_whole(object) && object["metadata"]["uid"] != before["metadata"]["uid"];
    let after = stage.until_resource("beside", "is another one", again).await.unwrap();
    assert_eq!(after["status"]["loadbalancer"], before["status"]["loadbalancer"]);
    expect_looks(stage, 2).await;
    expect_no_change(stage, marks);
    removed(stage, "beside").await;
}

pub async fn slices_that_come_before_their_service(stage: &WayBack) {
    stage.set_members("late", &["10.1.0.1"], &[SLICED]).await.unwrap();
    stage.make_service("late", &[HTTP]).await.unwrap();
    stage.until_address("late").await.unwrap();
    stage.until_resource("late", "is whole", is_whole).await.unwrap();
    removed(stage, "late").await;
}

/// As soon as the name is free; then without waiting for that, by somebody who removes the finalizer.
pub async fn a_service_that_is_made_again_at_once(stage: &WayBack) {
    made(stage, "again").await;
    let api = stage.cluster.admin();
    let path = format!("{SERVICES}/again");
    let uid = async || api.get(&path).await.map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned());
    for by_force in [false, true] {
        let old = uid().await.unwrap();
        api.delete(&path).await.unwrap();
        let result = eventually("the name is free", WITHIN, async || {
            if by_force && uid().await.is_ok_and(|found| found == old) {
                // Whether it has gone meanwhile is shown by the next call.
                drop(api.patch(&path, &json!({"metadata": {"finalizers": null}})).await);
            }
            stage.make_service("again", &[HTTP]).await
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
        let new = uid().await.unwrap();
        assert_ne!(old, new);
        stage.until_address("again").await.unwrap();
        let ours = |object: &Value| is_whole(object) && object["spec"]["service_uid"] == *new;
        stage.until_resource("again", "is the new Service's", ours).await.unwrap();
        let result = eventually("nothing of the former one is left", WITHIN, async || {
            let mut left = stage.left().await?;
            left.retain(|one| one.contains(&old));
            anyhow::ensure!(left.is_empty(), "{left:?}");
            Ok(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
        assert_eq!(stage.balancer("again").await.unwrap()["provisioning_status"], "ACTIVE");
    }
    removed(stage, "again").await;
}

/// Frozen with an open stream, it is not heard when it wakes: what it wanted then is no longer wanted.
pub async fn a_controller_that_has_slept_changes_nothing(stage: &WayBack) {
    made(stage, "stale").await;
    let first = stage.controller.as_ref().unwrap();
    expect_metric(first.admin_port, "gimbal_kuryr_controller_leading", "", 1.0).await.unwrap();
    let mut second = stage.another_controller("user-2", &CONTROLLER).await.unwrap();
    first.process.freeze().unwrap();
    expect_metric(second.admin_port, "gimbal_kuryr_controller_leading", "", 1.0).await.unwrap();
    stage.set_members("stale", &["10.1.0.2", "10.1.0.3"], &[SLICED]).await.unwrap();
    let two = |object: &Value| object["status"]["members"].as_array().is_some_and(|members| members.len() == 2);
    stage.until_resource("stale", "has two members", two).await.unwrap();
    let marks = stage.marks().unwrap();
    first.process.signal("CONT").unwrap();
    expect_metric(first.admin_port, "gimbal_kuryr_controller_leading", "", 0.0).await.unwrap();
    expect_looks(stage, 2).await;
    expect_no_change(stage, marks);
    assert!(two(&stage.resource("stale").await.unwrap().unwrap()));
    second.process.terminate(WITHIN).await.unwrap();
    expect_metric(first.admin_port, "gimbal_kuryr_controller_leading", "", 1.0).await.unwrap();
    removed(stage, "stale").await;
}
