//! Counters of all calls. They only grow; the caller exports them as metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::CallLabels;

/// The kind of a read, or of a request for a token. [`CallKind::as_str`] is the label of existing metrics; new ones use
/// [`CallKind::labels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// A request for a token.
    Token,
    /// A list of projects.
    Projects,
    /// The versions that Octavia supports.
    Versions,
    /// A page of load balancers.
    LoadBalancers,
    /// A page of listeners.
    Listeners,
    /// A page of pools.
    Pools,
    /// A page of one pool's members.
    Members,
    /// A page of L7 policies.
    L7Policies,
    /// One load balancer.
    LoadBalancer,
    /// One listener.
    Listener,
    /// One pool.
    Pool,
    /// The tree of statuses below one load balancer.
    Status,
    /// The present roles of a token.
    Roles,
}

impl CallKind {
    /// All values, in the order of declaration.
    pub const ALL: [Self; 13] = [
        Self::Token,
        Self::Projects,
        Self::Versions,
        Self::LoadBalancers,
        Self::Listeners,
        Self::Pools,
        Self::Members,
        Self::L7Policies,
        Self::LoadBalancer,
        Self::Listener,
        Self::Pool,
        Self::Status,
        Self::Roles,
    ];

    /// Returns the value for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Projects => "projects",
            Self::Versions => "versions",
            Self::LoadBalancers => "loadbalancers",
            Self::Listeners => "listeners",
            Self::Pools => "pools",
            Self::Members => "members",
            Self::L7Policies => "l7policies",
            Self::LoadBalancer => "loadbalancer",
            Self::Listener => "listener",
            Self::Pool => "pool",
            Self::Status => "status",
            Self::Roles => "roles",
        }
    }
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallOutcome {
    /// A 2xx status, with the answer read to its end.
    Ok,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 400 to a page's marker.
    InvalidMarker,
    /// 429.
    RateLimited,
    /// 5xx.
    Server,
    /// Any other status.
    Refused,
    /// The answer did not arrive in time.
    Timeout,
    /// The connection could not be made, broke, or has an untrusted certificate.
    Unreachable,
    /// The answer could not be read: it is too long or not what the API documents.
    Undecodable,
}

impl CallOutcome {
    /// All values, in the order of declaration.
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::InvalidMarker,
        Self::RateLimited,
        Self::Server,
        Self::Refused,
        Self::Timeout,
        Self::Unreachable,
        Self::Undecodable,
    ];

    /// Returns the value for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::InvalidMarker => "invalid_marker",
            Self::RateLimited => "rate_limited",
            Self::Server => "server_error",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Undecodable => "undecodable",
        }
    }
}

/// The counters of one [`crate::Cloud`].
#[derive(Debug, Default)]
pub struct Calls {
    kinds: [Kind; CallKind::ALL.len()],
    retries: AtomicU64,
    renewals_forced: AtomicU64,
    waited_millis: AtomicU64,
    labelled: Mutex<BTreeMap<CallLabels, CallTotals>>,
}

/// The calls with one set of labels, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// The number of calls by outcome.
    pub outcomes: BTreeMap<CallOutcome, u64>,
    /// The bytes of the answers' bodies.
    pub bytes: u64,
    /// The time from request to answer.
    pub time: Duration,
}

#[derive(Debug, Default)]
struct Kind {
    outcomes: [AtomicU64; CallOutcome::ALL.len()],
    bytes: AtomicU64,
    micros: AtomicU64,
}

/// The sums over the calls of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSum {
    /// The number of calls, with any outcome.
    pub calls: u64,
    /// The bytes of the answers' bodies.
    pub bytes: u64,
    /// The total time from request to the end of the answer.
    pub time: Duration,
}

impl Calls {
    /// Returns the number of calls of this kind with this outcome. A repeated call counts each time.
    #[must_use]
    pub fn count(&self, kind: CallKind, outcome: CallOutcome) -> u64 {
        self.kinds[kind as usize].outcomes[outcome as usize].load(Relaxed)
    }

    /// Returns the sums over the calls of one kind.
    #[must_use]
    pub fn sum(&self, kind: CallKind) -> CallSum {
        let of = &self.kinds[kind as usize];
        CallSum {
            calls: of.outcomes.iter().map(|count| count.load(Relaxed)).sum(),
            bytes: of.bytes.load(Relaxed),
            time: Duration::from_micros(of.micros.load(Relaxed)),
        }
    }

    /// Returns the number of all calls except mutations and reads of raw rows.
    #[must_use]
    pub fn total(&self) -> u64 {
        CallKind::ALL.iter().map(|kind| self.sum(*kind).calls).sum()
    }

    /// Returns the number of calls that repeated a call that was cut off, throttled, or answered with 502 or 503.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }

    /// Returns the number of tokens that Keystone issued.
    #[must_use]
    pub fn tokens_issued(&self) -> u64 {
        self.count(CallKind::Token, CallOutcome::Ok)
    }

    /// Returns the number of tokens that were replaced early because a service did not accept them.
    #[must_use]
    pub fn tokens_rejected(&self) -> u64 {
        self.renewals_forced.load(Relaxed)
    }

    /// Returns how long callers waited for `Retry-After`.
    #[must_use]
    pub fn waited(&self) -> Duration {
        Duration::from_millis(self.waited_millis.load(Relaxed))
    }

    /// Returns all calls, reads and changes, by service, verb and resource. Labels without a call are absent.
    #[must_use]
    pub fn by_labels(&self) -> BTreeMap<CallLabels, CallTotals> {
        let mut all = self.labelled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for kind in CallKind::ALL {
            let CallSum { calls, bytes, time } = self.sum(kind);
            if calls > 0 {
                // Raw rows of the same objects are counted under the same labels.
                let totals = all.entry(kind.labels()).or_default();
                for outcome in CallOutcome::ALL {
                    let count = self.count(kind, outcome);
                    if count > 0 {
                        *totals.outcomes.entry(outcome).or_default() += count;
                    }
                }
                totals.bytes += bytes;
                totals.time += time;
            }
        }
        all
    }

    /// Counts a call that is no [`CallKind`].
    pub(crate) fn add_labelled(&self, labels: CallLabels, outcome: CallOutcome, bytes: usize, time: Duration) {
        let mut labelled = self.labelled.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = labelled.entry(labels).or_default();
        *sum.outcomes.entry(outcome).or_default() += 1;
        sum.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
        sum.time += time;
    }

    pub(crate) fn add(&self, kind: CallKind, outcome: CallOutcome, bytes: usize, time: Duration) {
        let of = &self.kinds[kind as usize];
        of.outcomes[outcome as usize].fetch_add(1, Relaxed);
        of.bytes.fetch_add(bytes as u64, Relaxed);
        of.micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn add_retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_rejected_token(&self) {
        self.renewals_forced.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_wait(&self, wait: Duration) {
        self.waited_millis.fetch_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
}
