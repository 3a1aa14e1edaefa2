//! The cluster as a source: its watches, the checks of its identity, and the writes that the core decides on.

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};
use gimbal_discoverer::{
    Changed, ContentRequest, EventEffect, MaySpeak, Source, SourceMetrics, SourceReply, SourceStatus as _,
    UnhandledReport,
};
use gimbal_kubernetes_agent::{FoundIdentity, failure_label, identify};
use gimbal_kubernetes_client::{ApiError, Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_events::EventQueue;
use gimbal_kubernetes_objects::TlsSecret;
use gimbal_kuryr_controller_core::KuryrSettings;
use gimbal_kuryr_model::{CloudFacts, DesiredKey, DesiredKind, Phase};
use gimbal_kuryr_resource::{ClusterWrite, WriteOutcome};
use gimbal_kuryr_router_core::RouterSettings;
use gimbal_kuryr_translate::KnownSecret;
use gimbal_kuryr_wire::Kuryr;
use gimbal_lease::{Leadership, Moment};
use gimbal_model::BackendName;
use gimbal_runtime::Liveness;
use gimbal_schedule::Pause;
use gimbal_session::{Credit, Reject};
use jiff::Timestamp;
use tokio::sync::watch as value;

use crate::certificate::known_secret;
use crate::contents::{ContentReads, EndedRead};
use crate::election::may_speak;
use crate::kinds::kind_name;
use crate::kuryr_metrics::KuryrMetrics;
use crate::metrics::ControllerMetrics;
use crate::notice::event;
use crate::state::{ClusterNotice, ControllerState, ControllerWatchEvent};
use crate::writes::{EndedWrite, carry_out};

/// Reports that may be on their way, and their bytes.
const REPORTS: Credit = Credit { changes: 256, bytes: 1 << 20 };

/// How often the metrics are set.
const SHOW: Duration = Duration::from_secs(1);

/// What [`KuryrSource::new`] needs.
pub(crate) struct SourceParts {
    pub(crate) cluster_name: BackendName,
    /// For reads.
    pub(crate) cluster: Cluster,
    /// For writes: it sends them only while this process leads.
    pub(crate) permitted: Cluster,
    pub(crate) write_concurrency: usize,
    pub(crate) settings: KuryrSettings,
    /// Unset where Ingresses are not served.
    pub(crate) router_settings: Option<RouterSettings>,
    pub(crate) leadership: value::Receiver<Leadership>,
    /// Beats while the owner works.
    pub(crate) works: Liveness,
    pub(crate) source_metrics: SourceMetrics,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) kuryr_metrics: KuryrMetrics,
}

/// The cluster, and what is written to it.
pub(crate) struct KuryrSource {
    cluster_name: BackendName,
    cluster: Cluster,
    permitted: Cluster,
    write_concurrency: usize,
    state: ControllerState,
    watches: BoxStream<'static, ControllerWatchEvent>,
    nodes: Option<BoxStream<'static, ControllerWatchEvent>>,
    asked: value::Sender<u64>,
    found: BoxStream<'static, FoundIdentity>,
    writes: FuturesUnordered<BoxFuture<'static, EndedWrite>>,
    events: EventQueue<ControllerMetrics>,
    leadership: value::Receiver<Leadership>,
    /// The epoch that this process leads in.
    leads: Option<u64>,
    /// The API server asked for it, so it counts for all writes.
    pause: Pause,
    works: Liveness,
    source_metrics: SourceMetrics,
    metrics: ControllerMetrics,
    kuryr_metrics: KuryrMetrics,
    /// When the metrics were set last.
    shown: Option<Instant>,
    contents: ContentReads,
    /// Reports that are asked for again.
    early: Vec<UnhandledReport<Kuryr>>,
    /// Whose turn it is to write: that of the core for Ingresses.
    routers_write: bool,
    /// What the writer said of Ingresses last.
    enable_ingress: Option<bool>,
}

