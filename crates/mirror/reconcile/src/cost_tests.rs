//! Checks that a change looks only at what it changes: at no more targets and backends where more of them exist.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_kubernetes_objects::{EndpointSlice, Meta, Namespace};
use gimbal_model::{BackendName, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey};
use gimbal_plan::{Action, Body, EndpointsApi};
use gimbal_session::{AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, Need, WriterLimits, WriterMessage};

use crate::{Output, Policy, Reconciler, Settings, Watched, Written, test_probe};

/// Backends, and Services of each.
#[derive(Debug, Clone, Copy)]
struct Size(usize, usize);

/// A writer and agents with everything mirrored.
struct World {
    writer: Reconciler,
    agents: BTreeMap<BackendName, (AgentEnd, u64)>,
    slices: BTreeMap<(Arc<str>, Arc<str>), EndpointSlice>,
    version: u64,
    now: Instant,
}

fn name(n: usize) -> BackendName {
    BackendName::parse(&format!("b{n}")).unwrap()
}

fn key(n: usize) -> SourceKey {
    SourceKey::new("ns", format!("svc{n}"))
}

fn service(hosts: u8) -> Arc<Service> {
    let port = EndpointPort { name: "http".into(), port: Some(80), protocol: Protocol::Tcp, app_protocol: None };
    let set = PortSet::new(vec![port]);
    let endpoints = (1..=hosts).map(|host| (set.clone(), Endpoint::ready(IpAddr::from([10, 0, 0, host]))));
    let port =
        ServicePort { name: "http".into(), port: 80, protocol: Protocol::Tcp, app_protocol: None, target_port: None };
    Arc::new(Service::new(Arc::new(Header { ports: vec![port], ..Header::default() }), endpoints))
}

/// A writer that leads, of a Gimbal cluster with a namespace and nothing in it.
fn writer(policies: BTreeMap<BackendName, Policy>, now: Instant) -> Reconciler {
    let mut writer = Reconciler::new(Settings {
        api: EndpointsApi::EndpointSlices,
        limits: WriterLimits {
            credit: Credit { changes: 1000, bytes: 8 << 20 },
            heartbeat_timeout: Duration::from_secs(15),
        },
        comparison_interval: Duration::from_secs(300),
    });
    writer.configure(policies, now);
    for kind in Watched::ALL {
        writer.list_begin(kind);
        if kind == Watched::Namespaces {
            let metadata = Meta { name: "ns".into(), ..Meta::default() };
            writer.apply_namespace(&Namespace { metadata });
        }
        writer.list_end(kind, now);
    }
    writer.lead(Some(1));
    writer
}

impl World {
    fn new(Size(backends, services): Size) -> Self {
        let now = Instant::now();
        let writer = writer((0..backends).map(|n| (name(n), Policy::default())).collect(), now);
        let mut world = Self { writer, agents: BTreeMap::new(), slices: BTreeMap::new(), version: 0, now };
        for backend in (0..backends).map(name) {
            let (instance, version) = (String::new(), String::new());
            let mut end = AgentEnd::new(AgentConfig { backend: backend.to_string(), instance, version });
            end.set_incarnation("source".into());
            for n in 0..services {
                end.set(key(n), Some(service(3)), now);
            }
            end.source_complete();
            end.connected(now);
            world.agents.insert(backend.clone(), (end, 0));
            world.run(&backend);
        }
        assert_eq!(world.writer.audit(), [""; 0]);
        // Finishes what is done in several steps.
        world.look(|world| world.writer.tick(now, SystemTime::UNIX_EPOCH));
        world
    }

    fn agent(&mut self, backend: &BackendName) -> &mut AgentEnd {
        &mut self.agents.get_mut(backend).unwrap().0
    }

    /// Lets an agent and the writer do what there is to be done, as the task that owns the reconciler does.
    fn run(&mut self, backend: &BackendName) {
        loop {
            let (agent, generation) = self.agents.get_mut(backend).unwrap();
            let said = agent.next(self.now);
            match said {
                Some(AgentMessage::Hello(hello)) => {
                    *generation = self.writer.open(backend, &hello, self.now).unwrap();
                }
                Some(message) => self.writer.receive(backend, *generation, message, self.now),
                None if self.heard() + self.write() == 0 => return,
                None => {}
            }
        }
    }

    /// Delivers the writer's messages to the agents. Returns the number of outputs.
    fn heard(&mut self) -> usize {
        let outputs = self.writer.take_outputs();
        for output in &outputs {
            if let Output::Send { backend, message, .. } = output {
                let now = self.now;
                assert_eq!(self.agent(backend).receive(message.clone(), now), AgentVerdict::Continue);
            }
        }
        outputs.len()
    }

