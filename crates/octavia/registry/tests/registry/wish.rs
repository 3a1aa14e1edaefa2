//! What clusters of the tests want.

use std::sync::Arc;

use gimbal_kuryr_model::{
    Balancing, CertificateHash, CertificateWish, ClientRanges, CloudFacts, DesiredEntry, DesiredKey, DesiredKind,
    DesiredLoadBalancer, DesiredMember, DesiredMembers, ExternalNetwork, FloatingWish, HealthMonitor, HostMatch,
    ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader, LoadBalancerPlacement, MemberId, MemberMode,
    MonitorKind, PathMatch, PoolId, ProviderAbilities, Route, RouteTarget, RoutedPool, Routing, SharedGroup,
    SubnetFacts, Text, Timeouts, VipWish,
};
use gimbal_model::{Family, Protocol};
use gimbal_octavia_sim::{CloudModel, Provider};

/// A wish that tests change before they make an entry of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    pub owner: String,
    pub generation: i64,
    pub known: bool,
    pub project: String,
    pub subnet: String,
    pub address: Option<String>,
    pub flavor: Option<&'static str>,
    pub from_outside: bool,
    pub floating: bool,
    pub floating_address: Option<String>,
    pub monitored: bool,
    pub clients: ClientRanges,
    pub ports: Vec<u16>,
    /// The last byte of an address, and the port of the listener.
    pub members: Vec<(u8, u16)>,
    pub deleting: bool,
    /// The group that it shares a load balancer with, and when it was created.
    pub group: Option<(String, u32)>,
    /// The load balancer that it is to have.
    pub adopt: Option<String>,
    /// A router's routes from port 80: a host, the beginning of paths, which may be empty, and the Service that they lead to. Each
    /// Service has all members.
    pub routes: Vec<(&'static str, &'static str, &'static str)>,
    /// What stands for a router's certificates, each in a Secret of its own. With any, port 443 has the same routes.
    pub certificates: Vec<u8>,
}

impl Wish {
    pub fn new(owner: &str, subnet: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            generation: 1,
            known: false,
            project: "p1".to_owned(),
            subnet: subnet.to_owned(),
            address: None,
            flavor: None,
            from_outside: false,
            floating: false,
            floating_address: None,
            monitored: false,
            clients: ClientRanges::Everyone,
            ports: vec![80],
            members: vec![(1, 80), (2, 80), (3, 80)],
            deleting: false,
            group: None,
            adopt: None,
            routes: Vec::new(),
            certificates: Vec::new(),
        }
    }

    pub fn entry(&self) -> DesiredEntry {
        if self.deleting {
            return DesiredEntry::Deleting { owner: self.owner.as_str().into() };
        }
        let listener = |port: &u16| ListenerWish {
            id: ListenerId::new(Protocol::Tcp, *port),
            kind: match *port {
                _ if self.routes.is_empty() => ListenerKind::Plain,
                443 => ListenerKind::TerminatedHttps,
                _ => ListenerKind::Http,
            },
            name: None,
        };
        let mut header = LoadBalancerHeader {
            owner: self.owner.as_str().into(),
            known: self.known,
            placement: LoadBalancerPlacement {
                project: self.project.as_str().into(),
                flavor: self.flavor.map(Into::into),
                ..Default::default()
            },
            vip: VipWish {
                subnet: Some(self.subnet.as_str().into()),
                address: self.address.as_ref().map(|address| address.parse().unwrap()),
                from_outside: self.from_outside,
                ..VipWish::default()
            },
            floating: self.floating.then(|| {
                let address = self.floating_address.as_ref().map(|address| address.parse().unwrap());
                Box::new(FloatingWish { address, ..FloatingWish::default() })
            }),
            listeners: self.ports.iter().map(listener).collect(),
            clients: self.clients.clone(),
            balancing: Balancing {
                family: Family::V4,
                members: MemberMode::Pod,
                algorithm: None,
                affinity_seconds: None,
                proxy: None,
            },
            timeouts: Timeouts::default(),
            monitor: self.monitored.then(|| Box::new(monitor())),
            tls_containers: Box::default(),
            shared_group: self.group.as_ref().map(|(name, created)| {
                Box::new(SharedGroup { name: name.as_str().into(), created: Some(format!("{created:04}").into()) })
            }),
            adopt: self.adopt.as_deref().map(Into::into),
            routing: (!self.routes.is_empty())
                .then(|| Box::new(routing(&self.routes, &self.ports, &self.certificates))),
        };
        header.sort();
        let pools = header.routing.as_deref().map(|routing| routing.pools.clone());
        let member = |(host, port): &(u8, u16)| {
            self.ports.contains(port).then(|| DesiredMember {
                id: MemberId {
                    pool: ListenerId::new(Protocol::Tcp, *port).into(),
                    address: std::net::Ipv4Addr::new(10, 1, 0, *host).into(),
                    port: 8080,
                },
                weight: 1,
                name: Some("shop/web".into()),
                subnet: None,
            })
        };
        let members = self.members.iter().filter_map(member);
        let members: Vec<DesiredMember> = match pools {
            None => members.collect(),
            Some(pools) => {
                members.flat_map(|member| pools.iter().map(move |pool| in_pool(&pool.id, &member))).collect()
            }
        };
        let members = DesiredMembers::new(members);
        DesiredEntry::LoadBalancer(DesiredLoadBalancer {
            generation: self.generation,
            header: Arc::new(header),
            members,
        })
    }

    /// Returns what clients must find: the ports, and the members behind each.
    pub fn forwards(&self) -> Vec<(u16, Vec<String>)> {
        let mut all: Vec<_> = self
            .ports
            .iter()
            .map(|port| {
                // A router's listener leads nowhere by itself.
                let of = self.members.iter().filter(|(_, at)| at == port && self.routes.is_empty());
                let mut members: Vec<String> = of.map(|(host, _)| format!("10.1.0.{host}")).collect();
                members.sort();
                (*port, members)
            })
            .collect();
        all.sort();
        all
    }
}

