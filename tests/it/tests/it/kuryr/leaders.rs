//! Two controllers: one acts, and the other takes over.

use std::time::{Duration, Instant};

use gimbal_testkit::eventually;
use gimbal_tests::{SOON, expect_metric, metric};
use serde_json::Value;

use super::stage::{BALANCERS, Controller, Stage, USERS};

async fn leads(controller: &Controller) {
    expect_metric(controller.admin_port, "gimbal_kuryr_controller_leading", "", 1.0).await.unwrap();
}

async fn writers(stage: &Stage, mark: usize) -> Vec<String> {
    let entries = stage.cluster.audit_since(mark).await.unwrap();
    let writes = entries.iter().filter(|entry| entry.is_write() && entry.resource != "leases");
    let mut users: Vec<String> =
        writes.map(|entry| entry.user.clone()).filter(|user| USERS.contains(&&**user)).collect();
    users.sort();
    users.dedup();
    users
}

#[tokio::test(flavor = "multi_thread")]
async fn one_acts_and_the_other_takes_over() {
    let stage = Stage::start().await;
    let mut first = stage.controller_as(USERS[0], &[]);
    leads(&first).await;
    let mut second = stage.controller_as(USERS[1], &[]);
    second.ready().await;
    stage.make_service("web", "ClusterIP").await;
    stage.until_ready("web").await;
    assert_eq!(writers(&stage, 0).await, [USERS[0]], "a standby writes nothing");
    let (streams, open) = stage.openstack.streams();
    assert_eq!(open, 1, "and does not speak");
    assert!(metric(second.admin_port, "gimbal_kuryr_controller_leading", "").await.unwrap() < 0.5);

    // Killed: the other one goes on, and writes nothing that is right already.
    first.process.kill().unwrap();
    let killed = Instant::now();
    let mark = stage.cluster.audit_mark().await.unwrap();
    leads(&second).await;
    assert!(killed.elapsed() < Duration::from_secs(10), "took over after {:?}", killed.elapsed());
    stage.make_slice("web", &["10.1.0.4"]).await;
    let with_member = |object: Option<&Value>| object.is_some_and(|object| object["status"]["memberCount"] == 1);
    stage.until("its member is reported", (BALANCERS, "web"), with_member).await;
    assert_eq!(writers(&stage, mark).await, [USERS[1]]);
    assert!(stage.openstack.streams().0 > streams);

    // A clean stop hands the lease on.
    let mut first = stage.controller_as(USERS[0], &[]);
    first.ready().await;
    second.process.terminate(SOON).await.unwrap();
    leads(&first).await;
    stage.make_service("late", "ClusterIP").await;
    stage.until_ready("late").await;
}

/// Frozen for longer than its lease, a controller has nothing to say when it wakes.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_longer_than_its_lease_neither_writes_nor_speaks() {
    let stage = Stage::start().await;
    let first = stage.controller_as(USERS[0], &[]);
    leads(&first).await;
    let second = stage.controller_as(USERS[1], &[]);
    stage.make_service("web", "ClusterIP").await;
    stage.until_ready("web").await;
    // A request that is under way arrives when the sleeper wakes. The last one for this Service is that of its Event.
    eventually("the Event is there", SOON, async || {
        let events = stage.events("web").await;
        if events.iter().any(|[reason, ..]| reason == "KuryrEnsuredLB") { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await
    .unwrap();
    first.process.freeze().unwrap();
    leads(&second).await;
    stage.make_slice("web", &["10.1.0.4"]).await;
    let with_member = |object: Option<&Value>| object.is_some_and(|object| object["status"]["memberCount"] == 1);
    stage.until("its member is reported", (BALANCERS, "web"), with_member).await;
    let mark = stage.cluster.audit_mark().await.unwrap();
    first.process.signal("CONT").unwrap();
    expect_metric(first.admin_port, "gimbal_kuryr_controller_leading", "", 0.0).await.unwrap();
    stage.set_addresses("web", &["10.1.0.4", "10.1.0.5"]).await;
    eventually("the change has arrived", SOON, async || {
        let members = stage.openstack.members("team", "web");
        if members.len() == 2 { Ok(()) } else { Err(format!("{members:?}")) }
    })
    .await
    .unwrap();
    stage.until_ready("web").await;
    assert_eq!(writers(&stage, mark).await, [USERS[1]]);
    eventually("the sleeper has ended its stream", SOON, async || match stage.openstack.streams() {
        (_, 1) => Ok(()),
        streams => Err(format!("{streams:?}")),
    })
    .await
    .unwrap();
}
