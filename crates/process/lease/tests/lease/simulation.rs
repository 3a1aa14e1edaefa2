//! Several candidates over one Lease, in any interleaving, with clocks of different offsets and rates: there are never
//! two leaders, and no process takes up its earlier leadership if another led in between.
//!
//! The server is this one Lease: of an API server only the order matters in which it processes requests in flight.

use std::sync::Arc;
use std::time::Duration;

use gimbal_kubernetes_objects::Lease;
use proptest::prelude::*;

use gimbal_lease::{Election, LeaseCall, LeaseFailure, Moment, Times};

const CANDIDATES: usize = 3;

#[derive(Debug, Clone)]
enum Event {
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A candidate makes its next call, unless it waits for an answer.
    Act(usize),
    /// The server processes one of the requests in flight, even if its sender is gone.
    Take(usize),
    /// An answer arrives, if its sender still waits for it.
    Answer(usize),
    /// A candidate gives up waiting.
    GiveUp(usize),
    /// A process ends without releasing the Lease, or starts again.
    Crash(usize),
    Start(usize),
    /// A process ends and releases the Lease.
    Stop(usize),
    /// A process's work beside its lease hangs, or goes on.
    Hang(usize),
    /// Another client deletes the Lease.
    Delete,
}

struct Candidate {
    machine: Option<Election>,
    /// Rate of its clock in thousandths, and what it showed at the beginning.
    rate: u32,
    offset: Duration,
    waits_for: Option<(usize, Moment)>,
    works: bool,
    /// Epoch and UID by which it led last, in this life of its process.
    led: Option<(u64, Arc<str>)>,
}

enum Answer {
    Read(Option<Lease>),
    Written(Lease),
    Outrun,
}

struct Request {
    id: usize,
    from: usize,
    step: LeaseCall,
    answer: Option<Answer>,
}

struct World {
    begin: Moment,
    passed: Duration,
    lease: Option<Lease>,
    version: u64,
    sent: usize,
    deleted: bool,
    /// The candidate that led last.
    last: Option<usize>,
    candidates: Vec<Candidate>,
    wire: Vec<Request>,
}

impl World {
    fn new(clocks: &[(u32, u64)]) -> Self {
        let candidate = |(rate, offset): &(u32, u64)| Candidate {
            machine: None,
            rate: *rate,
            offset: Duration::from_millis(*offset),
            waits_for: None,
            works: true,
            led: None,
        };
        Self {
            begin: Moment::now(),
            passed: Duration::ZERO,
            lease: None,
            version: 0,
            sent: 0,
            deleted: false,
            last: None,
            candidates: clocks.iter().map(candidate).collect(),
            wire: Vec::new(),
        }
    }

