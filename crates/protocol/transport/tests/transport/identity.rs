//! Authentication of both ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Pki, SOON, Server};
use gimbal_transport::{
    DialError, LinkError, Peer, Problem, ServeOptions, ServedServices, TlsCredentials, TlsFiles, client_tls, dial,
    plaintext_allowed, serve,
};
use rustls::crypto::aws_lc_rs::default_provider;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn names_of_the_certificate_are_the_peer() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let names = ["spiffe://test/backend/node02", "node02.example", "10.0.0.1"];
    let channel = server.dial(Some(pki.client(&names))).await.unwrap();
    let _open = gimbal_transport::open::<gimbal_session::Services>(channel).await.unwrap();
    let Peer::Certificate(peer) = server.stream().await.peer else { panic!("no certificate") };
    let mut sans = peer.sans.clone();
    sans.sort();
    assert_eq!(sans, ["node02.example", "spiffe://test/backend/node02"], "URI and DNS names, no addresses");
    assert_eq!(peer.fingerprint_sha256.len(), 64);
    assert!(peer.address.ip().is_loopback());
}

#[tokio::test]
async fn the_fingerprint_is_that_of_the_certificate() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let files = pki.issue(&["a"]);
    let channel = server.dial(Some(client_tls(&files).unwrap())).await.unwrap();
    let _open = gimbal_transport::open::<gimbal_session::Services>(channel).await.unwrap();
    let Peer::Certificate(peer) = server.stream().await.peer else { panic!("no certificate") };
    let printed = std::process::Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(&files.cert)
        .output();
    // Without openssl on the machine there is nothing to compare with.
    let Ok(printed) = printed else { return };
    let printed = String::from_utf8(printed.stdout).unwrap().trim().to_lowercase().replace(':', "");
    assert!(printed.ends_with(&format!("={}", peer.fingerprint_sha256)), "{printed}");
}

/// A recreated CA often has the name of the old one. Only the signature tells them apart.
fn other_cas() -> [(Pki, &'static str); 2] {
    [(Pki::named("another CA"), "UnknownIssuer"), (Pki::new(), "BadSignature")]
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused_in_words() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    for (other, reason) in other_cas() {
        let mut files = other.issue(&["a"]);
        files.ca = pki.ca();
        let error = server.dial(Some(client_tls(&files).unwrap())).await.unwrap_err();
        assert!(matches!(error, DialError::ClientCertificate { .. }), "{error}");
        assert!(error.to_string().contains("refused our client certificate"), "{error}");
        let refusal = server.refusal().await;
        assert_eq!(refusal.problem, Problem::UnknownAuthority);
        assert!(refusal.message.contains(reason), "{}", refusal.message);
        assert_eq!(refusal.certificate.unwrap().sans, ["a"]);
        assert_eq!(refusal.asked_for.as_deref(), Some("localhost"));
    }
    assert!(server.streams.try_recv().is_err());
}

#[tokio::test]
async fn a_server_of_another_ca_is_not_trusted() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    for (other, _) in other_cas() {
        let error = server.dial(Some(other.client(&["a"]))).await.unwrap_err();
        assert!(matches!(error, DialError::ServerCertificate { .. }), "{error}");
        assert!(error.to_string().contains("not signed by this CA"), "{error}");
        let refusal = server.refusal().await;
        assert_eq!(refusal.problem, Problem::OurCertificate);
        assert!(refusal.message.contains("--tls-cert"), "{}", refusal.message);
    }
}

#[tokio::test]
async fn a_server_for_another_host_is_not_trusted() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["elsewhere.example"]))).await;
    let error = server.dial(Some(pki.client(&["a"]))).await.unwrap_err();
    assert!(matches!(error, DialError::ServerCertificate { .. }), "{error}");
    assert!(error.to_string().contains("localhost"), "{error}");
    let refusal = server.refusal().await;
    assert_eq!((refusal.problem, refusal.asked_for.as_deref()), (Problem::OurCertificate, Some("localhost")));
}

#[tokio::test]
async fn expired_certificates_are_refused_both_ways() {
    let pki = Pki::new();
    let expire = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    };
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let client = client_tls(&pki.issue_with(&["a"], expire)).unwrap();
    let error = server.dial(Some(client)).await.unwrap_err();
    assert!(matches!(error, DialError::ClientCertificate { .. }), "{error}");
    assert_eq!(server.refusal().await.problem, Problem::Expired);

    let server = Server::start(Some(&pki.issue_with(&["localhost"], expire))).await;
    let error = server.dial(Some(pki.client(&["a"]))).await.unwrap_err();
    assert!(error.to_string().contains("it has expired"), "{error}");
}

#[tokio::test]
async fn without_a_certificate_nobody_gets_in() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(pki.ca()).unwrap();
    roots.add(rustls_pki_types::pem::PemObject::from_pem_slice(&pem).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let _stream = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), socket).await;
    assert_eq!(server.refusal().await.problem, Problem::NoCertificate);
}

#[tokio::test]
async fn plaintext_to_a_tls_server_is_refused() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    assert!(gimbal_transport::open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.is_err());
    assert_eq!(server.refusal().await.problem, Problem::NotTls);
}

