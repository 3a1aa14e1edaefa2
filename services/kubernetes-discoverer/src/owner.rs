//! The one task that owns all state: source events, the stream and questions meet here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::BoxStream;
use gimbal_kube_io::Cluster;
use gimbal_model::{BackendName, SourceKey};
use gimbal_stream::{AgentConfig, GoodbyeReason};
use gimbal_translate::{Flavour, Selection};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::dial::{Link, LinkEvent, WriterAddress};
use crate::inspect::Question;
use crate::metrics::{Metrics, Shown};
use crate::session::{Notice, Session, SourceEvent};
use crate::signs::Signs;
use crate::source::{self, Found};
use crate::status::{VERSION, View};
use crate::watchers::Watchers;

/// Source events taken before the rest has its turn.
const BATCH: usize = 256;
/// How long a goodbye may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the owner is made of.
pub(crate) struct Parts {
    pub(crate) backend: BackendName,
    pub(crate) cluster: Cluster,
    pub(crate) selection: Selection,
    pub(crate) writer: Option<WriterAddress>,
    pub(crate) instance: String,
    pub(crate) questions: mpsc::Receiver<Question>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) signs: Signs,
}

pub(crate) struct Owner {
    backend: BackendName,
    instance: String,
    cluster: Cluster,
    selection: Selection,
    pub(crate) session: Session,
    events: BoxStream<'static, SourceEvent>,
    asked: watch::Sender<u64>,
    found: mpsc::Receiver<Found>,
    questions: mpsc::Receiver<Question>,
    pub(crate) link: Link,
    dry_run: bool,
    /// The writer took the stream in.
    pub(crate) welcomed: bool,
    pub(crate) link_trouble: Option<String>,
    identity_trouble: Option<String>,
    pub(crate) watchers: Watchers,
    pub(crate) metrics: Arc<Metrics>,
    shown: Shown,
    pub(crate) signs: Signs,
}

impl Owner {
    pub(crate) fn new(parts: Parts) -> Self {
        let (asked, questions) = watch::channel(0);
        let (finder, found) = mpsc::channel(1);
        // Ends by itself when the owner, and with it `asked` and `found`, is gone.
        tokio::spawn(source::identify(parts.cluster.clone(), questions, finder));
        let config = agent_config(&parts.backend, &parts.instance);
        Self {
            session: Session::new(config, parts.selection.clone(), 0),
            events: source::events(&parts.cluster, parts.selection.flavour),
            dry_run: parts.writer.is_none(),
            link: Link::new(parts.writer),
            backend: parts.backend,
            instance: parts.instance,
            cluster: parts.cluster,
            selection: parts.selection,
            asked,
            found,
            questions: parts.questions,
            welcomed: false,
            link_trouble: None,
            identity_trouble: None,
            watchers: Watchers::default(),
            metrics: parts.metrics,
            shown: Shown::default(),
            signs: parts.signs,
        }
    }

