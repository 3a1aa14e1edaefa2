//! How a load balancer leads requests to Services.

use crate::{CertificateWish, DesiredKind, DesiredLoadBalancer, ListenerId, LoadBalancerHeader, PoolId, Text};

/// How requests are led to Services. A load balancer that has it is a router: its listeners have no pools of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routing {
    /// Pools of Services, in the order of their IDs, each once.
    pub pools: Box<[RoutedPool]>,
    /// The pool of requests that no route takes; unset: they are answered with 503.
    pub default: Option<Text>,
    /// The routes of each listener, listeners ascending, in the order in which they are tried.
    pub routes: Box<[Route]>,
    /// Certificates of the TLS listeners, each hash once; the first is that of clients that name no host, or one that no certificate
    /// has.
    pub certificates: Box<[CertificateWish]>,
}

/// The pool of a port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutedPool {
    /// Namespace, name of the Service and number of the port, with a `/` in between.
    pub id: Text,
    /// Name for people.
    pub name: Text,
}

/// Which requests go where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The listener that it belongs to.
    pub listener: ListenerId,
    /// Hosts that it takes.
    pub host: HostMatch,
    /// Paths that it takes.
    pub path: PathMatch,
    /// Where its requests go.
    pub to: RouteTarget,
    /// Name for people: namespace and name of the Ingress, with a `/` in between.
    pub name: Text,
}

/// Which hosts a route takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostMatch {
    /// Every host.
    Any,
    /// This host.
    Exact(Text),
    /// Hosts with one label before this name: `*.example.com` is kept as `example.com`.
    Wildcard(Text),
}

/// Which paths a route takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathMatch {
    /// Every path.
    Any,
    /// This path.
    Exact(Text),
    /// Paths that begin with it, by segments: `/a` takes `/a` and `/a/b`. Never ends with `/` and is never empty, which is
    /// [`PathMatch::Any`].
    Prefix(Text),
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteTarget {
    /// To a pool of [`Routing::pools`], by its ID.
    Pool(Text),
    /// The client is sent to this address, followed by the path that it asked for: `https://www.example.com`.
    Redirect(Text),
}

impl RoutedPool {
    /// What the ID of a pool without members ends with.
    const EMPTY: &str = "/_/503";

    /// Returns the ID of a pool that has no members, so that what leads there is answered with 503. No Service has its name.
    #[must_use]
    pub fn empty_id(namespace: &str) -> Text {
        format!("{namespace}{}", Self::EMPTY).into()
    }

    /// Whether this is the ID of such a pool.
    #[must_use]
    pub fn is_empty_id(id: &str) -> bool {
        id.ends_with(Self::EMPTY)
    }
}

impl Routing {
    /// Returns the pool with this ID.
    #[must_use]
    pub fn pool(&self, id: &str) -> Option<&RoutedPool> {
        self.pools.binary_search_by(|pool| (*pool.id).cmp(id)).ok().map(|at| &self.pools[at])
    }

    /// Returns the routes of a listener, in the order in which they are tried.
    #[must_use]
    pub fn routes_of(&self, listener: ListenerId) -> &[Route] {
        let from = self.routes.partition_point(|route| route.listener < listener);
        let to = self.routes.partition_point(|route| route.listener <= listener);
        &self.routes[from..to]
    }
}

impl LoadBalancerHeader {
    /// Returns what in it contradicts itself, or its kind: a router has routing and nothing else has, its load balancer is not
    /// shared, and its routes lead from listeners that there are to pools that there are.
    #[must_use]
    pub fn contradiction(&self, kind: DesiredKind) -> Option<String> {
        match (&self.routing, kind) {
            (None, DesiredKind::L7Router) => Some("a router has no routing".to_owned()),
            (Some(_), DesiredKind::LoadBalancer) => Some("a load balancer of a Service has routing".to_owned()),
            (None, _) => None,
            (Some(_), _) if self.shared_group.is_some() => Some("a router is shared".to_owned()),
            (Some(routing), _) => self.lost_route(routing),
        }
    }

    fn lost_route(&self, routing: &Routing) -> Option<String> {
        let lacks_pool = |pool: &Text| routing.pool(pool).is_none();
        if let Some(pool) = routing.default.as_ref().filter(|pool| lacks_pool(pool)) {
            return Some(format!("requests are led by default to the pool {pool}, which is not among the pools"));
        }
        routing.routes.iter().find_map(|Route { listener, host: _, path: _, to, name }| {
            if self.listener(*listener).is_none() {
                let listener = PoolId::Listener(*listener);
                return Some(format!(
                    "a route of {name} belongs to the listener {listener}, which is not among the listeners"
                ));
            }
            match to {
                RouteTarget::Pool(pool) if lacks_pool(pool) => {
                    Some(format!("a route of {name} leads to the pool {pool}, which is not among the pools"))
                }
                RouteTarget::Pool(_) | RouteTarget::Redirect(_) => None,
            }
        })
    }

    /// Returns why there cannot be members in these pools: one is a Service's that routing lacks.
    #[must_use]
    pub fn lost_members<'a>(&self, pools: impl IntoIterator<Item = &'a PoolId>) -> Option<String> {
        let has = |pool: &Text| self.routing.as_deref().is_some_and(|routing| routing.pool(pool).is_some());
        let lost = pools.into_iter().filter_map(PoolId::of_service).find(|pool| !has(pool))?;
        Some(format!("there are members of the pool {lost}, which is not among the pools"))
    }
}

impl DesiredLoadBalancer {
    /// Returns what in it contradicts itself or its kind. The receiver refuses such an entry.
    #[must_use]
    pub fn contradiction(&self, kind: DesiredKind) -> Option<String> {
        let pools = || self.members.as_slice().iter().map(|member| &member.id.pool);
        self.header.contradiction(kind).or_else(|| self.header.lost_members(pools()))
    }
}
