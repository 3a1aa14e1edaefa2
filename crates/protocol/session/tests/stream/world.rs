//! A source, an agent, a channel, a writer, a reconciler and the Gimbal cluster, with all their failures, and the
//! invariants that must always hold.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{Service, SourceKey};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, AgentVerdict, ChangeSince, Credit, Data, Frame, Need, Outcome, PieceChange,
    RejectReason, Scope, StreamState, Unreadable, WriterEnd, WriterLimits, WriterMessage, WriterOutput, estimated_len,
};

use crate::common::{TIMEOUT, reject, start};

/// A message in transit, and the step in which it was sent.
struct Sent(u64, AgentMessage);

pub struct World {
    pub now: Instant,
    step: u64,
    pub source: BTreeMap<SourceKey, Arc<Service>>,
    /// The last step in which the source did not have a key. A key without an entry has always existed.
    absent: BTreeMap<SourceKey, u64>,
    unseen: BTreeSet<Arc<str>>,
    pub agent: AgentEnd,
    pub writer: WriterEnd,
    limits: WriterLimits,
    up: VecDeque<Sent>,
    down: VecDeque<WriterMessage>,
    generation: u64,
    outstanding: VecDeque<(u64, usize, usize)>,
    pub last_seq: u64,
    pub last_ack: u64,
    /// Whether the agent, and the writer, is a release older: it names no capabilities.
    pub older: (bool, bool),
    /// Whether frames were lost on this stream.
    pub lossy: bool,
    /// Whether the agent was asked for a snapshot, so that the next Begin needs no credit.
    asked: bool,
    pub need: Option<Need>,
    hello_step: u64,
    begin_step: u64,
    begin_scope: Option<Scope>,
    /// The step of the latest proof that the writer holds everything, and of the latest for each namespace.
    proof: (u64, BTreeMap<Arc<str>, u64>),
    pub unsettled: BTreeSet<SourceKey>,
    /// The objects in the Gimbal cluster. They outlive every process.
    pub objects: BTreeSet<SourceKey>,
}

/// Makes of a message what an agent of the former release sends.
fn as_before(message: &mut AgentMessage) {
    match message {
        AgentMessage::Hello(hello) => hello.capabilities = Default::default(),
        AgentMessage::Data(Data { frame: Frame::SnapshotChunk { age, .. }, .. }) => *age = None,
        AgentMessage::Data(Data { frame: Frame::Delta { age, .. }, .. }) => age.caused = None,
        _ => {}
    }
}

fn new_agent() -> AgentEnd {
    AgentEnd::new(AgentConfig { backend: "b".into(), instance: "i".into(), version: "v".into() })
}

impl World {
    pub fn new(credit: Credit) -> Self {
        let limits = WriterLimits { credit, heartbeat_timeout: TIMEOUT };
        Self {
            now: start(),
            step: 1,
            source: BTreeMap::new(),
            absent: BTreeMap::new(),
            unseen: BTreeSet::new(),
            agent: new_agent(),
            writer: WriterEnd::new(limits.clone()),
            limits,
            up: VecDeque::new(),
            down: VecDeque::new(),
            generation: 0,
            outstanding: VecDeque::new(),
            last_seq: 0,
            last_ack: 0,
            older: (false, false),
            lossy: false,
            asked: false,
            need: None,
            hello_step: 0,
            begin_step: 0,
            begin_scope: None,
            proof: (0, BTreeMap::new()),
            unsettled: BTreeSet::new(),
            objects: BTreeSet::new(),
        }
    }

    pub fn advance(&mut self, time: Duration) {
        self.now += time;
        self.step += 1;
    }

    /// Changes the source. The agent is notified unless the namespace is hidden from it.
    pub fn set(&mut self, key: SourceKey, service: Option<Arc<Service>>) {
        self.step += 1;
        // The key was absent until now, or is absent from now on.
        if !self.source.contains_key(&key) || service.is_none() {
            self.absent.insert(key.clone(), self.step);
            self.step += 1;
        }
        match &service {
            Some(service) => self.source.insert(key.clone(), service.clone()),
            None => self.source.remove(&key),
        };
        if !self.unseen.contains(&key.namespace) && !self.unseen.contains("*") {
            self.agent.set_since(
                key,
                service,
                ChangeSince { reported: self.now, caused: Some(Duration::from_secs(1)) },
            );
        }
    }

