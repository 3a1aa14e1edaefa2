//! Processes, and certificates that peers accept.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gimbal_testkit::process::{free_port, wait_url};
use gimbal_testkit::{Pki, Process, San, eventually};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};

fn sh(dir: &Path, script: &str) -> Process {
    Process::start("sh", Path::new("sh"), &["-c".to_owned(), script.to_owned()], &dir.join("log")).unwrap()
}

#[tokio::test]
async fn ends_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let limit = Duration::from_secs(10);
    let mut polite = sh(dir.path(), "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done");
    eventually("it is up", limit, async || if polite.log().contains("up") { Ok(()) } else { Err(polite.log()) })
        .await
        .unwrap();
    assert!(polite.wait_exit(Duration::from_millis(30)).await.is_err());
    assert_eq!(polite.terminate(limit).await.unwrap().code, Some(3));
    assert_eq!(polite.log(), "up\nbye\n");
    let mut killed = sh(dir.path(), "sleep 600");
    killed.kill().unwrap();
    assert_eq!(killed.wait_exit(limit).await.unwrap().code, None);
}

#[tokio::test]
async fn a_process_that_is_dropped_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let process = sh(dir.path(), "sleep 600");
    let id = process.id().to_string();
    let alive = || Command::new("kill").args(["-0", &id]).output().unwrap().status.success();
    assert!(alive());
    drop(process);
    assert!(!alive());
}

#[test]
fn children_outlive_the_thread_that_asked_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = std::thread::scope(|scope| scope.spawn(|| sh(dir.path(), "sleep 600")).join().unwrap());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(process.exited().unwrap(), None);
}

#[tokio::test]
async fn urls_are_waited_for() {
    let port = free_port().unwrap();
    let url = format!("http://127.0.0.1:{port}/");
    let error = wait_url(&url, Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(error.starts_with(&url), "{error}");
}

#[tokio::test]
async fn a_process_that_ends_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = sh(dir.path(), "echo no config; exit 2");
    let error = process.answers("http://127.0.0.1:1/", Duration::from_secs(60)).await.unwrap_err().to_string();
    assert_eq!(error, "sh ended with exit status: 2; the end of its log:\nno config");
}

#[tokio::test]
async fn certificates_make_mutual_tls() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Pki::create(dir.path().join("a")).unwrap(), Pki::create(dir.path().join("b")).unwrap());
    let server = ours.server("server").unwrap();
    assert!(handshake(&ours, &server, &ours.backend("node02").unwrap()).await);
    assert!(!handshake(&ours, &server, &theirs.backend("node02").unwrap()).await);
    let expired = ours.issue_expired("late", &[San::Uri("spiffe://gimbal.example/backend/late")]).unwrap();
    assert!(!handshake(&ours, &server, &expired).await);
}

/// Whether a server that trusts `pki` accepts `client` and answers it.
async fn handshake(pki: &Pki, server: &gimbal_testkit::Pair, client: &gimbal_testkit::Pair) -> bool {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = |path: &Path| vec![CertificateDer::from_pem_file(path).unwrap()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain(pki.ca()).remove(0)).unwrap();
    let roots = Arc::new(roots);
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(chain(&server.cert), PrivateKeyDer::from_pem_file(&server.key).unwrap())
        .unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain(&client.cert), PrivateKeyDer::from_pem_file(&client.key).unwrap())
        .unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let connect =
        tokio_rustls::TlsConnector::from(Arc::new(client)).connect(ServerName::try_from("localhost").unwrap(), near);
    let accept = tokio_rustls::TlsAcceptor::from(Arc::new(server)).accept(far);
    let (connected, accepted) = tokio::join!(connect, accept);
    connected.is_ok() && accepted.is_ok()
}
