//! What Services ask for, and what is made of it.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::{
    ClientRanges, DesiredLoadBalancer, DesiredMember, DesiredMembers, HealthMonitor, ListenerId, ListenerKind,
    ListenerWish, LoadBalancerReport, MemberId, MonitorKind, Phase,
};
use gimbal_model::Protocol;
use serde_json::{Value, json};

use super::controller::{Controller, from_outside, wanted, with};
use super::stage::{PROD1, Stage, Surroundings};

fn owner(number: u32) -> String {
    format!("cccccccc-0000-4000-8000-{number:012}")
}

pub async fn fifty_ports(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let (owner, members) = (owner(1), ["10.0.1.1", "10.0.1.2"]);
    let ports = |from: u16| (from..from + 50).collect::<Vec<u16>>();
    let marks = stage.marks();
    controller.want("fifty", wanted(&owner, 1, &stage.subnet, &ports(9000), &members));
    let id = controller.expect_ready("fifty", 1).await;
    assert_eq!(stage.changes_since(marks), ["POST /v2/lbaas/loadbalancers"]);
    assert_eq!(served_ports(stage, &id).await, ports(9000).into_iter().map(|port| (port.into(), 2)).collect());
    // A port goes, and another comes.
    controller.want("fifty", wanted(&owner, 2, &stage.subnet, &ports(9001), &members));
    assert_eq!(controller.expect_ready("fifty", 2).await, id);
    assert_eq!(served_ports(stage, &id).await, ports(9001).into_iter().map(|port| (port.into(), 2)).collect());
    controller.remove("fifty", &owner).await;
}

/// Returns the ports of a load balancer, each with the number of its members.
async fn served_ports(stage: &Stage, balancer: &str) -> BTreeMap<u64, usize> {
    let of = format!("loadbalancer_id={balancer}");
    let (listeners, pools) = (stage.rows("listeners", &of).await, stage.rows("pools", &of).await);
    let members = |listener: &Value| {
        let pool = pools.iter().find(|pool| pool["id"] == listener["default_pool_id"]);
        pool.and_then(|pool| pool["members"].as_array()).map_or(0, Vec::len)
    };
    listeners.iter().map(|one| (one["protocol_port"].as_u64().unwrap(), members(one))).collect()
}

pub async fn a_thousand_members(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let (owner, marks) = (owner(2), stage.marks());
    let addresses = |count: u32| -> Vec<String> {
        (0..count).map(|number| format!("10.2.{}.{}", number / 250, number % 250 + 1)).collect()
    };
    let wish = |generation, count| {
        let addresses = addresses(count);
        let texts: Vec<&str> = addresses.iter().map(String::as_str).collect();
        wanted(&owner, generation, &stage.subnet, &[80], &texts)
    };
    controller.want("many", wish(1, 1_000));
    let id = controller.expect_ready("many", 1).await;
    assert_eq!(controller.report("many").unwrap().objects.member_count, 1_000);
    assert_eq!(found_members(stage, &id).await, addresses(1_000).into_iter().collect());
    let made = stage.changes_since(marks).len();
    assert!(made <= 5, "what a request has no room for comes in the next: {made}");
    // One more is one call with this one alone.
    controller.want("many", wish(2, 1_001));
    controller.expect_ready("many", 2).await;
    assert_eq!(found_members(stage, &id).await.len(), 1_001);
    let changes = stage.changes_since(marks);
    assert!(matches!(&changes[made..], [one] if one.starts_with("PUT /v2/lbaas/pools/")), "{changes:?}");
    controller.remove("many", &owner).await;
}

async fn found_members(stage: &Stage, balancer: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pool in stage.rows("pools", &format!("loadbalancer_id={balancer}")).await {
        let (collection, mut after) = (format!("pools/{}/members", pool["id"].as_str().unwrap()), String::new());
        loop {
            let rows = stage.rows(&collection, &format!("limit=1000{after}")).await;
            found.extend(rows.iter().map(|member| member["address"].as_str().unwrap().to_owned()));
            let Some(last) = rows.last().filter(|_| rows.len() == 1_000) else { break };
            after = format!("&marker={}", last["id"].as_str().unwrap());
        }
    }
    found
}

