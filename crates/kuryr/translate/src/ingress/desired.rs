//! The spec of a router, as the API server accepted it, as what is streamed.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kuryr_crd::names::labels;
use gimbal_kuryr_crd::{KlbMemberMode, KlrPathType, KlrRoute, KlrTls, KuryrL7Router, KuryrL7RouterSpec};
use gimbal_kuryr_model::{
    Balancing, CertificateHash, CertificateWish, ClientRanges, CloudFacts, DesiredEntry, DesiredLoadBalancer,
    DesiredMembers, FloatingWish, HealthMonitor, HostMatch, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader,
    LoadBalancerPlacement, MemberMode, MonitorKind, PathMatch, PoolId, Route, RouteTarget, RoutedPool, Routing, Text,
    Timeouts, VipWish,
};
use gimbal_model::{Family, Protocol};

use super::matching::Path;
use super::spec::family;
use super::status::{router_knowledge, serves_https};
use crate::address::address;
use crate::bounds::listed_len;
use crate::desired::{header_of_owner, model_algorithm, positive};
use crate::finding::shown;
use crate::members::{of_slices, own_subnet};
use crate::{Finding, MOST_LISTED, NotStreamed, Streamed};

/// Where routers listen.
const HTTP: ListenerId = ListenerId { protocol: Protocol::Tcp, port: 80 };
/// Where they listen if there are certificates.
const HTTPS: ListenerId = ListenerId { protocol: Protocol::Tcp, port: 443 };

/// Returns what is streamed of a router. Its owner is the router itself. `offered` is what is streamed of it now.
///
/// # Errors
/// Why it is not streamed.
pub fn desired_router(
    object: &KuryrL7Router,
    facts: &CloudFacts,
    offered: Option<&DesiredEntry>,
) -> Result<Streamed, NotStreamed> {
    let (spec, meta) = (&object.spec, &object.metadata);
    let project = spec.project_id.clone().ok_or(NotStreamed::WaitingForWriter)?;
    let subnet = spec.subnet_id.clone().ok_or(NotStreamed::WaitingForWriter)?;
    let mut findings = Vec::new();
    let family = family(spec, Some(facts));
    // What is served is not taken away because the writer does not find the key manager for a while, or is an older one.
    // Where somebody has wiped the status, only what is offered says so.
    let is_wiped = router_knowledge(object).needs_discovery();
    let is_served =
        object.status.as_ref().is_some_and(serves_https) || (is_wiped && offered.is_some_and(has_certificates));
    let certificates = if facts.certificates || is_served { certificates(object) } else { Box::default() };
    let mut listeners = vec![ListenerWish { id: HTTP, kind: ListenerKind::Http, name: Some("http".into()) }];
    if !certificates.is_empty() {
        listeners.push(ListenerWish { id: HTTPS, kind: ListenerKind::TerminatedHttps, name: Some("https".into()) });
    }
    let mut header = LoadBalancerHeader {
        placement: LoadBalancerPlacement {
            project,
            provider: spec.provider.clone(),
            ..LoadBalancerPlacement::default()
        },
        vip: VipWish {
            subnet: Some(subnet),
            security_groups: spec.security_groups_ids.iter().cloned().collect(),
            from_outside: true,
            ..VipWish::default()
        },
        floating: floating(spec, facts, &mut findings),
        listeners: listeners.into(),
        clients: ClientRanges::Everyone,
        balancing: balancing(spec, family),
        timeouts: Timeouts {
            client_data: positive(spec.timeout_client_data),
            member_data: positive(spec.timeout_member_data),
            ..Timeouts::default()
        },
        monitor: (spec.member_mode == Some(KlbMemberMode::Node)).then(|| Box::new(node_monitor())),
        routing: Some(Box::new(routing(object, certificates)?)),
        ..header_of_owner(&meta.meta.uid, !router_knowledge(object).needs_discovery())
    };
    header.sort();
    let len = listed_len(&header);
    if len > MOST_LISTED {
        return Err(NotStreamed::TooManyRoutes { routes: spec.routes.len(), pools: spec.pools.len(), len });
    }
    let slices = spec.pools.iter().flat_map(|pool| {
        let id = PoolId::Service(pool_id(&pool.service, pool.port));
        pool.endpoint_slices.iter().map(move |slice| {
            let numbers = slice.ports.iter().filter_map(|port| u16::try_from(port.port?).ok());
            let pools = numbers.filter(|number| *number > 0).map(|number| (id.clone(), number));
            (&slice.endpoints, pools.collect())
        })
    });
    let members = of_slices(slices, family, |address| own_subnet(facts, address).cloned(), &mut findings);
    let wanted = DesiredLoadBalancer { generation: meta.generation, header: Arc::new(header), members };
    if let Some((field, value)) = wanted.bad_text() {
        return Err(NotStreamed::Invalid { field, value: shown(value) });
    }
    Ok(Streamed { wanted, findings })
}

