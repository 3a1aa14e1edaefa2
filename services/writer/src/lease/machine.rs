//! Who leads: decided from what was seen of the Lease, on a clock of its own. Pure; the edge brings answers and time.
//!
//! Why there are never two leaders: a leader counts [`Times::deadline`] from *before* it sent the renewal that succeeded;
//! anyone else counts the longer [`Times::duration`] from *after* it saw that renewal, and takes over only by a write that
//! names the version it saw. No clock is compared with another, only their rates matter, and those may differ by a third.
//!
//! Past its deadline a leader writes nothing, and is the leader still: what it knows stays true for as long as nobody else
//! is seen to have led. It ends being one when it sees another holder, another epoch, another Lease, or none.

use std::time::Duration;

use gimbal_kubernetes_objects::{Lease, LeaseSpec, Meta};

use super::Moment;
use super::times::Times;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Nothing until then.
    Wait(Moment),
    /// Read the Lease.
    Read,
    /// Create it.
    Create(Lease),
    /// Replace the version that it names.
    Replace(Lease),
}

/// Why a write was not answered with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Somebody else wrote, or there is nothing to replace.
    Outrun,
    /// Anything else; whether the write took place is unknown.
    Unknown,
}

/// One candidate's knowledge.
#[derive(Debug)]
pub(super) struct Machine {
    identity: String,
    times: Times,
    /// Where the Lease is, for a create.
    place: Meta,
    seen: Option<Seen>,
    /// Whether `seen` is from the last answer; after a failure it must be read again before it is written.
    current: bool,
    /// No read before this.
    read_after: Moment,
    /// Without a Lease: no create before this.
    create_after: Option<Moment>,
    /// Not taken, not even from nobody, before this.
    stand_back: Moment,
    /// How long calls took lately.
    slow: Duration,
    lead: Option<Lead>,
}

#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When this version was first seen.
    since: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) epoch: u64,
    /// The Lease that says so: one that was deleted and created again is another.
    pub(super) uid: std::sync::Arc<str>,
    /// When the renewal was begun that succeeded last.
    renewed: Moment,
    pub(super) until: Moment,
}

impl Machine {
    pub(super) fn new(namespace: &str, name: &str, identity: &str, times: Times, now: Moment) -> Self {
        let place = Meta { namespace: namespace.into(), name: name.into(), ..Meta::default() };
        Self {
            identity: identity.to_owned(),
            times,
            place,
            seen: None,
            current: false,
            read_after: now,
            create_after: None,
            stand_back: now,
            slow: Duration::ZERO,
            lead: None,
        }
    }

    /// What to do now. `wall` is the time of day, which only people read; `works`: whether the rest of the process does its
    /// work. Who does not neither takes the Lease nor renews it.
    pub(super) fn step(&self, now: Moment, wall: &str, works: bool) -> Step {
        let at = |when: Moment, step: Step| if now < when { Step::Wait(when) } else { step };
        if !self.current {
            return at(self.read_after, Step::Read);
        }
        if !works || now < self.stand_back {
            return at(self.read_after, Step::Read);
        }
        let Some(seen) = &self.seen else {
            let lease = Lease { metadata: self.place.clone(), ..Lease::default() };
            return match self.create_after {
                // Somebody else may create it meanwhile.
                Some(when) if now < when => at(self.read_after.min(when), Step::Read),
                _ => Step::Create(self.claim(&lease, wall)),
            };
        };
        let holder = holder(&seen.lease);
        if holder == self.identity {
            // Its own lease is taken back at once, be it that the deadline passed or that the process is a new one.
            let renewal = self.lead.as_ref().map_or(now, |lead| lead.renewed + self.times.renew);
            return at(renewal, Step::Replace(self.claim(&seen.lease, wall)));
        }
        let expiry = seen.since + self.lasting(&seen.lease);
        if holder.is_empty() || now >= expiry {
            return Step::Replace(self.claim(&seen.lease, wall));
        }
        at(self.read_after.min(expiry), Step::Read)
    }

