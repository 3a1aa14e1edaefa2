//! What a user is notified of.

use gimbal_kuryr_model::Text;

use crate::ClusterObject;

/// Something to be reported by an Event on an object. There is one for each change of a reason, none for a retry and none for a
/// restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectNotice {
    /// The object that it is about.
    pub object: ClusterObject,
    /// Its UID.
    pub uid: Text,
    /// What it says.
    pub told: Told,
}

/// A notice without the object that it is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// Whether the Event is of type `Warning`, else it is `Normal`.
    pub is_warning: bool,
    /// One of [`reasons`](gimbal_kuryr_crd::names::reasons).
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Told {
    /// Tells what is as it should be.
    #[must_use]
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: false, reason, message: message.into() }
    }

    /// Tells what somebody should look at.
    #[must_use]
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { is_warning: true, reason, message: message.into() }
    }
}
