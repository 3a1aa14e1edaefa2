//! Translation of load balancers to Services. Each known mistake of the original Gimbal has a test here.
#![allow(clippy::unwrap_used)] // A panic is the report.

use crate::common::{Caller, World, id, row, small};
use gimbal_octavia_rows::{Member, OperatingStatus, ProvisioningStatus};
use gimbal_openstack_source::{ListMode, PollOptions, ServiceName, SkipReason};
use serde_json::json;

/// Load balancer `lb` of project `team` with listener `l` on TCP 80 and pool `p` without members.
fn bare() -> World {
    let mut world = World::default();
    world.project("pt", "team");
    world.load_balancer("lb", "pt", "web");
    world.pool("p", "lb", "TCP");
    world.listener("l", "lb", 80, "TCP", "p");
    world
}

fn shown(world: World) -> String {
    let mut caller = Caller::bulk(world);
    assert!(caller.poll().is_complete());
    caller.show()
}

fn skipped(world: World) -> Vec<(SkipReason, u64)> {
    let mut caller = Caller::bulk(world);
    caller.poll();
    caller.cloud.skipped().into_iter().collect()
}

/// The complete outcome for a cloud with every feature, read from rows.
#[test]
fn a_rich_cloud() {
    let rows: serde_json::Value = serde_json::from_str(include_str!("golden/rich.json")).unwrap();
    let mut world = World::default();
    let each = |kind: &str| rows[kind].as_array().unwrap().clone();
    for from in each("projects") {
        let project: gimbal_octavia_rows::Project = row(from);
        world.projects.insert(project.id.clone(), project);
    }
    for from in each("loadbalancers") {
        let balancer: gimbal_octavia_rows::LoadBalancer = row(from);
        world.load_balancers.insert(balancer.id.clone(), balancer);
    }
    for from in each("listeners") {
        let listener: gimbal_octavia_rows::Listener = row(from);
        world.listeners.insert(listener.id.clone(), listener);
    }
    for from in each("l7policies") {
        let policy: gimbal_octavia_rows::L7Policy = row(from);
        world.policies.insert(policy.id.clone(), policy);
    }
    for mut from in each("pools") {
        let members: Vec<Member> = row(from["members"].take());
        from["members"] = members.iter().map(|member| json!({"id": member.id.as_str()})).collect();
        let pool: gimbal_octavia_rows::Pool = row(from);
        world.members.insert(pool.id.clone(), members.into_iter().map(|member| (member.id.clone(), member)).collect());
        world.pools.insert(pool.id.clone(), pool);
    }
    let options = PollOptions { l7_pools: true, projects_for: std::time::Duration::ZERO, ..PollOptions::default() };
    // With a namesake present from the start, no project would hold the namespace.
    let namesake = world.projects.remove(&id("5e000000000000000000000000000002")).unwrap();
    let mut caller = Caller::new(ListMode::Bulk, options, world);
    caller.poll();
    caller.world.projects.insert(namesake.id.clone(), namesake);
    let outcome = caller.poll();
    assert_eq!(outcome.unknown_namespaces, Default::default());
    let mut left_out: Vec<String> = caller.cloud.left_out().map(ToString::to_string).collect();
    left_out.sort();
    let troubles: Vec<String> = outcome.troubles.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("rich", caller.show());
    insta::assert_snapshot!("rich_left_out", left_out.join("\n"));
    insta::assert_snapshot!("rich_owners", caller.owners().join("\n"));
    insta::assert_snapshot!("rich_troubles", troubles.join("\n"));
    insta::assert_debug_snapshot!("rich_header", caller.view.values().nth(1).unwrap().header);
}

