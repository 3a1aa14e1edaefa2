//! What is worth an Event about a Backend.
//!
//! What is wrong is reported when the condition begins to say so. The condition is stored in the object, so an operator that starts,
//! or another one that leads, repeats nothing.

use gimbal_kubernetes_objects::LifecycleMeta;

use crate::objects::backend_owner;
use crate::{DiscovererCondition, ObjectId, OperatorSettings, ReadyStatement, WantedDiscoverer};

/// What happened to the discoverer of a Backend, in the words of an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscovererNotice {
    /// Name of the Backend.
    pub backend: String,
    /// UID of its object.
    pub uid: String,
    /// Whether somebody has to look at it.
    pub is_warning: bool,
    /// Machine-readable, in upper camel case.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// Returns the notice of what the condition of a Backend says now; `there` is what it said before. A pod that is not available yet
/// is on its way, and one that was is reported by its own Events.
#[must_use]
pub fn problem_notice(
    backend: &LifecycleMeta,
    stated: &ReadyStatement,
    there: Option<&DiscovererCondition>,
) -> Option<DiscovererNotice> {
    let is_said = there.is_some_and(|there| there.reason == stated.reason && there.message == stated.message);
    (stated.is_problem() && !is_said).then(|| DiscovererNotice {
        backend: backend.meta.name.to_string(),
        uid: backend.meta.uid.to_string(),
        is_warning: true,
        reason: stated.reason,
        message: stated.message.clone(),
    })
}

/// Returns the notice that the Deployment of a discoverer was made or, where it `exists`, changed.
#[must_use]
pub fn made_notice(
    discoverer: &WantedDiscoverer,
    settings: &OperatorSettings,
    id: &ObjectId,
    exists: bool,
) -> DiscovererNotice {
    let place = &settings.namespace;
    let (reason, message) = match exists {
        false => ("DiscovererMade", format!("{id} in {place} was made")),
        true => {
            let why = "as the Backend, the Secret of its source or the settings of the operator say";
            (
                "DiscovererChanged",
                format!("{id} in {place} was changed, {why}; another pod takes over where its own changed"),
            )
        }
    };
    let backend = discoverer.name.to_string();
    DiscovererNotice { backend, uid: discoverer.uid.clone(), is_warning: false, reason, message }
}

/// Returns the notice that the Deployment of a discoverer, which was read with this metadata, was removed.
#[must_use]
pub fn removed_notice(id: &ObjectId, metadata: &LifecycleMeta) -> Option<DiscovererNotice> {
    let owner = backend_owner(metadata)?;
    let why = "the Backend is gone, or has no source or one of another kind";
    Some(DiscovererNotice {
        backend: owner.name.to_string(),
        uid: owner.uid.to_string(),
        is_warning: false,
        reason: "DiscovererRemoved",
        message: format!("{id} in {} was removed: {why}", metadata.meta.namespace),
    })
}
