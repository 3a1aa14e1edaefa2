//! A writer that accepts everything, records what it received, and can send anything: the other end of an agent under
//! test.
#![allow(clippy::unwrap_used)] // As in a test: a panic is the report.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use gimbal_model::{EndpointChange, Service, SourceKey};
use gimbal_session::capability::Capabilities;
use gimbal_session::{
    AgentMessage, Credit, Frame, Goodbye, GoodbyeReason, Need, Payload as _, PieceChange, Scope, Services,
    TraceContext, Welcome, WriterMessage,
};
use gimbal_transport::{
    AgentMessages, Discovery, Inspection, Part, Peer, Place, ServeOptions, ServedServices, Status, Viewer, pb,
};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::eventually;

/// How long a test waits for anything.
const SOON: Duration = Duration::from_secs(30);

/// A message of a discoverer, in short: enough to compare an order of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The number of Services that it holds, if it says so.
    Hello(Option<u64>),
    /// A snapshot begins.
    Begin,
    /// A part of the snapshot: `namespace/name` of each piece.
    Chunk(Vec<String>),
    /// The snapshot is complete.
    End,
    /// A Service was created or changed.
    Set(String),
    /// A Service was deleted.
    Removed(String),
    /// The source, or a part of it, is unknown, for this reason.
    Unknown(String),
    /// The discoverer is about to end.
    Goodbye,
    /// The stream has ended.
    Closed,
}

#[derive(Default)]
struct State {
    leads: bool,
    said: Vec<Said>,
    held: BTreeMap<SourceKey, Service>,
    incarnations: BTreeSet<String>,
    streams: u64,
    traces: Vec<TraceContext>,
    /// What it names to agents.
    capabilities: Capabilities,
}

/// Serves plaintext on loopback, until it is dropped.
pub struct ScriptedWriter {
    /// The URL, for `--writer`.
    pub url: String,
    state: Arc<Mutex<State>>,
    says: broadcast::Sender<WriterMessage>,
    _stop: DropGuard,
}

