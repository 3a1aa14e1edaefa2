//! What is known of Secrets with certificates. A certificate and its key are not among it: they are read, and dropped at once.

use std::collections::BTreeMap;

use gimbal_kubernetes_join::ListProgress;
use gimbal_kuryr_model::{CertificateHash, Text};
use gimbal_model::SourceKey;

/// What is known of a certificate that can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServableCertificate {
    /// Hash of the Secret's content.
    pub hash: CertificateHash,
    /// The names that it is for, in lower case, each once; one may begin with `*.`.
    pub names: Box<[Text]>,
}

/// Why the certificate of a Secret cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateProblem {
    /// There is nothing in it.
    #[error("it lacks tls.crt or tls.key")]
    Incomplete,
    /// It is too large to be sent.
    #[error("tls.crt and tls.key take more than {most} bytes", most = CertificateProblem::MOST_BYTES)]
    TooLarge,
    /// The certificates cannot be read.
    #[error("tls.crt is not a chain of certificates in PEM")]
    Chain,
    /// The key needs a password.
    #[error("the key in tls.key is encrypted")]
    EncryptedKey,
    /// The key cannot be read.
    #[error("tls.key is not a private key in PEM, RSA or of an elliptic curve that TLS knows")]
    Key,
    /// The key is of another kind.
    #[error("its key is neither RSA nor EC")]
    KeyKind,
    /// A name in it could be taken for another one.
    #[error("a name in it is not one that a host can have: haproxy may take it for another host's")]
    Name,
    /// There are too many names in it.
    #[error("there are more than {most} names in it", most = CertificateProblem::MOST_NAMES)]
    TooManyNames,
    /// A load balancer may refuse to begin with it, and then serves nothing.
    #[error(
        "it is too weak: it needs an RSA key of 2048 bits or more or one of P-256, P-384 or P-521, and a signature with SHA-256 or more"
    )]
    Weak,
    /// The key is another one's.
    #[error("tls.key is not the key of the first certificate in tls.crt")]
    OtherKey,
}

impl CertificateProblem {
    /// Bytes that `tls.crt` and `tls.key` may have together. Barbican takes a secret whose base64 has at most 20,000 bytes, unless it is
    /// configured for others.
    pub const MOST_BYTES: usize = 14_000;
    /// Names that a certificate may have.
    pub const MOST_NAMES: usize = 100;
}

/// What a Secret has: a certificate that can be served, or the reason why it cannot be.
pub type SecretState = Result<ServableCertificate, CertificateProblem>;

/// A Secret as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSecret {
    /// Its namespace and name.
    pub key: SourceKey,
    /// What it has.
    pub state: SecretState,
}

/// The Secrets of a cluster that have certificates. The outcome depends only on the last state of each.
#[derive(Debug, Default)]
pub struct SecretIndex {
    secrets: BTreeMap<SourceKey, SecretState>,
    list: ListProgress<SourceKey>,
    is_readable: bool,
}

impl SecretIndex {
    /// Adds a Secret or replaces it, and returns whether that changed anything.
    pub fn apply(&mut self, KnownSecret { key, state }: KnownSecret) -> bool {
        self.list.saw(&key);
        if self.secrets.get(&key) == Some(&state) {
            return false;
        }
        self.secrets.insert(key, state);
        true
    }

    /// Removes a Secret, and returns whether it was there.
    pub fn delete(&mut self, key: &SourceKey) -> bool {
        self.secrets.remove(key).is_some()
    }

    /// Begins a list. Apply its objects as any others. To start over after a failure, call this again.
    pub fn begin_list(&mut self) {
        self.list.begin();
    }

    /// Ends a complete list: removes the Secrets that were not applied since [`begin_list`](Self::begin_list), and returns their keys.
    pub fn end_list(&mut self) -> Vec<SourceKey> {
        let listed = self.list.end();
        self.is_readable = true;
        let gone: Vec<SourceKey> = self.secrets.keys().filter(|key| !listed.contains(key)).cloned().collect();
        gone.iter().for_each(|key| drop(self.secrets.remove(key)));
        gone
    }

    /// Takes in that Secrets cannot be read: one that is not known may be there.
    pub fn cannot_be_read(&mut self) {
        self.is_readable = false;
    }

    /// Whether one that is not known is not there.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Returns what a Secret has.
    #[must_use]
    pub fn get(&self, key: &SourceKey) -> Option<&SecretState> {
        self.secrets.get(key)
    }

    /// The Secrets whose content has this hash.
    pub fn with_hash(&self, hash: CertificateHash) -> impl Iterator<Item = &SourceKey> {
        let has = move |state: &SecretState| state.as_ref().is_ok_and(|certificate| certificate.hash == hash);
        self.secrets.iter().filter(move |(_, state)| has(state)).map(|(key, _)| key)
    }

    /// Number of Secrets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Whether there is no Secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }
}
