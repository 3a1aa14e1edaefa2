//! What of a policy or a namespace could not be read or had. It opens nothing, and everything else proceeds.

use std::fmt;

use gimbal_kuryr_model::Text;
use gimbal_model::{Protocol, SourceKey};

use crate::MOST_RULES;

/// The object that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSubject {
    /// A NetworkPolicy.
    Policy(SourceKey),
    /// A Namespace.
    Namespace(Text),
}

/// A field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationFinding {
    /// The object.
    pub subject: FindingSubject,
    /// The path of the field in it.
    pub field: String,
    /// What is wrong.
    pub problem: PolicyProblem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyProblem {
    /// An expression of a selector has an unknown operator.
    #[error(
        "operator {0:?} is not In, NotIn, Exists or DoesNotExist; what it is part of opens nothing until it is corrected"
    )]
    Operator(Text),
    /// An expression needs values.
    #[error("In and NotIn need values; what it is part of opens nothing until it is corrected")]
    NoValues,
    /// An expression has values that it cannot use.
    #[error("Exists and DoesNotExist have no values; what it is part of opens nothing until it is corrected")]
    ValuesOfNoUse,
    /// A direction that does not exist.
    #[error(
        "{0:?} is not Ingress or Egress; the Pods are isolated in both directions, and only those that are named are opened"
    )]
    PolicyType(Text),
    /// Peers are a range or Pods, not both.
    #[error("there is an ipBlock beside a selector; this peer opens nothing until it is one of them")]
    TwoKindsOfPeer,
    /// Peers are a range or Pods.
    #[error("there is no ipBlock and no selector; this peer opens nothing until it has one of them")]
    NoKindOfPeer,
    /// A range that is not one.
    #[error("{0:?} is not a range such as 10.0.0.0/8 or fd00::/64; this peer opens nothing until it is corrected")]
    Range(Text),
    /// An exception that is no part of its range.
    #[error("{0:?} is not within the range; it takes nothing away")]
    ExceptOutside(Text),
    /// A protocol that policies do not know.
    #[error("{0:?} is not TCP, UDP or SCTP; this port opens nothing until it is corrected")]
    Protocol(Text),
    /// A number that is no port.
    #[error("{0} is not between 1 and 65535; this port opens nothing until it is corrected")]
    PortNumber(i32),
    /// A range that ends before it begins.
    #[error("{end} is below port {port}; this port opens nothing until it is corrected")]
    EndBelowPort {
        /// The port.
        port: u16,
        /// The last one.
        end: i32,
    },
    /// A range that does not begin with a number.
    #[error("a range begins with a port's number; this port opens nothing until it has one")]
    EndWithoutNumber,
    /// A name that no container has.
    #[error("no container of the Pods has a port {name:?} of {}; it opens nothing until one has", .protocol.as_str())]
    NoSuchPort {
        /// The name.
        name: Text,
        /// The protocol.
        protocol: Protocol,
    },
    /// There are more rules than a group may have.
    #[error(
        "{0} rules are needed, more than {MOST_RULES}; the others are left out, the narrowest first: use wider ranges"
    )]
    TooManyRules(usize),
    /// An annotation that cannot be read.
    #[error(
        "{0:?} is not {{\"ingress\":{{\"isolation\":\"DefaultDeny\"}}}}; the namespace is isolated until it is corrected"
    )]
    Isolation(Text),
}

impl fmt::Display for IsolationFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, field, problem } = self;
        match subject {
            FindingSubject::Policy(key) => write!(f, "NetworkPolicy {key}: {field}: {problem}"),
            FindingSubject::Namespace(name) => write!(f, "Namespace {name}: {field}: {problem}"),
        }
    }
}

/// Findings about one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FindingList(Vec<(String, PolicyProblem)>);

impl FindingList {
    pub(crate) fn add(&mut self, field: String, problem: PolicyProblem) {
        self.0.push((field, problem));
    }

    pub(crate) fn of(self, subject: &FindingSubject) -> Vec<IsolationFinding> {
        let named = |(field, problem)| IsolationFinding { subject: subject.clone(), field, problem };
        self.0.into_iter().map(named).collect()
    }

    #[cfg(test)]
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(field, _)| &**field)
    }
}
