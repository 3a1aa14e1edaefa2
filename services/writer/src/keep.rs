//! What outlives the process, for each backend in a `ConfigMap` `gimbal-backend-<name>`: the incarnation of its source and
//! a held removal. Written when it changes, never by a mere reconnect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gimbal_kube_io::{ApiError, Cluster, WatchScope};
use gimbal_model::BackendName;
use gimbal_objects::{ConfigMap, Meta, keys};
use gimbal_reconcile::BackendState;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const PREFIX: &str = "gimbal-backend-";
const INCARNATION: &str = "incarnation";
const HELD: &str = "held";
/// Wait after a failed write.
const RETRY: Duration = Duration::from_secs(1);
/// How long the last writes may take when the process ends.
const LAST: Duration = Duration::from_secs(1);

/// Reads and writes what is kept.
pub struct Keeper {
    cluster: Cluster,
    namespace: Arc<str>,
    changes: mpsc::UnboundedSender<(BackendName, BackendState)>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts the task that writes.
    #[must_use]
    pub fn start(cluster: Cluster, namespace: &str) -> Self {
        let (changes, receiver) = mpsc::unbounded_channel();
        let namespace: Arc<str> = namespace.into();
        let task = tokio::spawn(write_changes(cluster.clone(), namespace.clone(), receiver));
        Self { cluster, namespace, changes, task }
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

    /// Keeps a state. Written by and by; of several for one backend the newest counts.
    pub fn keep(&self, backend: BackendName, state: BackendState) {
        if self.changes.send((backend, state)).is_err() {
            tracing::error!("the task that keeps the state of backends ended");
        }
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
    let state = BackendState {
        incarnation: map.data.get(INCARNATION).filter(|value| !value.is_empty()).cloned(),
        held: map.data.get(HELD).filter(|value| !value.is_empty()).cloned(),
    };
    Some((backend, state))
}

fn render(namespace: &Arc<str>, backend: &BackendName, state: &BackendState) -> ConfigMap {
    let labels = [(keys::MANAGED_BY.into(), keys::MANAGER.into()), (keys::BACKEND.into(), backend.as_str().into())];
    let metadata = Meta {
        name: format!("{PREFIX}{backend}").into(),
        namespace: namespace.clone(),
        labels: labels.into(),
        ..Meta::default()
    };
    let data = [(INCARNATION, &state.incarnation), (HELD, &state.held)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)))
        .collect();
    ConfigMap { metadata, data }
}

async fn write_changes(
    cluster: Cluster,
    namespace: Arc<str>,
    mut changes: mpsc::UnboundedReceiver<(BackendName, BackendState)>,
) {
    let mut waiting: BTreeMap<BackendName, BackendState> = BTreeMap::new();
    loop {
        if waiting.is_empty() {
            let Some((backend, state)) = changes.recv().await else { return };
            waiting.insert(backend, state);
        }
        while let Ok((backend, state)) = changes.try_recv() {
            waiting.insert(backend, state);
        }
        let Some((backend, state)) = waiting.pop_first() else { continue };
        if let Err(error) = write(&cluster, &render(&namespace, &backend, &state)).await {
            tracing::warn!(%backend, %error, "cannot keep the state of a backend; it is retried");
            waiting.entry(backend).or_insert(state);
            tokio::time::sleep(RETRY).await;
        }
    }
}

async fn write(cluster: &Cluster, map: &ConfigMap) -> Result<(), ApiError> {
    match cluster.get::<ConfigMap>(&map.metadata.namespace, &map.metadata.name).await {
        Ok(there) if there.data == map.data => Ok(()),
        Ok(there) => {
            let metadata = Meta {
                uid: there.metadata.uid,
                resource_version: there.metadata.resource_version,
                ..map.metadata.clone()
            };
            cluster.replace(&ConfigMap { metadata, data: map.data.clone() }).await.map(drop)
        }
        Err(ApiError::NotFound { .. }) => cluster.create(map).await.map(drop),
        Err(error) => Err(error),
    }
}
