//! Why there is no connection, each way to fail in its own words.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The URL cannot be used; no retry helps.
    #[error("writer URL {url:?} {problem}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Without TLS only loopback is dialled.
    #[error("refused to dial {0} without TLS: use https with --tls-cert, --tls-key and --tls-ca")]
    Plaintext(SocketAddr),
    /// Nobody answers there.
    #[error("cannot reach {authority}: {source}")]
    Unreachable {
        /// Host and port.
        authority: String,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("{authority} did not answer within {} s", after.as_secs_f32())]
    Timeout {
        /// Host and port.
        authority: String,
        /// The limit.
        after: Duration,
    },
    /// We do not trust the server.
    #[error("the certificate of {authority} is not accepted (--tls-ca): {reason}")]
    ServerCertificate {
        /// Host and port.
        authority: String,
        /// Why.
        reason: String,
    },
    /// The server does not trust us.
    #[error("{authority} refused our client certificate (--tls-cert): {reason}")]
    ClientCertificate {
        /// Host and port.
        authority: String,
        /// The TLS alert it sent.
        reason: String,
    },
    /// Any other trouble between TLS and HTTP/2.
    #[error("no connection to {authority}: {reason}")]
    Handshake {
        /// Host and port.
        authority: String,
        /// The whole chain of causes.
        reason: String,
    },
}

impl DialError {
    /// Whether somebody answered and refused: trying again soon helps only who is let in by then.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Url { .. } | Self::Plaintext(_) | Self::ServerCertificate { .. } | Self::ClientCertificate { .. } => {
                true
            }
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Handshake { .. } => false,
        }
    }
}

pub(super) fn certificate_problem(reason: &CertificateError) -> String {
    match reason {
        // A new CA with the old one's name shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "it is not signed by this CA".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        reason => reason.to_string(),
    }
}

/// Whether this alert says that the other end does not accept our certificate.
pub(crate) fn is_about_certificates(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::NoCertificate
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    )
}
