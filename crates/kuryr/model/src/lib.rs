//! What a Kubernetes cluster wants in OpenStack, and what comes back.
//!
//! ```text
//!   controller in the cluster  -- DesiredEntry by DesiredKey -->  writer, the only one that changes OpenStack
//!                              <-- LoadBalancerReport, CloudFacts  --
//! ```
//!
//! Everything here is a plain value, independent of Kubernetes' JSON, of Octavia's and of protobuf, and does no I/O.
//! A [`DesiredLoadBalancer`] is a header and members; either travels without the other when only one of them changes.

mod canonical;
mod certificate;
mod change;
mod entry;
mod facts;
mod header;
mod key;
mod member;
mod pool;
mod report;
mod reported_routes;
mod routing;
mod size;
mod words;

/// Text that is cheap to copy. IDs of OpenStack and UIDs of Kubernetes are kept as they came.
pub type Text = std::sync::Arc<str>;

pub use certificate::{CertificateContent, CertificateHash, CertificateWish, NotAHash};
pub use change::{DesiredChange, LoadBalancerUpdate, MemberChange};
pub use entry::{DesiredEntry, DesiredLoadBalancer};
pub use facts::{
    ApiVersion, ClassDefaults, CloudFacts, ExternalNetwork, FreeQuota, LoadBalancerDefaults, MemberAddressing,
    ProviderAbilities, SubnetFacts, VipMode,
};
pub use header::{
    Algorithm, Balancing, ClientRanges, FloatingWish, HealthMonitor, ListenerKind, ListenerWish, LoadBalancerHeader,
    LoadBalancerPlacement, MemberMode, MonitorKind, ProxyVersion, SharedGroup, Timeouts, VipWish,
};
pub use key::{DesiredKey, DesiredKind};
pub use member::{DesiredMember, DesiredMembers, ListenerId, MemberId};
pub use pool::PoolId;
pub use report::{
    FloatingAllocation, LoadBalancerReport, Phase, PortRefusal, ReportedCertificate, ReportedCondition,
    ReportedFloatingIp, ReportedListener, ReportedLoadBalancer, ReportedMember, ReportedMissing, ReportedObjects,
    ReportedPolicy, ReportedPool,
};
pub use reported_routes::{ReportedRoutes, RouteDifference, RouteState};
pub use routing::{HostMatch, PathMatch, Route, RouteTarget, RoutedPool, Routing};
pub use words::{
    GROUP_OF_OWNERS, MOST_NAME, MOST_POOL, MOST_REFERENCE, id_problem, match_problem, owner_problem, pool_problem,
    prefix_problem, words_problem,
};