/// An event of the source.
#[allow(clippy::large_enum_variant)] // Nearly all events are of the large variant: a box would cost each of them.
pub(crate) enum ControllerEvent {
    Watched(ControllerWatchEvent),
    Found(FoundIdentity),
    Wrote(EndedWrite),
    EventWritten(Result<(), ApiError>),
    ContentRead(EndedRead),
    /// The leadership was renewed, or changed.
    Leadership,
}

impl KuryrSource {
    pub(crate) fn new(parts: SourceParts) -> Self {
        let (asked, questions) = value::channel(0);
        let mut state = ControllerState::new(parts.settings, parts.router_settings);
        // Without election this process leads from the start, and nothing changes ever.
        let leads = parts.leadership.borrow().epoch();
        state.set_leading(leads.is_some());
        parts.metrics.set_leading(leads.is_some());
        Self {
            found: identify(parts.cluster.clone(), questions).boxed(),
            contents: ContentReads::new(&parts.cluster),
            watches: watches(&parts.cluster, state.routers.is_some()),
            nodes: None,
            asked,
            state,
            writes: FuturesUnordered::new(),
            events: EventQueue::new(&parts.permitted, parts.metrics.clone()),
            leads,
            pause: Pause::default(),
            cluster_name: parts.cluster_name,
            cluster: parts.cluster,
            permitted: parts.permitted,
            write_concurrency: parts.write_concurrency,
            leadership: parts.leadership,
            works: parts.works,
            source_metrics: parts.source_metrics,
            metrics: parts.metrics,
            kuryr_metrics: parts.kuryr_metrics,
            shown: None,
            early: Vec::new(),
            routers_write: false,
            enable_ingress: None,
        }
    }

    fn watched(&mut self, event: ControllerWatchEvent, now: Instant) {
        match self.state.event(event, now) {
            Some(ClusterNotice::Failed(kind, error)) => {
                tracing::debug!(kind = kind_name(kind), %error, "a watch failed");
                self.source_metrics.failed(kind_name(kind), failure_label(&error));
            }
            Some(ClusterNotice::WentBack { kind, seen, listed }) => {
                let kind = kind_name(kind);
                tracing::warn!(
                    kind,
                    seen,
                    listed,
                    "the cluster's store went back to an older state: all of it is read anew, and nothing that is missing is deleted"
                );
                // What came of these lists was read before that was known.
                self.watches = watches(&self.cluster, self.state.routers.is_some());
                self.nodes = self.nodes.take().map(|_| nodes(&self.cluster));
            }
            Some(ClusterNotice::Listed(kind)) => self.source_metrics.listed(kind_name(kind)),
            None => {}
        }
    }

    /// Handles a check of the cluster's identity.
    fn found(&mut self, found: FoundIdentity, now: Instant) -> EventEffect {
        let incarnation = match found.incarnation {
            Ok(incarnation) => incarnation,
            Err(error) => {
                let reason = error.to_string();
                if self.state.kinds.set_identity_trouble(Some(reason.clone())) {
                    tracing::warn!(reason, "cannot read namespace kube-system, which tells the cluster's identity");
                }
                return EventEffect::Continues;
            }
        };
        if self.state.kinds.set_identity_trouble(None) {
            tracing::info!("the cluster's identity can be read again");
        }
        let known = self.state.incarnation().map(ToOwned::to_owned);
        if self.state.identified(&incarnation, found.asked, now) {
            if known.is_none() {
                tracing::info!(incarnation, "the cluster is identified");
            }
            return EventEffect::Continues;
        }
        tracing::error!(before = known, now = incarnation, "another cluster answers under this address: starting over");
        self.state.start_over(Some(incarnation));
        self.state.set_leading(self.leads.is_some());
        self.watches = watches(&self.cluster, self.state.routers.is_some());
        self.nodes = None;
        self.state.kinds.want_nodes(false);
        // Writes to the other cluster are of no matter any more.
        self.writes = FuturesUnordered::new();
        self.events.clear();
        self.contents.forget();
        EventEffect::Replaced
    }

