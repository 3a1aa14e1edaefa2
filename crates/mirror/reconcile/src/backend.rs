//! One backend as the writer sees it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_plan::{Count, EndpointsApi, HeldDrop, HoldRecord, Wanted, WindowRecord, publishable};
use gimbal_session::{WriterEnd, service_len};

use crate::guards::Guards;
use crate::{Decommission, Loss, LossRecord, Mode, Output, Policy, Stage, Usage};

/// What is kept of a backend in the Gimbal cluster, so that a restart does not forget it. Written when it changes only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendState {
    /// The source that the backend's name belongs to.
    pub incarnation: Option<String>,
    /// What may have been removed within the guard's window.
    pub window: Option<WindowRecord>,
    /// The held removal, if there is one.
    pub hold: Option<HoldRecord>,
    /// As `window`, of losses of readiness.
    pub ready_window: Option<WindowRecord>,
    /// As `hold`, of losses of readiness.
    pub ready_hold: Option<HoldRecord>,
    /// Its loss, where its policy makes something of that.
    pub loss: Option<LossRecord>,
    /// The id under which its removal was ordered.
    pub decommission: Option<String>,
}

/// What the guard holds, in a sentence; `readiness`: the one that counts ready endpoints.
#[must_use]
pub fn describe_hold(held: &HeldDrop, readiness: bool) -> String {
    let HeldDrop { endpoints_removed, endpoints_before, id, .. } = held;
    let what = if readiness { "ready endpoints" } else { "endpoints" };
    let does = if readiness { "keeps ready or holds the removal of" } else { "holds the removal of" };
    format!("the mass-change guard {does} {endpoints_removed} of {endpoints_before} {what} (id {id})")
}

/// How much one Service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Endpoints that its policy lets through.
    pub(crate) count: Count,
    pub(crate) bytes: u64,
    /// Whether it can be written.
    pub(crate) valid: bool,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Its name.
    pub name: BackendName,
    /// Its policy; the last one, if it is not listed any more.
    pub policy: Policy,
    /// Whether the configuration names it. One that it names no more is only known by its objects.
    pub listed: bool,
    /// What it publishes, against its quota.
    pub usage: Usage,
    /// The target that each of its Services has a claim on.
    pub(crate) routes: BTreeMap<SourceKey, TargetKey>,
    /// Its end of the stream.
    pub end: WriterEnd,
    /// Its mass-change guards.
    pub guards: Guards,
    /// How much each Service is that its agent holds.
    pub(crate) measured: BTreeMap<SourceKey, Measured>,
    /// Generation of the newest stream; 0: there was none.
    pub generation: u64,
    /// Whether that stream is open.
    pub connected: bool,
    /// What is kept.
    pub state: BackendState,
    /// A source that was refused for its incarnation, until an admin confirms it.
    pub refused_incarnation: Option<String>,
    /// Endpoints of this backend that the Gimbal cluster holds.
    pub endpoints: u64,
    /// For how long it is lost, and what is made of that.
    pub loss: Loss,
    /// Endpoints that were removed because it was lost.
    pub drained: u64,
    /// Its removal, if that was ordered.
    pub decommission: Option<Decommission>,
    /// Counts what was given to be kept.
    pub(crate) version: u64,
    /// The last version that was kept.
    pub(crate) kept: u64,
    /// It was lent out mutably since [`Desired::drain_changed`](crate::desired::Desired::drain_changed) visited it last.
    pub(crate) changed: bool,
}

impl Backend {
    /// Gives the state to be kept. Returns its version.
    pub(crate) fn keep(&mut self, outputs: &mut Vec<Output>) -> u64 {
        self.version += 1;
        outputs.push(Output::Keep { backend: self.name.clone(), version: self.version, state: self.state.clone() });
        self.version
    }

    /// Gives the records of granted removals to be stored, if there are any.
    pub(crate) fn keep_window(&mut self, wall: SystemTime, outputs: &mut Vec<Output>) {
        let asked = self.guards.put_records(&mut self.state, wall);
        if asked.contains(&true) {
            let version = self.keep(outputs);
            self.guards.await_version(asked, version);
        }
    }

    /// Counts the endpoints of a Service that the agent holds, as the Gimbal cluster will hold them, and its bytes.
    pub(crate) fn measure(&self, key: &SourceKey, api: EndpointsApi) -> Option<Measured> {
        let service = self.end.service(key)?;
        let count = publishable(service, &self.policy.addresses, api);
        let rules = self.policy.rules(api);
        let target = self.policy.target(&self.name, key, Some(service)).ok();
        let valid = target.is_none_or(|target| Wanted::check(&self.name, key, &target, service, &rules).is_ok());
        Some(Measured { count, bytes: service_len(key, service) as u64, valid })
    }

    /// Why something is wrong with it, in a sentence; empty if nothing is.
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