    fn last_absent(&self, key: &SourceKey) -> u64 {
        if self.source.contains_key(key) { self.absent.get(key).copied().unwrap_or(0) } else { u64::MAX }
    }

    pub fn hide(&mut self, namespace: Option<Arc<str>>) {
        let scope = namespace.clone().map_or(Scope::All, |namespace| Scope::Namespaces(vec![namespace]));
        self.unseen.insert(namespace.unwrap_or_else(|| "*".into()));
        self.agent.scope_unknown(scope, "hidden".into());
    }

    /// The agent reads the whole source.
    pub fn read(&mut self) {
        self.unseen.clear();
        let gone: Vec<_> = self.agent.services().map(|(key, _)| key.clone()).collect();
        for key in gone.into_iter().filter(|key| !self.source.contains_key(key)) {
            self.agent.set(key, None, self.now);
        }
        for (key, service) in &self.source {
            self.agent.set(key.clone(), Some(service.clone()), self.now);
        }
        self.agent.set_incarnation("uid".into());
        self.agent.source_complete();
    }

    pub fn restart_agent(&mut self) {
        self.cut();
        self.agent = new_agent();
        self.unseen = ["*".into()].into();
    }

    pub fn restart_writer(&mut self) {
        self.cut();
        self.writer = WriterEnd::new(self.limits.clone());
        self.proof = (0, BTreeMap::new());
        // A reconciler that starts has to check every object that exists.
        self.unsettled = self.objects.clone();
    }

    pub fn cut(&mut self) {
        self.up.clear();
        self.down.clear();
        self.agent.disconnected();
        self.writer.closed();
        self.begin_scope = None;
    }

    pub fn connect(&mut self) {
        self.cut();
        self.outstanding.clear();
        (self.lossy, self.asked) = (false, false);
        self.need = None;
        (self.last_seq, self.last_ack) = (0, 0);
        self.agent.connected(self.now);
    }

    pub fn is_connected(&self) -> bool {
        self.agent.stream_state() != StreamState::Closed
    }

    /// The agent sends one message. Returns whether it had one.
    pub fn agent_sends(&mut self) -> bool {
        let Some(mut message) = self.agent.next(self.now) else { return false };
        if self.older.0 {
            as_before(&mut message);
        }
        self.step += 1;
        if let AgentMessage::Data(data) = &message {
            assert_eq!(data.seq, self.last_seq + 1);
            if let (Some(age), true) = (data.frame.age(), self.older.1) {
                let is_known = matches!(data.frame, Frame::Delta { .. }) && age.caused.is_none();
                assert!(is_known, "the writer does not know that age: {age:?}");
            }
            self.last_seq = data.seq;
            let changes = match &data.frame {
                Frame::SnapshotChunk { pieces, .. } => pieces.len(),
                Frame::Delta { changes, .. } => changes.len(),
                _ => 0,
            };
            let begins = matches!(data.frame, Frame::SnapshotBegin { .. });
            let free = begins && std::mem::take(&mut self.asked);
            self.outstanding.push_back((data.seq, changes, if free { 0 } else { estimated_len(data) }));
            if self.outstanding.len() > 1 {
                let sum = |of: fn(&(u64, usize, usize)) -> usize| self.outstanding.iter().map(of).sum::<usize>();
                assert!(sum(|sent| sent.1) <= self.limits.credit.changes as usize, "{:?}", self.outstanding);
                assert!(sum(|sent| sent.2) as u64 <= self.limits.credit.bytes, "{:?}", self.outstanding);
            }
            if let Frame::Delta { changes, .. } = &data.frame {
                for change in changes {
                    if let Ok(PieceChange::Remove(key)) = change {
                        assert_eq!(self.agent.service(key), None, "only what is gone is removed");
                    }
                }
            }
        }
        self.up.push_back(Sent(self.step, message));
        true
    }

