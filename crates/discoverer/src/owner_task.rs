//! The task that owns all state. Source events, the stream and inspection calls meet here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use gimbal_model::BackendName;
use gimbal_session::{AgentConfig, GoodbyeReason, Services};
use gimbal_traces::Traces;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::dialling::WriterAddress;
use crate::from_writer::SourceReply;
use crate::health_log::HealthLog;
use crate::inspection_service::InspectionCall;
use crate::inspection_view::{InspectionView, Reader};
use crate::link::{Link, LinkEvent};
use crate::metrics::{DiscovererMetrics, ReportedReasons};
use crate::payload::OfferedPayload;
use crate::publisher::Publisher;
use crate::source::{EventEffect, MaySpeak, Source};
use crate::watchers::Watchers;

/// Most source events that are applied in one turn.
const BATCH: usize = 256;
/// Time limit of a goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// The arguments of [`OwnerTask::new`].
pub(crate) struct OwnerParts<S, P: OfferedPayload> {
    pub(crate) backend: BackendName,
    pub(crate) config: AgentConfig,
    pub(crate) source: S,
    pub(crate) writer: Option<WriterAddress>,
    pub(crate) calls: mpsc::Receiver<InspectionCall>,
    pub(crate) metrics: Arc<DiscovererMetrics>,
    pub(crate) health_log: HealthLog<P>,
    pub(crate) traces: Traces,
}

pub(crate) struct OwnerTask<S, P: OfferedPayload = Services> {
    pub(crate) backend: BackendName,
    config: AgentConfig,
    pub(crate) source: S,
    pub(crate) publisher: Publisher<P>,
    /// Number of publishers so far.
    pub(crate) publishers: u64,
    /// Entries that fit in no frame, as the source knows.
    pub(crate) too_large: BTreeSet<P::Key>,
    calls: mpsc::Receiver<InspectionCall>,
    pub(crate) link: Link<P>,
    dry_run: bool,
    /// Whether the writer accepted the stream.
    pub(crate) welcomed: bool,
    pub(crate) link_trouble: Option<String>,
    pub(crate) watchers: Watchers<P>,
    pub(crate) metrics: Arc<DiscovererMetrics>,
    reported: ReportedReasons,
    pub(crate) health_log: HealthLog<P>,
    pub(crate) traces: Traces,
}

impl<S: Source<P>, P: OfferedPayload> OwnerTask<S, P> {
    pub(crate) fn new(parts: OwnerParts<S, P>) -> Self {
        Self {
            publisher: Publisher::new(parts.config.clone(), parts.source.report_credit()),
            publishers: 1,
            too_large: BTreeSet::new(),
            source: parts.source,
            dry_run: parts.writer.is_none(),
            link: Link::new(parts.writer),
            backend: parts.backend,
            config: parts.config,
            calls: parts.calls,
            welcomed: false,
            link_trouble: None,
            watchers: Watchers::default(),
            metrics: parts.metrics,
            reported: ReportedReasons::default(),
            health_log: parts.health_log,
            traces: parts.traces,
        }
    }