    fn write(&mut self) -> usize {
        let mut jobs = 0;
        while let Some(job) = self.writer.next_job(self.now) {
            let written = job.carry_out(|action| self.answer(action));
            self.writer.finish(&job, written, self.now);
            jobs += 1;
        }
        jobs
    }

    fn answer(&mut self, action: &Action) -> Written {
        self.version += 1;
        let (Action::Create(body) | Action::Replace(body) | Action::Patch(body)) = action else {
            return Written::Gone;
        };
        let mut body = body.clone();
        let meta = match &mut body {
            Body::Service(object) => &mut object.metadata,
            Body::Slice(object) => &mut object.metadata,
            Body::Endpoints(object) => &mut object.metadata,
        };
        meta.resource_version = self.version.to_string().into();
        if meta.uid.is_empty() {
            meta.uid = meta.resource_version.clone();
        }
        if let Body::Slice(slice) = &body {
            let name = (slice.metadata.namespace.clone(), slice.metadata.name.clone());
            self.slices.insert(name, slice.clone());
        }
        Written::Answered(body)
    }

    /// Returns how many targets and backends are looked at by `change` and by all that follows from it.
    fn look(&mut self, change: impl FnOnce(&mut Self)) -> usize {
        test_probe::take();
        change(self);
        self.run(&name(1));
        test_probe::take()
    }
}

/// Returns how much each kind of change looks at.
fn changes(size: Size) -> BTreeMap<&'static str, usize> {
    let mut world = World::new(size);
    let (backend, now) = (name(1), world.now);
    let mut looks = BTreeMap::new();
    looks.insert("endpoints", world.look(|world| world.agent(&name(1)).set(key(7), Some(service(4)), now)));
    looks.insert("removed", world.look(|world| world.agent(&name(1)).set(key(8), None, now)));
    looks.insert("added", world.look(|world| world.agent(&name(1)).set(key(8), Some(service(3)), now)));
    let heartbeat = AgentMessage::Heartbeat { sources: Vec::new(), backlog: 0, clock_ms: None };
    let generation = world.agents[&backend].1;
    looks.insert("heartbeat", world.look(|world| world.writer.receive(&backend, generation, heartbeat, now)));
    let mut edited = world.slices.values().next().unwrap().clone();
    world.version += 1;
    edited.metadata.resource_version = world.version.to_string().into();
    edited.endpoints.pop();
    looks.insert("edited by hand", world.look(|world| world.writer.apply_slice(&edited, now)));
    looks.insert("a turn without news", world.look(|_| {}));
    assert!(looks["endpoints"] > 0 && looks["a turn without news"] == 0, "{looks:?}");
    assert_eq!(world.writer.pending(), 0);
    looks
}

#[test]
fn a_change_looks_at_no_more_where_there_is_more() {
    let few = changes(Size(4, 250));
    assert_eq!(few, changes(Size(4, 2500)), "ten times as many targets");
    assert_eq!(few, changes(Size(255, 10)), "many backends");
}

/// Returns how much a page of a listing looks at, and what it shows. Unless `known`, the writer restarted and knows
/// only slices.
fn page(services: usize, known: bool) -> (usize, Vec<SourceKey>) {
    let mut world = World::new(Size(2, services));
    if !known {
        let policies = world.writer.backends().keys().map(|name| (name.clone(), Policy::default())).collect();
        let slices = std::mem::take(&mut world.slices);
        world.writer = writer(policies, world.now);
        slices.values().for_each(|slice| world.writer.apply_slice(slice, world.now));
    }
    test_probe::take();
    let keys = world.writer.keys_after(&name(1), "ns", Some(&key(1)), 3);
    (test_probe::take(), keys)
}

#[test]
fn a_page_looks_at_no_more_than_it_shows_wherever_what_it_shows_is_known() {
    let shown = vec![key(10), key(11), key(12)];
    for known in [true, false] {
        let (few, keys) = page(40, known);
        assert_eq!(keys, shown);
        assert!(few < 10, "{few}");
        let more = page(400, known).0;
        assert_eq!(few, more, "known: {known}");
    }
}

/// Returns how much a reconnect and a snapshot look at.
fn snapshot(size: Size) -> (usize, usize) {
    let mut world = World::new(size);
    let now = world.now;
    let reconnect = world.look(|world| {
        let (agent, generation) = world.agents.get_mut(&name(1)).unwrap();
        agent.disconnected();
        world.writer.closed(&name(1), *generation);
        agent.connected(now);
    });
    let resync = WriterMessage::Resync { need: Need::All, reason: "test".into() };
    let snapshot = world.look(|world| drop(world.agent(&name(1)).receive(resync, now)));
    assert!(snapshot > size.1, "it looks at all of its own: {snapshot}");
    (reconnect, snapshot)
}

#[test]
fn a_snapshot_of_one_backend_looks_at_nothing_of_the_others() {
    assert_eq!(snapshot(Size(2, 40)), snapshot(Size(100, 40)));
}
