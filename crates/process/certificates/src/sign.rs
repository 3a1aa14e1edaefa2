//! Signs a pair.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::string::Ia5String;
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use zeroize::Zeroizing;

use crate::{Authority, KeyedCertificate, params};

/// What a pair is to be.
#[derive(Debug, Clone, Copy)]
pub struct PairRequest<'a> {
    /// The common name, which people see.
    pub name: &'a str,
    /// Identities.
    pub uris: &'a [String],
    /// Names that others dial, or that are identities.
    pub dns: &'a [String],
    /// Addresses that others dial.
    pub addresses: &'a [IpAddr],
    /// Time until it ends. It never outlives its authority.
    pub lifetime: Duration,
}

/// A pair that was signed.
pub struct SignedPair {
    /// The certificate and its key.
    pub pair: KeyedCertificate,
    /// Whether it ends before its time, with its authority.
    pub ends_with_authority: bool,
}

/// Why no pair was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The authority's own certificate has ended.
    #[error("the authority has ended: {0}")]
    Ended(Timestamp),
    /// What is asked for cannot be in a certificate.
    #[error(transparent)]
    Request(#[from] rcgen::Error),
    /// Programs would not find the authority by the name in the certificate.
    #[error("the name of the authority has parts that cannot be written as they are: sign with the tool that made it")]
    Name,
}

impl Authority {
    /// Makes a key, and signs a certificate of it for both ends of a stream.
    ///
    /// # Errors
    /// The authority has ended, or what is asked for cannot be in a certificate.
    pub fn sign(&self, request: &PairRequest<'_>) -> Result<SignedPair, SignError> {
        if self.not_after <= Timestamp::now() {
            return Err(SignError::Ended(self.not_after));
        }
        let mut params = params(request.name, request.lifetime)?;
        for uri in request.uris {
            params.subject_alt_names.push(SanType::URI(Ia5String::try_from(uri.as_str())?));
        }
        for name in request.dns {
            params.subject_alt_names.push(SanType::DnsName(Ia5String::try_from(name.as_str())?));
        }
        params.subject_alt_names.extend(request.addresses.iter().copied().map(SanType::IpAddress));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A program serves with the same pair that it dials with.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let end = SystemTime::from(self.not_after);
        let ends_with_authority = SystemTime::from(params.not_after) > end;
        if ends_with_authority {
            params.not_after = end.into();
        }
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        if !self.is_named_by(certificate.der()) {
            return Err(SignError::Name);
        }
        let pair = KeyedCertificate { certificate: certificate.pem(), key: Zeroizing::new(key.serialize_pem()) };
        Ok(SignedPair { pair, ends_with_authority })
    }
}