/// A pool that has no one to serve stays, with its listener and its address.
pub async fn no_member_is_ready_for_a_while(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(3);
    controller.want("empty", wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1", "10.0.0.2"]));
    let id = controller.expect_ready("empty", 1).await;
    controller.want("empty", wanted(&owner, 2, &stage.subnet, &[80], &[]));
    assert_eq!(controller.expect_ready("empty", 2).await, id);
    stage.expect_members(&id, &[80], &[]).await;
    controller.want("empty", wanted(&owner, 3, &stage.subnet, &[80], &["10.0.0.2"]));
    assert_eq!(controller.expect_ready("empty", 3).await, id);
    stage.expect_members(&id, &[80], &["10.0.0.2"]).await;
    controller.remove("empty", &owner).await;
}

/// Each with a monitor of its own kind.
pub async fn tcp_udp_and_sctp_on_one_port(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(4);
    let dns = |generation, protocols: &[Protocol]| {
        let ids: Vec<ListenerId> = protocols.iter().map(|protocol| ListenerId::new(*protocol, 53)).collect();
        let member = |id: &ListenerId| DesiredMember {
            id: MemberId { pool: (*id).into(), address: [10, 0, 0, 1].into(), port: 53 },
            weight: 1,
            name: None,
            subnet: None,
        };
        let members = DesiredMembers::new(ids.iter().map(member).collect());
        let wish = with(wanted(&owner, generation, &stage.subnet, &[], &[]), |header| {
            let listener = |id: &ListenerId| ListenerWish { id: *id, kind: ListenerKind::Plain, name: None };
            header.listeners = ids.iter().map(listener).collect();
            let (kind, delay, timeout, rise, fall) = (MonitorKind::Connect, 5, 3, 1, 3);
            let monitor = HealthMonitor { kind, port: None, delay, timeout, rise, fall, path: None, codes: None };
            header.monitor = Some(Box::new(monitor));
        });
        DesiredLoadBalancer { members, ..wish }
    };
    controller.want("dns", dns(1, &[Protocol::Tcp, Protocol::Udp, Protocol::Sctp]));
    let id = controller.expect_ready("dns", 1).await;
    assert_eq!(protocols(stage, &id).await, ["SCTP:53", "TCP:53", "UDP:53"]);
    assert_eq!(monitors(stage, &id).await, ["SCTP:SCTP", "TCP:TCP", "UDP:UDP-CONNECT"]);
    stage.expect_members(&id, &[53, 53, 53], &["10.0.0.1"]).await;
    // One of them goes, and the others do not mind. It comes back as a part by itself.
    for (generation, left) in [(2, &[Protocol::Udp, Protocol::Tcp][..]), (3, &[Protocol::Udp, Protocol::Sctp])] {
        controller.want("dns", dns(generation, left));
        assert_eq!(controller.expect_ready("dns", generation).await, id);
        let mut expected: Vec<String> = left.iter().map(|one| format!("{}:53", one.as_str())).collect();
        expected.sort();
        assert_eq!(protocols(stage, &id).await, expected);
    }
    assert_eq!(monitors(stage, &id).await, ["SCTP:SCTP", "UDP:UDP-CONNECT"]);
    controller.remove("dns", &owner).await;
}

/// Returns the protocol of each pool with the kind of its monitor.
async fn monitors(stage: &Stage, balancer: &str) -> Vec<String> {
    let mut all = Vec::new();
    for pool in stage.rows("pools", &format!("loadbalancer_id={balancer}")).await {
        let path = format!("/healthmonitors/{}", pool["healthmonitor_id"].as_str().unwrap());
        let monitor = stage.cloud.octavia().get(&path).await.unwrap();
        let kind = monitor["healthmonitor"]["type"].as_str().unwrap();
        all.push(format!("{}:{kind}", pool["protocol"].as_str().unwrap()));
    }
    all.sort();
    all
}

async fn protocols(stage: &Stage, balancer: &str) -> Vec<String> {
    let rows = stage.rows("listeners", &format!("loadbalancer_id={balancer}")).await;
    let text = |row: &Value| format!("{}:{}", row["protocol"].as_str().unwrap(), row["protocol_port"]);
    let mut all: Vec<String> = rows.iter().map(text).collect();
    all.sort();
    all
}

pub async fn two_families(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let wish = |owner: &str| {
        let wish = wanted(owner, 1, &stage.subnet, &[80], &["10.0.0.1"]);
        with(wish, |header| header.vip.additional_subnets = [around.second.as_str().into()].into())
    };
    let (with_port, without) = (owner(5), owner(6));
    controller.want("both", from_outside(wish(&with_port)));
    controller.want("both-inside", wish(&without));
    for (name, owner) in [("both", &with_port), ("both-inside", &without)] {
        controller.expect_ready(name, 1).await;
        let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{owner}")).await[..] else { panic!("not one") };
        let [second] = &balancer["additional_vips"].as_array().unwrap()[..] else { panic!("{balancer}") };
        assert_eq!(second["subnet_id"], around.second, "{balancer}");
        assert!(second["ip_address"].as_str().unwrap().starts_with("fd00:60:"), "{balancer}");
        assert_eq!(balancer["vip_subnet_id"], stage.subnet);
    }
    for (name, owner) in [("both", &with_port), ("both-inside", &without)] {
        controller.remove(name, owner).await;
    }
    assert!(stage.marked_ports(&with_port).await.is_empty());
}

/// Ranges that hold nothing let no client in, while an empty list lets everybody in for Octavia.
pub async fn source_ranges(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let owner = owner(7);
    let only = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    let clients = [(ClientRanges::NoOne, false), (only.clone(), true), (ClientRanges::NoOne, false), (only, true)];
    for (generation, (clients, up)) in (1..).zip(clients) {
        let wish = wanted(&owner, generation, &stage.subnet, &[80], &["10.0.0.1"]);
        let restricted = up.then(|| json!(["192.0.2.0/24"]));
        controller.want("ranges", with(wish, |header| header.clients = clients));
        let id = controller.expect_ready("ranges", generation).await;
        let [listener] = &stage.rows("listeners", &format!("loadbalancer_id={id}")).await[..] else {
            panic!("not one")
        };
        assert_eq!(listener["admin_state_up"], up, "{listener}");
        if let Some(restricted) = restricted {
            assert_eq!(listener["allowed_cidrs"], restricted, "{listener}");
        }
    }
    controller.want("ranges", wanted(&owner, 5, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("ranges", 5).await;
    let [listener] = &stage.rows("listeners", &format!("loadbalancer_id={id}")).await[..] else { panic!("not one") };
    assert!(listener["admin_state_up"] == true && listener["allowed_cidrs"].as_array().is_none_or(Vec::is_empty));
    controller.remove("ranges", &owner).await;
}

/// The provider is for life: behind a floating IP the new load balancer comes first, at a fixed address the old one goes first.
pub async fn another_provider(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let (moved, fixed) = (owner(8), owner(9));
    let wish = |owner: &str, generation, provider: &str| {
        let wish = from_outside(wanted(owner, generation, &stage.subnet, &[80], &["10.0.0.1"]));
        with(wish, |header| header.placement.provider = Some(provider.into()))
    };
    let outside = |generation, provider| with(wish(&moved, generation, provider), |header| around.ask(header));
    let inside = |generation, provider| {
        with(wish(&fixed, generation, provider), |header| header.vip.address = Some([10, 60, 0, 77].into()))
    };
    controller.want("moved", outside(1, "lab"));
    controller.want("fixed", inside(1, "lab"));
    let (first, floating) = made(&controller, "moved", 1).await;
    let (old, _) = made(&controller, "fixed", 1).await;
    controller.want("moved", outside(2, "lab2"));
    controller.want("fixed", inside(2, "lab2"));
    let (second, still) = made(&controller, "moved", 2).await;
    let (new, _) = made(&controller, "fixed", 2).await;
    assert!(first != second && old != new);
    assert_eq!(floating, still, "the floating IP has moved");
    for (owner, id) in [(&moved, &second), (&fixed, &new)] {
        let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{owner}")).await[..] else { panic!("not one") };
        assert_eq!((balancer["id"].as_str(), &balancer["provider"]), (Some(id.as_str()), &json!("lab2")));
    }
    let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{fixed}")).await[..] else { panic!("not one") };
    assert_eq!(balancer["vip_address"], "10.60.0.77");
    controller.remove("moved", &moved).await;
    controller.remove("fixed", &fixed).await;
    assert!(stage.marked_ports(&moved).await.is_empty() && stage.marked_ports(&fixed).await.is_empty());
}

/// Returns the IDs of the load balancer and its floating IP.
async fn made(controller: &Controller, name: &str, generation: i64) -> (String, Option<String>) {
    let is_ready = |report: &LoadBalancerReport| report.phase == Phase::Ready && report.generation == generation;
    let report = controller.expect(name, &format!("ready in generation {generation}"), is_ready).await;
    let floating = report.objects.floating_ip.map(|floating| floating.id.to_string());
    (report.objects.load_balancer.unwrap().id.to_string(), floating)
}
