//! The ID of an OpenStack object.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// Stands for a missing owner. It is not a valid ID, so no project has it.
const NO_OWNER: &str = "-";

/// The length of Keystone's ID column; no service gives out longer IDs.
const MAX_LENGTH: usize = 64;

/// The ID of a project, load balancer, listener, pool, member or L7 policy: at most 64 letters, digits, `-`, `_` and `.`. IDs
/// become parts of URLs and of Kubernetes names, so any other text is rejected.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "Arc<str>")]
pub struct Id(Arc<str>);

/// The error for a text that is not a valid [`Id`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no ID: use 1 to 64 letters, digits, '-', '_' and '.', starting with a letter or digit")]
pub struct InvalidId(pub Arc<str>);

impl TryFrom<Arc<str>> for Id {
    type Error = InvalidId;

    fn try_from(text: Arc<str>) -> Result<Self, InvalidId> {
        let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let valid = text.len() <= MAX_LENGTH
            && text.bytes().next().is_some_and(|c| c.is_ascii_alphanumeric())
            && text.bytes().all(inner);
        if valid { Ok(Self(text)) } else { Err(InvalidId(text)) }
    }
}

impl TryFrom<&str> for Id {
    type Error = InvalidId;

    fn try_from(text: &str) -> Result<Self, InvalidId> {
        Self::try_from(Arc::from(text))
    }
}

impl Id {
    /// Returns the owner of a row that says it has none.
    pub(crate) fn no_owner() -> Self {
        Self(Arc::from(NO_OWNER))
    }

    /// Returns whether this is the owner of a row that says it has none.
    #[must_use]
    pub fn is_no_owner(&self) -> bool {
        *self.0 == *NO_OWNER
    }

    /// Returns the ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
