//! Certificates of a router.

use std::fmt;
use std::str::FromStr;

use gimbal_session::Content;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::Text;

/// SHA-256 of a certificate with its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertificateHash([u8; 32]);

/// A text that is not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct NotAHash;

impl CertificateHash {
    /// Returns a hash with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for CertificateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CertificateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for CertificateHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or(NotAHash);
        let mut bytes = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(NotAHash);
        }
        for (to, [high, low]) in bytes.iter_mut().zip(pairs) {
            *to = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

/// A certificate that a router should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateWish {
    /// Namespace and name of its Secret, with a `/` in between; for people.
    pub secret: Text,
    /// Hash of its content.
    pub hash: CertificateHash,
}

/// A certificate with its key. It shows neither in logs nor in errors, and is wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificateContent {
    chain: Zeroizing<Box<[u8]>>,
    key: Zeroizing<Box<[u8]>>,
}

impl CertificateContent {
    /// Returns a content from what a Secret holds: `tls.crt` and `tls.key`, as PEM. Nothing is checked.
    #[must_use]
    pub fn new(chain: &[u8], key: &[u8]) -> Self {
        Self { chain: Zeroizing::new(chain.into()), key: Zeroizing::new(key.into()) }
    }

    /// Returns the certificate and those that lead to its issuer, as PEM.
    #[must_use]
    pub fn chain(&self) -> &[u8] {
        &self.chain
    }

    /// Returns the private key, as PEM.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for CertificateContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateContent(..)")
    }
}

impl Content for CertificateContent {
    type Hash = CertificateHash;

    fn hash(&self) -> CertificateHash {
        let mut hash = Sha256::new();
        for part in [&self.chain, &self.key] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(&**part);
        }
        CertificateHash(hash.finalize().into())
    }

    fn wire_len(&self) -> usize {
        self.chain.len() + self.key.len() + 96
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_hash_is_read_as_that_hash() {
        let hash = CertificateContent::new(b"chain", b"key").hash();
        assert_eq!(hash.to_string().len(), 64);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for other in ["", "00", &"0g".repeat(32), &"00".repeat(33), &"0".repeat(63), &"\u{e9}".repeat(32)] {
            assert_eq!(other.parse::<CertificateHash>(), Err(NotAHash), "{other}");
        }
    }

    #[test]
    fn where_the_chain_ends_is_part_of_the_hash() {
        assert_ne!(CertificateContent::new(b"ab", b"c").hash(), CertificateContent::new(b"a", b"bc").hash());
    }

    #[test]
    fn a_content_does_not_show_itself() {
        assert!(!format!("{:?}", CertificateContent::new(b"chain", b"MARKER")).contains("MARKER"));
    }
}