    /// How long to wait for the answer to a call: as a rule so short that a connection that died leaves time for another
    /// call before the Lease runs out; longer where answers take longer, for one that is given up is one for nothing.
    pub(super) fn patience(&self) -> Duration {
        (self.slow * 2).clamp(self.times.renew, self.times.deadline)
    }

    /// Takes how long a call took.
    pub(super) fn took(&mut self, time: Duration) {
        self.slow = time.max(self.slow / 2);
    }

    /// Takes the answer to a read; `None`: there is no Lease.
    pub(super) fn read(&mut self, lease: Option<Lease>, now: Moment) {
        self.current = true;
        self.read_after = now + self.times.poll;
        let Some(lease) = lease else {
            self.none(now);
            return;
        };
        self.create_after = None;
        if !self.is_mine(&lease) {
            self.lead = None;
        }
        let known = self.seen.as_ref().is_some_and(|seen| seen.lease.metadata == lease.metadata);
        if !known {
            self.seen = Some(Seen { lease, since: now });
        }
    }

    /// There is no Lease. Somebody may have deleted it under a leader, who does not know yet and may have renewed it a moment
    /// before: only one who leads at this moment knows that nobody else does.
    fn none(&mut self, now: Moment) {
        let lasts = self.seen.take().map_or(self.times.duration, |seen| self.lasting(&seen.lease));
        let runs_out = if self.lead(now).is_some() { now } else { now + lasts };
        self.create_after.get_or_insert(runs_out);
        self.lead = None;
    }

    /// Whether a lease is the very one by which this leads.
    fn is_mine(&self, lease: &Lease) -> bool {
        self.lead.as_ref().is_some_and(|lead| {
            holder(lease) == self.identity && epoch(lease) == lead.epoch && lease.metadata.uid == lead.uid
        })
    }

    /// Takes the answer to a create or a replace that was begun at `started`.
    pub(super) fn written(&mut self, lease: Lease, started: Moment, now: Moment) {
        let (epoch, uid) = (epoch(&lease), lease.metadata.uid.clone());
        let ours = holder(&lease) == self.identity;
        self.lead = ours.then(|| Lead { epoch, uid, renewed: started, until: started + self.times.deadline });
        self.seen = Some(Seen { lease, since: now });
        self.current = true;
        self.read_after = now + self.times.poll;
        self.create_after = None;
    }

    /// Takes the failure of a read or a write.
    pub(super) fn failed(&mut self, failure: Failure, now: Moment) {
        self.current = false;
        self.read_after = if failure == Failure::Outrun { now } else { now + self.times.retry };
    }

    /// The leadership by which writes may be sent.
    pub(super) fn lead(&self, now: Moment) -> Option<&Lead> {
        self.held().filter(|lead| now < lead.until)
    }

    /// The leadership that nobody else is known to have had since, late or not.
    pub(super) fn held(&self) -> Option<&Lead> {
        self.lead.as_ref()
    }

    /// Who else holds the Lease, as far as is known; empty: nobody.
    pub(super) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder(&seen.lease))
    }

    /// Whether the Lease that it knows of is this one.
    #[cfg(test)]
    pub(super) fn has_seen(&self, uid: &str) -> bool {
        self.seen.as_ref().is_some_and(|seen| *seen.lease.metadata.uid == *uid)
    }

    /// Stops leading; what to write so that others need not wait.
    pub(super) fn release(&mut self, wall: &str) -> Option<Lease> {
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

    /// Does not take the Lease for a while, so that another may.
    pub(super) fn stand_back(&mut self, until: Moment) {
        self.stand_back = until;
    }

    fn claim(&self, old: &Lease, wall: &str) -> Lease {
        let same = holder(old) == self.identity;
        let acquired = if same { old.spec.acquire_time.clone() } else { None };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.times.seconds()),
            acquire_time: acquired.or_else(|| Some(wall.to_owned())),
            renew_time: Some(wall.to_owned()),
            lease_transitions: Some(transitions(old).saturating_add(i32::from(!same))),
        };
        Lease { metadata: old.metadata.clone(), spec }
    }

    /// How long the holder may rely on it; never less than what we ourselves ask of others.
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
