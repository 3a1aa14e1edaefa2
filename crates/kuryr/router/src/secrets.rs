//! Secrets with certificates: which are there, and which one has the content that the writer asks for.

use gimbal_kuryr_model::CertificateHash;
use gimbal_kuryr_resource::KuryrKind;
use gimbal_kuryr_translate::KnownSecret;
use gimbal_kuryr_wire::PackedEntry;
use gimbal_model::SourceKey;
use gimbal_session::KeptEntry as _;

use crate::RouterController;
use crate::certificates::wishes_in;

impl<T> RouterController<T> {
    pub(crate) fn secret_set(&mut self, secret: KnownSecret) {
        let key = secret.key.clone();
        let hash = secret.state.as_ref().ok().map(|certificate| certificate.hash);
        if self.secrets.apply(secret) {
            self.index.secret_changed(&key);
            self.certificate_appeared(hash);
        }
    }

    pub(crate) fn secret_deleted(&mut self, key: &SourceKey) {
        if self.secrets.delete(key) {
            self.index.secret_changed(key);
        }
    }

    pub(crate) fn secrets_listed(&mut self) {
        for key in self.secrets.end_list() {
            self.index.secret_changed(&key);
        }
    }

    /// A kind cannot be read. What waits for Secrets does not wait for them any longer.
    pub(crate) fn unreadable_now(&mut self, kind: KuryrKind, reason: String) {
        let waits = kind == KuryrKind::Secret && !self.has_asked_for_secrets();
        self.reading_mut(kind).cannot_be_read(reason);
        if kind == KuryrKind::Secret {
            self.secrets.cannot_be_read();
        }
        if waits {
            self.mark_routers();
        }
    }

    /// Whether Secrets have been listed, or cannot be. Before that, one that is there would seem to be missing.
    pub(crate) fn has_asked_for_secrets(&self) -> bool {
        let reading = self.reading(KuryrKind::Secret);
        reading.is_complete() || reading.unreadable(KuryrKind::Secret).is_some()
    }

    /// Returns the Secrets that may have the content with this hash. Only certificates that are offered are given away: a hash that
    /// the writer has from somewhere else gets it nothing. While a router is offered with one that became another namespace's,
    /// no router gets it: the writer stores it for each that wants it.
    #[must_use]
    pub fn secrets_with(&self, hash: CertificateHash) -> Vec<SourceKey> {
        if self.has_intruder(hash) {
            return Vec::new();
        }
        let offered = self.routers.values().filter_map(|item| item.offer.offered.as_ref());
        let entries: Vec<_> = offered.map(PackedEntry::entry).collect();
        let wishes = entries.iter().flat_map(|entry| wishes_in(entry)).filter(|wish| wish.hash == hash);
        let mut found: Vec<SourceKey> = wishes
            .filter_map(|wish| wish.secret.split_once('/'))
            .map(|(namespace, name)| SourceKey::new(namespace, name))
            .collect();
        if !found.is_empty() {
            // The one that the wish names may have another content by now, and a copy of it may be elsewhere.
            found.extend(self.secrets.with_hash(hash).filter(|key| self.index.names_secret(key)).cloned());
        }
        found.sort();
        found.dedup();
        found
    }
}
