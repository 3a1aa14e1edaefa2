//! Authorities of Gimbal's own, and the pairs that they sign: what `gimbalctl certs` and gimbal-operator have in common. Texts go
//! in and come out; whoever calls keeps them.

mod authority;
mod facts;
mod sign;

pub use authority::{Authority, AuthorityError, KeyedCertificate, check_trusted, make_authority};
pub use facts::{PairError, PairFacts};
pub use sign::{PairRequest, SignError, SignedPair};

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType};
use sha2::{Digest as _, Sha256};

/// How far the clock of whoever checks a certificate may be behind.
const CLOCKS: Duration = Duration::from_secs(300);

/// Returns the parameters of a certificate with this name, which ends after `lifetime`.
fn params(name: &str, lifetime: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - CLOCKS).into(), (now + lifetime).into());
    Ok(params)
}

/// Returns the SHA-256 of some bytes, as hexadecimal digits.
fn hex_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
