//! What is wrong with a backend, in words for an admin.

use gimbal_guard::{HeldDrop, HoldRecord};

use crate::{Backend, Decommission, Mode, Stage};

/// Describes a held removal in a sentence. `readiness`: it is held by the guard that counts ready endpoints.
#[must_use]
pub fn describe_hold(held: &HeldDrop, readiness: bool) -> String {
    let HeldDrop { endpoints_removed, endpoints_before, id, .. } = held;
    let what = if readiness { "ready endpoints" } else { "endpoints" };
    let does = if readiness { "keeps ready or holds the removal of" } else { "holds the removal of" };
    format!("the mass-change guard {does} {endpoints_removed} of {endpoints_before} {what} (id {id})")
}

/// Describes a removal that an earlier writer held, as long as the agent has not sent enough to see whether it still is.
#[must_use]
pub fn describe_unmatched(record: &HoldRecord) -> String {
    let HoldRecord { endpoints, id, .. } = record;
    format!(
        "the mass-change guard held the removal of {endpoints} endpoints before this writer led; whether it still does shows \
         when its agent has sent everything (id {id})"
    )
}

impl Backend {
    /// Returns what is wrong with the backend, in a sentence; empty if nothing is.
    #[must_use]
    pub fn trouble(&self) -> String {
        if let Some(why) = self.withheld() {
            return format!("nothing of it is removed: {why}");
        }
        if let Some(refused) = self.refused_incarnation() {
            let held = self.state().incarnation.as_deref().unwrap_or_default();
            return format!(
                "an agent of source {refused} was refused: this name belongs to source {held}; AdminService.ConfirmIncarnation changes that"
            );
        }
        for (guard, readiness) in [(self.guards().removals(), false), (self.guards().readiness(), true)] {
            if let Some(held) = guard.held() {
                return describe_hold(&held, readiness);
            }
        }
        if self.guards().wait_for_record() {
            return "removals wait: the guard's record of it cannot be kept in the Gimbal cluster; the writer's log says why".into();
        }
        if let Some(stage) = self.decommission() {
            return match stage {
                Decommission::Ordered { .. } => {
                    "its removal is ordered, and begins once that is stored in the Gimbal cluster; until then it stays as it is".into()
                }
                Decommission::MakingNotReady { .. } | Decommission::NotReady { .. } => {
                    "its removal is ordered: its endpoints are not ready, and its objects go after a while (onRemoval.notReadyFor)".into()
                }
                Decommission::Running { .. } => "it is being decommissioned".into(),
            };
        }
        if self.is_listed() && self.policy().leaving {
            return "its object is deleted: it stays as it is until its removal is approved".into();
        }
        if !self.is_listed() {
            return "it is not configured; its objects stay until it is decommissioned".into();
        }
        if self.policy().mode == Mode::Quarantine {
            return "it is in quarantine: what it offers is planned and shown, and nothing is written".into();
        }
        let why = if self.is_connected() { "its source is silent" } else { "no agent is connected" };
        match self.loss().stage() {
            Stage::Drained => format!("{why}; its endpoints were removed (onLoss.drainAfter)"),
            Stage::NotReady => format!("{why}; its endpoints are not ready (onLoss.notReadyAfter)"),
            Stage::Hold if !self.is_connected() || self.loss().is_stale() => {
                format!("{why}; what was last known stays")
            }
            Stage::Hold => String::new(),
        }
    }
}
