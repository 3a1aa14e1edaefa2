//! A source of notes that a test steers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gimbal_discoverer::{
    Changed, ContentRequest, Coverage, EventEffect, MaySpeak, Source, SourceReply, SourceStatus, UnhandledReport,
};
use gimbal_session::{Content as _, Credit, Entry as _, Freshness, Reject};
use tokio::sync::mpsc;

use crate::payload::{Note, NoteKey, Notes, Phase, Refusal, Secret};

/// What the source does next.
pub enum Step {
    /// A note is there, changes or vanishes.
    Set(NoteKey, Option<Arc<Note>>),
    /// A secret is there. It answers every request for it that waits.
    Secret(Secret),
    /// Answers the request that came first with "there is none".
    NoSecret,
    /// Handles the latest report of every note.
    Handle,
    /// Replies to this number of reports, those that came first, although later ones replaced them.
    HandleFirst(usize),
    /// The source is read again.
    StartOver,
    /// Another process is chosen to speak, or this one.
    Speak(MaySpeak),
}

/// What a source received.
#[derive(Default)]
struct Received {
    reports: Vec<UnhandledReport<Notes>>,
    facts: Vec<u64>,
    requests: usize,
    /// What was said of entries: that they are rejected, or no more.
    rejects: Vec<(NoteKey, Option<Refusal>)>,
}

/// The test's end of a source.
pub struct Notebook {
    steps: mpsc::UnboundedSender<Step>,
    received: Arc<Mutex<Received>>,
}

impl Notebook {
    pub fn new() -> (Self, NoteSource) {
        let (steps, events) = mpsc::unbounded_channel();
        let received = Arc::new(Mutex::new(Received::default()));
        let source = NoteSource {
            notes: NoteMap::default(),
            changed: Vec::new(),
            secrets: BTreeMap::new(),
            requests: Vec::new(),
            unhandled: BTreeMap::new(),
            replies: Vec::new(),
            may_speak: MaySpeak::Yes,
            events,
            received: received.clone(),
        };
        (Self { steps, received }, source)
    }

    pub fn step(&self, step: Step) {
        self.steps.send(step).ok().unwrap();
    }

    /// Returns phase and lines of every report of a note that came, handled or not.
    pub fn reports(&self, key: &NoteKey) -> Vec<(Phase, usize)> {
        let received = self.received.lock().unwrap();
        let reports = received.reports.iter().filter(|report| report.key() == key);
        reports.map(|report| (report.report().phase, report.report().lines)).collect()
    }

    /// Returns the phase of the last report that came, and whether it was early.
    pub fn last(&self) -> Option<(Phase, bool)> {
        self.received.lock().unwrap().reports.last().map(|report| (report.report().phase, report.is_early()))
    }

    /// Returns how many requests for secrets came.
    pub fn requests(&self) -> usize {
        self.received.lock().unwrap().requests
    }

    /// Returns what was said of entries: why they are rejected, or that they are no more.
    pub fn rejects(&self) -> Vec<(NoteKey, Option<Refusal>)> {
        self.received.lock().unwrap().rejects.clone()
    }

    pub fn facts(&self) -> Vec<u64> {
        self.received.lock().unwrap().facts.clone()
    }
}

#[derive(Default)]
pub struct NoteMap(BTreeMap<NoteKey, Arc<Note>>);

impl SourceStatus<Notes> for NoteMap {
    fn incarnation(&self) -> Option<&str> {
        Some("notebook")
    }
    fn identified_by(&self) -> &'static str {
        "its name"
    }
    fn coverage(&self) -> Coverage {
        Coverage::Complete
    }
    fn freshness(&self, _: Instant) -> Vec<Freshness> {
        Vec::new()
    }
    fn trouble(&self) -> Option<String> {
        None
    }
    fn skipped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn explain(&self, key: &NoteKey) -> Vec<String> {
        vec![match self.0.get(key) {
            Some(note) => format!("a note with {} lines", note.part_count()),
            None => "no such note".into(),
        }]
    }
}

