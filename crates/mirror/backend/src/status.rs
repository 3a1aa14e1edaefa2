//! What the writer says of a backend in the status of its object. Conditions of others stay beside its own.
//!
//! `Ready`, `Reconciling` and `Stalled` are as kstatus reads them: `kubectl wait`, Flux and Argo CD know from these whether a
//! change has taken effect, is on its way, or needs somebody.

use gimbal_guard::{Guard, LastRelease};
use gimbal_reconcile::{Backend, Mode, Stage, describe_hold, describe_unmatched};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{BackendAnswer, BackendProblem, BackendRemoval};

/// Reason of an object whose identity another backend has.
pub(crate) const IDENTITY_TAKEN: &str = "IdentityTaken";
/// Reason of a backend for which another source dialled, and not its own.
pub(crate) const INCARNATION_REFUSED: &str = "IncarnationRefused";

/// What the writer says of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendResourceStatus {
    /// Generation of the spec that this is about.
    pub observed_generation: i64,
    /// Conditions, one of each type.
    #[serde(deserialize_with = "own_conditions")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<BackendCondition>,
    /// Services that its agent offers.
    pub services: u64,
    /// Services that are rejected.
    pub rejected: u64,
    /// Endpoints that it has in the Gimbal cluster.
    pub endpoints: u64,
    /// Incarnation of the source that its name belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// Incarnation for which an agent was refused last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_incarnation: Option<String>,
    /// Ids of the removals that the guard holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_changes: Vec<String>,
    /// What came of the annotations by which people decide.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "readable_ones")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["annotation"]))]
    pub answers: Vec<BackendAnswer>,
    /// What is removed, once the object is being deleted, or the removal was ordered.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "readable")]
    pub removal: Option<BackendRemoval>,
}

/// Reads a value. One that cannot be read, because a later release or another program wrote it, is as none: it is written again, and
/// nothing beside it is lost.
pub(crate) fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(from)?).ok())
}

/// Reads those of a list that can be read.
fn readable_ones<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let all = Option::<Vec<Value>>::deserialize(from)?.unwrap_or_default();
    Ok(all.into_iter().filter_map(|one| T::deserialize(one).ok()).collect())
}

/// Reads the conditions that the writer writes, in the order in which it does. Others write others beside them, as gimbal-operator.
fn own_conditions<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BackendCondition>, D::Error> {
    let mut own: Vec<BackendCondition> = readable_ones(from)?;
    own.sort_by_key(|condition| condition.type_);
    Ok(own)
}

/// A condition, as everywhere in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendCondition {
    /// What it is about.
    #[serde(rename = "type")]
    #[schemars(with = "String")]
    pub type_: ConditionType,
    /// True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Why, for programs.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// When the status last changed.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// Generation of the spec that it is about.
    pub observed_generation: i64,
}

/// What a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionType {
    /// Its spec is in force, and what its source has is known.
    Ready,
    /// It is on its way to that.
    Reconciling,
    /// It stays as it is until somebody does something.
    Stalled,
    /// An agent is connected.
    Connected,
    /// The agent's source was heard lately.
    SourceFresh,
    /// What the agent says is written.
    Synced,
    /// The mass-change guard holds something.
    Held,
    /// Its policy for a loss has taken effect.
    Lost,
    /// Services wait for room in its quota.
    QuotaExceeded,
    /// Nothing of it is left, now that its object is being deleted.
    Removed,
}

/// What is known of a backend that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    pub(crate) connected: bool,
    pub(crate) complete: bool,
    pub(crate) silent: bool,
    pub(crate) unknown: bool,
    pub(crate) pending: bool,
    pub(crate) quarantined: bool,
    pub(crate) stage: Stage,
    pub(crate) waits_for_room: bool,
    pub(crate) held: Vec<(String, String)>,
    pub(crate) released: Vec<LastRelease>,
    pub(crate) services: u64,
    pub(crate) rejected: u64,
    pub(crate) endpoints: u64,
    pub(crate) incarnation: Option<String>,
    pub(crate) refused_incarnation: Option<String>,
}

