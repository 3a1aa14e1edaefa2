//! The task that owns all state. Source events, the stream and inspection calls meet here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use gimbal_model::{BackendName, SourceKey};
use gimbal_session::{AgentConfig, GoodbyeReason};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::connect::{Link, LinkEvent};
use crate::health_log::HealthLog;
use crate::inspect::Question;
use crate::inspection_view::InspectionView;
use crate::metrics::{Metrics, Shown};
use crate::offer::Offer;
use crate::places::WriterAddress;
use crate::source::{Source, Taken};
use crate::watchers::Watchers;

/// Most source events that are applied in one turn.
const BATCH: usize = 256;
/// Time limit of a goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// The arguments of [`Owner::new`].
pub(crate) struct OwnerParts<S> {
    pub(crate) backend: BackendName,
    pub(crate) config: AgentConfig,
    pub(crate) source: S,
    pub(crate) writer: Option<WriterAddress>,
    pub(crate) questions: mpsc::Receiver<Question>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health_log: HealthLog,
}

pub(crate) struct Owner<S> {
    backend: BackendName,
    config: AgentConfig,
    pub(crate) source: S,
    pub(crate) offer: Offer,
    questions: mpsc::Receiver<Question>,
    pub(crate) link: Link,
    dry_run: bool,
    /// Whether the writer accepted the stream.
    pub(crate) welcomed: bool,
    pub(crate) link_trouble: Option<String>,
    pub(crate) watchers: Watchers,
    pub(crate) metrics: Arc<Metrics>,
    shown: Shown,
    pub(crate) health_log: HealthLog,
}

impl<S: Source> Owner<S> {
    pub(crate) fn new(parts: OwnerParts<S>) -> Self {
        Self {
            offer: Offer::new(parts.config.clone()),
            source: parts.source,
            dry_run: parts.writer.is_none(),
            link: Link::new(parts.writer),
            backend: parts.backend,
            config: parts.config,
            questions: parts.questions,
            welcomed: false,
            link_trouble: None,
            watchers: Watchers::default(),
            metrics: parts.metrics,
            shown: Shown::default(),
            health_log: parts.health_log,
        }
    }