    /// Runs until `shutdown`, then says goodbye to the writer.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Whether there may be something to send. If in doubt the stream's end is asked.
        let mut room = true;
        loop {
            let deadline = self.deadline(room);
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(event) = self.events.next() => {
                    self.source_events(event);
                    room = true;
                }
                Some(found) = self.found.recv() => {
                    self.found(found);
                    room = true;
                }
                event = self.link.event(room) => room = self.link_event(event),
                Some(question) = self.questions.recv() => self.answer(question),
                _ = second.tick() => self.every_second(),
                () = sleep_until(deadline.into()) => room = true,
            }
            room |= self.settle();
            self.signs.beat();
        }
        self.farewell().await;
    }

    /// When to look again without an event. The stream's own deadlines matter only while room is not asked for anyway.
    fn deadline(&self, room: bool) -> Instant {
        let now = Instant::now();
        let stream = if room || !self.link.is_open() { None } else { self.session.agent.next_deadline(now) };
        let next = [stream, self.session.deadline()].into_iter().flatten().min();
        next.unwrap_or_else(|| now + Duration::from_secs(60))
    }

    /// Takes this event and what has come since, so that a burst is handed on once.
    fn source_events(&mut self, first: SourceEvent) {
        let mut next = Some(first);
        let mut left = BATCH;
        while let Some(event) = next.take() {
            match self.session.event(event, Instant::now()) {
                Some(Notice::Failed(kind, error)) => {
                    let kind = self.session.name(kind);
                    tracing::debug!(kind, %error, "the source failed");
                    self.metrics.failed(kind, &error);
                }
                Some(Notice::Relisted(kind)) => self.metrics.listed(self.session.name(kind)),
                None => {}
            }
            left -= 1;
            if left > 0 {
                next = futures::FutureExt::now_or_never(self.events.next()).flatten();
            }
        }
        let now = Instant::now();
        if self.selection.flavour == Flavour::Slices && self.session.lacks_slices(now) {
            tracing::info!("the source has no EndpointSlices: reading Endpoints instead");
            self.selection.flavour = Flavour::Endpoints;
            let incarnation = self.session.incarnation().map(ToOwned::to_owned);
            self.begin_session(incarnation);
        }
    }

    /// What the source is was looked at.
    fn found(&mut self, found: Found) {
        let incarnation = match found.incarnation {
            Ok(incarnation) => incarnation,
            Err(error) => {
                let reason = error.to_string();
                if self.identity_trouble.as_ref() != Some(&reason) {
                    tracing::warn!(reason, "cannot read namespace kube-system, which tells the source's identity");
                }
                self.identity_trouble = Some(reason);
                return;
            }
        };
        if self.identity_trouble.take().is_some() {
            tracing::info!("the source's identity can be read again");
        }
        let known = self.session.incarnation().map(ToOwned::to_owned);
        if self.session.found_incarnation(&incarnation, found.asked, Instant::now()) {
            if known.is_none() {
                tracing::info!(incarnation, "the source is identified");
            }
            return;
        }
        tracing::error!(
            before = known,
            now = incarnation,
            "another cluster answers under the source's address: starting over"
        );
        self.metrics.replaced.inc();
        if self.selection.flavour == Flavour::Endpoints {
            self.selection.flavour = Flavour::Slices;
        }
        self.begin_session(Some(incarnation));
    }

    /// Forgets everything about the source and reads it anew. Nothing is removed by that: the writer holds what it has
    /// until the new session has a complete view.
    fn begin_session(&mut self, incarnation: Option<String>) {
        let config = agent_config(&self.backend, &self.instance);
        let asked = self.session.asked();
        let old = std::mem::replace(&mut self.session, Session::new(config, self.selection.clone(), asked));
        if let Some(incarnation) = incarnation {
            self.session.found_incarnation(&incarnation, asked, Instant::now());
        }
        self.events = source::events(&self.cluster, self.selection.flavour);
        self.welcomed = false;
        if self.link.is_open() {
            self.link.close(Some(Duration::ZERO));
        }
        let gone: Vec<SourceKey> = old.agent.services().map(|(key, _)| key.clone()).collect();
        self.tell_watchers(|watchers, view| watchers.everything(view, &gone));
    }

    /// Hands on what changed. True: there may be something to send.
    fn settle(&mut self) -> bool {
        let now = Instant::now();
        let was_complete = self.session.is_complete();
        let was_unknown = self.session.unknown().is_some();
        let changed = self.session.settle(now);
        changed.iter().filter(|(_, service)| service.is_none()).for_each(|(key, _)| self.signs.gone(key));
        self.asked.send_if_modified(|asked| std::mem::replace(asked, self.session.asked()) != self.session.asked());
        let is_complete = self.session.is_complete();
        if is_complete && self.session.incarnation().is_some() {
            self.link.hurry();
        }
        if self.link.is_open() && self.session.agent.wants_redial() {
            tracing::info!("the source is known now: opening a stream with data");
            self.session.agent.disconnected();
            self.welcomed = false;
            self.link.close(Some(Duration::ZERO));
        }
        self.signs.source(&self.session, self.identity_trouble.as_deref());
        self.signs.writer(self.welcomed || self.dry_run);
        if was_unknown != self.session.unknown().is_some() {
            self.tell_watchers(|watchers, view| watchers.everything(view, &[]));
        } else if !changed.is_empty() {
            self.tell_watchers(|watchers, view| watchers.changed(view, changed.iter().map(|(key, _)| key)));
        }
        !changed.is_empty() || was_complete != is_complete
    }

    fn every_second(&mut self) {
        self.watchers.prune();
        let mut shown = std::mem::take(&mut self.shown);
        self.metrics.refresh(&self.view(), &mut shown);
        self.shown = shown;
    }

    fn answer(&mut self, question: Question) {
        // Who no longer waits for an answer does not get one.
        let taken = match question {
            Question::Backend(reply) => reply.send(self.view().backend()).is_ok(),
            Question::Services(request, reply) => reply.send(self.view().services(&request)).is_ok(),
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

    pub(crate) fn tell_watchers(&mut self, tell: impl FnOnce(&mut Watchers, &View<'_>)) {
        let mut watchers = std::mem::take(&mut self.watchers);
        tell(&mut watchers, &self.view());
        self.watchers = watchers;
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            backend: &self.backend,
            instance: &self.instance,
            session: &self.session,
            connected: self.welcomed,
            dry_run: self.dry_run,
            link_trouble: self.link_trouble.as_deref(),
            identity_trouble: self.identity_trouble.as_deref(),
            now: Instant::now(),
        }
    }

    /// Tells the writer that this is no failure, and that we mean to come back.
    async fn farewell(mut self) {
        if !self.link.is_open() {
            return;
        }
        self.session.agent.goodbye(GoodbyeReason::Shutdown, "the discoverer ends");
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

fn agent_config(backend: &BackendName, instance: &str) -> AgentConfig {
    AgentConfig { backend: backend.to_string(), instance: instance.to_owned(), version: VERSION.to_owned() }
}
