//! A recorded session, byte for byte. Deployed controllers and writers rely on its digests, sizes and wire bytes.
//!
//! `GOLDEN=write cargo test -p gimbal-kuryr-wire golden` records it again. A line that changes is a change of the
//! protocol.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use gimbal_kuryr_model::{
    Algorithm, Balancing, CertificateHash, CertificateWish, ClientRanges, DesiredEntry, DesiredKey, DesiredKind,
    DesiredLoadBalancer, DesiredMember, DesiredMembers, FloatingWish, HealthMonitor, HostMatch, ListenerId,
    ListenerKind, ListenerWish, LoadBalancerHeader, LoadBalancerPlacement, MemberId, MemberMode, MonitorKind,
    PathMatch, PoolId, ProxyVersion, Route, RouteTarget, RoutedPool, Routing, SharedGroup, Timeouts, VipWish,
};
use gimbal_kuryr_wire::Kuryr;
use gimbal_model::{Family, Protocol};
use gimbal_session::{AgentMessage, Entry, GoodbyeReason, estimated_len};

use crate::ends::{Ends, Sent};

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
        routing: None,
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
        routing: None,
    }
}

fn members(port: u16, hosts: std::ops::Range<u16>, subnet: Option<&str>) -> Vec<DesiredMember> {
    let member = |host: u16| DesiredMember {
        id: MemberId {
            pool: PoolId::Listener(ListenerId { protocol: Protocol::Tcp, port }),
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

/// What goes over the stream, in words.
struct Recorder {
    text: Arc<Mutex<String>>,
    ends: Ends,
}

impl Recorder {
    fn new() -> Self {
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
        Self { text, ends }
    }

    fn write(&self, text: std::fmt::Arguments<'_>) {
        writeln!(self.text.lock().unwrap(), "{text}").unwrap();
    }

    fn title(&self, title: &str) {
        self.write(format_args!("# {title}"));
    }

    fn set(&mut self, key: DesiredKey, entry: Option<DesiredEntry>) {
        if let Some(entry) = &entry {
            self.write(format_args!("set {key} {}", Entry::<Kuryr>::digest(entry, &key)));
        }
        self.ends.set(key, entry);
    }

    fn pump(&mut self) {
        self.ends.pump();
        let tree = self.ends.writer.tree();
        self.write(format_args!("root {} of {}", tree.root(), tree.count()));
    }

    fn end(self) -> String {
        drop(self.ends);
        let text = self.text.lock().unwrap();
        text.clone()
    }
}

fn session() -> String {
    let mut it = Recorder::new();
    it.title("a first stream");
    let rich_members = [members(80, 1..4, Some("6b1e")), members(443, 1..3, None)].concat();
    it.set(key("rich"), Some(wanted(1, rich(false), rich_members.clone())));
    it.set(key("plain"), Some(wanted(1, plain(), Vec::new())));
    it.set(key("large"), Some(wanted(1, plain(), members(80, 0..300, None))));
    it.ends.connect();
    it.pump();
    it.title("the status names what exists; members come and go; an owner is going");
    it.set(key("rich"), Some(wanted(1, rich(true), rich_members)));
    it.set(key("large"), Some(wanted(2, plain(), members(80, 10..310, None))));
    it.set(key("plain"), Some(DesiredEntry::Deleting { owner: "uid-2".into() }));
    it.pump();
    it.title("a reconnect with nothing changed");
    it.ends.connect();
    it.pump();
    it.title("goodbye");
    it.ends.agent.goodbye(GoodbyeReason::Shutdown, "the controller ends");
    it.pump();
    it.end()
}

/// A router with every kind of route.
fn router() -> LoadBalancerHeader {
    let pool = |id: &str, name: &str| RoutedPool { id: id.into(), name: name.into() };
    let route = |host, path, to| Route {
        listener: ListenerId { protocol: Protocol::Tcp, port: 80 },
        host,
        path,
        to,
        name: "shop/front".into(),
    };
    let host = HostMatch::Exact("shop.example.com".into());
    let routing = Routing {
        pools: [pool("shop/api/8080", "shop_api"), pool("shop/web/80", "shop_web_80")].into(),
        default: Some("shop/web/80".into()),
        routes: [
            route(host.clone(), PathMatch::Exact("/health".into()), RouteTarget::Pool("shop/api/8080".into())),
            route(host.clone(), PathMatch::Prefix("/api".into()), RouteTarget::Pool("shop/api/8080".into())),
            route(host, PathMatch::Any, RouteTarget::Pool("shop/web/80".into())),
            route(
                HostMatch::Wildcard("example.com".into()),
                PathMatch::Any,
                RouteTarget::Redirect("https://shop.example.com".into()),
            ),
            route(HostMatch::Any, PathMatch::Prefix("/web".into()), RouteTarget::Pool("shop/web/80".into())),
        ]
        .into(),
        certificates: [CertificateWish { secret: "shop/web-tls".into(), hash: CertificateHash::from_bytes([7; 32]) }]
            .into(),
    };
    LoadBalancerHeader { owner: "uid-3".into(), routing: Some(Box::new(routing)), ..plain() }
}

fn routed(pool: &str, hosts: std::ops::Range<u16>) -> Vec<DesiredMember> {
    let in_pool = |member: DesiredMember| {
        let id = MemberId { pool: PoolId::Service(pool.into()), ..member.id };
        DesiredMember { id, ..member }
    };
    members(80, hosts, None).into_iter().map(in_pool).collect()
}

fn routers() -> String {
    let key = DesiredKey::new(DesiredKind::L7Router, "gimbal", "router");
    let mut it = Recorder::new();
    it.title("a router");
    let first = [routed("shop/api/8080", 1..4), routed("shop/web/80", 4..6)].concat();
    it.set(key.clone(), Some(wanted(1, router(), first)));
    it.ends.connect();
    it.pump();
    it.title("members of two pools come and go");
    let second = [routed("shop/api/8080", 2..5), routed("shop/web/80", 3..5)].concat();
    it.set(key.clone(), Some(wanted(1, router(), second)));
    it.pump();
    it.title("a pool goes, and the routes that lead there");
    let mut header = router();
    let routing = header.routing.as_mut().unwrap();
    let is_web = |text: &str| text == "shop/web/80";
    routing.default = None;
    routing.pools = routing.pools.iter().filter(|pool| !is_web(&pool.id)).cloned().collect();
    let leads_to_web = |route: &Route| matches!(&route.to, RouteTarget::Pool(pool) if is_web(pool));
    routing.routes = routing.routes.iter().filter(|route| !leads_to_web(route)).cloned().collect();
    it.set(key, Some(wanted(2, header, routed("shop/api/8080", 2..5))));
    it.pump();
    it.end()
}

fn compare(file: &str, recorded: &str, text: &str) {
    if std::env::var("GOLDEN").is_ok_and(|mode| mode == "write") {
        let path = format!("{}/tests/wire/golden/{file}", env!("CARGO_MANIFEST_DIR"));
        return std::fs::write(path, text).unwrap();
    }
    for (recorded, line) in recorded.lines().zip(text.lines()) {
        assert_eq!(recorded, line, "{file}");
    }
    assert_eq!(recorded.lines().count(), text.lines().count(), "{file}");
}

#[test]
fn a_recorded_session_stays_byte_for_byte() {
    compare("session.txt", include_str!("golden/session.txt"), &session());
}

#[test]
fn a_recorded_session_with_a_router_stays_byte_for_byte() {
    compare("routers.txt", include_str!("golden/routers.txt"), &routers());
}
