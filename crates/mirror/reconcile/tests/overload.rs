//! More changes than the API server can handle: the newest values are written, every key gets its turn, and no queue
//! grows. Time is counted in writes, the server's own clock.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Meta, Namespace};
use gimbal_model::{BackendName, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, SourceKey};
use gimbal_plan::{Action, Body, EndpointsApi};
use gimbal_reconcile::{Job, Output, Policy, Reconciler, Settings, Watched, Written};
use gimbal_session::{AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, WriterLimits};

/// Number of concurrent writes.
const LANES: usize = 8;
/// Number of changes during one write.
const CHANGES: u32 = 6;

struct World {
    agent: AgentEnd,
    writer: Reconciler,
    generation: u64,
    keys: usize,
    next: u32,
    /// When each change was made, counted in writes.
    made: Vec<usize>,
    /// The time of the oldest change of each key for which neither it nor a newer change is written yet.
    waits: BTreeMap<usize, usize>,
    running: VecDeque<(Job, Vec<Written>)>,
    writes: usize,
    now: Instant,
}

fn backend() -> BackendName {
    BackendName::parse("flood").unwrap()
}

fn key(n: usize) -> SourceKey {
    SourceKey::new("ns", format!("web{n:04}"))
}

/// Returns a Service whose address encodes the number of the change.
fn service(number: u32) -> Arc<Service> {
    let port = EndpointPort { name: "".into(), port: Some(80), protocol: Protocol::Tcp, app_protocol: None };
    let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
    Arc::new(Service::new(Arc::new(Header::default()), [(PortSet::new(vec![port]), Endpoint::ready(address))]))
}

impl World {
    fn new(keys: usize, credit: u32) -> Self {
        let now = Instant::now();
        let limits = WriterLimits {
            credit: Credit { changes: credit, bytes: 8 << 20 },
            heartbeat_timeout: Duration::from_secs(15),
        };
        let settings =
            Settings { api: EndpointsApi::EndpointSlices, limits, comparison_interval: Duration::from_secs(300) };
        let mut writer = Reconciler::new(settings);
        writer.configure([(backend(), Policy::default())].into(), now);
        for kind in Watched::ALL {
            writer.list_begin(kind);
            if kind == Watched::Namespaces {
                writer.apply_namespace(&Namespace { metadata: Meta { name: "ns".into(), ..Meta::default() } });
            }
            writer.list_end(kind, now);
        }
        writer.lead(Some(1));
        let (instance, version) = (String::new(), String::new());
        let mut agent = AgentEnd::new(AgentConfig { backend: "flood".into(), instance, version });
        agent.set_incarnation("source".into());
        let (waits, running) = (BTreeMap::new(), VecDeque::new());
        let mut world =
            Self { agent, writer, generation: 0, keys, next: 0, made: Vec::new(), waits, running, writes: 0, now };
        for _ in 0..keys {
            world.change();
        }
        world.agent.source_complete();
        world.agent.connected(now);
        loop {
            world.speak();
            if world.write().is_none() {
                break;
            }
        }
        world
    }

    fn change(&mut self) {
        let key_number = self.next as usize % self.keys;
        self.agent.set(key(key_number), Some(service(self.next)), self.now);
        self.waits.entry(key_number).or_insert(self.writes);
        self.made.push(self.writes);
        self.next += 1;
    }

    /// Exchanges all messages between the two ends.
    fn speak(&mut self) {
        loop {
            let said = self.agent.next(self.now);
            let quiet = said.is_none();
            match said {
                Some(AgentMessage::Hello(hello)) => {
                    self.generation = self.writer.open(&backend(), &hello, self.now).unwrap();
                }
                Some(message) => self.writer.receive(&backend(), self.generation, message, self.now),
                None => {}
            }
            while self.running.len() < LANES {
                let Some(job) = self.writer.next_job(self.now) else { break };
                // The server stores the object as it is at this moment.
                let written = job.carry_out(answer);
                self.running.push_back((job, written));
            }
            let outputs = self.writer.take_outputs();
            for output in &outputs {
                if let Output::Send { message, .. } = output {
                    assert_eq!(self.agent.receive(message.clone(), self.now), AgentVerdict::Continue);
                }
            }
            if quiet && outputs.is_empty() {
                return;
            }
        }
    }

    /// Completes the oldest write. Returns the age of the content that it wrote, and how long its key had waited for
    /// it.
    fn write(&mut self) -> Option<(usize, usize)> {
        let (job, written) = self.running.pop_front()?;
        self.writes += 1;
        let mut ages = (0, 0);
        for action in &job.actions {
            let (Action::Create(Body::Slice(slice)) | Action::Replace(Body::Slice(slice))) = action else { continue };
            let address: Ipv4Addr = slice.endpoints[0].addresses[0].parse().unwrap();
            let number = u32::from(address) - 0x0a00_0000;
            let key = number as usize % self.keys;
            let waited = self.waits.remove(&key).map_or(0, |since| self.writes - since);
            ages = (self.writes - self.made[number as usize], waited);
            let newer = (number as usize + self.keys..self.next as usize).step_by(self.keys).next();
            if let Some(newer) = newer {
                self.waits.insert(key, self.made[newer]);
            }
        }
        self.writer.finish(&job, written, self.now);
        Some(ages)
    }
}

fn answer(action: &Action) -> Written {
    let (Action::Create(body) | Action::Replace(body)) = action else { panic!("{action:?}") };
    let mut body = body.clone();
    let meta = match &mut body {
        Body::Service(object) => &mut object.metadata,
        Body::Slice(object) => &mut object.metadata,
        Body::Endpoints(object) => &mut object.metadata,
    };
    let version: u64 = meta.resource_version.parse().unwrap_or_default();
    meta.resource_version = (version + 1).to_string().into();
    if meta.uid.is_empty() {
        meta.uid = "u".into();
    }
    Written::Answered(body)
}

/// Returns the greatest age of written content, and the longest wait of a key.
fn flood(keys: usize, credit: u32) -> (usize, usize) {
    let mut world = World::new(keys, credit);
    let mut worst = (0, 0);
    for round in 0..keys * 6 {
        (0..CHANGES).for_each(|_| world.change());
        world.speak();
        let (age, waited) = world.write().unwrap();
        let (here, there) = (world.writer.pending(), world.agent.backlog());
        assert!(here <= keys && there <= keys, "{here} and {there} wait, of {keys} keys");
        // The first rounds are left out, until it has settled.
        if round > keys * 2 {
            worst = (worst.0.max(age), worst.1.max(waited));
        }
    }
    worst
}

/// If the writer accepts a few times as many changes as there are keys, newer values replace waiting ones there.
/// Otherwise the changes wait at the agent, in turn.
#[test]
fn what_is_written_is_no_older_than_one_round_over_all_keys() {
    let round = |keys| keys + 2 * LANES;
    for (keys, credit, oldest, longest) in [
        (100, 400, round(100) / 2, round(100)),
        (100, 200, round(100) / 2, round(100)),
        (100, 100, round(100), 2 * round(100)),
        (100, 25, round(100), 2 * round(100)),
    ] {
        let (age, waited) = flood(keys, credit);
        assert!(age <= oldest && waited <= longest, "{keys} keys, credit {credit}: {age} old, waited {waited} writes");
    }
}
