//! Reads and writes the records.

use std::marker::PhantomData;
use std::sync::Arc;

use gimbal_kubernetes_client::{ApiError, Cluster, WatchScope};
use gimbal_kubernetes_objects::{ConfigMap, Meta, Object as _, keys};

use crate::{Format, NewerRecord, RecordData, versions};

/// The change of one tenant's record.
#[derive(Debug, Clone)]
pub(crate) enum RecordChange<S> {
    /// The record is to hold this version of the state.
    Keep(u64, S),
    /// The record is to be deleted.
    Forget,
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord<T, S> {
    /// The tenant.
    pub tenant: T,
    /// What the record says, as far as this program can read it.
    pub state: S,
    /// Why this program must not use the state, if a newer one wrote it.
    pub newer: Option<NewerRecord>,
}

/// The records of a format.
pub(crate) type RecordOf<F> = StoredRecord<<F as Format>::Tenant, <F as Format>::State>;

/// Why a record is not written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum NotWritten {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Newer(#[from] NewerRecord),
}

/// The records in one namespace. Cheap to clone.
pub(crate) struct Store<F> {
    pub(crate) cluster: Cluster,
    pub(crate) namespace: Arc<str>,
    pub(crate) format: PhantomData<fn() -> F>,
}

impl<F> Clone for Store<F> {
    fn clone(&self) -> Self {
        Self { cluster: self.cluster.clone(), namespace: self.namespace.clone(), format: PhantomData }
    }
}

fn parse<F: Format>(map: &ConfigMap) -> Option<RecordOf<F>> {
    let tenant = F::parse_tenant(map.metadata.name.strip_prefix(F::PREFIX)?)?;
    let (state, unreadable) = F::parse(&map.data);
    let newer = versions::check::<F>(&map.metadata.name, &map.data).err();
    match &newer {
        Some(newer) => F::log_newer(&tenant, newer),
        None if unreadable.is_empty() => {}
        None => F::log_not_read(&tenant, &map.metadata.name, &unreadable.join(", ")),
    }
    Some(StoredRecord { tenant, state, newer })
}

fn has_labels_of(found: &ConfigMap, wanted: &ConfigMap) -> bool {
    let labels = &found.metadata.labels;
    wanted.metadata.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
}

impl<F: Format> Store<F> {
    pub(crate) fn new(cluster: Cluster, namespace: &str) -> Self {
        Self { cluster, namespace: namespace.into(), format: PhantomData }
    }

    /// Returns every record.
    pub(crate) async fn read(&self) -> Result<Vec<RecordOf<F>>, ApiError> {
        let scope = WatchScope {
            namespace: Some(self.namespace.to_string()),
            label_selector: Some(format!("{}={}", keys::MANAGED_BY, keys::MANAGER)),
            ..WatchScope::default()
        };
        let maps: Vec<ConfigMap> = self.cluster.list(&scope).await?;
        Ok(maps.iter().filter_map(parse::<F>).collect())
    }

    /// Carries out a change. A replacement or deletion names the version that was read right before. It never undoes
    /// what a later leader wrote: either that version is outdated by then and the API server refuses the write, or this
    /// process has ceased to lead and the write is withheld. A record that is for newer programs stays as it is.
    pub(crate) async fn write(&self, tenant: &F::Tenant, change: &RecordChange<F::State>) -> Result<(), NotWritten> {
        let mut map = self.render(tenant, change);
        let found = match self.cluster.get::<ConfigMap>(&map.metadata.namespace, &map.metadata.name).await {
            Ok(found) => Some(found),
            Err(ApiError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(found) = &found {
            versions::check::<F>(&found.metadata.name, &found.data)?;
            map.data = versions::replacing::<F>(&found.data, map.data);
        } else {
            map.data = versions::marked::<F>(map.data);
        }
        match (found, change) {
            (None, RecordChange::Forget) => {}
            (None, RecordChange::Keep(..)) => drop(self.cluster.create(&map).await?),
            // The labels are compared, too: without them the next leader does not find the record.
            (Some(found), RecordChange::Keep(..)) if found.data == map.data && has_labels_of(&found, &map) => {}
            (Some(found), RecordChange::Keep(..)) => {
                let Meta { uid, resource_version, .. } = found.metadata;
                let metadata = Meta { uid, resource_version, ..map.metadata };
                drop(self.cluster.replace(&ConfigMap { metadata, data: map.data }).await?);
            }
            (Some(found), RecordChange::Forget) => {
                let Meta { namespace, name, uid, resource_version, .. } = &found.metadata;
                self.cluster.delete(ConfigMap::KIND, namespace, name, uid, resource_version).await?;
            }
        }
        Ok(())
    }

    fn render(&self, tenant: &F::Tenant, change: &RecordChange<F::State>) -> ConfigMap {
        let tenant = tenant.to_string();
        let metadata = Meta {
            name: format!("{}{tenant}", F::PREFIX).into(),
            namespace: self.namespace.clone(),
            labels: [(keys::MANAGED_BY.into(), keys::MANAGER.into()), (F::TENANT_LABEL.into(), tenant.as_str().into())]
                .into(),
            ..Meta::default()
        };
        let data = match change {
            RecordChange::Keep(_, state) => F::render(state),
            RecordChange::Forget => RecordData::new(),
        };
        ConfigMap { metadata, data }
    }
}
