//! A Keystone behind TLS, whose catalog has endpoints without TLS.

use std::io::Write;
use std::sync::{Arc, Mutex};

use gimbal_discoverer::Known as _;
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
use gimbal_testkit::{Pair, Pki};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing_subscriber::fmt::MakeWriter;

use super::Run;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Terminates TLS in front of a plaintext server. Returns its port.
async fn terminate(pair: &Pair, behind: String) -> u16 {
    let certificates = CertificateDer::pem_file_iter(&pair.cert).unwrap().collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(certificates, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut plain = TcpStream::connect(behind).await.unwrap();
                copy_bidirectional(&mut stream, &mut plain).await.ok();
            });
        }
    });
    port
}

/// Every list carries a token, so the warning is logged before the first list.
#[tokio::test]
async fn it_is_told_before_a_token_goes_there() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(log.clone()).finish());
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::create(dir.path().join("pki")).unwrap();
    let fake = FakeOpenStack::start().await.unwrap();
    let behind = fake.url().trim_start_matches("http://").trim_end_matches("/v3").to_owned();
    let port = terminate(&pki.server("keystone").unwrap(), behind).await;
    let url = format!("https://localhost:{port}/v3");
    let authority = std::fs::read_to_string(pki.ca()).unwrap();
    let keys = [
        ("keystoneUrl", &*url),
        ("username", "fake"),
        ("password", "fake-secret"),
        ("certificateAuthorityData", &authority),
    ];
    fake.fail(Fault::on("/lbaas/loadbalancers").status(500));
    let mut run = Run::with(fake, |_| {}, &keys, &[]);
    run.until("a list has failed", |source, _| source.state.trouble().is_some()).await;
    let told = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(told.contains("its catalog sends tokens on without"), "{told}");
}