/// The original made every port TCP, and gave TCP and UDP ports of one number the same name, `port-53`.
#[test]
fn protocols() {
    for (listener, pool, tls, expected) in [
        ("TCP", "TCP", false, Some("port-80 80/TCP")),
        ("HTTP", "HTTP", false, Some("port-80 80/TCP http")),
        ("HTTPS", "HTTPS", false, Some("port-80 80/TCP https")),
        ("TERMINATED_HTTPS", "HTTP", false, Some("port-80 80/TCP http")),
        ("TERMINATED_HTTPS", "HTTP", true, Some("port-80 80/TCP https")),
        ("TCP", "HTTP", false, Some("port-80 80/TCP http")),
        ("TCP", "TCP", true, Some("port-80 80/TCP https")),
        ("UDP", "UDP", false, Some("port-80-udp 80/UDP")),
        ("SCTP", "SCTP", false, Some("port-80-sctp 80/SCTP")),
        ("HTTP", "PROXY", false, Some("port-80 80/TCP")),
        ("TCP", "PROXYV2", true, Some("port-80 80/TCP")),
        ("TCP", "QUIC", false, Some("port-80 80/TCP")),
        ("PROMETHEUS", "TCP", false, None),
        ("QUIC", "TCP", false, None),
    ] {
        let mut world = bare();
        world.listeners.get_mut(&id("l")).unwrap().protocol = row(json!(listener));
        let row = world.pools.get_mut(&id("p")).unwrap();
        (row.protocol, row.tls_enabled) = (crate::common::row(json!(pool)), tls);
        world.member("p", "m", "10.0.0.1", 8080);
        let mut caller = Caller::bulk(world);
        assert!(caller.poll().is_complete());
        let represented = expected.is_some() && !pool.starts_with("PROXY") && pool != "QUIC";
        let port = expected.map(|port| format!("  {port}\n")).unwrap_or_default();
        assert!(caller.show().starts_with(&format!("team/web-lb\n{port}")), "{listener} {pool}: {}", caller.show());
        assert_eq!(caller.addresses().len(), usize::from(represented), "{listener} {pool}");
        let skips: Vec<SkipReason> = caller.cloud.skipped().into_keys().collect();
        let expected = match (listener, represented) {
            ("PROMETHEUS", _) => vec![SkipReason::Prometheus],
            (_, true) => vec![],
            (_, false) => vec![SkipReason::Unsupported],
        };
        assert_eq!(skips, expected, "{listener} {pool}");
    }
}

#[test]
fn tcp_udp_and_sctp_on_one_number() {
    let mut world = bare();
    for (listener, pool, protocol) in [("lu", "pu", "UDP"), ("ls", "ps", "SCTP")] {
        world.pool(pool, "lb", protocol);
        world.listener(listener, "lb", 80, protocol, pool);
        world.member(pool, &format!("m{pool}"), "10.0.0.1", 53);
    }
    world.member("p", "m", "10.0.0.1", 53);
    assert_eq!(
        shown(world),
        "team/web-lb
  port-80 80/TCP
  port-80-udp 80/UDP
  port-80-sctp 80/SCTP
    rs- 10.0.0.1 port-80=53/TCP
    rs- 10.0.0.1 port-80-sctp=53/SCTP
    rs- 10.0.0.1 port-80-udp=53/UDP
"
    );
}

#[test]
fn members_are_grouped_by_their_port() {
    let mut world = bare();
    for (member, address, port) in
        [("a", "10.0.0.2", 8080), ("b", "10.0.0.1", 9090), ("c", "10.0.0.1", 8080), ("d", "fd00::1", 8080)]
    {
        world.member("p", member, address, port);
    }
    assert_eq!(
        shown(world),
        "team/web-lb
  port-80 80/TCP
    rs- 10.0.0.1 port-80=8080/TCP
    rs- 10.0.0.2 port-80=8080/TCP
    rs- fd00::1 port-80=8080/TCP
    rs- 10.0.0.1 port-80=9090/TCP
"
    );
}

