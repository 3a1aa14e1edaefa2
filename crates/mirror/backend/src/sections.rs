//! The sections of a backend's policy, and what each of them becomes. What is left out has its default.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_duration::HumanDuration;
use gimbal_guard::{Floors, GuardConfig};
use gimbal_plan::{AppProtocols, Keep, Pattern, Strip};
use gimbal_reconcile::{LossPolicy, Mode, NamespacePolicy, Quota, RemovalPolicy};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::InvalidSpec;
use crate::values::{
    AddressRange, AnyTime, KeyText, LongTime, MappedNamespace, NamespaceRule, Percent, RenamedProtocol, optional_count,
    optional_guard_time, optional_number,
};

/// Namespaces that a backend's Services are published in.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NamespaceSection {
    /// Patterns of namespaces of the Gimbal cluster, after `map`; * matches any letters. Left out: all but kube-*.
    #[schemars(extend("maxItems" = 1024))]
    pub allow: Option<Vec<NamespaceRule>>,
    /// Patterns of namespaces that are refused; they outrank `allow`.
    #[schemars(extend("maxItems" = 1024))]
    pub deny: Vec<NamespaceRule>,
    /// The namespace of the Gimbal cluster for a namespace of the source, or for the ID of an OpenStack project, which outranks it.
    #[schemars(extend("maxProperties" = 4096))]
    pub map: BTreeMap<String, MappedNamespace>,
    /// Whether a namespace that is missing is created. It is never deleted.
    pub create: bool,
}

impl NamespaceSection {
    pub(crate) fn into_policy(self) -> NamespacePolicy {
        let plain = |patterns: Vec<NamespaceRule>| patterns.into_iter().map(|pattern| pattern.0).collect();
        NamespacePolicy {
            allow: self.allow.map(plain),
            deny: plain(self.deny),
            map: self.map.into_iter().map(|(from, to)| (from, to.0)).collect(),
            create: self.create,
        }
    }
}

/// Addresses that a backend's endpoints may have.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AddressSection {
    /// Ranges that the source really has. Left out: every address that is not refused to all backends.
    #[schemars(extend("maxItems" = 1024))]
    pub allow: Option<Vec<AddressRange>>,
}

/// Keys of labels and annotations; * at the end of one matches any rest.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeyListSection {
    /// Keys of labels.
    #[schemars(extend("maxItems" = 1024))]
    #[schemars(with = "Option<Vec<KeyText>>")]
    pub labels: Option<Vec<String>>,
    /// Keys of annotations.
    #[schemars(extend("maxItems" = 1024))]
    #[schemars(with = "Option<Vec<KeyText>>")]
    pub annotations: Option<Vec<String>>,
}

fn patterns(texts: Vec<String>) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

impl KeyListSection {
    pub(crate) fn into_strip(self) -> Strip {
        let default = Strip::default();
        Strip {
            labels: self.labels.map_or(default.labels, patterns),
            annotations: self.annotations.map_or(default.annotations, patterns),
        }
    }

    pub(crate) fn into_keep(self) -> Keep {
        Keep { labels: self.labels.map(patterns), annotations: self.annotations.map(patterns) }
    }
}

pub(crate) fn app_protocols(section: BTreeMap<String, RenamedProtocol>) -> AppProtocols {
    section.into_iter().map(|(from, to)| (from.into(), to.0.map(Into::into))).collect()
}

/// What happens when no agent is connected, or the source is silent. Left out: what was last known stays.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.notReadyAfter) || !has(self.drainAfter) || duration(self.notReadyAfter) <= duration(self.drainAfter)",
    "message": "drainAfter comes before notReadyAfter: make it longer",
}]))]
pub struct LossSection {
    /// After this time, endpoints are not ready; at least 1s.
    #[schemars(with = "Option<LongTime>")]
    pub not_ready_after: Option<HumanDuration>,
    /// After this time, endpoints are removed; not before `notReadyAfter`.
    #[schemars(with = "Option<LongTime>")]
    pub drain_after: Option<HumanDuration>,
    /// After this time of silence of the source, the backend counts as lost although its agent is connected; at least 1s.
    #[schemars(with = "Option<LongTime>")]
    pub source_stale_after: Option<HumanDuration>,
}

/// Shortest time of `onLoss`. A backend that was away or silent for less must not count as lost.
const SHORTEST_LOSS: Duration = Duration::from_secs(1);

impl LossSection {
    /// Compares the times with each other.
    ///
    /// # Errors
    /// Returns which time cannot be.
    pub fn check(&self) -> Result<(), InvalidSpec> {
        let is_short = |time: Option<HumanDuration>| time.is_some_and(|time| time.0 < SHORTEST_LOSS);
        let problem = match (self.not_ready_after, self.drain_after) {
            (first, then) if is_short(first) || is_short(then) => {
                "a time shorter than 1s: the agent's mere reconnect would count as a loss; make it longer"
            }
            _ if is_short(self.source_stale_after) => {
                "sourceStaleAfter is shorter than 1s: the source would always count as silent; make it longer"
            }
            (Some(first), Some(then)) if then.0 < first.0 => "drainAfter comes before notReadyAfter: make it longer",
            _ => return Ok(()),
        };
        Err(InvalidSpec(problem.to_owned()))
    }

