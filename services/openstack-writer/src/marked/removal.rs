//! Removes everything of a cluster. The work is the same as for owners that are gone, with a registry of its own: that of the
//! clusters changes nothing for a cluster in quarantine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, Phase, Text};
use gimbal_octavia_registry::{ClusterGuards, ClusterSettings, Registry, RegistryEvent, RegistrySettings};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::MarkScope;
use crate::cloud_access::CloudAccess;

/// Most changes under way at a time: it is not urgent, and others are served meanwhile.
const CHANGES: u32 = 4;
/// The longest pause between two looks at what is due.
const TURN: Duration = Duration::from_secs(1);

/// How far a removal is. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct RemovalProgress {
    pub id: String,
    left: Arc<AtomicU64>,
}

impl RemovalProgress {
    pub(crate) fn new(id: String, owners: usize) -> Self {
        Self { id, left: Arc::new(AtomicU64::new(owners.try_into().unwrap_or(u64::MAX))) }
    }

    /// Returns the number of owners of which something is left.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }
}

/// Removes what was made for these owners. Ends when nothing is left, or when `stop` is cancelled: nothing is sent after that.
pub(crate) async fn remove(
    cloud: CloudAccess,
    scope: MarkScope,
    owners: BTreeSet<Text>,
    progress: RemovalProgress,
    stop: CancellationToken,
) {
    let (cluster, mut left) = (scope.cluster().clone(), owners);
    tracing::warn!(%cluster, id = progress.id, owners = left.len(), "everything of the cluster is removed, as an admin ordered");
    let mut registry = begin(&scope, &left);
    let mut calls = JoinSet::new();
    while !left.is_empty() && !stop.is_cancelled() {
        let now = Instant::now();
        // The admin's order stands for the stream of the controller.
        registry.heard(&cluster, now);
        while let Some(call) = registry.next_call(now) {
            let (cloud, permit) = (cloud.clone(), stop.clone());
            calls.spawn(async move {
                (call.id, cloud.call(&call.project, &call.what, move || !permit.is_cancelled()).await)
            });
        }
        for event in registry.take_events() {
            if let RegistryEvent::OtherCluster { uid, .. } = event {
                // What carries the name and another UID is not in the inventory, and stays.
                registry.confirm(&cluster, &uid, now);
            }
        }
        for (_, key, report) in registry.take_reports(now) {
            if report.phase == Phase::Gone && left.remove(&key.name) {
                tracing::info!(%cluster, owner = %key.name, "removed");
            }
        }
        progress.left.store(left.len().try_into().unwrap_or(u64::MAX), Relaxed);
        let wake = registry.next_wake(now).map_or(TURN, |at| at.saturating_duration_since(now).min(TURN));
        tokio::select! {
            () = stop.cancelled() => {}
            Some(done) = calls.join_next() => match done {
                Ok((id, answer)) => registry.answered(id, answer, Instant::now()),
                Err(error) => {
                    tracing::error!(%cluster, %error, "a call of the removal failed; order it again");
                    break;
                }
            },
            () = tokio::time::sleep(wake) => {}
        }
    }
    while calls.join_next().await.is_some() {}
    match left.len() {
        0 => tracing::warn!(%cluster, id = progress.id, "nothing of the cluster is left"),
        left => tracing::warn!(%cluster, id = progress.id, left, "the removal of the cluster has stopped"),
    }
}

fn begin(scope: &MarkScope, owners: &BTreeSet<Text>) -> Registry {
    let now = Instant::now();
    let settings = RegistrySettings { write_concurrency: CHANGES, ..RegistrySettings::default() };
    let mut registry = Registry::new(settings, now);
    let cluster = scope.cluster();
    // The admin's word is all that it takes, also where the guard limits what Services ask for.
    let guards = ClusterGuards { explicit: false, ..scope.settings.guards };
    registry.set_cluster(ClusterSettings { quarantine: false, guards, ..scope.settings.clone() }, now);
    registry.set_facts(cluster, scope.facts.clone(), now);
    registry.heard(cluster, now);
    // Only what was counted in the preview goes; there is no search for more.
    registry.set_current(cluster, true, false);
    for owner in owners {
        // Whatever it was: of a router's owner, certificates are looked for as well.
        let key = DesiredKey::new(DesiredKind::L7Router, "", owner.clone());
        registry.want(cluster, key, DesiredEntry::Deleting { owner: owner.clone() }, now);
    }
    registry
}