impl Standing {
    /// A backend that is connected, and all of which is written.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self { connected: true, complete: true, ..Self::default() }
    }

    /// Reads what is known of a backend. `pending` is the number of its targets that wait to be written.
    #[must_use]
    pub fn of(backend: &Backend, pending: u64) -> Self {
        let end = backend.end();
        let guards = [(backend.guards().removals(), false), (backend.guards().readiness(), true)];
        let mut held: Vec<_> = guards.into_iter().filter_map(|(guard, readiness)| held_by(guard, readiness)).collect();
        // Both guards may hold the same under one id.
        held.dedup_by(|one, other| one.0 == other.0);
        let released = guards.into_iter().filter_map(|(guard, _)| guard.last_release().cloned()).collect();
        Self {
            connected: backend.is_connected(),
            complete: end.is_complete(),
            silent: backend.loss().is_stale(),
            unknown: !end.unknown().is_empty(),
            pending: pending > 0,
            quarantined: backend.policy().mode == Mode::Quarantine,
            stage: backend.loss().stage(),
            waits_for_room: backend.usage().waiting() > 0,
            held,
            released,
            services: end.tree().count(),
            rejected: end.rejects().len() as u64,
            endpoints: backend.endpoints(),
            incarnation: backend.state().incarnation.clone(),
            refused_incarnation: backend.refused_incarnation().map(ToOwned::to_owned),
        }
    }

    /// Returns it with what a writer that was restarted cannot know and its status says: an agent that was refused dials again
    /// only after a while. `said` is the status that was written last.
    #[must_use]
    pub fn or_as_said(self, said: &BackendResourceStatus) -> Self {
        let refused = said.refused_incarnation.clone();
        let refused = refused.filter(|refused| !self.connected && self.incarnation.as_ref() != Some(refused));
        Self { refused_incarnation: self.refused_incarnation.or(refused), ..self }
    }
}

/// Returns the id and a description of what a guard holds. As long as it is not known whether a hold of an earlier writer goes
/// on, that one counts: its id is the one that people have seen.
fn held_by(guard: &Guard, readiness: bool) -> Option<(String, String)> {
    if let Some(record) = guard.unmatched() {
        return Some((record.id.clone(), describe_unmatched(record)));
    }
    let held = guard.held()?;
    Some((held.id.clone(), describe_hold(&held, readiness)))
}

/// What a status follows from.
#[derive(Debug, Clone, Copy)]
pub struct StatusFacts<'a> {
    /// Generation of the object's spec.
    pub generation: i64,
    /// Why its spec is not in force.
    pub problem: Option<&'a BackendProblem>,
    /// How the backend is; `None` if nothing of it was ever in force.
    pub standing: Option<&'a Standing>,
    /// What came of the object's annotations.
    pub answers: &'a [BackendAnswer],
    /// What is removed of it.
    pub removal: Option<&'a BackendRemoval>,
}

/// A condition without its times.
pub(crate) type Stated = (ConditionType, &'static str, &'static str, String);

