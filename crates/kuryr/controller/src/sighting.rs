//! What the watches show.

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Node, Object};
use gimbal_kuryr_crd::KuryrLoadBalancer;

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
}

impl KuryrKind {
    /// All kinds, in order.
    pub const ALL: [Self; 4] = [Self::Service, Self::Slice, Self::Node, Self::LoadBalancer];

    /// Returns the kind's name in Kubernetes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => BalancedService::KIND.kind,
            Self::Slice => BalancedSlice::KIND.kind,
            Self::Node => Node::KIND.kind,
            Self::LoadBalancer => KuryrLoadBalancer::KIND.kind,
        }
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

/// An object of a kind that is watched.
pub trait WatchedObject: Object + private::Take {
    /// Its kind.
    const WATCHED: KuryrKind;
}

pub(crate) mod private {
    use super::{BalancedService, BalancedSlice, KuryrLoadBalancer, Node};

    /// An object, whatever its kind is.
    pub enum AnyObject {
        Service(Box<BalancedService>),
        Slice(BalancedSlice),
        Node(Node),
        LoadBalancer(Box<KuryrLoadBalancer>),
    }

    pub trait Take {
        fn take(self) -> AnyObject;
    }

    impl Take for BalancedService {
        fn take(self) -> AnyObject {
            AnyObject::Service(Box::new(self))
        }
    }

    impl Take for BalancedSlice {
        fn take(self) -> AnyObject {
            AnyObject::Slice(self)
        }
    }

    impl Take for Node {
        fn take(self) -> AnyObject {
            AnyObject::Node(self)
        }
    }

    impl Take for KuryrLoadBalancer {
        fn take(self) -> AnyObject {
            AnyObject::LoadBalancer(Box::new(self))
        }
    }
}

impl WatchedObject for BalancedService {
    const WATCHED: KuryrKind = KuryrKind::Service;
}

impl WatchedObject for BalancedSlice {
    const WATCHED: KuryrKind = KuryrKind::Slice;
}

impl WatchedObject for Node {
    const WATCHED: KuryrKind = KuryrKind::Node;
}

impl WatchedObject for KuryrLoadBalancer {
    const WATCHED: KuryrKind = KuryrKind::LoadBalancer;
}
