//! Why a connection was refused or ended, for our own log and metrics. A refused peer receives a TLS alert at most.

use std::io;
use std::net::SocketAddr;

use gimbal_error_text::one_line;
use rustls::{CertificateError, InvalidMessage};

use crate::Certificate;
use crate::dial::is_about_certificates;

/// The kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// The peer closed the connection before it sent anything, as a health check does. Not counted as a failed
    /// handshake.
    Silent,
    /// The peer presented no certificate.
    NoCertificate,
    /// The peer's certificate has expired.
    Expired,
    /// The peer's certificate is not valid yet.
    NotYetValid,
    /// No trusted authority signed the peer's certificate.
    UnknownAuthority,
    /// The peer's certificate is on the deny list.
    Denied,
    /// The peer's certificate cannot be parsed, or is not valid for clients.
    BadCertificate,
    /// The peer does not accept our certificate: its authority or its name.
    OurCertificate,
    /// The peer does not speak TLS.
    NotTls,
    /// The peer speaks TLS, but no version or cipher suite that we support.
    Incompatible,
    /// The handshake exceeded its time limit.
    Timeout,
    /// The connection broke during the handshake.
    Broken,
}

impl Problem {
    /// Returns the name of the problem, for metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "Silent",
            Self::NoCertificate => "NoCertificate",
            Self::Expired => "Expired",
            Self::NotYetValid => "NotYetValid",
            Self::UnknownAuthority => "UnknownAuthority",
            Self::Denied => "Denied",
            Self::BadCertificate => "BadCertificate",
            Self::OurCertificate => "OurCertificate",
            Self::NotTls => "NotTls",
            Self::Incompatible => "Incompatible",
            Self::Timeout => "Timeout",
            Self::Broken => "Broken",
        }
    }

    /// Maps an error of `rustls` to a problem.
    pub(crate) fn of(error: &rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(error) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
                // A new authority that has the name of the old one shows as a bad signature.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
                CertificateError::Revoked => Self::Denied,
                _ => Self::BadCertificate,
            },
            Error::AlertReceived(alert) if is_about_certificates(*alert) => Self::OurCertificate,
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NotTls,
            Error::PeerIncompatible(_) | Error::InappropriateHandshakeMessage { .. } => Self::Incompatible,
            _ => Self::Broken,
        }
    }

    /// Returns a message for an error of `rustls` that was mapped to this problem.
    pub(crate) fn words(self, error: &rustls::Error) -> String {
        match self {
            Self::NoCertificate => "it showed no certificate".to_owned(),
            Self::Denied => "its certificate is on the deny list (denyCertificates)".to_owned(),
            Self::UnknownAuthority => format!("none of our authorities signed its certificate (--tls-ca): {error}"),
            Self::OurCertificate => format!("it does not accept our certificate (--tls-cert): {error}"),
            Self::NotTls => format!("it does not speak TLS: {error}"),
            _ => error.to_string(),
        }
    }
}

/// A refused connection.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The peer's address.
    pub address: SocketAddr,
    /// The kind of problem.
    pub problem: Problem,
    /// The problem as a message.
    pub message: String,
    /// The host name that the client requested (SNI), if the handshake got that far.
    pub asked_for: Option<String>,
    /// The certificate that the client presented, if the handshake got that far.
    pub certificate: Option<Certificate>,
}

impl Refusal {
    pub(crate) fn new(address: SocketAddr, problem: Problem, message: impl Into<String>) -> Self {
        Self { address, problem, message: message.into(), asked_for: None, certificate: None }
    }

    pub(crate) fn of_io(address: SocketAddr, error: &io::Error) -> Self {
        match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
            Some(error) => {
                let problem = Problem::of(error);
                Self::new(address, problem, problem.words(error))
            }
            None => Self::new(address, Problem::Broken, one_line(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rustls_finds_has_a_name() {
        use rustls::{AlertDescription, Error};
        for (error, expected) in [
            (Error::NoCertificatesPresented, Problem::NoCertificate),
            (CertificateError::Expired.into(), Problem::Expired),
            (CertificateError::NotValidYet.into(), Problem::NotYetValid),
            (CertificateError::UnknownIssuer.into(), Problem::UnknownAuthority),
            (CertificateError::BadSignature.into(), Problem::UnknownAuthority),
            (CertificateError::Revoked.into(), Problem::Denied),
            (CertificateError::InvalidPurpose.into(), Problem::BadCertificate),
            (CertificateError::BadEncoding.into(), Problem::BadCertificate),
            (Error::AlertReceived(AlertDescription::UnknownCA), Problem::OurCertificate),
            (Error::AlertReceived(AlertDescription::InternalError), Problem::Broken),
            (InvalidMessage::InvalidContentType.into(), Problem::NotTls),
            (rustls::PeerIncompatible::NoCipherSuitesInCommon.into(), Problem::Incompatible),
            (Error::DecryptError, Problem::Broken),
        ] {
            assert_eq!(Problem::of(&error), expected, "{error}");
        }
    }
}