impl StatusFacts<'_> {
    /// Returns the conditions that follow. What was never in force has the first three only, and `Removed`.
    pub(crate) fn conditions(&self) -> Vec<Stated> {
        use ConditionType as Type;
        let (ready, reason, why) = self.ready();
        let stalled = matches!(reason, "InvalidSpec" | IDENTITY_TAKEN | INCARNATION_REFUSED);
        let flag = |is: bool| if is { "True" } else { "False" };
        let mut conditions = vec![
            (Type::Ready, flag(ready), reason, why.clone()),
            match !ready && !stalled {
                true => (Type::Reconciling, "True", reason, why.clone()),
                false => (Type::Reconciling, "False", "Settled", String::new()),
            },
            match stalled {
                true => (Type::Stalled, "True", reason, why),
                false => (Type::Stalled, "False", "NotStalled", String::new()),
            },
        ];
        conditions.extend(self.removal.map(|removal| {
            let (is_over, reason, why) = removal.stated();
            (Type::Removed, flag(is_over), reason, why)
        }));
        let Some(standing) = self.standing else { return conditions };
        let either = |type_, is: bool, yes: (&'static str, &str), no: (&'static str, &str)| {
            let (reason, why) = if is { yes } else { no };
            (type_, flag(is), reason, why.to_owned())
        };
        conditions.push(either(
            Type::Connected,
            standing.connected,
            ("AgentConnected", ""),
            ("NoAgent", "no agent is connected; what was last known stays, as far as onLoss lets it"),
        ));
        conditions.push(match standing {
            Standing { connected: false, .. } => {
                (Type::SourceFresh, "Unknown", "NoAgent", "no agent says how its source is".into())
            }
            Standing { silent: true, .. } => (
                Type::SourceFresh,
                "False",
                "SourceSilent",
                "the source is silent for longer than onLoss.sourceStaleAfter".into(),
            ),
            Standing { unknown: true, .. } => (
                Type::SourceFresh,
                "False",
                "SourceUnread",
                "a part of the source cannot be read; what was last known of it stays".into(),
            ),
            _ => (Type::SourceFresh, "True", "SourceHeard", String::new()),
        });
        conditions.push(match standing {
            Standing { quarantined: true, .. } => (
                Type::Synced,
                "False",
                "Quarantined",
                "it is in quarantine: what it offers is planned and shown, and nothing is written".into(),
            ),
            Standing { complete: false, .. } => {
                (Type::Synced, "Unknown", "NoSnapshot", "this writer has no complete snapshot of the source yet".into())
            }
            Standing { pending: true, .. } => (Type::Synced, "False", "Pending", "changes wait to be written".into()),
            Standing { rejected: 1.., .. } => (
                Type::Synced,
                "False",
                "Rejected",
                "Services are rejected: `gimbalctl` or InspectionService.ListServices tells why".into(),
            ),
            _ => (Type::Synced, "True", "Written", String::new()),
        });
        let held: Vec<_> = standing.held.iter().map(|(_, words)| words.as_str()).collect();
        conditions.push(either(Type::Held, !held.is_empty(), ("MassChange", &held.join("; ")), ("NothingHeld", "")));
        conditions.push(match standing.stage {
            Stage::Hold => (Type::Lost, "False", "NotLost", String::new()),
            Stage::NotReady => {
                (Type::Lost, "True", "NotReady", "its endpoints are not ready (onLoss.notReadyAfter)".into())
            }
            Stage::Drained => (Type::Lost, "True", "Drained", "its endpoints were removed (onLoss.drainAfter)".into()),
        });
        conditions.push(either(
            Type::QuotaExceeded,
            standing.waits_for_room,
            ("NoRoom", "Services wait for room in the quota"),
            ("Room", ""),
        ));
        // In the order in which they are read, or the same conditions would be taken for others and written again.
        conditions.sort_by_key(|(type_, ..)| *type_);
        conditions
    }

    /// Returns whether the spec is in force and the source known, and why or why not.
    fn ready(&self) -> (bool, &'static str, String) {
        match (self.problem, self.standing) {
            (Some(problem @ BackendProblem::Spec(_)), _) => (false, "InvalidSpec", problem.to_string()),
            (Some(problem @ BackendProblem::Identity(_)), _) => (false, IDENTITY_TAKEN, problem.to_string()),
            (None, None) => (false, "NotInForce", "the writer has not taken it yet".into()),
            (None, Some(standing)) => {
                let refused = standing.refused_incarnation.as_ref().map(|refused| {
                    let owner = standing.incarnation.as_deref().unwrap_or_default();
                    format!("an agent of source {refused} was refused: this name belongs to source {owner}")
                });
                match standing {
                    // Somebody else dialled, and the backend is as it should be.
                    Standing { connected: true, complete: true, .. } => (true, "InForce", refused.unwrap_or_default()),
                    Standing { refused_incarnation: Some(_), .. } => {
                        (false, INCARNATION_REFUSED, refused.unwrap_or_default())
                    }
                    Standing { connected: false, .. } => (false, "NoAgent", "no agent is connected".into()),
                    Standing { complete: false, .. } => {
                        (false, "NoSnapshot", "no complete snapshot has come yet".into())
                    }
                }
            }
        }
    }

    /// Returns the status but for its conditions.
    pub(crate) fn rest(&self) -> BackendResourceStatus {
        let standing = self.standing.cloned().unwrap_or_default();
        BackendResourceStatus {
            observed_generation: self.generation,
            conditions: Vec::new(),
            services: standing.services,
            rejected: standing.rejected,
            endpoints: standing.endpoints,
            incarnation: standing.incarnation,
            refused_incarnation: standing.refused_incarnation,
            held_changes: standing.held.into_iter().map(|(id, _)| id).collect(),
            answers: self.answers.to_vec(),
            removal: self.removal.cloned(),
        }
    }
}
