//! The API server as requests meet it: delayed, in any order, late, lost, and answered with 429.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::BackendName;
use gimbal_reconcile::{BackendState, Job, WriteFailure, Written};

use crate::lease::Lease;
use crate::server::{Luck, Server};
use crate::witness::judge_write;
use crate::world::{Event, World};
use crate::writer::{Mail, WRITE_TIMEOUT};

/// A write on its way.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) writer: usize,
    pub(crate) life: u32,
    pub(crate) job: u64,
    pub(crate) action: usize,
    epoch: Option<u64>,
    what: Arc<gimbal_plan::Action>,
}

/// The state of a backend on its way to the store.
#[derive(Debug, Clone)]
pub(crate) struct Keep {
    pub(crate) writer: usize,
    pub(crate) life: u32,
    epoch: Option<u64>,
    backend: BackendName,
    version: u64,
    state: BackendState,
}

/// The API server and the requests on their way to it.
#[derive(Debug, Default)]
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) lease: Lease,
    /// The stored state of each backend; `newest` holds the life and version that it came from.
    pub(crate) kept: BTreeMap<BackendName, BackendState>,
    newest: BTreeMap<BackendName, (usize, u32, u64)>,
    pub(crate) keeps: u64,
    pub(crate) under_way: u64,
    pub(crate) slow_until: Duration,
    pub(crate) throttled_until: Duration,
    pub(crate) lossy_until: Duration,
    /// Until this time a writer may not know that the store was restored.
    pub(crate) doubtful_until: Duration,
}

impl World {
    /// Returns a random delay of a request or of its answer.
    pub(crate) fn api_delay(&mut self) -> Duration {
        match self.api.slow_until > self.agenda.now() {
            true => self.random.millis(200, 8_000),
            false => self.random.millis(1, 15),
        }
    }

    pub(crate) fn send_request(&mut self, writer: usize, number: u64, job: &Job, action: usize) {
        let now = self.agenda.now();
        let (epoch, life) = (self.writers[writer].epoch(now), self.writers[writer].life);
        let request = Request { writer, life, job: number, action, epoch, what: Arc::new(job.actions[action].clone()) };
        if epoch.is_none() {
            return self.agenda.after(Duration::ZERO, Event::Answer(request, Box::new(Written::NotSent)));
        }
        self.agenda.after(WRITE_TIMEOUT, Event::GiveUp(request.clone()));
        if self.api.lossy_until > now && self.random.percent(10) {
            return;
        }
        self.api.under_way += 1;
        let takes = self.api_delay();
        self.agenda.after(takes, Event::Request(request));
    }

    /// Handles a write that arrives, whatever became of its sender.
    pub(crate) fn take_request(&mut self, request: Request) {
        let now = self.agenda.now();
        let cut = self.writers[request.writer].cut_until;
        if cut > now {
            return self.agenda.at(cut, Event::Request(request));
        }
        self.api.under_way -= 1;
        let back = self.api_delay();
        if self.api.throttled_until > now && self.random.percent(60) {
            let asked = Written::Failed(WriteFailure::Throttled(Some(Duration::from_secs(1))));
            return self.agenda.after(back, Event::Answer(request, Box::new(asked)));
        }
        let luck = match self.api.lossy_until > now {
            true if self.random.percent(10) => Luck::Refused,
            true if self.random.percent(10) => Luck::AnswerLost,
            _ => Luck::Good,
        };
        let leads = self.is_newest(request.epoch) && self.writers[request.writer].life == request.life;
        let in_time =
            leads && self.api.doubtful_until <= now && self.waits_for(request.writer, request.job, request.action);
        if let Err(fault) = judge_write(&self.api.server, &request.what, in_time) {
            self.fail(fault);
        }
        let before = self.api.server.writes;
        let written = self.api.server.write(&request.what, luck);
        let wrote = self.api.server.writes != before;
        self.report.writes += u64::from(wrote);
        self.report.late_writes += u64::from(wrote && !leads);
        self.trace.note(&[self.api.server.writes as u64]);
        self.trace.text(request.what.name());
        if wrote {
            self.active();
        }
        self.tell_watches();
        self.agenda.after(back, Event::Answer(request, Box::new(written)));
    }

    pub(crate) fn send_keep(&mut self, writer: usize, backend: BackendName, version: u64, state: BackendState) {
        let (epoch, life) = (self.writers[writer].epoch(self.agenda.now()), self.writers[writer].life);
        let takes = self.api_delay();
        self.agenda.after(takes, Event::Keep(Box::new(Keep { writer, life, epoch, backend, version, state })));
    }

    /// Handles a request to store a backend's state. A writer that no longer leads names an outdated version.
    pub(crate) fn take_keep(&mut self, keep: Keep) {
        let cut = self.writers[keep.writer].cut_until;
        if cut > self.agenda.now() {
            return self.agenda.at(cut, Event::Keep(Box::new(keep)));
        }
        if !self.is_newest(keep.epoch) {
            return;
        }
        let Keep { writer, life, backend, version, state, .. } = keep;
        // Of the states of one process the newest counts, in whatever order they arrive.
        let newest = self.api.newest.get(&backend).copied().unwrap_or_default();
        if newest.0 != writer || newest.1 != life || newest.2 < version {
            self.api.newest.insert(backend.clone(), (writer, life, version));
            if self.api.kept.insert(backend.clone(), state.clone()) != Some(state) {
                self.api.keeps += 1;
                self.active();
            }
        }
        let back = self.api_delay();
        self.agenda.after(back, Event::Kept { writer, life, backend, version });
    }

    pub(crate) fn take_namespace(&mut self, writer: usize, life: u32, namespace: Arc<str>) {
        if !self.api.server.namespaces.contains(&*namespace) {
            self.api.server.set_namespace(&namespace, true);
            self.active();
            self.tell_watches();
        }
        if self.writers[writer].life == life {
            self.post(writer, Mail::NamespaceCreated(namespace));
        }
    }
}
