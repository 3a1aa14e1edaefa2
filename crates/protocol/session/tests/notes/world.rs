//! A source of notes with their statuses, both ends, the channel between them, and the objects that the writer makes of
//! the notes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_session::{
    AgentEnd, AgentMessage, AgentVerdict, Credit, Entry, Outcome, ReceivedReport, StreamState, WriterEnd,
    WriterMessage, WriterOutput,
};

use crate::payload::{Header, Note, NoteKey, Notes, Phase, Report, Secret, new_agent, new_writer};

/// The start of a test's time, which only the test advances.
#[allow(clippy::disallowed_methods)]
pub fn start() -> Instant {
    Instant::now()
}

const CREDIT: Credit = Credit { changes: 2, bytes: 500 };

pub struct World {
    pub now: Instant,
    /// The content of the source. It outlives the agent, and so do its statuses and secrets.
    pub source: BTreeMap<NoteKey, Arc<Note>>,
    pub statuses: BTreeMap<NoteKey, Report>,
    pub secrets: BTreeMap<u64, Secret>,
    pub agent: AgentEnd<Notes>,
    /// Reports that are being written to statuses.
    writing: Vec<ReceivedReport<Notes>>,
    pub writer: WriterEnd<Notes>,
    /// The objects that the writer made of the notes. They outlive the writer.
    pub made: BTreeMap<NoteKey, (u64, usize)>,
    /// The secrets that the writer has received. A restarted writer has none.
    pub unsealed: BTreeMap<u64, Secret>,
    pub facts: u64,
    unsettled: BTreeSet<NoteKey>,
    up: VecDeque<AgentMessage<Notes>>,
    down: VecDeque<WriterMessage<Notes>>,
    generation: u64,
    /// Whether a message was lost on this stream. A real stream loses messages only by ending.
    pub lossy: bool,
    pub sent: BTreeMap<&'static str, usize>,
}

