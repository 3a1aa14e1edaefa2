//! Decides who leads, from what was seen of the Lease and on this process's own clock. Performs no I/O: the caller
//! brings answers and time.
//!
//! There are never two leaders. A leader counts [`Times::deadline`] from *before* it sent the renewal that succeeded.
//! Everyone else counts the longer [`Times::duration`] from *after* it saw that renewal, and takes over only by a write
//! that names the resourceVersion it saw. No two clocks are compared; only their rates matter, and those may differ by
//! a third.
//!
//! After its deadline a leader must not write, but it is still the leader: its state stays true as long as no other
//! process is seen to have led. It stops leading when it sees another holder, another epoch, another Lease, or none.

use std::time::Duration;

use gimbal_kubernetes_objects::{Lease, LeaseSpec, Meta};

use crate::{Moment, Times};

/// The next call about the Lease.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseCall {
    /// No call before this moment.
    Wait(Moment),
    /// Read the Lease.
    Read,
    /// Create it.
    Create(Lease),
    /// Replace it; it names the resourceVersion.
    Replace(Lease),
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseFailure {
    /// Another process wrote first, or there is no Lease to replace.
    Outrun,
    /// Anything else. Whether the write took effect is unknown.
    Unknown,
}

/// What one candidate knows, and what it does next.
#[derive(Debug)]
pub struct Election {
    identity: String,
    times: Times,
    /// Namespace and name of the Lease, for a create.
    place: Meta,
    seen: Option<Seen>,
    /// Whether `seen` is from the last answer. After a failure the Lease must be read before it is written.
    current: bool,
    /// Earliest time of the next read.
    read_after: Moment,
    /// If there is no Lease: earliest time of a create.
    create_after: Option<Moment>,
    /// Earliest time to take the Lease, even a free one.
    stand_back_until: Moment,
    /// The largest number of transitions that this process has seen in the Lease, or in one that was deleted since.
    most_transitions: i32,
    /// Recent latency of calls.
    slow: Duration,
    lead: Option<Lead>,
}

#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When this version was first seen.
    since: Moment,
}

/// A leadership of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    /// Grows each time the leader changes; see [`Leadership::Leader`](crate::Leadership::Leader).
    pub epoch: u64,
    /// UID of the Lease. A Lease that was deleted and created again has another.
    pub uid: std::sync::Arc<str>,
    /// When the last successful renewal was sent.
    renewed: Moment,
    /// No write may be sent from this moment on.
    pub until: Moment,
}

