//! The task that owns the [`Clusters`]: all input arrives in its mailbox, and every decision is carried out from here. No
//! other task touches the state.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::DesiredKind;
use gimbal_octavia_registry::{CallAnswer, CallId, CallToMake, CloudCall};
use gimbal_runtime::{Exit, Liveness};
use gimbal_traces::{SettledChange, Traces, WrittenTo};
use tokio::sync::{broadcast, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::cloud_access::CloudAccess;
use crate::clusters::{Clusters, SettledTrace};
use crate::mailbox::{ChangedEntry, ClusterMail};
use crate::metrics::CloudWriterMetrics;

/// Most inputs taken in one turn before decisions are made.
const TURN: usize = 256;
/// How often silent streams are looked for, and the process shows that it lives.
const TICK: Duration = Duration::from_millis(250);
/// How often the metrics are set.
const SHOW: Duration = Duration::from_secs(1);
/// How long changes under way may take to end at shutdown.
const LAST_CHANGES: Duration = Duration::from_secs(25);
/// Messages that may be pending for a controller.
pub const STREAM_QUEUE: usize = 1024;

/// The owner task.
pub struct ClustersOwner {
    pub(crate) clusters: Clusters,
    /// Continues the traces that controllers begin.
    pub(crate) traces: Traces,
    pub(crate) cloud: CloudAccess,
    pub(crate) mail: mpsc::Receiver<ClusterMail>,
    pub(crate) changed: broadcast::Sender<ChangedEntry>,
    pub(crate) metrics: CloudWriterMetrics,
    pub(crate) health: Liveness,
    /// The calls under way.
    pub(crate) calls: JoinSet<(CallId, CallAnswer)>,
    pub(crate) shown: Option<Instant>,
}

impl ClustersOwner {
    /// Runs until `shutdown`, then awaits the changes under way and says goodbye to every controller.
    ///
    /// # Errors
    /// Returns an error if a call's task panicked: its load balancer would wait for it for ever.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), Exit> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.carry_out();
            let wake = self.clusters.next_wake(Instant::now());
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(done) = self.calls.join_next() => self.answered(done)?,
                Some(mail) = self.mail.recv() => self.receive(mail),
                () = sleep_until(wake) => {}
                _ = tick.tick() => self.tick(),
            }
            self.take_more()?;
        }
        self.end().await
    }

    /// Takes further pending inputs, so that decisions are based on all of them.
    fn take_more(&mut self) -> Result<(), Exit> {
        for _ in 0..TURN {
            if let Some(done) = self.calls.try_join_next() {
                self.answered(done)?;
            } else if let Ok(mail) = self.mail.try_recv() {
                self.receive(mail);
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Makes the calls that are due, and sends what is to be sent.
    fn carry_out(&mut self) {
        let now = Instant::now();
        loop {
            while let Some(call) = self.clusters.next_call(now) {
                self.start(call);
            }
            let news = self.clusters.take_news(now);
            news.iter().for_each(|event| self.metrics.happened(event));
            // What was reported may be the cause of more work.
            if news.is_empty() {
                break;
            }
        }
        for settled in self.clusters.take_settled() {
            self.trace(&settled);
        }
        self.clusters.send(now);
        for changed in self.clusters.take_changed() {
            // Without a reader of Watch no one is to be notified.
            self.changed.send(changed).ok();
        }
    }

    /// Continues the trace of a change.
    fn trace(&mut self, change: &SettledTrace) {
        let SettledTrace { cluster, key, trace, outcome, queue, changing } = change;
        // As the controller names it in its inspection.
        let service = match key.kind {
            DesiredKind::LoadBalancer => key.name.to_string(),
            kind => format!("{}:{}", kind.as_str(), key.name),
        };
        let change = SettledChange {
            backend: cluster,
            namespace: &key.namespace,
            service: &service,
            outcome: outcome.as_str(),
            queue: *queue,
            writing: *changing,
            written_to: WrittenTo::OpenStack,
        };
        self.traces.settled(*trace, &change);
    }

    fn start(&mut self, call: CallToMake) {
        let CallToMake { id, cluster, project, what, .. } = call;
        let life = self.clusters.get(&cluster).map(|state| state.life.clone()).unwrap_or_default();
        let age = self.clusters.registry.settings().heartbeat_age;
        // Asked when the request is written: a heartbeat that came since the call was handed out counts, and so does the end of
        // the stream.
        let permit = life.permit(age);
        if let CloudCall::Change(change) = &what {
            let request = change.request();
            tracing::debug!(%cluster, verb = ?request.verb, path = request.path, "a change of OpenStack");
        }
        let (cloud, metrics) = (self.cloud.clone(), self.metrics.clone());
        self.calls.spawn(async move {
            let answer = cloud.call(&project, &what, permit).await;
            if let CloudCall::Change(change) = &what {
                metrics.step_taken(change, &answer);
            }
            (id, answer)
        });
    }

    fn answered(&mut self, done: Result<(CallId, CallAnswer), JoinError>) -> Result<(), Exit> {
        let (id, answer) = done.map_err(|error| Exit::Failure(format!("a call of the owner failed: {error}")))?;
        self.clusters.answered(id, answer, Instant::now());
        Ok(())
    }

    fn receive(&mut self, mail: ClusterMail) {
        let now = Instant::now();
        match mail {
            ClusterMail::Open { cluster, hello, outgoing, reply } => {
                if reply.send(self.clusters.open(&cluster, &hello, outgoing, now)).is_err() {
                    tracing::debug!(%cluster, "a stream ended while it was opened");
                }
            }
            ClusterMail::Message { cluster, generation, message, turns } => {
                self.clusters.receive(&cluster, generation, message, now);
                drop(turns);
            }
            ClusterMail::Closed { cluster, generation } => self.clusters.closed(&cluster, generation, now),
            ClusterMail::Ask(question) => question(&mut self.clusters),
        }
    }

    fn tick(&mut self) {
        self.health.beat();
        let now = Instant::now();
        self.clusters.tick(now);
        if self.shown.is_none_or(|shown| now >= shown + SHOW) {
            self.shown = Some(now);
            self.metrics.show(&self.clusters, &self.cloud, now);
        }
    }

    async fn end(mut self) -> Result<(), Exit> {
        // A change that was not sent yet must not be: no one would see what came of it.
        self.clusters.say_goodbye_to_all();
        let under_way = self.calls.len();
        let waiting = async {
            while let Some(done) = self.calls.join_next().await {
                if let Ok((id, answer)) = done {
                    self.clusters.answered(id, answer, Instant::now());
                }
                self.health.beat();
            }
        };
        if tokio::time::timeout(LAST_CHANGES, waiting).await.is_err() {
            tracing::warn!(under_way, "some calls did not end in time; the next writer looks before it repeats them");
        }
        Ok(())
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
