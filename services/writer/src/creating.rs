//! Creates the namespaces that policies ask for: one after the other, each limited like any other write, and backends
//! take turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::BackendName;
use gimbal_reconcile::Reconciler;
use tokio::task::{JoinError, JoinSet};

use crate::apply::Created;
use crate::jobs_in_flight::JobsInFlight;

/// Namespaces that are pending. Backends take turns, each with its own first-in-first-out line that is never empty, so
/// a source with many new namespaces does not delay another backend's.
#[derive(Default)]
struct Waiting(VecDeque<(BackendName, VecDeque<Arc<str>>)>);

impl Waiting {
    fn push(&mut self, namespace: Arc<str>, backend: BackendName) {
        match self.0.iter_mut().find(|(whose, _)| *whose == backend) {
            Some((_, line)) => line.push_back(namespace),
            None => self.0.push_back((backend, [namespace].into())),
        }
    }

    fn pop(&mut self) -> Option<(Arc<str>, BackendName)> {
        let (backend, mut line) = self.0.pop_front()?;
        let namespace = line.pop_front()?;
        if !line.is_empty() {
            self.0.push_back((backend.clone(), line));
        }
        Some((namespace, backend))
    }
}

/// Creates namespaces. Part of the owner's state.
#[derive(Default)]
pub struct Creating {
    waiting: Waiting,
    /// The creation in flight, at most one.
    under_way: JoinSet<(Arc<str>, Created)>,
}

impl Creating {
    /// Enqueues a namespace.
    pub fn ask(&mut self, namespace: Arc<str>, backend: BackendName) {
        self.waiting.push(namespace, backend);
    }

    /// Clears the queue. The reconciler of the next leader asks again.
    pub fn forget(&mut self) {
        self.waiting = Waiting::default();
    }

    /// Starts the next creation if one is pending, none is in flight, and the limits allow it.
    pub fn start(&mut self, jobs: &mut JobsInFlight, state: &Reconciler, now: Instant) {
        if self.waiting.0.is_empty() || !self.under_way.is_empty() || !jobs.start_single(state, now) {
            return;
        }
        let Some((namespace, backend)) = self.waiting.pop() else { return };
        let writes = jobs.writes().clone();
        self.under_way.spawn(async move {
            let created = writes.create_namespace(&namespace, &backend).await;
            match &created.result {
                Ok(()) => tracing::info!(%backend, %namespace, "created a namespace, as the backend's policy says"),
                // The reason was already logged as a warning where the write was sent.
                Err(reason) => tracing::debug!(%backend, %namespace, reason, "a namespace was not created"),
            }
            (namespace, created)
        });
    }

    /// Waits for the creation in flight to end; returns `None` if there is none.
    pub async fn next(&mut self) -> Option<Result<(Arc<str>, Created), JoinError>> {
        self.under_way.join_next().await
    }

    /// Passes the result of a creation to the reconciler.
    pub fn ended(
        &mut self,
        (namespace, created): (Arc<str>, Created),
        jobs: &mut JobsInFlight,
        state: &mut Reconciler,
        now: Instant,
    ) {
        jobs.single_done(created.sample.as_ref());
        state.namespace_created(&namespace, created.result, now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gimbal_kubernetes_client::{Access, Cluster};
    use gimbal_plan::EndpointsApi;
    use gimbal_reconcile::Settings;
    use gimbal_session::{Credit, WriterLimits};
    use prometheus_client::registry::Registry;
    use tokio::sync::watch;

    use super::*;
    use crate::apply::Writes;
    use crate::metrics::Metrics;
    use crate::throttle::Throttle;
    use gimbal_lease::{Leadership, Moment};
    use gimbal_schedule::{LimiterSettings, WriteLimiter};

    /// An unreachable API server is enough: only the rate of requests counts.
    const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";

    #[tokio::test]
    async fn one_after_the_other_and_no_faster_than_writes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG).unwrap();
        let until = Moment::now() + Duration::from_secs(3600);
        let (leader, leadership) = watch::channel(Leadership::Leader { epoch: 1, until });
        let metrics = Metrics::register(&mut Registry::default());
        let writes = Writes {
            cluster: Cluster::connect(&Access::Kubeconfig(path), "test").unwrap(),
            leadership,
            throttle: Throttle::default(),
            metrics: metrics.clone(),
            failures: Arc::default(),
        };
        let pace =
            LimiterSettings { concurrency: 8, latency_target: Duration::from_secs(1), qps: 4, fanout: 0, watchers: 0 };
        let mut jobs = JobsInFlight::new(writes, WriteLimiter::new(&pace), metrics);
        let limits =
            WriterLimits { credit: Credit { changes: 1, bytes: 1 }, heartbeat_timeout: Duration::from_secs(15) };
        let comparison_interval = Duration::from_secs(300);
        let mut state = Reconciler::new(Settings { api: EndpointsApi::default(), limits, comparison_interval });
        let mut creating = Creating::default();
        for n in 0..100 {
            creating.ask(format!("ns{n}").into(), BackendName::parse("a").unwrap());
        }
        let (mut now, mut created) = (Instant::now(), Vec::new());
        for _ in 0..20 {
            now += Duration::from_millis(260);
            // As often as the owner calls it.
            for _ in 0..3 {
                creating.start(&mut jobs, &state, now);
                creating.start(&mut jobs, &state, now);
                assert!(creating.under_way.len() <= 1);
                jobs.start_jobs(&mut state, now);
                if let Some(ended) = creating.next().await {
                    let ended = ended.unwrap();
                    created.push(ended.0.to_string());
                    creating.ended(ended, &mut jobs, &mut state, now);
                }
            }
        }
        assert_eq!(created, (0..20).map(|n| format!("ns{n}")).collect::<Vec<_>>());
        // Another backend's namespace is not behind them.
        creating.ask("other".into(), BackendName::parse("b").unwrap());
        for next in ["ns20", "other", "ns21"] {
            now += Duration::from_secs(1);
            jobs.start_jobs(&mut state, now);
            creating.start(&mut jobs, &state, now);
            let ended = creating.next().await.unwrap().unwrap();
            assert_eq!(*ended.0, *next);
            creating.ended(ended, &mut jobs, &mut state, now);
        }
        // A writer that no longer leads sends nothing; what is pending stays pending.
        now += Duration::from_secs(60);
        jobs.start_jobs(&mut state, now);
        leader.send(Leadership::Follower { holder: String::new() }).unwrap();
        creating.start(&mut jobs, &state, now);
        assert!(creating.next().await.is_none());
        let waiting: Vec<_> = std::iter::from_fn(|| creating.waiting.pop()).collect();
        assert_eq!((waiting.len(), &*waiting[0].0), (78, "ns22"));
    }
}
