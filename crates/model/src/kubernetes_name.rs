//! Names as the API server of Kubernetes takes them.

use std::fmt;
use std::str::FromStr;

/// Whether a text is a DNS label (RFC 1123), as the name of a namespace is.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether a text can be the value of a label.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// Whether a text is a qualified name: `name` or `dns.subdomain/name`.
#[must_use]
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_name_part(text),
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
    }
}

/// Whether a text is a DNS subdomain (RFC 1123), as the name of most objects is. Unlike in a label, its parts have no limit of 63
/// characters; only the whole is limited.
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-');
    text.len() <= 253 && text.split('.').all(part)
}

/// Whether a text is the name part of a qualified name.
fn is_name_part(text: &str) -> bool {
    let edge = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    text.len() <= 63 && edge(text.bytes().next()) && edge(text.bytes().last()) && text.bytes().all(inner)
}

/// The name of a namespace, as a flag has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceName(String);

/// A text that no namespace has as its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no namespace: use lower-case letters, digits and '-', begin and end with a letter or digit, at most 63 characters"
)]
pub struct InvalidNamespaceName(pub String);

/// A `loadBalancerClass`, as a flag has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadBalancerClass(String);

/// A text that no Service has as its class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no loadBalancerClass, for Kubernetes takes no Service with it: write it like example.com/name, or name alone"
)]
pub struct InvalidLoadBalancerClass(pub String);

impl NamespaceName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NamespaceName {
    type Err = InvalidNamespaceName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_label(text) { Ok(Self(text.to_owned())) } else { Err(InvalidNamespaceName(text.to_owned())) }
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LoadBalancerClass {
    /// Returns the class.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LoadBalancerClass {
    type Err = InvalidLoadBalancerClass;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_qualified_name(text) { Ok(Self(text.to_owned())) } else { Err(InvalidLoadBalancerClass(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces() {
        for good in ["a", "kube-system", "0", &"x".repeat(63)] {
            assert_eq!(good.parse::<NamespaceName>().unwrap().as_str(), good);
        }
        for bad in ["", "Bad_NS", "a.b", "-a", "a-", "ä", "a b", &"x".repeat(64)] {
            assert_eq!(bad.parse::<NamespaceName>(), Err(InvalidNamespaceName(bad.to_owned())));
        }
    }

    #[test]
    fn classes_of_load_balancers() {
        for good in ["c", "Octavia", "example.com/octavia", "a.b/C_d.e", "kuryr.openstack.org/lb"] {
            assert_eq!(good.parse::<LoadBalancerClass>().unwrap().as_str(), good);
        }
        for bad in ["", "bad class!", "Example.com/c", "a/b/c", "/c", "a/", "-c", "c_", "a..b/c", &"x".repeat(64)] {
            assert_eq!(bad.parse::<LoadBalancerClass>(), Err(InvalidLoadBalancerClass(bad.to_owned())));
        }
    }
}
