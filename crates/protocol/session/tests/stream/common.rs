//! Test values and helpers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{
    Conditions, Digest, DigestTree, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, SourceKey,
};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, AgentVerdict, ChangeAge, Credit, Data, Frame, Hello, Need, Piece, PieceChange,
    Reject, RejectReason, Scope, Summary, Welcome, WriterEnd, WriterLimits, WriterMessage, WriterOutput,
};

pub const WIDE: Credit = Credit { changes: 10_000, bytes: 64 << 20 };
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// The start of a test's time, which only the test advances.
#[allow(clippy::disallowed_methods)]
pub fn start() -> Instant {
    Instant::now()
}

pub fn key(name: &str) -> SourceKey {
    SourceKey::from_annotation(name).unwrap_or_else(|| SourceKey::new("ns", name))
}

pub fn ports(number: u16) -> PortSet {
    let port = EndpointPort { name: "http".into(), port: Some(number), protocol: Protocol::Tcp, app_protocol: None };
    PortSet::new(vec![port])
}

pub fn endpoint(host: u32, ready: bool) -> Endpoint {
    let conditions = if ready { Conditions::READY } else { Conditions::NOT_READY };
    Endpoint { address: std::net::Ipv4Addr::from(0x0a00_0000 + host).into(), conditions, detail: None }
}

pub fn header(tag: &str) -> Arc<Header> {
    Arc::new(Header { labels: [("tag".into(), tag.into())].into(), ..Header::default() })
}

pub fn service(tag: &str, hosts: impl IntoIterator<Item = u32>) -> Arc<Service> {
    let endpoints = hosts.into_iter().map(|host| (ports(80), endpoint(host, true)));
    Arc::new(Service::new(header(tag), endpoints))
}

pub fn some(namespaces: &[&str]) -> Scope {
    Scope::Namespaces(namespaces.iter().map(|name| (*name).into()).collect())
}

/// Returns an agent whose source has been read.
pub fn agent(services: &[(&str, Arc<Service>)]) -> AgentEnd {
    let config = AgentConfig { backend: "b".into(), instance: "i".into(), version: "test 1".into() };
    let mut agent = AgentEnd::new(config);
    let now = start();
    for (name, service) in services {
        agent.set(key(name), Some(service.clone()), now);
    }
    agent.set_incarnation("uid".into());
    agent.source_complete();
    agent
}

pub fn connect(agent: &mut AgentEnd, now: Instant) -> Hello {
    agent.connected(now);
    let Some(AgentMessage::Hello(hello)) = agent.next(now) else { panic!("Hello is the first message") };
    hello
}

pub fn welcome(need: Need) -> WriterMessage {
    welcome_with(need, WIDE)
}

pub fn welcome_with(need: Need, credit: Credit) -> WriterMessage {
    welcome_naming(need, credit, &["change-age", "trace"])
}

