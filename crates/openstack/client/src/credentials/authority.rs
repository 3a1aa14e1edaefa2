//! The private authority that signed a cloud's certificates.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::CredentialsError;
use super::given::{CredentialsKey, Given};

/// Reads the certificates from the configured data or file. Returns none if neither is configured.
pub(super) fn read(given: &Given) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    if let Some(data) = given.text(CredentialsKey::AuthorityData) {
        let certificates = match data.contains("-----BEGIN") {
            true => pem(data.as_bytes()),
            false => decode(data).and_then(|pem_text| pem(&pem_text)),
        };
        return certificates.map_err(|problem| given.wrong(CredentialsKey::AuthorityData, &problem));
    }
    let Some(path) = given.text(CredentialsKey::AuthorityFile) else { return Ok(Vec::new()) };
    let certificates = match std::fs::read(path) {
        Ok(data) => pem(&data).map_err(|problem| format!("{path}: {problem}")),
        Err(error) => Err(format!("{path} cannot be read: {error}")),
    };
    certificates.map_err(|problem| given.wrong(CredentialsKey::AuthorityFile, &problem))
}

/// Reads the certificates from a file.
pub(super) fn read_file(file: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let wrong = |problem: String| CredentialsError { place: file.display().to_string(), problem };
    let data = std::fs::read(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    pem(&data).map_err(wrong)
}

/// Decodes base64, which may be wrapped.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let text: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(text).map_err(|error| format!("is neither PEM nor base64 of PEM: {error}"))
}

fn pem(data: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(data).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("holds a certificate that cannot be read: {error}"))?;
    let mut store = rustls::RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| format!("holds a certificate that cannot be used: {error}"))?;
    }
    match certificates.is_empty() {
        true => Err("holds no certificate in PEM form".to_owned()),
        false => Ok(certificates),
    }
}
