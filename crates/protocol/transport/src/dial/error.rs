//! Errors of a dial, one variant for each cause.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

/// Why a dial failed.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The URL is invalid; a retry does not help.
    #[error("writer URL {url:?} {problem}")]
    Url {
        /// The URL as configured.
        url: String,
        /// What is wrong with the URL.
        problem: &'static str,
    },
    /// A plaintext connection to an address that is not loopback.
    #[error("refused to dial {0} without TLS: use https with --tls-cert, --tls-key and --tls-ca")]
    Plaintext(SocketAddr),
    /// Name resolution or the TCP connection failed.
    #[error("cannot reach {authority}: {source}")]
    Unreachable {
        /// Host and port of the server.
        authority: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The dial did not end within its time limit.
    #[error("{authority} did not answer within {} s", after.as_secs_f32())]
    Timeout {
        /// Host and port of the server.
        authority: String,
        /// The time limit.
        after: Duration,
    },
    /// The server's certificate is not accepted.
    #[error("the certificate of {authority} is not accepted (--tls-ca): {reason}")]
    ServerCertificate {
        /// Host and port of the server.
        authority: String,
        /// Why the certificate is not accepted.
        reason: String,
    },
    /// The server refused our certificate.
    #[error("{authority} refused our client certificate (--tls-cert): {reason}")]
    ClientCertificate {
        /// Host and port of the server.
        authority: String,
        /// The TLS alert that the server sent.
        reason: String,
    },
    /// Any other failure of the TLS or HTTP/2 handshake.
    #[error("no connection to {authority}: {reason}")]
    Handshake {
        /// Host and port of the server.
        authority: String,
        /// The error with all its causes.
        reason: String,
    },
}

impl DialError {
    /// Returns whether one end refused the connection. A retry is unlikely to help until the configuration or a
    /// certificate changes.
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

pub(crate) fn certificate_problem(reason: &CertificateError) -> String {
    match reason {
        // A new CA that has the name of the old one shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "it is not signed by this CA".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        reason => reason.to_string(),
    }
}

/// Returns whether this alert means that the peer does not accept our certificate.
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
