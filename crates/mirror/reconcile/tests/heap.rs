//! The memory of both ends is bounded by the objects that exist, never by past events: after many changes they hold
//! as much as ends that received the last state only. Counted in bytes of the heap, because a process's size hides
//! small amounts and includes what the allocator retains.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use allocation_counter::measure;
use gimbal_kubernetes_objects::{
    Endpoint, EndpointConditions, EndpointPort, EndpointSlice, Meta, Service, ServicePort, ServiceSpec, keys,
};
use gimbal_kubernetes_source::{KubernetesIndex, Selection};
use gimbal_model::BackendName;
use gimbal_plan::{Body, EndpointsApi};
use gimbal_reconcile::{Job, Output, Policy, Reconciler, Settings, Watched, Written};
use gimbal_session::{AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, WriterLimits};
use gimbal_simulation::server::{Event, Luck, Server};

const SERVICES: u32 = 200;
const CHANGES: u32 = 20_000;
/// Time between two changes, so that the guard's window covers many of them, but not all.
const PACE: Duration = Duration::from_millis(200);

/// A Service of the source: the value of its label, and the hosts of each slice.
#[derive(Debug, Clone)]
struct Offered {
    label: u32,
    slices: BTreeMap<u32, Vec<u32>>,
}

type Source = BTreeMap<u32, Offered>;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(sides)).unwrap()
    }
}

fn names(n: u32) -> (String, String) {
    (format!("team-{}", n % 10), format!("service-{n}"))
}

fn meta(namespace: String, name: String, labels: &[(&str, &str)]) -> Meta {
    let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Meta { name: name.into(), namespace: namespace.into(), labels, ..Meta::default() }
}

fn service(n: u32, label: u32) -> Service {
    let (namespace, name) = names(n);
    let metadata = meta(namespace, name.clone(), &[("app", &name), ("release", &label.to_string())]);
    let port = ServicePort {
        name: Some("http".into()),
        port: 80,
        protocol: Some("TCP".into()),
        app_protocol: None,
        target_port: None,
    };
    Service { metadata, spec: ServiceSpec { ports: vec![port], ..ServiceSpec::default() } }
}

fn slice(n: u32, part: u32, hosts: &[u32]) -> EndpointSlice {
    let (namespace, name) = names(n);
    let endpoint = |host: &u32| Endpoint {
        addresses: vec![std::net::Ipv4Addr::from(0x0a00_0000 + host).to_string().into()],
        conditions: EndpointConditions { ready: Some(!host.is_multiple_of(7)), ..EndpointConditions::default() },
        zone: Some(format!("zone-{}", host % 3).into()),
        ..Endpoint::default()
    };
    EndpointSlice {
        metadata: meta(namespace, format!("{name}-{part}"), &[(keys::SERVICE_NAME, &name)]),
        address_type: "IPv4".into(),
        endpoints: hosts.iter().map(endpoint).collect(),
        ports: vec![EndpointPort { port: Some(8080), ..EndpointPort::default() }],
    }
}

fn offered(dice: &mut Dice) -> Offered {
    let mut hosts = || (0..40 + dice.roll(40)).map(|_| dice.roll(100_000)).collect();
    let slices = [(0, hosts()), (1, hosts())].into();
    Offered { label: dice.roll(1000), slices }
}

/// Both ends, the stream between them, and the servers on either side.
struct World {
    index: KubernetesIndex,
    agent: AgentEnd,
    writer: Reconciler,
    server: Server,
    backend: BackendName,
    generation: u64,
    now: Instant,
    wall: SystemTime,
}