    /// Follows the leadership. Nothing that was offered or received in another epoch counts.
    fn follow_leadership(&mut self) -> EventEffect {
        let epoch = self.leadership.borrow_and_update().epoch();
        if epoch == self.leads {
            return EventEffect::Continues;
        }
        let led = std::mem::replace(&mut self.leads, epoch).is_some();
        tracing::info!(leading = epoch.is_some(), epoch, "leadership changed");
        self.metrics.set_leading(epoch.is_some());
        self.state.set_leading(false);
        self.state.set_leading(epoch.is_some());
        self.contents.forget();
        if led { EventEffect::StartedOver } else { EventEffect::Continues }
    }

    fn may_write(&self) -> bool {
        self.leads.is_some() && self.leadership.borrow().may_write(Moment::now())
    }

    /// Begins the writes that the core decides on.
    fn write(&mut self, now: Instant) {
        let paused = self.pause.until(now).is_some();
        while !paused && self.writes.len() < self.write_concurrency && self.may_write() {
            let Some(write) = self.next_write(now) else { break };
            self.writes.push(carry_out(self.permitted.clone(), write, self.metrics.clone()).boxed());
        }
        let mut notices = self.state.core.drain_notices();
        notices.extend(self.state.routers.iter_mut().flat_map(|routers| routers.drain_notices()));
        if self.leads.is_some() {
            let at = Timestamp::now();
            notices.iter().for_each(|notice| self.events.push(event(&self.cluster_name, notice, at)));
        }
        if self.may_write() {
            self.events.write_next(now);
        }
    }

    /// Returns the next write. The cores take turns, so that much of one kind does not keep the other one waiting.
    fn next_write(&mut self, now: Instant) -> Option<ClusterWrite> {
        let wall = Timestamp::now();
        self.routers_write = !self.routers_write;
        let ControllerState { core, routers, .. } = &mut self.state;
        let mut of_routers = || routers.as_mut()?.next_write(now, wall);
        if self.routers_write {
            of_routers().or_else(|| core.next_write(now, wall))
        } else {
            core.next_write(now, wall).or_else(of_routers)
        }
    }

    /// Sets the metrics, once a second: to count takes time in a large cluster.
    fn show(&mut self, now: Instant) {
        if self.shown.is_none_or(|shown| now.saturating_duration_since(shown) >= SHOW) {
            self.shown = Some(now);
            let ControllerState { core, routers, .. } = &mut self.state;
            let (late, counts) = (core.count_late(now), core.counts());
            self.metrics.show(core.count_services(), &counts, late);
            self.kuryr_metrics.found_stuck(core.drain_stuck());
            self.kuryr_metrics.show(core);
            let (mut in_flight, mut waiting, mut failing) = (counts.in_flight, counts.queued, counts.failing);
            if let Some(routers) = routers {
                let (late, counts) = (routers.count_late(now), routers.counts());
                self.metrics.show_routers(routers.count_ingresses(), &counts, late);
                self.kuryr_metrics.found_stuck(routers.drain_stuck());
                self.kuryr_metrics.show_routers(routers);
                in_flight += counts.in_flight;
                waiting += counts.queued;
                failing += counts.failing;
            }
            self.metrics.show_writes(in_flight, waiting, failing);
        }
    }

    /// Watches nodes where they are needed.
    fn watch_nodes(&mut self) {
        let needed = self.state.core.needs_nodes();
        if needed != self.nodes.is_some() {
            self.state.kinds.want_nodes(needed);
            self.nodes = needed.then(|| nodes(&self.cluster));
        }
    }
}

impl Source<Kuryr> for KuryrSource {
    type Event = ControllerEvent;
    type Status = ControllerState;

    async fn event(&mut self) -> ControllerEvent {
        tokio::select! {
            Ok(()) = self.leadership.changed() => ControllerEvent::Leadership,
            Some(ended) = self.writes.next() => ControllerEvent::Wrote(ended),
            Some(event) = self.watches.next() => ControllerEvent::Watched(event),
            Some(event) = next(&mut self.nodes) => ControllerEvent::Watched(event),
            Some(found) = self.found.next() => ControllerEvent::Found(found),
            written = self.events.written() => ControllerEvent::EventWritten(written),
            read = self.contents.ended() => ControllerEvent::ContentRead(read),
        }
    }

