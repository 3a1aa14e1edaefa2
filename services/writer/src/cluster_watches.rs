//! The watches on the Gimbal cluster, each a task that passes its events to the owner.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use gimbal_kubernetes_client::{Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Namespace, Object, Service, keys};
use gimbal_reconcile::{Reconciler, Watched};
use tokio::sync::{Semaphore, mpsc, watch as value};
use tokio::task::JoinSet;

use crate::apply::code;
use crate::metrics::Metrics;
use crate::watch_liveness::WatchLiveness;

/// Events that may be pending at the owner.
const QUEUE: usize = 64;
/// Pages of lists among them, of all kinds together: one is applied while the next is read. A page takes megabytes.
const PAGES: usize = 2;

type StateUpdate = Box<dyn FnOnce(&mut Reconciler, Instant) + Send>;

/// An event of a watch, ready to be applied to the state.
pub struct ClusterEvent(StateUpdate);

impl ClusterEvent {
    /// Applies the event to the state.
    pub fn apply(self, state: &mut Reconciler, now: Instant) {
        (self.0)(state, now);
    }
}

/// A kind that is watched, and how its objects are applied to the state.
trait WatchedKind: Object {
    const WATCHED: Watched;
    /// The label that marks objects of the writer; `None`: all objects are watched.
    const MARK: Option<&'static str>;
    fn apply(self, state: &mut Reconciler, now: Instant);
    fn delete(self, state: &mut Reconciler, now: Instant);
}

impl WatchedKind for Service {
    const WATCHED: Watched = Watched::Services;
    const MARK: Option<&'static str> = Some(keys::MANAGED_BY);
    fn apply(self, state: &mut Reconciler, now: Instant) {
        state.apply_service(&self, now);
    }
    fn delete(self, state: &mut Reconciler, now: Instant) {
        state.delete_service(&self, now);
    }
}

impl WatchedKind for EndpointSlice {
    const WATCHED: Watched = Watched::Slices;
    const MARK: Option<&'static str> = Some(keys::SLICE_MANAGED_BY);
    fn apply(self, state: &mut Reconciler, now: Instant) {
        state.apply_slice(&self, now);
    }
    fn delete(self, state: &mut Reconciler, now: Instant) {
        state.delete_slice(&self, now);
    }
}

impl WatchedKind for Endpoints {
    const WATCHED: Watched = Watched::Endpoints;
    const MARK: Option<&'static str> = Some(keys::MANAGED_BY);
    fn apply(self, state: &mut Reconciler, now: Instant) {
        state.apply_endpoints(&self, now);
    }
    fn delete(self, state: &mut Reconciler, now: Instant) {
        state.delete_endpoints(&self, now);
    }
}

impl WatchedKind for Namespace {
    const WATCHED: Watched = Watched::Namespaces;
    const MARK: Option<&'static str> = None;
    fn apply(self, state: &mut Reconciler, _: Instant) {
        state.apply_namespace(&self);
    }
    fn delete(self, state: &mut Reconciler, _: Instant) {
        state.delete_namespace(&self.metadata.name);
    }
}

/// Starts every watch. The tasks end when the receiver or the [`Relist`] is dropped. `watch_liveness` records every
/// sign of life of the API server.
pub fn start(
    cluster: &Cluster,
    metrics: &Metrics,
    watch_liveness: &WatchLiveness,
) -> (mpsc::Receiver<ClusterEvent>, Relist, JoinSet<()>) {
    let (events, receiver) = mpsc::channel(QUEUE);
    let (asks, again) = value::channel(());
    let pages = Arc::new(Semaphore::new(PAGES));
    let mut tasks = JoinSet::new();
    let context = WatchContext { events, again, pages, watch_liveness: watch_liveness.clone() };
    tasks.spawn(follow::<Service>(cluster.clone(), context.clone(), metrics.clone()));
    tasks.spawn(follow::<EndpointSlice>(cluster.clone(), context.clone(), metrics.clone()));
    tasks.spawn(follow::<Endpoints>(cluster.clone(), context.clone(), metrics.clone()));
    tasks.spawn(follow::<Namespace>(cluster.clone(), context, metrics.clone()));
    (receiver, Relist(asks), tasks)
}

/// Restarts the watches.
pub struct Relist(value::Sender<()>);

impl Relist {
    /// Lists every kind again.
    pub fn all(&self) {
        self.0.send_replace(());
    }
}

/// The channel to the owner, and what the watches share.
#[derive(Clone)]
struct WatchContext {
    events: mpsc::Sender<ClusterEvent>,
    /// Changes when every watch is to start again.
    again: value::Receiver<()>,
    /// Permits for pages that are pending at the owner.
    pages: Arc<Semaphore>,
    watch_liveness: WatchLiveness,
}