    fn now(&self, of: usize) -> Moment {
        let candidate = &self.candidates[of];
        self.begin + candidate.offset + self.passed * candidate.rate / 1000
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Pass(milliseconds) => self.passed += Duration::from_millis(milliseconds),
            Event::Act(of) => self.act(of),
            Event::Take(nth) => self.process_request(nth),
            Event::Answer(nth) => self.answer(nth),
            Event::GiveUp(of) => {
                let now = self.now(of);
                let candidate = &mut self.candidates[of];
                if let (Some(machine), Some(_)) = (&mut candidate.machine, candidate.waits_for.take()) {
                    machine.failed(LeaseFailure::Unknown, now);
                }
            }
            Event::Crash(of) => self.candidates[of].machine = None,
            Event::Hang(of) => self.candidates[of].works ^= true,
            Event::Delete if self.all_have_seen_it() => self.deleted |= self.lease.take().is_some(),
            Event::Delete => {}
            Event::Start(of) => {
                let now = self.now(of);
                let candidate = &mut self.candidates[of];
                if candidate.machine.is_none() {
                    candidate.machine =
                        Some(Election::new("ns", "lease", &format!("c{of}"), Times::new(Duration::from_secs(3)), now));
                    candidate.waits_for = None;
                    candidate.led = None;
                }
            }
            Event::Stop(of) => {
                let released = self.candidates[of].machine.take().and_then(|mut machine| machine.release(""));
                if let Some(lease) = released {
                    self.send(of, LeaseCall::Replace(lease));
                }
            }
        }
    }

    fn send(&mut self, from: usize, step: LeaseCall) -> usize {
        self.sent += 1;
        self.wire.push(Request { id: self.sent, from, step, answer: None });
        self.sent
    }

    fn act(&mut self, of: usize) {
        let now = self.now(of);
        let Some(machine) = self.candidates[of].machine.as_ref().filter(|_| self.candidates[of].waits_for.is_none())
        else {
            return;
        };
        let step = machine.next_call(now, "", self.candidates[of].works);
        if !matches!(step, LeaseCall::Wait(_)) {
            let id = self.send(of, step);
            self.candidates[of].waits_for = Some((id, now));
        }
    }

    fn process_request(&mut self, nth: usize) {
        let mut waiting: Vec<_> = self.wire.iter_mut().filter(|request| request.answer.is_none()).collect();
        let count = waiting.len().max(1);
        let Some(request) = waiting.get_mut(nth % count) else { return };
        let there = self.lease.as_ref().map(|lease| &lease.metadata.resource_version);
        let accepted = match &request.step {
            LeaseCall::Wait(_) | LeaseCall::Read => {
                request.answer = Some(Answer::Read(self.lease.clone()));
                return;
            }
            LeaseCall::Create(lease) => there.is_none().then_some(lease),
            LeaseCall::Replace(lease) => (there == Some(&lease.metadata.resource_version)).then_some(lease),
        };
        request.answer = Some(match accepted {
            None => Answer::Outrun,
            Some(lease) => {
                self.version += 1;
                let mut lease = lease.clone();
                if self.lease.is_none() {
                    lease.metadata.uid = format!("uid{}", self.version).into();
                }
                lease.metadata.resource_version = self.version.to_string().into();
                self.lease = Some(lease.clone());
                Answer::Written(lease)
            }
        });
    }

    fn answer(&mut self, nth: usize) {
        let answered: Vec<_> = (0..self.wire.len()).filter(|at| self.wire[*at].answer.is_some()).collect();
        let Some(at) = answered.get(nth % answered.len().max(1)) else { return };
        let request = self.wire.remove(*at);
        let now = self.now(request.from);
        let candidate = &mut self.candidates[request.from];
        let Some((_, started)) = candidate.waits_for.filter(|(id, _)| *id == request.id) else { return };
        let (Some(machine), Some(answer)) = (&mut candidate.machine, request.answer) else { return };
        candidate.waits_for = None;
        machine.observe_latency(now.since(started));
        match answer {
            Answer::Read(lease) => machine.read(lease, now),
            Answer::Written(lease) => machine.written(lease, started, now),
            Answer::Outrun => machine.failed(LeaseFailure::Outrun, now),
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |of: &usize| {
            let machine = self.candidates[*of].machine.as_ref();
            machine.is_some_and(|machine| machine.lead(self.now(*of)).is_some())
        };
        (0..self.candidates.len()).filter(leads).collect()
    }

    /// Returns whether all candidates have seen the Lease. If it is deleted before, that looks as if it never existed.
    fn all_have_seen_it(&self) -> bool {
        let Some(lease) = &self.lease else { return false };
        let mut machines = self.candidates.iter().filter_map(|candidate| candidate.machine.as_ref());
        machines.all(|machine| machine.has_seen(&lease.metadata.uid))
    }

    /// Records whether this candidate leads. Returns an error if it takes up its earlier leadership although another
    /// led meanwhile.
    fn note_leader(&mut self, of: usize) -> Result<(), String> {
        let now = self.now(of);
        let lead = self.candidates[of].machine.as_ref().and_then(|machine| machine.lead(now));
        let Some(by) = lead.map(|lead| (lead.epoch, lead.uid.clone())) else { return Ok(()) };
        let last = self.last.replace(of);
        let before = self.candidates[of].led.replace(by.clone());
        if before.as_ref().is_some_and(|(epoch, _)| *epoch > by.0) {
            return Err(format!("the epoch by which {of} leads fell from {before:?} to {by:?}"));
        }
        if last != Some(of) && before == Some(by) {
            return Err(format!("{of} takes up what it knew, though {last:?} led since"));
        }
        Ok(())
    }

    /// From here on every candidate works and calls are answered quickly.
    fn let_all_work(&mut self) {
        for candidate in &mut self.candidates {
            candidate.works = true;
        }
        for _ in 0..100 {
            for of in 0..CANDIDATES {
                for event in [Event::Start(of), Event::Act(of), Event::Take(0), Event::Answer(0)] {
                    self.happen(&event);
                }
                if self.candidates[of].waits_for.is_some_and(|(id, _)| !self.wire.iter().any(|one| one.id == id)) {
                    self.happen(&Event::GiveUp(of));
                }
            }
            self.happen(&Event::Pass(100));
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let of = || 0..CANDIDATES;
    prop_oneof![
        8 => (0..400_u64).prop_map(Event::Pass),
        2 => (400..3000_u64).prop_map(Event::Pass),
        12 => of().prop_map(Event::Act),
        12 => (0..4_usize).prop_map(Event::Take),
        12 => (0..4_usize).prop_map(Event::Answer),
        2 => of().prop_map(Event::GiveUp),
        1 => of().prop_map(Event::Crash),
        3 => of().prop_map(Event::Start),
        1 => of().prop_map(Event::Stop),
        1 => of().prop_map(Event::Hang),
    ]
}

#[test]
fn never_two_leaders_and_one_in_the_end() {
    gimbal_property::check(
        64,
        &(
            prop::collection::vec((900..1100_u32, 0..1_000_000_u64), CANDIDATES),
            prop::collection::vec(event(), 0..400),
            prop::option::of(any::<prop::sample::Index>()),
        ),
        |(clocks, mut events, deleted_at)| {
            // No election can protect against two deletions within the time that a lease lasts.
            if let Some(at) = deleted_at {
                events.insert(at.index(events.len() + 1), Event::Delete);
            }
            let mut world = World::new(&clocks);
            for of in 0..CANDIDATES {
                world.happen(&Event::Start(of));
            }
            let mut epoch = 0;
            for event in &events {
                world.happen(event);
                let leaders = world.leaders();
                prop_assert!(leaders.len() <= 1, "{leaders:?} lead after {event:?}");
                for of in leaders {
                    prop_assert_eq!(world.note_leader(of), Ok(()), "after {:?}", event);
                }
                let now = world.lease.as_ref().and_then(|lease| lease.spec.lease_transitions).unwrap_or_default();
                prop_assert!(now >= epoch || world.deleted, "the epoch fell from {epoch} to {now}");
                epoch = now;
            }
            world.let_all_work();
            prop_assert_eq!(world.leaders().len(), 1, "somebody leads when all is well");
            Ok(())
        },
    );
}
