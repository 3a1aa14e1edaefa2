//! What the watches show.

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Ingress, IngressClass, Kind, Node, Object, TlsSecret};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrLoadBalancer};

/// A kind that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KuryrKind {
    /// Services.
    Service,
    /// EndpointSlices.
    Slice,
    /// Nodes, where members are nodes.
    Node,
    /// KuryrLoadBalancers.
    LoadBalancer,
    /// Ingresses, where they are served.
    Ingress,
    /// IngressClasses, where Ingresses are served.
    IngressClass,
    /// KuryrL7Routers, where Ingresses are served.
    Router,
    /// Secrets with certificates, where Ingresses are served.
    Secret,
}

impl KuryrKind {
    /// All kinds, in order.
    pub const ALL: [Self; 8] = [
        Self::Service,
        Self::Slice,
        Self::Node,
        Self::LoadBalancer,
        Self::Ingress,
        Self::IngressClass,
        Self::Router,
        Self::Secret,
    ];

    /// Whether it is watched only where Ingresses are served.
    #[must_use]
    pub fn is_of_ingress(self) -> bool {
        matches!(self, Self::Ingress | Self::IngressClass | Self::Router | Self::Secret)
    }

    /// Returns what the kind is in Kubernetes.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Service => BalancedService::KIND,
            Self::Slice => BalancedSlice::KIND,
            Self::Node => Node::KIND,
            Self::LoadBalancer => KuryrLoadBalancer::KIND,
            Self::Ingress => Ingress::KIND,
            Self::IngressClass => IngressClass::KIND,
            Self::Router => KuryrL7Router::KIND,
            Self::Secret => TlsSecret::KIND,
        }
    }

    /// Returns the kind's name in Kubernetes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.kind().kind
    }
}

/// An event of one watch. Events of one kind come in order; kinds do not wait for each other.
#[derive(Debug, Clone, PartialEq)]
pub enum Sighting<T> {
    /// A list begins: what it does not contain is gone when it is done.
    ListBegan,
    /// The object exists, like this.
    Set(T),
    /// The object was deleted. This is its last state.
    Deleted(T),
    /// The list is complete.
    ListDone,
    /// The cluster's store was restored to an older state. All kinds are listed anew after this, and what a list lacks then was
    /// not deleted.
    WentBack,
    /// The kind is not served, or may not be read. What is known of it stays as it was, and what would be decided by it waits
    /// for the next complete list.
    Unreadable(String),
}
