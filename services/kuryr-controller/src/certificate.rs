//! Reads the certificate of a Secret, and drops it at once: what stays is its hash and the names in it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gimbal_kubernetes_objects::{TlsSecret, WipedText};
use gimbal_kuryr_model::{CertificateContent, Text};
use gimbal_kuryr_translate::{CertificateProblem, KnownSecret, SecretState, ServableCertificate};
use gimbal_model::SourceKey;
use gimbal_session::Content as _;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;
use zeroize::Zeroizing;

/// Returns what is known of a Secret.
pub(crate) fn known_secret(secret: &TlsSecret) -> KnownSecret {
    let meta = &secret.metadata;
    let key = SourceKey { namespace: meta.namespace.clone(), name: meta.name.clone() };
    KnownSecret { key, state: content(secret).and_then(|content| read(&content)) }
}

/// Returns the content of a Secret.
///
/// # Errors
/// It has none, or one that is too large.
pub(crate) fn content(secret: &TlsSecret) -> Result<CertificateContent, CertificateProblem> {
    let decoded = |text: &WipedText| {
        let decoded = Zeroizing::new(STANDARD.decode(text.as_str()).unwrap_or_default());
        if decoded.is_empty() { Err(CertificateProblem::Incomplete) } else { Ok(decoded) }
    };
    let (chain, key) = (decoded(secret.chain())?, decoded(secret.key())?);
    if chain.len() + key.len() > CertificateProblem::MOST_BYTES {
        return Err(CertificateProblem::TooLarge);
    }
    Ok(CertificateContent::new(&chain, &key))
}

/// Reads a content. That it can be read here, and that its key fits, is what makes it good for a listener.
fn read(content: &CertificateContent) -> SecretState {
    let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(content.chain()).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(CertificateProblem::Chain)?;
    let parsed: Result<Vec<_>, _> = chain.iter().map(|one| X509Certificate::from_der(one)).collect();
    let parsed = parsed.map_err(|_| CertificateProblem::Chain)?;
    let (_, leaf) = parsed.first().ok_or(CertificateProblem::Chain)?;
    let kind = leaf.public_key().algorithm.oid();
    if *kind != OID_PKCS1_RSAENCRYPTION && *kind != OID_KEY_TYPE_EC_PUBLIC_KEY {
        return Err(CertificateProblem::KeyKind);
    }
    let names = names(leaf)?;
    if !parsed.iter().all(|(_, one)| is_strong(one)) {
        return Err(CertificateProblem::Weak);
    }
    // Both forms of an encrypted key say so: in the label, or in a header.
    if content.key().windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
        return Err(CertificateProblem::EncryptedKey);
    }
    let key = PrivateKeyDer::from_pem_slice(content.key()).map_err(|_| CertificateProblem::Key)?;
    let key = Zeroizing::new(key);
    let signs = any_supported_type(&key).map_err(|_| CertificateProblem::Key)?;
    CertifiedKey::new(chain.clone(), signs).keys_match().map_err(|_| CertificateProblem::OtherKey)?;
    Ok(ServableCertificate { hash: content.hash(), names })
}

const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Whether OpenSSL takes a certificate at the level that load balancers have: one that it refuses keeps haproxy from beginning, and
/// no Ingress of that load balancer would be served. The signature of a root does not count.
fn is_strong(certificate: &X509Certificate<'_>) -> bool {
    let is_root = certificate.subject().as_raw() == certificate.issuer().as_raw();
    let signature = certificate.signature_algorithm.algorithm.to_id_string();
    let is_signed = is_root || STRONG_SIGNATURES.contains(&&*signature);
    let key = match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(key)) => key.key_size() >= 2048,
        Ok(PublicKey::EC(point)) => matches!(point.key_size(), 256 | 384 | 521 | 528),
        _ => false,
    };
    is_signed && key
}

/// RSA and ECDSA with SHA-256, SHA-384 and SHA-512, and RSA-PSS.
const STRONG_SIGNATURES: [&str; 7] = [
    "1.2.840.113549.1.1.11",
    "1.2.840.113549.1.1.12",
    "1.2.840.113549.1.1.13",
    "1.2.840.113549.1.1.10",
    "1.2.840.10045.4.3.2",
    "1.2.840.10045.4.3.3",
    "1.2.840.10045.4.3.4",
];

/// The names for which haproxy takes a certificate: its alternative names, and beside them the common names of its subject.
fn names(leaf: &X509Certificate<'_>) -> Result<Box<[Text]>, CertificateProblem> {
    let alternative = leaf.subject_alternative_name().map_err(|_| CertificateProblem::Chain)?;
    let alternative = alternative.iter().flat_map(|names| &names.value.general_names);
    let alternative = alternative.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    let common: Result<Vec<&str>, _> = leaf.subject().iter_common_name().map(|name| name.as_str()).collect();
    let common = common.map_err(|_| CertificateProblem::Name)?;
    let names: BTreeSet<Text> = alternative.chain(common).map(|name| name.to_ascii_lowercase().into()).collect();
    if names.len() > CertificateProblem::MOST_NAMES {
        return Err(CertificateProblem::TooManyNames);
    }
    // haproxy ends a name at a zero byte, reads a `!` as an exception, and a star alone as every host.
    let is_strange = |name: &Text| {
        let has_star = name.strip_prefix("*.").unwrap_or(name).contains('*');
        name.chars().any(char::is_control) || name.starts_with('!') || has_star
    };
    if names.iter().any(is_strange) {
        return Err(CertificateProblem::Name);
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests;
