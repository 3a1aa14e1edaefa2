//! Loads certificates from files. Errors name the flag and the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use sha2::{Digest as _, Sha256};

use crate::Certificate;
use crate::dial::certificate_problem;

/// The TLS files of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our certificate, followed by the intermediate ones.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities that sign the peer's certificate. There are several while authorities are replaced.
    pub ca: PathBuf,
}

/// Why the files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read or parsed.
    #[error("{flag} {}: {problem}", path.display())]
    File {
        /// The flag that named the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        problem: String,
    },
    /// The certificate has expired, and what is in use has not.
    #[error("--tls-cert {}: it expired at {not_after}", cert.display())]
    Expired {
        /// The file of the certificate.
        cert: PathBuf,
        /// When it expired.
        not_after: Timestamp,
    },
    /// The private key does not belong to the certificate, although each file is valid by itself.
    #[error("--tls-key {}: is not the key of the certificate in --tls-cert {}", key.display(), cert.display())]
    Mismatch {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        cert: PathBuf,
    },
    /// No peer that trusts the authorities in `ca` would accept the certificate.
    #[error("--tls-cert {}: {reason} (--tls-ca {})", cert.display(), ca.display())]
    Unverified {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the authorities.
        ca: PathBuf,
        /// What is wrong with the certificate.
        reason: String,
    },
}

/// Verifies our certificate as a server does that trusts the authorities in `files`, now: signatures, times and what it is for.
///
/// # Errors
/// Returns [`TlsError::Unverified`] if that server would refuse it, and other errors if a file is missing or unusable.
pub fn client_chain(files: &TlsFiles) -> Result<(), TlsError> {
    let contents = FileContents::read(files)?;
    let loaded = contents.load(files)?;
    let chain = certificates("--tls-cert", &files.cert, &contents.cert)?;
    let Some((own, between)) = chain.split_first() else { return Ok(()) };
    let verified = loaded.clients.verify_client_cert(own, between, UnixTime::now());
    verified.map(drop).map_err(|error| TlsError::Unverified {
        cert: files.cert.clone(),
        ca: files.ca.clone(),
        reason: match &error {
            rustls::Error::InvalidCertificate(reason) => certificate_problem(reason),
            other => other.to_string(),
        },
    })
}

/// The raw content of the files.
pub(crate) struct FileContents {
    cert: Vec<u8>,
    key: Vec<u8>,
    ca: Vec<u8>,
}

/// The TLS configuration loaded from the files.
pub(crate) struct Loaded {
    /// Our own leaf certificate.
    pub(crate) own: Certificate,
    /// The configuration of a client: our certificate, and the authorities of servers.
    pub(crate) client: Arc<ClientConfig>,
    /// The verifier of client certificates of a server.
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    pair: Arc<SingleCertAndKey>,
}

impl FileContents {
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: read("--tls-cert", &files.cert)?,
            key: read("--tls-key", &files.key)?,
            ca: read("--tls-ca", &files.ca)?,
        })
    }

    /// Returns a digest of the content of all files.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for content in [&self.cert, &self.key, &self.ca] {
            hash.update(Sha256::digest(content));
        }
        hash.finalize().into()
    }

    /// Parses the content. `files` are used in errors only.
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
            // Unknown clients do not learn the names of our authorities.
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
    /// Omits the private key and the TLS configurations.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Loaded {
    /// Returns a server configuration with our certificate, whose clients `verifier` checks.
    pub(crate) fn server(&self, verifier: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(self.pair.clone());
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would skip the verification of its certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The provider is passed explicitly, so that the process-wide default does not matter.
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
