//! Certificates from files, with errors that name the flag and the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The three files of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Own certificate, and the intermediate ones after it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// What signs the other end's certificate.
    pub ca: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read, or is not what it should be.
    #[error("{flag} {}: {problem}", path.display())]
    File {
        /// The flag that named the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Each file is good by itself.
    #[error("--tls-key {}: is not the key of the certificate in --tls-cert {}", key.display(), cert.display())]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
    },
}

/// What a client needs to be known and to know the server.
#[derive(Debug, Clone)]
pub struct ClientTls(pub(crate) Arc<ClientConfig>);

/// A server that takes only clients with a certificate of the CA.
///
/// # Errors
/// When a file is missing or unusable.
pub fn server_tls(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let (provider, identity) = (provider(), Identity::read(files)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(files)?), provider.clone())
        .build()
        .map_err(|error| files.ca_error(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| files.cert_error(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.certs, identity.key)
        .map_err(|error| files.pair_error(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// A client that takes only a server with a certificate of the CA for the name that was dialled.
///
/// # Errors
/// When a file is missing or unusable.
pub fn client_tls(files: &TlsFiles) -> Result<ClientTls, TlsError> {
    let identity = Identity::read(files)?;
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| files.cert_error(error.to_string()))?
        .with_root_certificates(roots(files)?)
        .with_client_auth_cert(identity.certs, identity.key)
        .map_err(|error| files.pair_error(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(ClientTls(Arc::new(config)))
}

/// Named, so that no order of initialisation in the process matters.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

struct Identity {
    certs: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let certs = certificates("--tls-cert", &files.cert)?;
        let flag = "--tls-key";
        let key = PrivateKeyDer::from_pem_slice(&read(flag, &files.key)?)
            .map_err(|error| file_error(flag, &files.key, pem_problem(&error, "no private key in it")))?;
        Ok(Self { certs, key })
    }
}

impl TlsFiles {
    fn cert_error(&self, problem: String) -> TlsError {
        file_error("--tls-cert", &self.cert, problem)
    }

    fn ca_error(&self, problem: String) -> TlsError {
        file_error("--tls-ca", &self.ca, problem)
    }

    fn pair_error(&self, error: &rustls::Error) -> TlsError {
        match error {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { key: self.key.clone(), cert: self.cert.clone() },
            rustls::Error::InvalidCertificate(_) => self.cert_error(error.to_string()),
            _ => file_error("--tls-key", &self.key, error.to_string()),
        }
    }
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("--tls-ca", &files.ca)? {
        roots.add(certificate).map_err(|error| files.ca_error(error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(flag, path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| file_error(flag, path, pem_problem(&error, "no certificate in it")))?;
    if certificates.is_empty() {
        return Err(file_error(flag, path, "no certificate in it"));
    }
    Ok(certificates)
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "no permission to read it".to_owned(),
            _ => error.to_string(),
        };
        file_error(flag, path, problem)
    })
}

fn pem_problem(error: &pem::Error, nothing: &str) -> String {
    match error {
        pem::Error::NoItemsFound => nothing.to_owned(),
        error => format!("not valid PEM: {error}"),
    }
}

fn file_error(flag: &'static str, path: &Path, problem: impl Into<String>) -> TlsError {
    TlsError::File { flag, path: path.to_owned(), problem: problem.into() }
}
