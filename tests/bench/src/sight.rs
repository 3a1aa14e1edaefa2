//! Measures when objects arrive in the Gimbal cluster, by a watch: the same for Gimbal and for what it is compared
//! with.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _, stream};
use gimbal_kubernetes_client::{Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Namespace, Object, Service, keys};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// An object that arrived.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// Kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: (Arc<str>, Arc<str>),
    /// When the event was read.
    pub at: Instant,
}

/// A watch on the objects that Gimbal owns in a cluster.
pub struct Sight {
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    _tasks: JoinSet<()>,
}

/// Time from the first to the last of some arrivals.
#[derive(Debug, Clone)]
pub struct Span {
    /// How long.
    pub length: Duration,
    /// Arrivals in each tenth of a second since the first.
    pub curve: Vec<(f64, f64)>,
}

impl Sight {
    /// Opens the watches; objects that exist already are not arrivals.
    pub fn open(cluster: &Cluster) -> Self {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let services = marked::<Service>(cluster, keys::MANAGED_BY);
        tasks.spawn(report(services, sender.clone()));
        let slices = marked::<EndpointSlice>(cluster, keys::SLICE_MANAGED_BY);
        tasks.spawn(report(slices, sender));
        Self { arrivals, _tasks: tasks }
    }

    /// Returns the next arrival.
    ///
    /// # Errors
    /// None comes within `patience`.
    pub async fn next(&mut self, patience: Duration) -> anyhow::Result<Arrival> {
        match tokio::time::timeout(patience, self.arrivals.recv()).await {
            Ok(Some(arrival)) => Ok(arrival),
            Ok(None) => anyhow::bail!("the watch on the Gimbal cluster ended"),
            Err(_) => anyhow::bail!("nothing arrived in the Gimbal cluster within {patience:?}"),
        }
    }

    /// Waits until `objects` different objects have been seen.
    ///
    /// # Errors
    /// No event arrives for longer than `patience`.
    #[allow(clippy::cast_precision_loss)]
    pub async fn span(&mut self, objects: usize, patience: Duration) -> anyhow::Result<Span> {
        let mut seen: HashMap<_, Instant> = HashMap::new();
        while seen.len() < objects {
            let arrival = self.next(patience).await?;
            seen.entry((arrival.kind, arrival.name)).or_insert(arrival.at);
        }
        let first = seen.values().min().copied().unwrap_or_else(Instant::now);
        let length = seen.values().max().map(|last| last.duration_since(first)).unwrap_or_default();
        let mut tenths = vec![0_u32; (length.as_millis() / 100) as usize + 1];
        for at in seen.values() {
            tenths[(at.duration_since(first).as_millis() / 100) as usize] += 1;
        }
        // Per second, over a window of one second: tenths alone vary too much.
        let curve = tenths.windows(10.min(tenths.len())).enumerate();
        let curve = curve.map(|(tenth, window)| (tenth as f64 / 10.0, f64::from(window.iter().sum::<u32>())));
        Ok(Span { length, curve: curve.collect() })
    }
}

/// Opens the same watches as a writer, for a run without one.
#[must_use]
pub fn companions(cluster: &Cluster) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(marked::<Service>(cluster, keys::MANAGED_BY).for_each(|_| async {}));
    tasks.spawn(marked::<EndpointSlice>(cluster, keys::SLICE_MANAGED_BY).for_each(|_| async {}));
    tasks.spawn(marked::<Endpoints>(cluster, keys::MANAGED_BY).for_each(|_| async {}));
    tasks.spawn(watch::<Namespace>(cluster.clone(), WatchScope::default()).for_each(|_| async {}));
    tasks
}

fn marked<T: Object>(cluster: &Cluster, mark: &str) -> impl Stream<Item = WatchEvent<T>> + Send + Unpin + use<T> {
    let label_selector = Some(format!("{mark}={}", keys::MANAGER));
    watch::<T>(cluster.clone(), WatchScope { label_selector, ..WatchScope::default() })
}

async fn report<T: Object>(events: impl Stream<Item = WatchEvent<T>> + Unpin, sender: mpsc::UnboundedSender<Arrival>) {
    let mut applied = events.filter_map(|event| {
        let applied = if let WatchEvent::Applied(object) = event { Some(object) } else { None };
        std::future::ready(applied)
    });
    while let Some(object) = applied.next().await {
        let meta = object.meta();
        let name = (meta.namespace.clone(), meta.name.clone());
        let arrival = Arrival { kind: T::KIND.kind, name, at: Instant::now() };
        if sender.send(arrival).is_err() {
            return;
        }
    }
}

/// Waits until the API server accepts such a watch. Objects written before do not count as arrivals.
///
/// # Errors
/// A watch does not open.
pub async fn watches_open(cluster: &Cluster) -> anyhow::Result<()> {
    let mut watches = stream::select(
        marked::<Service>(cluster, keys::MANAGED_BY).map(|event| matches!(event, WatchEvent::Alive)),
        marked::<EndpointSlice>(cluster, keys::SLICE_MANAGED_BY).map(|event| matches!(event, WatchEvent::Alive)),
    );
    while let Some(alive) = watches.next().await {
        if alive {
            return Ok(());
        }
    }
    anyhow::bail!("the watches ended")
}
