//! The ID of an OpenStack object.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// No valid ID.
const NOBODY: &str = "-";

/// Longer than any service gives out (Keystone's column has 64).
const LONGEST: usize = 64;

/// The ID of a project, load balancer, listener, pool, member or L7 policy: letters, digits, `-`, `_` and `.`, 64 bytes at
/// most. It becomes a part of addresses and of names, so nothing else is read as one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "Arc<str>")]
pub struct Id(Arc<str>);

/// A text that is no ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no ID: use 1 to 64 letters, digits, '-', '_' and '.', starting with a letter or digit")]
pub struct InvalidId(pub Arc<str>);

impl TryFrom<Arc<str>> for Id {
    type Error = InvalidId;

    fn try_from(text: Arc<str>) -> Result<Self, InvalidId> {
        let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let valid = text.len() <= LONGEST
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
    /// The owner of what says that it has none. No project has this ID, since it is none.
    pub(crate) fn nobody() -> Self {
        Self(Arc::from(NOBODY))
    }

    /// Whether this is the owner of what says that it has none.
    #[must_use]
    pub fn is_nobody(&self) -> bool {
        *self.0 == *NOBODY
    }

    /// The ID as text.
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
