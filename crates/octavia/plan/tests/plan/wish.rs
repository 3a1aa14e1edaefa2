//! What tests want.

use std::sync::Arc;

use gimbal_kuryr_model::{
    Algorithm, Balancing, ClientRanges, CloudFacts, DesiredEntry, DesiredLoadBalancer, DesiredMember, DesiredMembers,
    ExternalNetwork, FloatingWish, HealthMonitor, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader,
    LoadBalancerPlacement, MemberId, MemberMode, MonitorKind, ProviderAbilities, ProxyVersion, SubnetFacts, Text,
    Timeouts, VipWish,
};
use gimbal_model::{Family, Protocol};
use gimbal_octavia_sim::{CloudModel, Provider};

/// A wish that tests change before they make an entry of it.
#[derive(Debug, Clone)]
pub struct Wish {
    pub owner: &'static str,
    pub generation: i64,
    pub known: bool,
    pub subnet: String,
    pub address: Option<&'static str>,
    /// The port that the VIP is to have.
    pub vip_port: Option<String>,
    pub from_outside: bool,
    pub project: &'static str,
    pub flavor: Option<&'static str>,
    pub provider: Option<&'static str>,
    pub floating: bool,
    pub floating_address: Option<&'static str>,
    pub floating_network: Option<Text>,
    pub keep: bool,
    /// A second subnet, and the address in it.
    pub second: Option<(String, &'static str)>,
    pub member_subnet: Option<String>,
    /// Security groups of the VIP's port.
    pub groups: Vec<String>,
    pub adopt: Option<String>,
    pub timeout: Option<u32>,
    pub connection_limit: Option<i32>,
    pub algorithm: Option<Algorithm>,
    pub ports: Vec<(Protocol, u16)>,
    pub http: bool,
    /// References of certificates; with any, TLS ends at the listeners.
    pub tls: Vec<String>,
    pub proxy: bool,
    pub clients: ClientRanges,
    pub monitor: bool,
    /// Whether the monitor speaks HTTP; else it only connects.
    pub monitor_http: bool,
    /// The path that it asks for, and the codes that are right.
    pub monitor_path: Option<(&'static str, &'static str)>,
    /// The last byte of an address, the port of the listener, and the weight.
    pub members: Vec<(u8, u16, u8)>,
    /// The name of each member.
    pub member_name: String,
}

impl Wish {
    pub fn new(subnet: &str) -> Self {
        Self {
            owner: "u1",
            generation: 1,
            known: false,
            subnet: subnet.to_owned(),
            address: None,
            vip_port: None,
            from_outside: false,
            project: "p1",
            flavor: None,
            provider: None,
            floating: false,
            floating_address: None,
            floating_network: None,
            keep: false,
            second: None,
            member_subnet: None,
            groups: Vec::new(),
            adopt: None,
            timeout: None,
            connection_limit: None,
            algorithm: None,
            ports: vec![(Protocol::Tcp, 80)],
            http: false,
            tls: Vec::new(),
            proxy: false,
            clients: ClientRanges::Everyone,
            monitor: false,
            monitor_http: false,
            monitor_path: None,
            members: vec![(1, 80, 1), (2, 80, 1), (3, 80, 1)],
            member_name: "shop/web".to_owned(),
        }
    }

    /// From inside a Service is reached at its cluster IP.
    pub fn at_its_address(&mut self) {
        self.address = (!self.from_outside).then_some("10.0.0.50");
    }

    pub fn deleting(&self) -> DesiredEntry {
        DesiredEntry::Deleting { owner: self.owner.into() }
    }

