//! One backend as the writer sees it.

use gimbal_model::BackendName;
use gimbal_plan::Guard;
use gimbal_stream::WriterEnd;

use crate::Policy;

/// What is kept of a backend in the Gimbal cluster, so that a restart does not forget it. Written when it changes only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendState {
    /// The source that the backend's name belongs to.
    pub incarnation: Option<String>,
    /// The held removal, if there is one: its id.
    pub held: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub struct Backend {
    /// Its name.
    pub name: BackendName,
    /// Its policy.
    pub policy: Policy,
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
}

impl Backend {
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
        if !self.connected {
            return "no agent is connected; what was last known stays".into();
        }
        String::new()
    }
}
