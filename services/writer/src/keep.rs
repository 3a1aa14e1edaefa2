//! What outlives the process, for each backend in a `ConfigMap` `gimbal-backend-<name>`: the incarnation of its source, its
//! loss, what the mass-change guard must remember, and an order to remove it. Written when it changes, never by a mere
//! reconnect.

mod form;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kubernetes_client::{ApiError, Cluster, WatchScope};
use gimbal_kubernetes_objects::{ConfigMap, Meta, Object as _, keys};
use gimbal_model::BackendName;
use gimbal_reconcile::BackendState;
use gimbal_runtime::Exit;
use tokio::sync::{mpsc, watch};

use gimbal_lease::Leadership;
use task::{Request, Task};

const PREFIX: &str = "gimbal-backend-";

/// What becomes of one backend's `ConfigMap`.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // Nearly all are the large one.
enum Change {
    Keep(u64, BackendState),
    Forget,
}

/// What the keeper tells.
#[derive(Debug, PartialEq)]
pub enum Told {
    /// The API server has accepted this version of a backend's state, and so all before it.
    Kept(BackendName, u64),
    /// What was kept of every backend when this epoch began.
    Read(u64, Vec<(BackendName, BackendState)>),
}

/// The way to the task that reads and writes what is kept. The task ends when this is dropped, after what was to be kept, a
/// second later at most.
pub struct Keeper {
    requests: mpsc::UnboundedSender<Request>,
    told: mpsc::UnboundedReceiver<Told>,
}

impl Keeper {
    /// The keeper and its task, which works as long as this process leads. The cluster should withhold writes that are not
    /// permitted any more.
    pub fn new(
        cluster: Cluster,
        namespace: &str,
        leadership: watch::Receiver<Leadership>,
    ) -> (Self, impl Future<Output = Result<(), Exit>> + Send + 'static) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (tell, told) = mpsc::unbounded_channel();
        let store = Store { cluster, namespace: namespace.into() };
        (Self { requests, told }, Task::new(store, leadership, tell).run(receiver))
    }

    /// Asks what was kept of every backend before this epoch; tried until it works or the epoch ends.
    pub fn read(&self, epoch: u64) {
        self.request(Request::Read(epoch));
    }

    /// Keeps a state that was decided in this epoch. Written by and by; of several for one backend the newest counts.
    pub fn keep(&self, epoch: u64, backend: BackendName, version: u64, state: BackendState) {
        self.request(Request::Change(epoch, backend, Change::Keep(version, state)));
    }

    /// Keeps nothing of a backend any more.
    pub fn forget(&self, epoch: u64, backend: BackendName) {
        self.request(Request::Change(epoch, backend, Change::Forget));
    }

    fn request(&self, request: Request) {
        if self.requests.send(request).is_err() {
            tracing::error!("the task that keeps the state of backends ended");
        }
    }

    /// What the task tells next. `None` when it ended.
    pub async fn told(&mut self) -> Option<Told> {
        self.told.recv().await
    }
}

/// Where it is kept. Cheap to clone.
#[derive(Clone)]
struct Store {
    cluster: Cluster,
    namespace: Arc<str>,
}

fn parse(map: &ConfigMap) -> Option<(BackendName, BackendState)> {
    let backend = BackendName::parse(map.metadata.name.strip_prefix(PREFIX)?).ok()?;
    let (state, odd) = form::parse(&map.data);
    if !odd.is_empty() {
        tracing::warn!(%backend, configmap = %map.metadata.name, keys = odd.join(", "), "a part of what is kept cannot be read; it counts as not there");
    }
    Some((backend, state))
}

fn is_labelled(there: &ConfigMap, as_wanted: &ConfigMap) -> bool {
    let labels = &there.metadata.labels;
    as_wanted.metadata.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl Store {
    async fn read(&self) -> Result<Vec<(BackendName, BackendState)>, ApiError> {
        let scope = WatchScope {
            namespace: Some(self.namespace.to_string()),
            label_selector: Some(format!("{}={}", keys::MANAGED_BY, keys::MANAGER)),
            ..WatchScope::default()
        };
        let maps: Vec<ConfigMap> = self.cluster.list(&scope).await?;
        Ok(maps.iter().filter_map(parse).collect())
    }

    /// The version that is replaced was read while this process led, or the write is withheld: a leader that comes after
    /// has not written it yet.
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
            // Its labels count too: without them the next leader does not find it.
            (Some(there), Change::Keep(..)) if there.data == map.data && is_labelled(&there, &map) => Ok(()),
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