#[tokio::test]
async fn clients_that_never_say_a_word_hold_nobody_up() {
    let pki = Pki::new();
    let server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
    }
    // The silent connections are open for twice this time.
    let url = format!("https://localhost:{}", server.address.port());
    dial(&url, Some(pki.client(&["a"])), SOON / 2).await.unwrap();
}

/// Takes 10 s of real time, because virtual time does not work with real sockets.
#[tokio::test]
async fn a_client_that_does_not_begin_http2_after_its_handshake_is_closed() {
    let pki = Pki::new();
    let server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let files = pki.issue(&["a"]);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls_pki_types::pem::PemObject::from_pem_file(pki.ca()).unwrap()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![rustls_pki_types::pem::PemObject::from_pem_file(&files.cert).unwrap()],
            rustls_pki_types::pem::PemObject::from_pem_file(&files.key).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let client = |dripped: &'static [u8]| {
        let connector = connector.clone();
        async move {
            let socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
            let stream = connector.connect("localhost".try_into().unwrap(), socket).await.unwrap();
            let (mut from, mut to) = tokio::io::split(stream);
            let begun = Instant::now();
            let drip = async {
                for byte in dripped.chunks(1) {
                    if to.write_all(byte).await.and(to.flush().await).is_err() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut buffer = Vec::new();
            let closed = tokio::time::timeout(Duration::from_secs(15), from.read_to_end(&mut buffer));
            tokio::select! {
                () = drip => {}
                closed = closed => assert!(closed.is_ok(), "after {:?} it is still open", begun.elapsed()),
            }
            assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
        }
    };
    futures::join!(client(b""), client(b"PRI * HTTP/2.0\r\n"));
}

#[tokio::test]
async fn plaintext_is_for_loopback_only() {
    for (address, allowed) in [
        ("127.0.0.1:1", true),
        ("[::1]:1", true),
        ("[::ffff:127.0.0.1]:1", true),
        ("0.0.0.0:1", false),
        ("10.0.0.1:1", false),
    ] {
        assert_eq!(plaintext_allowed(&address.parse::<SocketAddr>().unwrap()), allowed, "{address}");
    }
    let mut loopback = Server::start(None).await;
    let _open = gimbal_transport::open::<gimbal_session::Services>(loopback.dial(None).await.unwrap()).await.unwrap();
    assert_eq!(loopback.stream().await.peer, Peer::Loopback);

    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let services = ServedServices { discovery: None, inspection: crate::common::inspection(), admin: None };
    let refused = serve(listener, services, ServeOptions::default(), CancellationToken::new()).await.unwrap_err();
    assert!(matches!(refused, LinkError::Plaintext(_)), "{refused}");

    let error = dial("http://192.0.2.1:7443", None, SOON).await.unwrap_err();
    assert!(matches!(error, DialError::Plaintext(_)), "{error}");
}

#[tokio::test]
async fn urls_are_checked() {
    let tls = || Some(Pki::new().client(&["a"]));
    for (url, with_tls, words) in [
        ("https://writer:7443", false, "give --tls-cert"),
        ("http://localhost:7443", true, "write https"),
        ("writer:7443", false, "write https://host:port"),
        ("ftp://writer", false, "no scheme"),
        ("https://writer/x", true, "has a path"),
        ("not a url", false, "is no URL"),
    ] {
        let error = dial(url, with_tls.then(tls).flatten(), SOON).await.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(url), "{error}");
    }
    let error = dial("https://does-not-exist.invalid:1", tls(), SOON).await.unwrap_err();
    assert!(matches!(error, DialError::Unreachable { .. }), "{error}");
    // A listener that accepts and sends nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let error = dial(&url, tls(), Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, DialError::Timeout { .. }), "{error}");
}

#[test]
fn files_are_named_with_what_is_wrong() {
    let pki = Pki::new();
    let good = pki.issue(&["a"]);
    let other = pki.issue(&["b"]);
    let empty = pki.folder.path().join("empty.pem");
    crate::common::write(&empty, "nothing here\n");
    let broken = pki.folder.path().join("broken.pem");
    crate::common::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let missing = pki.folder.path().join("missing.pem");
    let cases = [
        (TlsFiles { cert: missing.clone(), ..good.clone() }, "--tls-cert", "no such file"),
        (TlsFiles { key: missing.clone(), ..good.clone() }, "--tls-key", "no such file"),
        (TlsFiles { ca: missing, ..good.clone() }, "--tls-ca", "no such file"),
        (TlsFiles { cert: empty.clone(), ..good.clone() }, "--tls-cert", "no certificate in it"),
        (TlsFiles { key: empty.clone(), ..good.clone() }, "--tls-key", "no private key in it"),
        (TlsFiles { ca: empty, ..good.clone() }, "--tls-ca", "no certificate in it"),
        (TlsFiles { ca: broken.clone(), ..good.clone() }, "--tls-ca", "broken.pem"),
        (TlsFiles { cert: broken, ..good.clone() }, "--tls-cert", "broken.pem"),
        (TlsFiles { key: other.key, ..good.clone() }, "--tls-key", "not the key of the certificate"),
    ];
    for (files, flag, problem) in cases {
        let line = TlsCredentials::load(files).map(|_| ()).unwrap_err().to_string();
        assert!(line.starts_with(flag) && line.contains(problem) && !line.contains('\n'), "{line}");
    }
    assert!(TlsCredentials::load(good).is_ok());
}