    /// Runs until `shutdown`, then sends Goodbye to the writer.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Whether there may be a message to send. If in doubt, `AgentEnd::next` decides.
        let mut room = true;
        loop {
            let deadline = self.deadline(room);
            tokio::select! {
                () = shutdown.cancelled() => break,
                event = self.source.event() => {
                    self.source_events(event);
                    room = true;
                }
                event = self.link.event(room) => room = self.link_event(event),
                Some(question) = self.questions.recv() => self.answer(question),
                _ = second.tick() => self.every_second(),
                () = sleep_until(deadline.into()) => room = true,
            }
            room |= self.settle();
            self.health_log.beat();
        }
        self.farewell().await;
    }

    /// Returns when to wake up without an event. The session's deadline matters only while no room is asked for.
    fn deadline(&self, room: bool) -> Instant {
        let now = Instant::now();
        let stream = if room || !self.link.is_open() { None } else { self.offer.agent.next_deadline(now) };
        let next = [stream, self.source.deadline()].into_iter().flatten().min();
        next.unwrap_or_else(|| now + Duration::from_secs(60))
    }

    /// Applies this event and those that have come since, so that a burst is published once.
    fn source_events(&mut self, first: S::Event) {
        let mut next = Some(first);
        let mut left = BATCH;
        while let Some(event) = next.take() {
            match self.source.take(event, Instant::now()) {
                Taken::Told => {}
                Taken::StartedOver => self.begin_anew(),
                Taken::Replaced => {
                    self.metrics.replaced.inc();
                    self.begin_anew();
                }
            }
            left -= 1;
            if left > 0 {
                next = self.source.event().now_or_never();
            }
        }
    }

    /// Starts over with a source that is read again. Nothing is removed by that: the writer keeps what it holds until
    /// the new offer is complete.
    fn begin_anew(&mut self) {
        let old = std::mem::replace(&mut self.offer, Offer::new(self.config.clone()));
        self.welcomed = false;
        if self.link.is_open() {
            self.link.reopen();
        }
        let gone: Vec<SourceKey> = old.agent.services().map(|(key, _)| key.clone()).collect();
        self.tell_watchers(|watchers, view| watchers.everything(view, &gone));
    }

    /// Publishes what changed. Returns whether there may be a message to send.
    fn settle(&mut self) -> bool {
        let now = Instant::now();
        let changed = self.source.settle(now);
        let settled = self.offer.publish(self.source.known(), &changed, now);
        for (key, _) in changed.iter().filter(|(_, service)| service.is_none()) {
            if self.health_log.gone(key) {
                self.source.resolved(key);
            }
        }
        if self.offer.is_read() {
            self.link.hurry();
        }
        if self.link.is_open() && self.offer.agent.wants_redial() {
            tracing::info!("the source is known now: opening a stream with data");
            self.offer.agent.disconnected();
            self.welcomed = false;
            self.link.reopen();
        }
        self.health_log.source(self.source.known(), &self.offer);
        if settled.unknown {
            self.tell_watchers(|watchers, view| watchers.everything(view, &[]));
        } else if !changed.is_empty() {
            self.tell_watchers(|watchers, view| watchers.changed(view, changed.iter().map(|(key, _)| key)));
        }
        !changed.is_empty() || settled.standing
    }

    fn every_second(&mut self) {
        self.watchers.prune();
        let mut shown = std::mem::take(&mut self.shown);
        self.metrics.refresh(&self.view(), &mut shown);
        self.shown = shown;
    }

    fn answer(&mut self, question: Question) {
        // The caller may have given up.
        let taken = match question {
            Question::Backend(reply) => reply.send(self.view().backend()).is_ok(),
            Question::Services(request, after, reply) => reply.send(self.view().part(&request, after.as_ref())).is_ok(),
            Question::Explain(request, reply) => reply.send(self.view().explain(&request)).is_ok(),
            Question::Follow(request, alive, reply) => {
                let mut id = 0;
                self.tell_watchers(|watchers, view| id = watchers.add(view, &request, alive));
                reply.send(id).is_ok()
            }
            Question::Next(id, reply) => {
                self.tell_watchers(|watchers, view| watchers.ask(view, id, reply));
                true
            }
        };
        if !taken {
            tracing::debug!("an inspection was given up before its answer");
        }
    }

    pub(crate) fn tell_watchers(&mut self, tell: impl FnOnce(&mut Watchers, &InspectionView<'_>)) {
        let mut watchers = std::mem::take(&mut self.watchers);
        tell(&mut watchers, &self.view());
        self.watchers = watchers;
    }

    pub(crate) fn view(&self) -> InspectionView<'_> {
        InspectionView {
            backend: &self.backend,
            instance: &self.config.instance,
            version: &self.config.version,
            source: self.source.known(),
            offer: &self.offer,
            connected: self.welcomed,
            dry_run: self.dry_run,
            link_trouble: self.link_trouble.as_deref(),
            now: Instant::now(),
        }
    }

    /// Sends Goodbye, so that the writer knows this is a restart and not a failure.
    async fn farewell(mut self) {
        if !self.link.is_open() {
            return;
        }
        self.offer.agent.goodbye(GoodbyeReason::Shutdown, "the discoverer ends");
        let said = timeout(FAREWELL, async {
            loop {
                match self.link.event(true).await {
                    LinkEvent::Room if self.send_next().is_some_and(|goodbye| goodbye) => break,
                    LinkEvent::Room | LinkEvent::Message(_) | LinkEvent::Unreadable(_) | LinkEvent::Opened => {}
                    LinkEvent::Down(_) => return,
                }
            }
            self.link.finish().await;
        });
        if said.await.is_err() {
            tracing::warn!("the writer did not take our goodbye in time");
        }
    }
}
