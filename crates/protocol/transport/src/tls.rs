//! Certificates from files, with errors that name the flag and the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};

use crate::Certificate;

/// The three files of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Own certificate, and the intermediate ones after it.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// What signs the other end's certificate. More than one while authorities change.
    pub ca: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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

/// The content of the files, as they were read.
pub(crate) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    ca: Vec<u8>,
}

/// What the files amount to.
pub(crate) struct Loaded {
    /// Our own leaf.
    pub(crate) own: Certificate,
    /// For clients: who we are, and which servers we trust.
    pub(crate) client: Arc<ClientConfig>,
    /// For servers: which clients we trust.
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    pair: Arc<SingleCertAndKey>,
}

impl Contents {
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: read("--tls-cert", &files.cert)?,
            key: read("--tls-key", &files.key)?,
            ca: read("--tls-ca", &files.ca)?,
        })
    }

    /// Equal for equal content.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for content in [&self.cert, &self.key, &self.ca] {
            hash.update(Sha256::digest(content));
        }
        hash.finalize().into()
    }

    /// `files` are only named.
    pub(crate) fn load(&self, files: &TlsFiles) -> Result<Loaded, TlsError> {
        let certs = certificates("--tls-cert", &files.cert, &self.cert)?;
        let own = certs.first().and_then(Certificate::read);
        let own = own.ok_or_else(|| files.cert_error("its first certificate cannot be read".into()))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| file_error("--tls-key", &files.key, pem_problem(&error, "no private key in it")))?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates("--tls-ca", &files.ca, &self.ca)? {
            roots.add(certificate).map_err(|error| files.ca_error(error.to_string()))?;
        }
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider())
            // A stranger need not learn the names of our authorities.
            .clear_root_hint_subjects()
            .build()
            .map_err(|error| files.ca_error(error.to_string()))?;
        let pair = CertifiedKey::from_der(certs.clone(), key.clone_key(), &provider())
            .map_err(|error| files.pair_error(&error))?;
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| files.cert_error(error.to_string()))?
            .with_root_certificates(roots)
            .with_client_auth_cert(certs, key)
            .map_err(|error| files.pair_error(&error))?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        client.resumption = Resumption::disabled();
        Ok(Loaded { own, client: Arc::new(client), clients, pair: Arc::new(pair.into()) })
    }
}

impl std::fmt::Debug for Loaded {
    /// Without the key, whatever rustls would print of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Loaded {
    /// A server under our own certificate, whose clients `verifier` judges.
    pub(crate) fn server(&self, verifier: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.pair.clone());
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would get in without its certificate being looked at again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// Named, so that no order of initialisation in the process matters.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
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

fn certificates(flag: &'static str, path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(content)
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
