//! An authority of Gimbal's own.

use std::path::Path;
use std::time::{Duration, SystemTime};

use gimbal_runtime::Exit;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData as _,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::pair::{self, AUTHORITY, AUTHORITY_KEY, failed};
use crate::output::print;

/// How far the clock of whoever checks a certificate may be behind.
const CLOCKS: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_secs(86_400);

/// Makes an authority in a folder that has no other one. Without a name it has one that no other has: where one takes the place of
/// another, programs tell them apart by it.
///
/// # Errors
/// There is one already, or the folder cannot be written to.
pub fn make(dir: &Path, name: Option<&str>, days: u32) -> Result<(), Exit> {
    let failed = |error| failed("the authority", error);
    let key = KeyPair::generate().map_err(failed)?;
    let own = || {
        let hash = Sha256::digest(key.der_bytes());
        format!("gimbal-ca-{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3])
    };
    let mut params = params(&name.map_or_else(own, str::to_owned), days).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key).map_err(failed)?;
    let files = [(AUTHORITY_KEY, key.serialize_pem()), (AUTHORITY, certificate.pem())];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    // One that is replaced by mistake signs nothing that others trust.
    pair::write(dir, &files, false, "give another --dir")?;
    print(&format!(
        "{} is what both ends of a stream must trust (ca.crt of their Secrets)\n\
         {} signs: keep it where no cluster and no repository has it\n",
        dir.join(AUTHORITY).display(),
        dir.join(AUTHORITY_KEY).display(),
    ))
}

/// An authority that was read from a folder.
pub struct Authority {
    /// What others must trust.
    pub trusted: String,
    /// Its own certificate.
    pub certificate: CertificateDer<'static>,
    /// The last second in which it is valid.
    pub not_after: Timestamp,
    pub issuer: Issuer<'static, KeyPair>,
}

/// Reads an authority: the one of its certificates that belongs to the key signs.
///
/// # Errors
/// It is not there, cannot be read, or may not sign.
pub fn read(dir: &Path) -> Result<Authority, Exit> {
    let wrong = |name: &str, error: &dyn std::fmt::Display| {
        Exit::Failure(format!("cannot use {}: {error}", dir.join(name).display()))
    };
    let text = |name: &str| {
        let hint = "`gimbalctl certs authority` makes one";
        std::fs::read_to_string(dir.join(name)).map_err(|error| wrong(name, &format!("{error} ({hint})")))
    };
    let (trusted, key) = (text(AUTHORITY)?, text(AUTHORITY_KEY)?);
    let key = KeyPair::from_pem(&key).map_err(|error| wrong(AUTHORITY_KEY, &error))?;
    let all = CertificateDer::pem_slice_iter(trusted.as_bytes()).collect::<Result<Vec<_>, _>>();
    let own = key.subject_public_key_info();
    for certificate in all.map_err(|error| wrong(AUTHORITY, &error))? {
        let (_, read) = X509Certificate::from_der(&certificate).map_err(|error| wrong(AUTHORITY, &error))?;
        if read.public_key().raw != own {
            continue;
        }
        if !read.is_ca() {
            return Err(wrong(AUTHORITY, &"its certificate is that of no authority"));
        }
        let not_after = Timestamp::from_second(read.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|error| wrong(AUTHORITY, &error))?;
        return Ok(Authority { trusted, certificate, not_after, issuer });
    }
    Err(wrong(AUTHORITY, &"it has no certificate of the key in ca.key"))
}

/// Whether a certificate names this authority as its issuer, byte for byte: programs find it by that.
pub fn is_named(certificate: &CertificateDer<'_>, authority: &CertificateDer<'_>) -> bool {
    let read = |der| X509Certificate::from_der(der).ok().map(|(_, read)| read);
    let (Some(one), Some(authority)) = (read(certificate), read(authority)) else { return false };
    one.issuer().as_raw() == authority.subject().as_raw()
}

/// Returns the parameters of a certificate with this name, which ends after this many days.
///
/// # Errors
/// The name cannot be in a certificate.
pub fn params(name: &str, days: u32) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    (params.not_before, params.not_after) = ((now - CLOCKS).into(), (now + DAY * days).into());
    Ok(params)
}