impl Election {
    /// Creates a candidate that has seen nothing yet.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str, times: Times, now: Moment) -> Self {
        let place = Meta { namespace: namespace.into(), name: name.into(), ..Meta::default() };
        Self {
            identity: identity.to_owned(),
            times,
            place,
            seen: None,
            current: false,
            read_after: now,
            create_after: None,
            stand_back_until: now,
            most_transitions: 0,
            slow: Duration::ZERO,
            lead: None,
        }
    }

    /// Returns the next call. `wall` is the time of day, written into the Lease for people to read. A process that does
    /// not do its work (`works` is false) neither takes the Lease nor renews it.
    #[must_use]
    pub fn next_call(&self, now: Moment, wall: &str, works: bool) -> LeaseCall {
        let at = |when: Moment, step: LeaseCall| if now < when { LeaseCall::Wait(when) } else { step };
        if !self.current {
            return at(self.read_after, LeaseCall::Read);
        }
        if !works || now < self.stand_back_until {
            return at(self.read_after, LeaseCall::Read);
        }
        let Some(seen) = &self.seen else {
            let lease = Lease { metadata: self.place.clone(), ..Lease::default() };
            return match self.create_after {
                // Another process may create it meanwhile.
                Some(when) if now < when => at(self.read_after.min(when), LeaseCall::Read),
                _ => LeaseCall::Create(self.claim(&lease, wall)),
            };
        };
        let holder = holder(&seen.lease);
        if holder == self.identity {
            // Its own lease is taken back at once, whether the deadline passed or the process restarted.
            let renewal = self.lead.as_ref().map_or(now, |lead| lead.renewed + self.times.renew);
            return at(renewal, LeaseCall::Replace(self.claim(&seen.lease, wall)));
        }
        let expiry = seen.since + self.lasting(&seen.lease);
        if holder.is_empty() || now >= expiry {
            return LeaseCall::Replace(self.claim(&seen.lease, wall));
        }
        at(self.read_after.min(expiry), LeaseCall::Read)
    }

    /// Returns the time-out of the next call. Normally it is so short that after a broken connection there is time for
    /// another call before the Lease runs out. It grows with the latency of answers, for a slow answer is better than
    /// none.
    #[must_use]
    pub fn call_timeout(&self) -> Duration {
        (self.slow * 2).clamp(self.times.renew, self.times.deadline)
    }

    /// Takes in the latency of a call.
    pub fn observe_latency(&mut self, time: Duration) {
        self.slow = time.max(self.slow / 2);
    }

    /// Takes in the answer to a read; `None` means that there is no Lease.
    pub fn read(&mut self, lease: Option<Lease>, now: Moment) {
        self.current = true;
        self.read_after = now + self.times.poll;
        let Some(lease) = lease else {
            self.none(now);
            return;
        };
        self.create_after = None;
        self.most_transitions = self.most_transitions.max(transitions(&lease));
        if !self.is_mine(&lease) {
            self.lead = None;
        }
        let known = self.seen.as_ref().is_some_and(|seen| seen.lease.metadata == lease.metadata);
        if !known {
            self.seen = Some(Seen { lease, since: now });
        }
    }

    /// Takes in that there is no Lease. Another process may still lead: the Lease may have been deleted right after a
    /// renewal. Only a process that leads at this moment knows that no other one does, and need not wait.
    fn none(&mut self, now: Moment) {
        let lasts = self.seen.take().map_or(self.times.duration, |seen| self.lasting(&seen.lease));
        let runs_out = if self.lead(now).is_some() { now } else { now + lasts };
        self.create_after.get_or_insert(runs_out);
        self.lead = None;
    }

    /// Returns whether this is the Lease by which this process leads.
    fn is_mine(&self, lease: &Lease) -> bool {
        self.lead.as_ref().is_some_and(|lead| {
            holder(lease) == self.identity && epoch(lease) == lead.epoch && lease.metadata.uid == lead.uid
        })
    }

    /// Takes in the answer to a create or replace that was sent at `started`.
    pub fn written(&mut self, lease: Lease, started: Moment, now: Moment) {
        self.most_transitions = self.most_transitions.max(transitions(&lease));
        let (epoch, uid) = (epoch(&lease), lease.metadata.uid.clone());
        let ours = holder(&lease) == self.identity;
        self.lead = ours.then(|| Lead { epoch, uid, renewed: started, until: started + self.times.deadline });
        self.seen = Some(Seen { lease, since: now });
        self.current = true;
        self.read_after = now + self.times.poll;
        self.create_after = None;
    }

    /// Takes in the failure of a call.
    pub fn failed(&mut self, failure: LeaseFailure, now: Moment) {
        self.current = false;
        self.read_after = if failure == LeaseFailure::Outrun { now } else { now + self.times.retry };
    }

    /// Returns the leadership if writes may be sent at `now`.
    #[must_use]
    pub fn lead(&self, now: Moment) -> Option<&Lead> {
        self.held().filter(|lead| now < lead.until)
    }

    /// Returns the leadership, whether or not it is late: no other process is known to have led since.
    #[must_use]
    pub fn held(&self) -> Option<&Lead> {
        self.lead.as_ref()
    }

    /// Returns the holder of the Lease, as far as it is known; empty if there is none.
    #[must_use]
    pub fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder(&seen.lease))
    }

    /// Returns whether the Lease seen last has this UID.
    #[must_use]
    pub fn has_seen(&self, uid: &str) -> bool {
        self.seen.as_ref().is_some_and(|seen| *seen.lease.metadata.uid == *uid)
    }

    /// Stops leading. Returns the Lease to write so that other processes need not wait for its expiry.
    pub fn release(&mut self, wall: &str) -> Option<Lease> {
        self.lead = None;
        let seen = self.seen.as_ref().filter(|seen| holder(&seen.lease) == self.identity)?;
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(wall.to_owned()),
            ..seen.lease.spec.clone()
        };
        self.current = false;
        Some(Lease { metadata: seen.lease.metadata.clone(), spec })
    }

    /// Leaves the Lease to other processes until `until`.
    pub fn stand_back(&mut self, until: Moment) {
        self.stand_back_until = until;
    }

    fn claim(&self, old: &Lease, wall: &str) -> Lease {
        let same = holder(old) == self.identity;
        // Fewer than were seen before: the Lease was deleted, and created by a process that did not know that.
        let renewed = same && transitions(old) >= self.most_transitions;
        let acquired = if same { old.spec.acquire_time.clone() } else { None };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.times.seconds()),
            acquire_time: acquired.or_else(|| Some(wall.to_owned())),
            renew_time: Some(wall.to_owned()),
            lease_transitions: Some(transitions(old).max(self.most_transitions).saturating_add(i32::from(!renewed))),
        };
        Lease { metadata: old.metadata.clone(), spec }
    }

    /// Returns how long the holder may rely on the Lease: at least as long as this process would.
    fn lasting(&self, lease: &Lease) -> Duration {
        let seconds =
            lease.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
        Duration::from_secs(seconds).max(self.times.duration)
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.holder_identity.as_deref().unwrap_or_default()
}

fn transitions(lease: &Lease) -> i32 {
    lease.spec.lease_transitions.unwrap_or_default().max(0)
}

fn epoch(lease: &Lease) -> u64 {
    u64::try_from(transitions(lease)).unwrap_or_default()
}