impl World {
    fn new(server: Server) -> Self {
        let backend = BackendName::parse("node02").unwrap();
        let config = AgentConfig { backend: backend.to_string(), instance: "one".into(), version: "1".into() };
        let limits = WriterLimits {
            credit: Credit { changes: 1000, bytes: 8 << 20 },
            heartbeat_timeout: Duration::from_secs(15),
        };
        let settings =
            Settings { api: EndpointsApi::EndpointSlices, limits, comparison_interval: Duration::from_secs(300) };
        let mut world = Self {
            index: KubernetesIndex::new(Selection::default()),
            agent: AgentEnd::new(config),
            writer: Reconciler::new(settings),
            server,
            backend: backend.clone(),
            generation: 0,
            now: Instant::now(),
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30),
        };
        world.writer.configure([(backend, Policy::default())].into(), world.now);
        (0..10).for_each(|n| world.server.set_namespace(&names(n).0, true));
        world.relist_gimbal();
        world.writer.lead(Some(1));
        world.agent.set_incarnation("uid".into());
        world
    }

    /// The source's watches list everything again, as after an outage.
    fn relist_source(&mut self, source: &Source) {
        self.index.begin_services();
        self.index.begin_slices();
        for (n, offered) in source {
            self.index.apply_service(service(*n, offered.label));
            for (part, hosts) in &offered.slices {
                self.index.apply_slice(slice(*n, *part, hosts));
            }
        }
        self.index.end_services();
        self.index.end_slices();
        self.settle();
        self.agent.source_complete();
    }

    fn relist_gimbal(&mut self) {
        self.server.events.clear();
        Watched::ALL.iter().for_each(|kind| self.writer.list_begin(*kind));
        for namespace in &self.server.namespaces {
            self.writer.apply_namespace(&Server::namespace(namespace));
        }
        for body in self.server.objects.values() {
            tell(&mut self.writer, body, true, self.now);
        }
        Watched::ALL.iter().for_each(|kind| self.writer.list_end(*kind, self.now));
    }

    fn connect(&mut self) {
        self.agent.disconnected();
        self.writer.closed(&self.backend, self.generation);
        self.agent.connected(self.now);
        let Some(AgentMessage::Hello(hello)) = self.agent.next(self.now) else { panic!("Hello comes first") };
        self.generation = self.writer.open(&self.backend, &hello, self.now).unwrap();
    }

    fn settle(&mut self) {
        for (key, service) in self.index.drain() {
            self.agent.set(key, service, self.now);
        }
    }

    /// Delivers and executes everything until nothing is in progress.
    fn run(&mut self) {
        loop {
            let mut idle = true;
            while let Some(message) = self.agent.next(self.now) {
                self.writer.receive(&self.backend, self.generation, message, self.now);
                idle = false;
            }
            while let Some(job) = self.writer.next_job(self.now) {
                let written = self.write(&job);
                self.writer.finish(&job, written, self.now);
                idle = false;
            }
            while let Some(event) = self.server.events.pop_front() {
                match event {
                    Event::Is(body) => tell(&mut self.writer, &body, true, self.now),
                    Event::Gone(body) => tell(&mut self.writer, &body, false, self.now),
                    Event::Namespace(..) => {}
                }
            }
            for output in self.writer.take_outputs() {
                idle = false;
                match output {
                    Output::Send { message, .. } => {
                        assert_eq!(self.agent.receive(message, self.now), AgentVerdict::Continue);
                    }
                    Output::Keep { backend, version, .. } => self.writer.kept(&backend, version, self.now),
                    _ => {}
                }
            }
            if idle {
                return;
            }
        }
    }

    fn write(&mut self, job: &Job) -> Vec<Written> {
        job.carry_out(|action| self.server.write(action, Luck::Good))
    }

    fn pass(&mut self, time: Duration) {
        (self.now, self.wall) = (self.now + time, self.wall + time);
        self.writer.tick(self.now, self.wall);
    }

    /// Applies a random change to the source.
    fn change(&mut self, source: &mut Source, dice: &mut Dice) {
        let there = u32::try_from(source.len()).unwrap();
        let next = source.last_key_value().map_or(0, |(last, _)| last + 1);
        // A new Service gets a name that was never used, because memory that is kept per name forever would then add
        // up.
        let n = *source.keys().nth(dice.roll(SERVICES) as usize).unwrap_or(&next);
        let (namespace, name) = names(n);
        match (source.get_mut(&n), dice.roll(10)) {
            (None, _) => {
                let new = offered(dice);
                self.index.apply_service(service(n, new.label));
                new.slices.iter().for_each(|(part, hosts)| self.index.apply_slice(slice(n, *part, hosts)));
                source.insert(n, new);
            }
            (Some(old), 0) if there > SERVICES / 2 => {
                for part in old.slices.keys() {
                    self.index.delete_slice(&namespace, &format!("{name}-{part}"));
                }
                self.index.delete_service(&namespace, &name);
                source.remove(&n);
            }
            (Some(old), 1) => {
                old.label = dice.roll(1000);
                self.index.apply_service(service(n, old.label));
            }
            (Some(old), _) => {
                // A Service has up to four slices, which fill and become empty; an empty slice is deleted.
                let part = dice.roll(4);
                let hosts = old.slices.entry(part).or_default();
                match dice.roll(20) {
                    0 => hosts.truncate(hosts.len() / 2),
                    1..10 if !hosts.is_empty() => drop(hosts.remove(0)),
                    _ => hosts.push(dice.roll(100_000)),
                }
                if hosts.is_empty() {
                    old.slices.remove(&part);
                    self.index.delete_slice(&namespace, &format!("{name}-{part}"));
                } else {
                    self.index.apply_slice(slice(n, part, hosts));
                }
            }
        }
        self.settle();
        self.pass(PACE);
        self.run();
    }

    /// Lets time pass until the guard forgets the last minutes.
    fn rest(&mut self) {
        for _ in 0..100 {
            self.pass(Duration::from_secs(10));
            self.run();
        }
        assert_eq!((self.agent.pending(), self.writer.pending()), (0, 0));
    }

    /// Returns the bytes of the agent's end, the index and the writer.
    fn sizes(self) -> [u64; 3] {
        let Self { index, agent, writer, .. } = self;
        // Memory that two of them share is freed with the last of them.
        [measure(|| drop(agent)), measure(|| drop(index)), measure(|| drop(writer))]
            .map(|freed| freed.bytes_current.unsigned_abs())
    }
}

