//! What to do next about one load balancer: a pure function of what is wanted and of what OpenStack was seen to have.
//!
//! An [`Actor`] is a value, one for each owner. Its caller asks it for the [`BalancerStep`], takes it, and tells the actor what
//! came of it; the actor never waits, sends or sleeps.
//!
//! ```text
//!   Actor::step(now) -> CloudLook | CloudChange | Wait | Done | Blocked
//!        ^                |        |
//!        |   looked(Seen) |        | answered(ChangeOutcome)
//!        +----------------+--------+
//! ```
//!
//! Start, reconnect, repair, adoption and a wiped status are one path: look, compare, step. Whatever was made carries its
//! owner's mark, so a change whose answer was lost is looked up before it is repeated, and of two load balancers of one owner
//! the older one stays - unless the younger says in its tags that it is made to take the older one's place.

mod abilities;
mod accepted;
mod actor;
mod adopt;
mod answered;
mod certificates;
mod change;
mod children;
mod exposure;
mod fields;
mod floating;
mod foresight;
mod given_away;
mod groups;
mod lineup;
mod make;
mod mark;
mod member_turns;
mod members;
mod memory;
mod outcome;
mod packed;
mod pools;
mod project;
mod ranges;
mod repair;
mod replace;
mod request_size;
mod routing;
mod secret;
mod seen;
mod seen_policy;
mod seen_store;
mod sharing;
mod step;
mod suspect;
mod tags;
mod target;
mod unfinished;
mod unmarked;
mod vip;

pub use actor::Actor;
pub use adopt::Takeover;
pub use certificates::FoundContent;
pub use change::{ApiService, ApiVerb, CloudChange, ServiceCall};
pub use foresight::PlannedStep;
pub use mark::{
    KEEP, Mark, cluster_name_tag, cluster_tag, clusters_in, group_owner, is_group, is_reserved_word, is_word_of_mark,
    marked_owner, names_another_cluster, owner_tag_of, owners_in, service_of,
};
pub use memory::RepairBudget;
pub use outcome::{ChangeOutcome, CloudAbility, MissingAbility, ServiceRefusal};
pub use routing::difference::{RouteGap, RouteObstacle};
pub use routing::rebuild::REBUILD_ABOVE;
pub use secret::{SecretPayload, SeenSecret, owner_of_secret};
pub use seen::{
    AddressHolder, HiddenSecrets, Provisioning, Seen, SeenBalancer, SeenFloatingIp, SeenListener, SeenMember,
    SeenMonitor, SeenPool, SeenPort,
};
pub use seen_policy::{SeenPolicy, SeenRule};
pub use sharing::{SharedPart, SharedWish, Sharing, SharingLoss, merged};
pub use step::{BalancerStep, Block, CloudLook, Wait};
