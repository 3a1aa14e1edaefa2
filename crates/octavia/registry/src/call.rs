//! Calls to OpenStack, and their answers.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, ChangeOutcome, CloudChange};
use serde_json::Value;

use crate::listed_row::ListedRow;

/// Names a call until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

/// A call that is to be made now, once.
#[derive(Debug, Clone, PartialEq)]
pub struct CallToMake {
    /// What the answer is given with.
    pub id: CallId,
    /// The cluster that it is made for.
    pub cluster: Text,
    /// The project whose token is used.
    pub project: Text,
    /// What it waits in line with.
    pub lane: CallLane,
    /// The call.
    pub what: CloudCall,
    /// Not to be sent after this time: by then the cluster has been silent for too long. Unset for reads.
    pub not_after: Option<Instant>,
}

/// Calls that are limited together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallLane {
    /// Reads of any service.
    Reads,
    /// Changes in Octavia.
    Octavia,
    /// Changes in Neutron.
    Neutron,
    /// Changes in the key manager.
    KeyManager,
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub enum CloudCall {
    /// Read: answer [`CallAnswer::Rows`], [`CallAnswer::Listed`], [`CallAnswer::ReadFailed`] or [`CallAnswer::ReadRefused`].
    Read(CloudRead),
    /// Send [`CloudChange::request`] once, and repeat nothing: answer [`CallAnswer::Changed`], [`CallAnswer::NotSent`] or
    /// [`CallAnswer::Unsendable`].
    Change(CloudChange),
}

/// A read of one object, or of a whole list page by page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudRead {
    /// The service.
    pub service: ApiService,
    /// The resource, for metrics: one of a few words.
    pub resource: &'static str,
    /// The path below the service's endpoint, without a leading slash.
    pub path: String,
    /// The query, not encoded. A list is to be read to its end with these on every page.
    pub query: Vec<(&'static str, String)>,
    /// The key of the answer's body under which the rows, or the row, are.
    pub key: &'static str,
    /// Whether it is a list.
    pub list: bool,
    /// Whether it may be a long one: answer [`CallAnswer::Listed`], which takes less memory than [`CallAnswer::Rows`].
    pub is_long: bool,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallAnswer {
    /// The rows of a list that was read to its end; for one object its row, and none if it is not there (404).
    Rows(Vec<Value>),
    /// The same of a long list.
    Listed(Vec<ListedRow>),
    /// A read failed. What was not read is unknown, not absent.
    ReadFailed {
        /// Why, for people.
        words: String,
        /// How long the service asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// A read is refused for want of a right, or of the service: it will be until somebody changes that.
    ReadRefused {
        /// Why, for people.
        words: String,
    },
    /// What came of a change.
    Changed(ChangeOutcome),
    /// The change was not sent, so that it has had no effect.
    NotSent,
    /// The change could not be sent, as without a token, so that it has had no effect. The next one may fail likewise.
    Unsendable {
        /// Why, for people.
        words: String,
    },
}

impl CallAnswer {
    /// Returns what came of a change, or that it was not sent, and if it could not be, why.
    pub(crate) fn into_outcome(self) -> Result<ChangeOutcome, Option<Text>> {
        match self {
            Self::Changed(outcome) => Ok(outcome),
            Self::NotSent => Err(None),
            Self::Unsendable { words } => Err(Some(words.into())),
            // Whoever answers a change like a read knows nothing about it.
            Self::Rows(_) | Self::Listed(_) | Self::ReadFailed { .. } | Self::ReadRefused { .. } => {
                Ok(ChangeOutcome::Unknown(String::new()))
            }
        }
    }
}
