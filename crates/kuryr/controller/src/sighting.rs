//! What the watches show.

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Node, Object};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_resource::KuryrKind;

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