    fn apply(&mut self, event: ControllerEvent, now: Instant) -> EventEffect {
        match event {
            ControllerEvent::Watched(event) => self.watched(event, now),
            ControllerEvent::Found(found) => return self.found(found, now),
            ControllerEvent::Wrote(EndedWrite { object, outcome, asks_all_to_wait }) => {
                if let WriteOutcome::Throttled(retry_after) = &outcome
                    && asks_all_to_wait
                {
                    self.pause.begin(*retry_after, now);
                }
                match &mut self.state.routers {
                    Some(routers) if object.kind.is_of_ingress() => routers.wrote(&object, outcome, now),
                    _ => self.state.core.wrote(&object, outcome, now),
                }
            }
            ControllerEvent::EventWritten(result) => self.events.handle(result, now),
            ControllerEvent::ContentRead(read) => self.contents.take(read),
            ControllerEvent::Leadership => return self.follow_leadership(),
        }
        EventEffect::Continues
    }

    fn drain(&mut self, now: Instant) -> Changed<Kuryr> {
        self.works.beat();
        self.state.tick(now);
        self.asked
            .send_if_modified(|asked| std::mem::replace(asked, self.state.kinds.asked()) != self.state.kinds.asked());
        self.watch_nodes();
        self.state.decide();
        self.write(now);
        self.show(now);
        let mut drained = self.state.core.drain(now);
        drained.extend(self.state.routers.iter_mut().flat_map(|routers| routers.drain(now)));
        drained
    }

    fn deadline(&self) -> Option<Instant> {
        // What waits for a lease that is late, or for a write to end, is looked at when that happens.
        let of_routers = self.state.routers.as_ref().and_then(|routers| routers.deadline());
        let cores = [self.state.core.deadline(), of_routers].into_iter().flatten().min();
        let next = cores.max(self.pause.until(Instant::now()));
        let writes = next.filter(|_| self.may_write() && self.writes.len() < self.write_concurrency);
        let events = self.events.deadline().filter(|_| self.may_write());
        [self.state.kinds.deadline(), writes, events].into_iter().flatten().min()
    }

    fn status(&self) -> &ControllerState {
        &self.state
    }

    fn may_speak(&self) -> MaySpeak {
        let now = may_speak(&self.leadership.borrow(), Moment::now());
        // A change of leadership counts once it was applied.
        if self.leads.is_some() { now } else { MaySpeak::No }
    }

    fn report_credit(&self) -> Option<Credit> {
        Some(REPORTS)
    }

    fn report_received(&mut self, report: UnhandledReport<Kuryr>) {
        let (key, latest) = (report.key().clone(), report.report().clone());
        // That nothing is left may be about a former deletion, and something may have been made since.
        if latest.phase == Phase::Gone && report.is_early() {
            return self.early.push(report);
        }
        // Nearly all wait for nothing, and have room for it nevertheless.
        let (report, now) = (Box::new(report), Instant::now());
        let times = match &mut self.state.routers {
            Some(routers) if key.kind == DesiredKind::L7Router => {
                routers.reported(&key, &latest, report, now);
                routers.drain_times()
            }
            _ => {
                self.state.core.reported(&key, &latest, report, now);
                self.state.core.drain_times()
            }
        };
        times.into_iter().for_each(|time| self.metrics.became_ready(time));
    }

    fn rejected(&mut self, key: &DesiredKey, reject: &Reject<Kuryr>, _is_known: bool) {
        // The statuses remember what was said before.
        match &mut self.state.routers {
            Some(routers) if key.kind == DesiredKind::L7Router => {
                routers.rejected(key, reject.reason.as_str(), &reject.message);
            }
            _ => self.state.core.rejected(key, reject.reason.as_str(), &reject.message),
        }
    }

    fn resolved(&mut self, key: &DesiredKey) {
        match &mut self.state.routers {
            Some(routers) if key.kind == DesiredKind::L7Router => routers.resolved(key, Instant::now()),
            _ => self.state.core.resolved(key, Instant::now()),
        }
    }

