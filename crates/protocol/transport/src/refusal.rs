//! Why a connection was refused or ended, in words for our side of it. The other side is told no more than TLS's alert.

use std::io;
use std::net::SocketAddr;

use gimbal_error_text::one_line;
use rustls::{CertificateError, InvalidMessage};

use crate::Certificate;
use crate::dial::is_about_certificates;

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// It connected and left without a word, as a health check does. No failed handshake.
    Silent,
    /// It showed no certificate.
    NoCertificate,
    /// Its certificate has expired.
    Expired,
    /// Its certificate is not valid yet.
    NotYetValid,
    /// None of our authorities signed its certificate.
    UnknownAuthority,
    /// Its certificate is on the deny list.
    Denied,
    /// Its certificate cannot be read, or is not for clients.
    BadCertificate,
    /// It does not accept our certificate: another authority, or another name.
    OurCertificate,
    /// It does not speak TLS.
    NotTls,
    /// It speaks TLS, but nothing that we do.
    Incompatible,
    /// It did not finish in time.
    Timeout,
    /// The connection broke.
    Broken,
}

impl Problem {
    /// For metrics and logs.
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

    /// What `rustls` found.
    pub(crate) fn of(error: &rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(error) => match error {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
                // A new authority with the old one's name shows as a bad signature.
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

    /// What `rustls` found, in our words.
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

/// One refused connection.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Where it came from.
    pub address: SocketAddr,
    /// What was wrong.
    pub problem: Problem,
    /// The same in words.
    pub message: String,
    /// The host name that it asked for (SNI), if it came so far.
    pub asked_for: Option<String>,
    /// The certificate that it showed, if it came so far.
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
