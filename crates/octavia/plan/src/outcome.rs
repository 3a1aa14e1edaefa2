//! What came of a change.

use std::time::Duration;

use serde_json::Value;

/// What came of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeOutcome {
    /// The service accepted it; the answer's body.
    Accepted(Value),
    /// The service refused it: it has had no effect.
    Refused(ServiceRefusal),
    /// It may have had its effect: a time-out, a broken connection, a proxy's answer. What came instead of an answer, in words.
    Unknown(String),
}

/// Why a service refused a change, as far as actors act differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceRefusal {
    /// A change of the load balancer is in progress.
    Pending,
    /// Such an object exists.
    Duplicate,
    /// Another object uses this one.
    InUse,
    /// A quota is used up; the resources, in the service's words.
    Quota(String),
    /// No address is left; the service's words.
    Exhausted(String),
    /// No router leads from the subnet to the external network; the service's words.
    Unreachable(String),
    /// The role does not allow it; the service's words.
    Forbidden(String),
    /// The object has changed since it was read, or something else conflicts with the request; the service's words.
    Changed(String),
    /// The request is invalid; the service's words.
    Invalid(String),
    /// There is no such object; the service's words.
    NotFound(String),
    /// The provider cannot do it; its words.
    Unsupported(String),
    /// The provider failed, and may have done it nevertheless.
    ProviderFailed,
    /// The service is busy; how long it asks to be left alone.
    Busy(Option<Duration>),
    /// The service is busy with the project alone; how long it asks to be left alone.
    ProjectBusy(Option<Duration>),
}

impl ServiceRefusal {
    /// Returns it in other words, if it has any.
    pub(crate) fn with_words(self, other: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Quota(words) => Self::Quota(other(words)),
            Self::Exhausted(words) => Self::Exhausted(other(words)),
            Self::Unreachable(words) => Self::Unreachable(other(words)),
            Self::Forbidden(words) => Self::Forbidden(other(words)),
            Self::Invalid(words) => Self::Invalid(other(words)),
            Self::Unsupported(words) => Self::Unsupported(other(words)),
            rest => rest,
        }
    }
}

impl std::fmt::Display for ServiceRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pending => "a change of the load balancer is in progress",
            Self::Duplicate => "such an object exists already",
            Self::InUse => "another object uses it",
            Self::Quota(words) => return write!(f, "the quota is used up: {words}"),
            Self::Forbidden(words) => return write!(f, "the role does not allow it: {words}"),
            Self::Exhausted(words) | Self::Unreachable(words) => return f.write_str(words),
            Self::Changed(words) if !words.is_empty() => return write!(f, "it conflicts with something: {words}"),
            Self::Changed(_) => "it has changed meanwhile",
            Self::Invalid(words) => return write!(f, "the request is invalid: {words}"),
            Self::NotFound(words) if !words.is_empty() => return write!(f, "something is not there: {words}"),
            Self::NotFound(_) => "there is no such object",
            Self::Unsupported(words) => return write!(f, "the provider cannot do it: {words}"),
            Self::ProviderFailed => "the provider failed",
            Self::Busy(_) => "the service is busy",
            Self::ProjectBusy(_) => "the service is busy with the project",
        })
    }
}

/// What a provider, or the cloud for all of them, was shown to lack. Whoever keeps the
/// [`CloudFacts`](gimbal_kuryr_model::CloudFacts) takes it out of the provider's abilities for a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingAbility {
    /// The provider.
    pub provider: String,
    /// What it lacks.
    pub ability: CloudAbility,
}

/// Something that not every provider can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloudAbility {
    /// A load balancer with everything in it in one request.
    PopulatedCreate,
    /// All members of a pool in one request.
    BatchMembers,
    /// Members that are chosen in another way than by the address and port of the client, and weights of them.
    Weights,
    /// Ranges of clients.
    ClientRanges,
    /// Policies and rules.
    L7,
    /// A port for the VIP that was made before.
    OwnPort,
    /// Failover, for the role that asks.
    Failover,
    /// Security groups for a port that Octavia makes.
    SecurityGroups,
}
