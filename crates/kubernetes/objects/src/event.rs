//! `Event` of `core/v1`: what `kubectl describe` shows below an object. It looks for the object's name, namespace, kind and
//! UID, and counts by `count`, `firstTimestamp` and `lastTimestamp`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Meta;
use crate::meta::object;

/// `Event`. What is unset is left out, so that it can stand for a merge patch of its set fields. Times are RFC 3339 in
/// whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// Metadata.
    pub metadata: Meta,
    /// What it is about. It has to be in the Event's own namespace, which is `default` for one that is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involved_object: Option<ObjectReference>,
    /// `Normal` or `Warning`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Arc<str>>,
    /// Machine-readable, in upper camel case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// Human-readable message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<str>>,
    /// How often it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// When it happened first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_timestamp: Option<String>,
    /// When it happened last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<String>,
    /// Who tells it, where older clients look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<EventSource>,
    /// Who tells it: a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporting_component: Option<Arc<str>>,
    /// Who tells it: which one of those programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reporting_instance: Option<Arc<str>>,
}
object!(Event, "Event", "v1", "events");

/// `EventSource`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventSource {
    /// A program.
    pub component: Arc<str>,
}

/// `ObjectReference`, without `fieldPath`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// `apiVersion`.
    pub api_version: Arc<str>,
    /// `kind`.
    pub kind: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Version.
    pub resource_version: Arc<str>,
}