impl ScriptedWriter {
    /// Starts a writer on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start() -> Self {
        Self::serve(true).await
    }

    /// Starts a writer that reports another one as leader, until [`Self::lead`].
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn standby() -> Self {
        Self::serve(false).await
    }

    /// Accepts agents from now on, or refuses them and sends the connected ones away.
    ///
    /// # Panics
    /// As [`Self::said`].
    pub fn lead(&self, leads: bool) {
        self.state.lock().unwrap().leads = leads;
        if !leads {
            // It fails if no agent is connected.
            self.says.send(not_leader()).ok();
        }
    }

    /// Names these capabilities to each agent that dials from now on, as a writer of another release does.
    ///
    /// # Panics
    /// As [`Self::said`].
    pub fn name_capabilities(&self, capabilities: &[&'static str]) {
        self.state.lock().unwrap().capabilities = capabilities.iter().map(|name| (*name).into()).collect();
    }

    async fn serve(leads: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let capabilities = Services::CAPABILITIES.into();
        let state = Arc::new(Mutex::new(State { leads, capabilities, ..State::default() }));
        let (says, _) = broadcast::channel(64);
        let stop = CancellationToken::new();
        let discovery = Script { state: state.clone(), says: says.clone() };
        let services =
            ServedServices { discovery: Some(Arc::new(discovery)), inspection: Arc::new(Blind), admin: None };
        tokio::spawn(gimbal_transport::serve(listener, services, ServeOptions::default(), stop.clone()));
        Self { url, state, says, _stop: stop.drop_guard() }
    }

    /// Sends a message to every connected agent.
    ///
    /// # Panics
    /// If none is connected.
    pub fn say(&self, message: WriterMessage) {
        self.says.send(message).unwrap();
    }

    /// Returns the messages of agents, on all streams so far.
    ///
    /// # Panics
    /// If a message could not be decoded.
    #[must_use]
    pub fn said(&self) -> Vec<Said> {
        self.state.lock().unwrap().said.clone()
    }

    /// Returns the incarnations that agents named, with an empty one for an agent that does not know its own.
    ///
    /// # Panics
    /// As [`Self::said`].
    #[must_use]
    pub fn incarnations(&self) -> BTreeSet<String> {
        self.state.lock().unwrap().incarnations.clone()
    }

    /// Returns the traces of changes that agents sent.
    ///
    /// # Panics
    /// As [`Self::said`].
    #[must_use]
    pub fn traces(&self) -> Vec<TraceContext> {
        self.state.lock().unwrap().traces.clone()
    }

    /// Returns `namespace/name addresses` of every Service held.
    ///
    /// # Panics
    /// As [`Self::said`].
    #[must_use]
    pub fn held(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let addresses = |service: &Service| {
            service.endpoints().map(|(_, endpoint)| format!(" {}", endpoint.address)).collect::<String>()
        };
        state.held.iter().map(|(key, service)| format!("{key}{}", addresses(service))).collect()
    }

    /// Waits until exactly these Services are held, in the form of [`Self::held`].
    ///
    /// # Panics
    /// If they are not in time.
    pub async fn until_held(&self, expected: &[&str]) {
        eventually("the writer holds it", SOON, async || {
            let held = self.held();
            if held == expected { Ok(()) } else { Err(format!("it holds {held:?}, after {:?}", self.said())) }
        })
        .await
        .unwrap();
    }

    /// Waits until an agent has sent a message that `is` accepts.
    ///
    /// # Panics
    /// If none has in time.
    pub async fn until_said(&self, what: &str, is: impl Fn(&Said) -> bool) {
        eventually(what, SOON, async || {
            let said = self.said();
            if said.iter().any(&is) { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await
        .unwrap();
    }
}

/// A snapshot that is being received.
#[derive(Default)]
struct Snapshot {
    scope: Option<Scope>,
    keys: BTreeSet<SourceKey>,
}

impl Snapshot {
    fn covers(&self, key: &SourceKey) -> bool {
        self.scope.as_ref().is_some_and(|scope| scope.contains(&key.namespace))
    }
}

struct Script {
    state: Arc<Mutex<State>>,
    says: broadcast::Sender<WriterMessage>,
}

#[tonic::async_trait]
impl Discovery for Script {
    async fn sync(&self, _: Peer, mut incoming: AgentMessages, outgoing: mpsc::Sender<WriterMessage>) {
        let mut says = self.says.subscribe();
        let mut snapshot = Snapshot::default();
        loop {
            let answers = tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(message)) => self.state.lock().unwrap().take(message, &mut snapshot),
                    _ => break,
                },
                Ok(message) = says.recv() => vec![message],
            };
            for answer in answers {
                if outgoing.send(answer).await.is_err() {
                    break;
                }
            }
        }
        self.state.lock().unwrap().said.push(Said::Closed);
    }
}

impl State {
    fn take(&mut self, message: AgentMessage, snapshot: &mut Snapshot) -> Vec<WriterMessage> {
        match message {
            AgentMessage::Hello(hello) => {
                self.said.push(Said::Hello(hello.held.map(|held| held.count)));
                self.incarnations.insert(hello.source_incarnation);
                self.streams += 1;
                if !self.leads {
                    return vec![not_leader()];
                }
                let need = if hello.held.is_some() { Need::All } else { Need::Nothing };
                return vec![WriterMessage::Welcome(Welcome {
                    protocol: 1,
                    generation: self.streams,
                    need,
                    credit: Credit { changes: 10_000, bytes: 64 << 20 },
                    backend: hello.backend,
                    heartbeat_timeout: Duration::from_secs(15),
                    capabilities: self.capabilities.clone(),
                })];
            }
            AgentMessage::Data(data) => {
                self.traces.extend(data.trace);
                self.frame(data.frame, snapshot);
                return vec![WriterMessage::Ack(data.seq)];
            }
            AgentMessage::ScopeUnknown { reason, .. } => self.said.push(Said::Unknown(reason)),
            AgentMessage::Goodbye(_) => self.said.push(Said::Goodbye),
            AgentMessage::Heartbeat { .. }
            | AgentMessage::ScopeUnknownAhead { .. }
            | AgentMessage::ReportCredit(_)
            | AgentMessage::ReportAck(_)
            | AgentMessage::ReportsDone(_)
            | AgentMessage::ReportUnreadable { .. } => {}
            AgentMessage::Unreadable { reason } => panic!("{reason}"),
        }
        Vec::new()
    }

