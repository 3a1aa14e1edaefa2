//! An authority of Gimbal's own.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{BasicConstraints, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::Zeroizing;

use crate::{hex_digest, params};

/// A certificate and its key, in PEM. The key is wiped from memory when this is dropped.
pub struct KeyedCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: Zeroizing<String>,
}

/// Makes an authority. Without a name it has one that no other has: where one takes the place of another, programs tell them apart
/// by it.
///
/// # Errors
/// The name cannot be in a certificate.
pub fn make_authority(name: Option<&str>, lifetime: Duration) -> Result<KeyedCertificate, rcgen::Error> {
    let key = KeyPair::generate()?;
    let own = || format!("gimbal-ca-{}", &hex_digest(key.der_bytes())[..8]);
    let mut params = params(&name.map_or_else(own, str::to_owned), lifetime)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?.pem();
    Ok(KeyedCertificate { certificate, key: Zeroizing::new(key.serialize_pem()) })
}

/// Why an authority cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// Its key cannot be read.
    #[error("{0}")]
    Key(String),
    /// Its certificates cannot be read, or none of them is that of an authority with this key.
    #[error("{0}")]
    Certificate(String),
}

/// Checks that others can trust what a text holds: certificates, and at least one.
///
/// # Errors
/// It holds none, or one that cannot be read.
pub fn check_trusted(trusted: &str) -> Result<(), AuthorityError> {
    let all = CertificateDer::pem_slice_iter(trusted.as_bytes()).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if all.is_empty() => Err(AuthorityError::Certificate("it has no certificate".to_owned())),
        Ok(_) => Ok(()),
        Err(error) => Err(AuthorityError::Certificate(error.to_string())),
    }
}

/// An authority that can sign.
pub struct Authority {
    pub(crate) trusted: String,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) not_after: Timestamp,
    pub(crate) issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads an authority: the one of its certificates that belongs to the key signs, and all of them are trusted.
    ///
    /// # Errors
    /// A text cannot be read, or none of the certificates may sign with the key.
    pub fn read(trusted: &str, key: &str) -> Result<Self, AuthorityError> {
        fn wrong(error: impl fmt::Display) -> AuthorityError {
            AuthorityError::Certificate(error.to_string())
        }
        let key = KeyPair::from_pem(key).map_err(|error| AuthorityError::Key(error.to_string()))?;
        let all = CertificateDer::pem_slice_iter(trusted.as_bytes()).collect::<Result<Vec<_>, _>>();
        let own = key.subject_public_key_info();
        for certificate in all.map_err(wrong)? {
            let (_, read) = X509Certificate::from_der(&certificate).map_err(wrong)?;
            if read.public_key().raw != own {
                continue;
            }
            if !read.is_ca() {
                return Err(wrong("its certificate is that of no authority"));
            }
            let not_after = Timestamp::from_second(read.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
            let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(wrong)?;
            return Ok(Self { trusted: trusted.to_owned(), certificate, not_after, issuer });
        }
        Err(wrong("none of its certificates is that of its key"))
    }

    /// Returns what others must trust.
    #[must_use]
    pub fn trusted(&self) -> &str {
        &self.trusted
    }

    /// Returns the last second in which it is valid.
    #[must_use]
    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Returns the SHA-256 of its certificate, as hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        hex_digest(&self.certificate)
    }

    /// Whether a certificate names this authority as its issuer, byte for byte: programs find it by that.
    pub(crate) fn is_named_by(&self, certificate: &CertificateDer<'_>) -> bool {
        let read = |der| X509Certificate::from_der(der).ok().map(|(_, read)| read);
        let (Some(one), Some(authority)) = (read(certificate), read(&self.certificate)) else { return false };
        one.issuer().as_raw() == authority.subject().as_raw()
    }
}
