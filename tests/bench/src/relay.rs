//! A bare relay, the least work that a copy between two clusters can be. It follows the source's slices and puts a copy
//! of each changed one over whatever is there; it has no identity, policy or order, and does not remember what it
//! wrote. It opens the same watches as Gimbal, so that both API servers send the same events to both sides, and it
//! ignores everything but the slices.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_kubernetes_client::{ApiError, Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{EndpointSlice, Meta, Service, keys};
use tokio::sync::Mutex;

use crate::change::OTHER;

/// Number of concurrent writes.
const WORKERS: usize = 64;

/// Returns the copies that a relay puts, by the name of the source's slice: what the writer published for the same
/// Services in another namespace, moved to this one. They differ only in names and manager.
#[must_use]
pub fn copies(
    written: &[EndpointSlice],
    source: &[EndpointSlice],
    namespace: &str,
) -> HashMap<Arc<str>, EndpointSlice> {
    let service = |slice: &EndpointSlice, key: &str| slice.metadata.labels.get(key).cloned();
    let names: HashMap<_, _> = source
        .iter()
        .filter_map(|slice| Some((service(slice, keys::SERVICE_NAME)?, slice.metadata.name.clone())))
        .collect();
    let copy = |slice: &EndpointSlice| {
        let mut slice = slice.clone();
        let name = names.get(&service(&slice, keys::SERVICE)?)?.clone();
        let labels = std::mem::take(&mut slice.metadata.labels);
        let annotations = std::mem::take(&mut slice.metadata.annotations);
        slice.metadata = Meta {
            name: slice.metadata.name.clone(),
            namespace: namespace.into(),
            labels,
            annotations,
            ..Meta::default()
        };
        slice.metadata.labels.insert(keys::SLICE_MANAGED_BY.into(), OTHER.into());
        Some((name, slice))
    };
    written.iter().filter_map(copy).collect()
}

/// Relays the changes of a namespace until it is dropped. The copies must exist.
///
/// # Errors
/// The error of the Gimbal cluster's API server, or the source's watch failed.
pub async fn run(
    source: &Cluster,
    namespace: &str,
    gimbal: &Cluster,
    copies: &HashMap<Arc<str>, EndpointSlice>,
) -> anyhow::Result<()> {
    // As Gimbal's discoverer watches: all namespaces, even those that are not relayed.
    let events = watch::<EndpointSlice>(source.clone(), WatchScope::default()).filter_map(|event| {
        std::future::ready(match event {
            WatchEvent::Applied(slice) if &*slice.metadata.namespace == namespace => Some(Ok(slice)),
            WatchEvent::Failed(error) => Some(Err(error)),
            _ => None,
        })
    });
    // As Gimbal's writer watches: objects of one manager, here the relay's.
    let own =
        WatchScope { label_selector: Some(format!("{}={OTHER}", keys::SLICE_MANAGED_BY)), ..WatchScope::default() };
    let services = watch::<Service>(source.clone(), WatchScope::default()).map(drop);
    let echo = watch::<EndpointSlice>(gimbal.clone(), own).map(drop);
    let heard = stream::select(services, echo).for_each(|()| std::future::ready(()));
    // Of two concurrent puts of one slice, the older could win.
    let turns: HashMap<_, _> = copies.keys().map(|name| (name, Mutex::new(()))).collect();
    let turns = &turns;
    let put = |slice: EndpointSlice| async move {
        let name = &slice.metadata.name;
        let (Some(mut copy), Some(turn)) = (copies.get(name).cloned(), turns.get(name)) else { return Ok(()) };
        let _turn = turn.lock().await;
        copy.endpoints = slice.endpoints;
        gimbal.replace(&copy).await?;
        Ok::<_, ApiError>(())
    };
    tokio::select! {
        relayed = events.try_for_each_concurrent(WORKERS, put) => Ok(relayed?),
        () = heard => anyhow::bail!("a watch of the relay ended"),
    }
}
