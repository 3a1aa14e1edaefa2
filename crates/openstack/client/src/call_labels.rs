//! The labels under which calls are counted, reads and changes alike. Pure.

use http::Method;

use crate::{CallKind, ServiceType};

/// What a call does to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// GET of a list.
    List,
    /// GET of one object.
    Get,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
}

impl Verb {
    /// Returns the word for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    pub(crate) fn method(self) -> Method {
        match self {
            Self::List | Self::Get => Method::GET,
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Delete => Method::DELETE,
        }
    }
}

/// What a call is counted as: three bounded labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallLabels {
    /// The service that is called.
    pub service: ServiceType,
    /// What the call does.
    pub verb: Verb,
    /// The kind of object.
    pub resource: &'static str,
}

impl CallLabels {
    const fn new(service: ServiceType, verb: Verb, resource: &'static str) -> Self {
        Self { service, verb, resource }
    }
}

impl CallKind {
    /// Returns the labels of calls of this kind, which have the form of a change's
    /// ([`Mutation::labels`](crate::Mutation::labels)).
    #[must_use]
    pub const fn labels(self) -> CallLabels {
        use ServiceType::{Identity, LoadBalancer};
        match self {
            Self::Token => CallLabels::new(Identity, Verb::Create, "token"),
            Self::Projects => CallLabels::new(Identity, Verb::List, "project"),
            Self::Roles => CallLabels::new(Identity, Verb::List, "role"),
            Self::Versions => CallLabels::new(LoadBalancer, Verb::List, "version"),
            Self::LoadBalancers => CallLabels::new(LoadBalancer, Verb::List, "loadbalancer"),
            Self::Listeners => CallLabels::new(LoadBalancer, Verb::List, "listener"),
            Self::Pools => CallLabels::new(LoadBalancer, Verb::List, "pool"),
            Self::Members => CallLabels::new(LoadBalancer, Verb::List, "member"),
            Self::L7Policies => CallLabels::new(LoadBalancer, Verb::List, "l7policy"),
            Self::LoadBalancer => CallLabels::new(LoadBalancer, Verb::Get, "loadbalancer"),
            Self::Listener => CallLabels::new(LoadBalancer, Verb::Get, "listener"),
            Self::Pool => CallLabels::new(LoadBalancer, Verb::Get, "pool"),
            Self::Status => CallLabels::new(LoadBalancer, Verb::Get, "status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_kinds_of_reads_have_the_same_labels() {
        let labels: BTreeSet<_> = CallKind::ALL.into_iter().map(CallKind::labels).collect();
        assert_eq!(labels.len(), CallKind::ALL.len());
    }
}
