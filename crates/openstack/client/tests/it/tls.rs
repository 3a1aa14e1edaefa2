//! Which certificates are trusted.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::sync::Arc;

use crate::common::{credentials, options};
use gimbal_openstack_client::{Cloud, Error};
use gimbal_testkit::fake_openstack::FakeOpenStack;
use gimbal_testkit::{Pair, Pki, San};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Terminates TLS in front of a plaintext server. Returns its port.
async fn terminate(pair: &Pair, behind: &str) -> u16 {
    let certificates = CertificateDer::pem_file_iter(&pair.cert).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let acceptor =
        TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(certificates, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = behind.trim_start_matches("http://").trim_end_matches("/v3").to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate hangs up, as some tests expect.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut plain = TcpStream::connect(behind).await.unwrap();
                copy_bidirectional(&mut stream, &mut plain).await.ok();
            });
        }
    });
    port
}

#[tokio::test]
async fn only_the_authority_that_was_named_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeOpenStack::start().await.unwrap();
    let ours = Pki::create(dir.path().join("ours")).unwrap();
    let theirs = Pki::create(dir.path().join("theirs")).unwrap();
    let port = terminate(&ours.server("keystone").unwrap(), &fake.url()).await;
    let elsewhere = ours.issue("elsewhere", &[San::Dns("keystone.example")]).unwrap();
    let other_name = terminate(&elsewhere, &fake.url()).await;
    let (ours, theirs) = (ours.ca().display().to_string(), theirs.ca().display().to_string());
    for (port, authority, good) in [
        (port, ours.as_str(), true),
        (port, theirs.as_str(), false),
        (port, "", false),
        (other_name, ours.as_str(), false),
    ] {
        let credentials = credentials(&format!("https://localhost:{port}"), &[("OS_CACERT", authority)]);
        let result = Cloud::connect(credentials, options()).await;
        match (good, result) {
            (true, result) => drop(result.unwrap()),
            (false, Err(Error::Tls { message, .. })) => assert!(message.contains("certificate"), "{message}"),
            (false, other) => panic!("{port} {authority}: {other:?}"),
        }
    }
}