    pub(crate) fn into_policy(self) -> LossPolicy {
        let time = |time: Option<HumanDuration>| time.map(|time| time.0);
        LossPolicy {
            not_ready_after: time(self.not_ready_after),
            drain_after: time(self.drain_after),
            source_stale_after: time(self.source_stale_after),
        }
    }
}

/// What happens when its removal was approved: its endpoints are not ready for a while, and then its objects go.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RemovalSection {
    /// For this time its endpoints are not ready before its objects go; left out: 60s, and with 0s they go at once.
    #[schemars(with = "Option<AnyTime>")]
    pub not_ready_for: Option<HumanDuration>,
}

impl RemovalSection {
    pub(crate) fn into_policy(self) -> RemovalPolicy {
        let RemovalPolicy { not_ready_for } = RemovalPolicy::default();
        RemovalPolicy { not_ready_for: self.not_ready_for.map_or(not_ready_for, |time| time.0) }
    }
}

/// The mass-change guard: how much of what there was within `window` may be missing at any moment.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DropGuardSection {
    /// Percentage of endpoints that may be missing; left out: 50, and 100 turns the guard off.
    pub max_drop_percent: Option<Percent>,
    /// Number of endpoints that may be missing, if that is more; left out: 20.
    #[serde(deserialize_with = "optional_number")]
    pub min_endpoints: Option<u64>,
    /// Over this time; left out: 60s.
    #[serde(deserialize_with = "optional_guard_time")]
    #[schemars(with = "Option<LongTime>")]
    pub window: Option<HumanDuration>,
    /// A part is released when a complete snapshot this much later still says so; left out: 60s.
    #[serde(deserialize_with = "optional_guard_time")]
    #[schemars(with = "Option<LongTime>")]
    pub quiet_time: Option<HumanDuration>,
    /// A drop to nothing is released after this time; left out: only by a person.
    #[serde(deserialize_with = "optional_guard_time")]
    #[schemars(with = "Option<LongTime>")]
    pub release_all_after: Option<HumanDuration>,
    /// Endpoints that stay in any case, until a person approves.
    pub floors: FloorSection,
    /// Whether endpoints that are not ready any more count too, and are kept ready.
    pub readiness: bool,
}

/// Numbers of endpoints that stay.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FloorSection {
    /// In each namespace; left out: 0.
    #[serde(deserialize_with = "optional_number")]
    pub endpoints_per_namespace: Option<u64>,
    /// Of each Service; left out: 0.
    #[serde(deserialize_with = "optional_number")]
    pub endpoints_per_service: Option<u64>,
}

impl DropGuardSection {
    pub(crate) fn into_config(self) -> GuardConfig {
        let default = GuardConfig::default();
        let time = |time: Option<HumanDuration>, default: Duration| time.map_or(default, |time| time.0);
        GuardConfig {
            max_drop_percent: self.max_drop_percent.map_or(default.max_drop_percent, |share| share.0),
            min_endpoints: self.min_endpoints.unwrap_or(default.min_endpoints),
            window: time(self.window, default.window),
            quiet_time: time(self.quiet_time, default.quiet_time),
            release_all_after: self.release_all_after.map(|time| time.0),
            floors: Floors {
                endpoints_per_namespace: self.floors.endpoints_per_namespace.unwrap_or_default(),
                endpoints_per_service: self.floors.endpoints_per_service.unwrap_or_default(),
            },
            readiness: self.readiness,
        }
    }
}

/// Limits on what a backend publishes; what is left out has none.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LimitSection {
    /// Number of Services.
    #[serde(deserialize_with = "optional_number")]
    pub services: Option<u64>,
    /// Number of endpoints.
    #[serde(deserialize_with = "optional_number")]
    pub endpoints: Option<u64>,
    /// Bytes of all Services with their endpoints.
    #[serde(deserialize_with = "optional_number")]
    pub bytes: Option<u64>,
    /// Changes in a second; more of them wait, the newest first.
    #[serde(deserialize_with = "optional_count")]
    #[schemars(extend("minimum" = 1))]
    pub changes_per_second: Option<u64>,
}

impl LimitSection {
    pub(crate) fn into_quota(self) -> Quota {
        let Self { services, endpoints, bytes, changes_per_second } = self;
        Quota { services, endpoints, bytes, changes_per_second }
    }
}

/// Whether anything is written: `admit`, or `quarantine`, where it is only planned and shown.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModeSection {
    /// Changes are written.
    #[default]
    Admit,
    /// Changes are planned and shown only.
    Quarantine,
}

impl ModeSection {
    pub(crate) fn into_mode(self) -> Mode {
        match self {
            Self::Admit => Mode::Admit,
            Self::Quarantine => Mode::Quarantine,
        }
    }
}
