//! Publishes whether this writer is ready, which calls it serves, and who leads.

use std::time::Duration;

use gimbal_reconcile::Reconciler;
use gimbal_runtime::{Readiness, ReadinessGuard};
use gimbal_transport::Serving;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mailbox::Handle;
use crate::metrics::Metrics;
use crate::watch_liveness::WatchLiveness;
use gimbal_lease::{Leadership, Moment};

/// Time without a sign of life after which a watch is out of reach. A healthy API server sends one at least once a
/// minute.
pub(crate) const UNREACHABLE: Duration = Duration::from_secs(150);
/// Calls that fail for this long are more than a short disturbance.
const FAILING: Duration = Duration::from_secs(30);
/// Interval of checks.
const LOOK: Duration = Duration::from_millis(100);

/// What the checks read, and where they publish.
pub(crate) struct ReadinessReport {
    pub(crate) owner: Handle,
    pub(crate) readiness: Readiness,
    /// Signs of life of the watches on the Gimbal cluster.
    pub(crate) watch_liveness: WatchLiveness,
    /// Returns for how long every call to the Gimbal cluster has failed without an answer, with 5xx or with 401; `None`
    /// if the last one did not.
    pub(crate) failing: Box<dyn Fn() -> Option<Duration> + Send>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    /// Identity of this writer in the Lease.
    pub(crate) identity: String,
    pub(crate) metrics: Metrics,
}

impl ReadinessReport {
    /// Publishes readiness until `shutdown`, to `readiness` and `serving` alike. A writer is ready when it has observed
    /// the Gimbal cluster and can still reach it, whether it leads or not, because a follower takes over at once.
    /// `observing` is dropped once the Gimbal cluster was observed.
    pub(crate) async fn run(
        self,
        observing: ReadinessGuard,
        serving: watch::Sender<Serving>,
        shutdown: CancellationToken,
    ) {
        let mut observing = Some(observing);
        let mut away: Option<ReadinessGuard> = None;
        let mut leader = String::new();
        let mut poll = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = poll.tick() => {}
            }
            if observing.is_some() {
                match self.owner.ask(|state: &mut Reconciler| state.has_observed()).await {
                    Ok(false) => {}
                    Ok(true) => {
                        observing = None;
                        tracing::info!("the Gimbal cluster is observed");
                    }
                    Err(_) => return,
                }
            }
            let silent = self.watch_liveness.silent();
            let reached = silent.is_empty() && (self.failing)().is_none_or(|time| time < FAILING);
            match (reached, away.is_some()) {
                (true, true) => away = None,
                (false, false) if observing.is_none() => {
                    tracing::warn!(
                        ?silent,
                        "the Gimbal cluster's API server cannot be reached, or does not say what is there: this writer is not ready"
                    );
                    away = Some(self.readiness.block("the Gimbal cluster's API server"));
                }
                _ => {}
            }
            let now = Serving { ready: observing.is_none() && away.is_none(), leading: self.leads() };
            serving.send_if_modified(|before| std::mem::replace(before, now) != now);
            self.name(&mut leader);
        }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().may_write(Moment::now())
    }

    /// Logs and publishes the leader when it changes.
    fn name(&self, before: &mut String) {
        let now = match &*self.leadership.borrow() {
            Leadership::Leader { .. } => self.identity.clone(),
            Leadership::Follower { holder } => holder.clone(),
        };
        if now != *before {
            tracing::info!(leader = now, this = self.identity, "the leader changed");
            self.metrics.led_by(&now);
            *before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use gimbal_reconcile::Watched;

    use super::*;
    use crate::links::Links;
    use crate::mailbox::Mail;

    #[tokio::test]
    async fn who_cannot_reach_its_cluster_for_long_is_not_ready() {
        let (owner, mut mail, _) = Handle::new();
        tokio::spawn(async move {
            // The owner has observed its cluster, whatever the question is.
            while let Some(Mail::Ask(question)) = mail.recv().await {
                let mut state = observed();
                question(&mut state, &Links::default());
            }
        });
        let (readiness, watch_liveness) = (Readiness::new(), WatchLiveness::new(Duration::from_millis(300)));
        let hear = |kinds: &'static [Watched]| {
            let watch_liveness = watch_liveness.clone();
            tokio::spawn(async move {
                let mut beat = tokio::time::interval(Duration::from_millis(50));
                loop {
                    beat.tick().await;
                    kinds.iter().for_each(|kind| watch_liveness.heard(*kind));
                }
            })
        };
        // One kind gives no sign of life, whatever the others do.
        let [services, others @ ..] = &Watched::ALL;
        hear(others);
        let (lead, leadership) = watch::channel(Leadership::Follower { holder: "other".into() });
        let (serving, mut told) = watch::channel(Serving { ready: false, leading: false });
        let (identity, metrics) = ("this".to_owned(), Metrics::register(&mut Registry::default()));
        let (failing, readiness_of_all) = (Box::new(|| None), readiness.clone());
        let report = ReadinessReport {
            owner,
            readiness: readiness_of_all,
            watch_liveness: watch_liveness.clone(),
            failing,
            leadership,
            identity,
            metrics,
        };
        let observing = readiness.block("the watches");
        tokio::spawn(report.run(observing, serving, CancellationToken::new()));
        told.wait_for(|now| now.ready && !now.leading).await.unwrap();
        assert!(readiness.awaited().is_empty(), "a standby is ready");
        told.wait_for(|now| !now.ready).await.unwrap();
        assert_eq!(readiness.awaited(), ["the Gimbal cluster's API server"]);
        hear(std::slice::from_ref(services));
        told.wait_for(|now| now.ready).await.unwrap();
        assert!(readiness.awaited().is_empty());
        let until = Moment::now() + Duration::from_secs(3600);
        lead.send(Leadership::Leader { epoch: 1, until }).unwrap();
        told.wait_for(|now| now.ready && now.leading).await.unwrap();
    }

    fn observed() -> Reconciler {
        use gimbal_reconcile::Settings;
        use gimbal_session::{Credit, WriterLimits};
        let limits = WriterLimits { credit: Credit { changes: 1, bytes: 1 }, heartbeat_timeout: UNREACHABLE };
        let comparison_interval = UNREACHABLE;
        let mut state = Reconciler::new(Settings { api: Default::default(), limits, comparison_interval });
        for kind in Watched::ALL {
            state.list_begin(kind);
            state.list_end(kind, std::time::Instant::now());
        }
        state
    }
}
