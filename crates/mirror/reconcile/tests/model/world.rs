//! The agents of two backends, a writer and an API server. A test controls everything that can go wrong between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::{GuardConfig, GuardEvent};
use gimbal_model::{BackendName, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::{
    BackendState, Job, JourneyEnd, Output, Policy, Reconciler, RemovalPolicy, Settings, Watched, Withdrawal, Written,
};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, Freshness, Goodbye, GoodbyeReason, Reject, Scope,
    WriterLimits, WriterMessage,
};

use super::server::{Backup, Luck, Server};

pub const BACKENDS: [&str; 2] = ["a", "a-b"];

pub struct Agent {
    pub(super) name: BackendName,
    pub(super) end: AgentEnd,
    /// The Services of its source.
    pub source: BTreeMap<SourceKey, Arc<Service>>,
    starts: u32,
    /// When the agent was last refused; it does not dial again at once.
    pub(super) refused: Option<Instant>,
    pub(super) stream: Option<(u64, VecDeque<WriterMessage>)>,
}

pub struct World {
    pub server: Server,
    pub writer: Reconciler,
    pub agents: Vec<Agent>,
    jobs: VecDeque<Job>,
    /// Answers on their way to the writer.
    answers: VecDeque<(Job, Vec<Written>)>,
    pub now: Instant,
    pub wall: SystemTime,
    /// The stored state of each backend.
    pub kept: BTreeMap<BackendName, BackendState>,
    /// Whether states that the writer wants to store are stored.
    pub keeps: bool,
    /// Backends whose stored state a newer writer stored.
    pub withheld: BTreeSet<BackendName>,
    /// An agent that does not dial.
    pub silent: Option<usize>,
    /// How long a change may wait for later ones of its Service.
    batch_period: Duration,
    /// The policy of each backend; one without is not in the configuration.
    pub policies: BTreeMap<BackendName, Policy>,
    /// The backup from which the API server's store is restored.
    pub backup: Backup,
    /// A Service that the writer cannot read when it arrives.
    pub unreadable: Option<SourceKey>,
    /// How often the writer requested all lists again.
    pub relists: usize,
    /// Namespaces that were created because a policy requires it.
    pub created: Vec<String>,
    /// Namespaces whose next creation fails.
    pub unlucky: BTreeSet<String>,
    api: EndpointsApi,
    epoch: u64,
    /// Removals that were taken back: the backend, the id, how many Services are left, and why.
    pub withdrawn: Vec<(BackendName, String, u64, Withdrawal)>,
    /// The object of each backend that is one, by its UID.
    pub objects: BTreeMap<BackendName, Arc<str>>,
    /// Backends whose held removals were released without an approval, by time or by a snapshot, and how many.
    pub releases: Vec<(BackendName, u64)>,
    /// What came of changes, and the time that each took.
    pub settled: Vec<(JourneyEnd, Duration)>,
}

pub fn key(n: u8) -> SourceKey {
    // "b-svc" of backend "a" and "svc" of backend "a-b" want one name.
    match n % 4 {
        0 => SourceKey::new("one", "svc"),
        1 => SourceKey::new("one", "b-svc"),
        2 => SourceKey::new("two", "svc"),
        _ => SourceKey::new("two", "other"),
    }
}

/// A value for `ports` of [`service`]: two ports have the same name, so the Service cannot be written.
pub const INVALID: u8 = 2;

/// Whether a Service can be written.
pub fn is_valid(service: &Service) -> bool {
    service.header.ports[0].name != service.header.ports[1].name
}

pub fn service(label: u8, ports: u8, hosts: &[u8]) -> Arc<Service> {
    let port = |n: u16| ServicePort {
        name: format!("p{n}").into(),
        port: 80 + n,
        protocol: Protocol::Tcp,
        app_protocol: None,
        target_port: None,
    };
    let set = PortSet::new(vec![EndpointPort {
        name: "p0".into(),
        port: Some(8080 + u16::from(ports)),
        protocol: Protocol::Tcp,
        app_protocol: None,
    }]);
    let labels = [("label".into(), label.to_string().into())].into();
    let both = if ports == INVALID { vec![port(0), port(0)] } else { vec![port(0), port(1)] };
    let header = Header { labels, ports: both, ..Header::default() };
    let endpoints = hosts.iter().map(|host| (set.clone(), Endpoint::ready(IpAddr::from([10, 0, 0, *host + 1]))));
    Arc::new(Service::new(Arc::new(header), endpoints))
}

