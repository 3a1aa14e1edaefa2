//! The routing of a router, both ways.

use gimbal_kuryr_model::{HostMatch, PathMatch, Route, RouteTarget, RoutedPool, Routing};
use gimbal_wire::Interner;
use gimbal_wire::parse::{Parsed, WireError, invalid};

use crate::check::{self, NAME, path_prefix, route_match, service_pool, words};
use crate::pb::route::{Every, Host, Path, To};
use crate::values::option_text;
use crate::{certificate, encode, pb};

pub(crate) fn encode(routing: &Routing) -> pb::Routing {
    let Routing { pools, default, routes, certificates } = routing;
    let pool = |RoutedPool { id, name }: &RoutedPool| pb::RoutedPool { id: id.to_string(), name: name.to_string() };
    pb::Routing {
        pools: pools.iter().map(pool).collect(),
        default_pool: option_text(default.as_ref()),
        routes: routes.iter().map(encode_route).collect(),
        certificates: certificates.iter().map(certificate::encode_wish).collect(),
    }
}

fn encode_route(route: &Route) -> pb::Route {
    let Route { listener, host, path, to, name } = route;
    let (protocol, port) = encode::numbers(*listener);
    let host = match host {
        HostMatch::Any => Host::EveryHost(Every {}),
        HostMatch::Exact(host) => Host::ExactHost(host.to_string()),
        HostMatch::Wildcard(host) => Host::WildcardHost(host.to_string()),
    };
    let path = match path {
        PathMatch::Any => Path::EveryPath(Every {}),
        PathMatch::Exact(path) => Path::ExactPath(path.to_string()),
        PathMatch::Prefix(path) => Path::PathPrefix(path.to_string()),
    };
    let to = match to {
        RouteTarget::Pool(pool) => To::Pool(pool.to_string()),
        RouteTarget::Redirect(prefix) => To::Redirect(prefix.to_string()),
    };
    pb::Route { protocol, port, name: name.to_string(), host: Some(host), path: Some(path), to: Some(to) }
}

/// Whether it fits the rest of the header, its caller checks.
pub(crate) fn parse(routing: pb::Routing, intern: &mut Interner) -> Parsed<Routing> {
    let pb::Routing { pools, default_pool, routes, certificates } = routing;
    let pools = pools.into_iter().map(|pb::RoutedPool { id, name }| {
        Ok(RoutedPool {
            id: service_pool("ID of a pool", id, intern)?,
            name: words("name of a pool", name, NAME, intern)?,
        })
    });
    let pools: Box<[RoutedPool]> = pools.collect::<Parsed<_>>()?;
    check::sorted("pools", pools.iter().map(|pool| &pool.id))?;
    let default = default_pool.map(|pool| service_pool("default pool", pool, intern)).transpose()?;
    let routes: Box<[Route]> = routes.into_iter().map(|route| parse_route(route, intern)).collect::<Parsed<_>>()?;
    if !routes.is_sorted_by_key(|route| route.listener) {
        return invalid("routes", "are not sorted by their listeners");
    }
    let certificates = certificate::parse_wishes(certificates, intern)?;
    Ok(Routing { pools, default, routes, certificates })
}

fn parse_route(route: pb::Route, intern: &mut Interner) -> Parsed<Route> {
    let pb::Route { protocol, port, name, host, path, to } = route;
    let host = match host.ok_or(WireError::Missing("host of a route"))? {
        Host::EveryHost(Every {}) => HostMatch::Any,
        Host::ExactHost(host) => HostMatch::Exact(route_match("host of a route", host, intern)?),
        Host::WildcardHost(host) => HostMatch::Wildcard(route_match("host of a route", host, intern)?),
    };
    let path = match path.ok_or(WireError::Missing("path of a route"))? {
        Path::EveryPath(Every {}) => PathMatch::Any,
        Path::ExactPath(path) => PathMatch::Exact(route_match("path of a route", path, intern)?),
        Path::PathPrefix(path) => PathMatch::Prefix(path_prefix(path, intern)?),
    };
    let to = match to.ok_or(WireError::Missing("target of a route"))? {
        To::Pool(pool) => RouteTarget::Pool(service_pool("pool of a route", pool, intern)?),
        To::Redirect(prefix) => RouteTarget::Redirect(route_match("redirection of a route", prefix, intern)?),
    };
    let name = words("name of a route", name, NAME, intern)?;
    Ok(Route { listener: check::listener(protocol, port)?, host, path, to, name })
}