    /// Damages the next data frame in transit. Hello is never damaged, because it opens the stream.
    pub fn harm(&mut self, harm: &Harm) {
        let Some(at) = self.up.iter().position(|sent| matches!(sent.1, AgentMessage::Data(_))) else { return };
        match harm {
            Harm::Drop => {
                self.up.remove(at);
                self.lossy = true;
            }
            Harm::Duplicate => {
                let Sent(step, message) = &self.up[at];
                self.up.insert(at, Sent(*step, message.clone()));
            }
            Harm::Garble => self.up[at].1 = AgentMessage::Unreadable { reason: "garbled".into() },
            Harm::Entry(with_key) => self.spoil(at, *with_key),
        }
    }

    /// The next word of an unknown scope passes the data before it.
    pub fn overtake(&mut self) {
        let is_data = |sent: &Sent| matches!(sent.1, AgentMessage::Data(_));
        let unknown = |sent: &Sent| match &sent.1 {
            AgentMessage::ScopeUnknown { scope, reason } => {
                Some(AgentMessage::ScopeUnknownAhead { scope: scope.clone(), reason: reason.clone() })
            }
            _ => None,
        };
        let Some(at) = self.up.iter().position(is_data) else { return };
        let Some(ahead) = self.up.iter().skip(at).find_map(unknown) else { return };
        self.up.insert(at, Sent(self.step, ahead));
    }

    fn spoil(&mut self, at: usize, with_key: bool) {
        let unreadable =
            |key: &SourceKey| Unreadable { key: with_key.then(|| key.clone()), reason: "spoiled".into(), more: false };
        let AgentMessage::Data(Data { frame, .. }) = &mut self.up[at].1 else { return };
        match frame {
            Frame::SnapshotChunk { pieces, .. } => {
                if let Some(Ok(piece)) = pieces.first().cloned() {
                    pieces[0] = Err(Unreadable { more: piece.more, ..unreadable(&piece.key) });
                    self.lossy |= with_key;
                }
            }
            Frame::Delta { changes, .. } => {
                let key = match changes.first() {
                    Some(Ok(PieceChange::Replace(piece))) => piece.key.clone(),
                    Some(Ok(PieceChange::Update { key, .. } | PieceChange::Remove(key))) => key.clone(),
                    _ => return,
                };
                changes[0] = Err(unreadable(&key));
                // A real writer that cannot read an entry never can, so it does not ask again. In this model the next
                // read may succeed, and only a new stream shows that.
                self.lossy |= with_key;
            }
            _ => {}
        }
    }

    /// The writer receives one message. Returns whether there was one.
    pub fn writer_receives(&mut self) -> bool {
        let Some(Sent(step, message)) = self.up.pop_front() else { return false };
        self.step += 1;
        if let AgentMessage::Hello(hello) = &message {
            self.generation += 1;
            self.hello_step = step;
            let out = self.writer.open(hello, "b", self.generation, self.now);
            self.outputs(out);
            return true;
        }
        let began = self.writer.snapshot_begun();
        let scope = match &message {
            AgentMessage::Data(Data { frame: Frame::SnapshotBegin { scope }, .. }) => Some(scope.clone()),
            _ => None,
        };
        let out = self.writer.receive(message, self.now);
        if let Some(scope) = scope
            && self.writer.snapshot_begun().is_some()
            && (began.is_none() || began != self.writer.snapshot_begun() || self.begin_scope.as_ref() != Some(&scope))
        {
            (self.begin_step, self.begin_scope) = (step, Some(scope));
        }
        self.outputs(out);
        true
    }

