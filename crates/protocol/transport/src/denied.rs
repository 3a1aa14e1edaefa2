//! The deny list of certificates.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::certificate::{Certificate, hex, without_leading_zeros};

/// The denied certificates (`denyCertificates`). Empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Denied(BTreeSet<DeniedCertificate>);

/// An entry of the deny list, as it is written in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum DeniedCertificate {
    /// `sha256:` and the fingerprint. Matches exactly one certificate.
    Sha256([u8; 32]),
    /// `serial:` and the serial number, big endian without leading zeros. Matches certificates of any authority with
    /// this number.
    Serial(Vec<u8>),
}

/// An entry that has neither form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no certificate: {problem}")]
pub struct InvalidDenial {
    text: String,
    problem: &'static str,
}

/// Longest serial number in bytes (RFC 5280, section 4.1.2.2).
const LONGEST_SERIAL: usize = 20;

impl Denied {
    /// Returns the entry that denies a certificate; `None` if it is not denied.
    #[must_use]
    pub fn find(&self, certificate: &Certificate) -> Option<DeniedCertificate> {
        let forms =
            [DeniedCertificate::Sha256(certificate.sha256), DeniedCertificate::Serial(certificate.serial.clone())];
        forms.into_iter().find(|form| self.0.contains(form))
    }
}

impl FromIterator<DeniedCertificate> for Denied {
    fn from_iter<I: IntoIterator<Item = DeniedCertificate>>(certificates: I) -> Self {
        Self(certificates.into_iter().collect())
    }
}

impl FromStr for DeniedCertificate {
    type Err = InvalidDenial;

    /// Parses `sha256:` or `serial:` and hexadecimal digits, in upper or lower case, with or without colons between
    /// bytes.
    fn from_str(text: &str) -> Result<Self, InvalidDenial> {
        let wrong = |problem| InvalidDenial { text: text.to_owned(), problem };
        if let Some(digits) = text.strip_prefix("sha256:") {
            let problem = "write sha256: and 64 hexadecimal digits";
            let bytes = bytes(digits).and_then(|bytes| bytes.try_into().ok());
            return bytes.map(Self::Sha256).ok_or_else(|| wrong(problem));
        }
        let digits = text.strip_prefix("serial:");
        let digits = digits.ok_or_else(|| wrong("write sha256: or serial: and hexadecimal digits"))?;
        let problem = "write serial: and at most 40 hexadecimal digits";
        // A serial number may have an odd number of digits.
        let even = digits.len() % 2 == 0 || digits.contains(':');
        let bytes = bytes(&format!("{}{digits}", if even { "" } else { "0" })).ok_or_else(|| wrong(problem))?;
        let serial = without_leading_zeros(&bytes);
        if serial.len() > LONGEST_SERIAL {
            return Err(wrong(problem));
        }
        Ok(Self::Serial(serial.to_vec()))
    }
}

impl TryFrom<String> for DeniedCertificate {
    type Error = InvalidDenial;

    fn try_from(text: String) -> Result<Self, InvalidDenial> {
        text.parse()
    }
}

impl fmt::Display for DeniedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(bytes) => write!(f, "sha256:{}", hex(bytes)),
            Self::Serial(bytes) => write!(f, "serial:{}", hex(bytes)),
        }
    }
}

/// Parses hexadecimal bytes: at least one, two digits each, with a colon between all of them or none.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let groups: Vec<&str> = text.split(':').collect();
    let digits = match groups.as_slice() {
        [digits] => (*digits).to_owned(),
        pairs if pairs.iter().all(|pair| pair.len() == 2) => pairs.concat(),
        _ => return None,
    };
    if digits.is_empty() || digits.len() % 2 == 1 {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.last()?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn read(text: &str) -> Result<String, String> {
        text.parse::<DeniedCertificate>().map(|denied| denied.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn one_form_for_every_way_of_writing() {
        let colons =
            DIGITS.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair)).collect::<Vec<_>>().join(":");
        for text in [DIGITS, &DIGITS.to_uppercase(), &colons, &colons.to_uppercase()] {
            assert_eq!(read(&format!("sha256:{text}")).as_deref(), Ok(&*format!("sha256:{DIGITS}")));
        }
        for (text, expected) in [
            ("0a1b", "0a1b"),
            ("A1B", "0a1b"),
            ("0A:1B", "0a1b"),
            ("00:00:0a:1b", "0a1b"),
            ("000a1b", "0a1b"),
            ("00", ""),
            ("7f00", "7f00"),
            ("ffffffffffffffffffffffffffffffffffffffff", "ffffffffffffffffffffffffffffffffffffffff"),
            ("00ffffffffffffffffffffffffffffffffffffffff", "ffffffffffffffffffffffffffffffffffffffff"),
        ] {
            assert_eq!(read(&format!("serial:{text}")).as_deref(), Ok(&*format!("serial:{expected}")), "{text}");
        }
    }

    #[test]
    fn what_names_no_certificate() {
        for text in ["", DIGITS, "sha1:00", "SHA256:00", "serial", "serial 0a"] {
            assert_eq!(
                read(text),
                Err(format!("{text:?} is no certificate: write sha256: or serial: and hexadecimal digits"))
            );
        }
        for text in [
            "",
            "00",
            &DIGITS[1..],
            &format!("{DIGITS}0"),
            &format!("{DIGITS}00"),
            &DIGITS.replace('a', "g"),
            &DIGITS.replace('a', "ü"),
        ] {
            let text = format!("sha256:{text}");
            assert_eq!(
                read(&text),
                Err(format!("{text:?} is no certificate: write sha256: and 64 hexadecimal digits"))
            );
        }
        let long = "01".repeat(21);
        for text in ["", ":", "0x1", "g", "1:2", "0a:1", "0a::1b", ":0a", "0a:", "-1", " 1", "+1", &long] {
            let text = format!("serial:{text}");
            let problem = "write serial: and at most 40 hexadecimal digits";
            assert_eq!(read(&text), Err(format!("{text:?} is no certificate: {problem}")));
        }
    }

    #[test]
    fn a_certificate_is_found_by_either() {
        let certificate = |serial: &[u8], byte| Certificate {
            sans: Vec::new(),
            serial: serial.to_vec(),
            sha256: [byte; 32],
            not_after: jiff::Timestamp::UNIX_EPOCH,
        };
        let list = ["serial:00:a1", &format!("sha256:{}", "22".repeat(32))];
        let denied: Denied = list.iter().map(|text| text.parse().unwrap()).collect();
        let found = |certificate| denied.find(&certificate).map(|denied| denied.to_string());
        assert_eq!(found(certificate(&[0xa1], 1)).as_deref(), Some("serial:a1"));
        assert_eq!(found(certificate(&[1], 0x22)), Some(format!("sha256:{}", "22".repeat(32))));
        assert_eq!(found(certificate(&[0xa1, 0], 1)), None);
        assert_eq!(found(certificate(&[0x22], 0xa1)), None);
        assert_eq!(Denied::default().find(&certificate(&[], 0)), None);
    }
}
