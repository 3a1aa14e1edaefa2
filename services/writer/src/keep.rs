//! What outlives the process, for each backend in a `ConfigMap` `gimbal-backend-<name>`: the incarnation of its source, its
//! loss, what the mass-change guard must remember, and an order to remove it. Written when it changes, never by a mere
//! reconnect.

mod form;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kube_io::{ApiError, Cluster, WatchScope};
use gimbal_model::BackendName;
use gimbal_objects::{ConfigMap, Meta, Object as _, keys};
use gimbal_reconcile::BackendState;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::lease::Leadership;

const PREFIX: &str = "gimbal-backend-";
/// Wait after a failed write.
const RETRY: Duration = Duration::from_secs(1);
/// How long the last writes may take when the process ends.
const LAST: Duration = Duration::from_secs(1);

/// What becomes of one backend's `ConfigMap`.
#[derive(Debug)]
enum Change {
    Keep(u64, BackendState),
    Forget,
}

/// Reads and writes what is kept.
pub struct Keeper {
    cluster: Cluster,
    namespace: Arc<str>,
    changes: mpsc::UnboundedSender<(BackendName, Change)>,
    kept: mpsc::UnboundedReceiver<(BackendName, u64)>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts the task that writes, as long as this process leads.
    #[must_use]
    pub fn start(cluster: Cluster, namespace: &str, leadership: watch::Receiver<Leadership>) -> Self {
        let (changes, receiver) = mpsc::unbounded_channel();
        let (told, kept) = mpsc::unbounded_channel();
        let namespace: Arc<str> = namespace.into();
        let task = Task { cluster: cluster.clone(), namespace: namespace.clone(), leadership, told };
        Self { cluster, namespace, changes, kept, task: tokio::spawn(task.run(receiver)) }
    }

    /// What is kept of every backend.
    ///
    /// # Errors
    /// Those of the API server.
    pub async fn read(&self) -> Result<Vec<(BackendName, BackendState)>, ApiError> {
        let scope = WatchScope {
            namespace: Some(self.namespace.to_string()),
            label_selector: Some(format!("{}={}", keys::MANAGED_BY, keys::MANAGER)),
        };
        let maps: Vec<ConfigMap> = self.cluster.list(&scope).await?;
        Ok(maps.iter().filter_map(parse).collect())
    }

    /// Keeps a state. Written by and by; of several for one backend the newest counts. See [`Keeper::kept`].
    pub fn keep(&self, backend: BackendName, version: u64, state: BackendState) {
        self.change(backend, Change::Keep(version, state));
    }

    /// Keeps nothing of a backend any more.
    pub fn forget(&self, backend: BackendName) {
        self.change(backend, Change::Forget);
    }

    fn change(&self, backend: BackendName, change: Change) {
        if self.changes.send((backend, change)).is_err() {
            tracing::error!("the task that keeps the state of backends ended");
        }
    }

    /// The next state that the API server has accepted, by its version. `None` when the task ended.
    pub async fn kept(&mut self) -> Option<(BackendName, u64)> {
        self.kept.recv().await
    }

    /// Ends after what was to be kept, within a second.
    pub async fn finish(self) {
        drop(self.changes);
        if tokio::time::timeout(LAST, self.task).await.is_err() {
            tracing::warn!("the last states of backends could not be kept in time");
        }
    }
}

fn parse(map: &ConfigMap) -> Option<(BackendName, BackendState)> {
    let backend = BackendName::parse(map.metadata.name.strip_prefix(PREFIX)?).ok()?;
    let (state, odd) = form::parse(&map.data);
    if !odd.is_empty() {
        tracing::warn!(%backend, configmap = %map.metadata.name, keys = odd.join(", "), "a part of what is kept cannot be read; it counts as not there");
    }
    Some((backend, state))
}

struct Task {
    cluster: Cluster,
    namespace: Arc<str>,
    leadership: watch::Receiver<Leadership>,
    told: mpsc::UnboundedSender<(BackendName, u64)>,
}

impl Task {
    async fn run(self, mut changes: mpsc::UnboundedReceiver<(BackendName, Change)>) {
        let mut waiting: BTreeMap<BackendName, Change> = BTreeMap::new();
        loop {
            if waiting.is_empty() {
                let Some((backend, change)) = changes.recv().await else { return };
                waiting.insert(backend, change);
            }
            while let Ok((backend, change)) = changes.try_recv() {
                waiting.insert(backend, change);
            }
            let Some((backend, change)) = waiting.pop_first() else { continue };
            if !self.leadership.borrow().may_write(Instant::now()) {
                // Whoever leads now keeps what it finds; this would be older.
                continue;
            }
            if let Err(error) = self.write(&backend, &change).await {
                tracing::warn!(%backend, %error, "cannot keep the state of a backend; it is retried, and removals that count wait for it");
                waiting.entry(backend).or_insert(change);
                tokio::time::sleep(RETRY).await;
            } else if let Change::Keep(version, _) = change
                && self.told.send((backend, version)).is_err()
            {
                // The process ends; what is left is still written.
                tracing::debug!("nobody waits for what is kept");
            }
        }
    }

    async fn write(&self, backend: &BackendName, change: &Change) -> Result<(), ApiError> {
        let map = self.render(backend, change);
        let there = match self.cluster.get::<ConfigMap>(&map.metadata.namespace, &map.metadata.name).await {
            Ok(there) => Some(there),
            Err(ApiError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        match (there, change) {
            (None, Change::Forget) => Ok(()),
            (None, Change::Keep(..)) => self.cluster.create(&map).await.map(drop),
            (Some(there), Change::Keep(..)) if there.data == map.data => Ok(()),
            (Some(there), Change::Keep(..)) => {
                let Meta { uid, resource_version, .. } = there.metadata;
                let metadata = Meta { uid, resource_version, ..map.metadata };
                self.cluster.replace(&ConfigMap { metadata, data: map.data }).await.map(drop)
            }
            (Some(there), Change::Forget) => {
                let Meta { namespace, name, uid, resource_version, .. } = &there.metadata;
                self.cluster.delete(ConfigMap::KIND, namespace, name, uid, resource_version).await
            }
        }
    }

    fn render(&self, backend: &BackendName, change: &Change) -> ConfigMap {
        let labels = [(keys::MANAGED_BY.into(), keys::MANAGER.into()), (keys::BACKEND.into(), backend.as_str().into())];
        let metadata = Meta {
            name: format!("{PREFIX}{backend}").into(),
            namespace: self.namespace.clone(),
            labels: labels.into(),
            ..Meta::default()
        };
        let data = match change {
            Change::Keep(_, state) => form::render(state),
            Change::Forget => BTreeMap::new(),
        };
        ConfigMap { metadata, data }
    }
}
