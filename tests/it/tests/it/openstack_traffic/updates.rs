//! Ports, members and attributes of a listener.

use serde_json::json;

use super::{
    ALLOCATE, all_answered, annotate, made, members, patch, port, replace_members_one_by_one, start, until_members,
    until_row, visit,
};

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered_through_every_update() {
    let stage = start(ALLOCATE).await;
    let address = made(&stage).await;
    visit(&stage, &address).await;
    patch(&stage, &json!({"spec": {"ports": [port("http", 80), port("admin", 81)]}})).await;
    members(&stage, &[0, 1, 2]).await;
    stage.until_answers(&address, 81, &["m1", "m2", "m3"]).await.unwrap();
    all_answered("a port is added", &stage).await;

    visit(&stage, &address).await;
    patch(&stage, &json!({"spec": {"ports": [port("http", 80)]}})).await;
    until_row(&stage, "listeners", |listener| listener["protocol_port"] == 80).await;
    all_answered("a port is removed", &stage).await;

    visit(&stage, &address).await;
    replace_members_one_by_one(&stage, &address).await;
    all_answered("members are replaced one by one", &stage).await;

    visit(&stage, &address).await;
    members(&stage, &[0, 1]).await;
    until_members(&stage, &address, &[0, 1]).await;
    all_answered("all members are replaced", &stage).await;

    visit(&stage, &address).await;
    annotate(&stage, &[("connection-limit", "500"), ("timeout-client-data", "60000")]).await;
    patch(&stage, &json!({"spec": {"loadBalancerSourceRanges": ["0.0.0.0/0"]}})).await;
    until_row(&stage, "listeners", |listener| {
        listener["connection_limit"] == 500
            && listener["timeout_client_data"] == 60_000
            && listener["allowed_cidrs"] == json!(["0.0.0.0/0"])
    })
    .await;
    all_answered("attributes of a listener", &stage).await;
}
