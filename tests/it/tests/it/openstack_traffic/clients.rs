//! Who may connect, and what becomes of connections of a member that ends, as clients see it.

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Got;
use gimbal_tests::{NAMESPACE, OFTEN, WayBack};
use serde_json::{Value, json};

use super::{
    PODS, TARGET, WITHIN, all_answered, made, members, patch, start, until_members, until_row, until_sent, visit,
};

const OLDER_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
/// Clients in three networks.
const CLIENTS: [&str; 3] = ["10.7.1.1", "10.8.1.1", "10.9.1.1"];

#[tokio::test(flavor = "multi_thread")]
async fn clients_see_ranges_and_members_that_end() {
    let stage = start("").await;
    let address = made(&stage).await;
    steps![
        those_in_the_ranges_are_let_in(&stage, &address),
        a_list_without_a_range_for_them_lets_no_one_in(&stage, &address),
        a_member_that_ends_keeps_its_connections(&stage, &address),
    ];
}

async fn those_in_the_ranges_are_let_in(stage: &WayBack, address: &str) {
    let plane = stage.plane().unwrap();
    until_let_in(stage, address, [true, true, true]).await;
    plane.client_from(CLIENTS[0], "inside", (address, 80), OFTEN).await.unwrap();
    set_ranges(stage, &json!(["10.7.0.0/16", "10.9.0.0/16"])).await;
    until_let_in(stage, address, [true, false, true]).await;
    plane.client_from(CLIENTS[1], "outside", (address, 80), OFTEN).await.unwrap();
    set_ranges(stage, &json!(["10.7.0.0/16"])).await;
    until_let_in(stage, address, [true, false, false]).await;
    // The older annotation counts only where the spec has no ranges.
    let older = json!({OLDER_RANGES: "10.7.1.0/24, 192.0.2.1/32"});
    patch(stage, &json!({"metadata": {"annotations": older}, "spec": {"loadBalancerSourceRanges": null}})).await;
    until_row(stage, "listeners", |one| one["allowed_cidrs"].as_array().is_some_and(|all| all.len() == 2)).await;
    until_let_in(stage, address, [true, false, false]).await;
    let (inside, outside) = (plane.stop_client("inside").await.unwrap(), plane.stop_client("outside").await.unwrap());
    assert_eq!((inside.answered, inside.failed), (inside.sent, Vec::new()), "one who is always let in");
    assert!(outside.sent > 0 && outside.answered == 0, "one who is never let in: {outside:?}");
    set_ranges(stage, &json!(["10.8.0.0/16"])).await;
    until_let_in(stage, address, [false, true, false]).await;
}

/// The members are IPv4's, so no client comes from that range. Octavia's own empty list would mean everyone.
async fn a_list_without_a_range_for_them_lets_no_one_in(stage: &WayBack, address: &str) {
    let plane = stage.plane().unwrap();
    set_ranges(stage, &json!(["fd00::/8"])).await;
    until_row(stage, "listeners", |listener| listener["admin_state_up"] == false).await;
    until_let_in(stage, address, [false, false, false]).await;
    plane.client_from(CLIENTS[0], "outside", (address, 80), OFTEN).await.unwrap();
    until_sent(stage, "outside", 25).await;
    // It is closed until it has its ranges, so that it is never open for everyone.
    set_ranges(stage, &json!(["10.8.0.0/16"])).await;
    until_let_in(stage, address, [false, true, false]).await;
    let outside = plane.stop_client("outside").await.unwrap();
    assert_eq!(outside.answered, 0, "{outside:?}");
    set_ranges(stage, &Value::Null).await;
    patch(stage, &json!({"metadata": {"annotations": {OLDER_RANGES: null}}})).await;
    until_let_in(stage, address, [true, true, true]).await;
}

async fn a_member_that_ends_keeps_its_connections(stage: &WayBack, address: &str) {
    let plane = stage.plane().unwrap();
    members(stage, &[0, 1]).await;
    until_members(stage, address, &[0, 1]).await;
    let (first, kept) = (PODS[0].1, connections_kept(stage, address).await);
    visit(stage, address).await;
    first_ends(stage).await;
    until_weights(stage, &[(PODS[0].0, 0), (PODS[1].0, 1)]).await;
    goes_on(stage, &kept[0], first).await;
    plane.client("later", address, 80, OFTEN).await.unwrap();
    until_sent(stage, "later", 25).await;
    let later = plane.stop_client("later").await.unwrap();
    assert!(!later.by.contains_key(first), "nothing new goes to it: {later:?}");

    // Its endpoint is gone, and it still serves what it has begun.
    members(stage, &[1]).await;
    until_weights(stage, &[(PODS[1].0, 1)]).await;
    goes_on(stage, &kept[0], first).await;
    all_answered("a member drains and goes", stage).await;
    for name in kept {
        let got = plane.stop_client(&name).await.unwrap();
        assert_eq!((got.answered, got.failed), (got.sent, Vec::new()), "{name}");
        assert_eq!(got.by.len(), 1, "a connection leads to one member");
    }
}