/// Members in states without traffic, beside a working one. The original ignored all of these states.
#[test]
fn members_that_take_no_traffic() {
    type Change = fn(&mut Member);
    let table: [(&str, Change, &[&str], &[SkipReason]); 12] = [
        ("whole", |_| {}, &["10.0.0.1 rs-", "10.0.0.2 rs-"], &[]),
        ("off", |m| m.admin_state_up = false, &["10.0.0.2 rs-"], &[SkipReason::Off]),
        ("weight 0", |m| m.weight = 0, &["10.0.0.2 rs-"], &[SkipReason::NoWeight]),
        ("failing", |m| m.operating = OperatingStatus::Error, &["10.0.0.1 ---", "10.0.0.2 rs-"], &[]),
        ("backup", |m| m.backup = true, &["10.0.0.1 ---", "10.0.0.2 rs-"], &[]),
        (
            "failing backup",
            |m| (m.backup, m.operating) = (true, OperatingStatus::Error),
            &["10.0.0.1 ---", "10.0.0.2 rs-"],
            &[],
        ),
        ("deleting", |m| m.provisioning = ProvisioningStatus::Deleting, &["10.0.0.2 rs-"], &[SkipReason::Deleting]),
        ("new", |m| m.provisioning = ProvisioningStatus::Pending, &["10.0.0.1 rs-", "10.0.0.2 rs-"], &[]),
        ("broken", |m| m.provisioning = ProvisioningStatus::Error, &["10.0.0.1 rs-", "10.0.0.2 rs-"], &[]),
        (
            "a host name",
            |m| m.address = row::<Member>(json!({"id": "x", "address": "db"})).address,
            &["10.0.0.2 rs-"],
            &[SkipReason::BadAddress],
        ),
        ("no address", |m| m.address = Default::default(), &["10.0.0.2 rs-"], &[SkipReason::NoAddress]),
        ("no port", |m| m.port = None, &["10.0.0.2 rs-"], &[SkipReason::NoPort]),
    ];
    for (name, change, addresses, skips) in table {
        let mut world = bare();
        change(world.member("p", "m1", "10.0.0.1", 80));
        world.member("p", "m2", "10.0.0.2", 80);
        let mut caller = Caller::bulk(world);
        assert!(caller.poll().is_complete());
        assert_eq!(caller.addresses(), addresses, "{name}");
        assert_eq!(caller.cloud.skipped().into_keys().collect::<Vec<_>>(), skips, "{name}");
    }
}

/// Letters stand for primaries and backups; failing ones are capitals.
#[test]
fn who_is_ready_when_some_fail() {
    for (members, ready) in [
        ("pp", "pp"),
        ("pP", "p-"),
        ("PP", "PP"),
        ("pb", "p-"),
        ("Pb", "-b"),
        ("PbB", "-b-"),
        ("PB", "P-"),
        ("BB", "BB"),
        ("bb", "bb"),
        ("bB", "b-"),
        ("pPbB", "p---"),
    ] {
        let mut world = bare();
        for (n, letter) in members.chars().enumerate() {
            let member = world.member("p", &format!("m{n}"), &format!("10.0.0.{n}"), 80);
            member.backup = letter.eq_ignore_ascii_case(&'b');
            member.operating =
                if letter.is_ascii_uppercase() { OperatingStatus::Error } else { OperatingStatus::Online };
        }
        let mut caller = Caller::bulk(world);
        caller.poll();
        let found: String = members
            .chars()
            .zip(caller.addresses())
            .map(|(letter, shown)| if shown.contains(" r") { letter } else { '-' })
            .collect();
        assert_eq!(found, ready, "{members}");
    }
}

#[test]
fn what_is_switched_off_has_no_endpoints_and_keeps_its_port() {
    for (which, kind) in ["load balancer", "listener", "pool"].into_iter().enumerate() {
        let mut world = bare();
        world.member("p", "m", "10.0.0.1", 80);
        match which {
            0 => world.load_balancers.get_mut(&id("lb")).unwrap().admin_state_up = false,
            1 => world.listeners.get_mut(&id("l")).unwrap().admin_state_up = false,
            _ => world.pools.get_mut(&id("p")).unwrap().admin_state_up = false,
        }
        assert_eq!(shown(world.clone()), "team/web-lb\n  port-80 80/TCP\n", "{kind}");
        assert_eq!(skipped(world), [(SkipReason::Off, 1)], "{kind}");
    }
}

#[test]
fn a_listener_without_a_pool_is_a_port_without_endpoints() {
    let mut world = bare();
    world.listener("l2", "lb", 81, "TCP", "");
    world.member("p", "m", "10.0.0.1", 80);
    assert_eq!(
        shown(world.clone()),
        "team/web-lb\n  port-80 80/TCP\n  port-81 81/TCP\n    rs- 10.0.0.1 port-80=80/TCP\n"
    );
    assert_eq!(skipped(world), [(SkipReason::NoPool, 1)]);
}

