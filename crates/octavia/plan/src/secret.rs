//! Secrets of the key manager. They have no tags, and their name is what their owner is found by.

use std::fmt;
use std::sync::Arc;

use gimbal_kuryr_model::CertificateHash;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::mark::Mark;
use crate::seen::text;

/// The first word of a name.
const OURS: &str = "gimbal";
/// The longest name that the key manager takes.
const LONGEST: usize = 255;

/// What separates a Secret that was cut from this number of bytes of its hash. It is in no name of Kubernetes.
const CUT: char = '~';
const HASHED: usize = 8;

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SecretName<'a> {
    cluster: &'a str,
    cluster_uid: &'a str,
    owner: &'a str,
    hash: CertificateHash,
    /// The namespace of the Secret; unset: it is cut.
    namespace: Option<&'a str>,
}

impl<'a> SecretName<'a> {
    fn read(name: &'a str) -> Option<Self> {
        let mut words = name.splitn(6, '/');
        let mut next = || words.next().filter(|word| !word.is_empty());
        next().filter(|first| *first == OURS)?;
        let (cluster, cluster_uid, owner) = (next()?, next()?, next()?);
        let hash = next()?.parse().ok()?;
        let namespace = next().and_then(|secret| Some(secret.split_once('/')?.0));
        Some(Self { cluster, cluster_uid, owner, hash, namespace })
    }
}

/// Returns the owner that the name of a secret names; `None` unless it is one of this cluster.
#[must_use]
pub fn owner_of_secret<'a>(name: &'a str, cluster_uid: &str, cluster: &str) -> Option<&'a str> {
    let read = SecretName::read(name)?;
    (read.cluster_uid == cluster_uid && read.cluster == cluster).then_some(read.owner)
}

impl Mark {
    /// Returns the name of the secret that holds a certificate. The Secret of the cluster is cut where it is long, and a hash of it keeps
    /// it apart from others that begin as it does.
    pub(crate) fn secret_name(&self, secret: &str, hash: CertificateHash) -> String {
        let Self { cluster_uid, cluster, owner } = self;
        let mut name = format!("{OURS}/{cluster}/{cluster_uid}/{owner}/{hash}/{secret}");
        if name.len() > LONGEST {
            let hash: String = Sha256::digest(secret).iter().take(HASHED).map(|byte| format!("{byte:02x}")).collect();
            name.truncate(name.floor_char_boundary(LONGEST - hash.len() - 1));
            name.push(CUT);
            name.push_str(&hash);
        }
        name
    }
}

/// A secret that holds a certificate of an owner.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenSecret {
    /// The ID.
    pub id: String,
    /// What listeners refer to it by.
    pub reference: String,
    /// The name, which is the mark.
    pub name: String,
    /// When it was made; empty: by the answer to its creation, which does not say so.
    pub created_at: String,
    /// The project that it was found in.
    pub project: String,
}

impl SeenSecret {
    /// Reads a row of a list; `None` for a secret that is not the owner's.
    #[must_use]
    pub fn read(row: &Value, project: &str, mark: &Mark) -> Option<Self> {
        let name = text(row, "name");
        if owner_of_secret(&name, &mark.cluster_uid, &mark.cluster)? != &*mark.owner {
            return None;
        }
        let reference = text(row, "secret_ref");
        let id = id_in(&reference)?.to_owned();
        Some(Self { id, reference, name, created_at: text(row, "created"), project: project.to_owned() })
    }

    /// Returns the hash of the certificate.
    #[must_use]
    pub fn hash(&self) -> Option<CertificateHash> {
        SecretName::read(&self.name).map(|name| name.hash)
    }

    /// Returns the namespace of the Secret; `None` where its name is cut before its end.
    pub(crate) fn namespace(&self) -> Option<&str> {
        SecretName::read(&self.name)?.namespace
    }
}

/// Returns the ID of the secret that a reference leads to.
#[must_use]
pub fn id_in(reference: &str) -> Option<&str> {
    reference.trim_end_matches('/').rsplit_once("/secrets/").map(|(_, id)| id).filter(|id| !id.is_empty())
}

/// A certificate with its key in the form in which it is stored. It does not show itself, and is wiped from memory when the last of its
/// copies is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretPayload(Arc<Zeroizing<Vec<u8>>>);

impl SecretPayload {
    /// Returns a payload of these bytes.
    #[must_use]
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(Arc::new(bytes))
    }

    /// Returns the bytes, for whoever sends them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretPayload(..)")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mark(owner: &str) -> Mark {
        Mark { cluster_uid: "c-1".into(), cluster: "prod1".into(), owner: owner.into() }
    }

    #[test]
    fn a_name_says_whose_it_is_and_which_certificate_it_holds() {
        let hash = CertificateHash::from_bytes([7; 32]);
        let name = mark("r-1").secret_name("shop/tls", hash);
        assert_eq!(name, format!("gimbal/prod1/c-1/r-1/{hash}/shop/tls"));
        let row = json!({"name": name, "secret_ref": "http://b/v1/secrets/s-1", "created": "2026-01-01T00:00:00"});
        let seen = SeenSecret::read(&row, "p1", &mark("r-1")).unwrap();
        assert_eq!((seen.id.as_str(), seen.hash(), seen.project.as_str()), ("s-1", Some(hash), "p1"));
        assert_eq!(SeenSecret::read(&row, "p1", &mark("r-2")), None);
        assert_eq!(owner_of_secret(&name, "c-1", "prod1"), Some("r-1"));
        assert_eq!((owner_of_secret(&name, "c-2", "prod1"), owner_of_secret(&name, "c-1", "prod2")), (None, None));
        for other in ["", "gimbal", "gimbal/prod1/c-1/r-1", "gimbal/prod1/c-1/r-1/00/shop/tls", "other/prod1/c-1/r-1"] {
            assert_eq!(owner_of_secret(other, "c-1", "prod1"), None, "{other}");
        }
    }

    #[test]
    fn a_long_name_is_cut_after_all_that_counts() {
        let hash = CertificateHash::from_bytes([7; 32]);
        let mark = mark("0d7c7f4a-5b0e-4a8e-9d41-3f1c2b3a4d5e");
        let name = mark.secret_name(&"\u{e9}".repeat(200), hash);
        assert!((254..=255).contains(&name.len()), "{}", name.len());
        assert_eq!(SecretName::read(&name).map(|name| name.hash), Some(hash));
        let long = |end: &str| mark.secret_name(&format!("shop/{}-{end}", "x".repeat(240)), hash);
        assert_ne!(long("one"), long("two"), "each is another Secret");
        assert_eq!(SeenSecret { name: long("one"), ..SeenSecret::default() }.namespace(), Some("shop"));
    }

    #[test]
    fn a_payload_does_not_show_itself() {
        let payload = SecretPayload::new(Zeroizing::new(b"MARKER".to_vec()));
        assert!(!format!("{payload:?}").contains("MARKER") && !format!("{payload:?}").contains("77"));
    }
}
