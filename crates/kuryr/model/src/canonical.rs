//! The canonical byte form that digests are computed over. Every text and list is preceded by its length, and every optional
//! value by whether it is set, so two different values never have the same form.

use std::net::IpAddr;

use gimbal_model::{Digest, Family, Protocol};
use sha2::{Digest as _, Sha256};

use crate::{
    Algorithm, Balancing, CertificateWish, ClientRanges, DesiredKey, DesiredKind, DesiredMember, FloatingWish,
    HealthMonitor, HostMatch, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader, LoadBalancerPlacement,
    MemberId, MemberMode, MonitorKind, PathMatch, PoolId, ProxyVersion, Route, RouteTarget, RoutedPool, Routing,
    SharedGroup, Text, Timeouts, VipWish,
};

pub(crate) fn header(key: &DesiredKey, header: &LoadBalancerHeader) -> Digest {
    let mut form = Form::new(1, key);
    form.header(header);
    form.finish()
}

pub(crate) fn generation(key: &DesiredKey, generation: i64) -> Digest {
    let mut form = Form::new(2, key);
    form.bytes(&generation.to_be_bytes());
    form.finish()
}

pub(crate) fn member(key: &DesiredKey, member: &DesiredMember) -> Digest {
    let mut form = Form::new(3, key);
    let DesiredMember { id: MemberId { pool, address, port }, weight, name, subnet } = member;
    form.pool_id(pool);
    form.address(*address);
    form.bytes(&port.to_be_bytes());
    form.bytes(&[*weight]);
    form.option_text(name.as_ref());
    form.option_text(subnet.as_ref());
    form.finish()
}

pub(crate) fn deleting(key: &DesiredKey, owner: &str) -> Digest {
    let mut form = Form::new(4, key);
    form.text(owner);
    form.finish()
}

struct Form(Sha256);

impl Form {
    /// `part` makes the parts of an entry differ.
    fn new(part: u8, key: &DesiredKey) -> Self {
        let mut form = Self(Sha256::new());
        let kind = match key.kind {
            DesiredKind::LoadBalancer => 1,
            DesiredKind::L7Router => 2,
            DesiredKind::Port => 3,
            DesiredKind::Network => 4,
            DesiredKind::SecurityGroup => 5,
        };
        form.bytes(&[part, kind]);
        form.text(&key.namespace);
        form.text(&key.name);
        form
    }