/// Returns an entry that names the owner of a router and wants nothing, as [`owner_alone`](crate::owner_alone) does for a
/// KuryrLoadBalancer.
#[must_use]
pub fn router_owner_alone(object: Option<&KuryrL7Router>, owner: &Text) -> DesiredLoadBalancer {
    let known = object.is_some_and(|object| !router_knowledge(object).needs_discovery());
    let header = LoadBalancerHeader { routing: Some(Box::default()), ..header_of_owner(owner, known) };
    let generation = object.map_or(0, |object| object.metadata.generation);
    DesiredLoadBalancer { generation, header: Arc::new(header), members: DesiredMembers::default() }
}

fn has_certificates(entry: &DesiredEntry) -> bool {
    let DesiredEntry::LoadBalancer(wanted) = entry else { return false };
    wanted.header.routing.as_ref().is_some_and(|routing| !routing.certificates.is_empty())
}

/// A router is reached from outside wherever that is possible.
fn floating(spec: &KuryrL7RouterSpec, facts: &CloudFacts, findings: &mut Vec<Finding>) -> Option<Box<FloatingWish>> {
    let text = spec.l7_router_ip.as_ref().filter(|text| !text.is_empty());
    let asked = text.and_then(|text| address(text));
    if let (Some(text), None) = (text, asked) {
        findings.push(Finding::Address { field: "l7_router_ip", value: shown(text) });
    }
    let network = &spec.floating_network_id;
    if asked.is_some() && network.is_none() && facts.external.is_none() {
        findings.push(Finding::NoExternalNetwork);
        return None;
    }
    (asked.is_some() || network.is_some()).then(|| {
        let subnet = spec.external_svc_subnet.clone();
        Box::new(FloatingWish { network: network.clone(), subnet, address: asked, keep: false })
    })
}

fn balancing(spec: &KuryrL7RouterSpec, family: Family) -> Balancing {
    Balancing {
        family,
        members: match spec.member_mode {
            Some(KlbMemberMode::Node) => MemberMode::Node,
            Some(KlbMemberMode::Pod) | None => MemberMode::Pod,
        },
        algorithm: spec.lb_algorithm.map(model_algorithm),
        affinity_seconds: None,
        proxy: None,
    }
}

/// As a Service has it whose members are nodes: Pods have readiness of Kubernetes.
fn node_monitor() -> HealthMonitor {
    HealthMonitor {
        kind: MonitorKind::Connect,
        port: None,
        delay: 5,
        timeout: 3,
        rise: 1,
        fall: 3,
        path: None,
        codes: None,
    }
}

/// The certificates that are served, each hash once. What somebody else has written into a router of their own may name any Secret
/// of the cluster: only what was made of Ingresses, each of which names Secrets of its own namespace, is served.
fn certificates(object: &KuryrL7Router) -> Box<[CertificateWish]> {
    if !is_made_for_ingresses(object) {
        return Box::default();
    }
    let mut hashes = BTreeSet::new();
    let wish = |tls: &KlrTls| {
        let hash: CertificateHash = tls.content_hash.as_ref()?.parse().ok()?;
        let secret = tls.secret_name.clone()?;
        hashes.insert(hash).then_some(CertificateWish { secret, hash })
    };
    object.spec.tls.iter().filter_map(wish).collect()
}

fn is_made_for_ingresses(object: &KuryrL7Router) -> bool {
    object.metadata.meta.labels.contains_key(labels::ROUTER_OF)
}