fn tell(writer: &mut Reconciler, body: &Body, there: bool, now: Instant) {
    match (body, there) {
        (Body::Service(object), true) => writer.apply_service(object, now),
        (Body::Service(object), false) => writer.delete_service(object, now),
        (Body::Slice(object), true) => writer.apply_slice(object, now),
        (Body::Slice(object), false) => writer.delete_slice(object, now),
        (Body::Endpoints(object), true) => writer.apply_endpoints(object, now),
        (Body::Endpoints(object), false) => writer.delete_endpoints(object, now),
    }
}

/// The allowed excess over an end that received the last state only, in percent. Maps keep room for former entries.
const MORE: u64 = 5;

#[test]
fn after_many_changes_as_much_is_held_as_if_there_had_been_none() {
    let mut dice = Dice(1);
    let mut source: Source = (0..SERVICES).map(|n| (n, offered(&mut dice))).collect();
    let mut changed = World::new(Server::default());
    changed.relist_source(&source);
    changed.connect();
    changed.run();
    for n in 0..CHANGES {
        changed.change(&mut source, &mut dice);
        match n % 2000 {
            500 => changed.connect(),
            1000 => changed.relist_source(&source),
            1500 => changed.relist_gimbal(),
            _ => {}
        }
        changed.run();
    }
    changed.relist_source(&source);
    changed.relist_gimbal();
    changed.rest();
    // All processes start anew. The Gimbal cluster stays as it is, because the placement of endpoints depends on its
    // history.
    let mut fresh = World::new(std::mem::take(&mut changed.server));
    fresh.relist_source(&source);
    fresh.connect();
    fresh.run();
    fresh.rest();
    for (what, (after, without)) in
        ["agent", "index", "writer"].iter().zip(changed.sizes().into_iter().zip(fresh.sizes()))
    {
        let all = format!("the {what} holds {after} bytes after {CHANGES} changes, and {without} without them");
        assert!(after * 100 <= without * (100 + MORE), "{all}");
        println!("{all}");
    }
}
