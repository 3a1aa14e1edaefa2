use gimbal_testkit::pki::{Pki, San};
use rustls_pki_types::PrivatePkcs8KeyDer;

use super::*;

fn pem(label: &str, der: &[u8]) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

/// A certificate, that of its issuer, and the key, all as PEM.
fn made() -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::create(dir.path()).unwrap();
    let pair = pki.issue("shop", &[San::Dns("shop.example")]).unwrap();
    let chain = [std::fs::read(&pair.cert).unwrap(), std::fs::read(pki.ca()).unwrap()].concat();
    (chain, std::fs::read(&pair.key).unwrap())
}

fn has(bundle: &[u8], part: &[u8]) -> bool {
    bundle.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_bundle_has_the_key_the_certificate_and_its_issuers() {
    let (chain, key) = made();
    let made = bundle(&CertificateContent::new(&chain, &key)).unwrap();
    let der = PrivatePkcs8KeyDer::from_pem_slice(&key).unwrap();
    assert!(has(&made, der.secret_pkcs8_der()));
    let all: Vec<_> = CertificateDer::pem_slice_iter(&chain).map(Result::unwrap).collect();
    assert_eq!((all.len(), all.iter().filter(|one| has(&made, one)).count()), (2, 2));
    let (whole, rest) = take(&made, SEQUENCE).unwrap();
    assert_eq!((take(whole, INTEGER).map(|(version, _)| version), rest), (Some(&[3][..]), &[][..]));
    assert_eq!(made, bundle(&CertificateContent::new(&chain, &key)).unwrap(), "always the same");
}

#[test]
fn keys_of_other_forms_become_pkcs8() {
    let (chain, key) = made();
    let pkcs8 = PrivatePkcs8KeyDer::from_pem_slice(&key).unwrap();
    let (inside, _) = take(pkcs8.secret_pkcs8_der(), SEQUENCE).unwrap();
    let (_, rest) = take(inside, INTEGER).unwrap();
    let (algorithm, rest) = take(rest, SEQUENCE).unwrap();
    let (curve, _) = take(take(algorithm, OID).unwrap().1, OID).unwrap();
    let (sec1, _) = take(rest, OCTETS).unwrap();
    let (_, rest) = take(take(sec1, SEQUENCE).unwrap().0, INTEGER).unwrap();
    let (scalar, _) = take(rest, OCTETS).unwrap();
    let named = value(EXPLICIT, &[&value(OID, &[curve])]);
    let sec1 = |named: &[u8]| value(SEQUENCE, &[&value(INTEGER, &[&[1]]), &value(OCTETS, &[scalar]), named]);
    let bundled = |key: &str| bundle(&CertificateContent::new(&chain, key.as_bytes()));
    let whole = sec1(&named);
    let algorithm = value(SEQUENCE, &[algorithm]);
    let expected = value(SEQUENCE, &[&value(INTEGER, &[&[0]]), &algorithm, &value(OCTETS, &[&whole])]);
    assert!(has(&bundled(&pem("EC PRIVATE KEY", &whole)).unwrap(), &expected));
    assert_eq!(bundled(&pem("EC PRIVATE KEY", &sec1(&[]))), Err(BundleError::Curve));
    let rsa = value(SEQUENCE, &[&value(INTEGER, &[&[0]])]);
    let algorithm = value(SEQUENCE, &[&value(OID, &[RSA]), &value(NULL, &[])]);
    let expected = value(SEQUENCE, &[&value(INTEGER, &[&[0]]), &algorithm, &value(OCTETS, &[&rsa])]);
    assert!(has(&bundled(&pem("RSA PRIVATE KEY", &rsa)).unwrap(), &expected));
}

#[test]
fn what_cannot_be_read_is_refused_and_not_shown() {
    let (chain, key) = made();
    for (chain, key, expected) in [
        (&b""[..], &key[..], BundleError::Certificate),
        (b"-----BEGIN CERTIFICATE-----\nMARKER!\n-----END CERTIFICATE-----\n", &key, BundleError::Certificate),
        (&chain, b"", BundleError::Key),
        (
            &chain,
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nTUFSS0VS\n-----END ENCRYPTED PRIVATE KEY-----\n",
            BundleError::Key,
        ),
        (&chain, b"-----BEGIN EC PRIVATE KEY-----\nTUFSS0VS\n-----END EC PRIVATE KEY-----\n", BundleError::Curve),
    ] {
        let found = bundle(&CertificateContent::new(chain, key)).unwrap_err();
        assert_eq!(found, expected);
        assert!(!format!("{found} {found:?}").contains("MARKER"));
    }
}
