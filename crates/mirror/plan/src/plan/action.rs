//! What a plan is made of.

use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Kind, Meta, Object as _, Service};

/// What is to be written, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// None of them empty. A phase begins when the one before it is written; its actions may run side by side.
    pub phases: Vec<Vec<Action>>,
}

impl Plan {
    /// Nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// All actions in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.phases.iter().flatten()
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Creates.
    Create(Body),
    /// Replaces the object with the UID and version in the body's metadata.
    Replace(Body),
    /// As `Replace`, but of labels and annotations only those that the body has are touched.
    Patch(Body),
    /// Deletes the object with this UID and version.
    Delete {
        /// Kind.
        kind: Kind,
        /// Namespace.
        namespace: Arc<str>,
        /// Name.
        name: Arc<str>,
        /// UID, as a precondition.
        uid: Arc<str>,
        /// Version, as a precondition.
        resource_version: Arc<str>,
    },
}

impl Action {
    /// Kind of the object.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Create(body) | Self::Replace(body) | Self::Patch(body) => body.kind(),
            Self::Delete { kind, .. } => *kind,
        }
    }

    /// Namespace of the object.
    #[must_use]
    pub fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Create(body) | Self::Replace(body) | Self::Patch(body) => &body.meta().namespace,
            Self::Delete { namespace, .. } => namespace,
        }
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Create(body) | Self::Replace(body) | Self::Patch(body) => body.name(),
            Self::Delete { name, .. } => name,
        }
    }
}

/// An object as it is to be sent.
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
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Service::KIND,
            Self::Slice(_) => EndpointSlice::KIND,
            Self::Endpoints(_) => Endpoints::KIND,
        }
    }

    /// Its metadata.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        match self {
            Self::Service(object) => object.meta(),
            Self::Slice(object) => object.meta(),
            Self::Endpoints(object) => object.meta(),
        }
    }

    /// Its name.
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
