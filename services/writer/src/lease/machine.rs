//! Who leads: decided from what was seen of the Lease, on a monotonic clock. Pure; the edge brings answers and time.
//!
//! Why there are never two leaders: a leader counts [`DEADLINE`] from *before* it sent the renewal that succeeded; anyone
//! else counts the longer [`DURATION`] from *after* it saw that renewal, and takes over only by a write that names the
//! version it saw. No clock is compared with another, only their rates matter, and those may differ by a third.

use std::time::{Duration, Instant};

use gimbal_objects::{Lease, LeaseSpec, Meta};

/// How long a lease lasts for others without a renewal.
pub(super) const DURATION: Duration = Duration::from_secs(3);
/// How long its holder relies on it.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// How often its holder renews it.
const RENEW: Duration = Duration::from_secs(1);
/// How often others look.
const POLL: Duration = Duration::from_millis(500);
/// How long to wait after a failure.
const RETRY: Duration = Duration::from_millis(200);

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Nothing until then.
    Wait(Instant),
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
    /// Where the Lease is, for a create.
    place: Meta,
    seen: Option<Seen>,
    /// Whether `seen` is from the last answer; after a failure it must be read again before it is written.
    current: bool,
    /// No read before this.
    read_after: Instant,
    /// Without a Lease: no create before this.
    create_after: Instant,
    lead: Option<Lead>,
}

#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When this version was first seen.
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) epoch: u64,
    /// When the renewal was begun that succeeded last.
    renewed: Instant,
    pub(super) until: Instant,
}

impl Machine {
    pub(super) fn new(namespace: &str, name: &str, identity: &str, now: Instant) -> Self {
        let place = Meta { namespace: namespace.into(), name: name.into(), ..Meta::default() };
        Self {
            identity: identity.to_owned(),
            place,
            seen: None,
            current: false,
            read_after: now,
            create_after: now,
            lead: None,
        }
    }

    /// What to do now. `wall` is the time of day, which only people read.
    pub(super) fn step(&self, now: Instant, wall: &str) -> Step {
        let at = |when: Instant, step: Step| if now < when { Step::Wait(when) } else { step };
        if !self.current {
            return at(self.read_after, Step::Read);
        }
        let Some(seen) = &self.seen else {
            let lease = Lease { metadata: self.place.clone(), ..Lease::default() };
            return at(self.create_after, Step::Create(self.claim(&lease, wall)));
        };
        let holder = holder(&seen.lease);
        if holder == self.identity {
            // Its own lease is taken back at once, be it that the deadline passed or that the process is a new one.
            let renewal = self.lead(now).map_or(now, |lead| lead.renewed + RENEW);
            return at(renewal, Step::Replace(self.claim(&seen.lease, wall)));
        }
        let expiry = seen.since + lasting(&seen.lease);
        if holder.is_empty() || now >= expiry {
            return Step::Replace(self.claim(&seen.lease, wall));
        }
        at(self.read_after.min(expiry), Step::Read)
    }

    /// Takes the answer to a read; `None`: there is no Lease.
    pub(super) fn read(&mut self, lease: Option<Lease>, now: Instant) {
        self.current = true;
        self.read_after = now + POLL;
        let Some(lease) = lease else {
            // Somebody may have deleted it under a leader, who does not know yet.
            let foreign = self.seen.take().filter(|seen| holder(&seen.lease) != self.identity);
            if let Some(seen) = foreign {
                self.create_after = seen.since + lasting(&seen.lease);
            }
            self.lead = None;
            return;
        };
        if holder(&lease) != self.identity {
            self.lead = None;
        }
        let known = self.seen.as_ref().is_some_and(|seen| seen.lease.metadata == lease.metadata);
        if !known {
            self.seen = Some(Seen { lease, since: now });
        }
    }

    /// Takes the answer to a create or a replace that was begun at `started`.
    pub(super) fn written(&mut self, lease: Lease, started: Instant, now: Instant) {
        let ours = holder(&lease) == self.identity;
        let epoch = u64::try_from(transitions(&lease)).unwrap_or_default();
        self.lead = ours.then_some(Lead { epoch, renewed: started, until: started + DEADLINE });
        self.seen = Some(Seen { lease, since: now });
        self.current = true;
    }

    /// Takes the failure of a read or a write.
    pub(super) fn failed(&mut self, failure: Failure, now: Instant) {
        self.current = false;
        self.read_after = if failure == Failure::Outrun { now } else { now + RETRY };
    }

    /// The leadership that still holds.
    pub(super) fn lead(&self, now: Instant) -> Option<Lead> {
        self.lead.filter(|lead| now < lead.until)
    }

    /// Who else holds the Lease, as far as is known; empty: nobody.
    pub(super) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| holder(&seen.lease))
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

    fn claim(&self, old: &Lease, wall: &str) -> Lease {
        let same = holder(old) == self.identity;
        let acquired = if same { old.spec.acquire_time.clone() } else { None };
        let spec = LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: acquired.or_else(|| Some(wall.to_owned())),
            renew_time: Some(wall.to_owned()),
            lease_transitions: Some(transitions(old).saturating_add(i32::from(!same))),
        };
        Lease { metadata: old.metadata.clone(), spec }
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.holder_identity.as_deref().unwrap_or_default()
}

fn transitions(lease: &Lease) -> i32 {
    lease.spec.lease_transitions.unwrap_or_default().max(0)
}

/// How long the holder may rely on it; never less than what we ourselves ask of others.
fn lasting(lease: &Lease) -> Duration {
    let seconds = lease.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    Duration::from_secs(seconds).max(DURATION)
}
