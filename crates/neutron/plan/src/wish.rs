//! Which ports are wanted.

use std::collections::BTreeSet;

use gimbal_kuryr_model::Text;

/// What ports have in common that are ready for any Pod: one that fits is given to a Pod as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortPoolKey {
    /// The project that they are in.
    pub project: Text,
    /// Their network.
    pub network: Text,
    /// Name of the node that they are bound to.
    pub node: Text,
    /// IDs of their security groups.
    pub groups: BTreeSet<Text>,
}

/// The port that a Pod wants, as its KuryrPort says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPortWish {
    /// UID of the Pod.
    pub pod: Text,
    /// Namespace and name of the Pod: the name of the port, for people.
    pub name: Text,
    /// Its name in DNS; unset: it has none.
    pub dns_name: Option<Text>,
    /// Where it is wanted. Of a port that exists only the groups can be changed.
    pub place: PortPoolKey,
    /// ID of the port that the status names: the one that the node plugs.
    pub port: Option<Text>,
    /// What the node says.
    pub plugged: Plugged,
}

/// The condition `Plugged` of a KuryrPort, which its node writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Plugged {
    /// The node has said nothing yet.
    #[default]
    Unsaid,
    /// The interface is in the Pod.
    Yes,
    /// The runtime has asked for it to be removed, and it is: nothing of the Pod uses the port any more.
    No,
}

/// A Pod that is over: it has succeeded, has failed or was deleted. That its node is not ready is no end of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPortEnd {
    /// UID of the Pod.
    pub pod: Text,
    /// Name of its node, if it had one.
    pub node: Option<Text>,
    /// What the node says.
    pub plugged: Plugged,
}