fn agent_end(name: &BackendName, starts: u32) -> AgentEnd {
    let mut end = AgentEnd::new(AgentConfig {
        backend: name.to_string(),
        instance: format!("{name}-{starts}"),
        version: "test".into(),
    });
    end.set_incarnation(format!("uid of {name}"));
    end
}

impl World {
    pub fn new(api: EndpointsApi, guard: GuardConfig) -> Self {
        let now = Instant::now();
        let agents = BACKENDS
            .iter()
            .map(|name| {
                let name = BackendName::parse(name).unwrap();
                let mut end = agent_end(&name, 0);
                end.source_complete();
                Agent { name, end, source: BTreeMap::new(), starts: 0, refused: None, stream: None }
            })
            .collect();
        // Tests of the time before a removal have one.
        let on_removal = RemovalPolicy { not_ready_for: Duration::ZERO };
        let policy = Policy { guard, on_removal, ..Policy::default() };
        let policies = BACKENDS.iter().map(|name| (BackendName::parse(name).unwrap(), policy.clone())).collect();
        let mut world = Self {
            server: Server::default(),
            writer: Self::writer(api, Duration::ZERO, &policies, now),
            agents,
            jobs: VecDeque::new(),
            answers: VecDeque::new(),
            now,
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30),
            kept: BTreeMap::new(),
            keeps: true,
            withheld: BTreeSet::new(),
            silent: None,
            batch_period: Duration::ZERO,
            policies,
            backup: Server::default().back_up(),
            unreadable: None,
            relists: 0,
            created: Vec::new(),
            unlucky: BTreeSet::new(),
            api,
            epoch: 1,
            withdrawn: Vec::new(),
            objects: BTreeMap::new(),
            releases: Vec::new(),
            settled: Vec::new(),
        };
        world.server.set_namespace("one", true);
        world.server.set_namespace("two", true);
        world.backup = world.server.back_up();
        world.list();
        world.writer.lead(Some(1));
        world
    }

    fn writer(
        api: EndpointsApi,
        batch_period: Duration,
        policies: &BTreeMap<BackendName, Policy>,
        now: Instant,
    ) -> Reconciler {
        let mut writer = Reconciler::new(Settings {
            api,
            limits: WriterLimits {
                credit: Credit { changes: 3, bytes: 1 << 20 },
                heartbeat_timeout: Duration::from_secs(15),
            },
            comparison_interval: Duration::from_secs(300),
        })
        .with_batch_period(batch_period);
        writer.configure(policies.clone(), now);
        writer
    }

    /// From now on changes wait for later ones of their Service. The writer restarts.
    pub fn batch(&mut self, period: Duration) {
        self.batch_period = period;
        self.restart_writer();
    }

    /// Changes the configuration of an agent's backend.
    pub fn configure(&mut self, agent: usize, policy: Option<Policy>) {
        let name = self.agents[agent].name.clone();
        match policy {
            Some(policy) => drop(self.policies.insert(name, policy)),
            None => drop(self.policies.remove(&name)),
        }
        self.writer.configure(self.policies.clone(), self.now);
        self.writer.set_objects(self.objects.clone(), self.now);
        self.collect();
    }

    /// Returns the policy of an agent's backend; `None` if it is not in the configuration.
    pub fn policy(&self, agent: usize) -> Option<&Policy> {
        self.policies.get(&self.agents[agent].name)
    }

    /// Lists every kind, as after a start or a 410.
    pub fn list(&mut self) {
        self.server.listed();
        for kind in Watched::ALL {
            self.writer.list_begin(kind);
            self.server.list(kind).into_iter().for_each(|event| event.deliver(&mut self.writer, self.now));
            self.writer.list_end(kind, self.now);
        }
    }

    pub fn set(&mut self, agent: usize, key: &SourceKey, service: Option<Arc<Service>>) {
        let agent = &mut self.agents[agent];
        match &service {
            Some(service) => agent.source.insert(key.clone(), service.clone()),
            None => agent.source.remove(key),
        };
        agent.end.set(key.clone(), service, self.now);
    }

    pub fn connect(&mut self, agent: usize) {
        self.cut(agent);
        let agent = &mut self.agents[agent];
        agent.end.connected(self.now);
        agent.stream = Some((0, VecDeque::new()));
    }

    pub fn cut(&mut self, agent: usize) {
        let agent = &mut self.agents[agent];
        if let Some((generation, _)) = agent.stream.take() {
            agent.end.disconnected();
            self.writer.closed(&agent.name, generation);
        }
    }

    /// Ends the agent's process. The next one reads the source again.
    pub fn restart_agent(&mut self, agent: usize) {
        self.cut(agent);
        let agent = &mut self.agents[agent];
        agent.starts += 1;
        agent.end = agent_end(&agent.name, agent.starts);
        for (key, service) in &agent.source {
            agent.end.set(key.clone(), Some(service.clone()), self.now);
        }
        agent.end.source_complete();
    }

    /// Ends the writer's process and starts another one; everything in flight is lost.
    pub fn restart_writer(&mut self) {
        self.kill_writer();
        self.list();
        self.lead();
    }

    /// Like [`World::restart_writer`], but the writer leads and receives the agents' data before it has listed the
    /// Gimbal cluster.
    pub fn restart_writer_unlisted(&mut self) {
        self.kill_writer();
        self.lead();
    }

    fn kill_writer(&mut self) {
        for agent in 0..self.agents.len() {
            self.cut(agent);
        }
        self.jobs.clear();
        self.answers.clear();
        self.writer = Self::writer(self.api, self.batch_period, &self.policies, self.now);
        self.writer.set_objects(self.objects.clone(), self.now);
    }

    /// The writer reads the stored states, and leads.
    fn lead(&mut self) {
        for (name, state) in &self.kept {
            if self.withheld.contains(name) {
                let incarnation = state.incarnation.clone();
                self.writer.restore_withheld(name, incarnation, "its record is for another", self.now, self.wall);
            } else {
                self.writer.restore(name, state.clone(), self.now, self.wall);
            }
        }
        self.epoch += 1;
        self.writer.lead(Some(self.epoch));
    }

    /// The lease expires without a new holder, and the process goes on: its streams end.
    pub fn lose_lease(&mut self) {
        self.writer.lead(None);
        self.collect();
        for agent in 0..self.agents.len() {
            self.cut(agent);
        }
    }

    /// The same process gets the lease again, in another epoch. If it still has the lease, it loses it first.
    pub fn regain_lease(&mut self) {
        self.lose_lease();
        self.lead();
    }

    /// A namespace of an agent's source, or all of it, becomes unknown.
    pub fn scope_unknown(&mut self, agent: usize, namespace: Option<&str>) {
        let scope = namespace.map_or(Scope::All, |name| Scope::Namespaces(vec![name.into()]));
        self.agents[agent].end.scope_unknown(scope, "a test".into());
    }

    /// Returns how many changes of a connected agent the writer has not acknowledged; 0 if the agent is not connected.
    pub fn unacknowledged(&self, agent: usize) -> usize {
        if self.agents[agent].stream.is_some() { self.untold(agent) } else { 0 }
    }

    /// All of an agent's source is known.
    pub fn source_complete(&mut self, agent: usize) {
        self.agents[agent].end.source_complete();
    }

    /// The agent sends one message. Returns false if it has none, was refused, or sent only a heartbeat.
    pub fn speak(&mut self, of: usize) -> bool {
        let agent = &mut self.agents[of];
        let Some((generation, _)) = &mut agent.stream else { return false };
        let Some(mut message) = agent.end.next(self.now) else { return false };
        if let Some(key) = &self.unreadable {
            super::unreadable::spoil(&mut message, key);
        }
        let data = !matches!(message, AgentMessage::Heartbeat { .. });
        match message {
            AgentMessage::Hello(hello) => match self.writer.open(&agent.name, &hello, self.now) {
                Ok(opened) => *generation = opened,
                // It dials again later.
                Err(Goodbye { reason: GoodbyeReason::UnknownBackend | GoodbyeReason::NotLeader, .. }) => {
                    agent.refused = Some(self.now);
                    self.cut(of);
                    return false;
                }
                Err(goodbye) => panic!("refused: {goodbye:?}"),
            },
            message => self.writer.receive(&agent.name, *generation, message, self.now),
        }
        self.collect();
        data
    }

    /// The agent reports that its source has been silent for `age`.
    pub fn say_silent(&mut self, agent: usize, age: Duration) {
        let agent = &self.agents[agent];
        let Some((generation, _)) = &agent.stream else { return };
        let sources = vec![Freshness { kind: "services".into(), age: Some(age) }];
        self.writer.receive(
            &agent.name,
            *generation,
            AgentMessage::Heartbeat { sources, backlog: 0, clock_ms: None },
            self.now,
        );
    }

    /// Carries out the writer's outputs.
    pub fn collect(&mut self) {
        for output in self.writer.take_outputs() {
            match output {
                Output::Send { backend, generation, message } => {
                    let agent = self.agents.iter_mut().find(|agent| agent.name == backend).unwrap();
                    if let Some((_, queue)) = agent.stream.as_mut().filter(|(own, _)| *own == generation || *own == 0) {
                        queue.push_back(message);
                    }
                }
                Output::Close { backend, generation } => {
                    let agent = self.agents.iter_mut().find(|agent| agent.name == backend).unwrap();
                    if agent.stream.as_ref().is_some_and(|(own, _)| *own == generation) {
                        agent.stream = None;
                        agent.end.disconnected();
                    }
                }
                // A state is stored at once, or never.
                Output::Keep { backend, version, state } if self.keeps && !self.withheld.contains(&backend) => {
                    self.kept.insert(backend.clone(), state);
                    self.writer.kept(&backend, version, self.now);
                }
                Output::ListAgain => {
                    self.relists += 1;
                    self.list();
                }
                Output::Forget { backend } if !self.withheld.contains(&backend) => drop(self.kept.remove(&backend)),
                Output::RemovalWithdrawn { backend, id, services, why } => {
                    self.withdrawn.push((backend, id, services, why));
                }
                Output::CreateNamespace { namespace, .. } if self.unlucky.remove(&*namespace) => {
                    self.writer.namespace_created(&namespace, Err("a test".into()), self.now);
                }
                Output::CreateNamespace { namespace, .. } => {
                    self.created.push(namespace.to_string());
                    self.server.set_namespace(&namespace, true);
                    self.writer.namespace_created(&namespace, Ok(()), self.now);
                }
                Output::Guard { backend, event: GuardEvent::Released { endpoints, .. } } => {
                    self.releases.push((backend, endpoints));
                }
                Output::Settled { end, journey, .. } => self.settled.push((end, journey.legs(self.now).total())),
                Output::Keep { .. }
                | Output::Forget { .. }
                | Output::Loss { .. }
                | Output::Touched(_)
                | Output::Guard { .. }
                | Output::Accepted { .. } => {}
            }
        }
    }

    /// The agent receives one message.
    pub fn hear(&mut self, of: usize) -> bool {
        self.collect();
        let agent = &mut self.agents[of];
        let Some((_, queue)) = &mut agent.stream else { return false };
        let Some(message) = queue.pop_front() else { return false };
        if let AgentVerdict::Close { .. } = agent.end.receive(message, self.now) {
            self.cut(of);
        }
        true
    }

    /// The writer receives one event of a watch.
    pub fn watch(&mut self) -> bool {
        let Some(event) = self.server.events.pop_front() else { return false };
        event.deliver(&mut self.writer, self.now);
        true
    }

    /// The writer hands out a job, which is answered later.
    pub fn start_job(&mut self) -> bool {
        match self.writer.next_job(self.now) {
            Some(job) => {
                self.jobs.push_back(job);
                true
            }
            None => false,
        }
    }

    /// The oldest job is carried out; its answers are then on their way.
    pub fn carry_out_job(&mut self, luck: Luck) -> bool {
        let Some(job) = self.jobs.pop_front() else { return false };
        let written = job.carry_out(|action| self.server.write(action, luck));
        self.answers.push_back((job, written));
        true
    }

    /// The oldest answers arrive. If there are none, the oldest job is carried out first.
    pub fn finish_job(&mut self, luck: Luck) -> bool {
        if self.answers.is_empty() && !self.carry_out_job(luck) {
            return false;
        }
        let answered = self.answers.pop_front();
        answered.map(|(job, written)| self.writer.finish(&job, written, self.now)).is_some()
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall += time;
        self.writer.tick(self.now, self.wall);
    }

    /// Returns how many Services the agent has yet to send, or waits for the acknowledgement of.
    pub fn untold(&self, agent: usize) -> usize {
        self.agents[agent].end.pending()
    }

    /// Returns the rejects that the agent has received.
    pub fn rejects(&self, agent: usize) -> Vec<Reject> {
        self.agents[agent].end.rejects().values().cloned().collect()
    }
}
