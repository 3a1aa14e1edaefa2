//! An authority of Gimbal's own.

use std::path::Path;
use std::time::{Duration, SystemTime};

use gimbal_runtime::Exit;
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::pair::{self, AUTHORITY, AUTHORITY_KEY, failed};
use super::show::ShownCertificate;
use crate::output::print;

/// How far the clock of whoever checks a certificate may be behind.
const CLOCKS: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(86_400);

/// Makes an authority in a folder that has no other one.
///
/// # Errors
/// There is one already, or the folder cannot be written to.
pub fn make(dir: &Path, name: &str, days: u32) -> Result<(), Exit> {
    let mut params = params(name, days).map_err(|error| failed("the authority", error))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(|error| failed("the authority", error))?;
    let certificate = params.self_signed(&key).map_err(|error| failed("the authority", error))?;
    // One that is replaced by mistake signs nothing that others trust.
    pair::write(dir, &[(AUTHORITY, &certificate.pem()), (AUTHORITY_KEY, &key.serialize_pem())], false)?;
    print(&format!(
        "{} is what both ends of a stream must trust (ca.crt of their Secrets)\n\
         {} signs: keep it where no cluster and no repository has it\n",
        dir.join(AUTHORITY).display(),
        dir.join(AUTHORITY_KEY).display(),
    ))
}

/// An authority that was read from a folder.
pub struct Authority {
    pub certificate: String,
    pub not_after: Timestamp,
    pub issuer: Issuer<'static, KeyPair>,
}

/// Reads an authority.
///
/// # Errors
/// It is not there, or cannot be read.
pub fn read(dir: &Path) -> Result<Authority, Exit> {
    let read = |name: &str| {
        let path = dir.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            Exit::Failure(format!("cannot read {}: {error} (gimbalctl certs authority)", path.display()))
        })
    };
    let (certificate, key) = (read(AUTHORITY)?, read(AUTHORITY_KEY)?);
    let unreadable = |name: &str, error: &dyn std::fmt::Display| {
        Exit::Failure(format!("cannot read {}: {error}", dir.join(name).display()))
    };
    let key = KeyPair::from_pem(&key).map_err(|error| unreadable(AUTHORITY_KEY, &error))?;
    let shown = ShownCertificate::of_pem(&certificate).map_err(|error| unreadable(AUTHORITY, &error))?;
    let not_after = shown.first().map(|one| one.not_after).unwrap_or_default();
    let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(|error| unreadable(AUTHORITY, &error))?;
    Ok(Authority { certificate, not_after, issuer })
}

/// Returns the parameters of a certificate with this name, which ends after this many days.
pub fn params(name: &str, days: u32) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - CLOCKS).into(), (now + DAY * days).into());
    Ok(params)
}