    /// The first 16 bytes of the hash.
    fn finish(self) -> Digest {
        let hash = self.0.finalize();
        let mut first = [0; 16];
        first.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Digest::from_bytes(first)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn number(&mut self, number: usize) {
        self.bytes(&(number as u64).to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.bytes(text.as_bytes());
    }

    fn texts(&mut self, texts: &[Text]) {
        self.number(texts.len());
        texts.iter().for_each(|text| self.text(text));
    }

    fn flag(&mut self, flag: bool) {
        self.bytes(&[u8::from(flag)]);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn option_text(&mut self, text: Option<&Text>) {
        self.option(text, |form, text| form.text(text));
    }

    fn option_u32(&mut self, number: Option<u32>) {
        self.option(number, |form, number| form.bytes(&number.to_be_bytes()));
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.bytes(&[4]);
                self.bytes(&address.octets());
            }
            IpAddr::V6(address) => {
                self.bytes(&[6]);
                self.bytes(&address.octets());
            }
        }
    }

    fn listener_id(&mut self, id: ListenerId) {
        let ListenerId { protocol, port } = id;
        let protocol = match protocol {
            Protocol::Tcp => 1,
            Protocol::Udp => 2,
            Protocol::Sctp => 3,
        };
        self.bytes(&[protocol]);
        self.bytes(&port.to_be_bytes());
    }

    /// The pool of a listener has the form of the listener, in which no protocol is 0.
    fn pool_id(&mut self, pool: &PoolId) {
        match pool {
            PoolId::Listener(id) => self.listener_id(*id),
            PoolId::Service(id) => {
                self.bytes(&[0]);
                self.text(id);
            }
        }
    }

    fn header(&mut self, header: &LoadBalancerHeader) {
        // No field may be missing from the digest: a change of it would never be sent.
        let LoadBalancerHeader {
            owner,
            known,
            placement,
            vip,
            floating,
            listeners,
            clients,
            balancing,
            timeouts,
            monitor,
            tls_containers,
            shared_group,
            adopt,
            routing,
        } = header;
        self.text(owner);
        self.flag(*known);
        let LoadBalancerPlacement { project, provider, flavor, availability_zone } = placement;
        self.text(project);
        [provider, flavor, availability_zone].into_iter().for_each(|text| self.option_text(text.as_ref()));
        self.vip(vip);
        self.option(floating.as_deref(), |form, floating| {
            let FloatingWish { network, subnet, address, keep } = floating;
            form.option_text(network.as_ref());
            form.option_text(subnet.as_ref());
            form.option(*address, Self::address);
            form.flag(*keep);
        });
        self.number(listeners.len());
        for ListenerWish { id, kind, name } in listeners {
            self.listener_id(*id);
            let kind = match kind {
                ListenerKind::Plain => 1,
                ListenerKind::Http => 2,
                ListenerKind::TerminatedHttps => 3,
            };
            self.bytes(&[kind]);
            self.option_text(name.as_ref());
        }
        self.clients(clients);
        self.balancing(balancing);
        let Timeouts { client_data, member_data, member_connect, tcp_inspect, connection_limit } = timeouts;
        for timeout in [client_data, member_data, member_connect, tcp_inspect] {
            self.option_u32(*timeout);
        }
        self.option(*connection_limit, |form, limit| form.bytes(&limit.to_be_bytes()));
        self.option(monitor.as_deref(), Self::monitor);
        self.texts(tls_containers);
        self.option(shared_group.as_deref(), |form, SharedGroup { name, created }| {
            form.text(name);
            form.option_text(created.as_ref());
        });
        self.option_text(adopt.as_ref());
        // Nothing is written where there is none, so that the digests of other load balancers are those of before there were routers.
        if let Some(routing) = routing.as_deref() {
            self.routing(routing);
        }
    }

    fn vip(&mut self, vip: &VipWish) {
        let VipWish {
            subnet,
            network,
            port,
            address,
            additional_subnets,
            additional_addresses,
            security_groups,
            from_outside,
        } = vip;
        [subnet, network, port].into_iter().for_each(|text| self.option_text(text.as_ref()));
        self.option(*address, Self::address);
        self.texts(additional_subnets);
        self.number(additional_addresses.len());
        additional_addresses.iter().for_each(|address| self.address(*address));
        self.texts(security_groups);
        self.flag(*from_outside);
    }

    fn clients(&mut self, clients: &ClientRanges) {
        match clients {
            ClientRanges::Everyone => self.bytes(&[0]),
            ClientRanges::NoOne => self.bytes(&[1]),
            ClientRanges::Only(ranges) => {
                self.bytes(&[2]);
                self.number(ranges.len());
                for range in ranges {
                    self.address(range.addr());
                    self.bytes(&[range.prefix_len()]);
                }
            }
        }
    }

    fn balancing(&mut self, balancing: &Balancing) {
        let Balancing { family, members, algorithm, affinity_seconds, proxy } = balancing;
        self.bytes(&[match family {
            Family::V4 => 4,
            Family::V6 => 6,
        }]);
        self.bytes(&[match members {
            MemberMode::Pod => 0,
            MemberMode::Node => 1,
        }]);
        self.bytes(&[match algorithm {
            None => 0,
            Some(Algorithm::RoundRobin) => 1,
            Some(Algorithm::LeastConnections) => 2,
            Some(Algorithm::SourceIp) => 3,
            Some(Algorithm::SourceIpPort) => 4,
        }]);
        self.option_u32(*affinity_seconds);
        self.bytes(&[match proxy {
            None => 0,
            Some(ProxyVersion::V1) => 1,
            Some(ProxyVersion::V2) => 2,
        }]);
    }

    fn monitor(&mut self, monitor: &HealthMonitor) {
        let HealthMonitor { kind, port, delay, timeout, rise, fall, path, codes } = monitor;
        self.bytes(&[match kind {
            MonitorKind::Connect => 1,
            MonitorKind::Http => 2,
            MonitorKind::Https => 3,
            MonitorKind::TlsHello => 4,
            MonitorKind::Ping => 5,
        }]);
        self.option(*port, |form, port| form.bytes(&port.to_be_bytes()));
        self.bytes(&delay.to_be_bytes());
        self.bytes(&timeout.to_be_bytes());
        self.bytes(&[*rise, *fall]);
        self.option_text(path.as_ref());
        self.option_text(codes.as_ref());
    }
    fn routing(&mut self, routing: &Routing) {
        let Routing { pools, default, routes, certificates } = routing;
        self.number(pools.len());
        for RoutedPool { id, name } in pools {
            self.text(id);
            self.text(name);
        }
        self.option_text(default.as_ref());
        self.number(routes.len());
        for Route { listener, host, path, to, name } in routes {
            self.listener_id(*listener);
            let host = match host {
                HostMatch::Any => (0, None),
                HostMatch::Exact(host) => (1, Some(host)),
                HostMatch::Wildcard(host) => (2, Some(host)),
            };
            let path = match path {
                PathMatch::Any => (0, None),
                PathMatch::Exact(path) => (1, Some(path)),
                PathMatch::Prefix(path) => (2, Some(path)),
            };
            let to = match to {
                RouteTarget::Pool(pool) => (1, Some(pool)),
                RouteTarget::Redirect(prefix) => (2, Some(prefix)),
            };
            for (kind, text) in [host, path, to] {
                self.bytes(&[kind]);
                self.option_text(text);
            }
            self.text(name);
        }
        // Nothing is written without one, for a peer that knows no certificates.
        if !certificates.is_empty() {
            self.number(certificates.len());
            for CertificateWish { secret, hash } in certificates {
                self.text(secret);
                self.bytes(hash.as_bytes());
            }
        }
    }
}
