//! Which texts may be sent. What comes from a cluster ends in requests to OpenStack and in log lines.
//!
//! The sender checks with the same rules as the receiver, so that whoever wrote a text that is not understood hears of it: to the
//! receiver, an entry that cannot be read may be anybody's.

use crate::{
    DesiredLoadBalancer, FloatingWish, HealthMonitor, HostMatch, LoadBalancerHeader, PathMatch, RouteTarget, Routing,
    SharedGroup, Text,
};

/// Longest ID or name in OpenStack, in bytes.
pub const MOST_NAME: usize = 255;
/// Longest reference or path, in bytes.
pub const MOST_REFERENCE: usize = 2048;

/// Longest ID of a Service's pool, in bytes, so that a tag holds it.
pub const MOST_POOL: usize = 240;

/// How a name begins that stands for several owners in OpenStack's tags. No UID begins so.
pub const GROUP_OF_OWNERS: &str = "gimbal-group:";

/// Returns why a text is no ID of an object in OpenStack. It becomes a part of the path of requests, so it has no character that
/// means something there.
#[must_use]
pub fn id_problem(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("is empty".to_owned());
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_id = text.bytes().all(inner) && !text.starts_with('.');
    too_long(text, MOST_NAME).or_else(|| (!is_id).then(|| "is not an ID".to_owned()))
}

/// Returns why a text is not the UID of an owner.
#[must_use]
pub fn owner_problem(text: &str) -> Option<String> {
    let is_group = text.starts_with(GROUP_OF_OWNERS);
    if is_group { Some("is not a UID".to_owned()) } else { id_problem(text) }
}

/// Returns why a text is not the ID of a Service's pool: namespace, name of the Service and number of the port. It becomes a part of
/// a tag, so the parts have no character that separates tags.
#[must_use]
pub fn pool_problem(text: &str) -> Option<String> {
    let mut parts = text.split('/');
    let is_name = |part: Option<&str>| part.is_some_and(|part| id_problem(part).is_none());
    let is_port = |part: Option<&str>| part.and_then(|part| part.parse().ok()).is_some_and(|port: u16| port > 0);
    let is_pool = is_name(parts.next()) && is_name(parts.next()) && is_port(parts.next()) && parts.next().is_none();
    too_long(text, MOST_POOL).or_else(|| (!is_pool).then(|| "is not a port of a Service".to_owned()))
}

/// Returns why a text is not the host or the path of a route.
#[must_use]
pub fn match_problem(text: &str) -> Option<String> {
    if text.is_empty() { Some("is empty".to_owned()) } else { words_problem(text, MOST_REFERENCE) }
}

/// Returns why a text is not a path that routes take by its segments.
#[must_use]
pub fn prefix_problem(text: &str) -> Option<String> {
    match_problem(text).or_else(|| text.ends_with('/').then(|| "ends with a slash".to_owned()))
}

/// Returns why a text that people chose cannot be sent.
#[must_use]
pub fn words_problem(text: &str, limit: usize) -> Option<String> {
    let has_control = text.contains(char::is_control);
    too_long(text, limit).or_else(|| has_control.then(|| "contains a control character".to_owned()))
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("has {} bytes, more than {limit}", text.len()))
}

type BadText<'a> = (&'static str, &'a Text);

impl DesiredLoadBalancer {
    /// Returns the first text that the receiver would not read, and what it is.
    #[must_use]
    pub fn bad_text(&self) -> Option<(&'static str, &Text)> {
        let members = self.members.as_slice();
        let subnets = members.iter().filter_map(|member| member.subnet.as_ref());
        let names = members.iter().filter_map(|member| member.name.as_ref());
        let pools = members.iter().filter_map(|member| member.id.pool.of_service());
        self.header
            .bad_text()
            .or_else(|| bad("pool of a member", pools, pool_problem))
            .or_else(|| bad_id("subnet of a member", subnets))
            .or_else(|| bad_words("name of a member", names, MOST_NAME))
    }
}

