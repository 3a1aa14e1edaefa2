//! Names of entries.

use std::fmt;

use gimbal_session::Key;

use crate::Text;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DesiredKind {
    /// A load balancer for a Service.
    LoadBalancer,
    /// A load balancer for Ingresses.
    L7Router,
    /// A port for a Pod.
    Port,
    /// A network for a namespace.
    Network,
    /// A security group for a NetworkPolicy.
    SecurityGroup,
}

impl DesiredKind {
    /// All kinds, in order.
    pub const ALL: [Self; 5] = [Self::LoadBalancer, Self::L7Router, Self::Port, Self::Network, Self::SecurityGroup];

    /// Returns the kind of the custom resource.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalancer => "KuryrLoadBalancer",
            Self::L7Router => "KuryrL7Router",
            Self::Port => "KuryrPort",
            Self::Network => "KuryrNetwork",
            Self::SecurityGroup => "KuryrNetworkPolicy",
        }
    }
}

/// Names an entry: kind, namespace and name of the custom resource that says what is wanted. Ordered by namespace first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DesiredKey {
    /// Namespace.
    pub namespace: Text,
    /// Kind.
    pub kind: DesiredKind,
    /// Name.
    pub name: Text,
}

impl DesiredKey {
    /// Returns a key of these parts, which are not validated: a key from outside may contain anything.
    pub fn new(kind: DesiredKind, namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { namespace: namespace.into(), kind, name: name.into() }
    }
}

impl Key for DesiredKey {
    fn namespace(&self) -> &Text {
        &self.namespace
    }

    fn first_in(namespace: Text) -> Self {
        Self::new(DesiredKind::LoadBalancer, namespace, "")
    }

    fn text_len(&self) -> usize {
        // The kind takes two bytes.
        self.namespace.len() + self.name.len() + 2
    }
}

impl fmt::Display for DesiredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

impl fmt::Debug for DesiredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
