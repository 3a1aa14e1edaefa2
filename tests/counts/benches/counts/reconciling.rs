//! The writer's state with many targets: the cost of one change must not grow with their number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use gimbal_kubernetes_objects::{Meta, Namespace};
use gimbal_model::{BackendName, Service, SourceKey};
use gimbal_plan::{Action, EndpointsApi};
use gimbal_reconcile::{Job, Output, Policy, Reconciler, Settings, Watched, Written};
use gimbal_session::{AgentEnd, AgentMessage, AgentVerdict};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::instructions_only;
use crate::planning::stored;
use crate::source::{key, service, with_one_changed};
use crate::streaming::{LIMITS, agent};

/// Shorter than the time-out of heartbeats.
const COMPARISON: Duration = Duration::from_secs(1);
/// The first backend's Service that changes.
const CHANGING: u32 = 0;

struct Backend {
    name: BackendName,
    agent: AgentEnd,
    generation: u64,
}

struct World {
    writer: Reconciler,
    backends: Vec<Backend>,
    now: Instant,
    version: u64,
}

impl World {
    /// Creates `services` Services, divided over `backends` backends, that are in the Gimbal cluster as their agents
    /// want them.
    fn at_rest(backends: u32, services: u32) -> Self {
        let now = Instant::now();
        let settings = Settings { api: EndpointsApi::EndpointSlices, limits: LIMITS, comparison_interval: COMPARISON };
        let mut world = Self { writer: Reconciler::new(settings), backends: Vec::new(), now, version: 0 };
        let names: Vec<BackendName> =
            (0..backends).map(|n| BackendName::parse(&format!("node{n:03}")).unwrap()).collect();
        let policies: BTreeMap<BackendName, Policy> =
            names.iter().map(|name| (name.clone(), Policy::default())).collect();
        world.writer.configure(policies, now);
        for kind in Watched::ALL {
            world.writer.list_begin(kind);
            if kind == Watched::Namespaces {
                (0..services).step_by(100).for_each(|n| world.writer.apply_namespace(&namespace(&key(n))));
            }
            world.writer.list_end(kind, now);
        }
        world.writer.lead(Some(1));
        let (small, changing) = (service(1), service(20));
        for (n, name) in (0..backends).zip(names) {
            let theirs = (n..services).step_by(backends as usize);
            let of = |n| if n == CHANGING { changing.clone() } else { small.clone() };
            let agent = agent(name.as_str(), theirs.map(|n| (key(n), of(n))), now);
            world.backends.push(Backend { name, agent, generation: 0 });
        }
        (0..world.backends.len()).for_each(|n| world.open(n));
        assert!(world.backends.iter().all(|backend| backend.agent.pending() == 0));
        assert_eq!(world.writer.pending(), 0);
        world.writer.tick(now, SystemTime::UNIX_EPOCH);
        world
    }

    fn open(&mut self, n: usize) {
        let Backend { name, agent, generation } = &mut self.backends[n];
        agent.connected(self.now);
        let Some(AgentMessage::Hello(hello)) = agent.next(self.now) else { panic!("Hello comes first") };
        *generation = self.writer.open(name, &hello, self.now).unwrap();
        self.deliver();
        while let Some(message) = self.next(n) {
            self.receive(n, message);
        }
        self.write();
        self.deliver();
    }

    fn next(&mut self, n: usize) -> Option<AgentMessage> {
        self.backends[n].agent.next(self.now)
    }

    fn receive(&mut self, n: usize, message: AgentMessage) {
        let Backend { name, generation, .. } = &self.backends[n];
        self.writer.receive(name, *generation, message, self.now);
    }

    /// Makes all pending writes, on an API server that accepts everything.
    fn write(&mut self) {
        while let Some(job) = self.writer.next_job(self.now) {
            let written = self.answers(&job);
            self.writer.finish(&job, written, self.now);
        }
    }

    fn answers(&mut self, job: &Job) -> Vec<Written> {
        let mut answer = |action: &Action| {
            self.version += 1;
            match action {
                Action::Create(body) | Action::Replace(body) | Action::Patch(body) => {
                    Written::Answered(stored(body.clone(), self.version))
                }
                Action::Delete { .. } => Written::Gone,
            }
        };
        job.carry_out(&mut answer)
    }

    /// Delivers the writer's outputs to the agents.
    fn deliver(&mut self) {
        for output in self.writer.take_outputs() {
            let Output::Send { backend, message, .. } = output else { continue };
            let heard = self.backends.iter_mut().find(|other| other.name == backend).unwrap();
            assert_eq!(heard.agent.receive(message, self.now), AgentVerdict::Continue);
        }
    }
}

fn namespace(key: &SourceKey) -> Namespace {
    Namespace { metadata: Meta { name: key.namespace.clone(), ..Meta::default() } }
}

fn changed(backends: u32, services: u32) -> (World, AgentMessage) {
    let mut world = World::at_rest(backends, services);
    let changed: Service = with_one_changed(&service(20));
    world.backends[0].agent.set(key(CHANGING), Some(changed.into()), world.now);
    let delta = world.next(0).unwrap();
    (world, delta)
}

// From the arrival of a delta to its Ack: one endpoint of twenty.
#[library_benchmark(setup = changed)]
#[bench::beside_1000(1, 1000)]
#[bench::beside_10000(args = (1, 10_000), config = instructions_only())]
#[bench::beside_1000_of_250_backends(250, 1000)]
fn change_through((mut world, delta): (World, AgentMessage)) -> (Vec<Output>, World) {
    world.receive(0, delta);
    world.write();
    let said = world.writer.take_outputs();
    (said, world)
}

// A step of the comparison, which checks two hundred targets.
#[library_benchmark(setup = World::at_rest)]
#[bench::beside_1000(1, 1000)]
#[bench::beside_10000(args = (1, 10_000), config = instructions_only())]
fn comparison_step(mut world: World) -> World {
    world.writer.tick(world.now + COMPARISON, SystemTime::UNIX_EPOCH);
    world
}

// No work is due.
#[library_benchmark(setup = World::at_rest)]
#[bench::beside_1000(1, 1000)]
#[bench::beside_10000(args = (1, 10_000), config = instructions_only())]
#[bench::beside_1000_of_250_backends(250, 1000)]
fn tick(mut world: World) -> (Vec<Output>, World) {
    world.writer.tick(world.now, SystemTime::UNIX_EPOCH);
    (world.writer.take_outputs(), world)
}

/// An unchanged agent of twenty Services reconnects, and the writer requests nothing of it.
fn returning(services: u32) -> World {
    let mut world = World::at_rest(services / 20, services);
    let Backend { name, agent, generation } = &mut world.backends[0];
    agent.disconnected();
    world.writer.closed(name, *generation);
    world
}

#[library_benchmark(setup = returning)]
#[bench::beside_1000(1000)]
#[bench::beside_5000(args = (5000), config = instructions_only())]
fn unchanged_reconnect(mut world: World) -> World {
    world.open(0);
    world
}

library_benchmark_group!(name = reconcile; benchmarks = change_through, comparison_step, tick, unchanged_reconnect);
