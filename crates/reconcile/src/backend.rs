//! One backend as the writer sees it.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_plan::{Guard, HoldRecord, WindowRecord};
use gimbal_stream::WriterEnd;

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
    /// Its loss, where its policy makes something of that.
    pub loss: Option<LossRecord>,
    /// The id under which its removal was ordered.
    pub decommission: Option<String>,
}

/// See the module.
#[derive(Debug)]
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
    /// Its guard.
    pub guard: Guard,
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
    /// The version that removals wait for.
    pub(crate) window_version: Option<u64>,
    /// When the figures of a hold were kept last.
    pub(crate) hold_kept: Option<Instant>,
    /// It was changed since it was last asked what it has to say.
    pub(crate) stirred: bool,
}

impl Backend {
    /// Gives the state to be kept. Returns its version.
    pub(crate) fn keep(&mut self, outputs: &mut Vec<Output>) -> u64 {
        self.version += 1;
        outputs.push(Output::Keep { backend: self.name.clone(), version: self.version, state: self.state.clone() });
        self.version
    }

    /// Asks to keep what removals wait for.
    pub(crate) fn keep_window(&mut self, wall: SystemTime, outputs: &mut Vec<Output>) {
        if let Some(record) = self.guard.record(wall) {
            self.state.window = Some(record);
            let version = self.keep(outputs);
            // Where it was asked for before, either is as good: both let the same go.
            self.window_version.get_or_insert(version);
        }
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
        if let Some(held) = self.guard.held() {
            return format!(
                "the mass-change guard holds the removal of {} of {} endpoints (id {})",
                held.endpoints_removed, held.endpoints_before, held.id
            );
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