impl LoadBalancerHeader {
    fn bad_text(&self) -> Option<BadText<'_>> {
        let Self {
            owner,
            known: _,
            placement,
            vip,
            floating,
            listeners,
            clients: _,
            balancing: _,
            timeouts: _,
            monitor,
            tls_containers,
            shared_group,
            adopt,
            routing,
        } = self;
        let project = Some(&placement.project).filter(|project| !project.is_empty());
        let names = listeners.iter().filter_map(|listener| listener.name.as_ref());
        let bad_owner = || owner_problem(owner).map(|_| ("owner", owner));
        bad_owner()
            .or_else(|| bad_id("project", project))
            .or_else(|| bad_words("provider", &placement.provider, MOST_NAME))
            .or_else(|| bad_id("flavor", &placement.flavor))
            .or_else(|| bad_words("availability zone", &placement.availability_zone, MOST_NAME))
            .or_else(|| bad_id("subnet of the VIP", &vip.subnet))
            .or_else(|| bad_id("network of the VIP", &vip.network))
            .or_else(|| bad_id("port of the VIP", &vip.port))
            .or_else(|| bad_id("additional subnet", &vip.additional_subnets))
            .or_else(|| bad_id("security group", &vip.security_groups))
            .or_else(|| floating.as_deref().and_then(bad_floating))
            .or_else(|| bad_words("name of a listener", names, MOST_NAME))
            .or_else(|| monitor.as_deref().and_then(bad_monitor))
            .or_else(|| bad_words("container of a certificate", tls_containers, MOST_REFERENCE))
            .or_else(|| shared_group.as_deref().and_then(bad_group))
            .or_else(|| bad_id("adopted load balancer", adopt))
            .or_else(|| routing.as_deref().and_then(bad_routing))
    }
}

fn bad_floating(floating: &FloatingWish) -> Option<BadText<'_>> {
    bad_id("network of the floating IP", &floating.network)
        .or_else(|| bad_id("subnet of the floating IP", &floating.subnet))
}

fn bad_monitor(monitor: &HealthMonitor) -> Option<BadText<'_>> {
    bad_words("path of a monitor", &monitor.path, MOST_REFERENCE)
        .or_else(|| bad_words("codes of a monitor", &monitor.codes, MOST_NAME))
}

fn bad_group(group: &SharedGroup) -> Option<BadText<'_>> {
    bad_words("shared group", [&group.name], MOST_NAME)
        .or_else(|| bad_words("creation of the owner", &group.created, MOST_NAME))
}

fn bad_routing(routing: &Routing) -> Option<BadText<'_>> {
    let Routing { pools, default, routes, certificates } = routing;
    let hosts = routes.iter().filter_map(|route| match &route.host {
        HostMatch::Any => None,
        HostMatch::Exact(host) | HostMatch::Wildcard(host) => Some(host),
    });
    let exact = routes.iter().filter_map(|route| match &route.path {
        PathMatch::Exact(path) => Some(path),
        PathMatch::Any | PathMatch::Prefix(_) => None,
    });
    let prefixes = routes.iter().filter_map(|route| match &route.path {
        PathMatch::Prefix(path) => Some(path),
        PathMatch::Any | PathMatch::Exact(_) => None,
    });
    let to = routes.iter().filter_map(|route| match &route.to {
        RouteTarget::Pool(pool) => Some(pool),
        RouteTarget::Redirect(_) => None,
    });
    let redirects = routes.iter().filter_map(|route| match &route.to {
        RouteTarget::Redirect(prefix) => Some(prefix),
        RouteTarget::Pool(_) => None,
    });
    bad("ID of a pool", pools.iter().map(|pool| &pool.id), pool_problem)
        .or_else(|| bad_words("name of a pool", pools.iter().map(|pool| &pool.name), MOST_NAME))
        .or_else(|| bad("default pool", default, pool_problem))
        .or_else(|| bad("host of a route", hosts, match_problem))
        .or_else(|| bad("path of a route", exact, match_problem))
        .or_else(|| bad("path of a route", prefixes, prefix_problem))
        .or_else(|| bad("pool of a route", to, pool_problem))
        .or_else(|| bad("redirection of a route", redirects, match_problem))
        .or_else(|| bad_words("name of a route", routes.iter().map(|route| &route.name), MOST_NAME))
        .or_else(|| bad_words("Secret of a certificate", certificates.iter().map(|one| &one.secret), MOST_REFERENCE))
}

fn bad_id<'a>(field: &'static str, texts: impl IntoIterator<Item = &'a Text>) -> Option<BadText<'a>> {
    bad(field, texts, id_problem)
}

fn bad_words<'a>(field: &'static str, texts: impl IntoIterator<Item = &'a Text>, limit: usize) -> Option<BadText<'a>> {
    bad(field, texts, |text| words_problem(text, limit))
}

fn bad<'a>(
    field: &'static str,
    texts: impl IntoIterator<Item = &'a Text>,
    problem: impl Fn(&str) -> Option<String>,
) -> Option<BadText<'a>> {
    texts.into_iter().find(|text| problem(text).is_some()).map(|text| (field, text))
}
