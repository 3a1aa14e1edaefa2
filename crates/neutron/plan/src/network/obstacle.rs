//! Why a network is not as it is wanted.

use std::fmt;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::ServiceRefusal;
use serde_json::Value;

/// Ports that are named at most; the others are counted.
const NAMED: usize = 5;

/// A port that keeps a network from being removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PortInTheWay {
    /// ID.
    pub id: Text,
    /// Name.
    pub name: Text,
    /// What uses it, in Neutron's words; empty: nothing does.
    pub device_owner: Text,
}

impl PortInTheWay {
    pub(crate) fn read(row: &Value) -> Self {
        let text = |field: &str| row[field].as_str().unwrap_or_default().into();
        Self { id: text("id"), name: text("name"), device_owner: text("device_owner") }
    }
}

impl fmt::Display for PortInTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        let words: Vec<&str> = [&*self.name, &*self.device_owner].into_iter().filter(|word| !word.is_empty()).collect();
        if words.is_empty() { Ok(()) } else { write!(f, " ({})", words.join(", ")) }
    }
}

/// Why a network cannot be made or removed, as far as is known for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkObstacle {
    /// These ports are in the network.
    Ports(Vec<PortInTheWay>),
    /// Something else uses it; Neutron's words, if it has any.
    InUse(String),
    /// A quota of Neutron is used up; Neutron's words.
    Quota(String),
    /// The role does not allow it; Neutron's words.
    Forbidden(String),
    /// The request is invalid; Neutron's words.
    Invalid(String),
    /// Something that it needs, as the router or the subnet pool, is not there; Neutron's words.
    Missing(String),
    /// A request fails, and is tried again after a pause that grows; Neutron's words, or what came instead of an answer.
    Failing(String),
}

impl NetworkObstacle {
    pub(crate) fn of(refusal: ServiceRefusal) -> Self {
        match refusal {
            ServiceRefusal::Quota(words) => Self::Quota(words),
            ServiceRefusal::Forbidden(words) => Self::Forbidden(words),
            ServiceRefusal::Invalid(words) | ServiceRefusal::Unsupported(words) => Self::Invalid(words),
            ServiceRefusal::NotFound(words) => Self::Missing(words),
            ServiceRefusal::InUse => Self::InUse(String::new()),
            other => Self::Failing(other.to_string()),
        }
    }

    /// Whether it stays until somebody does something about it.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Quota(_) | Self::Forbidden(_) | Self::Invalid(_) | Self::Missing(_))
    }
}

impl fmt::Display for NetworkObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ports(ports) => {
                let named: Vec<String> = ports.iter().take(NAMED).map(PortInTheWay::to_string).collect();
                write!(f, "the network is removed after its ports: {}", named.join("; "))?;
                match ports.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            Self::InUse(words) if words.is_empty() => {
                f.write_str("something uses it: see what leads through its router")
            }
            Self::InUse(words) => write!(f, "something uses it: {words}"),
            Self::Quota(words) => write!(f, "a quota of Neutron is used up: {words}"),
            Self::Forbidden(words) => write!(f, "the role does not allow it: {words}"),
            Self::Invalid(words) => write!(f, "the request is invalid: {words}"),
            Self::Missing(words) => write!(f, "something that the network needs is not there: {words}"),
            Self::Failing(words) => write!(f, "a request fails: {words}"),
        }
    }
}
