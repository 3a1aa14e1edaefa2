//! What could not be read or had, by itself: everything else proceeds.

use std::fmt;

use gimbal_kuryr_crd::names::{conditions, reasons};
use gimbal_kuryr_model::Text;

use gimbal_model::SourceKey;

use crate::{AnnotationProblem, IngressProblem, NotBalanced};

/// Something of a Service that was left out, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// An annotation is left out.
    #[error("annotation {name}={value:?} is left out: {problem}")]
    Annotation {
        /// Its key.
        name: &'static str,
        /// Its value, cut to 64 characters.
        value: Text,
        /// The reason, for the condition and the Event.
        problem: AnnotationProblem,
    },
    /// An annotation cannot be read, and counts as the answer that takes nothing away and opens no door.
    #[error("annotation {name}={value:?} is taken for \"true\": it is neither true nor false")]
    TakenForTrue {
        /// Its key.
        name: &'static str,
        /// Its value, cut to 64 characters.
        value: Text,
    },
    /// The address of an internal load balancer was asked for, and is another one.
    #[error("loadBalancerIP {address:?} is left out: the load balancer is internal, and its address is the cluster IP")]
    InternalAddress {
        /// The address.
        address: Text,
    },
    /// A port has a listener and no members.
    #[error("port {} has no members: members are nodes, and it has no node port", PortName(name, *.port, protocol))]
    NoNodePort {
        /// Its name; empty if it has none.
        name: Text,
        /// Its number.
        port: i64,
        /// Its protocol.
        protocol: Text,
    },
    /// A port is left out.
    #[error("port {} is left out: {problem}", PortName(name, *.port, protocol))]
    Port {
        /// Its name; empty if it has none.
        name: Text,
        /// Its number.
        port: i64,
        /// Its protocol.
        protocol: Text,
        /// The reason, for the condition and the Event.
        problem: PortProblem,
    },
    /// An address that was asked for is left out.
    #[error("{field} {value:?} is left out: it is not an address")]
    Address {
        /// Where it is written.
        field: &'static str,
        /// What is written, cut to 64 characters.
        value: Text,
    },
    /// A Service may be given that address as its cluster IP.
    #[error(
        "{field} {address} is left out: Services have addresses of that subnet as cluster IPs, and this belongs to no Service"
    )]
    ClusterIp {
        /// Where it is written.
        field: &'static str,
        /// The address.
        address: Text,
    },
    /// A floating IP was asked for where it may not be.
    #[error("{address} is left out: the cloud does not let this cluster ask for floating IPs by address")]
    FloatingAddress {
        /// The address.
        address: Text,
    },
    /// A range of clients is left out.
    #[error("source range {value:?} is left out: {problem}")]
    SourceRange {
        /// The range, cut to 64 characters.
        value: Text,
        /// The reason, for the condition and the Event.
        problem: RangeProblem,
    },
    /// None would be made any more.
    #[error("it is kept although {0}: a setting takes nothing away, delete this KuryrLoadBalancer to let it go")]
    Kept(NotBalanced),
    /// What an annotation names cannot be had any more.
    #[error("annotation {name}={value:?} is left out: {problem}; what was chosen for this load balancer before stays")]
    AsBefore {
        /// Its key.
        name: &'static str,
        /// Its value, cut to 64 characters.
        value: Text,
        /// The reason.
        problem: AnnotationProblem,
    },
    /// There is no network for its floating IP any more.
    #[error("its floating IP stays, although the cloud has no external network for this cluster any more")]
    FloatingAsBefore,
    /// Its floating IP may not be asked for any more.
    #[error("its floating IP {address} stays, although the cloud does not let this cluster ask for addresses any more")]
    AddressAsBefore {
        /// The address.
        address: Text,
    },
    /// Its subnet is not one of the cloud's any more.
    #[error("its subnet {subnet} stays, although the cloud does not have that for this cluster any more")]
    SubnetAsBefore {
        /// The subnet.
        subnet: Text,
    },
    /// There is no second address.
    #[error("the Service has no address of its second family: {0}")]
    SecondFamily(&'static str),
    /// There is no network for a floating IP.
    #[error("there is no floating IP: the cloud has no external network for this cluster")]
    NoExternalNetwork,
    /// Something of an Ingress.
    #[error("Ingress {ingress}: {problem}")]
    Ingress {
        /// The Ingress.
        ingress: SourceKey,
        /// What it is.
        problem: IngressProblem,
    },
    /// There are more endpoints than the object can hold.
    #[error("{kept} of {total} endpoints are kept: the object would be larger than {} bytes", crate::MOST_BYTES)]
    TooLarge {
        /// Endpoints that are kept.
        kept: usize,
        /// All endpoints.
        total: usize,
    },
    /// Its ports and endpoints make more members than a load balancer may have.
    #[error(
        "{kept} of {total} endpoints are kept: with its ports there would be more than {} members",
        crate::MOST_DESIRED_MEMBERS
    )]
    TooManyMembers {
        /// Endpoints that are kept.
        kept: usize,
        /// All endpoints that serve.
        total: usize,
    },
}

