//! Rows of OpenStack, at openstack-writer and at the source that only reads: JSON, in each message the lists of the whole cloud at
//! one time, by the names under which they are answered.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::CloudFacts;
use gimbal_octavia_plan::{ApiVerb, ChangeOutcome, ServiceCall};
use gimbal_octavia_registry::{CallAnswer, CloudCall, CloudRead, ClusterSettings, Registry, RegistrySettings};
use gimbal_octavia_rows::{L7Policy, Listener, LoadBalancer, Member, Pool, Project};
use serde_json::Value;

use crate::cut::{cut, join};
use crate::desired::{key, wanted};

/// Calls that are answered from one message before the next one.
const CALLS: usize = 12;
/// Our mark on everything of the cluster, and of the owner that [`wanted`] has.
const MARK: &str = r#"["gimbal-cluster:prod1","k8s-cluster:c1","k8s-svc-uid:uid"]"#;

pub(crate) fn run(data: &[u8]) {
    let states: Vec<Value> = cut(data).map(|state| serde_json::from_slice(state).unwrap_or_default()).collect();
    states.iter().for_each(as_the_source_reads_them);
    let start = Instant::now();
    let mut registry = Registry::new(RegistrySettings::default(), start);
    registry.set_cluster(ClusterSettings::new("prod1", "c1", "8f0c"), start);
    registry.set_facts("prod1", CloudFacts { project: "8f0c".into(), ..CloudFacts::default() }, start);
    registry.want("prod1", key("team-a", "web"), (*wanted(2)).clone(), start);
    registry.snapshot_complete("prod1", start, start);
    let mut made = 0_usize;
    for (number, state) in states.iter().enumerate() {
        let seen = &states[..=number];
        let now = start + Duration::from_secs(70 * number as u64);
        registry.heard("prod1", now);
        for _ in 0..CALLS {
            let Some(call) = registry.next_call(now) else { break };
            let answer = match &call.what {
                CloudCall::Read(read) => rows(state, read),
                CloudCall::Change(change) => {
                    let request = change.request();
                    is_about_ours(&request, seen, made);
                    made += 1;
                    outcome(&request, made, state)
                }
            };
            registry.answered(call.id, answer, now);
        }
        registry.take_reports(now);
        registry.take_events();
    }
}

/// Each row by itself, as every kind of row.
fn as_the_source_reads_them(state: &Value) {
    for row in state.as_object().into_iter().flatten().flat_map(|(_, list)| list.as_array()).flatten() {
        let text = row.to_string();
        let _rows = (
            serde_json::from_str::<LoadBalancer>(&text).ok(),
            serde_json::from_str::<Listener>(&text).ok(),
            serde_json::from_str::<Pool>(&text).ok(),
            serde_json::from_str::<Member>(&text).ok(),
            serde_json::from_str::<L7Policy>(&text).ok(),
            serde_json::from_str::<Project>(&text).ok(),
        );
    }
}

/// Answers a read, without regard to its filters.
fn rows(state: &Value, read: &CloudRead) -> CallAnswer {
    match &state[read.key] {
        Value::Array(rows) => CallAnswer::Rows(rows.clone()),
        Value::Null if read.list => {
            CallAnswer::ReadFailed { words: "no such list".to_owned(), retry_after: Some(Duration::from_secs(1)) }
        }
        Value::Null => CallAnswer::Rows(Vec::new()),
        row => CallAnswer::Rows(vec![row.clone()]),
    }
}

/// Accepts a change. The answer is that of the service, or any row of the state.
fn outcome(request: &ServiceCall, number: usize, state: &Value) -> CallAnswer {
    let row = serde_json::json!({"id": format!("made-{number}"), "tags": [], "description": ""});
    let singular = request.resource.replace('-', "_").trim_end_matches('s').to_owned();
    let body = if state[&singular].is_object() { state.clone() } else { serde_json::json!({ singular: row }) };
    CallAnswer::Changed(ChangeOutcome::Accepted(body))
}

