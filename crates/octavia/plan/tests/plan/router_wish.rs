//! Routers that tests want, and who is to answer a request.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use gimbal_kuryr_model::{
    CertificateHash, CertificateWish, DesiredEntry, DesiredLoadBalancer, DesiredMember, DesiredMembers, HostMatch,
    ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader, MemberId, PathMatch, PoolId, Route, RouteTarget,
    RoutedPool, Routing,
};
use gimbal_model::Protocol;
use gimbal_octavia_plan::RouteObstacle;
use gimbal_octavia_sim::{Answered, Provider};
use serde_json::Value;

use crate::executor::World;
use crate::wish::{Wish, cloud};

pub const HOSTS: [&str; 5] = ["a.test", "b.test:8080", "A.test:80", "x.a.test", "c.other"];
pub const PATHS: [&str; 5] = ["/", "/a", "/a/b", "/ab", "/c?a=/a"];

/// The target of what is answered with 503.
pub const NOBODY: &str = "_";

/// Host, path and target: `*.a.test`, `=/a` for exactly this path, the name of a Service or an address.
pub type WantedRoute = (&'static str, &'static str, &'static str);

/// Where requests go: the name of a Service with the number of members that take them, an address, or a status.
pub type Answers = BTreeMap<(&'static str, &'static str), String>;

/// A router that tests change before they make an entry of it.
#[derive(Debug, Clone)]
pub struct RouterWish {
    pub base: Wish,
    pub routes: Vec<WantedRoute>,
    pub default: Option<&'static str>,
    /// By Service: the last bytes of its members' addresses.
    pub members: BTreeMap<&'static str, Vec<u8>>,
    /// What is put behind the names of pools.
    pub suffix: &'static str,
    /// Secrets of the cluster, and numbers that stand for what is in them. With any, port 443 has the same routes.
    pub certificates: Vec<(&'static str, u8)>,
    /// A host that has routes at port 80 alone, whatever certificates there are.
    pub without_https: Option<&'static str>,
    /// Whether clients that come over HTTP are sent to HTTPS.
    pub redirects: bool,
    /// Whose all routes are; unset: each is of an owner of its own.
    pub owner: Option<&'static str>,
    /// Whether that is one in the namespace that the first part of the host names.
    pub by_host: bool,
}

/// Returns what stands for a certificate in a Secret.
pub fn certificate(secret: &str, content: u8) -> CertificateWish {
    CertificateWish { secret: secret.into(), hash: CertificateHash::from_bytes([content; 32]) }
}

impl RouterWish {
    pub fn new(subnet: &str, routes: &[WantedRoute]) -> Self {
        let mut base = Wish::new(subnet);
        (base.http, base.members) = (true, Vec::new());
        Self {
            base,
            routes: routes.to_vec(),
            default: None,
            members: BTreeMap::new(),
            suffix: "",
            certificates: Vec::new(),
            without_https: None,
            redirects: false,
            owner: None,
            by_host: false,
        }
    }

    /// The Services that are led to.
    fn services(&self) -> Vec<&'static str> {
        let to = self.routes.iter().map(|(_, _, to)| *to).filter(|to| !to.starts_with("https://"));
        let mut all: Vec<&str> = to.chain(self.default).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn members_of(&self, service: &str) -> Vec<u8> {
        let usual = || if service == NOBODY { Vec::new() } else { vec![1, 2] };
        self.members.get(service).cloned().unwrap_or_else(usual)
    }

    pub fn entry(&self) -> DesiredEntry {
        let DesiredEntry::LoadBalancer(plain) = self.base.entry() else { panic!() };
        let id = |service: &str| match service {
            NOBODY => RoutedPool::empty_id("shop"),
            service => format!("shop/{service}/80").into(),
        };
        let name = |service: &str| format!("shop_{service}{}", self.suffix).into();
        let pools = self.services().into_iter().map(|one| RoutedPool { id: id(one), name: name(one) });
        let listeners = [80, 443].into_iter().filter(|port| *port == 80 || !self.certificates.is_empty());
        let listeners = listeners.map(|port| ListenerId::new(Protocol::Tcp, port));
        let routes = listeners.flat_map(|listener| self.routes.iter().map(move |route| (listener, route)));
        let routes = routes.filter(|(listener, (host, ..))| listener.port == 80 || self.without_https != Some(*host));
        let routes = routes.map(|(listener, (host, path, to))| Route {
            listener,
            host: match host.strip_prefix("*.") {
                _ if host.is_empty() => HostMatch::Any,
                Some(parent) => HostMatch::Wildcard(parent.into()),
                None => HostMatch::Exact((*host).into()),
            },
            path: match path.strip_prefix('=') {
                _ if path.is_empty() => PathMatch::Any,
                Some(exact) => PathMatch::Exact(exact.into()),
                None => PathMatch::Prefix((*path).into()),
            },
            to: match to.starts_with("https://") {
                true => RouteTarget::Redirect((*to).into()),
                false if self.redirects && listener.port == 80 => {
                    RouteTarget::Redirect(format!("https://{host}").into())
                }
                false => RouteTarget::Pool(id(to)),
            },
            name: match (self.owner, host.split_once('.')) {
                (Some(owner), _) => owner.into(),
                (None, Some((namespace, _))) if self.by_host => format!("{namespace}/web").into(),
                (None, _) => format!("shop{host}{path}").into(),
            },
        });
        let routing = Routing {
            pools: pools.collect(),
            default: self.default.map(id),
            routes: routes.collect(),
            certificates: self.certificates.iter().map(|(secret, content)| certificate(secret, *content)).collect(),
        };
        let mut header =
            LoadBalancerHeader { routing: Some(Box::new(routing)), ..LoadBalancerHeader::clone(&plain.header) };
        if !self.certificates.is_empty() {
            let id = ListenerId::new(Protocol::Tcp, 443);
            let https = ListenerWish { id, kind: ListenerKind::TerminatedHttps, name: None };
            header.listeners = header.listeners.iter().cloned().chain([https]).collect();
        }
        header.sort();
        let members = self.services().into_iter().flat_map(|service| {
            let pool = PoolId::Service(id(service));
            let member = move |host: u8| DesiredMember {
                id: MemberId { pool: pool.clone(), address: Ipv4Addr::new(10, 1, 0, host).into(), port: 8080 },
                weight: 1,
                name: None,
                subnet: None,
            };
            self.members_of(service).into_iter().map(member)
        });
        let members = DesiredMembers::new(members.collect());
        DesiredEntry::LoadBalancer(DesiredLoadBalancer { header: Arc::new(header), members, ..plain })
    }

    /// Who is to answer: those that send clients elsewhere come before the others.
    pub fn answers(&self) -> Answers {
        let (elsewhere, pools): (Vec<&WantedRoute>, Vec<&WantedRoute>) =
            self.routes.iter().partition(|(_, _, to)| to.starts_with("https://"));
        let ordered: Vec<&WantedRoute> = elsewhere.into_iter().chain(pools).collect();
        let led = |(host, path): (&str, &str)| {
            let to = ordered.iter().find(|route| takes(route, host, path)).map(|(_, _, to)| *to);
            match to.or(self.default) {
                None => "503".to_owned(),
                Some(to) if to.starts_with("https://") => to.to_owned(),
                Some(service) => service.to_owned(),
            }
        };
        requests().map(|request| (request, led(request))).collect()
    }
}

fn takes((wanted_host, wanted_path, _): &WantedRoute, host: &str, path: &str) -> bool {
    let host = host.split(':').next().unwrap().to_ascii_lowercase();
    let path = path.split('?').next().unwrap();
    let by_host = match wanted_host.strip_prefix("*.") {
        _ if wanted_host.is_empty() => true,
        Some(parent) => host.split_once('.').is_some_and(|(_, rest)| rest == parent),
        None => host == *wanted_host,
    };
    let by_path = match wanted_path.strip_prefix('=') {
        Some(exact) => path == exact,
        None => path
            .strip_prefix(*wanted_path)
            .is_some_and(|rest| wanted_path.is_empty() || rest.is_empty() || rest.starts_with('/')),
    };
    by_host && by_path
}

pub fn requests() -> impl Iterator<Item = (&'static str, &'static str)> {
    HOSTS.into_iter().flat_map(|host| PATHS.into_iter().map(move |path| (host, path)))
}

/// Who answers in the model.
pub fn answered(world: &mut World) -> Answers {
    answered_at(world, 80)
}

/// The same at another port.
pub fn answered_at(world: &mut World, port: u16) -> Answers {
    let pools = world.rows("/v2/lbaas/pools", "pools", &[]);
    let service = |id: &str| -> String {
        let pool = pools.iter().find(|pool| pool["id"] == id).unwrap();
        let tags = pool["tags"].as_array().unwrap().iter().filter_map(Value::as_str);
        let id = tags.filter_map(|tag| tag.strip_prefix("gimbal-pool:")).next().unwrap();
        id.split('/').nth(1).unwrap().to_owned()
    };
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    // Clients come by the floating IP, if there is one.
    let floating = world.rows("/v2.0/floatingips", "floatingips", &[]);
    let serves = |row: &&Value| floating.is_empty() || floating.iter().any(|one| one["port_id"] == row["vip_port_id"]);
    let Some(balancer) = balancers.iter().find(serves).and_then(|row| row["id"].as_str()) else {
        return Answers::new();
    };
    let answer = |(host, path): (&str, &str)| match world.cloud.ask(balancer, port, Some(host), path) {
        None => "nothing".to_owned(),
        Some(Answered::Pool { id, targets }) if targets.is_empty() => format!("{} has no members", service(&id)),
        Some(Answered::Pool { id, .. }) => service(&id),
        Some(Answered::Redirect { location, .. }) => location.strip_suffix(path).unwrap_or(&location).to_owned(),
        Some(Answered::Status(status)) => status.to_string(),
    };
    requests().map(|request| (request, answer(request))).collect()
}

/// Returns the routes that are not served and have something in their way, by name.
fn in_the_way(world: &World) -> Vec<(String, RouteObstacle)> {
    let gaps = world.actor.route_gaps(&world.facts, world.cloud.now()).unwrap();
    gaps.into_iter().filter_map(|gap| Some((gap.name.to_string(), gap.why?))).collect()
}

/// Returns the routes that no policy can express, and why.
pub fn inexpressible(world: &World) -> Vec<(String, String)> {
    let words = |(name, why)| match why {
        RouteObstacle::Inexpressible(words) => Some((name, words)),
        RouteObstacle::Blocked(_) => None,
    };
    in_the_way(world).into_iter().filter_map(words).collect()
}

/// Returns the routes that are left alone while the others go on.
pub fn blocked(world: &World) -> Vec<String> {
    let is_blocked = |(_, why): &(String, RouteObstacle)| matches!(why, RouteObstacle::Blocked(_));
    in_the_way(world).into_iter().filter(is_blocked).map(|(name, _)| name).collect()
}

pub fn router(routes: &[WantedRoute], change: impl FnOnce(&mut RouterWish)) -> (RouterWish, World) {
    let (cloud, facts, subnet) = cloud(Provider::default());
    let mut wish = RouterWish::new(&subnet, routes);
    change(&mut wish);
    let world = World::new(cloud, facts, wish.entry());
    (wish, world)
}