fn routing(object: &KuryrL7Router, certificates: Box<[CertificateWish]>) -> Result<Routing, NotStreamed> {
    let spec = &object.spec;
    let mut pools: Vec<RoutedPool> = spec
        .pools
        .iter()
        .map(|pool| RoutedPool {
            id: pool_id(&pool.service, pool.port),
            name: LoadBalancerHeader::clean_name(&pool.name),
        })
        .collect();
    let default = spec.default_pool.as_ref().map(|name| {
        let pool = spec.pools.iter().position(|pool| pool.name == *name);
        let id = pool.and_then(|at| pools.get(at)).map(|pool| pool.id.clone());
        id.ok_or_else(|| NotStreamed::Invalid { field: "default pool", value: shown(name) })
    });
    let default = default.transpose()?;
    // Each policy needs a pool, also one that answers with 503: that one has no members. No Service has its name.
    let empty = RoutedPool { id: RoutedPool::empty_id(&object.metadata.meta.namespace), name: "503".into() };
    let is_https = !certificates.is_empty();
    let over_http = spec.routes.iter().map(|one| match &one.redirect {
        // Where nothing answers over HTTPS, its requests would be lost. An API server whose definition is older knows no `https`.
        Some(to) if (one.https && is_https) || (!one.https && !is_made_for_ingresses(object)) => {
            Route { to: RouteTarget::Redirect(to.clone()), ..route(one, &empty.id) }
        }
        Some(_) | None => route(one, &empty.id),
    });
    let over_https = if is_https { over_https(&spec.routes, default.is_some(), &empty.id) } else { Vec::new() };
    let routes: Box<[Route]> = over_http.chain(over_https).collect();
    if routes.iter().any(|route| route.to == RouteTarget::Pool(empty.id.clone())) {
        pools.push(empty);
    }
    pools.sort_by(|one, other| one.id.cmp(&other.id));
    let is_there = |id: &Text| pools.binary_search_by(|pool| pool.id.cmp(id)).is_ok();
    for route in &routes {
        if let RouteTarget::Pool(id) = &route.to
            && !is_there(id)
        {
            return Err(NotStreamed::Invalid { field: "pool of a route", value: shown(id) });
        }
    }
    Ok(Routing { pools: pools.into(), default, routes, certificates })
}

/// Returns the routes over HTTPS: those that have a certificate, and those whose requests would go to another one behind them, or to the
/// default. Nothing answers these, for it would not be what their host is for.
fn over_https(routes: &[KlrRoute], has_default: bool, empty: &Text) -> Vec<Route> {
    let mut behind: BTreeSet<&str> = BTreeSet::new();
    let mut made = Vec::with_capacity(routes.len());
    for one in routes.iter().rev() {
        let host = one.host.as_deref().unwrap_or_default();
        let made_of_it = Route { listener: HTTPS, ..route(one, empty) };
        if one.https {
            behind.insert(host);
            made.push(made_of_it);
            continue;
        }
        let wildcard = host.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let is_behind = |taken: &str| behind.contains(taken);
        if has_default || is_behind("") || is_behind(host) || wildcard.is_some_and(|wildcard| is_behind(&wildcard)) {
            made.push(Route { to: RouteTarget::Pool(empty.clone()), ..made_of_it });
        }
    }
    made.reverse();
    made
}

/// A route over HTTP that leads to its Service, or to a pool that is empty.
fn route(route: &KlrRoute, empty: &Text) -> Route {
    let host = match route.host.as_ref().filter(|host| !host.is_empty()) {
        None => HostMatch::Any,
        Some(host) => match host.strip_prefix("*.") {
            Some(base) => HostMatch::Wildcard(base.into()),
            None => HostMatch::Exact(host.clone()),
        },
    };
    let path = match (route.path.as_ref().filter(|path| !path.is_empty()), route.path_type) {
        (None, _) => PathMatch::Any,
        (Some(path), Some(KlrPathType::Exact)) => PathMatch::Exact(path.clone()),
        (Some(path), Some(KlrPathType::Prefix) | None) => match Path::prefix(path) {
            Path::Prefix(path) => PathMatch::Prefix(path),
            Path::Exact(_) | Path::Any => PathMatch::Any,
        },
    };
    let to = RouteTarget::Pool(match &route.service {
        Some(service) => pool_id(service, route.port.unwrap_or_default()),
        None => empty.clone(),
    });
    // One that somebody wrote belongs to no Ingress, and is called after what it takes.
    let beginning = route.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let place = || format!("{}{beginning}", route.host.as_deref().unwrap_or_default());
    let name = LoadBalancerHeader::clean_name(&route.ingress.as_deref().map_or_else(place, str::to_owned));
    Route { listener: HTTP, host, path, to, name }
}

fn pool_id(service: &Text, port: i64) -> Text {
    format!("{service}/{port}").into()
}