    fn outputs(&mut self, out: Vec<WriterOutput>) {
        let ended = out.iter().any(|output| matches!(output, WriterOutput::ScopeComplete { .. }));
        for output in out {
            match output {
                WriterOutput::Changed(key) => {
                    self.unsettled.insert(key);
                }
                WriterOutput::Removed(key) => {
                    if ended {
                        let absent = self.last_absent(&key);
                        assert!(absent >= self.begin_step, "{key} is in the source since {absent}, removed as absent");
                    }
                    self.unsettled.insert(key);
                }
                WriterOutput::ScopeComplete { scope, seq, .. } => self.complete(&scope, seq),
                WriterOutput::Close => {
                    // The agent receives the reason, and dials again later.
                    self.down.extend(self.writer.take_messages());
                }
                WriterOutput::ScopeUnknown | WriterOutput::Unreadable { .. } => {}
            }
        }
    }

    /// The reconciler checks every object in a scope whose content is proven.
    fn complete(&mut self, scope: &Scope, seq: u64) {
        match scope {
            Scope::All => self.proof = (self.begin_step, BTreeMap::new()),
            Scope::Namespaces(names) => self.proof.1.extend(names.iter().map(|name| (name.clone(), self.begin_step))),
        }
        for key in self.objects.iter().filter(|key| scope.contains(&key.namespace)) {
            if self.writer.service(key).is_none() {
                self.writer.expect(key, seq);
                self.unsettled.insert(key.clone());
            }
        }
    }

    /// The reconciler handles a key, and applies or rejects it.
    pub fn settle(&mut self, key: &SourceKey, rejected: bool) {
        self.step += 1;
        self.unsettled.remove(key);
        if rejected {
            return self.writer.settle(key, Outcome::Rejected(reject(RejectReason::ApiError)));
        }
        if self.writer.service(key).is_some() {
            self.objects.insert(key.clone());
        } else if self.writer.removed_explicitly(key) {
            self.objects.remove(key);
            self.writer.forget_removed(key);
        } else if self.writer.knows(&key.namespace) && self.objects.remove(key) {
            let proof = self.proof.1.get(&key.namespace).copied().unwrap_or(0).max(self.proof.0);
            let absent = self.last_absent(key);
            assert!(proof > 0 && absent >= proof, "{key} is in the source since {absent}, deleted by proof of {proof}");
        }
        self.writer.settle(key, Outcome::Applied);
    }

    pub fn writer_sends(&mut self) -> bool {
        let mut messages = self.writer.take_messages();
        for message in &mut messages {
            if let WriterMessage::Welcome(welcome) = message {
                if self.older.1 {
                    welcome.capabilities = Default::default();
                }
                self.need = Some(welcome.need.clone());
                let offered = self.writer.hello().is_some_and(|hello| hello.held.is_some());
                if offered && welcome.need == Need::Nothing {
                    self.proof = (self.hello_step, BTreeMap::new());
                }
            }
        }
        let any = !messages.is_empty();
        self.down.extend(messages);
        any
    }

    pub fn agent_receives(&mut self) -> bool {
        let Some(message) = self.down.pop_front() else { return false };
        if let WriterMessage::Ack(seq) = &message {
            assert!(*seq > self.last_ack && *seq <= self.last_seq, "an Ack goes forward, never beyond what was sent");
            self.last_ack = *seq;
            self.outstanding.retain(|sent| sent.0 > *seq);
        }
        self.asked |= matches!(message, WriterMessage::Resync { .. });
        if let AgentVerdict::Close { .. } = self.agent.receive(message, self.now) {
            self.cut();
        }
        true
    }

    pub fn tick(&mut self) {
        let out = self.writer.tick(self.now);
        self.outputs(out);
    }

    /// Delivers all messages in transit and the answers to them. `settle` also lets the reconciler finish.
    pub fn pump(&mut self, settle: bool) {
        loop {
            let mut busy = self.agent_sends();
            busy |= self.writer_receives();
            busy |= self.writer_sends();
            busy |= self.agent_receives();
            if settle && let Some(key) = self.unsettled.first().cloned() {
                self.settle(&key, false);
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }
}

/// Damage to a data frame.
#[derive(Debug, Clone)]
pub enum Harm {
    /// The frame is lost.
    Drop,
    /// The frame arrives twice.
    Duplicate,
    /// The frame arrives, but is unreadable as a whole.
    Garble,
    /// The first entry of the frame is unreadable, with its key readable or not.
    Entry(bool),
}