/// Why a port is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortProblem {
    /// It is no port number.
    #[error("its number is not between 1 and 65535")]
    Number,
    /// Octavia does not have it.
    #[error("its protocol is not TCP, UDP or SCTP")]
    Protocol,
    /// Another port has the same number and protocol.
    #[error("another port has its number and protocol")]
    Duplicate,
    /// The API is too old for it.
    #[error("this Octavia has no SCTP (it came with API 2.23)")]
    Sctp,
    /// The API is too old for it.
    #[error("this Octavia takes a number only once (API 2.13 takes it for TCP and for UDP)")]
    SharedNumber,
}

/// Why a range is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeProblem {
    /// It is not a range.
    #[error("it is not a range such as 10.0.0.0/8")]
    Unreadable,
    /// It can hold no client of this load balancer.
    #[error("it is of another family than the load balancer's address")]
    OtherFamily,
}

impl Finding {
    /// Whether something that may have been asked for is not there to be chosen, or cannot be read.
    pub(crate) fn is_of_choice(&self) -> bool {
        matches!(self, Self::Annotation { .. } | Self::FloatingAddress { .. })
    }

    /// Whether it is about a setting that would have something else made, and takes nothing away.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        use Finding::{AddressAsBefore, AsBefore, FloatingAsBefore, Kept, SubnetAsBefore};
        matches!(self, Kept(_) | AsBefore { .. } | FloatingAsBefore | AddressAsBefore { .. } | SubnetAsBefore { .. })
    }

    /// Returns the Ingress that it is about.
    #[must_use]
    pub fn ingress(&self) -> Option<&SourceKey> {
        match self {
            Self::Ingress { ingress, .. } => Some(ingress),
            _ => None,
        }
    }

    /// Returns the type of the condition that says so.
    #[must_use]
    pub fn condition(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooManyMembers { .. } => conditions::TOO_LARGE,
            Self::Ingress { problem, .. } => problem.condition(),
            _ if self.is_of_setting() => conditions::HELD,
            Self::Port { problem: PortProblem::Duplicate, .. } | Self::ClusterIp { .. } => conditions::CONFLICT,
            _ => conditions::UNSUPPORTED,
        }
    }

    /// Returns the reason of that condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Annotation { .. } | Self::TakenForTrue { .. } => "InvalidAnnotation",
            Self::InternalAddress { .. } => "InternalAddress",
            Self::NoNodePort { .. } => "NoNodePort",
            Self::Port { problem, .. } => problem.reason(),
            Self::Address { .. } => "InvalidAddress",
            Self::ClusterIp { .. } => "ClusterIPAddress",
            Self::FloatingAddress { .. } => "FloatingAddressNotAllowed",
            Self::SourceRange { .. } => "InvalidSourceRange",
            Self::Kept(_)
            | Self::AsBefore { .. }
            | Self::FloatingAsBefore
            | Self::AddressAsBefore { .. }
            | Self::SubnetAsBefore { .. } => "Setting",
            Self::Ingress { problem, .. } => problem.reason(),
            Self::SecondFamily(_) => "SecondFamily",
            Self::NoExternalNetwork => "NoExternalNetwork",
            Self::TooLarge { .. } => "TooManyEndpoints",
            Self::TooManyMembers { .. } => "TooManyMembers",
        }
    }

    /// Returns the reason of the Event on the Service.
    #[must_use]
    pub fn event(&self) -> &'static str {
        match self {
            Self::Port { .. } | Self::NoNodePort { .. } => reasons::SKIP_LISTENER,
            Self::Kept(_) => reasons::SERVICE_SKIPPED,
            Self::Ingress { problem, .. } => problem.event(),
            _ => reasons::NOT_AS_ASKED,
        }
    }
}

impl PortProblem {
    /// Returns the problem in one word.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Number => "InvalidPort",
            Self::Protocol => "InvalidProtocol",
            Self::Duplicate => "DuplicatePort",
            Self::Sctp => "NoSctp",
            Self::SharedNumber => "SharedNumber",
        }
    }
}

/// A value from outside, short enough for a message.
pub(crate) fn shown(value: &str) -> Text {
    match value.char_indices().nth(64) {
        Some((at, _)) => value[..at].into(),
        None => value.into(),
    }
}

struct PortName<'a>(&'a str, i64, &'a str);

impl fmt::Display for PortName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, port, protocol) = self;
        if !name.is_empty() {
            write!(f, "{name} ")?;
        }
        write!(f, "({port}/{protocol})")
    }
}
