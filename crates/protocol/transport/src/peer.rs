//! The peer of a connection, as far as its certificate proves it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use crate::Certificate;
use crate::certificate::short;

/// The peer of a connection. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A peer that presented a certificate signed by a trusted authority.
    Certificate(Arc<PeerCertificate>),
    /// A plaintext peer on loopback: any process on this machine.
    Loopback,
}

/// The parts of a client certificate that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// URI and DNS names (subject alternative names), as the certificate writes them.
    pub sans: Vec<String>,
    /// SHA-256 of the certificate, 64 lower-case hexadecimal digits.
    pub fingerprint_sha256: String,
    /// The last second in which the certificate is valid.
    pub not_after: SystemTime,
    /// The peer's address.
    pub address: SocketAddr,
}

impl Peer {
    pub(crate) fn from_certificate(certificate: &Certificate, address: SocketAddr) -> Self {
        let (sans, fingerprint_sha256) = (certificate.sans.clone(), certificate.fingerprint());
        let not_after = certificate.not_after.into();
        Self::Certificate(Arc::new(PeerCertificate { sans, fingerprint_sha256, not_after, address }))
    }

    /// Returns the key by which peers are counted and logged: the certificate's fingerprint, which is the same from
    /// every address, or `loopback` for all plaintext peers together.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Certificate(certificate) => &certificate.fingerprint_sha256,
            Self::Loopback => "loopback",
        }
    }

    /// Returns the last second in which the certificate is valid; `None` for [`Peer::Loopback`].
    #[must_use]
    pub fn not_after(&self) -> Option<SystemTime> {
        match self {
            Self::Certificate(certificate) => Some(certificate.not_after),
            Self::Loopback => None,
        }
    }

    /// Returns whether the certificate has this name (SAN). Never true for [`Peer::Loopback`].
    #[must_use]
    pub fn has_san(&self, name: &str) -> bool {
        match self {
            Self::Certificate(certificate) => certificate.sans.iter().any(|san| san == name),
            Self::Loopback => false,
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Certificate(certificate) => write!(f, "{} ({})", certificate.address, short(&certificate.sans)),
            Self::Loopback => f.write_str("loopback"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_certificate_calls_itself_is_one_short_line_of_a_log() {
        let peer = |san: &str| {
            let sans = vec![san.to_owned()];
            let (not_after, address) = (SystemTime::UNIX_EPOCH, ([10, 0, 0, 1], 7).into());
            let certificate = PeerCertificate { sans, fingerprint_sha256: String::new(), not_after, address };
            Peer::Certificate(Arc::new(certificate)).to_string()
        };
        assert_eq!(peer("spiffe://a/b"), "10.0.0.1:7 (spiffe://a/b)");
        assert_eq!(peer("a\nINFO an admin decided"), "10.0.0.1:7 (a\\nINFO an admin decided)");
        assert!(peer(&"x".repeat(9000)).len() < 300);
    }
}
