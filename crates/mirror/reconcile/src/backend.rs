//! One backend: its policy, its end of the stream, and what is counted for it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use gimbal_model::{BackendName, SourceKey};
use gimbal_plan::{Count, EndpointsApi, HeldDrop, HoldRecord, Wanted, WindowRecord, publishable};
use gimbal_session::{WriterEnd, service_len};

use crate::guards::Guards;
use crate::routes::Routes;
use crate::{Decommission, Loss, LossRecord, Mode, Output, Policy, Stage, Usage};

/// The state of a backend that is stored in the Gimbal cluster, so that it survives a restart. It is stored when it
/// changes, not periodically.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendState {
    /// The incarnation of the source that the backend's name belongs to.
    pub incarnation: Option<String>,
    /// The removals that were granted within the guard's window.
    pub window: Option<WindowRecord>,
    /// The removal that the guard holds.
    pub hold: Option<HoldRecord>,
    /// Like `window`, for losses of readiness.
    pub ready_window: Option<WindowRecord>,
    /// Like `hold`, for losses of readiness.
    pub ready_hold: Option<HoldRecord>,
    /// The loss of the backend, if its policy reacts to a loss.
    pub loss: Option<LossRecord>,
    /// The id with which its removal was ordered.
    pub decommission: Option<String>,
}

/// Describes a held removal in a sentence. `readiness`: it is held by the guard that counts ready endpoints.
#[must_use]
pub fn describe_hold(held: &HeldDrop, readiness: bool) -> String {
    let HeldDrop { endpoints_removed, endpoints_before, id, .. } = held;
    let what = if readiness { "ready endpoints" } else { "endpoints" };
    let does = if readiness { "keeps ready or holds the removal of" } else { "holds the removal of" };
    format!("the mass-change guard {does} {endpoints_removed} of {endpoints_before} {what} (id {id})")
}

/// The size of one Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Endpoints that the policy admits.
    pub(crate) count: Count,
    /// Bytes of its header and endpoints on the stream.
    pub(crate) bytes: u64,
    /// Whether the API server would accept it, as far as that is known.
    pub(crate) valid: bool,
}

/// One backend.
#[derive(Debug, Clone)]
pub struct Backend {
    /// The name, which its certificate proves.
    pub name: BackendName,
    /// The policy. The last one, if the backend is no longer `listed`.
    pub policy: Policy,
    /// Whether the configuration names the backend. Otherwise it is known only by its objects or its stored state.
    pub listed: bool,
    /// What its Services take of its quota.
    pub usage: Usage,
    /// The targets that its Services lead to, and those that they leave.
    pub(crate) routes: Routes,
    /// The writer's end of its stream, with the Services that the agent sent.
    pub end: WriterEnd,
    /// The mass-change guards.
    pub guards: Guards,
    /// The size of each Service that its agent sent.
    pub(crate) measured: BTreeMap<SourceKey, Measured>,
    /// The generation of the newest stream; 0 if there was none.
    pub generation: u64,
    /// Whether that stream is open.
    pub connected: bool,
    /// The state to be stored.
    pub state: BackendState,
    /// The incarnation with which an agent was refused last, until an admin confirms one.
    pub refused_incarnation: Option<String>,
    /// Endpoints of this backend in the Gimbal cluster.
    pub endpoints: u64,
    /// Whether and for how long the backend is lost, and the stage that its loss policy has reached.
    pub loss: Loss,
    /// Total of the endpoints that were removed because the backend was lost.
    pub drained: u64,
    /// The removal of the backend, if it was ordered.
    pub decommission: Option<Decommission>,
    /// The version of the last state that was given to be stored.
    pub(crate) version: u64,
    /// The last version that was stored.
    pub(crate) kept: u64,
    /// It was lent out mutably since [`Desired::drain_changed`](crate::desired::Desired::drain_changed) visited it
    /// last.
    pub(crate) changed: bool,
}

impl Backend {
    /// Gives the state to be stored, and returns its version.
    pub(crate) fn keep(&mut self, outputs: &mut Vec<Output>) -> u64 {
        self.version += 1;
        outputs.push(Output::Keep { backend: self.name.clone(), version: self.version, state: self.state.clone() });
        self.version
    }

    /// Gives the records of granted removals to be stored, if the guards ask for it.
    pub(crate) fn keep_window(&mut self, wall: SystemTime, outputs: &mut Vec<Output>) {
        let asked = self.guards.put_records(&mut self.state, wall);
        if asked.contains(&true) {
            let version = self.keep(outputs);
            self.guards.await_version(asked, version);
        }
    }

    /// Returns the size of a Service that the agent sent, as the Gimbal cluster will hold it.
    pub(crate) fn measure(&self, key: &SourceKey, api: EndpointsApi) -> Option<Measured> {
        let service = self.end.service(key)?;
        let count = publishable(service, &self.policy.addresses, api);
        let rules = self.policy.rules(api);
        let target = self.policy.target(&self.name, key, Some(service)).ok();
        let valid = target.is_none_or(|target| Wanted::check(&self.name, key, &target, service, &rules).is_ok());
        Some(Measured { count, bytes: service_len(key, service) as u64, valid })
    }

    /// Returns what is wrong with the backend, in a sentence; empty if nothing is.
    #[must_use]
    pub fn trouble(&self) -> String {
        if let Some(refused) = &self.refused_incarnation {
            let held = self.state.incarnation.as_deref().unwrap_or_default();
            return format!(
                "an agent of source {refused} was refused: this name belongs to source {held}; AdminService.ConfirmIncarnation changes that"
            );
        }
        for (guard, readiness) in [(self.guards.removals(), false), (self.guards.readiness(), true)] {
            if let Some(held) = guard.held() {
                return describe_hold(&held, readiness);
            }
        }
        if self.guards.wait_for_record() {
            return "removals wait: the guard's record of it cannot be kept in the Gimbal cluster; the writer's log says why".into();
        }
        if self.decommission.is_some() {
            return "it is being decommissioned".into();
        }
        if !self.listed {
            return "it is not configured; its objects stay until it is decommissioned".into();
        }
        if self.policy.mode == Mode::Quarantine {
            return "it is in quarantine: what it offers is planned and shown, and nothing is written".into();
        }
        let why = if self.connected { "its source is silent" } else { "no agent is connected" };
        match self.loss.stage() {
            Stage::Drained => format!("{why}; its endpoints were removed (onLoss.drainAfter)"),
            Stage::NotReady => format!("{why}; its endpoints are not ready (onLoss.notReadyAfter)"),
            Stage::Hold if !self.connected || self.loss.is_stale() => format!("{why}; what was last known stays"),
            Stage::Hold => String::new(),
        }
    }
}
