//! Decisions of admins, and whether they are stored.

use gimbal_model::BackendName;

use crate::Reconciler;

/// Why an incarnation is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotConfirmed {
    /// The backend is not configured, and it has neither a stored state nor an object.
    #[error("backend {0} is not configured")]
    Unknown(BackendName),
    /// This is not the incarnation for which an agent was refused last. Confirming a mistyped one would lock out the
    /// existing source.
    #[error(
        "incarnation {incarnation} is not what an agent of backend {backend} showed last and was refused for: that is {}; ListBackends tells it",
        refused.as_deref().unwrap_or("none")
    )]
    NotShown {
        /// The backend.
        backend: BackendName,
        /// The incarnation that was to be confirmed.
        incarnation: String,
        /// The incarnation for which an agent was refused last.
        refused: Option<String>,
    },
}

impl Reconciler {
    /// Releases a held removal. Returns how many Services it is about; `None` if there is no such removal.
    pub fn approve(&mut self, name: &BackendName, id: &str) -> Option<u64> {
        // The guard reports the release at the next tick, and then all targets of the backend are decided again.
        let backend = self.desired.get_mut(name)?;
        backend.guards_mut().approve(id)
    }

    /// Gives a backend's name to another source, for whose incarnation an agent was refused. Returns the previous
    /// incarnation.
    ///
    /// # Errors
    /// Returns why the name still belongs to the previous source.
    pub fn confirm_incarnation(
        &mut self,
        name: &BackendName,
        incarnation: &str,
    ) -> Result<Option<String>, NotConfirmed> {
        let backend = self.desired.get_mut(name).ok_or_else(|| NotConfirmed::Unknown(name.clone()))?;
        let (refused, current) = (backend.refused_incarnation(), backend.state().incarnation.as_deref());
        // For a backend without a source yet, the incarnation may be set in advance.
        if current.is_some() && ![refused, current].contains(&Some(incarnation)) {
            let refused = refused.map(ToOwned::to_owned);
            return Err(NotConfirmed::NotShown { backend: name.clone(), incarnation: incarnation.to_owned(), refused });
        }
        let previous = backend.confirm_incarnation(incarnation);
        backend.keep(&mut self.outputs);
        Ok(previous)
    }

    /// Gives a backend's state to be stored with all decisions so far. Returns the version to pass to
    /// [`Reconciler::is_kept`]; `None` if there is no such backend.
    pub fn keep_decision(&mut self, name: &BackendName) -> Option<u64> {
        let wall = self.wall;
        let backend = self.desired.get_mut(name)?;
        backend.drop_ended_holds();
        backend.keep_window(wall, &mut self.outputs);
        Some(backend.keep(&mut self.outputs))
    }

    /// Whether a version of a backend's state is stored, so that a restart or another leader knows of it. True for a
    /// backend that no longer exists.
    #[must_use]
    pub fn is_kept(&self, name: &BackendName, version: u64) -> bool {
        self.desired.get(name).is_none_or(|backend| backend.is_version_stored(version))
    }
}
