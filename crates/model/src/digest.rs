//! Digests that both ends of a stream keep up to date as entries change, to find out in O(1) bytes that they agree.
//!
//! A digest is the sum, modulo 2^128, of the hashes of its parts, so a part is added or subtracted without the others.
//! It reveals a difference between an honest agent and its writer after a loss; it does not protect against an agent
//! that lies to its own disadvantage.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;

use crate::canonical::Canonical;
use crate::{Endpoint, Header, PortSet, Service, SourceKey, TargetKey};

/// The sum of the hashes of a set of parts. `Digest::default()` is that of the empty set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(u128);

impl Digest {
    /// Returns the form used in messages: 16 bytes, big endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Reads 16 bytes, big endian.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl Add for Digest {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for Digest {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TargetKey {
    /// Returns the digest of the name, without what the objects are.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let key = SourceKey::new(self.namespace.clone(), self.name.clone());
        Digest(Canonical::new(3, &key).finish())
    }
}

/// Returns the digest of a Service's header.
pub(crate) fn header_digest(key: &SourceKey, header: &Header) -> Digest {
    let mut form = Canonical::new(1, key);
    form.header(header);
    Digest(form.finish())
}

/// Returns the digest of one endpoint of a Service.
pub(crate) fn endpoint_digest(key: &SourceKey, ports: &PortSet, endpoint: &Endpoint) -> Digest {
    let mut form = Canonical::new(2, key);
    form.ports(ports);
    form.endpoint(endpoint);
    Digest(form.finish())
}

/// Digests and numbers of entries, per namespace and in total. Namespaces without entries are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DigestTree {
    root: Digest,
    count: u64,
    namespaces: BTreeMap<Arc<str>, (u64, Digest)>,
}

impl DigestTree {
    /// Returns the digest of all entries.
    #[must_use]
    pub fn root(&self) -> Digest {
        self.root
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns number of entries and digest of each namespace, in order.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, u64, Digest)> {
        self.namespaces.iter().map(|(namespace, (count, digest))| (namespace, *count, *digest))
    }

    /// Returns number of entries and digest of a namespace; zero and the empty set's digest if it has none.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> (u64, Digest) {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }

    /// Adds an entry of this namespace, which must not have been added yet.
    pub fn add(&mut self, namespace: &Arc<str>, digest: Digest) {
        self.root = self.root + digest;
        self.count += 1;
        let (count, sum) = self.namespaces.entry(namespace.clone()).or_default();
        *count += 1;
        *sum = *sum + digest;
    }

    /// Subtracts an entry of this namespace that was added with this digest.
    pub fn subtract(&mut self, namespace: &Arc<str>, digest: Digest) {
        self.root = self.root - digest;
        self.count = self.count.saturating_sub(1);
        if let Some((count, sum)) = self.namespaces.get_mut(namespace) {
            *count = count.saturating_sub(1);
            *sum = *sum - digest;
            if *count == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Returns the tree of a set of Services.
    pub fn of<'a>(services: impl IntoIterator<Item = (&'a SourceKey, &'a Service)>) -> Self {
        let mut tree = Self::default();
        for (key, service) in services {
            tree.add(&key.namespace, service.digest(key));
        }
        tree
    }
}
