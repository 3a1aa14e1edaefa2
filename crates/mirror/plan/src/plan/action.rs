//! Plans, and the requests that they consist of.

use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Kind, Meta, Object as _, Service};
use gimbal_model::TargetKey;

use crate::observed::Common;

/// The requests that bring the observed objects into the wanted state, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The phases, none of them empty. A phase begins after the one before it is done. Its actions may run
    /// concurrently.
    pub phases: Vec<Vec<Action>>,
}

impl Plan {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// Returns all actions in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.phases.iter().flatten()
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Creates an object.
    Create(Body),
    /// Replaces the object that has the UID and version in the body's metadata.
    Replace(Body),
    /// Like `Replace`, but labels and annotations that the body does not contain stay.
    Patch(Body),
    /// Deletes the object that has this UID and version.
    Delete {
        /// Kind of the object.
        kind: Kind,
        /// Namespace of the object.
        namespace: Arc<str>,
        /// Name of the object.
        name: Arc<str>,
        /// UID of the object, sent as a precondition.
        uid: Arc<str>,
        /// Version of the object, sent as a precondition.
        resource_version: Arc<str>,
    },
}

impl Action {
    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Create(body) | Self::Replace(body) | Self::Patch(body) => body.kind(),
            Self::Delete { kind, .. } => *kind,
        }
    }

    /// Returns the namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Create(body) | Self::Replace(body) | Self::Patch(body) => &body.meta().namespace,
            Self::Delete { namespace, .. } => namespace,
        }
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Create(body) | Self::Replace(body) | Self::Patch(body) => body.name(),
            Self::Delete { name, .. } => name,
        }
    }
}

/// Returns the deletion of an observed object, unless it is being deleted already.
pub(crate) fn delete(kind: Kind, target: &TargetKey, name: &Arc<str>, observed: &Common) -> Option<Action> {
    (!observed.deleting).then(|| Action::Delete {
        kind,
        namespace: target.namespace.clone(),
        name: name.clone(),
        uid: observed.uid.clone(),
        resource_version: observed.resource_version.clone(),
    })
}

/// An object as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A Service.
    Service(Service),
    /// A slice.
    Slice(EndpointSlice),
    /// An Endpoints object.
    Endpoints(Endpoints),
}

impl Body {
    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Service::KIND,
            Self::Slice(_) => EndpointSlice::KIND,
            Self::Endpoints(_) => Endpoints::KIND,
        }
    }

    /// Returns its metadata.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        match self {
            Self::Service(object) => object.meta(),
            Self::Slice(object) => object.meta(),
            Self::Endpoints(object) => object.meta(),
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.meta().name
    }

    pub(super) fn meta_mut(&mut self) -> &mut Meta {
        match self {
            Self::Service(object) => &mut object.metadata,
            Self::Slice(object) => &mut object.metadata,
            Self::Endpoints(object) => &mut object.metadata,
        }
    }
}
