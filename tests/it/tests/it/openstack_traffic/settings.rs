//! Settings of a Service: what checks its members, how they are chosen, and what they hear of the client; and settings that
//! somebody has changed by hand.

use std::collections::BTreeSet;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Got;
use gimbal_tests::WayBack;
use serde_json::{Value, json};

use super::{
    PODS, WITHIN, all_answered, annotate, made, patch, start, until_members, until_row, until_rows, visit, visits,
};

/// A client, as members hear of it.
const CLIENT: &str = "10.7.1.1";
/// The longest time without an answer where a listener gives way to one of another protocol: Octavia changes no protocol, and
/// has one listener for a port. It takes two changes, on a busy machine.
const REMADE_WITHIN: f64 = 10.0;

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_through_every_setting() {
    let stage = start("").await;
    let address = made(&stage).await;
    steps![
        a_monitor_comes_changes_and_goes(&stage, &address),
        another_algorithm(&stage, &address),
        session_affinity(&stage, &address),
        the_proxy_protocol(&stage, &address),
        changed_by_hand(&stage, &address),
        another_protocol_of_a_listener(&stage, &address),
    ];
}

async fn a_monitor_comes_changes_and_goes(stage: &WayBack, address: &str) {
    visit(stage, address).await;
    annotate(stage, &[("enable-health-monitor", "true")]).await;
    until_row(stage, "healthmonitors", |monitor| monitor["delay"] == 5).await;
    until_health(stage, "ONLINE").await;
    all_answered("a health monitor is added", stage).await;

    visit(stage, address).await;
    annotate(stage, &[("health-monitor-delay", "4"), ("health-monitor-max-retries-down", "2")]).await;
    until_row(stage, "healthmonitors", |monitor| monitor["delay"] == 4 && monitor["max_retries_down"] == 2).await;
    all_answered("a health monitor is changed", stage).await;

    visit(stage, address).await;
    annotate(stage, &[("enable-health-monitor", "false")]).await;
    until_rows(stage, "healthmonitors", <[Value]>::is_empty).await;
    until_health(stage, "NO_MONITOR").await;
    all_answered("a health monitor is removed", stage).await;
}

async fn another_algorithm(stage: &WayBack, address: &str) {
    visit(stage, address).await;
    annotate(stage, &[("lb-method", "SOURCE_IP")]).await;
    until_row(stage, "pools", |pool| pool["lb_algorithm"] == "SOURCE_IP").await;
    until_one_member_answers(stage, address).await;
    annotate(stage, &[("lb-method", "ROUND_ROBIN")]).await;
    until_row(stage, "pools", |pool| pool["lb_algorithm"] == "ROUND_ROBIN").await;
    until_members(stage, address, &[0, 1, 2]).await;
    all_answered("another algorithm, and back", stage).await;
}

async fn session_affinity(stage: &WayBack, address: &str) {
    visit(stage, address).await;
    patch(stage, &json!({"spec": {"sessionAffinity": "ClientIP"}})).await;
    until_row(stage, "pools", |pool| pool["session_persistence"]["type"] == "SOURCE_IP").await;
    until_one_member_answers(stage, address).await;
    patch(stage, &json!({"spec": {"sessionAffinity": "None", "sessionAffinityConfig": null}})).await;
    until_row(stage, "pools", |pool| pool["session_persistence"].is_null()).await;
    until_members(stage, address, &[0, 1, 2]).await;
    all_answered("session affinity, and none", stage).await;
}

/// The pool gives way to one of another protocol, which has its members before the listener leads to it. These members
/// understand both.
async fn the_proxy_protocol(stage: &WayBack, address: &str) {
    visit(stage, address).await;
    annotate(stage, &[("proxy-protocol", "true")]).await;
    until_row(stage, "pools", |pool| pool["protocol"] == "PROXY").await;
    assert_eq!(stage.plane().unwrap().client_seen(address, 80, CLIENT).await.unwrap(), CLIENT);
    all_answered("the PROXY protocol is switched on", stage).await;

    visit(stage, address).await;
    annotate(stage, &[("proxy-protocol", "false")]).await;
    until_row(stage, "pools", |pool| pool["protocol"] == "TCP").await;
    assert_ne!(stage.plane().unwrap().client_seen(address, 80, CLIENT).await.unwrap(), CLIENT);
    all_answered("the PROXY protocol is switched off", stage).await;
}

