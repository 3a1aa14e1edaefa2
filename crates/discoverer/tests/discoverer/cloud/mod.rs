//! A cloud with scripted polls, and a discoverer around it.
#![allow(dead_code)] // Each test file uses its share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use gimbal_discoverer::{
    AgentArgs, Changed, Coverage, EventEffect, KindFailure, KindHealth, Program, Setup, Source, SourceMetrics,
    SourceStatus, TraceArgs,
};
use gimbal_model::{Endpoint, Header, PortSet, Service, SourceKey};
use gimbal_session::{Freshness, Reject, Scope};
use gimbal_testkit::eventually;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

use running::{PORTS, RunningDiscoverer, SOON};

#[path = "../../running/mod.rs"]
mod running;

type Services = BTreeMap<SourceKey, Arc<Service>>;

/// The result of a poll.
#[derive(Debug, Default)]
pub struct Poll {
    services: Services,
    /// Why the whole poll failed; `None` if it did not.
    down: Option<String>,
    /// Projects that could not be listed in this poll.
    failed: Vec<Arc<str>>,
}

impl Poll {
    /// Creates a result from a `namespace/name address` for each Service.
    pub fn of(services: &[&str]) -> Self {
        let service = |text: &&str| {
            let (key, address) = text.split_once(' ').unwrap();
            let (namespace, name) = key.split_once('/').unwrap();
            let endpoint = Endpoint::ready(address.parse::<IpAddr>().unwrap());
            let service = Service::new(Arc::new(Header::default()), [(PortSet::default(), endpoint)]);
            (SourceKey::new(namespace, name), Arc::new(service))
        };
        Self { services: services.iter().map(service).collect(), ..Self::default() }
    }

    pub fn down(reason: &str) -> Self {
        Self { down: Some(reason.to_owned()), ..Self::default() }
    }

    pub fn failed(mut self, project: &str) -> Self {
        self.failed.push(project.into());
        self
    }
}

enum Event {
    Polled(Poll),
    Replaced(&'static str),
}

/// The pure state of the source.
struct State {
    incarnation: &'static str,
    offered: Services,
    now: Services,
    pools: KindHealth,
    coverage: Coverage,
}

impl State {
    fn new(incarnation: &'static str) -> Self {
        let (offered, now) = (Services::new(), Services::new());
        Self { incarnation, offered, now, pools: KindHealth::default(), coverage: Coverage::Nothing }
    }

    fn polled(&mut self, poll: Poll, now: Instant) {
        if let Some(reason) = poll.down {
            self.pools.failed(KindFailure::Denied, &*reason, now);
            self.coverage = Coverage::Unknown(vec![(Scope::All, reason)]);
            return;
        }
        self.pools.listed(now);
        let kept = self.now.iter().filter(|(key, _)| poll.failed.contains(&key.namespace));
        let kept: Services = kept.map(|(key, service)| (key.clone(), service.clone())).collect();
        self.now = poll.services;
        self.now.extend(kept);
        let unknown = |project: Arc<str>| {
            let reason = format!("project {project}: 500");
            (Scope::Namespaces(vec![project]), reason)
        };
        let parts: Vec<_> = poll.failed.into_iter().map(unknown).collect();
        self.coverage = if parts.is_empty() { Coverage::Complete } else { Coverage::Unknown(parts) };
    }
}

impl SourceStatus for State {
    fn incarnation(&self) -> Option<&str> {
        Some(self.incarnation)
    }
    fn identified_by(&self) -> &'static str {
        "Keystone's URL and the region"
    }
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
    fn freshness(&self, now: Instant) -> Vec<Freshness> {
        vec![Freshness { kind: "pools".into(), age: self.pools.age(now) }]
    }
    fn trouble(&self) -> Option<String> {
        self.pools.trouble().map(ToOwned::to_owned)
    }
    fn skipped(&self) -> Vec<(&'static str, u64)> {
        vec![("NoName", 3)]
    }
    fn explain(&self, key: &SourceKey) -> Vec<String> {
        vec![format!("{key} is made up")]
    }
}

/// The source: the state, and the channel on which a polling task would send.
struct Cloud {
    state: State,
    events: mpsc::Receiver<Event>,
    heard: Arc<Mutex<Vec<String>>>,
    metrics: SourceMetrics,
    polls: Counter,
}