pub fn welcome_naming(need: Need, credit: Credit, capabilities: &[&'static str]) -> WriterMessage {
    WriterMessage::Welcome(Welcome {
        protocol: 1,
        generation: 7,
        need,
        credit,
        backend: "b".into(),
        heartbeat_timeout: TIMEOUT,
        capabilities: capabilities.iter().map(|name| (*name).into()).collect(),
    })
}

/// Passes a message to the agent, and checks that the stream continues.
pub fn tell(agent: &mut AgentEnd, message: WriterMessage, now: Instant) {
    assert_eq!(agent.receive(message, now), AgentVerdict::Continue);
}

/// Returns an agent with an open stream that has sent everything.
pub fn flowing(services: &[(&str, Arc<Service>)], now: Instant) -> AgentEnd {
    let mut agent = agent(services);
    connect(&mut agent, now);
    tell(&mut agent, welcome(Need::Nothing), now);
    assert!(frames(&mut agent, now).is_empty());
    agent
}

/// Returns every message that the agent has to send now.
pub fn messages(agent: &mut AgentEnd, now: Instant) -> Vec<AgentMessage> {
    std::iter::from_fn(|| agent.next(now)).collect()
}

/// Returns every data frame that the agent has to send now.
pub fn frames(agent: &mut AgentEnd, now: Instant) -> Vec<Frame> {
    let data = messages(agent, now).into_iter().filter_map(|message| match message {
        AgentMessage::Data(Data { frame, .. }) => Some(frame),
        _ => None,
    });
    data.collect()
}

/// Formats a frame in short form: `begin *`, `chunk a b`, `end 2`, `delta =a ~b -c` (replaced, updated, removed), with
/// `+` where more parts follow.
pub fn short(frame: &Frame) -> String {
    let list = |names: Vec<String>| names.join(" ");
    match frame {
        Frame::SnapshotBegin { scope: Scope::All } => "begin *".into(),
        Frame::SnapshotBegin { scope: Scope::Namespaces(names) } => format!("begin {}", names.join(" ")),
        Frame::SnapshotChunk { pieces, .. } => {
            let name = |piece: &Piece| format!("{}{}", piece.key.name, if piece.more { "+" } else { "" });
            format!(
                "chunk {}",
                list(pieces.iter().map(|piece| piece.as_ref().map_or_else(|_| "?".into(), name)).collect())
            )
        }
        Frame::SnapshotEnd { summary } => format!("end {}", summary.count),
        Frame::Delta { changes, .. } => {
            let name = |change: &PieceChange| match change {
                PieceChange::Replace(piece) => format!("={}{}", piece.key.name, if piece.more { "+" } else { "" }),
                PieceChange::Update { key, more, .. } => format!("~{}{}", key.name, if *more { "+" } else { "" }),
                PieceChange::Remove(key) => format!("-{}", key.name),
            };
            format!(
                "delta {}",
                list(changes.iter().map(|change| change.as_ref().map_or_else(|_| "?".into(), name)).collect())
            )
        }
    }
}

/// Returns every data frame that the agent has to send now, in short form.
pub fn said(agent: &mut AgentEnd, now: Instant) -> Vec<String> {
    frames(agent, now).iter().map(short).collect()
}

pub fn writer() -> WriterEnd {
    WriterEnd::new(WriterLimits { credit: WIDE, heartbeat_timeout: TIMEOUT })
}

/// Returns a Hello of an agent that holds these Services.
pub fn hello(services: &[(&str, Arc<Service>)]) -> Hello {
    Hello { protocol: (1, 1), backend: "b".into(), held: Some(summary(services)), ..Hello::default() }
}

pub fn summary(services: &[(&str, Arc<Service>)]) -> Summary {
    let keys: Vec<_> = services.iter().map(|(name, service)| (key(name), service)).collect();
    let tree = DigestTree::of(keys.iter().map(|(key, service)| (key, &***service)));
    Summary { count: tree.count(), digest: tree.root() }
}

pub fn digest(name: &str, service: &Service) -> Digest {
    service.digest(&key(name))
}

pub fn piece(name: &str, service: &Service) -> Piece {
    let endpoints = service.endpoints().map(|(ports, endpoint)| (ports.clone(), endpoint)).collect();
    Piece { key: key(name), header: Some(service.header.clone()), parts: endpoints, more: false }
}

pub fn data(seq: u64, frame: Frame) -> AgentMessage {
    AgentMessage::Data(Data { seq, frame, trace: None })
}

pub fn begin(seq: u64, scope: Scope) -> AgentMessage {
    data(seq, Frame::SnapshotBegin { scope })
}

pub fn chunk(seq: u64, services: &[(&str, Arc<Service>)]) -> AgentMessage {
    let pieces = services.iter().map(|(name, service)| Ok(piece(name, service))).collect();
    data(seq, Frame::SnapshotChunk { pieces, digest: None, age: None })
}

pub fn end(seq: u64, services: &[(&str, Arc<Service>)]) -> AgentMessage {
    data(seq, Frame::SnapshotEnd { summary: summary(services) })
}

pub fn delta(seq: u64, changes: impl IntoIterator<Item = PieceChange>) -> AgentMessage {
    let changes = changes.into_iter().map(Ok).collect();
    data(seq, Frame::Delta { changes, age: ChangeAge::default() })
}

pub fn replace(name: &str, service: &Service) -> PieceChange {
    PieceChange::Replace(piece(name, service))
}

pub fn remove(name: &str) -> PieceChange {
    PieceChange::Remove(key(name))
}

pub fn update(name: &str, tag: &str) -> PieceChange {
    PieceChange::Update { key: key(name), header: Some(header(tag)), parts: Vec::new(), more: false }
}

pub fn reject(reason: RejectReason) -> Reject {
    Reject { key: None, reason, retryable: true, message: "no".into() }
}

/// Returns a writer with an open stream that holds these Services and knows everything. The next frame has number 4.
pub fn holding(services: &[(&str, Arc<Service>)], now: Instant) -> WriterEnd {
    let mut writer = writer();
    writer.open(&hello(services), "b", 1, now);
    writer.receive(begin(1, Scope::All), now);
    writer.receive(chunk(2, services), now);
    let out = writer.receive(end(3, services), now);
    assert!(matches!(out.last(), Some(WriterOutput::ScopeComplete { .. })), "{out:?}");
    for (name, _) in services {
        writer.settle(&key(name), gimbal_session::Outcome::Applied);
    }
    let acks = writer.take_messages();
    assert_eq!(acks.last(), Some(&WriterMessage::Ack(3)));
    writer
}

/// Opens a stream, and returns what the writer needs of an agent with this Hello.
pub fn need(writer: &mut WriterEnd, hello: &Hello, now: Instant) -> Need {
    writer.open(hello, "b", 2, now);
    match writer.take_messages().into_iter().next() {
        Some(WriterMessage::Welcome(welcome)) => welcome.need,
        other => panic!("Welcome is the first message, not {other:?}"),
    }
}