/// Returns the names of two clients that keep their connections, the first one to the first member.
async fn connections_kept(stage: &WayBack, address: &str) -> [String; 2] {
    let mut to: [Option<String>; 2] = [None, None];
    for nth in 0..20 {
        let (plane, name) = (stage.plane().unwrap(), format!("kept-{nth}"));
        plane.kept_client(&name, address, 80, OFTEN).await.unwrap();
        until_sent(stage, &name, 3).await;
        let by = plane.traffic(&name).await.unwrap().by;
        let at = usize::from(!by.contains_key(PODS[0].1));
        match to[at] {
            Some(_) => drop(plane.stop_client(&name).await.unwrap()),
            None => to[at] = Some(name),
        }
        if let [Some(first), Some(second)] = &to {
            return [first.clone(), second.clone()];
        }
    }
    panic!("every connection leads to one member: {to:?}");
}

/// Expects that a client goes on to be answered by this member, on the connection that it has.
async fn goes_on(stage: &WayBack, client: &str, member: &str) {
    let before = stage.plane().unwrap().traffic(client).await.unwrap();
    until_sent(stage, client, 25).await;
    let after = stage.plane().unwrap().traffic(client).await.unwrap();
    assert!(after.failed.is_empty() && after.by.keys().eq([member]), "{after:?}");
    assert!(after.answered >= before.answered + 24, "{before:?}, {after:?}");
}

/// The first endpoint is being terminated and still serves, as a Pod does that was deleted; the second one is ready.
async fn first_ends(stage: &WayBack) {
    let endpoint = |at: usize, ready: bool| {
        let conditions = json!({"ready": ready, "serving": true, "terminating": !ready});
        json!({"addresses": [PODS[at].0], "conditions": conditions})
    };
    let metadata = json!({"name": "web-1", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "web"}});
    let slice = json!({
        "kind": "EndpointSlice", "addressType": "IPv4", "metadata": metadata,
        "endpoints": [endpoint(0, false), endpoint(1, true)],
        "ports": [{"name": "http", "port": TARGET, "protocol": "TCP"}],
    });
    gimbal_tests::put(&stage.cluster, &slice).await.unwrap();
}

/// Waits until these are the members, with their weights, and haproxy has them.
async fn until_weights(stage: &WayBack, expected: &[(&str, u64)]) {
    let result = eventually("the members have their weights", WITHIN, async || {
        let balancer = stage.balancer("web").await?;
        let pool = balancer["pools"][0]["id"].as_str().unwrap_or_default();
        let listed = stage.cloud.octavia().get(&format!("/pools/{pool}/members")).await?;
        let members = listed["members"].as_array().into_iter().flatten();
        let mut found: Vec<_> = members.map(|one| (one["address"].as_str(), one["weight"].as_u64())).collect();
        found.sort_unstable();
        let is_so = found.iter().copied().eq(expected.iter().map(|(address, weight)| (Some(*address), Some(*weight))));
        anyhow::ensure!(is_so && balancer["provisioning_status"] == "ACTIVE", "{listed}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

async fn set_ranges(stage: &WayBack, ranges: &Value) {
    patch(stage, &json!({"spec": {"loadBalancerSourceRanges": ranges}})).await;
}

/// Waits until exactly these of the clients get an answer.
async fn until_let_in(stage: &WayBack, address: &str, expected: [bool; 3]) {
    let what = format!("of {CLIENTS:?} are let in: {expected:?}");
    let result = eventually(&what, WITHIN, async || {
        let mut found = [false; 3];
        for (client, is_let_in) in CLIENTS.iter().zip(&mut found) {
            *is_let_in = matches!(stage.plane()?.get(address, 80, Some(client)).await?, Got::Answer(200, _));
        }
        anyhow::ensure!(found == expected, "{found:?}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}