impl Source for Cloud {
    type Event = Event;
    type Status = State;

    async fn event(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, event: Event, now: Instant) -> EventEffect {
        match event {
            Event::Polled(poll) => {
                self.polls.inc();
                match &poll.down {
                    Some(_) => self.metrics.failed("pools", "Server"),
                    None => self.metrics.listed("pools"),
                }
                self.state.polled(poll, now);
                EventEffect::Continues
            }
            Event::Replaced(incarnation) => {
                self.state = State::new(incarnation);
                EventEffect::Replaced
            }
        }
    }

    fn drain(&mut self, _: Instant) -> Changed {
        let state = &mut self.state;
        let before = std::mem::replace(&mut state.offered, state.now.clone());
        let gone = before.keys().filter(|key| !state.now.contains_key(*key)).map(|key| (key.clone(), None));
        let set = state.now.iter().filter(|(key, service)| before.get(*key) != Some(*service));
        gone.chain(set.map(|(key, service)| (key.clone(), Some(service.clone())))).collect()
    }

    fn status(&self) -> &State {
        &self.state
    }

    fn rejected(&mut self, key: &SourceKey, reject: &Reject, is_known: bool) {
        let again = if is_known { " again" } else { "" };
        self.heard.lock().unwrap().push(format!("{key} {}: {}{again}", reject.reason.as_str(), reject.message));
    }

    fn resolved(&mut self, key: &SourceKey) {
        self.heard.lock().unwrap().push(format!("{key} resolved"));
    }
}

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    traces: TraceArgs,
}

/// A running discoverer of the scripted cloud, in this process.
pub struct Running {
    events: mpsc::Sender<Event>,
    heard: Arc<Mutex<Vec<String>>>,
    discoverer: RunningDiscoverer,
}

impl Deref for Running {
    type Target = RunningDiscoverer;

    fn deref(&self) -> &RunningDiscoverer {
        &self.discoverer
    }
}

impl Running {
    pub async fn start(more: &[&str]) -> Self {
        let fixed = ["x", "--backend-name", "osp1"];
        let args = Args::try_parse_from(fixed.iter().chain(&PORTS).chain(more)).unwrap();
        let program = Program { name: "gimbal-scripted-discoverer", version: "1.2.3" };
        let mut setup = Setup::new(args.agent, program).unwrap();
        setup.trace(args.traces);
        let polls = Counter::default();
        setup.registry().register("gimbal_discoverer_polls", "Polls that ended", polls.clone());
        let (sender, events) = mpsc::channel(1);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let state = State::new("http://keystone/RegionOne");
        let cloud = Cloud { state, events, heard: heard.clone(), metrics: setup.source_metrics(), polls };
        let discoverer = RunningDiscoverer::start(setup.discover(cloud).await.unwrap());
        Self { events: sender, heard, discoverer }
    }

    pub async fn poll(&self, poll: Poll) {
        self.events.send(Event::Polled(poll)).await.ok().unwrap();
    }

    pub async fn replaced(&self, incarnation: &'static str) {
        self.events.send(Event::Replaced(incarnation)).await.ok().unwrap();
    }

    /// Waits until the source received exactly these rejects and resolutions.
    pub async fn until_heard(&self, expected: &[&str]) {
        eventually("the source hears of it", SOON, async || {
            let heard = self.heard.lock().unwrap().clone();
            if heard == expected { Ok(()) } else { Err(format!("{heard:?}")) }
        })
        .await
        .unwrap();
    }

    /// Waits until the metrics have a line with this prefix.
    pub async fn metric(&self, line: &str) {
        eventually("the metrics show it", SOON, async || {
            let (_, text) = self.get("/metrics").await;
            if text.lines().any(|there| there.starts_with(line)) { Ok(()) } else { Err(format!("{line}: {text}")) }
        })
        .await
        .unwrap();
    }

    /// Returns whether grpc.health.v1 reports the whole server as serving.
    pub async fn serves(&self) -> bool {
        use tonic_health::pb::health_check_response::ServingStatus;
        use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
        let answer = HealthClient::new(self.channel().await).check(HealthCheckRequest::default()).await.unwrap();
        answer.into_inner().status() == ServingStatus::Serving
    }

    pub async fn stop(self) {
        self.discoverer.stop().await;
    }
}