impl World {
    pub fn new() -> Self {
        let secrets = (0..3u8).map(|number| Secret(vec![number; 4]));
        Self {
            now: start(),
            source: BTreeMap::new(),
            statuses: BTreeMap::new(),
            secrets: secrets.map(|secret| (gimbal_session::Content::hash(&secret), secret)).collect(),
            agent: new_agent(),
            writing: Vec::new(),
            writer: new_writer(),
            made: BTreeMap::new(),
            unsealed: BTreeMap::new(),
            facts: 0,
            unsettled: BTreeSet::new(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            generation: 0,
            lossy: false,
            sent: BTreeMap::new(),
        }
    }

    pub fn set(&mut self, key: NoteKey, note: Option<Arc<Note>>) {
        match &note {
            Some(note) => self.source.insert(key.clone(), note.clone()),
            None => self.source.remove(&key),
        };
        if note.is_none() {
            self.statuses.remove(&key);
        }
        self.agent.set(key, note, self.now);
    }

    /// Deletes a note in the source. It stays, marked as deleting, until the writer reports that nothing of it is left.
    pub fn delete(&mut self, key: &NoteKey) {
        if let Some(note) = self.source.get(key).cloned() {
            self.set(key.clone(), Some(Note::deleting(note.uid())));
        }
    }

    pub fn read(&mut self) {
        for (key, note) in self.source.clone() {
            self.agent.set(key, Some(note), self.now);
        }
        self.agent.set_incarnation("uid".into());
        self.agent.grant_reports(CREDIT);
        self.agent.source_complete();
    }

    pub fn cut(&mut self) {
        self.up.clear();
        self.down.clear();
        self.agent.disconnected();
        self.writer.closed();
        self.lossy = false;
    }

    pub fn connect(&mut self) {
        self.cut();
        self.agent.connected(self.now);
    }

    pub fn is_connected(&self) -> bool {
        self.agent.stream_state() != StreamState::Closed
    }

    /// Restarts the agent. It knows nothing of its source until `read`.
    pub fn restart_agent(&mut self) {
        self.cut();
        self.writing.clear();
        self.agent = new_agent();
        self.agent.grant_reports(CREDIT);
    }

    /// Loses a status. Its note is sent again, so that it is reported of again.
    pub fn wipe_status(&mut self, key: &NoteKey) {
        if self.statuses.remove(key).is_some() {
            self.agent.send_again(key, self.now);
        }
    }

    pub fn restart_writer(&mut self) {
        self.cut();
        self.writer = new_writer();
        self.writer.set_facts(self.facts).expect("they are small");
        self.unsealed.clear();
        self.unsettled.clear();
    }

    pub fn set_facts(&mut self, facts: u64) {
        self.facts = facts;
        self.writer.set_facts(facts).expect("they are small");
    }

    pub fn agent_sends(&mut self) -> bool {
        let Some(message) = self.agent.next(self.now) else { return false };
        let name = match &message {
            AgentMessage::Data(_) => "data",
            AgentMessage::Content { .. } => "content",
            _ => "control",
        };
        *self.sent.entry(name).or_default() += 1;
        self.up.push_back(message);
        true
    }

    pub fn writer_receives(&mut self) -> bool {
        let Some(message) = self.up.pop_front() else { return false };
        let outputs = match message {
            AgentMessage::Hello(hello) => {
                self.generation += 1;
                self.writer.open(&hello, "b", self.generation, self.now)
            }
            message => self.writer.receive(message, self.now),
        };
        for output in outputs {
            match output {
                WriterOutput::Changed(key) | WriterOutput::Removed(key) => {
                    self.unsettled.insert(key);
                }
                WriterOutput::Content { hash, content: Some(content) } => {
                    self.unsealed.insert(hash, content);
                }
                WriterOutput::Content { content: None, .. } => {}
                // An acknowledged report that nothing is left need not be sent again.
                WriterOutput::ReportDone { key, report } if report.phase == Phase::Gone => {
                    self.writer.forget_report(&key);
                }
                WriterOutput::Close => self.cut(),
                WriterOutput::Unreadable { reason, .. } => assert!(self.lossy, "{reason}"),
                _ => {}
            }
        }
        true
    }

    pub fn writer_sends(&mut self) -> bool {
        let messages = self.writer.take_messages();
        for message in &messages {
            let name = match message {
                WriterMessage::Report { .. } => "report",
                WriterMessage::Facts(_) => "facts",
                WriterMessage::ContentRequest(_) => "request",
                _ => "control",
            };
            *self.sent.entry(name).or_default() += 1;
        }
        let any = !messages.is_empty();
        self.down.extend(messages);
        any
    }

    pub fn agent_receives(&mut self) -> bool {
        let Some(message) = self.down.pop_front() else { return false };
        if let AgentVerdict::Close { .. } = self.agent.receive(message, self.now) {
            self.cut();
        }
        true
    }

    /// The writer handles one note: it makes or removes the object, and reports that.
    pub fn act(&mut self) -> bool {
        let Some(key) = self.unsettled.pop_first() else { return false };
        if let Some(note) = self.writer.entry(&key).cloned() {
            let uid = note.uid();
            let report = if note.is_deleting() {
                self.made.remove(&key);
                Report { uid, phase: Phase::Gone, lines: 0 }
            } else {
                self.made.insert(key.clone(), (uid, note.part_count()));
                Report { uid, phase: Phase::Made, lines: note.part_count() }
            };
            if let Header::Present { sealed: Some(hash), .. } = &*note.header
                && !self.unsealed.contains_key(hash)
            {
                self.writer.want_content(*hash);
            }
            self.writer.report(key.clone(), report).expect("the note is held");
        }
        self.writer.settle(&key, Outcome::Applied);
        true
    }

    /// The agent starts to write a status. The write ends in `end_status`.
    pub fn begin_status(&mut self) -> bool {
        let report = self.agent.take_report();
        let any = report.is_some();
        self.writing.extend(report);
        any
    }

    pub fn end_status(&mut self, at: usize) -> bool {
        if self.writing.is_empty() {
            return false;
        }
        let received = self.writing.remove(at % self.writing.len());
        // The agent looks only at what it has read.
        let same = self.agent.entry(&received.key).is_some_and(|note| note.uid() == received.report.uid);
        if same && received.report.phase == Phase::Gone {
            self.set(received.key.clone(), None);
        } else if same {
            self.statuses.insert(received.key.clone(), received.report);
        }
        self.agent.report_done(&received);
        true
    }

    pub fn answer(&mut self) -> bool {
        let Some(hash) = self.agent.requested_contents().next().copied() else { return false };
        let secret = self.secrets.get(&hash).cloned();
        self.agent.answer_content(&hash, secret);
        true
    }

    /// Loses a message.
    pub fn lose(&mut self, up: bool) {
        let lost = if up { self.up.pop_front().is_some() } else { self.down.pop_front().is_some() };
        self.lossy |= lost;
    }

    pub fn advance(&mut self, time: Duration) {
        self.now += time;
        if self.writer.tick(self.now).contains(&WriterOutput::Close) {
            self.cut();
        }
    }

    pub fn pump(&mut self) {
        loop {
            let mut busy = self.agent_sends();
            busy |= self.writer_receives();
            busy |= self.act();
            busy |= self.writer_sends();
            busy |= self.agent_receives();
            busy |= self.begin_status();
            // The writes end one after another, in order, so that an older one never follows a newer one.
            while self.end_status(0) {
                busy = true;
            }
            busy |= self.answer();
            if !busy {
                return;
            }
        }
    }
}
