//! TLS in front of a server that speaks plaintext.

use std::sync::Arc;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::Pair;

/// Terminates TLS in front of the server at `behind` (an `http://` URL, whose path does not matter), until the runtime ends.
/// Returns its port.
///
/// # Errors
/// The certificate cannot be used, or no port is left.
pub async fn terminate_tls(pair: &Pair, behind: &str) -> anyhow::Result<u16> {
    let certificates = CertificateDer::pem_file_iter(&pair.cert)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&pair.key)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let acceptor = TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(certificates, key)?));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let behind = behind.strip_prefix("http://").context("the server speaks TLS itself")?;
    let behind = behind.split('/').next().unwrap_or_default().to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                // A client that does not trust the certificate hangs up, as some tests expect.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let Ok(mut plain) = TcpStream::connect(behind).await else { return };
                copy_bidirectional(&mut stream, &mut plain).await.ok();
            });
        }
    });
    Ok(port)
}
