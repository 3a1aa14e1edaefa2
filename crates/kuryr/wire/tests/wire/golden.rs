//! A recorded session, byte for byte. Deployed controllers and writers rely on its digests, sizes and wire bytes.
//!
//! `GOLDEN=write cargo test -p gimbal-kuryr-wire golden` records it again. A line that changes is a change of the
//! protocol.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use gimbal_kuryr_model::{
    Algorithm, Balancing, ClientRanges, DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, DesiredMember,
    DesiredMembers, FloatingWish, HealthMonitor, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader,
    LoadBalancerPlacement, MemberId, MemberMode, MonitorKind, ProxyVersion, SharedGroup, Timeouts, VipWish,
};
use gimbal_kuryr_wire::Kuryr;
use gimbal_model::{Family, Protocol};
use gimbal_session::{AgentMessage, Entry, GoodbyeReason, estimated_len};

use crate::ends::{Ends, Sent};

const RECORDING: &str = include_str!("golden/session.txt");

fn line(text: &mut String, who: &str, len: Option<usize>, bytes: &[u8]) {
    let len = len.map_or(String::new(), |len| format!(" estimated {len}"));
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let shown: String = bytes.iter().take(60).map(|byte| format!("{byte:02x}")).collect();
    writeln!(text, "{who}{len} bytes {} fnv {hash:016x} {shown}", bytes.len()).unwrap();
}

fn listener(protocol: Protocol, port: u16, kind: ListenerKind, name: &str) -> ListenerWish {
    ListenerWish { id: ListenerId { protocol, port }, kind, name: Some(name.into()) }
}

