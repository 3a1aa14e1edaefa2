//! How single values are read: what both dialects write differently, or leave out.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::{Address, L7Policy, Provisioning, of_references};
use crate::Id;

#[derive(Deserialize)]
pub(super) struct Reference {
    pub id: Id,
}

/// As it is written. Octavia writes the owner twice, under both names.
#[derive(Deserialize)]
pub(super) struct LoadBalancer {
    id: Id,
    #[serde(default, deserialize_with = "text")]
    name: Arc<str>,
    #[serde(default, deserialize_with = "owner")]
    project_id: Option<Id>,
    #[serde(default, deserialize_with = "owner")]
    tenant_id: Option<Id>,
    #[serde(default = "on", deserialize_with = "on_unless_false")]
    admin_state_up: bool,
    #[serde(rename = "provisioning_status", default)]
    provisioning: Provisioning,
    #[serde(default, deserialize_with = "ids")]
    listeners: Vec<Id>,
    #[serde(default, deserialize_with = "ids")]
    pools: Vec<Id>,
}

#[derive(Debug, thiserror::Error)]
#[error("missing field `project_id`, and `tenant_id` too")]
pub(super) struct Ownerless;

impl TryFrom<LoadBalancer> for super::LoadBalancer {
    type Error = Ownerless;

    fn try_from(row: LoadBalancer) -> Result<Self, Ownerless> {
        let LoadBalancer { id, name, project_id, tenant_id, admin_state_up, provisioning, listeners, pools } = row;
        let named = project_id.clone().filter(|id| !id.is_nobody());
        let project = named.or(tenant_id).or(project_id).ok_or(Ownerless)?;
        Ok(Self { id, name, project, admin_state_up, provisioning, listeners, pools })
    }
}

/// An L7 policy as it is written. neutron-lbaas' first releases named its listener in a list.
#[derive(Deserialize)]
pub(super) struct WithoutOwner {
    id: Id,
    listener_id: Option<Id>,
    #[serde(default)]
    listeners: Vec<Reference>,
    action: Option<Arc<str>>,
    redirect_pool_id: Option<Id>,
    #[serde(default = "on", deserialize_with = "on_unless_false")]
    admin_state_up: bool,
    #[serde(rename = "provisioning_status", default)]
    provisioning: Provisioning,
}

impl From<WithoutOwner> for L7Policy {
    fn from(row: WithoutOwner) -> Self {
        let redirects = row.action.as_deref() == Some("REDIRECT_TO_POOL");
        Self {
            id: row.id,
            listener: row.listener_id.or_else(|| of_references(row.listeners).pop()),
            redirect_pool: row.redirect_pool_id.filter(|_| redirects),
            admin_state_up: row.admin_state_up,
            provisioning: row.provisioning,
        }
    }
}

/// The column may be empty, as after an import from neutron-lbaas: then the row says that it is nobody's.
fn owner<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Id>, D::Error> {
    let said = Option::<Arc<str>>::deserialize(from)?.filter(|text| !text.is_empty());
    said.map_or_else(|| Ok(Id::nobody()), Id::try_from).map(Some).map_err(serde::de::Error::custom)
}

pub(super) fn ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Id>, D::Error> {
    Ok(of_references(Option::<Vec<Reference>>::deserialize(from)?.unwrap_or_default()))
}

pub(super) fn said_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Id>>, D::Error> {
    Ok(Option::<Vec<Reference>>::deserialize(from)?.map(of_references))
}

pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<str>, D::Error> {
    Ok(Option::<Arc<str>>::deserialize(from)?.unwrap_or_default())
}

pub(super) fn on_unless_false<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(true))
}

pub(super) fn off_unless_true<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(false))
}

pub(super) fn on() -> bool {
    true
}

pub(super) fn one() -> u32 {
    1
}

pub(super) fn is_some<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<Id>::deserialize(from)?.is_some())
}

pub(super) fn is_not_empty<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<Vec<IgnoredAny>>::deserialize(from)?.is_some_and(|list| !list.is_empty()))
}

pub(super) fn is_set<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(from)?.is_some())
}

/// A number that is no port leaves its row readable: it is told apart in the translation, by itself.
pub(super) fn port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    let number = Option::<i64>::deserialize(from)?;
    Ok(number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0))
}

pub(super) fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = Option::<i64>::deserialize(from)?;
    Ok(number.map_or(1, |number| u32::try_from(number).unwrap_or(if number < 0 { 0 } else { u32::MAX })))
}

pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
    let Some(text) = Option::<Arc<str>>::deserialize(from)? else { return Ok(Address::Missing) };
    Ok(match text.parse::<IpAddr>() {
        Ok(address) => Address::Ip(address),
        Err(_) if text.is_empty() => Address::Missing,
        Err(_) => Address::Unreadable(text),
    })
}

/// Octavia writes UTC without a zone, others with one. What cannot be read counts as unknown, which costs no more than the
/// early look at a change.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<Arc<str>>::deserialize(from)? else { return Ok(None) };
    let zoned = text.parse::<Timestamp>().ok();
    Ok(zoned.or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())))
}
