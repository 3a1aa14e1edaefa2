//! What the model says that a load balancer forwards, beside the configuration of haproxy that Octavia's own template makes of
//! Octavia's own rows, after each random request.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use gimbal_octavia_sim::{ForwardTarget, Forwarding, Method};
use gimbal_testkit::openstack::{OpenStack, Options};
use serde_json::{Value, json};

use crate::pair::{Pair, SUBNET, without};
use crate::random::Random;
use crate::setting;

/// What a port forwards.
#[derive(Debug, Default, PartialEq, Eq)]
struct Port {
    /// `tcp` or `http`.
    mode: String,
    /// The networks of clients; empty: everyone.
    clients: BTreeSet<String>,
    /// Address, port and weight.
    members: BTreeSet<(String, u16, u16)>,
}

type Ports = BTreeMap<u16, Port>;

#[tokio::test]
async fn the_model_forwards_what_haproxy_is_configured_for() {
    let options = Options { data_plane: true, ..Options::with_checked_tokens() };
    let cloud = OpenStack::start_with(options).await.unwrap();
    let mut pair = Pair::new(&cloud, "alpha").await;
    let seed = setting("OCTAVIA_MODEL_SEED", 14);
    let mut random = Random::new(seed);
    let requests = setting("OCTAVIA_MODEL_REQUESTS", 60);
    let mut found = BTreeSet::new();
    for nth in 0..requests {
        let (method, path, body) = match nth {
            0 => (Method::Post, "/loadbalancers".to_owned(), whole(&pair.project)),
            _ => request(&mut random, &pair, nth),
        };
        let what = format!("request {nth} of seed {seed}: {method:?} {path} {body}");
        pair.send(method, &path, &body, &what).await;
        pair.settle().await;
        pair.compare(&what).await;
        for balancer in pair.rows("loadbalancers") {
            let id = balancer["id"].as_str().unwrap();
            let ours = of_model(pair.sim.forwards(id));
            let config = cloud.data_plane().unwrap().config(&pair.to_real(id)).await.unwrap().unwrap_or_default();
            assert_eq!(of_haproxy(&config), ours, "{what}: haproxy's (left) and the model's\n{config}");
            found.extend(ours.values().map(|port| format!("{port:?}")));
        }
    }
    assert!(requests < 60 || found.len() > 8, "the ports hardly change: {found:#?}");
}

/// A load balancer with something of everything, which the requests change then.
fn whole(project: &str) -> Value {
    let member =
        |last: u8, weight: u8| json!({"address": format!("10.0.0.{last}"), "protocol_port": 80, "weight": weight});
    let pool = |protocol: &str, members: Value| {
        let name = format!("pool-{protocol}");
        json!({"name": name, "protocol": protocol, "lb_algorithm": "ROUND_ROBIN", "members": members})
    };
    let listener = |protocol: &str, port: u16, clients: Value| {
        let pool = json!({"name": format!("pool-{protocol}")});
        json!({
            "name": protocol, "protocol": protocol, "protocol_port": port, "default_pool": pool, "allowed_cidrs": clients,
        })
    };
    json!({"loadbalancer": {
        "project_id": project, "vip_subnet_id": SUBNET, "vip_address": "10.20.0.1", "name": "whole",
        "listeners": [listener("TCP", 8080, json!(["10.7.1.1/16", "192.0.2.1/32"])), listener("HTTP", 8081, json!([]))],
        "pools": [pool("TCP", json!([member(1, 1), member(2, 5), member(3, 0)])), pool("HTTP", json!([member(1, 2)]))],
    }})
}

/// What policies and monitors do has tests of its own, and haproxy refuses some of these policies.
fn request(random: &mut Random, pair: &Pair<'_>, nth: u64) -> (Method, String, Value) {
    loop {
        let (method, path, body) = random.request(pair);
        let mut body = ["l7policies", "healthmonitor"].into_iter().fold(body, without);
        if path == "/loadbalancers" {
            // The address that the driver invents is not one of the data plane.
            body["loadbalancer"]["vip_address"] = json!(format!("10.20.{}.{}", nth / 250, nth % 250 + 1));
        }
        let is_left_out = |kind: &&str| path.starts_with(*kind);
        if body != json!({}) && !["/l7policies", "/healthmonitors"].iter().any(is_left_out) {
            return (method, path, body);
        }
    }
}

fn of_model(forwards: &[Forwarding]) -> Ports {
    // Datagrams have no data plane.
    let served = forwards.iter().filter(|one| ["TCP", "HTTP"].contains(&one.protocol.as_str()));
    let port = |one: &Forwarding| {
        let member = |target: &ForwardTarget| (target.address.clone(), target.port, target.weight);
        let port = Port {
            mode: one.protocol.to_lowercase(),
            clients: one.allowed.iter().flatten().map(|cidr| network(cidr)).collect(),
            members: one.targets.iter().map(member).collect(),
        };
        (one.port, port)
    };
    served.map(port).collect()
}

fn of_haproxy(config: &str) -> Ports {
    let (mut frontends, mut backends) = (Vec::new(), BTreeMap::<&str, BTreeSet<_>>::new());
    let mut section = ("", "");
    for line in config.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with(' ') {
            section = (words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
            if section.0 == "frontend" {
                frontends.push((0, "", Port::default()));
            }
            continue;
        }
        match (section.0, &words[..], frontends.last_mut()) {
            ("frontend", ["bind", address, ..], Some(last)) => {
                last.0 = address.rsplit_once(':').unwrap().1.parse().unwrap()
            }
            ("frontend", ["mode", mode], Some(last)) => (*mode).clone_into(&mut last.2.mode),
            ("frontend", ["default_backend", pool], Some(last)) => last.1 = *pool,
            ("frontend", ["tcp-request", "connection", "reject", "if", "!{", "src", ranges @ .., "}"], Some(last)) => {
                last.2.clients = ranges.iter().map(|range| (*range).to_owned()).collect();
            }
            ("backend", ["server", _, address, "weight", weight, more @ ..], _) if !more.contains(&"disabled") => {
                let (address, port) = address.rsplit_once(':').unwrap();
                let member = (address.to_owned(), port.parse().unwrap(), weight.parse().unwrap());
                backends.entry(section.1).or_default().insert(member);
            }
            _ => {}
        }
    }
    let port = |(number, pool, port): (u16, &str, Port)| {
        (number, Port { members: backends.get(pool).cloned().unwrap_or_default(), ..port })
    };
    frontends.into_iter().map(port).collect()
}

/// A network as haproxy is given it: without the bits of hosts.
fn network(cidr: &str) -> String {
    let (address, length) = cidr.split_once('/').unwrap_or((cidr, "32"));
    let IpAddr::V4(address) = address.parse().unwrap() else { return cidr.to_owned() };
    let mask = u32::MAX.checked_shl(32 - length.parse::<u32>().unwrap()).unwrap_or_default();
    format!("{}/{length}", Ipv4Addr::from_bits(address.to_bits() & mask))
}
