//! What the controllers of Kuryr's custom resources share: what is watched, what is offered to openstack-writer of a resource and
//! what that says, and the writes to objects with the pauses after those that failed. There is no I/O here and no clock.

mod condition_notices;
mod counts;
mod kept;
mod kept_report;
mod knowledge;
mod missing_notices;
mod namespaces;
mod notice;
mod offer;
mod patch;
mod pauses;
mod reading;
mod services;
mod sighting;
mod status;
mod timing;
mod write;

pub use condition_notices::{ConditionsOf, of_status};
pub use counts::ResourceCounts;
pub use kept::{KeptObject, Shown, is_newer, is_newer_version};
pub use kept_report::KeptReport;
pub use knowledge::ClusterKnowledge;
pub use namespaces::NamespacePatterns;
pub use notice::{ObjectNotice, Told};
pub use offer::{DrainedEntry, EntryReject, OfferChange, OfferedEntry};
pub use patch::{difference, fingerprint};
pub use pauses::{InFlightWrite, ObjectPauses, Purpose};
pub use reading::{EndedList, KindReading};
pub use services::{ChangedServices, KnownServices};
pub use sighting::{KuryrKind, Sighting};
pub use status::{
    ResourceStatus, StatusSource, StatusStep, note_accepted_status, ready_generation, says_true, shows_ready,
};
pub use timing::{LATE, LateCounts, Lateness, ReadyTimes};
pub use write::{
    ClusterObject, ClusterWrite, NewObject, PlannedWrite, WriteBody, WriteOutcome, WrittenObject, protect, release,
    target, with_finalizer,
};
