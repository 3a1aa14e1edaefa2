//! The order in which routes are tried.

use std::cmp::Reverse;

use super::IngressProblem;
use super::backend::Destination;
use super::claims::{Claims, RuleClaim};
use super::index::Routed;
use super::matching::{Host, Path};
use crate::Finding;

/// A route, in its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Its Ingress.
    pub(crate) ingress: usize,
    pub(crate) host: Host,
    pub(crate) path: Path,
    pub(crate) to: Destination,
}

/// Routes in order, and where the requests go that none of them takes.
#[derive(Debug, Default)]
pub(crate) struct Ordered {
    pub(crate) routes: Vec<Placed>,
    pub(crate) default: Destination,
    /// Whose default that is.
    pub(crate) default_by: Option<usize>,
}

/// Puts claims into the order in which they are tried: names of hosts, wildcards, any host; exact paths, then longer prefixes; then
/// older Ingresses, which come first already. A host that has rules ends with its own default where requests for it would fall to
/// the rules of a wildcard, or of any host.
pub(crate) fn ordered(mut claims: Claims, ingresses: &[Routed<'_>], findings: &mut Vec<Finding>) -> Ordered {
    let (default_by, default) = default(&mut claims, ingresses, findings).unzip();
    let default: Destination = default.flatten();
    let any_is_routed = claims.routes.keys().any(|(host, _)| *host == Host::Any);
    let mut placed = Vec::with_capacity(claims.routes.len());
    for (host, of_host) in claims.hosts.iter().filter(|(host, _)| **host != Host::Any) {
        let any_path = (host.clone(), Path::Any);
        if claims.routes.contains_key(&any_path) {
            continue;
        }
        let own = of_host.iter().find_map(|at| Some((*at, claims.defaults.get(at)?)));
        let (ingress, to) = own.map_or_else(|| (of_host[0], &default), |(at, to)| (at, to));
        let falls = any_is_routed || host.wildcard().is_some_and(|wildcard| claims.hosts.contains_key(&wildcard));
        if falls || *to != default {
            placed.push(Placed { ingress, host: any_path.0, path: Path::Any, to: to.clone() });
        }
    }
    let routes = claims.routes.into_iter();
    placed.extend(routes.map(|((host, path), RuleClaim { ingress, to })| Placed { ingress, host, path, to }));
    placed.sort_by(|one, other| order(one).cmp(&order(other)));
    Ordered { routes: placed, default, default_by }
}

/// Places of Ingresses are by age, then by namespace and name.
fn order(route: &Placed) -> (&Host, (u8, Reverse<usize>), usize, &Path) {
    (&route.host, route.path.rank(), route.ingress, &route.path)
}

/// A rule for every host and every path, else the oldest default backend.
fn default(claims: &mut Claims, ingresses: &[Routed<'_>], findings: &mut Vec<Finding>) -> Option<(usize, Destination)> {
    let rule = claims.routes.remove(&(Host::Any, Path::Any)).map(|claim| (claim.ingress, claim.to));
    let backend = || claims.defaults.iter().next().map(|(at, to)| (*at, to.clone()));
    let (by, to) = rule.or_else(backend)?;
    for at in claims.defaults.keys().filter(|at| **at != by) {
        let (ingress, by) = (ingresses[*at].key.clone(), ingresses[by].key.clone());
        findings.push(Finding::Ingress { ingress, problem: IngressProblem::DefaultTaken { by } });
    }
    Some((by, to))
}
