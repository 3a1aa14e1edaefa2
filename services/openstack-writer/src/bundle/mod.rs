//! Certificates as Octavia reads them: bundles of PKCS#12 without a password. Pure.
//!
//! Without a password nothing in a bundle is secret from whoever has it, so nothing in it is encrypted either: that would only cost
//! time. Its code of integrity is there because OpenSSL before 3.0 refuses a bundle that has none.

mod der;

use gimbal_kuryr_model::CertificateContent;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use self::der::{EXPLICIT, INTEGER, NULL, OCTETS, OID, SEQUENCE, SET, take, value};

/// `pkcs7-data`, 1.2.840.113549.1.7.1.
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
/// `pkcs-12-keyBag`, 1.2.840.113549.1.12.10.1.1.
const KEY_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x01];
/// `pkcs-12-certBag`, 1.2.840.113549.1.12.10.1.3.
const CERTIFICATE_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03];
/// `x509Certificate`, 1.2.840.113549.1.9.22.1.
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
/// `localKeyId`, 1.2.840.113549.1.9.21.
const LOCAL_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
/// `id-sha256`, 2.16.840.1.101.3.4.2.1.
const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
/// `rsaEncryption`, 1.2.840.113549.1.1.1.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// `id-ecPublicKey`, 1.2.840.10045.2.1.
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// How often the key of the code of integrity is hashed. It is no secret.
const ROUNDS: u8 = 1;
/// The size of SHA-256's blocks.
const BLOCK: usize = 64;

/// Why a certificate cannot be stored. It shows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BundleError {
    #[error("tls.crt holds no certificate in PEM, or something else")]
    Certificate,
    #[error("tls.key holds no private key in PEM (PKCS#8, PKCS#1 or SEC1, without a password)")]
    Key,
    #[error("tls.key does not name the curve of its key; write it as PKCS#8")]
    Curve,
}

/// Returns a certificate, the chain of its issuers and its key as one bundle.
///
/// # Errors
/// Something of it cannot be read.
pub(crate) fn bundle(content: &CertificateContent) -> Result<Zeroizing<Vec<u8>>, BundleError> {
    let chain: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(content.chain()).collect();
    let chain = chain.map_err(|_| BundleError::Certificate)?;
    let (first, issuers) = chain.split_first().ok_or(BundleError::Certificate)?;
    let key = private_key(content.key())?;
    // What ties the certificate to the key.
    let mark: [u8; 32] = Sha256::digest(first).into();
    let mark = value(SET, &[&value(SEQUENCE, &[&value(OID, &[LOCAL_KEY]), &value(SET, &[&value(OCTETS, &[&mark])])])]);
    let mut bags = vec![bag(KEY_BAG, &key, &mark), bag(CERTIFICATE_BAG, &certificate(first), &mark)];
    bags.extend(issuers.iter().map(|issuer| bag(CERTIFICATE_BAG, &certificate(issuer), &[])));
    let parts: Vec<&[u8]> = bags.iter().map(|bag| bag.as_slice()).collect();
    let contents = value(SEQUENCE, &[&data(&value(SEQUENCE, &parts))]);
    let salt = &Sha256::digest(first)[..8];
    let digest = value(SEQUENCE, &[&value(OID, &[SHA256]), &value(NULL, &[])]);
    let code = value(SEQUENCE, &[&digest, &value(OCTETS, &[&integrity(&contents, salt)])]);
    let code = value(SEQUENCE, &[&code, &value(OCTETS, &[salt]), &value(INTEGER, &[&[ROUNDS]])]);
    Ok(value(SEQUENCE, &[&value(INTEGER, &[&[3]]), &data(&contents), &code]))
}

fn data(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    value(SEQUENCE, &[&value(OID, &[DATA]), &value(EXPLICIT, &[&value(OCTETS, &[bytes])])])
}

fn bag(kind: &[u8], content: &[u8], attributes: &[u8]) -> Zeroizing<Vec<u8>> {
    value(SEQUENCE, &[&value(OID, &[kind]), &value(EXPLICIT, &[content]), attributes])
}

fn certificate(der: &[u8]) -> Zeroizing<Vec<u8>> {
    value(SEQUENCE, &[&value(OID, &[X509]), &value(EXPLICIT, &[&value(OCTETS, &[der])])])
}

/// Returns a key as PKCS#8.
fn private_key(pem: &[u8]) -> Result<Zeroizing<Vec<u8>>, BundleError> {
    let key = Zeroizing::new(PrivateKeyDer::from_pem_slice(pem).map_err(|_| BundleError::Key)?);
    match &*key {
        PrivateKeyDer::Pkcs8(key) => Ok(Zeroizing::new(key.secret_pkcs8_der().to_vec())),
        PrivateKeyDer::Pkcs1(key) => Ok(wrapped(RSA, &value(NULL, &[]), key.secret_pkcs1_der())),
        PrivateKeyDer::Sec1(key) => {
            let key = key.secret_sec1_der();
            let curve = curve_of(key).ok_or(BundleError::Curve)?;
            Ok(wrapped(ELLIPTIC, &value(OID, &[curve]), key))
        }
        _ => Err(BundleError::Key),
    }
}

fn wrapped(algorithm: &[u8], parameters: &[u8], key: &[u8]) -> Zeroizing<Vec<u8>> {
    let algorithm = value(SEQUENCE, &[&value(OID, &[algorithm]), parameters]);
    value(SEQUENCE, &[&value(INTEGER, &[&[0]]), &algorithm, &value(OCTETS, &[key])])
}

/// Returns the curve that a key of SEC1 names.
fn curve_of(key: &[u8]) -> Option<&[u8]> {
    let (key, _) = take(key, SEQUENCE)?;
    let (_, rest) = take(key, INTEGER)?;
    let (_, rest) = take(rest, OCTETS)?;
    let (parameters, _) = take(rest, EXPLICIT)?;
    Some(take(parameters, OID)?.0)
}

/// Returns the code of integrity: HMAC-SHA256 under the key that PKCS#12 derives (RFC 7292, B.2) of an empty password.
fn integrity(contents: &[u8], salt: &[u8]) -> [u8; 32] {
    let mut key = Sha256::new();
    // What the key is for, the salt and the password, each repeated for a block.
    key.update([3; BLOCK]);
    key.update(salt.iter().copied().cycle().take(BLOCK).collect::<Vec<u8>>());
    key.update([0; BLOCK]);
    let key: [u8; 32] = key.finalize().into();
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(contents).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests;
