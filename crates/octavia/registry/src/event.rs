//! What happened that somebody may want to know.

use std::time::Duration;

use gimbal_guard::GuardEvent;
use gimbal_kuryr_model::{CertificateHash, DesiredKey, Text};
use gimbal_octavia_plan::CloudChange;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum RegistryEvent {
    /// [`Registry::facts`](crate::Registry::facts) of a cluster changed: tell its controller.
    FactsChanged {
        /// The cluster.
        cluster: Text,
    },
    /// Objects carry the cluster's name and the UID of another cluster. Nothing is changed for it until
    /// [`Registry::confirm`](crate::Registry::confirm).
    OtherCluster {
        /// The cluster.
        cluster: Text,
        /// The UID on those objects.
        uid: Text,
        /// The load balancer that was found to carry them.
        balancer: Text,
    },
    /// The guard of a cluster holds load balancers back, or lets them go.
    BalancerGuard {
        /// The cluster.
        cluster: Text,
        /// What changed.
        event: GuardEvent,
    },
    /// The guard of a cluster holds members back, or lets them go.
    MemberGuard {
        /// The cluster.
        cluster: Text,
        /// What changed.
        event: GuardEvent,
    },
    /// The first lists of a stream's life: what exists of the cluster, of each owner its oldest load balancer, in the order in
    /// which they were made.
    Listed {
        /// The cluster.
        cluster: Text,
        /// Owners of load balancers.
        found: Vec<FoundOwner>,
        /// Whether every project could be listed; else there may be more.
        is_complete: bool,
    },
    /// What was wanted is there, and active.
    Served {
        /// The cluster.
        cluster: Text,
        /// The entry. Of a load balancer that several share it is the group's.
        key: DesiredKey,
        /// The time since it was wanted.
        took: Duration,
        /// The time since the first change for it was sent; unset: nothing had to be changed.
        changing: Option<Duration>,
    },
    /// Nothing is left of what was to go.
    Removed {
        /// The cluster.
        cluster: Text,
        /// The entry.
        key: DesiredKey,
        /// As of what is served.
        changing: Option<Duration>,
    },
    /// How many owners have something in a project that the policy does not allow any more. It stays until its owner goes.
    Left {
        /// The cluster.
        cluster: Text,
        /// The project.
        project: Text,
        /// Owners; unset: the project could not be read, so its owners are unknown, and nothing is removed there.
        owners: Option<usize>,
        /// Only an entry names the project: the policy may never have allowed it.
        is_named: bool,
    },
    /// A project cannot be read for some time. What is wanted there waits, and nothing is removed for want of an owner.
    Unreadable {
        /// The cluster.
        cluster: Text,
        /// The project.
        project: Text,
        /// The sentence of the answer.
        words: Text,
    },
    /// A load balancer is `PENDING` for too long. Only an operator of Octavia can help.
    Stuck {
        /// The cluster.
        cluster: Text,
        /// The owner.
        owner: Text,
        /// The load balancer.
        balancer: Text,
    },
    /// What was made for an owner that is gone is removed.
    OrphanRemoved {
        /// The cluster.
        cluster: Text,
        /// The owner.
        owner: Text,
    },
    /// The content of a certificate is to be asked for: answer [`Registry::found_content`](crate::Registry::found_content). Until then it
    /// is wanted, on this stream and on those after it.
    ContentWanted {
        /// The cluster.
        cluster: Text,
        /// Its hash.
        hash: CertificateHash,
    },
    /// A content is wanted no longer.
    ContentUnwanted {
        /// The cluster.
        cluster: Text,
        /// Its hash.
        hash: CertificateHash,
    },
    /// Nothing of an owner is left but what the key manager may have, which does not let it go.
    SecretsLeft {
        /// The cluster.
        cluster: Text,
        /// The owner.
        owner: Text,
        /// Why, in words.
        words: Text,
    },
    /// An adoption came to its end.
    Adopted {
        /// The cluster.
        cluster: Text,
        /// The entry that adopts.
        key: DesiredKey,
        /// The load balancer.
        balancer: Text,
        /// What came of it.
        outcome: AdoptionOutcome,
    },
}

/// An owner that has a load balancer in OpenStack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundOwner {
    /// The owner, as its mark names it.
    pub owner: Text,
    /// The load balancer's name: that of the key it was made for, unless somebody has changed it since.
    pub name: Text,
    /// How many members its pools have; unset: not all could be listed.
    pub members: Option<u64>,
}

/// What came of an adoption.
#[derive(Debug, Clone, PartialEq)]
pub enum AdoptionOutcome {
    /// It was only asked what would be changed to mark and name it.
    WouldChange(Vec<CloudChange>),
    /// It is the entry's now.
    Done,
    /// It is not taken over.
    Refused(AdoptionRefusal),
}

/// Why a load balancer is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdoptionRefusal {
    /// There is no such entry, or it is being deleted.
    NoEntry,
    /// The entry has a load balancer already; its ID.
    HasOne(Text),
    /// There is no such load balancer.
    NotFound,
    /// It carries the mark of another cluster, or of another owner; in words.
    OwnedBy(Text),
    /// It would have to be replaced: this differs.
    Differs(Text),
    /// OpenStack did not allow it, or could not be asked; in words.
    Failed(Text),
}
