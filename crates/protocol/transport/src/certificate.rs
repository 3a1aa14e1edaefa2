//! Parses the parts of a certificate that are used.

use std::fmt;

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The parts of a certificate that are used here. They prove nothing until the signature is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// URI and DNS names (subject alternative names), as the certificate writes them.
    pub sans: Vec<String>,
    /// The serial number, big endian without leading zeros. It is unique within one authority only.
    pub serial: Vec<u8>,
    /// SHA-256 of the whole certificate.
    pub sha256: [u8; 32],
    /// The last second in which the certificate is valid.
    pub not_after: Timestamp,
}

impl Certificate {
    /// Parses a certificate. Returns `None` if it cannot be parsed. A client with such a certificate is refused,
    /// because it could not be compared with the deny list.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let sans = names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) => Some((*name).to_owned()),
            _ => None,
        });
        Some(Self {
            sans: sans.collect(),
            serial: without_leading_zeros(certificate.tbs_certificate.raw_serial()).to_vec(),
            sha256: Sha256::digest(der).into(),
            not_after: moment(certificate.validity().not_after.timestamp()),
        })
    }

    /// Returns the SHA-256 fingerprint as 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex(&self.sha256)
    }
}

/// Largest number of characters of a certificate's names in a log line.
const LONGEST_NAMES: usize = 200;

impl fmt::Display for Certificate {
    /// Formats the names, and the serial number and fingerprint in the form of `denyCertificates`. Names are escaped
    /// and truncated, because the certificate may be forged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; serial:{} sha256:{}", short(&self.sans), hex(&self.serial), self.fingerprint())
    }
}

/// Formats the names of a certificate for a log: one line, escaped and truncated.
pub(crate) fn short(sans: &[String]) -> String {
    let names = if sans.is_empty() { "no name".to_owned() } else { sans.join(", ") };
    names.escape_debug().take(LONGEST_NAMES).collect()
}

/// Converts seconds since 1970 to a timestamp. "No expiration" is the last second of the year 9999 (RFC 5280), which is
/// beyond the largest timestamp and becomes that one.
fn moment(seconds: i64) -> Timestamp {
    let beyond = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(beyond)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes leading zeros. DER puts one before a number whose first bit is set, and tools print different numbers of
/// them.
pub(crate) fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_calls_itself_is_one_short_line() {
        let certificate = |sans: &[&str]| Certificate {
            sans: sans.iter().map(|san| (*san).to_owned()).collect(),
            serial: vec![0x0a, 0xff],
            sha256: [0xab; 32],
            not_after: Timestamp::UNIX_EPOCH,
        };
        let end = format!("; serial:0aff sha256:{}", "ab".repeat(32));
        for (sans, expected) in [
            (&["spiffe://a/b", "c"][..], "spiffe://a/b, c".to_owned()),
            (&[], "no name".to_owned()),
            (&["a\nINFO all is well\x1b[0m"], "a\\nINFO all is well\\u{1b}[0m".to_owned()),
            (&[&"x".repeat(5000)], "x".repeat(200)),
        ] {
            assert_eq!(certificate(sans).to_string(), expected + &end);
        }
    }

    #[test]
    fn a_certificate_may_never_expire() {
        assert_eq!(moment(0), Timestamp::UNIX_EPOCH);
        assert_eq!(moment(253_402_300_799), Timestamp::MAX, "9999-12-31T23:59:59Z");
    }

    #[test]
    fn leading_zeros_are_no_digits() {
        for (bytes, expected) in [(&[0, 0, 1, 0][..], &[1, 0][..]), (&[0], &[]), (&[], &[]), (&[0xff], &[0xff])] {
            assert_eq!(without_leading_zeros(bytes), expected);
        }
    }
}
