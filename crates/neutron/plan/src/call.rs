//! Calls to Neutron, and their answers.

use std::collections::BTreeSet;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, ApiVerb, ChangeOutcome, ServiceCall};
use serde_json::{Value, json};

/// Who uses the port of a Pod, in the words of Kuryr.
pub(crate) const DEVICE_OWNER: &str = "compute:kuryr";

/// Names a call until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortCallId(pub(crate) u64);

/// A call that is to be made now, once.
#[derive(Debug, Clone, PartialEq)]
pub struct PortCall {
    /// What the answer is given with.
    pub id: PortCallId,
    /// The project whose token is used.
    pub project: Text,
    /// The call.
    pub what: PortWork,
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub enum PortWork {
    /// Read: answer [`PortAnswer::Rows`] or [`PortAnswer::ReadFailed`].
    Read(PortRead),
    /// Send [`PortChange::request`] once, and repeat nothing: answer [`PortAnswer::Changed`] or [`PortAnswer::NotSent`].
    Change(PortChange),
}

/// A list of ports, to be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortRead {
    /// All ports of Pods in the project, whichever cluster they are of.
    All,
    /// Those with these IDs.
    Some(BTreeSet<Text>),
    /// Those with one of these descriptions.
    Marked(BTreeSet<Text>),
}

impl PortRead {
    /// Returns the parameters of the query of `GET /v2.0/ports`, not encoded.
    #[must_use]
    pub fn query(&self, project: &Text) -> Vec<(&'static str, Text)> {
        let mut query = vec![("project_id", project.clone())];
        match self {
            Self::All => query.push(("device_owner", DEVICE_OWNER.into())),
            Self::Some(ids) => query.extend(ids.iter().map(|id| ("id", id.clone()))),
            Self::Marked(descriptions) => query.extend(descriptions.iter().map(|one| ("description", one.clone()))),
        }
        query
    }
}

/// One change of ports. IDs are those of existing ports.
#[derive(Debug, Clone, PartialEq)]
pub enum PortChange {
    /// Makes several ports: all of them, or none.
    Create {
        /// Of each port, what the request says.
        bodies: Vec<Value>,
    },
    /// Changes a port, if it is still as it was seen.
    Update {
        /// The port.
        id: Text,
        /// The revision that it must still have.
        revision: u64,
        /// What is changed.
        fields: Value,
    },
    /// Replaces the tags of a port.
    Tag {
        /// The port.
        id: Text,
        /// The tags.
        tags: Vec<Text>,
    },
    /// Removes a port. Its description says before that it is being removed, for Neutron compares no revision here.
    Delete {
        /// The port.
        id: Text,
    },
}

impl PortChange {
    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> ServiceCall {
        let tags = |tags: &[Text]| json!({"tags": tags.iter().map(|tag| &**tag).collect::<Vec<_>>()});
        let (verb, path, revision, body) = match self {
            Self::Create { bodies } => (ApiVerb::Create, "ports".to_owned(), None, json!({"ports": bodies})),
            Self::Update { id, revision, fields } => {
                (ApiVerb::Update, format!("ports/{id}"), Some(*revision), json!({"port": fields}))
            }
            Self::Tag { id, tags: all } => (ApiVerb::Update, format!("ports/{id}/tags"), None, tags(all)),
            Self::Delete { id } => (ApiVerb::Delete, format!("ports/{id}"), None, Value::Null),
        };
        let service = ApiService::Neutron;
        ServiceCall { service, verb, resource: "port", path, query: None, revision, body, payload: None }
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum PortAnswer {
    /// The rows of a list that was read to its end.
    Rows(Vec<Value>),
    /// A read failed. What was not read is unknown, not absent.
    ReadFailed {
        /// Why, for people.
        words: String,
    },
    /// What came of a change.
    Changed(ChangeOutcome),
    /// The call was not sent, so that it has had no effect.
    NotSent,
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PortErrand {
    List,
    Read {
        ids: BTreeSet<Text>,
    },
    /// After a creation whose answer was lost.
    Look {
        pool: crate::PortPoolKey,
    },
    Create {
        pool: crate::PortPoolKey,
        pods: BTreeSet<Text>,
        count: usize,
    },
    /// Gives a port that is ready to a Pod.
    Assign {
        port: Text,
        pod: Text,
    },
    /// Changes a port in another way.
    Update {
        port: Text,
    },
    /// Says of a port that it is being removed.
    Retire {
        port: Text,
    },
    Tag {
        port: Text,
        tags: Vec<Text>,
    },
    Delete {
        port: Text,
    },
}

impl PortErrand {
    /// The port that it changes.
    pub(crate) fn port(&self) -> Option<&Text> {
        match self {
            Self::Assign { port, .. }
            | Self::Update { port }
            | Self::Retire { port }
            | Self::Tag { port, .. }
            | Self::Delete { port } => Some(port),
            Self::List | Self::Read { .. } | Self::Look { .. } | Self::Create { .. } => None,
        }
    }
}
