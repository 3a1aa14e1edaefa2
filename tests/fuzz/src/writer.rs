//! A compromised agent against the whole writer: arbitrary bytes through decoding and all of the writer's decisions,
//! with an API server that answers. Every write must be on the backend's own objects, in namespaces that its policy
//! allows, under its own name and marks, and must not lead to a refused address (docs/design.md#rules).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_kubernetes_objects::{Meta, Namespace, Service as ServiceObject, keys};
use gimbal_model::{AddressRules, BackendName, SourceKey, TargetKey, service_name};
use gimbal_plan::{Action, Body, EndpointsApi};
use gimbal_reconcile::{
    Job, NamespacePolicy, Output, Policy, Reconciler, Settings, Watched, WriteFailure, Written, is_namespace,
};
use gimbal_session::{AgentMessage, ChangeAge, Credit, Data, Frame, Hello, Piece, PieceChange, Scope, WriterLimits};
use gimbal_wire::{agent_message, pb};
use prost::Message as _;

use crate::cut::{cut, join};
use crate::frames::{BACKEND, conversation, hello, service};

/// Joined with a Service's name it can equal one of the attacker's.
const HONEST: &str = "node02-b";
const NAMESPACES: [&str; 5] = ["team-a", "team-b", "team-secret", "theirs", "kube-system"];
/// More writes than one input can cause, with every simulated failure.
const MOST: usize = 100_000;

pub(crate) fn run(data: &[u8]) {
    let mut world = World::new(data.first().copied().unwrap_or_default());
    let theirs = world.objects.clone();
    // Half of the inputs begin with a valid Hello, as those of `frames` do.
    if data.first().is_some_and(|byte| byte & 2 == 0) {
        world.hear(AgentMessage::Hello(hello()));
    }
    for message in cut(data.get(1..).unwrap_or_default()) {
        // As the codec does: what cannot be decoded is an empty message.
        world.hear(agent_message(pb::SyncRequest::decode(message).unwrap_or_default()));
        world.pass(Duration::from_millis(10));
    }
    // Pending work, delayed by the guard's quiet time or after a failure, becomes due.
    for _ in 0..3 {
        world.pass(Duration::from_secs(70));
    }
    for (id, body) in &theirs {
        assert_eq!(world.objects.get(id), Some(body), "{id:?} is not the attacker's");
    }
}

