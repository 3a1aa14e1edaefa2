//! What the operator has set.

use std::sync::Arc;
use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{Actor, REBUILD_ABOVE, RepairBudget};

/// Settings of the whole process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// Most changes under way at a time, to each service. Fewer while the service refuses or is slow.
    pub write_concurrency: u32,
    /// Most reads under way at a time.
    pub read_concurrency: u32,
    /// Most load balancers under creation at a time in one project: Octavia holds the project's quota until Neutron has made
    /// the port, and refuses further creations meanwhile.
    pub creates_by_project: u32,
    /// The time between two looks at everything that carries a cluster's mark.
    pub drift_interval: Duration,
    /// For this long an owner must have been missing before what was made for it is removed.
    pub orphan_grace: Duration,
    /// For this long a load balancer may be `PENDING` before that is a condition.
    pub stuck_after: Duration,
    /// No change is made unless the cluster's last heartbeat is younger.
    pub heartbeat_age: Duration,
    /// How often a load balancer in `ERROR` is made again.
    pub repair: RepairBudget,
    /// Plan and explain, change nothing.
    pub dry_run: bool,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            write_concurrency: 16,
            read_concurrency: 16,
            creates_by_project: 2,
            drift_interval: Duration::from_secs(60),
            orphan_grace: Duration::from_secs(600),
            stuck_after: Duration::from_secs(900),
            heartbeat_age: Duration::from_secs(10),
            repair: RepairBudget::default(),
            dry_run: false,
        }
    }
}

/// What the policy of one cluster says, and who the cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// Name.
    pub name: Text,
    /// UID of its namespace `kube-system`: everything that is made for it carries this one.
    pub uid: Text,
    /// Projects in which something of the cluster may be; the first is the usual one.
    pub projects: Vec<Text>,
    /// Projects that the policy allowed before: what is left there goes with its owner.
    pub former_projects: Vec<Text>,
    /// Tags that everything of the cluster carries besides the mark.
    pub resource_tags: Arc<[Text]>,
    /// When the port of a VIP is made before the load balancer.
    pub own_port: OwnPort,
    /// The number of changes above which another router is made in the place of one; 0: never.
    pub rebuild_above: usize,
    /// How many objects it may have.
    pub limits: ObjectLimits,
    /// Most changes a second; 0: no limit.
    pub mutations_per_second: u32,
    /// Limits of removals.
    pub guards: ClusterGuards,
    /// Plan and explain, change nothing.
    pub quarantine: bool,
}

impl ClusterSettings {
    /// Returns settings with the defaults of the policy.
    #[must_use]
    pub fn new(name: impl Into<Text>, uid: impl Into<Text>, project: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            uid: uid.into(),
            projects: vec![project.into()],
            former_projects: Vec::new(),
            resource_tags: Arc::default(),
            own_port: OwnPort::default(),
            rebuild_above: REBUILD_ABOVE,
            limits: ObjectLimits::default(),
            mutations_per_second: 20,
            guards: ClusterGuards::default(),
            quarantine: false,
        }
    }

    /// Lets an actor do as they say.
    pub(crate) fn apply_to(&self, actor: &mut Actor) {
        actor.set_resource_tags(self.resource_tags.clone());
        actor.set_rebuild_above(self.rebuild_above);
    }
}

/// When the port of a VIP is made before the load balancer, so that the address outlives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnPort {
    /// Never: Octavia makes it.
    Never,
    /// For Services of type `LoadBalancer`.
    #[default]
    LoadBalancer,
    /// Always.
    Always,
}

/// How many objects a cluster may have, wanted or not; unset: as many as OpenStack lets it. An owner that has had one may have it
/// again, and one more while that takes the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectLimits {
    /// Load balancers, and ports of VIPs that have none yet, or none any more.
    pub load_balancers: Option<u32>,
    /// Floating IPs.
    pub floating_ips: Option<u32>,
}

/// The guards of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterGuards {
    /// Limits of load balancers that are removed because their owner vanished.
    pub load_balancers: GuardConfig,
    /// Limits of members that are removed.
    pub members: GuardConfig,
    /// Whether deletions that a person asked for are limited as well.
    pub explicit: bool,
}

impl Default for ClusterGuards {
    fn default() -> Self {
        let members = GuardConfig::default();
        Self { load_balancers: GuardConfig { min_endpoints: 3, ..members }, members, explicit: false }
    }
}
