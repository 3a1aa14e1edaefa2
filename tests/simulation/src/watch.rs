//! The watches of a writer: the events of each kind in order, the kinds in any order. A watch that cannot go on lists
//! everything again while the world changes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gimbal_reconcile::{Reconciler, Watched};

use crate::server;
use crate::world::{Event, World};
use crate::writer::Mail;

/// Number of objects in one page of a list.
const PAGE: usize = 200;

/// An item that a watch delivers.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    ListBegins,
    /// A page of a list, or later events.
    Shown(Vec<server::Event>),
    ListEnds,
}

/// The watch of one kind.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The writer knows that a list begins; what it knew before is older than the list.
    pub(crate) asked: bool,
    /// The watch receives events from now on.
    follows: bool,
    queue: VecDeque<(Duration, Seen)>,
    armed: bool,
    /// The watch delivers nothing until this time.
    pub(crate) stalled_until: Duration,
}

impl Seen {
    pub(crate) fn deliver(self, kind: Watched, state: &mut Reconciler, now: Instant) {
        match self {
            Self::ListBegins => state.list_begin(kind),
            Self::Shown(events) => events.into_iter().for_each(|event| event.deliver(state, now)),
            Self::ListEnds => state.list_end(kind, now),
        }
    }
}

impl World {
    /// Starts the watch of a kind again, with a list.
    pub(crate) fn relist(&mut self, writer: usize, kind: Watched) {
        self.writers[writer].watches.insert(kind, Watch::default());
        self.post(writer, Mail::Saw(kind, Seen::ListBegins));
    }

    /// Notifies the writer that a list begins, then requests the list.
    pub(crate) fn ask_list(&mut self, writer: usize, kind: Watched) {
        let (read, life) = (self.random.millis(5, 800), self.writers[writer].life);
        if let Some(watch) = self.writers[writer].watches.get_mut(&kind) {
            watch.asked = true;
        }
        self.agenda.after(read, Event::List { writer, life, kind });
    }

    /// The API server makes the list: a view of this moment, delivered page by page.
    pub(crate) fn list(&mut self, writer: usize, kind: Watched) {
        let (now, life) = (self.agenda.now(), self.writers[writer].life);
        let cut = self.writers[writer].cut_until;
        let Some(watch) = self.writers[writer].watches.get_mut(&kind) else { return };
        // Another list may have been requested in the meantime.
        if watch.follows || !watch.asked {
            return;
        }
        if cut > now {
            return self.agenda.at(cut, Event::List { writer, life, kind });
        }
        watch.follows = true;
        let all = self.api.server.list(kind);
        for page in all.chunks(PAGE) {
            self.show(writer, kind, Seen::Shown(page.to_vec()));
        }
        self.show(writer, kind, Seen::ListEnds);
    }

    fn show(&mut self, writer: usize, kind: Watched, seen: Seen) {
        let (now, life) = (self.agenda.now(), self.writers[writer].life);
        let when = now + self.random.millis(1, 60);
        let Some(watch) = self.writers[writer].watches.get_mut(&kind) else { return };
        let when = watch.queue.back().map_or(when, |(last, _)| when.max(*last));
        watch.queue.push_back((when, seen));
        if !std::mem::replace(&mut watch.armed, true) {
            self.agenda.at(when, Event::Watch { writer, life, kind });
        }
    }

    /// Delivers the items of a watch that are due.
    pub(crate) fn see(&mut self, writer: usize, kind: Watched) {
        let (now, life) = (self.agenda.now(), self.writers[writer].life);
        let cut = self.writers[writer].cut_until;
        let Some(watch) = self.writers[writer].watches.get_mut(&kind) else { return };
        let blocked = cut.max(watch.stalled_until);
        if blocked > now {
            return self.agenda.at(blocked, Event::Watch { writer, life, kind });
        }
        let mut arrived = Vec::new();
        while let Some((_, seen)) = watch.queue.pop_front_if(|(when, _)| *when <= now) {
            arrived.push(seen);
        }
        watch.armed = !watch.queue.is_empty();
        if let Some((next, _)) = watch.queue.front() {
            self.agenda.at(*next, Event::Watch { writer, life, kind });
        }
        for seen in arrived {
            self.post(writer, Mail::Saw(kind, seen));
        }
    }

    /// Queues the new events of the API server for all watches.
    pub(crate) fn tell_watches(&mut self) {
        while let Some(event) = self.api.server.unheard.pop_front() {
            if let Err(fault) = self.witness.look(&event) {
                self.fail(fault);
            }
        }
        while let Some(event) = self.api.server.events.pop_front() {
            if let Err(fault) = self.witness.look(&event) {
                self.fail(fault);
            }
            let kind = event.kind();
            for writer in 0..self.writers.len() {
                if self.writers[writer].watches.get(&kind).is_some_and(|watch| watch.follows) {
                    self.show(writer, kind, Seen::Shown(vec![event.clone()]));
                }
            }
        }
    }
}