/// Checks that only what was seen, or made before, is deleted; a load balancer, port or floating IP only with our mark.
fn is_about_ours(request: &ServiceCall, seen: &[Value], made: usize) {
    if request.verb != ApiVerb::Delete {
        return;
    }
    let id = request.path.rsplit('/').next().unwrap_or_default();
    if (1..=made).any(|number| id == format!("made-{number}")) {
        return;
    }
    let roots = ["loadbalancers/", "ports/", "floatingips/"];
    let needs_mark = roots.iter().any(|root| request.path.starts_with(root)) && !request.path.contains("/members");
    let found = seen.iter().any(|state| has(state, id, needs_mark));
    assert!(found, "{} was never seen{}", request.path, if needs_mark { " with our mark" } else { "" });
}

/// Whether an object with this ID is anywhere in a value.
fn has(value: &Value, id: &str, needs_mark: bool) -> bool {
    match value {
        Value::Object(fields) => {
            let is_it = fields.get("id").and_then(Value::as_str) == Some(id);
            let marked =
                || ["gimbal-cluster:prod1", "k8s-cluster:c1"].iter().all(|tag| value.to_string().contains(tag));
            (is_it && (!needs_mark || marked())) || fields.values().any(|value| has(value, id, needs_mark))
        }
        Value::Array(all) => all.iter().any(|value| has(value, id, needs_mark)),
        _ => false,
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let balancer = |tags: &str, status: &str| {
        format!(
            r#"{{"id":"lb1","name":"prod1/team-a/web","project_id":"8f0c","provisioning_status":"{status}","operating_status":"ONLINE","vip_address":"10.96.0.7","vip_port_id":"port1","vip_subnet_id":"2b1e","provider":"amphora","tags":{tags},"description":"","created_at":"2026-11-23T06:00:00","updated_at":"2026-11-23T06:00:01","listeners":[{{"id":"li1"}}],"pools":[{{"id":"po1"}}],"admin_state_up":true,"additional_vips":[]}}"#
        )
    };
    let state = |balancers: &str| {
        format!(
            r#"{{"loadbalancers":[{balancers}],"listeners":[{{"id":"li1","name":"x","protocol":"HTTP","protocol_port":80,"loadbalancers":[{{"id":"lb1"}}],"default_pool_id":"po1","tags":{MARK},"provisioning_status":"ACTIVE","allowed_cidrs":["10.0.0.0/8"],"insert_headers":{{}}}}],"pools":[{{"id":"po1","protocol":"HTTP","lb_algorithm":"SOURCE_IP","session_persistence":null,"healthmonitor_id":"hm1","loadbalancers":[{{"id":"lb1"}}],"listeners":[{{"id":"li1"}}],"members":[{{"id":"me1"}}],"tags":{MARK},"provisioning_status":"ACTIVE"}}],"members":[{{"id":"me1","address":"10.0.0.1","protocol_port":8080,"weight":1,"subnet_id":"5ab","provisioning_status":"ACTIVE"}}],"healthmonitor":{{"id":"hm1","type":"HTTP","delay":1,"timeout":1,"max_retries":1,"pools":[{{"id":"po1"}}]}},"ports":[{{"id":"port1","device_owner":"Octavia","fixed_ips":[{{"subnet_id":"2b1e","ip_address":"10.96.0.7"}}],"description":"","security_groups":["a","b"]}}],"floatingips":[{{"id":"fip1","floating_ip_address":"172.24.4.9","port_id":"port1","description":"gimbal-cluster:prod1 k8s-cluster:c1 k8s-svc-uid:uid","floating_network_id":"ext"}}],"policies":[],"l7policies":[]}}"#
        )
    };
    let ours = state(&balancer(MARK, "ACTIVE"));
    let error = state(&balancer(MARK, "ERROR"));
    let other = state(&balancer(r#"["gimbal-cluster:other","k8s-cluster:c1","k8s-svc-uid:uid"]"#, "ACTIVE"));
    let orphan = state(&balancer(r#"["gimbal-cluster:prod1","k8s-cluster:c1","k8s-svc-uid:gone"]"#, "ACTIVE"));
    let empty = r#"{"loadbalancers":[],"listeners":[],"pools":[],"members":[],"ports":[],"floatingips":[]}"#.to_owned();
    let one = |text: &String| text.clone().into_bytes();
    let each = [&ours, &error, &other, &orphan, &empty].map(|text| join([one(text)]));
    let long = join([&empty, &ours, &ours, &error, &ours, &other, &ours].map(one));
    let gone = join([&orphan; 14].map(one));
    each.into_iter().chain([long, gone]).collect()
}