#[test]
fn a_load_balancer_without_listeners_is_a_service_without_ports() {
    let mut world = World::default();
    world.project("pt", "team");
    world.load_balancer("lb", "pt", "web");
    assert_eq!(shown(world), "team/web-lb\n");
}

#[test]
fn a_pool_that_listeners_share_serves_each() {
    let mut world = bare();
    world.listener("l2", "lb", 81, "TCP", "p");
    world.member("p", "m", "10.0.0.1", 8080);
    assert_eq!(
        shown(world),
        "team/web-lb\n  port-80 80/TCP\n  port-81 81/TCP\n    rs- 10.0.0.1 port-80=8080/TCP\n    rs- 10.0.0.1 port-81=8080/TCP\n"
    );
}

/// If two members have the same address and port, the ready one counts, in any order.
#[test]
fn duplicate_members() {
    for failing in ["a", "b"] {
        let mut world = bare();
        world.member("p", "a", "10.0.0.1", 80);
        world.member("p", "b", "10.0.0.1", 80);
        world.health("p", failing).operating = OperatingStatus::Error;
        let mut caller = Caller::bulk(world);
        caller.poll();
        assert_eq!(caller.addresses(), ["10.0.0.1 rs-"], "{failing}");
    }
}

#[test]
fn duplicate_and_missing_ports_of_listeners() {
    let mut world = bare();
    world.listener("m", "lb", 80, "HTTP", "p");
    world.listener("n", "lb", 80, "UDP", "p").port = None;
    world.member("p", "x", "10.0.0.1", 80);
    assert_eq!(shown(world.clone()), "team/web-lb\n  port-80 80/TCP\n    rs- 10.0.0.1 port-80=80/TCP\n");
    assert_eq!(skipped(world), [(SkipReason::NoPort, 1), (SkipReason::DuplicatePort, 1)]);
}

/// The original compared subsets in map order, and never noticed changed labels.
#[test]
fn only_what_differs_is_a_change() {
    let mut world = small();
    for n in 2..30 {
        world.tree(n, "pa", 5);
    }
    let mut caller = Caller::bulk(world);
    caller.poll_until_stable();
    for _ in 0..5 {
        assert!(caller.poll().changes.is_empty());
    }
    caller.world.load_balancers.get_mut(&id("lb7")).unwrap().admin_state_up = false;
    assert_eq!(caller.poll().changes.len(), 1);
    // Two names with the same safe name differ only in the label.
    caller.world.load_balancers.get_mut(&id("lb8")).unwrap().name = "WEB".into();
    let changes = caller.poll().changes;
    assert_eq!(changes.len(), 1);
    let header = &changes[0].1.as_ref().unwrap().header;
    assert_eq!(&*header.labels["gimbal.projectcontour.io/load-balancer-name"], "WEB");
    assert_eq!(&*header.labels["gimbal.projectcontour.io/load-balancer-id"], "lb8");
}

/// A renamed load balancer becomes another Service.
#[test]
fn a_renamed_load_balancer_moves() {
    let mut caller = Caller::bulk(small());
    caller.poll_until_stable();
    caller.world.load_balancers.get_mut(&id("lb1")).unwrap().name = "Shop".into();
    let changes = caller.poll().changes;
    assert_eq!(
        changes.iter().map(|(key, service)| (key.to_string(), service.is_some())).collect::<Vec<_>>(),
        [("alpha/shop-lb1".to_owned(), true), ("alpha/web-lb1".to_owned(), false)]
    );
}

#[test]
fn names_by_id_and_without_a_name() {
    let mut world = small();
    world.tree(2, "pa", 0);
    world.load_balancers.get_mut(&id("lb2")).unwrap().name = "".into();
    world.tree(3, "pa", 0);
    world.load_balancers.get_mut(&id("lb3")).unwrap().name = "日本".into();
    let mut caller = Caller::bulk(world.clone());
    caller.poll();
    assert_eq!(caller.names(), ["alpha/lb2", "alpha/lb3", "alpha/web-lb1"]);
    let options = PollOptions { service_name: ServiceName::Id, ..PollOptions::default() };
    let mut caller = Caller::new(ListMode::Bulk, options, world);
    caller.poll();
    assert_eq!(caller.names(), ["alpha/lb1", "alpha/lb2", "alpha/lb3"]);
}
