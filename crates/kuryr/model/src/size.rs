//! Memory of entries.

use std::mem::size_of;

use crate::{
    CertificateWish, ClientRanges, DesiredEntry, DesiredLoadBalancer, FloatingWish, HealthMonitor, HostMatch,
    ListenerWish, LoadBalancerHeader, PathMatch, PoolId, Route, RouteTarget, RoutedPool, Routing, SharedGroup, Text,
};

/// Two counters before the content of an `Arc`.
const COUNTERS: usize = 2 * size_of::<usize>();

impl DesiredEntry {
    /// Returns the bytes that this entry takes, without the allocator's own. Texts that it shares with other entries are
    /// counted in each of them, so it never takes more.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::LoadBalancer(wanted) => wanted.heap(),
                Self::Deleting { owner } => text(owner),
            }
    }
}

impl DesiredLoadBalancer {
    fn heap(&self) -> usize {
        let members = self.members.as_slice();
        let texts = members.iter().map(|member| option(member.name.as_ref()) + option(member.subnet.as_ref()));
        COUNTERS
            + size_of::<LoadBalancerHeader>()
            + self.header.heap()
            + size_of_val::<[_]>(members)
            + texts.sum::<usize>()
            + pools(members.iter().map(|member| &member.id.pool))
    }
}

/// The texts of pools of Services. Members that follow each other in one pool share its text.
fn pools<'a>(pools: impl Iterator<Item = &'a PoolId>) -> usize {
    let mut last: Option<&Text> = None;
    let of_services = pools.filter_map(PoolId::of_service);
    let fresh = of_services.filter(|pool| !last.replace(pool).is_some_and(|last| Text::ptr_eq(last, pool)));
    fresh.map(text).sum()
}

impl LoadBalancerHeader {
    fn heap(&self) -> usize {
        let Self {
            owner,
            placement,
            vip,
            floating,
            listeners,
            clients,
            monitor,
            tls_containers,
            shared_group,
            adopt,
            routing,
            ..
        } = self;
        let mut bytes = text(owner) + text(&placement.project);
        let options = [
            &placement.provider,
            &placement.flavor,
            &placement.availability_zone,
            &vip.subnet,
            &vip.network,
            &vip.port,
            adopt,
        ];
        bytes += shared_group
            .as_ref()
            .map_or(0, |group| size_of::<SharedGroup>() + text(&group.name) + option(group.created.as_ref()));
        bytes += options.into_iter().map(|value| option(value.as_ref())).sum::<usize>();
        bytes += [&vip.additional_subnets, &vip.security_groups, tls_containers]
            .map(|list| texts(list))
            .iter()
            .sum::<usize>();
        bytes += size_of_val::<[_]>(&vip.additional_addresses);
        if let Some(floating) = floating {
            bytes += size_of::<FloatingWish>() + option(floating.network.as_ref()) + option(floating.subnet.as_ref());
        }
        bytes += listeners.iter().map(|one| size_of::<ListenerWish>() + option(one.name.as_ref())).sum::<usize>();
        if let ClientRanges::Only(ranges) = clients {
            bytes += size_of_val::<[_]>(ranges);
        }
        if let Some(monitor) = monitor {
            bytes += size_of::<HealthMonitor>() + option(monitor.path.as_ref()) + option(monitor.codes.as_ref());
        }
        bytes + routing.as_deref().map_or(0, Routing::memory)
    }
}

impl Routing {
    fn memory(&self) -> usize {
        let Self { pools, default, routes, certificates } = self;
        let route = |Route { listener: _, host, path, to, name }: &Route| {
            let host = match host {
                HostMatch::Any => None,
                HostMatch::Exact(host) | HostMatch::Wildcard(host) => Some(host),
            };
            let path = match path {
                PathMatch::Any => None,
                PathMatch::Exact(path) | PathMatch::Prefix(path) => Some(path),
            };
            let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = to;
            size_of::<Route>() + option(host) + option(path) + text(to) + text(name)
        };
        size_of::<Self>()
            + pools.iter().map(|pool| size_of::<RoutedPool>() + text(&pool.id) + text(&pool.name)).sum::<usize>()
            + option(default.as_ref())
            + routes.iter().map(route).sum::<usize>()
            + certificates.iter().map(|one| size_of::<CertificateWish>() + text(&one.secret)).sum::<usize>()
    }
}

fn text(text: &Text) -> usize {
    COUNTERS + text.len()
}

fn option(value: Option<&Text>) -> usize {
    value.map_or(0, text)
}

fn texts(list: &[Text]) -> usize {
    list.iter().map(|value| size_of::<Text>() + text(value)).sum()
}
