//! All load balancers of all clusters: whose turn it is, what may be sent now, and what is reported back.
//!
//! A [`Registry`] holds an [`Actor`](gimbal_octavia_plan::Actor) for each owner. It does no I/O and reads no clock. Its caller
//! makes the calls that it asks for, as many at a time as it hands out, and tells it each answer:
//!
//! ```text
//!   stream   -> want, forget, heard, snapshot_complete --+              +--> next_call()  -> one request to OpenStack
//!   answers  -> answered(id, CallAnswer)               --+--> Registry -+--> take_reports() -> the stream, newest per key
//!   config   -> set_cluster, set_facts                 --+              +--> take_events()  -> logs, metrics, Facts
//!                                                                       +--> next_wake()
//! ```
//!
//! After every call of the left side, and at [`Registry::next_wake`]: make what [`Registry::next_call`] hands out until it
//! returns `None`, then send [`Registry::take_reports`] and read [`Registry::take_events`].
//!
//! - **[`Registry::set_cluster`]** when a stream is accepted, and whenever its policy changes; the UID is that of the cluster's
//!   namespace `kube-system`. [`Registry::set_facts`] with what the policy and the look-ups at start say about the cloud;
//!   [`Registry::facts`] is the same with what answers have taught, and is what goes to the controller.
//! - **[`Registry::heard`]** at every heartbeat. No change is handed out without one younger than
//!   [`RegistrySettings::heartbeat_age`]. A change that waits before it is sent must not be sent after
//!   [`CallToMake::not_after`]: answer [`CallAnswer::NotSent`] instead.
//! - **[`Registry::want`]** for each entry that came or changed, **[`Registry::forget`]** for each that left the stream. What
//!   left is not removed before [`Registry::snapshot_complete`] has proven that its owner is gone, [`RegistrySettings::orphan_grace`]
//!   has passed, and the guard lets it go. [`Registry::members_wait`] with the members that an entry lacks for want of room.
//! - **[`Registry::found_content`]** with the answer of the controller to each [`RegistryEvent::ContentWanted`].
//! - **[`Registry::reports`]** when a stream begins: everything is reported again. Later [`Registry::take_reports`].
//! - On a clean stop: ask for no further call, and await those that are under way.

mod adoption;
mod advance;
mod agreement;
mod answers;
mod awaiting;
mod beside;
mod call;
mod cell;
mod cluster;
mod contents;
mod event;
mod explaining;
mod fingerprint;
mod health;
mod journal;
mod kept_turns;
mod learned;
mod left;
mod life;
mod listed_row;
mod looking;
mod missing;
mod newcomers;
mod orphans;
mod owner_look;
mod pace;
mod places;
mod poll;
mod quotas;
mod refused;
mod registry;
mod removals;
mod replacements;
mod reporting;
mod routes;
mod settings;
mod settle_times;
mod shared;
mod sharing;
mod timers;
mod tracker;
mod turns;
mod unreadable;
mod view;
mod waiting;

pub use call::{CallAnswer, CallId, CallLane, CallToMake, CloudCall, CloudRead};
pub use event::{AdoptionOutcome, AdoptionRefusal, FoundOwner, RegistryEvent};
pub use listed_row::ListedRow;
pub use registry::Registry;
pub use settings::{ClusterGuards, ClusterSettings, ObjectLimits, OwnPort, RegistrySettings};
pub use sharing::sharing_owner;
pub use view::{BalancerExplanation, ClusterView, RegistryCounts};