async fn follow<T: WatchedKind>(cluster: Cluster, context: WatchContext, metrics: Metrics) {
    let selector = T::MARK.map(|mark| format!("{mark}={}", keys::MANAGER));
    let scope = WatchScope { label_selector: selector, ..WatchScope::default() };
    let mut watching = watch::<T>(cluster.clone(), scope.clone());
    let mut again = context.again.clone();
    let mut failing = false;
    loop {
        let event = tokio::select! {
            event = watching.next() => event,
            asked = again.changed() => {
                if asked.is_err() {
                    return;
                }
                watching = watch::<T>(cluster.clone(), scope.clone());
                continue;
            }
        };
        let Some(event) = event else { return };
        if event.is_sign_of_life() {
            context.watch_liveness.heard(T::WATCHED);
        }
        let apply: StateUpdate = match event {
            WatchEvent::ListBegin => {
                // The list is requested after the owner has recorded its start, so that it is newer than all that the
                // owner knew by then.
                let (taken, mut begun) = mpsc::channel::<Infallible>(1);
                let update: StateUpdate = Box::new(move |state, _| {
                    state.list_begin(T::WATCHED);
                    drop(taken);
                });
                if context.events.send(ClusterEvent(update)).await.is_err() {
                    return;
                }
                begun.recv().await;
                continue;
            }
            WatchEvent::Listed(page) => {
                let Ok(turn) = context.pages.clone().acquire_owned().await else { return };
                Box::new(move |state, now| {
                    page.into_iter().for_each(|object| object.apply(state, now));
                    drop(turn);
                })
            }
            WatchEvent::WentBack { seen, listed } => {
                tracing::warn!(
                    kind = T::KIND.plural,
                    seen,
                    listed,
                    "the Gimbal cluster's store was restored to an older state: everything is compared again"
                );
                // The stored state of backends is in the same store.
                Box::new(|state, _| state.keep_all())
            }
            WatchEvent::ListDone => Box::new(|state, now| state.list_end(T::WATCHED, now)),
            WatchEvent::Applied(object) => Box::new(move |state, now| object.apply(state, now)),
            WatchEvent::Deleted(object) => Box::new(move |state, now| object.delete(state, now)),
            WatchEvent::Alive => {
                if std::mem::take(&mut failing) {
                    tracing::info!(kind = T::KIND.plural, "the watch on the Gimbal cluster works again");
                }
                continue;
            }
            WatchEvent::Failed(error) => {
                metrics.watch_failed(T::KIND.plural, code(&error));
                // Logged once for each outage: it is retried until it works, and the metric counts.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(kind = T::KIND.plural, %error, "the watch on the Gimbal cluster failed; it is retried");
                }
                continue;
            }
        };
        if context.events.send(ClusterEvent(apply)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gimbal_kubernetes_client::Access;
    use gimbal_testkit::{Rule, TestCluster, eventually};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    /// A refused watch is retried for ever, and refusals do not count as signs of life.
    #[tokio::test]
    async fn of_what_it_may_not_read_a_writer_hears_nothing() {
        let server = TestCluster::start().await.unwrap();
        let user = server.user("writer").unwrap();
        let rules = [Rule::read("", &["endpoints", "namespaces"]), Rule::read("discovery.k8s.io", &["endpointslices"])];
        server.grant(&user, &rules).await.unwrap();
        let cluster = Cluster::connect(&Access::Kubeconfig(user.kubeconfig().to_owned()), "test").unwrap();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let watch_liveness = WatchLiveness::new(Duration::from_secs(3600));
        let begun = Instant::now();
        let (mut events, _again, _tasks) = start(&cluster, &metrics, &watch_liveness);
        // The events must be taken, or the watches stop.
        tokio::spawn(async move { while events.recv().await.is_some() {} });
        let refused = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let count =
                text.lines().find(|line| line.contains("watch_failures_total{kind=\"services\",reason=\"forbidden\"}"));
            count.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0_u32)
        };
        let often = async || match refused() {
            4.. => Ok(()),
            times => Err(format!("{times} times")),
        };
        eventually("Services are refused four times", Duration::from_secs(30), often).await.unwrap();
        let time = begun.elapsed();
        assert!(watch_liveness.silence(Watched::Services) >= time, "nothing was ever heard of Services");
        for kind in [Watched::Slices, Watched::Endpoints, Watched::Namespaces] {
            assert!(watch_liveness.silence(kind) < time, "{kind:?} were listed");
        }
    }
}
