//! Secrets of others, each watched by its name: no more of them is read than sources name.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use gimbal_kubernetes_client::{Cluster, WatchEvent, WatchScope, watch};
use gimbal_operator_core::{CredentialsState, SecretData, SourceSecret};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::known::KnownObjects;
use crate::metrics::OperatorMetrics;

/// A Secret as it is now, or that there is none.
pub(crate) struct SecretNews {
    pub(crate) name: String,
    pub(crate) secret: Option<SourceSecret>,
}

/// The watches, and what they have shown.
pub(crate) struct SecretWatches {
    cluster: Cluster,
    namespace: String,
    metrics: OperatorMetrics,
    tasks: BTreeMap<String, AbortOnDropHandle<()>>,
    known: BTreeMap<String, Option<SourceSecret>>,
    sender: mpsc::Sender<SecretNews>,
    news: mpsc::Receiver<SecretNews>,
}

impl SecretWatches {
    pub(crate) fn new(cluster: Cluster, namespace: String, metrics: OperatorMetrics) -> Self {
        let (sender, news) = mpsc::channel(16);
        Self { cluster, namespace, metrics, tasks: BTreeMap::new(), known: BTreeMap::new(), sender, news }
    }

    /// Watches these Secrets and no others.
    pub(crate) fn follow(&mut self, names: &BTreeSet<String>) {
        self.tasks.retain(|name, _| names.contains(name));
        self.known.retain(|name, _| names.contains(name));
        for name in names {
            if !self.tasks.contains_key(name) {
                let task = follow(
                    self.cluster.clone(),
                    self.namespace.clone(),
                    name.clone(),
                    self.metrics.clone(),
                    self.sender.clone(),
                );
                self.tasks.insert(name.clone(), AbortOnDropHandle::new(tokio::spawn(task)));
            }
        }
    }

    /// Waits until one is found to be another than it was. Cancel safe.
    pub(crate) async fn changed(&mut self) -> String {
        loop {
            // It has a sender itself, so that there is no end.
            let Some(SecretNews { name, secret }) = self.news.recv().await else { return std::future::pending().await };
            if self.tasks.contains_key(&name) {
                self.known.insert(name.clone(), secret);
                return name;
            }
        }
    }

    /// Takes a Secret as read.
    #[cfg(test)]
    pub(crate) fn put(&mut self, name: &str, secret: SourceSecret) {
        self.known.insert(name.to_owned(), Some(secret));
    }

    /// Returns a Secret: `None` if it was not read yet, and nothing in it if it does not exist.
    pub(crate) fn get(&self, name: &str) -> Option<Option<&SourceSecret>> {
        self.known.get(name).map(Option::as_ref)
    }

    /// Returns what is known of a Secret. Its digest depends on `salt`, which no other program knows: from the digest alone,
    /// which many may read, no password can be guessed.
    pub(crate) fn state(&self, name: &str, salt: &[u8]) -> CredentialsState {
        self.get(name)
            .map_or(CredentialsState::Unknown, |secret| credentials_state(secret.map(|secret| &secret.data), salt))
    }
}

fn credentials_state(data: Option<&SecretData>, salt: &[u8]) -> CredentialsState {
    let Some(SecretData(entries)) = data else { return CredentialsState::Missing };
    let mut digest = Sha256::new();
    digest.update(Sha256::digest(salt));
    for (key, value) in entries {
        digest.update(Sha256::digest(key.as_bytes()));
        digest.update(Sha256::digest(value.as_bytes()));
    }
    let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    CredentialsState::There { digest, keys: entries.keys().cloned().collect() }
}

async fn follow(
    cluster: Cluster,
    namespace: String,
    name: String,
    metrics: OperatorMetrics,
    news: mpsc::Sender<SecretNews>,
) {
    let scope = WatchScope {
        namespace: Some(namespace),
        field_selector: Some(format!("metadata.name={name}")),
        ..WatchScope::default()
    };
    let mut events = watch::<SourceSecret>(cluster, scope);
    let (mut known, mut failing) = (KnownObjects::default(), false);
    while let Some(event) = events.next().await {
        match &event {
            WatchEvent::Failed(error) => {
                metrics.watch_failed("secrets", error);
                // Logged once for each outage.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(secret = name, %error, "the watch on a Secret failed; it is tried again");
                }
            }
            WatchEvent::Alive => failing = false,
            _ => {}
        }
        if known.take(event) && known.is_complete() {
            let now = SecretNews { name: name.clone(), secret: known.get(&name).cloned() };
            if news.send(now).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    fn digest(salt: &[u8], values: &[(&str, &str)]) -> String {
        let entries = values.iter().map(|(key, value)| ((*key).to_owned(), Zeroizing::new((*value).to_owned())));
        match credentials_state(Some(&SecretData(entries.collect())), salt) {
            CredentialsState::There { digest, .. } => digest,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_secret_that_no_source_names_any_more_is_forgotten() {
        let server = gimbal_testkit::ScriptedCluster::start().await.unwrap();
        let metrics = OperatorMetrics::register(&mut prometheus_client::registry::Registry::default());
        let mut watches = SecretWatches::new(server.cluster.apart(), "here".into(), metrics);
        watches.put("a", SourceSecret::default());
        watches.put("b", SourceSecret::default());
        watches.follow(&BTreeSet::from(["b".to_owned()]));
        assert!(watches.get("a").is_none() && watches.get("b").is_some());
        assert_eq!(watches.state("a", b""), CredentialsState::Unknown);
    }

    #[test]
    fn a_digest_depends_on_a_secret_and_on_every_key() {
        let first = digest(b"salt", &[("a", "1"), ("b", "2")]);
        assert_eq!(first, digest(b"salt", &[("a", "1"), ("b", "2")]));
        for other in [
            digest(b"other", &[("a", "1"), ("b", "2")]),
            digest(b"salt", &[("a", "12"), ("b", "")]),
            digest(b"salt", &[("a", "1"), ("c", "2")]),
            digest(b"salt", &[("a", "1")]),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(credentials_state(None, b"salt"), CredentialsState::Missing);
    }
}