    /// Runs until `shutdown`, then sends Goodbye to the writer.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Whether there may be a message to send. If in doubt, `AgentEnd::next` decides.
        let mut room = true;
        loop {
            let speaks = self.follow_right_to_speak();
            let deadline = self.deadline(room);
            tokio::select! {
                () = shutdown.cancelled() => break,
                event = self.source.event() => {
                    self.source_events(event);
                    room = true;
                }
                event = self.link.event(room && speaks) => room = self.link_event(event),
                Some(call) = self.calls.recv() => self.answer(call),
                _ = second.tick() => self.every_second(),
                () = sleep_until(deadline.into()) => room = true,
            }
            room |= self.publish();
            self.health_log.beat();
        }
        self.say_goodbye().await;
    }

    /// Returns when to wake up without an event. The session's deadline matters only while no room is asked for.
    fn deadline(&self, room: bool) -> Instant {
        let now = Instant::now();
        let stream = if room || !self.link.is_open() { None } else { self.publisher.agent.next_deadline(now) };
        let next = [stream, self.source.deadline()].into_iter().flatten().min();
        next.unwrap_or_else(|| now + Duration::from_secs(60))
    }

    /// Applies this event and those that have come since, so that a burst is published once.
    fn source_events(&mut self, first: S::Event) {
        let mut next = Some(first);
        let mut left = BATCH;
        while let Some(event) = next.take() {
            match self.source.apply(event, Instant::now()) {
                EventEffect::Continues => {}
                EventEffect::StartedOver => self.start_over(),
                EventEffect::Replaced => {
                    self.metrics.replaced.inc();
                    self.start_over();
                }
            }
            left -= 1;
            if left > 0 {
                next = self.source.event().now_or_never();
            }
        }
    }

    /// Starts over with a source that is read again. Nothing is removed by that: the writer keeps what it holds until
    /// everything is read.
    fn start_over(&mut self) {
        let publisher = Publisher::new(self.config.clone(), self.source.report_credit());
        let old = std::mem::replace(&mut self.publisher, publisher);
        self.publishers += 1;
        self.too_large.clear();
        self.welcomed = false;
        if self.link.is_open() {
            self.link.reopen();
        }
        let gone: Vec<P::Key> = old.agent.entries().map(|(key, _)| key.clone()).collect();
        self.notify_watchers(|watchers, view| watchers.everything(view, &gone));
    }

    /// Publishes what changed in the source. Returns whether there may be a message to send.
    fn publish(&mut self) -> bool {
        let now = Instant::now();
        let changed = self.source.drain(now);
        let published = self.publisher.publish(self.source.status(), &changed, now);
        for (key, _) in changed.iter().filter(|(_, entry)| entry.is_none()) {
            if self.health_log.gone(key) {
                self.source.resolved(key);
            }
        }
        self.follow_too_large(&changed);
        let replied = self.reply();
        if self.publisher.is_read() {
            self.link.skip_head_start();
        }
        if self.link.is_open() && self.publisher.agent.wants_redial() {
            tracing::info!("the source is known now: opening a stream with data");
            self.publisher.agent.disconnected();
            self.welcomed = false;
            self.link.reopen();
        }
        self.health_log.source(self.source.status(), &self.publisher);
        if published.unknown {
            self.notify_watchers(|watchers, view| watchers.everything(view, &[]));
        } else if !changed.is_empty() {
            self.notify_watchers(|watchers, view| watchers.changed(view, changed.iter().map(|(key, _)| key)));
        }
        !changed.is_empty() || published.coverage || replied
    }

    /// Passes the source's replies on to the writer. Returns whether there were any.
    fn reply(&mut self) -> bool {
        let replies = self.source.drain_replies();
        let any = !replies.is_empty();
        for reply in replies {
            match reply {
                SourceReply::Handled(report) if report.publisher == self.publishers => {
                    self.publisher.agent.report_done(&report.received);
                }
                SourceReply::Repeat(report) if report.publisher == self.publishers => {
                    self.publisher.agent.send_again(report.key(), Instant::now());
                }
                SourceReply::Content(request, content) if request.publisher == self.publishers => {
                    self.publisher.agent.answer_content(request.hash(), content);
                }
                // The source started over since. The new stream brings the report or the request again.
                SourceReply::Handled(_) | SourceReply::Repeat(_) | SourceReply::Content(..) => {}
            }
        }
        any
    }

    fn every_second(&mut self) {
        self.watchers.prune();
        self.end_unsaid_rejects();
        let mut reported = std::mem::take(&mut self.reported);
        self.metrics.refresh(&self.view(), &mut reported);
        self.reported = reported;
    }

    fn answer(&mut self, call: InspectionCall) {
        // The caller may have given up.
        let received = match call {
            InspectionCall::Backend(reader, reply) => reply.send(self.view_for(reader).backend()).is_ok(),
            InspectionCall::Services(request, after, reply) => {
                reply.send(self.view().part(&request, after.as_ref())).is_ok()
            }
            InspectionCall::Explain(request, address, reader, reply) => {
                reply.send(self.view_for(reader).explain(&request, address)).is_ok()
            }
            InspectionCall::Follow(request, alive, reply) => {
                let mut id = 0;
                self.notify_watchers(|watchers, view| id = watchers.add(view, &request, alive));
                reply.send(id).is_ok()
            }
            InspectionCall::Next(id, reply) => {
                self.notify_watchers(|watchers, view| watchers.next_batch(view, id, reply));
                true
            }
        };
        if !received {
            tracing::debug!("an inspection was given up before its answer");
        }
    }

    pub(crate) fn notify_watchers(&mut self, notify: impl FnOnce(&mut Watchers<P>, &InspectionView<'_, P>)) {
        let mut watchers = std::mem::take(&mut self.watchers);
        notify(&mut watchers, &self.view());
        self.watchers = watchers;
    }

    pub(crate) fn view(&self) -> InspectionView<'_, P> {
        InspectionView {
            backend: &self.backend,
            instance: &self.config.instance,
            version: &self.config.version,
            source: self.source.status(),
            publisher: &self.publisher,
            connected: self.welcomed,
            dry_run: self.dry_run,
            link_trouble: self.link_trouble.as_deref(),
            reader: Reader::Operator,
            now: Instant::now(),
        }
    }

    fn view_for(&self, reader: Reader) -> InspectionView<'_, P> {
        InspectionView { reader, ..self.view() }
    }

    /// Sends Goodbye, so that the writer knows this is a restart and not a failure.
    async fn say_goodbye(mut self) {
        if !self.link.is_open() || self.source.may_speak() != MaySpeak::Yes {
            return;
        }
        self.publisher.agent.goodbye(GoodbyeReason::Shutdown, "the discoverer ends");
        let sent = timeout(GOODBYE_TIMEOUT, async {
            loop {
                match self.link.event(true).await {
                    LinkEvent::Room if self.send_next().is_some_and(|goodbye| goodbye) => break,
                    LinkEvent::Room | LinkEvent::Message(_) | LinkEvent::Unreadable(_) | LinkEvent::Opened => {}
                    LinkEvent::Down(_) => return,
                }
            }
            self.link.finish().await;
        });
        if sent.await.is_err() {
            tracing::warn!("the writer did not take our goodbye in time");
        }
    }
}
