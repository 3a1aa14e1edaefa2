//! Floods: more changes than the API server accepts.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_kubernetes_client::{Cluster, WatchScope};
use gimbal_kubernetes_objects::{EndpointSlice, keys};

use crate::backends::Backends;
use crate::change::{Change, OTHER, address};
use crate::raw;

/// Changes per second: several times what an API server accepts on a machine of a few cores.
pub const RATE: u32 = 5_000;
const TICK: Duration = Duration::from_millis(10);

/// Makes changes through backends, numbered from `first` on, until `end`.
///
/// # Errors
/// A backend has ended.
pub async fn through(
    backends: &mut Backends,
    first: u32,
    end: impl Future<Output = ()>,
) -> anyhow::Result<BTreeMap<u32, Change>> {
    let mut changes = BTreeMap::new();
    let mut numbers = first..;
    // Late ticks are made up for, so that the rate holds.
    let mut ticks = tokio::time::interval(TICK);
    let each = RATE / 1000 * u32::try_from(TICK.as_millis())?;
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return Ok(changes),
            _ = ticks.tick() => for number in numbers.by_ref().take(each as usize) {
                changes.insert(number, backends.change(number)?);
            },
        }
    }
}

/// The same kind of writes without Gimbal: slices that are replaced again and again.
pub struct Bare {
    hands: Cluster,
    slices: Vec<EndpointSlice>,
    next: u32,
}

impl Bare {
    /// Copies the objects that the writer published for a backend, under another name and another manager.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn copy(hands: Cluster, backend: &str) -> anyhow::Result<Self> {
        let label_selector = Some(format!("{}={backend},{}={}", keys::BACKEND, keys::SLICE_MANAGED_BY, keys::MANAGER));
        let mut slices = hands.list::<EndpointSlice>(&WatchScope { label_selector, ..WatchScope::default() }).await?;
        for slice in &mut slices {
            raw::anew(&mut slice.metadata);
            slice.metadata.name = format!("bare-{}", slice.metadata.name).into();
            slice.metadata.labels.insert(keys::SLICE_MANAGED_BY.into(), OTHER.into());
        }
        anyhow::ensure!(!slices.is_empty(), "nothing of {backend} is there to be copied");
        let creates = slices.iter().map(|slice| hands.create(slice));
        stream::iter(creates).buffer_unordered(64).try_collect::<Vec<_>>().await?;
        Ok(Self { hands, slices, next: 0 })
    }

    /// Replaces one slice after the other with `workers` concurrent requests until `end`; returns the number of
    /// replacements.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn flood(&mut self, workers: usize, end: impl Future<Output = ()>) -> anyhow::Result<usize> {
        let (hands, slices, next) = (&self.hands, &mut self.slices, &mut self.next);
        let mut put = 0;
        let rounds = stream::iter(0..slices.len()).cycle().take_until(end).map(|at| {
            *next += 1;
            let slice = &mut slices[at];
            if let Some(first) = slice.endpoints.first_mut().and_then(|endpoint| endpoint.addresses.first_mut()) {
                // The address of no measured change: no observer waits for it.
                *first = address(*next).to_string().replacen("10.", "11.", 1).into();
            }
            let slice = slice.clone();
            async move { hands.replace(&slice).await }
        });
        let mut rounds = Box::pin(rounds.buffer_unordered(workers));
        while let Some(answer) = rounds.next().await {
            answer?;
            put += 1;
        }
        Ok(put)
    }
}
