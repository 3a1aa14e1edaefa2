//! Which texts may be sent. What comes from a cluster ends in requests to OpenStack and in log lines.
//!
//! The sender checks with the same rules as the receiver, so that whoever wrote a text that is not understood hears of it: to the
//! receiver, an entry that cannot be read may be anybody's.

use crate::{DesiredLoadBalancer, FloatingWish, HealthMonitor, LoadBalancerHeader, SharedGroup, Text};

/// Longest ID or name in OpenStack, in bytes.
pub const MOST_NAME: usize = 255;
/// Longest reference or path, in bytes.
pub const MOST_REFERENCE: usize = 2048;

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
        self.header
            .bad_text()
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

fn bad_id<'a>(field: &'static str, texts: impl IntoIterator<Item = &'a Text>) -> Option<BadText<'a>> {
    texts.into_iter().find(|text| id_problem(text).is_some()).map(|text| (field, text))
}

fn bad_words<'a>(field: &'static str, texts: impl IntoIterator<Item = &'a Text>, limit: usize) -> Option<BadText<'a>> {
    texts.into_iter().find(|text| words_problem(text, limit).is_some()).map(|text| (field, text))
}