    fn stream_opened(&mut self) {
        self.state.core.stream_opened();
        if let Some(routers) = &mut self.state.routers {
            routers.stream_opened();
        }
    }

    fn facts_received(&mut self, facts: &CloudFacts) {
        if self.enable_ingress.replace(facts.enable_ingress) != Some(facts.enable_ingress) {
            match (self.state.routers.is_some(), facts.enable_ingress) {
                (true, false) => tracing::warn!(
                    "Ingresses are not served: enable_ingress is not set in the configuration of openstack-writer"
                ),
                (false, true) => tracing::warn!(
                    "Ingresses are not served, and nothing of this cluster counts as an orphan: --ingress is not set, but \
                     enable_ingress is in the configuration of openstack-writer; set both, or neither"
                ),
                (true, true) | (false, false) => {}
            }
        }
        self.state.set_facts(facts);
    }

    fn content_requested(&mut self, request: ContentRequest<Kuryr>) {
        let routers = self.state.routers.as_ref().filter(|_| self.leads.is_some());
        let secrets = routers.map(|routers| routers.secrets_with(*request.hash())).unwrap_or_default();
        self.contents.request(request, secrets);
    }

    fn drain_replies(&mut self) -> Vec<SourceReply<Kuryr>> {
        let mut handled = self.state.core.drain_handled();
        handled.extend(self.state.routers.iter_mut().flat_map(|routers| routers.drain_handled()));
        let contents = if self.leads.is_some() { self.contents.drain() } else { Vec::new() };
        let early = self.early.drain(..).map(SourceReply::Repeat);
        handled.into_iter().map(|report| SourceReply::Handled(*report)).chain(early).chain(contents).collect()
    }
}

async fn next(events: &mut Option<BoxStream<'static, ControllerWatchEvent>>) -> Option<ControllerWatchEvent> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

fn nodes(cluster: &Cluster) -> BoxStream<'static, ControllerWatchEvent> {
    watch(cluster.clone(), WatchScope::default()).map(ControllerWatchEvent::Node).boxed()
}

/// Watches everything that is always read, as one stream that never ends.
fn watches(cluster: &Cluster, ingress: bool) -> BoxStream<'static, ControllerWatchEvent> {
    let all = WatchScope::default;
    let services = watch(cluster.clone(), all()).map(ControllerWatchEvent::Service);
    let slices = watch(cluster.clone(), all()).map(ControllerWatchEvent::Slice);
    let balancers = watch(cluster.clone(), all()).map(ControllerWatchEvent::LoadBalancer);
    let always = stream::select(stream::select(services, slices), balancers);
    if !ingress {
        return always.boxed();
    }
    let ingresses = watch(cluster.clone(), all()).map(ControllerWatchEvent::Ingress);
    let classes = watch(cluster.clone(), all()).map(ControllerWatchEvent::IngressClass);
    let routers = watch(cluster.clone(), all()).map(ControllerWatchEvent::Router);
    let secrets = WatchScope { field_selector: Some("type=kubernetes.io/tls".into()), ..all() };
    let secrets = watch(cluster.clone(), secrets).map(|event| ControllerWatchEvent::Secret(known(event)));
    let routed = stream::select(stream::select(ingresses, classes), stream::select(routers, secrets));
    stream::select(always, routed).boxed()
}

/// Keeps of each Secret what is to be known of it. Its content goes no further.
fn known(event: WatchEvent<TlsSecret>) -> WatchEvent<KnownSecret> {
    match event {
        WatchEvent::ListBegin => WatchEvent::ListBegin,
        WatchEvent::Listed(page) => WatchEvent::Listed(page.iter().map(known_secret).collect()),
        WatchEvent::WentBack { seen, listed } => WatchEvent::WentBack { seen, listed },
        WatchEvent::ListDone => WatchEvent::ListDone,
        WatchEvent::Applied(secret) => WatchEvent::Applied(known_secret(&secret)),
        WatchEvent::Deleted(secret) => WatchEvent::Deleted(known_secret(&secret)),
        WatchEvent::Alive => WatchEvent::Alive,
        WatchEvent::Failed(error) => WatchEvent::Failed(error),
    }
}
