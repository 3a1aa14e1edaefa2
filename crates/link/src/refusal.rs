//! Why a connection was refused or ended, in words for our side of it. The other side is told no more than TLS's alert.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustls::{CertificateError, InvalidMessage};

use crate::Certificate;
use crate::dial::is_about_certificates;
use crate::error::chain;

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
            None => Self::new(address, Problem::Broken, chain(error)),
        }
    }
}

/// Between two lines about the same problem of the same host.
const QUIET: Duration = Duration::from_secs(60);
/// Hosts and problems that are remembered. What is beyond is told each time: a flood from so many is news.
const REMEMBERED: usize = 1024;

/// Which refusals are worth a line in the log: an agent tries again for ever, and one line says it all.
#[derive(Debug, Default)]
pub(crate) struct Told(HashMap<(IpAddr, Problem), Last>);

#[derive(Debug)]
struct Last {
    at: Instant,
    /// How many were not told since.
    silent: u64,
}

impl Told {
    /// How many like it were not told since the last line; `None`: this one is not to be told either.
    pub(crate) fn tell(&mut self, address: SocketAddr, problem: Problem, now: Instant) -> Option<u64> {
        let key = (address.ip().to_canonical(), problem);
        if let Some(last) = self.0.get_mut(&key).filter(|last| now.saturating_duration_since(last.at) < QUIET) {
            last.silent += 1;
            return None;
        }
        let before = self.0.remove(&key).map_or(0, |last| last.silent);
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, last| now.saturating_duration_since(last.at) < QUIET);
        }
        if self.0.len() < REMEMBERED {
            self.0.insert(key, Last { at: now, silent: 0 });
        }
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8, port: u16) -> SocketAddr {
        ([10, 0, 0, host], port).into()
    }

    #[test]
    fn one_line_a_minute_for_each_host_and_problem() {
        let (mut told, start) = (Told::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(told.tell(address(1, 1), Problem::Expired, at(0)), Some(0));
        assert_eq!(told.tell(address(1, 2), Problem::Expired, at(1)), None, "another port is the same host");
        assert_eq!(told.tell("[::ffff:10.0.0.1]:3".parse().unwrap(), Problem::Expired, at(59)), None);
        assert_eq!(told.tell(address(1, 1), Problem::Denied, at(59)), Some(0), "another problem");
        assert_eq!(told.tell(address(2, 1), Problem::Expired, at(59)), Some(0), "another host");
        assert_eq!(told.tell(address(1, 1), Problem::Expired, at(60)), Some(2));
        assert_eq!(told.tell(address(1, 1), Problem::Expired, at(61)), None);
        assert_eq!(told.tell(address(1, 1), Problem::Expired, at(121)), Some(1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut told, start) = (Told::default(), Instant::now());
        let host = |n: u32| SocketAddr::from((n.to_be_bytes(), 1));
        for n in 0..3000 {
            assert_eq!(told.tell(host(n), Problem::Expired, start), Some(0));
        }
        assert_eq!(told.0.len(), REMEMBERED);
        assert_eq!(told.tell(host(0), Problem::Expired, start), None);
        assert_eq!(told.tell(host(9999), Problem::Expired, start + QUIET), Some(0));
        assert_eq!(told.0.len(), 1, "what is old makes room");
    }

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
