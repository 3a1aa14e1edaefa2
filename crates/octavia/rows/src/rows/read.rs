//! Decoding of single values that Octavia and neutron-lbaas write differently, or leave out.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::{Address, L7Policy, ProvisioningStatus, ids_of};
use crate::Id;

#[derive(Deserialize)]
pub(super) struct Reference {
    pub id: Id,
}

/// A load balancer on the wire. Octavia sends the owner under both names.
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
    provisioning: ProvisioningStatus,
    #[serde(default, deserialize_with = "ids")]
    listeners: Vec<Id>,
    #[serde(default, deserialize_with = "ids")]
    pools: Vec<Id>,
}

#[derive(Debug, thiserror::Error)]
#[error("missing field `project_id`, and `tenant_id` too")]
pub(super) struct MissingOwner;

impl TryFrom<LoadBalancer> for super::LoadBalancer {
    type Error = MissingOwner;

    fn try_from(row: LoadBalancer) -> Result<Self, MissingOwner> {
        let LoadBalancer { id, name, project_id, tenant_id, admin_state_up, provisioning, listeners, pools } = row;
        let named = project_id.clone().filter(|id| !id.is_no_owner());
        let project = named.or(tenant_id).or(project_id).ok_or(MissingOwner)?;
        Ok(Self { id, name, project, admin_state_up, provisioning, listeners, pools })
    }
}

/// An L7 policy on the wire. The first releases of neutron-lbaas send the listener in a list.
#[derive(Deserialize)]
pub(super) struct L7PolicyOnTheWire {
    id: Id,
    listener_id: Option<Id>,
    #[serde(default)]
    listeners: Vec<Reference>,
    action: Option<Arc<str>>,
    redirect_pool_id: Option<Id>,
    #[serde(default = "on", deserialize_with = "on_unless_false")]
    admin_state_up: bool,
    #[serde(rename = "provisioning_status", default)]
    provisioning: ProvisioningStatus,
}

impl From<L7PolicyOnTheWire> for L7Policy {
    fn from(row: L7PolicyOnTheWire) -> Self {
        let redirects = row.action.as_deref() == Some("REDIRECT_TO_POOL");
        Self {
            id: row.id,
            listener: row.listener_id.or_else(|| ids_of(row.listeners).pop()),
            redirect_pool: row.redirect_pool_id.filter(|_| redirects),
            admin_state_up: row.admin_state_up,
            provisioning: row.provisioning,
        }
    }
}

/// Decodes an owner. The column may be empty, for example after an import from neutron-lbaas.
fn owner<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Id>, D::Error> {
    let said = Option::<Arc<str>>::deserialize(from)?.filter(|text| !text.is_empty());
    said.map_or_else(|| Ok(Id::no_owner()), Id::try_from).map(Some).map_err(serde::de::Error::custom)
}

pub(super) fn ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Id>, D::Error> {
    Ok(ids_of(Option::<Vec<Reference>>::deserialize(from)?.unwrap_or_default()))
}

pub(super) fn said_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Id>>, D::Error> {
    Ok(Option::<Vec<Reference>>::deserialize(from)?.map(ids_of))
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

/// Decodes a number that is not a valid port as `None`, so that it does not make its row unreadable.
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

/// Decodes a time. Octavia writes UTC without a zone; a time with a zone is accepted too. An unreadable time counts as
/// unknown, so that it does not make its row unreadable.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<Arc<str>>::deserialize(from)? else { return Ok(None) };
    let zoned = text.parse::<Timestamp>().ok();
    Ok(zoned.or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())))
}
