//! Names of pools.

use std::fmt;

use crate::{ListenerId, Text};

/// Names a pool within a load balancer. Pools of listeners come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolId {
    /// The pool of a listener.
    Listener(ListenerId),
    /// The pool of a port of a Service that routes lead to: namespace, name of the Service and number of the port, with a `/` in
    /// between.
    Service(Text),
}

impl PoolId {
    /// Returns the pool of a port of a Service.
    #[must_use]
    pub fn service(namespace: &str, name: &str, port: u16) -> Self {
        Self::Service(format!("{namespace}/{name}/{port}").into())
    }

    /// Returns the listener whose pool it is.
    #[must_use]
    pub fn listener(&self) -> Option<ListenerId> {
        match self {
            Self::Listener(id) => Some(*id),
            Self::Service(_) => None,
        }
    }

    /// Returns the ID of a Service's pool.
    #[must_use]
    pub fn of_service(&self) -> Option<&Text> {
        match self {
            Self::Listener(_) => None,
            Self::Service(id) => Some(id),
        }
    }
}

impl From<ListenerId> for PoolId {
    fn from(id: ListenerId) -> Self {
        Self::Listener(id)
    }
}

/// As messages name it: `tcp:80`, or the Service's pool.
impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener(ListenerId { protocol, port }) => write!(f, "{}:{port}", protocol.as_str()),
            Self::Service(id) => f.write_str(id),
        }
    }
}
