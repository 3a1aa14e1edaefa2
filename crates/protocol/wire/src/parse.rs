//! Parses the parts that messages have in common, and the errors for invalid ones.

use std::net::IpAddr;
use std::time::Duration;

use gimbal_model::{Digest, Protocol, SourceKey, TargetKey};
use gimbal_session::{Scope, Summary};

use crate::intern::Interner;
use crate::pb;

/// Longest DNS subdomain in bytes: namespaces, names, zones.
pub const SUBDOMAIN: usize = 253;
/// Longest DNS label in bytes: port names, host names.
pub const LABEL: usize = 63;
/// Longest qualified name in bytes, `<subdomain>/<name>`: label keys, appProtocol.
pub(crate) const QUALIFIED: usize = SUBDOMAIN + 1 + LABEL;
/// Longest message text in bytes. Longer texts are truncated, because they are only displayed.
const PROSE: usize = 1024;

/// A message, or a part of one, that violates a rule of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The message has no content: the frame was undecodable, or its kind is of a later version.
    #[error("the message cannot be decoded, or is of a kind that this version does not know")]
    Empty,
    /// A required part is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A part has an invalid value.
    #[error("{0} {1}")]
    Invalid(&'static str, String),
    /// Parts contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

/// A value that was parsed.
pub type Parsed<T> = Result<T, WireError>;

/// Returns the error for an invalid value.
///
/// # Errors
/// Always.
pub fn invalid<T>(field: &'static str, reason: impl Into<String>) -> Parsed<T> {
    Err(WireError::Invalid(field, reason.into()))
}

/// Parses the key of a Service in a source.
///
/// # Errors
/// Returns an error when a part is empty, too long, or has a character that is invalid in a name.
pub fn source_key(key: pb::ServiceKey) -> Result<SourceKey, WireError> {
    check_key(&key)?;
    Ok(SourceKey::new(key.namespace, key.name))
}

/// Parses the key of a Service in the Gimbal cluster.
///
/// # Errors
/// Returns an error in the same cases as [`source_key`].
pub fn target_key(key: pb::ServiceKey) -> Result<TargetKey, WireError> {
    check_key(&key)?;
    Ok(TargetKey::new(key.namespace, key.name))
}

/// Parses the address that an explanation is asked for; an empty text names none.
///
/// # Errors
/// Returns an error when the text is no IP address.
pub fn asked_address(text: &str) -> Result<Option<IpAddr>, WireError> {
    if text.is_empty() {
        return Ok(None);
    }
    let no_address = |_| WireError::Invalid("address", format!("is no IP address: {:?}", prose(text.to_owned())));
    text.parse().map(Some).map_err(no_address)
}

pub(crate) fn check_key(key: &pb::ServiceKey) -> Parsed<()> {
    name("namespace", &key.namespace)?;
    name("name", &key.name)
}

/// Checks a namespace or the name of an object. The API server has stricter rules; these keep the parts of
/// `<namespace>/<name>` apart, and log lines on one line.
///
/// # Errors
/// Returns an error when the text is empty, too long, or has such a character.
pub fn name(field: &'static str, text: &str) -> Parsed<()> {
    if text.is_empty() {
        return invalid(field, "is empty");
    }
    bounded(field, text, SUBDOMAIN)?;
    if text.contains(|c: char| c == '/' || c.is_control()) {
        return invalid(field, "contains '/' or a control character");
    }
    Ok(())
}

/// Checks that a text has at most `limit` bytes.
///
/// # Errors
/// Returns an error when it has more.
pub fn bounded(field: &'static str, text: &str, limit: usize) -> Parsed<()> {
    if text.len() > limit {
        return invalid(field, format!("has {} bytes, more than {limit}", text.len()));
    }
    Ok(())
}

/// Truncates a text that is only displayed.
#[must_use]
pub fn prose(mut text: String) -> String {
    if text.len() > PROSE {
        text.truncate(text.floor_char_boundary(PROSE));
    }
    text
}

/// Parses an address.
///
/// # Errors
/// Returns an error when it has neither 4 nor 16 bytes.
pub fn address(bytes: &[u8]) -> Parsed<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(v4.into());
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(v6) => Ok(v6.into()),
        Err(_) => invalid("address", format!("has {} bytes, neither 4 nor 16", bytes.len())),
    }
}

/// Parses a port, which must not be 0.
///
/// # Errors
/// Returns an error when it is 0, or above 65535.
pub fn port(field: &'static str, number: u32) -> Parsed<u16> {
    match port_or_zero(field, number)? {
        0 => invalid(field, "is 0"),
        port => Ok(port),
    }
}

/// Parses a port, which may be 0.
///
/// # Errors
/// Returns an error when it is above 65535.
pub fn port_or_zero(field: &'static str, number: u32) -> Parsed<u16> {
    u16::try_from(number).or_else(|_| invalid(field, format!("is {number}, more than 65535")))
}

/// Parses a transport protocol.
///
/// # Errors
/// Returns an error when it is not known in this version.
pub fn protocol(value: i32) -> Parsed<Protocol> {
    match pb::Protocol::try_from(value) {
        Ok(pb::Protocol::Tcp) => Ok(Protocol::Tcp),
        Ok(pb::Protocol::Udp) => Ok(Protocol::Udp),
        Ok(pb::Protocol::Sctp) => Ok(Protocol::Sctp),
        Ok(pb::Protocol::Unspecified) | Err(_) => invalid("protocol", format!("is {value}, not TCP, UDP or SCTP")),
    }
}

/// Parses a summary.
///
/// # Errors
/// Returns an error when its digest has another length.
pub fn summary(summary: pb::Summary) -> Parsed<Summary> {
    let pb::Summary { count, digest: bytes } = summary;
    Ok(Summary { count, digest: digest(&bytes)? })
}

/// Parses a digest.
///
/// # Errors
/// Returns an error when it does not have 16 bytes.
pub fn digest(bytes: &[u8]) -> Parsed<Digest> {
    match <[u8; 16]>::try_from(bytes) {
        Ok(digest) => Ok(Digest::from_bytes(digest)),
        Err(_) => invalid("digest", format!("has {} bytes, not 16", bytes.len())),
    }
}

/// Parses a part of the source. An empty list is the whole source.
///
/// # Errors
/// Returns an error when it is missing, or a namespace is not one.
pub fn scope(scope: Option<pb::Scope>) -> Parsed<Scope> {
    let pb::Scope { namespaces } = scope.ok_or(WireError::Missing("scope"))?;
    if namespaces.is_empty() {
        return Ok(Scope::All);
    }
    let mut intern = Interner::default();
    let namespaces = namespaces.into_iter().map(|namespace| {
        name("namespace", &namespace)?;
        Ok(intern.text(namespace))
    });
    namespaces.collect::<Parsed<_>>().map(Scope::Namespaces)
}

/// Converts a duration to milliseconds. A value that does not fit becomes `most`.
#[must_use]
pub fn millis<T: TryFrom<u128>>(duration: Duration, most: T) -> T {
    T::try_from(duration.as_millis()).unwrap_or(most)
}
