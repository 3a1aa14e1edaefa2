//! Who is at the other end of a connection, as far as its certificate proves it.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The other end of a connection. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Showed a certificate that our CA signed.
    Certificate(Arc<PeerCertificate>),
    /// Came without TLS, over loopback: whoever may open a socket on this machine.
    Loopback,
}

/// What is used of a client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// URI and DNS names (subject alternative names), as the certificate writes them.
    pub sans: Vec<String>,
    /// SHA-256 of the certificate, 64 lower-case hexadecimal digits.
    pub fingerprint_sha256: String,
    /// Where the connection came from.
    pub address: SocketAddr,
}

impl Peer {
    pub(crate) fn from_certificate(certificate: &CertificateDer<'_>, address: SocketAddr) -> Self {
        let fingerprint_sha256 = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
        Self::Certificate(Arc::new(PeerCertificate { sans: sans(certificate), fingerprint_sha256, address }))
    }

    /// Whether the certificate has this name. Never true for [`Peer::Loopback`].
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
            Self::Certificate(certificate) => write!(f, "{} ({})", certificate.address, certificate.sans.join(", ")),
            Self::Loopback => f.write_str("loopback"),
        }
    }
}

/// A certificate whose names cannot be read has none: it passes the handshake and is nobody.
fn sans(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    let names = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        _ => None,
    });
    names.collect()
}