/// The listener goes, and one of the other protocol comes.
async fn another_protocol_of_a_listener(stage: &WayBack, address: &str) {
    for (value, protocol) in [("true", "HTTP"), ("false", "TCP")] {
        visit(stage, address).await;
        annotate(stage, &[("x-forwarded-for", value)]).await;
        until_row(stage, "listeners", |listener| listener["protocol"] == protocol).await;
        until_row(stage, "pools", |pool| pool["protocol"] == protocol).await;
        until_members(stage, address, &[0, 1, 2]).await;
        let seen = stage.plane().unwrap().client_seen(address, 80, CLIENT).await.unwrap();
        assert_eq!(seen == CLIENT, protocol == "HTTP", "the member hears of {seen}");
        let visits = visits(&format!("x-forwarded-for is {value}"), stage).await;
        assert!(visits.gap < REMADE_WITHIN, "{visits:?}");
    }
}

/// Of each kind something is changed, or missing, and set back.
async fn changed_by_hand(stage: &WayBack, address: &str) {
    annotate(stage, &[("connection-limit", "500"), ("timeout-client-data", "60000")]).await;
    until_row(stage, "listeners", |one| one["connection_limit"] == 500 && one["timeout_client_data"] == 60_000).await;
    let before = shape(stage).await.unwrap();
    let balancer = stage.balancer("web").await.unwrap();
    let part = |kind: &str| format!("/{kind}/{}", balancer[kind][0]["id"].as_str().unwrap());
    let (listener, pool) = (part("listeners"), part("pools"));
    let members = stage.cloud.octavia().get(&format!("{pool}/members")).await.unwrap();
    let member = |nth: usize| format!("{pool}/members/{}", members["members"][nth]["id"].as_str().unwrap());
    let marks = stage.marks().unwrap();
    visit(stage, address).await;
    let theirs = json!({"name": "theirs", "connection_limit": 7_000, "timeout_client_data": 9_000});
    stage.cloud.update(&listener, &theirs).await.unwrap();
    stage.cloud.update(&pool, &json!({"name": "theirs", "lb_algorithm": "LEAST_CONNECTIONS"})).await.unwrap();
    stage.cloud.update(&member(0), &json!({"weight": 7})).await.unwrap();
    stage.cloud.update(&member(1), &json!({"admin_state_up": false})).await.unwrap();
    stage.cloud.delete(&member(2)).await.unwrap();
    let result = eventually("everything is set back", WITHIN, async || {
        let found = shape(stage).await?;
        anyhow::ensure!(found == before, "{found:#?}");
        Ok(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    until_members(stage, address, &[0, 1, 2]).await;
    all_answered("what was changed by hand is set back", stage).await;
    let changes: Vec<String> = stage.changes_since(marks).unwrap().iter().map(ToString::to_string).collect();
    for path in [listener, pool.clone(), format!("{pool}/members")] {
        assert!(changes.iter().any(|change| change.contains(&path)), "{path} is not in {changes:#?}");
    }
}

/// The load balancer's parts, without IDs.
async fn shape(stage: &WayBack) -> anyhow::Result<Vec<String>> {
    let octavia = stage.cloud.octavia();
    let (listeners, pools) = (octavia.get("/listeners").await?, octavia.get("/pools").await?);
    let mut shape = Vec::new();
    for one in listeners["listeners"].as_array().into_iter().flatten() {
        shape.push(format!("{} {} {}", one["name"], one["connection_limit"], one["timeout_client_data"]));
    }
    for one in pools["pools"].as_array().into_iter().flatten() {
        shape.push(format!("{} {}", one["name"], one["lb_algorithm"]));
        let path = format!("/pools/{}/members", one["id"].as_str().unwrap_or_default());
        let members = octavia.get(&path).await?;
        let members = members["members"].as_array().into_iter().flatten();
        shape.extend(members.map(|one| format!("{} {} {}", one["address"], one["weight"], one["admin_state_up"])));
    }
    shape.sort();
    Ok(shape)
}

/// Waits until each member has this operating status: a monitor has reported it, or there is none.
async fn until_health(stage: &WayBack, status: &str) {
    let what = format!("members are {status}");
    let result = eventually(&what, WITHIN, async || {
        let pools = stage.cloud.octavia().get("/pools").await?;
        let path = format!("/pools/{}/members", pools["pools"][0]["id"].as_str().unwrap_or_default());
        let members = stage.cloud.octavia().get(&path).await?;
        let mut all = members["members"].as_array().into_iter().flatten();
        anyhow::ensure!(all.all(|member| member["operating_status"] == status), "{members}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Waits until the requests of a client go to one member.
async fn until_one_member_answers(stage: &WayBack, address: &str) {
    let result = eventually("one member answers", WITHIN, async || {
        let mut seen = BTreeSet::new();
        for _ in 0..2 * PODS.len() {
            match stage.plane()?.get(address, 80, Some(CLIENT)).await? {
                Got::Answer(200, name) => seen.insert(name),
                other => anyhow::bail!("{other:?}"),
            };
        }
        anyhow::ensure!(seen.len() == 1, "{seen:?}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}