type Id = (&'static str, Arc<str>, Arc<str>);

struct World {
    writer: Reconciler,
    policy: Policy,
    backend: BackendName,
    generation: u64,
    objects: BTreeMap<Id, Body>,
    version: u64,
    /// Each bit decides the outcome of a write.
    luck: u8,
    writes: usize,
    now: Instant,
    /// The keys that the attacker has named.
    named: BTreeSet<SourceKey>,
}

impl World {
    /// Starts from this state: an honest backend has published, a foreign Service has a name that the attacker could
    /// ask for, and the attacker's agent has not sent anything yet.
    fn new(luck: u8) -> Self {
        let now = Instant::now();
        let policy = |allow: &[&str], deny: &[&str]| {
            let patterns = |texts: &[&str]| texts.iter().filter_map(|text| text.parse().ok()).collect();
            Policy {
                namespaces: NamespacePolicy {
                    allow: Some(patterns(allow)),
                    deny: patterns(deny),
                    ..Default::default()
                },
                addresses: AddressRules {
                    refused: "10.96.0.0/12".parse().into_iter().collect(),
                    allowed: Some(["10.0.0.0/8", "fd00::/8"].iter().filter_map(|net| net.parse().ok()).collect()),
                },
                ..Policy::default()
            }
        };
        let (attacker, honest) = (backend(BACKEND), backend(HONEST));
        let policies = [
            (attacker.clone(), policy(&["team-*", "kube-*"], &["team-secret"])),
            (honest.clone(), policy(&["team-*", "theirs"], &[])),
        ];
        let policies = BTreeMap::from(policies);
        let credit = Credit { changes: 64, bytes: 1 << 22 };
        let mut writer = Reconciler::new(Settings {
            api: if luck & 1 == 0 { EndpointsApi::EndpointSlices } else { EndpointsApi::Both },
            limits: WriterLimits { credit, heartbeat_timeout: Duration::from_secs(3600) },
            comparison_interval: Duration::from_secs(3600),
        });
        writer.configure(policies.clone(), now);
        for kind in Watched::ALL {
            writer.list_begin(kind);
            for name in NAMESPACES.iter().filter(|_| kind == Watched::Namespaces) {
                writer.apply_namespace(&Namespace { metadata: Meta { name: (*name).into(), ..Meta::default() } });
            }
            writer.list_end(kind, now);
        }
        writer.lead(Some(1));
        let objects = BTreeMap::new();
        let (version, named) = (0, BTreeSet::new());
        let policy = policies[&honest].clone();
        let mut world =
            Self { writer, policy, backend: honest, generation: 0, objects, version, luck: 0, writes: 0, now, named };
        // The honest backend passes the same checks.
        world.hear(AgentMessage::Hello(Hello { backend: HONEST.into(), ..hello() }));
        let changes = [("team-a", "nginx"), ("theirs", "api")].map(|(namespace, name)| replace(namespace, name, 2));
        world.hear(data(1, Frame::Delta { changes: changes.into(), age: ChangeAge::default() }));
        world.pass(Duration::from_millis(10));
        assert_eq!(world.objects.len(), if luck & 1 == 0 { 4 } else { 6 }, "the honest backend has not published");
        let metadata = Meta { namespace: "team-a".into(), name: "node02-taken".into(), ..Meta::default() };
        world.put(Body::Service(ServiceObject { metadata, ..ServiceObject::default() }));
        world.policy = policies[&attacker].clone();
        (world.backend, world.luck, world.generation) = (attacker, luck >> 2, 0);
        world
    }

    fn hear(&mut self, message: AgentMessage) {
        self.note(&message);
        match message {
            AgentMessage::Hello(hello) => {
                if let Ok(generation) = self.writer.open(&self.backend, &hello, self.now) {
                    self.generation = generation;
                }
            }
            other => self.writer.receive(&self.backend, self.generation, other, self.now),
        }
    }

    fn note(&mut self, message: &AgentMessage) {
        let AgentMessage::Data(Data { frame, .. }) = message else { return };
        match frame {
            Frame::SnapshotChunk { pieces, .. } => {
                self.named.extend(pieces.iter().flatten().map(|piece| piece.key.clone()))
            }
            Frame::Delta { changes, .. } => self.named.extend(changes.iter().flatten().map(|change| match change {
                PieceChange::Replace(Piece { key, .. })
                | PieceChange::Update { key, .. }
                | PieceChange::Remove(key) => key.clone(),
            })),
            Frame::SnapshotBegin { .. } | Frame::SnapshotEnd { .. } => {}
        }
    }

    /// Advances the time, and lets the writer do its pending work.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.writer.tick(self.now, SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30));
        self.collect();
        while let Some(job) = self.writer.next_job(self.now) {
            self.check(&job);
            let written = job.carry_out(|action| self.write(action));
            self.writer.finish(&job, written, self.now);
            self.collect();
        }
        let waiting = self.writer.pending();
        assert!(waiting <= self.named.len() + 2, "{waiting} targets wait for {} keys", self.named.len());
    }

    fn collect(&mut self) {
        for output in self.writer.take_outputs() {
            match output {
                Output::Keep { backend, version, .. } => self.writer.kept(&backend, version, self.now),
                Output::CreateNamespace { namespace, .. } => panic!("namespace {namespace} is created"),
                _ => {}
            }
        }
    }

    /// Checks what must hold for every write of the job's backend.
    fn check(&mut self, job: &Job) {
        self.writes += 1;
        assert!(self.writes < MOST, "it writes without end");
        let TargetKey { namespace, name } = &job.target;
        let permitted = self.policy.namespaces.permits(namespace);
        assert!(permitted.is_ok() && is_namespace(namespace) && !namespace.starts_with("kube-"), "{namespace}/{name}");
        for action in &job.actions {
            let body = match action {
                Action::Create(body) | Action::Replace(body) | Action::Patch(body) => body,
                Action::Delete { kind, namespace, name, .. } => {
                    let there = self.objects.get(&(kind.kind, namespace.clone(), name.clone()));
                    self.is_own(&job.target, there.unwrap_or_else(|| panic!("{namespace}/{name} was never there")));
                    continue;
                }
            };
            self.is_own(&job.target, body);
            for address in addresses(body) {
                let parsed = address.parse().unwrap_or_else(|_| panic!("{address} is no address"));
                assert_eq!(self.policy.addresses.check(parsed), Ok(()), "{address} in {namespace}/{name}");
            }
        }
    }

    fn is_own(&self, target: &TargetKey, body: &Body) {
        let meta = body.meta();
        let label = |key: &str| meta.labels.get(key).map(|value| &**value);
        assert_eq!(meta.namespace, target.namespace);
        let mark = if matches!(body, Body::Slice(_)) { keys::SLICE_MANAGED_BY } else { keys::MANAGED_BY };
        assert_eq!(label(mark), Some(keys::MANAGER), "{target} without our mark");
        assert_eq!(label(keys::BACKEND), Some(self.backend.as_str()), "{target} in another's name");
        let source = meta.annotations.get(keys::SOURCE).and_then(|source| source.split_once('/'));
        let name = source.map(|(_, name)| service_name(&self.backend, name));
        assert_eq!(name.as_deref(), Some(&*target.name), "{target} is not what its source {source:?} is called");
        match body {
            Body::Slice(_) => {
                assert_eq!(gimbal_plan::made_for(&meta.name), Some(&*target.name));
                assert_eq!(label(keys::SERVICE_NAME), Some(&*target.name));
            }
            Body::Service(_) | Body::Endpoints(_) => assert_eq!(meta.name, target.name),
        }
    }

    fn put(&mut self, mut body: Body) -> Body {
        let id = id(&body);
        self.version += 1;
        let version = Arc::from(self.version.to_string());
        let uid = self.objects.get(&id).map_or_else(|| Arc::clone(&version), |old| old.meta().uid.clone());
        let meta = match &mut body {
            Body::Service(object) => &mut object.metadata,
            Body::Slice(object) => &mut object.metadata,
            Body::Endpoints(object) => &mut object.metadata,
        };
        (meta.uid, meta.resource_version) = (uid, version);
        self.objects.insert(id, body.clone());
        body
    }

    fn write(&mut self, action: &Action) -> Written {
        self.luck = self.luck.rotate_right(1);
        let id = match action {
            Action::Create(body) | Action::Replace(body) | Action::Patch(body) => id(body),
            Action::Delete { kind, namespace, name, .. } => (kind.kind, namespace.clone(), name.clone()),
        };
        if self.luck & 0b1000_0001 == 0b1000_0001 {
            return Written::Failed(WriteFailure::Api("it did not happen".into()));
        }
        match (action, self.objects.get(&id)) {
            (Action::Create(_), Some(there)) if there.meta().labels.is_empty() => {
                Written::Failed(WriteFailure::Foreign)
            }
            (Action::Create(_), Some(there)) => Written::Found(there.clone()),
            (Action::Create(body), None) => Written::Answered(self.put(body.clone())),
            (Action::Replace(body) | Action::Patch(body), Some(there)) => {
                assert_eq!(there.meta().uid, body.meta().uid, "{id:?} is another by now");
                Written::Answered(self.put(body.clone()))
            }
            (Action::Replace(_) | Action::Patch(_) | Action::Delete { .. }, None) => Written::Gone,
            (Action::Delete { .. }, Some(_)) => {
                self.objects.remove(&id);
                Written::Gone
            }
        }
    }
}