fn routing(routes: &[(&str, &str, &str)], ports: &[u16], certificates: &[u8]) -> Routing {
    let id = |service: &str| Text::from(format!("shop/{service}/80"));
    let pool =
        |(_, _, service): &(&str, &str, &str)| RoutedPool { id: id(service), name: format!("shop_{service}").into() };
    let route = |(port, (host, path, service)): (&u16, &(&str, &str, &str))| Route {
        listener: ListenerId::new(Protocol::Tcp, *port),
        host: HostMatch::Exact((*host).into()),
        path: if path.is_empty() { PathMatch::Any } else { PathMatch::Prefix((*path).into()) },
        to: RouteTarget::Pool(id(service)),
        name: format!("shop/front-{}", host.split('.').next().unwrap_or_default()).into(),
    };
    Routing {
        pools: routes.iter().map(pool).collect(),
        default: None,
        routes: ports.iter().flat_map(|port| routes.iter().map(move |route| (port, route))).map(route).collect(),
        certificates: certificates.iter().map(|one| certificate(*one)).collect(),
    }
}

/// Returns what stands for a certificate, in a Secret of its own.
pub fn certificate(content: u8) -> CertificateWish {
    let secret = format!("shop/tls{}", content % 2).into();
    CertificateWish { secret, hash: CertificateHash::from_bytes([content; 32]) }
}

fn in_pool(pool: &Text, member: &DesiredMember) -> DesiredMember {
    let id = MemberId { pool: PoolId::Service(pool.clone()), ..member.id.clone() };
    DesiredMember { id, ..member.clone() }
}

fn monitor() -> HealthMonitor {
    let (port, path, codes) = (None, None, None);
    HealthMonitor { kind: MonitorKind::Connect, port, delay: 10, timeout: 5, rise: 2, fall: 3, path, codes }
}

/// Returns the entry of an owner that goes.
pub fn going(owner: &str) -> DesiredEntry {
    DesiredEntry::Deleting { owner: owner.into() }
}

pub fn router_key() -> DesiredKey {
    DesiredKey::new(DesiredKind::L7Router, "gimbal", "router")
}

pub fn key(namespace: &str, name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, namespace, name)
}

/// Returns what a load balancer of the model forwards, in the same form.
pub fn forwarded(cloud: &CloudModel, balancer: &str) -> Vec<(u16, Vec<String>)> {
    let mut all: Vec<_> = cloud
        .forwards(balancer)
        .iter()
        .map(|one| {
            let mut members: Vec<String> = one.targets.iter().map(|target| target.address.clone()).collect();
            members.sort();
            (one.port, members)
        })
        .collect();
    all.sort();
    all
}

/// Returns a cloud with a subnet for VIPs and an external network, what is known about it, and the subnet.
pub fn cloud(provider: Provider) -> (CloudModel, CloudFacts, String) {
    let mut cloud = CloudModel::with_provider(provider);
    let subnet = cloud.add_subnet("10.0.0.0/16");
    let outside = cloud.add_subnet("203.0.113.0/24");
    let mut facts = CloudFacts::default();
    let known = SubnetFacts {
        network: cloud.network_of(&subnet).unwrap().into(),
        cidr: "10.0.0.0/16".parse().unwrap(),
        name: "vips".into(),
        tags: [].into(),
        mtu: 1500,
    };
    facts.subnets.insert(subnet.as_str().into(), known);
    let network = cloud.network_of(&outside).unwrap().into();
    facts.external = Some(ExternalNetwork { network, ..ExternalNetwork::default() });
    facts.provider = Some("lab".into());
    facts.providers.insert("lab".into(), ProviderAbilities::default());
    (cloud, facts, subnet)
}
