//! What is shown of a registry.

use gimbal_guard::HeldDrop;
use gimbal_kuryr_model::{LoadBalancerReport, Text};

use crate::settings::ClusterSettings;

/// What is known about a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterView {
    /// Its settings.
    pub settings: ClusterSettings,
    /// Whether changes may be made for it now, as far as its stream is concerned.
    pub is_fresh: bool,
    /// The UID of another cluster under its name, if there is one.
    pub other_uid: Option<Text>,
    /// Projects that could not be read when everything was listed last, and why.
    pub unreadable: Vec<(Text, Text)>,
    /// Entries that it wants.
    pub entries: usize,
    /// Owners that are gone, and whose objects are not removed yet.
    pub orphans: usize,
    /// What the guard of load balancers holds.
    pub held_balancers: Option<HeldDrop>,
    /// What the guard of members holds.
    pub held_members: Option<HeldDrop>,
}

/// Why an entry is as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct BalancerExplanation {
    /// What a report would say now. It is taken ([`crate::Registry::take_reports`]) when the work has ended, or takes long.
    pub report: LoadBalancerReport,
    /// How long something has been made or changed for it; unset: nothing is.
    pub working_for: Option<std::time::Duration>,
    /// What is done next, or waited for.
    pub next: String,
    /// The last steps, the newest last, with their age.
    pub steps: Vec<(std::time::Duration, String)>,
}

/// Numbers for metrics. Sums are since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegistryCounts {
    /// Owners.
    pub owners: usize,
    /// Of these with everything as it is wanted.
    pub ready: usize,
    /// Of these that are being removed.
    pub removing: usize,
    /// Load balancers in a `PENDING` status.
    pub pending: usize,
    /// Of these for too long, in clusters with a live stream.
    pub stuck: usize,
    /// Owners that the guard holds something of, in clusters with a live stream.
    pub held: usize,
    /// Owners whose repair budget is spent, in clusters with a live stream.
    pub budget_spent: usize,
    /// Owners that a quota is in the way of, in clusters with a live stream.
    pub over_quota: usize,
    /// Objects whose owner is gone, in clusters with a live stream.
    pub orphans: usize,
    /// Load balancers that have been pending for more than ten seconds, a minute, and ten minutes.
    pub pending_for: [usize; 3],
    /// Looks that found something missing or changed by somebody else. A sum.
    pub drift: u64,
    /// Those of them that found something missing. A sum.
    pub drift_missing: u64,
    /// Looks that found something added by somebody else. A sum.
    pub drift_added: u64,
    /// Reads. A sum.
    pub reads: u64,
    /// Changes that were sent. A sum.
    pub changes: u64,
    /// Changes whose outcome is unknown. A sum.
    pub unknown: u64,
    /// Changes that were refused. A sum.
    pub refused: u64,
    /// Times that an owner was asked for its next step. A sum.
    pub decisions: u64,
    /// Times that it was put together what the owners of a shared load balancer want. A sum.
    pub group_wishes: u64,
}