fn id(body: &Body) -> Id {
    (body.kind().kind, body.meta().namespace.clone(), body.name().clone())
}

fn backend(name: &str) -> BackendName {
    BackendName::parse(name).unwrap_or_else(|error| panic!("{error}"))
}

fn addresses(body: &Body) -> Vec<Arc<str>> {
    match body {
        Body::Service(_) => Vec::new(),
        Body::Slice(slice) => slice.endpoints.iter().flat_map(|endpoint| endpoint.addresses.clone()).collect(),
        Body::Endpoints(endpoints) => {
            let subsets = endpoints.subsets.iter();
            let all = subsets.flat_map(|subset| subset.addresses.iter().chain(&subset.not_ready_addresses));
            all.map(|address| address.ip.clone()).collect()
        }
    }
}

fn data(seq: u64, frame: Frame) -> AgentMessage {
    AgentMessage::Data(Data { seq, frame, trace: None })
}

fn replace<E>(namespace: &str, name: &str, hosts: u8) -> Result<PieceChange, E> {
    let (key, service) = (SourceKey::new(namespace, name), service(hosts));
    let endpoints = service.endpoints().map(|(ports, endpoint)| (ports.clone(), endpoint)).collect();
    Ok(PieceChange::Replace(Piece { key, header: Some(service.header.clone()), parts: endpoints, more: false }))
}

/// Returns the messages of an honest agent, and typical ones of an attacker: others' names and namespaces, snapshots of
/// foreign scopes.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let bytes = |message: &AgentMessage| pb::SyncRequest::from(message.clone()).encode_to_vec();
    let with_luck = |luck: u8, messages: &[AgentMessage]| [vec![luck], join(messages.iter().map(bytes))].concat();
    let good = conversation();
    let places =
        [("team-a", "b-nginx"), ("theirs", "b-api"), ("theirs", "api"), ("kube-system", "dns"), ("team-a", "taken")];
    let frames = [
        Frame::Delta {
            changes: places.iter().map(|(namespace, name)| replace(namespace, name, 3)).collect(),
            age: ChangeAge::default(),
        },
        Frame::Delta {
            changes: places.iter().map(|(ns, name)| Ok(PieceChange::Remove(SourceKey::new(*ns, *name)))).collect(),
            age: ChangeAge { waited: Duration::MAX, caused: None },
        },
        Frame::SnapshotBegin { scope: Scope::Namespaces(vec!["theirs".into(), "team-a".into()]) },
        Frame::SnapshotEnd { summary: Default::default() },
    ];
    let mut bad = vec![AgentMessage::Hello(hello())];
    bad.extend((1..).zip(frames).map(|(seq, frame)| data(seq, frame)));
    [0, 1, 0b0110_1010].iter().flat_map(|luck| [with_luck(*luck, &good), with_luck(*luck, &bad)]).collect()
}
