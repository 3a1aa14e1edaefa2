//! Namespace patterns of flags and of the writer's configuration: names in which `*` matches any characters.

use std::fmt;
use std::str::FromStr;

/// A namespace name in which `*` matches any number of characters, including none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacePattern(String);

/// A text that can match no namespace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "namespace pattern {0:?} is invalid: use lower-case letters, digits, '-' and '*', no '-' at either end, at most 63 characters \
     besides '*'"
)]
pub struct InvalidNamespacePattern(pub String);

impl FromStr for NamespacePattern {
    type Err = InvalidNamespacePattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'*');
        let letters = text.bytes().filter(|c| *c != b'*').count();
        // No name of a namespace begins or ends with '-'.
        let edges = text.starts_with('-') || text.ends_with('-');
        if text.is_empty() || letters > 63 || edges || !text.bytes().all(allowed) {
            return Err(InvalidNamespacePattern(text.into()));
        }
        Ok(Self(text.into()))
    }
}

impl NamespacePattern {
    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        wildcard_matches(&self.0, name)
    }
}

/// Whether the whole of `text` matches `pattern`, in which `*` matches any number of characters, including none.
#[must_use]
pub fn wildcard_matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(head) = pieces.next() else { return false };
    let Some(mut rest) = text.strip_prefix(head) else { return false };
    let Some(tail) = pieces.next_back() else { return rest.is_empty() };
    // The leftmost match of each piece in between leaves the most for those after it.
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(tail)
}

impl fmt::Display for NamespacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching() {
        for (pattern, name, expected) in [
            ("team-a", "team-a", true),
            ("team-a", "team-ab", false),
            ("team-a", "a-team-a", false),
            ("*", "anything", true),
            ("team-*", "team-", true),
            ("team-*", "team-blue", true),
            ("team-*", "steam-blue", false),
            ("*-prod", "a-prod", true),
            ("*-prod", "a-prod-b", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "ac", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("**", "x", true),
        ] {
            assert_eq!(pattern.parse::<NamespacePattern>().unwrap().matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn invalid() {
        for bad in ["", "A", "a.b", "a b", "a/b", "ä", "[a]", "?", "-a", "team-", "-", &"x".repeat(64)] {
            assert_eq!(bad.parse::<NamespacePattern>(), Err(InvalidNamespacePattern(bad.into())));
        }
    }
}
