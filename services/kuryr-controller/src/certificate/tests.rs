use gimbal_kubernetes_objects::TlsSecret;
use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::json;

use super::*;

fn signed(names: &[&str], common: Option<&str>, key: &KeyPair) -> String {
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(common) = common {
        params.distinguished_name.push(DnType::CommonName, common);
    }
    params.self_signed(key).unwrap().pem()
}

fn secret(chain: &str, key: &str) -> TlsSecret {
    let encoded = |text: &str| STANDARD.encode(text);
    let data = json!({"tls.crt": encoded(chain), "tls.key": encoded(key)});
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "team"}, "data": data})).unwrap()
}

fn state(chain: &str, key: &str) -> SecretState {
    known_secret(&secret(chain, key)).state
}

#[test]
fn a_certificate_with_its_key_is_read() {
    for kind in [&PKCS_ECDSA_P256_SHA256, &PKCS_RSA_SHA256] {
        let key = KeyPair::generate_for(kind).unwrap();
        let chain = signed(&["WWW.example.com", "*.shop.example.com"], Some("Old.example.com"), &key);
        let other = signed(&["ca.example.com"], None, &KeyPair::generate().unwrap());
        let read = state(&format!("{chain}{other}"), &key.serialize_pem()).unwrap();
        let names: Vec<&str> = read.names.iter().map(|name| &**name).collect();
        // haproxy takes it for its common name as well.
        assert_eq!(names, ["*.shop.example.com", "old.example.com", "www.example.com"]);
        let content = content(&secret(&format!("{chain}{other}"), &key.serialize_pem())).unwrap();
        assert_eq!((read.hash, content.key()), (content.hash(), key.serialize_pem().as_bytes()));
    }
}

#[test]
fn the_common_name_is_a_name_where_there_is_no_other() {
    let key = KeyPair::generate().unwrap();
    let read = state(&signed(&[], Some("www.example.com"), &key), &key.serialize_pem()).unwrap();
    assert_eq!(*read.names, ["www.example.com".into()]);
}

#[test]
fn what_cannot_be_served_is_refused() {
    use CertificateProblem::{Chain, EncryptedKey, Incomplete, Key, KeyKind, OtherKey, TooLarge};
    let key = KeyPair::generate().unwrap();
    let (chain, pem) = (signed(&["www.example.com"], None, &key), key.serialize_pem());
    let other = KeyPair::generate().unwrap();
    let issuer = signed(&["ca.example.com"], None, &other);
    let edwards = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let of_edwards = signed(&["www.example.com"], None, &edwards);
    let encrypted = pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let with_header = pem.replacen('\n', "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1);
    let broken = "-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n";
    let cases: [(&str, &str, CertificateProblem); 12] = [
        ("", &pem, Incomplete),
        (&chain, "", Incomplete),
        ("certificate", &pem, Chain),
        (&pem, &pem, Chain),
        (broken, &pem, Chain),
        (&format!("{chain}{broken}"), &pem, Chain),
        (&chain, "key", Key),
        (&chain, &chain, Key),
        (&chain, &encrypted, EncryptedKey),
        (&chain, &with_header, EncryptedKey),
        (&chain, &other.serialize_pem(), OtherKey),
        (&of_edwards, &edwards.serialize_pem(), KeyKind),
    ];
    for (chain, key, problem) in cases {
        assert_eq!(state(chain, key), Err(problem), "{chain}{key}");
    }
    // The first certificate is the one that counts.
    assert_eq!(state(&format!("{issuer}{chain}"), &pem), Err(OtherKey));
    assert_eq!(state(&chain.repeat(2_000), &pem), Err(TooLarge));
    // What is no Base64 is as if it were not there.
    let data = json!({"data": {"tls.crt": "***", "tls.key": "***"}});
    assert_eq!(known_secret(&serde_json::from_value(data).unwrap()).state, Err(Incomplete));
}

/// haproxy chooses a certificate by its names: one that it reads otherwise than others do would be served for another host.
#[test]
fn a_name_that_haproxy_reads_otherwise_is_refused() {
    let key = KeyPair::generate().unwrap();
    let of = |names: &[&str], common: Option<&str>| state(&signed(names, common, &key), &key.serialize_pem());
    let stranges: [(&[&str], Option<&str>); 5] = [
        (&["shop.example.com\0.x"], None),
        (&["!shop.example.com"], None),
        (&["*"], None),
        (&["a.*.example.com"], None),
        (&["www.example.com"], Some("*")),
    ];
    for (names, common) in stranges {
        assert_eq!(of(names, common), Err(CertificateProblem::Name), "{names:?} {common:?}");
    }
    assert!(of(&["*.example.com"], Some("Example Corp")).is_ok(), "haproxy takes no host for that either");
    let many: Vec<String> = (0..=CertificateProblem::MOST_NAMES).map(|n| format!("h{n}.example.com")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(of(&many, None), Err(CertificateProblem::TooManyNames));
    assert!(of(&many[1..], None).is_ok());
}

/// It would keep haproxy from beginning, for every Ingress of the router.
#[test]
fn a_weak_certificate_is_refused_wherever_it_is_in_the_chain() {
    let weak = include_str!("weak.crt");
    let (key, leaf) = (KeyPair::generate().unwrap(), |key: &KeyPair| signed(&["www.example.com"], None, key));
    let chain = leaf(&key);
    assert!(state(&chain, &key.serialize_pem()).is_ok());
    assert_eq!(state(&format!("{chain}{weak}"), &key.serialize_pem()), Err(CertificateProblem::Weak));
}

#[test]
fn the_largest_content_fits_in_a_frame() {
    let content = CertificateContent::new(&[b'x'; CertificateProblem::MOST_BYTES], b"");
    assert!(content.wire_len() <= 900 << 10);
}
