//! Which certificates a router may have.
//!
//! The writer asks for a certificate by its hash alone, and stores it for each router that wants it. Whoever may make a KuryrL7Router may
//! write the hash of another namespace's certificate into it, so that is left out of what is offered.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kuryr_crd::{KlrTls, KuryrL7Router};
use gimbal_kuryr_model::{CertificateHash, CertificateWish, DesiredEntry, Text};
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::RouterController;

fn hash_of(tls: &KlrTls) -> Option<CertificateHash> {
    tls.content_hash.as_deref()?.parse().ok()
}

fn hashes_in(router: &KuryrL7Router) -> BTreeSet<CertificateHash> {
    router.spec.tls.iter().filter_map(hash_of).collect()
}

/// Returns the certificates that an entry wants.
pub(crate) fn wishes_in(entry: &DesiredEntry) -> impl Iterator<Item = &CertificateWish> {
    let routing = match entry {
        DesiredEntry::LoadBalancer(wanted) => wanted.header.routing.as_deref(),
        DesiredEntry::Deleting { .. } => None,
    };
    routing.into_iter().flat_map(|routing| &routing.certificates)
}

/// The certificates that a router may not have.
pub(crate) struct ForeignCertificates {
    /// The router's namespace; unset: it may have Secrets of all.
    namespace: Option<Text>,
    hashes: BTreeSet<CertificateHash>,
}

impl ForeignCertificates {
    fn has(&self, tls: &KlrTls) -> bool {
        let is_elsewhere = |namespace: &Text| {
            let secret = tls.secret_name.as_deref().and_then(|secret| secret.split_once('/'));
            secret.is_some_and(|(of, _)| *of != **namespace)
        };
        self.namespace.as_ref().is_some_and(is_elsewhere)
            || hash_of(tls).is_some_and(|hash| self.hashes.contains(&hash))
    }

    /// Returns a router without them.
    pub(crate) fn left_out_of(&self, router: Arc<KuryrL7Router>) -> Arc<KuryrL7Router> {
        if !router.spec.tls.iter().any(|tls| self.has(tls)) {
            return router;
        }
        let mut own = KuryrL7Router::clone(&router);
        own.spec.tls.retain(|tls| !self.has(tls));
        Arc::new(own)
    }
}

impl<T> RouterController<T> {
    /// Returns the certificates in a router's spec that it may not have: the Secret that they name is another namespace's, or a Secret
    /// there has what they are, or the shared router is made with it, and no Secret of its own namespace had it since this process
    /// began. `None` while Secrets have not been listed: nothing is taken from a router because they are not known yet.
    ///
    /// One that no Secret has belongs to no namespace. Its content cannot be had, but it may be served already: its Secret was deleted,
    /// or broken.
    pub(crate) fn foreign_certificates(&mut self, key: &SourceKey) -> Option<ForeignCertificates> {
        let is_shared = *key == self.settings.ingresses.shared;
        let named = if is_shared { BTreeSet::new() } else { self.certificates_of(key) };
        if named.is_empty() {
            return Some(ForeignCertificates { namespace: None, hashes: named });
        }
        if !self.has_asked_for_secrets() {
            return None;
        }
        let is_own = |hash: &CertificateHash| self.secrets.with_hash(*hash).any(|of| of.namespace == key.namespace);
        let own: Vec<CertificateHash> = named.iter().filter(|hash| is_own(hash)).copied().collect();
        let known = &mut self.routers.get_mut(key)?.own_certificates;
        known.retain(|hash| named.contains(hash));
        known.extend(own);
        let hashes = named.into_iter().filter(|hash| self.is_foreign(key, *hash)).collect();
        Some(ForeignCertificates { namespace: Some(key.namespace.clone()), hashes })
    }

    /// Whether a certificate is another namespace's than that of a router.
    fn is_foreign(&self, key: &SourceKey, hash: CertificateHash) -> bool {
        let was_own = self.routers.get(key).is_some_and(|item| item.own_certificates.contains(&hash));
        let is_anothers = || {
            let mut secrets = self.secrets.with_hash(hash).peekable();
            // While Secrets cannot be read, it may be its own all the same, and no router gets what they have.
            let is_of_shared = || self.secrets.is_readable() && self.is_anothers_in_shared(key, hash);
            let is_known = secrets.peek().is_some();
            (is_known || is_of_shared()) && secrets.all(|of| of.namespace != key.namespace)
        };
        *key != self.settings.ingresses.shared && !was_own && is_anothers()
    }

    /// Whether the shared router is made with a certificate, and not for a Secret of a router's namespace.
    fn is_anothers_in_shared(&self, key: &SourceKey, hash: CertificateHash) -> bool {
        let shared = self.routers.get(&self.settings.ingresses.shared).and_then(|item| item.kept.object());
        let all = shared.into_iter().flat_map(|router| &router.spec.tls).filter(|tls| hash_of(tls) == Some(hash));
        let mut of = all.map(|tls| tls.secret_name.as_deref().and_then(|secret| secret.split_once('/'))).peekable();
        of.peek().is_some() && of.all(|secret| secret.is_none_or(|(namespace, _)| *namespace != *key.namespace))
    }

    fn certificates_of(&self, key: &SourceKey) -> BTreeSet<CertificateHash> {
        let router = self.routers.get(key).and_then(|item| item.kept.object());
        router.map(|router| hashes_in(router)).unwrap_or_default()
    }

    /// A Secret has a certificate that it did not have: a router of another namespace may not have it any more.
    pub(crate) fn certificate_appeared(&mut self, hash: Option<CertificateHash>) {
        let Some(hash) = hash else { return };
        let has = |router: &Arc<KuryrL7Router>| router.spec.tls.iter().any(|tls| hash_of(tls) == Some(hash));
        let those = self.routers.iter().filter(|(_, item)| item.kept.object().is_some_and(has));
        self.dirty.extend(those.map(|(key, _)| key.clone()));
    }

    /// Whether a router is offered with a certificate that has become another namespace's.
    pub(crate) fn has_intruder(&self, hash: CertificateHash) -> bool {
        self.routers.iter().any(|(key, item)| {
            let offered = item.offer.offered.as_ref();
            let has_it = |entry: &DesiredEntry| wishes_in(entry).any(|wish| wish.hash == hash);
            self.is_foreign(key, hash) && offered.is_some_and(|entry| has_it(&entry.entry()))
        })
    }
}