    fn frame(&mut self, frame: Frame, snapshot: &mut Snapshot) {
        match frame {
            Frame::SnapshotBegin { scope } => {
                *snapshot = Snapshot { scope: Some(scope), keys: BTreeSet::new() };
                self.said.push(Said::Begin);
            }
            Frame::SnapshotChunk { pieces, .. } => {
                let mut names = Vec::new();
                for piece in pieces {
                    let piece = piece.unwrap();
                    names.push(piece.key.to_string());
                    snapshot.keys.insert(piece.key.clone());
                    self.held.insert(piece.key, Service::new(piece.header.unwrap(), piece.parts));
                }
                self.said.push(Said::Chunk(names));
            }
            Frame::SnapshotEnd { .. } => {
                self.held.retain(|key, _| !snapshot.covers(key) || snapshot.keys.contains(key));
                self.said.push(Said::End);
            }
            Frame::Delta { changes, .. } => {
                changes.into_iter().for_each(|change| self.change(change.unwrap(), snapshot))
            }
        }
    }

    fn change(&mut self, change: PieceChange, snapshot: &mut Snapshot) {
        match change {
            PieceChange::Replace(piece) => {
                self.said.push(Said::Set(piece.key.to_string()));
                snapshot.keys.insert(piece.key.clone());
                self.held.insert(piece.key, Service::new(piece.header.unwrap(), piece.parts));
            }
            PieceChange::Update { key, header, parts: endpoints, .. } => {
                self.said.push(Said::Set(key.to_string()));
                let service = self.held.get_mut(&key).unwrap();
                service.header = header.unwrap_or_else(|| service.header.clone());
                for endpoint in endpoints {
                    match endpoint {
                        EndpointChange::Set(ports, endpoint) => drop(service.insert(&ports, endpoint)),
                        EndpointChange::Gone(ports, address) => drop(service.remove(&ports, address)),
                    }
                }
            }
            PieceChange::Remove(key) => {
                self.said.push(Said::Removed(key.to_string()));
                self.held.remove(&key);
            }
        }
    }
}

fn not_leader() -> WriterMessage {
    let message = "this writer does not lead".to_owned();
    WriterMessage::Goodbye(Goodbye { reason: GoodbyeReason::NotLeader, message, retry_after: None })
}

/// Shows nothing.
struct Blind;

#[tonic::async_trait]
impl Inspection for Blind {
    fn viewer(&self, _: &Peer) -> Result<Viewer, Status> {
        Err(Status::permission_denied("blind"))
    }
    async fn server(&self, _: &Viewer) -> Result<pb::Server, Status> {
        Ok(pb::Server::default())
    }
    async fn list_backends(&self, _: &Viewer) -> Result<Vec<pb::Backend>, Status> {
        Ok(Vec::new())
    }
    async fn list_services(&self, _: &Viewer, _: &pb::ListServicesRequest, _: Option<&Place>) -> Result<Part, Status> {
        Ok(Part::default())
    }
    async fn watch(
        &self,
        _: &Viewer,
        _: pb::WatchRequest,
    ) -> Result<futures::stream::BoxStream<'static, Result<pb::WatchResponse, Status>>, Status> {
        Ok(futures::stream::empty().boxed())
    }
    async fn explain(
        &self,
        _: &Viewer,
        _: pb::ExplainRequest,
        _: Option<IpAddr>,
    ) -> Result<pb::ExplainResponse, Status> {
        Ok(pb::ExplainResponse::default())
    }
}
