//! The model of Octavia (`gimbal-octavia-sim`) beside the real one: the same random requests get the same answers, and leave
//! the same rows.
//!
//! `OCTAVIA_MODEL_REQUESTS` sets how many random requests are sent, `OCTAVIA_MODEL_SEED` which ones.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

mod haproxy;
mod network;
mod pair;
mod policies;
mod random;
mod requests;

use gimbal_octavia_sim::{Fate, Method, ProjectQuota};
use gimbal_testkit::openstack::{OpenStack, Options};
use pair::Pair;
use random::Random;
use serde_json::{Value, json};

#[tokio::test]
async fn the_model_is_as_neutron() {
    let cloud = OpenStack::start_with(Options { neutron: true, ..Options::with_checked_tokens() }).await.unwrap();
    let seed = setting("OCTAVIA_MODEL_SEED", 14);
    let requests = setting("OCTAVIA_MODEL_REQUESTS", 60);
    let mut pair = network::NetworkPair::new(&cloud).await;
    pair.octavia_leaves_its_port_behind().await;
    pair.two_load_balancers_on_one_port().await;
    for nth in 0..requests {
        pair.random_request(nth, seed).await;
    }
    assert!(requests < 50 || pair.accepted.len() >= 8, "the requests hardly change anything: {:?}", pair.accepted);
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

#[tokio::test]
async fn the_model_is_as_octavia() {
    let cloud = OpenStack::start_with(Options::with_checked_tokens()).await.unwrap();
    random_requests_have_the_same_answers(&cloud).await;
    a_pending_load_balancer_is_locked(&cloud).await;
    a_quota_refuses(&cloud).await;
    policies::steps_have_the_same_rows(&cloud).await;
    policies::a_provider_without_l7_refuses(&cloud).await;
}

async fn random_requests_have_the_same_answers(cloud: &OpenStack) {
    let mut pair = Pair::new(cloud, "alpha").await;
    let seed = setting("OCTAVIA_MODEL_SEED", 14);
    let mut random = Random::new(seed);
    let requests = setting("OCTAVIA_MODEL_REQUESTS", 100);
    for nth in 0..requests {
        let (method, path, body) = random.request(&pair);
        let what = format!("request {nth} of seed {seed}: {method:?} {path} {body}");
        pair.send(method, &path, &body, &what).await;
        pair.settle().await;
        pair.compare(&what).await;
    }
    assert!(requests < 100 || pair.accepted.len() >= 12, "the requests hardly change anything: {:?}", pair.accepted);
}

async fn a_pending_load_balancer_is_locked(cloud: &OpenStack) {
    let mut pair = Pair::new(cloud, "beta").await;
    let tree = json!({"loadbalancer": {
        "project_id": pair.project, "vip_subnet_id": pair::SUBNET, "name": "locked",
        "listeners": [{
            "name": "l", "protocol": "TCP", "protocol_port": 80, "default_pool": {"name": "p"},
            "l7policies": [{
                "name": "y", "action": "REJECT", "rules": [{"type": "PATH", "compare_type": "EQUAL_TO", "value": "/"}],
            }],
        }],
        "pools": [{
            "name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
            "members": [{"address": "10.0.0.1", "protocol_port": 80}],
            "healthmonitor": {"name": "m", "type": "TCP", "delay": 5, "timeout": 5, "max_retries": 3},
        }],
    }});
    pair.send(Method::Post, "/loadbalancers", &tree, "creation").await;
    pair.settle().await;
    // The tag keeps the real one pending; the model by a call.
    let balancer = pair.first("loadbalancers");
    pair.sim.expect(Fate::Stalls);
    let stall = json!({"loadbalancer": {"tags": ["lab:stall"]}});
    pair.send(Method::Put, &format!("/loadbalancers/{balancer}"), &stall, "stall").await;
    let [listener, pool, monitor, policy] =
        ["listeners", "pools", "healthmonitors", "l7policies"].map(|kind| pair.first(kind));
    let rule = pair.first(&format!("l7policies/{policy}/rules"));
    let new_policy = json!({"l7policy": {"listener_id": listener, "action": "REJECT"}});
    let new_rule = json!({"rule": {"type": "PATH", "compare_type": "EQUAL_TO", "value": "/x"}});
    let member = pair.first(&format!("pools/{pool}/members"));
    let new_listener = json!({"listener": {"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 81}});
    let new_pool = json!({"pool": {"loadbalancer_id": balancer, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"}});
    let named = |kind: &str| json!({kind: {"name": "other"}});
    let new_member = json!({"member": {"address": "10.0.0.2", "protocol_port": 80}});
    let none = Value::Null;
    for (method, path, body) in [
        (Method::Put, format!("/loadbalancers/{balancer}"), named("loadbalancer")),
        (Method::Post, "/listeners".into(), new_listener),
        (Method::Put, format!("/listeners/{listener}"), named("listener")),
        (Method::Delete, format!("/listeners/{listener}"), none.clone()),
        (Method::Post, "/pools".into(), new_pool),
        (Method::Put, format!("/pools/{pool}"), named("pool")),
        (Method::Delete, format!("/pools/{pool}"), none.clone()),
        (Method::Post, format!("/pools/{pool}/members"), new_member),
        (Method::Put, format!("/pools/{pool}/members"), json!({"members": []})),
        (Method::Put, format!("/pools/{pool}/members/{member}"), named("member")),
        (Method::Delete, format!("/pools/{pool}/members/{member}"), none.clone()),
        (Method::Put, format!("/healthmonitors/{monitor}"), named("healthmonitor")),
        (Method::Delete, format!("/healthmonitors/{monitor}"), none.clone()),
        (Method::Post, "/l7policies".into(), new_policy),
        (Method::Put, format!("/l7policies/{policy}"), named("l7policy")),
        (Method::Delete, format!("/l7policies/{policy}"), none.clone()),
        (Method::Post, format!("/l7policies/{policy}/rules"), new_rule),
        (Method::Put, format!("/l7policies/{policy}/rules/{rule}"), json!({"rule": {"value": "/x"}})),
        (Method::Delete, format!("/l7policies/{policy}/rules/{rule}"), none.clone()),
        (Method::Delete, format!("/loadbalancers/{balancer}"), none.clone()),
        (Method::Delete, format!("/loadbalancers/{balancer}?cascade=true"), none),
    ] {
        let what = format!("{method:?} {path} while the load balancer is pending");
        let status = pair.send(method, &path, &body, &what).await;
        assert!(matches!(status, 400 | 409), "{what}: {status}");
    }
}

async fn a_quota_refuses(cloud: &OpenStack) {
    let mut pair = Pair::new(cloud, "gamma").await;
    let quota = ProjectQuota { load_balancers: Some(1), members: Some(2), pools: Some(1), ..ProjectQuota::default() };
    pair.sim.set_quota(&pair.project.clone(), quota);
    let quota = json!({"quota": {"load_balancer": 1, "member": 2, "pool": 1}});
    pair.cloud.octavia().put(&format!("/quotas/{}", pair.project), &quota).await.unwrap();
    let balancer = |name: &str, members: usize| {
        let members: Vec<Value> =
            (1..=members).map(|n| json!({"address": format!("10.0.0.{n}"), "protocol_port": 80})).collect();
        json!({"loadbalancer": {
            "project_id": pair.project, "vip_subnet_id": pair::SUBNET, "name": name,
            "pools": [{"name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": members}],
        }})
    };
    let requests = [balancer("too many members", 3), balancer("fits", 2), balancer("too many", 0)];
    for (body, expected) in requests.iter().zip([403, 201, 403]) {
        let what = body["loadbalancer"]["name"].as_str().unwrap();
        let status = pair.send(Method::Post, "/loadbalancers", body, what).await;
        assert_eq!(status, expected, "{what}");
        pair.settle().await;
        pair.compare(what).await;
    }
    let pool = pair.first("pools");
    let three = json!({"members": [
        {"address": "10.0.0.1", "protocol_port": 80}, {"address": "10.0.0.2", "protocol_port": 80},
        {"address": "10.0.0.3", "protocol_port": 80},
    ]});
    let status = pair.send(Method::Put, &format!("/pools/{pool}/members"), &three, "a third member").await;
    assert_eq!(status, 403);
    pair.compare("a third member").await;
    what_is_given_back(&mut pair, pool).await;
}

/// The project may have two members, and has them in one pool.
async fn what_is_given_back(pair: &mut Pair<'_>, mut pool: String) {
    let balancer = pair.first("loadbalancers");
    for (anew, what, members, expected) in [
        (true, "what went with the pool is given back", 1..=2, 202),
        // Nothing is taken, and the one that goes is given back.
        (false, "one of two is replaced", 2..=3, 202),
        (false, "a third one, since one was given back", 2..=4, 202),
        (false, "a fourth one", 2..=5, 403),
        // Two were counted, and three have gone.
        (true, "three at once, since more was given back than was there", 6..=8, 202),
        (false, "a fourth one again", 6..=9, 403),
    ] {
        if anew {
            pair.send(Method::Delete, &format!("/pools/{pool}"), &Value::Null, "the pool goes").await;
            pair.settle().await;
            let body = json!({"loadbalancer_id": balancer, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"});
            pair.send(Method::Post, "/pools", &json!({"pool": body}), "another pool").await;
            pair.settle().await;
            pool = pair.first("pools");
        }
        let members: Vec<Value> =
            members.map(|n| json!({"address": format!("10.0.0.{n}"), "protocol_port": 80})).collect();
        let body = json!({"members": members});
        let status = pair.send(Method::Put, &format!("/pools/{pool}/members"), &body, what).await;
        assert_eq!(status, expected, "{what}");
        pair.settle().await;
        pair.compare(what).await;
    }
}
