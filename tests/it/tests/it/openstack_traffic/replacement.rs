//! The load balancer itself fails over, or another one takes its place.

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Service, Steer};
use gimbal_tests::WayBack;
use serde_json::json;

use super::{
    ALLOCATE, WITHIN, all_answered, annotate, id_of, made, members, patch, port, replace_members_one_by_one, start,
    start_programs, until_members, visit, visits, without_programs,
};

/// Who may have a load balancer fail over: by default administrators alone.
const FAILOVER: &str = r#"{"os_load-balancer_api:loadbalancer:put_failover": "role:member"}"#;
/// The call by which it does.
pub(crate) const FAILS_OVER: (Service, &str, &str) = (Service::Octavia, "PUT", "/loadbalancers/[^/]+/failover$");
/// A class with another provider than the cluster's.
const OTHER: &str = "vip: {mode: allocate}\n  classes: {other: {provider: lab2}}";
/// The longest time without an answer where another load balancer takes the place of one: the test's router follows Neutron
/// every 100 ms, and the machine is busy.
const MOVED_WITHIN: f64 = 5.0;

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_through_a_failover() {
    let mut stage = without_programs(ALLOCATE).await;
    stage.cloud.set_octavia_policy(FAILOVER).unwrap();
    start_programs(&mut stage).await;
    let address = made(&stage).await;
    let before = id_of(&stage).await;
    visit(&stage, &address).await;
    let marks = stage.marks().unwrap();
    // Whether it was begun is looked up, for another one would take as long again.
    let (service, method, path) = FAILS_OVER;
    let lost = Steer::calls(method, path).of_client("^gimbal-openstack-writer").once().lose_the_answer();
    let lost = stage.cloud.steer(service, &lost).await.unwrap();
    break_it(&stage, &[1, 2]).await;
    until_members(&stage, &address, &[1, 2]).await;
    until_active(&stage).await;
    let visits = visits("ERROR is repaired by failover", &stage).await;
    let changes: Vec<String> = stage.changes_since(marks).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(id_of(&stage).await, before, "a failover keeps the load balancer: {changes:#?}");
    assert_eq!(changes.iter().filter(|change| change.contains("/failover")).count(), 1, "{changes:#?}");
    assert_eq!(stage.cloud.steered(lost).await.unwrap(), 1, "the answer to the failover was lost");
    assert_eq!((visits.answered, visits.failed), (visits.sent, Vec::new()));
}

/// Where the load balancer itself is replaced, the floating IP moves to the new one, which is ready by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_behind_a_floating_ip_takes_as_long_as_the_floating_ip() {
    let stage = start(ALLOCATE).await;
    let address = made(&stage).await;
    let before = id_of(&stage).await;
    visit(&stage, &address).await;
    break_it(&stage, &[1, 2]).await;
    until_other(&stage, &before).await;
    until_members(&stage, &address, &[1, 2]).await;
    let visits = visits("ERROR is repaired by another load balancer", &stage).await;
    assert!(visits.gap < MOVED_WITHIN, "{visits:?}");
    assert_eq!(stage.address("web").await.unwrap(), address);
}

/// A provider that takes everything one part at a time, and another one that is asked for then: the new load balancer has all of
/// its parts before the floating IP moves.
#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_by_a_provider_that_takes_one_part_at_a_time() {
    let stage = start(OTHER).await;
    let whole = Steer::provider("^loadbalancer_create$").populated().unsupported();
    let whole = stage.cloud.steer(Service::Octavia, &whole).await.unwrap();
    let batch = Steer::provider("^member_batch_update$").unsupported();
    let batch = stage.cloud.steer(Service::Octavia, &batch).await.unwrap();
    let address = made(&stage).await;
    visit(&stage, &address).await;
    patch(&stage, &json!({"spec": {"ports": [port("http", 80), port("admin", 81)]}})).await;
    stage.until_answers(&address, 81, &["m1", "m2", "m3"]).await.unwrap();
    all_answered("a port is added, one part at a time", &stage).await;

    visit(&stage, &address).await;
    replace_members_one_by_one(&stage, &address).await;
    all_answered("members are replaced, one request for each", &stage).await;
    for rule in [whole, batch] {
        assert!(stage.cloud.steered(rule).await.unwrap() > 0, "the provider was not asked");
    }

    let before = id_of(&stage).await;
    visit(&stage, &address).await;
    annotate(&stage, &[("class", "other")]).await;
    until_other(&stage, &before).await;
    until_members(&stage, &address, &[3, 4, 5]).await;
    let visits = visits("another provider", &stage).await;
    assert!(visits.gap < MOVED_WITHIN, "{visits:?}");
    assert_eq!(stage.balancer("web").await.unwrap()["provider"], "lab2");
    assert_eq!(stage.address("web").await.unwrap(), address);
}

/// Changes the members, in a change after which the load balancer is in ERROR.
async fn break_it(stage: &WayBack, which: &[usize]) {
    let rule = Steer::settling("update").once().end_in("ERROR");
    let rule = stage.cloud.steer(Service::Octavia, &rule).await.unwrap();
    members(stage, which).await;
    eventually("the change fails", WITHIN, async || match stage.cloud.steered(rule).await? {
        0 => anyhow::bail!("not yet"),
        _ => Ok(()),
    })
    .await
    .unwrap();
}

async fn until_active(stage: &WayBack) {
    let result = eventually("it is ACTIVE", WITHIN, async || {
        let balancer = stage.balancer("web").await?;
        anyhow::ensure!(balancer["provisioning_status"] == "ACTIVE", "{balancer}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Waits until there is one load balancer, and not this one.
async fn until_other(stage: &WayBack, before: &str) {
    let result = eventually("another one is there", WITHIN, async || {
        let balancer = stage.balancer("web").await?;
        anyhow::ensure!(balancer["id"] != before && balancer["provisioning_status"] == "ACTIVE", "{balancer}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}
