//! Names of backends, of Services in their source, and of Services in the Gimbal cluster.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// The name of a backend, as configured: `[a-z]([-a-z0-9]*[a-z0-9])?`, at most 63 characters (it is a label value).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendName(Arc<str>);

/// An invalid backend name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "backend name {0:?} is invalid: use lower-case letters, digits and '-', start with a letter, end with a letter or digit, at most 63 characters"
)]
pub struct InvalidBackendName(pub String);

impl BackendName {
    /// Checks `name` against the pattern above.
    ///
    /// # Errors
    /// When the name does not match.
    pub fn parse(name: &str) -> Result<Self, InvalidBackendName> {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let bytes = name.as_bytes();
        let valid = bytes.len() <= 63
            && bytes.first().is_some_and(u8::is_ascii_lowercase)
            && bytes.last().is_some_and(|c| *c != b'-')
            && bytes.iter().copied().all(inner);
        if valid { Ok(Self(name.into())) } else { Err(InvalidBackendName(name.into())) }
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Allows lookups of label values among backends without parsing them.
impl Borrow<str> for BackendName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::str::FromStr for BackendName {
    type Err = InvalidBackendName;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::parse(name)
    }
}

macro_rules! namespaced_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// Namespace.
            pub namespace: Arc<str>,
            /// Name within the namespace.
            pub name: Arc<str>,
        }

        impl $name {
            /// Returns a key of these parts, which are not validated: a key from outside may contain anything.
            pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
                Self { namespace: namespace.into(), name: name.into() }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.namespace, self.name)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.namespace, self.name)
            }
        }
    };
}

namespaced_key! {
    /// A Service in its source. The key of the stream and of the writer's queue.
    SourceKey
}
namespaced_key! {
    /// The Service in the Gimbal cluster that represents a source Service. Its slices are found through it.
    TargetKey
}

impl SourceKey {
    /// Reads `<namespace>/<name>`, the form of the `source` annotation.
    #[must_use]
    pub fn from_annotation(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then(|| Self::new(namespace, name))
    }

    /// Returns the entries of one namespace (empty: of all) in a map, in order, after one of the keys.
    pub fn within<'a, V>(
        map: &'a BTreeMap<Self, V>,
        namespace: &str,
        after: Option<&Self>,
    ) -> impl Iterator<Item = &'a Self> {
        let namespace: Arc<str> = namespace.into();
        let first = Self::new(namespace.clone(), "");
        let from = match after {
            Some(after) if *after >= first => Bound::Excluded(after),
            _ => Bound::Included(&first),
        };
        let keys = map.range((from, Bound::Unbounded)).map(|(key, _)| key);
        keys.take_while(move |key| namespace.is_empty() || key.namespace == namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_names() {
        for good in ["a", "node02", "us-east-1", &"a".repeat(63)] {
            assert!(BackendName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "1a", "A", "a_b", "a.b", "ä", &"a".repeat(64)] {
            assert!(BackendName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_a_namespace_after_one() {
        let map: BTreeMap<_, ()> =
            ["a/x", "b/x", "b/y", "ba/x", "c/x"].map(|key| (SourceKey::from_annotation(key).unwrap(), ())).into();
        let within = |namespace: &str, after: Option<&str>| {
            let after = after.and_then(SourceKey::from_annotation);
            let keys = SourceKey::within(&map, namespace, after.as_ref());
            keys.map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        for (namespace, after, keys) in [
            ("", None, "a/x b/x b/y ba/x c/x"),
            ("", Some("b/x"), "b/y ba/x c/x"),
            ("", Some("b/z"), "ba/x c/x"),
            ("", Some("c/x"), ""),
            ("b", None, "b/x b/y"),
            ("b", Some("a/x"), "b/x b/y"),
            ("b", Some("b/x"), "b/y"),
            ("b", Some("c/x"), ""),
            ("d", None, ""),
        ] {
            assert_eq!(within(namespace, after), keys, "{namespace} after {after:?}");
        }
    }

    #[test]
    fn source_annotation() {
        assert_eq!(SourceKey::from_annotation("a/b"), Some(SourceKey::new("a", "b")));
        for bad in ["", "a", "/b", "a/", "a/b/c"] {
            assert_eq!(SourceKey::from_annotation(bad), None, "{bad}");
        }
    }
}
