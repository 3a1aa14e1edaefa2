//! Two clusters of one name in one project never meet.

use gimbal_testkit::eventually;
use gimbal_tests::SOON;
use serde_json::{Value, json};

use super::admin::{configure_one, lb};
use super::controller::wanted;
use super::stage::{PROD1, Stage};

/// Another cluster that calls itself prod1.
const OTHER: (&str, &str) = ("prod1", "99999999-0000-4000-8000-000000000009");

fn owner(number: u32) -> String {
    format!("eeeeeeee-0000-4000-8000-{number:012}")
}

async fn row(stage: &Stage, id: &str) -> Value {
    stage.cloud.octavia().get(&format!("/loadbalancers/{id}")).await.unwrap()["loadbalancer"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_has_one_cluster_and_what_another_left_is_not_touched() {
    let mut stage = Stage::start(&["--drift-interval", "1s", "--orphan-grace", "2s"]).await;
    let first = stage.controller(PROD1);
    first.want("web", wanted(&owner(1), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let left = first.expect_ready("web", 1).await;
    let before = row(&stage, &left).await;

    let second = stage.controller(OTHER);
    second.want("web", wanted(&owner(2), 1, &stage.subnet, &[80], &["10.0.0.2"]));
    second.expect_goodbye("an admin must confirm the change").await;
    first.expect_open(true).await;
    drop(first);
    // The trouble names the UID that a person confirms.
    assert!(lb(&stage, "clusters").out.contains(OTHER.1), "{:?}", lb(&stage, "clusters"));
    let confirmed = lb(&stage, &format!("confirm {} --cluster prod1 -o json", OTHER.1)).json();
    let configuration = format!("clusterUid: {}, and {} in formerUids", OTHER.1, PROD1.1);
    assert_eq!((&confirmed[0]["previous"], &confirmed[0]["configuration"]), (&json!(PROD1.1), &json!(configuration)));
    let made = second.expect_ready("web", 1).await;
    assert_ne!(made, left, "the same name, and another load balancer");

    // A restart forgets what was confirmed, and the tags tell of the other cluster.
    stage.stop_writer().await;
    stage.start_writer().await;
    second.expect_goodbye(&format!("carries this name and the UID {} of another cluster", PROD1.1)).await;
    let marks = stage.marks();
    second.want("web", wanted(&owner(2), 2, &stage.subnet, &[80], &["10.0.0.3"]));
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());
    // What carries another UID stops nothing where the configuration says which cluster it is.
    configure_one(&stage, "prod1", &format!("clusterUid: {}", OTHER.1));
    assert_eq!(second.expect_ready("web", 2).await, made);
    stage.expect_members(&made, &[80], &["10.0.0.3"]).await;
    stage.stop_writer().await;
    stage.start_writer().await;
    second.want("web", wanted(&owner(2), 3, &stage.subnet, &[80], &["10.0.0.4"]));
    assert_eq!(second.expect_ready("web", 3).await, made);
    stage.expect_members(&made, &[80], &["10.0.0.4"]).await;
    configure_one(&stage, "prod1", &format!("clusterUid: {}\n  formerUids: [{}]", OTHER.1, PROD1.1));

    let first = stage.controller(PROD1);
    first.expect_goodbye("had the name prod1 before (formerUids)").await;
    // Neither an orphan nor drift of the other one, for several looks.
    second.delete("web", &owner(2));
    second.expect_gone("web").await;
    let wait = eventually("only what the former cluster left is there", SOON, async || {
        let ids: Vec<Value> = stage.balancers("").await.iter().map(|one| one["id"].clone()).collect();
        if ids == [json!(left)] { Ok(()) } else { Err(format!("{ids:?}")) }
    });
    wait.await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(row(&stage, &left).await, before, "it was not touched");
}