    pub fn entry(&self) -> DesiredEntry {
        let kind = match (self.tls.is_empty(), self.http) {
            (false, _) => ListenerKind::TerminatedHttps,
            (true, true) => ListenerKind::Http,
            (true, false) => ListenerKind::Plain,
        };
        let listener = |(protocol, port): &(Protocol, u16)| ListenerWish {
            id: ListenerId::new(*protocol, *port),
            kind: if *protocol == Protocol::Tcp { kind } else { ListenerKind::Plain },
            name: None,
        };
        let monitor = HealthMonitor {
            kind: if self.monitor_http { MonitorKind::Http } else { MonitorKind::Connect },
            port: None,
            delay: 5,
            timeout: 3,
            rise: 2,
            fall: 3,
            path: self.monitor_path.map(|(path, _)| path.into()),
            codes: self.monitor_path.map(|(_, codes)| codes.into()),
        };
        let floating = FloatingWish {
            address: self.floating_address.map(|address| address.parse().unwrap()),
            keep: self.keep,
            network: self.floating_network.clone(),
            ..FloatingWish::default()
        };
        let mut header = LoadBalancerHeader {
            owner: self.owner.into(),
            known: self.known,
            placement: LoadBalancerPlacement {
                project: self.project.into(),
                flavor: self.flavor.map(Into::into),
                provider: self.provider.map(Into::into),
                ..LoadBalancerPlacement::default()
            },
            vip: VipWish {
                subnet: Some(self.subnet.as_str().into()),
                address: self.address.map(|address| address.parse().unwrap()),
                port: self.vip_port.as_deref().map(Into::into),
                from_outside: self.from_outside,
                security_groups: self.groups.iter().map(|one| one.as_str().into()).collect(),
                additional_subnets: self.second.iter().map(|(subnet, _)| subnet.as_str().into()).collect(),
                additional_addresses: self.second.iter().map(|(_, address)| address.parse().unwrap()).collect(),
                ..VipWish::default()
            },
            floating: self.floating.then(|| Box::new(floating)),
            listeners: self.ports.iter().map(listener).collect(),
            clients: self.clients.clone(),
            balancing: Balancing {
                family: Family::V4,
                members: MemberMode::Pod,
                algorithm: self.algorithm,
                affinity_seconds: None,
                proxy: self.proxy.then_some(ProxyVersion::V1),
            },
            timeouts: Timeouts {
                client_data: self.timeout,
                connection_limit: self.connection_limit,
                ..Timeouts::default()
            },
            monitor: self.monitor.then(|| Box::new(monitor)),
            tls_containers: self.tls.iter().map(|one| one.as_str().into()).collect(),
            shared_group: None,
            adopt: self.adopt.as_deref().map(Into::into),
            routing: None,
        };
        header.sort();
        let behind = |&(protocol, number): &(Protocol, u16)| {
            let listener = ListenerId::new(protocol, number);
            let member = move |(host, _, weight): &(u8, u16, u8)| {
                let address = std::net::Ipv4Addr::new(10, 1, 0, *host).into();
                DesiredMember {
                    id: MemberId { pool: listener.into(), address, port: 8080 },
                    weight: *weight,
                    name: Some(self.member_name.as_str().into()),
                    subnet: self.member_subnet.as_deref().map(Into::into),
                }
            };
            self.members.iter().filter(move |(_, at, _)| *at == number).map(member).collect::<Vec<_>>()
        };
        let members = DesiredMembers::new(self.ports.iter().flat_map(behind).collect());
        DesiredEntry::LoadBalancer(DesiredLoadBalancer {
            generation: self.generation,
            header: Arc::new(header),
            members,
        })
    }

    /// Returns what clients must find: the port, whether it is open, and the members with their weights.
    pub fn forwards(&self) -> Vec<(u16, Vec<(String, u16)>)> {
        let closed = self.clients == ClientRanges::NoOne;
        let mut all: Vec<_> = self
            .ports
            .iter()
            .filter(|_| !closed)
            .map(|(_, port)| {
                let of = self.members.iter().filter(|(_, at, _)| at == port);
                let mut members: Vec<(String, u16)> =
                    of.map(|(host, _, weight)| (format!("10.1.0.{host}"), u16::from(*weight))).collect();
                members.sort();
                (*port, members)
            })
            .collect();
        all.sort();
        all
    }
}

/// Returns what a load balancer of the model forwards, in the same form.
pub fn forwarded(cloud: &CloudModel, balancer: &str) -> Vec<(u16, Vec<(String, u16)>)> {
    let mut all: Vec<_> = cloud
        .forwards(balancer)
        .iter()
        .map(|one| {
            let mut members: Vec<(String, u16)> =
                one.targets.iter().map(|target| (target.address.clone(), target.weight)).collect();
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
    let subnet = cloud.add_subnet("10.0.0.0/24");
    let outside = cloud.add_subnet("203.0.113.0/24");
    let mut facts = CloudFacts::default();
    let known = SubnetFacts {
        network: cloud.network_of(&subnet).unwrap().into(),
        cidr: "10.0.0.0/24".parse().unwrap(),
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