pub struct NoteSource {
    notes: NoteMap,
    changed: Changed<Notes>,
    secrets: BTreeMap<u64, Secret>,
    /// Requests for secrets that are not there.
    requests: Vec<ContentRequest<Notes>>,
    /// The latest report of each note.
    unhandled: BTreeMap<NoteKey, UnhandledReport<Notes>>,
    replies: Vec<SourceReply<Notes>>,
    may_speak: MaySpeak,
    events: mpsc::UnboundedReceiver<Step>,
    received: Arc<Mutex<Received>>,
}

impl NoteSource {
    fn set(&mut self, key: NoteKey, note: Option<Arc<Note>>) {
        match &note {
            Some(note) => self.notes.0.insert(key.clone(), note.clone()),
            None => self.notes.0.remove(&key),
        };
        self.changed.push((key, note));
    }

    /// Handles the latest reports. A note of which nothing is left goes.
    fn handle(&mut self) {
        for report in std::mem::take(&mut self.unhandled).into_values() {
            let same = self.notes.0.get(report.key()).is_some_and(|note| note.uid() == report.report().uid);
            if same && report.report().phase == Phase::Gone {
                self.set(report.key().clone(), None);
            }
            self.replies.push(SourceReply::Handled(report));
        }
    }

    /// Answers the requests for secrets that are there.
    fn answer(&mut self) {
        let there = self.requests.extract_if(.., |request| self.secrets.contains_key(request.hash()));
        for request in there {
            let secret = self.secrets.get(request.hash()).cloned();
            self.replies.push(SourceReply::Content(request, secret));
        }
    }
}

impl Source<Notes> for NoteSource {
    type Event = Step;
    type Status = NoteMap;

    async fn event(&mut self) -> Step {
        match self.events.recv().await {
            Some(step) => step,
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, step: Step, _: Instant) -> EventEffect {
        match step {
            Step::Set(key, note) => self.set(key, note),
            Step::Secret(secret) => {
                self.secrets.insert(secret.hash(), secret);
                self.answer();
            }
            Step::NoSecret => self.replies.push(SourceReply::Content(self.requests.remove(0), None)),
            Step::Handle => self.handle(),
            Step::HandleFirst(count) => {
                let first = self.received.lock().unwrap().reports[..count].to_vec();
                self.replies.extend(first.into_iter().map(SourceReply::Handled));
            }
            Step::Speak(may_speak) => self.may_speak = may_speak,
            Step::StartOver => {
                self.changed = self.notes.0.iter().map(|(key, note)| (key.clone(), Some(note.clone()))).collect();
                return EventEffect::StartedOver;
            }
        }
        EventEffect::Continues
    }

    fn drain(&mut self, _: Instant) -> Changed<Notes> {
        std::mem::take(&mut self.changed)
    }

    fn status(&self) -> &NoteMap {
        &self.notes
    }

    fn may_speak(&self) -> MaySpeak {
        self.may_speak
    }

    fn report_credit(&self) -> Option<Credit> {
        Some(Credit { changes: 10, bytes: 10_000 })
    }

    fn report_received(&mut self, report: UnhandledReport<Notes>) {
        self.received.lock().unwrap().reports.push(report.clone());
        if report.is_early() && report.report().phase == Phase::Gone {
            return self.replies.push(SourceReply::Repeat(report));
        }
        self.unhandled.insert(report.key().clone(), report);
    }

    fn rejected(&mut self, key: &NoteKey, reject: &Reject<Notes>, _: bool) {
        self.received.lock().unwrap().rejects.push((key.clone(), Some(reject.reason)));
    }

    fn resolved(&mut self, key: &NoteKey) {
        self.received.lock().unwrap().rejects.push((key.clone(), None));
    }

    fn facts_received(&mut self, facts: &u64) {
        let mut received = self.received.lock().unwrap();
        if received.facts.last() != Some(facts) {
            received.facts.push(*facts);
        }
    }

    fn content_requested(&mut self, request: ContentRequest<Notes>) {
        self.received.lock().unwrap().requests += 1;
        self.requests.push(request);
        self.answer();
    }

    fn drain_replies(&mut self) -> Vec<SourceReply<Notes>> {
        std::mem::take(&mut self.replies)
    }
}
