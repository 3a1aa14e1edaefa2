//! What people decide, and when it outlives this process.

use gimbal_model::BackendName;

use crate::Reconciler;

/// Why a backend's name goes on belonging to the source that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotConfirmed {
    /// The configuration does not name it, and nothing is kept of it.
    #[error("backend {0} is not configured")]
    Unknown(BackendName),
    /// A slip of the pen would shut out the source that is there.
    #[error(
        "incarnation {incarnation} is not what an agent of backend {backend} showed last and was refused for: that is {}; ListBackends tells it",
        refused.as_deref().unwrap_or("none")
    )]
    NotShown {
        /// Whose.
        backend: BackendName,
        /// What was to be confirmed.
        incarnation: String,
        /// What an agent showed, and was refused for.
        refused: Option<String>,
    },
}

impl Reconciler {
    /// Lets a held removal pass. Returns how many Services it was about; `None` if there is no such removal.
    pub fn approve(&mut self, name: &BackendName, id: &str) -> Option<u64> {
        // The guard tells of it at the next tick, and everything of the backend is decided anew.
        let backend = self.desired.get_mut(name)?;
        backend.guards.approve(id)
    }

    /// Lets a backend's name belong to another source, which an agent has shown. Returns the source that it belonged to.
    ///
    /// # Errors
    /// Why it goes on belonging to that one.
    pub fn confirm_incarnation(
        &mut self,
        name: &BackendName,
        incarnation: &str,
    ) -> Result<Option<String>, NotConfirmed> {
        let backend = self.desired.get_mut(name).ok_or_else(|| NotConfirmed::Unknown(name.clone()))?;
        let shown = [&backend.refused_incarnation, &backend.state.incarnation];
        // One that belongs to nobody yet may be told beforehand whose it is.
        if backend.state.incarnation.is_some() && !shown.iter().any(|shown| shown.as_deref() == Some(incarnation)) {
            let refused = backend.refused_incarnation.clone();
            return Err(NotConfirmed::NotShown { backend: name.clone(), incarnation: incarnation.to_owned(), refused });
        }
        let previous = backend.state.incarnation.replace(incarnation.to_owned());
        backend.refused_incarnation = None;
        backend.keep(&mut self.outputs);
        Ok(previous)
    }

    /// Keeps what was decided for a backend up to now. Returns the version that [`Reconciler::is_kept`] is to be asked for;
    /// `None`: there is no such backend.
    pub fn keep_decision(&mut self, name: &BackendName) -> Option<u64> {
        let wall = self.wall;
        let backend = self.desired.get_mut(name)?;
        backend.guards.drop_ended_holds(&mut backend.state);
        backend.keep_window(wall, &mut self.outputs);
        Some(backend.keep(&mut self.outputs))
    }

    /// Whether a state of a backend is kept: a restart, or another leader, knows of it. A backend that is gone needs nothing.
    #[must_use]
    pub fn is_kept(&self, name: &BackendName, version: u64) -> bool {
        self.desired.get(name).is_none_or(|backend| backend.kept >= version)
    }
}