/// A header with every field.
fn rich(known: bool) -> LoadBalancerHeader {
    LoadBalancerHeader {
        owner: "3f1c0a52-uid".into(),
        known,
        placement: LoadBalancerPlacement {
            project: "8f0c".into(),
            provider: Some("amphora".into()),
            flavor: Some("small".into()),
            availability_zone: Some("zone 1".into()),
        },
        vip: VipWish {
            subnet: Some("2b1e".into()),
            network: Some("net".into()),
            port: Some("port".into()),
            address: Some(IpAddr::from([10, 96, 0, 7])),
            additional_subnets: ["6b1e".into()].into(),
            additional_addresses: ["fd00::7".parse().unwrap()].into(),
            security_groups: ["sg-a".into(), "sg-b".into()].into(),
            from_outside: true,
        },
        floating: Some(Box::new(FloatingWish {
            network: Some("ext".into()),
            subnet: Some("ext-subnet".into()),
            address: Some(IpAddr::from([172, 24, 4, 13])),
            keep: true,
        })),
        listeners: [
            listener(Protocol::Tcp, 80, ListenerKind::Http, "http"),
            listener(Protocol::Tcp, 443, ListenerKind::TerminatedHttps, "https"),
            listener(Protocol::Udp, 53, ListenerKind::Plain, "dns"),
        ]
        .into(),
        clients: ClientRanges::Only(["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()].into()),
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Node,
            algorithm: Some(Algorithm::LeastConnections),
            affinity_seconds: Some(600),
            proxy: Some(ProxyVersion::V2),
        },
        timeouts: Timeouts {
            client_data: Some(50_000),
            member_data: Some(60_000),
            member_connect: Some(5_000),
            tcp_inspect: Some(0),
            connection_limit: Some(-1),
        },
        monitor: Some(Box::new(HealthMonitor {
            kind: MonitorKind::Http,
            port: Some(31_000),
            delay: 5,
            timeout: 3,
            rise: 2,
            fall: 3,
            path: Some("/healthz".into()),
            codes: Some("200-204".into()),
        })),
        tls_containers: ["https://barbican/v1/containers/1".into()].into(),
        shared_group: Some(Box::new(SharedGroup {
            name: "team/web".into(),
            created: Some("2026-01-02T03:04:05Z".into()),
        })),
        adopt: Some("cafe".into()),
    }
}

/// A header with nothing that can be left out.
fn plain() -> LoadBalancerHeader {
    LoadBalancerHeader {
        owner: "uid-2".into(),
        known: false,
        placement: LoadBalancerPlacement { project: "8f0c".into(), ..Default::default() },
        vip: VipWish { subnet: Some("2b1e".into()), ..Default::default() },
        floating: None,
        listeners: [listener(Protocol::Tcp, 80, ListenerKind::Plain, "web")].into(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V6,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: [].into(),
        shared_group: None,
        adopt: None,
    }
}

fn members(port: u16, hosts: std::ops::Range<u16>, subnet: Option<&str>) -> Vec<DesiredMember> {
    let member = |host: u16| DesiredMember {
        id: MemberId {
            listener: ListenerId { protocol: Protocol::Tcp, port },
            address: IpAddr::from([10, 1, host.to_be_bytes()[0], host.to_be_bytes()[1]]),
            port: 8080,
        },
        weight: u8::from(!host.is_multiple_of(5)),
        name: Some(format!("shop/web-{host}:8080").into()),
        subnet: subnet.map(Into::into),
    };
    hosts.map(member).collect()
}

fn wanted(generation: i64, header: LoadBalancerHeader, members: Vec<DesiredMember>) -> DesiredEntry {
    let members = DesiredMembers::new(members);
    DesiredEntry::LoadBalancer(DesiredLoadBalancer { generation, header: Arc::new(header), members })
}

fn key(name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "shop", name)
}

fn record() -> String {
    let text = Arc::new(Mutex::new(String::new()));
    let mut ends = Ends::new();
    let heard = text.clone();
    ends.heard = Box::new(move |sent| {
        let mut text = heard.lock().unwrap();
        match sent {
            Sent::Agent(AgentMessage::Data(data), bytes) => {
                line(&mut text, "agent ", Some(estimated_len::<Kuryr>(data)), bytes);
            }
            Sent::Agent(_, bytes) => line(&mut text, "agent ", None, bytes),
            Sent::Writer(bytes) => line(&mut text, "writer", None, bytes),
        }
    });
    let title = |title: &str| writeln!(text.lock().unwrap(), "# {title}").unwrap();
    let set = |ends: &mut Ends, name: &str, entry: Option<DesiredEntry>| {
        if let Some(entry) = &entry {
            let digest = Entry::<Kuryr>::digest(entry, &key(name));
            writeln!(text.lock().unwrap(), "set {} {digest}", key(name)).unwrap();
        }
        ends.set(key(name), entry);
    };
    let pump = |ends: &mut Ends| {
        ends.pump();
        let tree = ends.writer.tree();
        writeln!(text.lock().unwrap(), "root {} of {}", tree.root(), tree.count()).unwrap();
    };

    title("a first stream");
    let rich_members = [members(80, 1..4, Some("6b1e")), members(443, 1..3, None)].concat();
    set(&mut ends, "rich", Some(wanted(1, rich(false), rich_members.clone())));
    set(&mut ends, "plain", Some(wanted(1, plain(), Vec::new())));
    set(&mut ends, "large", Some(wanted(1, plain(), members(80, 0..300, None))));
    ends.connect();
    pump(&mut ends);
    title("the status names what exists; members come and go; an owner is going");
    set(&mut ends, "rich", Some(wanted(1, rich(true), rich_members)));
    set(&mut ends, "large", Some(wanted(2, plain(), members(80, 10..310, None))));
    set(&mut ends, "plain", Some(DesiredEntry::Deleting { owner: "uid-2".into() }));
    pump(&mut ends);
    title("a reconnect with nothing changed");
    ends.connect();
    pump(&mut ends);
    title("goodbye");
    ends.agent.goodbye(GoodbyeReason::Shutdown, "the controller ends");
    pump(&mut ends);
    drop(ends);
    let text = text.lock().unwrap();
    text.clone()
}

#[test]
fn a_recorded_session_stays_byte_for_byte() {
    let text = record();
    if std::env::var("GOLDEN").is_ok_and(|mode| mode == "write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/golden/session.txt");
        std::fs::write(path, &text).unwrap();
        return;
    }
    for (recorded, line) in RECORDING.lines().zip(text.lines()) {
        assert_eq!(recorded, line);
    }
    assert_eq!(RECORDING.lines().count(), text.lines().count());
}
