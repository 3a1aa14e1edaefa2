//! What is said about the port of a Pod.

use std::fmt;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::ServiceRefusal;

use crate::PodPort;

/// What there is to say about the port of a Pod. The latest of a Pod counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortReport {
    /// It has a port that its node can plug.
    Ready {
        /// UID of the Pod.
        pod: Text,
        /// The port.
        port: Box<PodPort>,
    },
    /// It has none yet, or one that is not as it is wanted.
    Waiting {
        /// UID of the Pod.
        pod: Text,
        /// What is in the way of it.
        obstacle: PortObstacle,
    },
    /// Its port is being removed, and something is in the way.
    Leaving {
        /// UID of the Pod.
        pod: Text,
        /// What is in the way of the removal.
        obstacle: PortObstacle,
    },
    /// Nothing in Neutron is the Pod's any more: its finalizer may go.
    Gone {
        /// UID of the Pod.
        pod: Text,
    },
}

impl PortReport {
    /// Returns the UID of the Pod.
    #[must_use]
    pub fn pod(&self) -> &Text {
        match self {
            Self::Ready { pod, .. } | Self::Waiting { pod, .. } | Self::Leaving { pod, .. } | Self::Gone { pod } => pod,
        }
    }
}

/// Why a port cannot be had or removed, as far as is known for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortObstacle {
    /// A quota of Neutron is used up; Neutron's words.
    Quota(String),
    /// The cluster has as many ports as its policy allows: this number.
    Limit(u32),
    /// No address is left in the network; Neutron's words.
    Exhausted(String),
    /// The role does not allow it; Neutron's words.
    Forbidden(String),
    /// The request is invalid; Neutron's words.
    Invalid(String),
    /// Something that it needs is not there; Neutron's words.
    Missing(String),
    /// Neutron could not bind a port to this node: no agent there can plug it.
    Unbound(Text),
    /// A request fails, and is tried again after a pause that grows; what came instead of an answer, or Neutron's words.
    Failing(String),
    /// The node has not said yet that it uses the port no more.
    Plugged,
}

impl PortObstacle {
    pub(crate) fn of(refusal: &ServiceRefusal) -> Self {
        match refusal {
            ServiceRefusal::Quota(words) => Self::Quota(words.clone()),
            ServiceRefusal::Exhausted(words) => Self::Exhausted(words.clone()),
            ServiceRefusal::Forbidden(words) => Self::Forbidden(words.clone()),
            ServiceRefusal::Invalid(words) | ServiceRefusal::Unsupported(words) => Self::Invalid(words.clone()),
            ServiceRefusal::NotFound(words) => Self::Missing(words.clone()),
            other => Self::Failing(other.to_string()),
        }
    }

    /// Whether it stays until somebody does something about it.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Forbidden(_) | Self::Invalid(_))
    }
}

impl fmt::Display for PortObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(words) => write!(f, "a quota of Neutron is used up: {words}"),
            Self::Limit(most) => write!(f, "the policy allows this cluster {most} ports, and it has them"),
            Self::Exhausted(words) => write!(f, "no address is left: {words}"),
            Self::Forbidden(words) => write!(f, "the role does not allow it: {words}"),
            Self::Invalid(words) => write!(f, "the request is invalid: {words}"),
            Self::Missing(words) => write!(f, "something that the port needs is not there: {words}"),
            Self::Unbound(node) => {
                write!(f, "Neutron could not bind a port to node {node}: see that its agent runs there")
            }
            Self::Failing(words) => write!(f, "a request fails: {words}"),
            Self::Plugged => f.write_str("the node has not said yet that the port is unplugged"),
        }
    }
}
