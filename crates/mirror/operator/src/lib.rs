//! Every decision of gimbal-operator, without I/O: which objects the discoverer of a Backend needs, how they differ from what there
//! is, and what is said of it in the Backend's status.
//!
//! [`decide`] looks at one Backend and at what is known of its objects and Secrets, and returns the next writes. It is asked again
//! after each of them, so that a restart and a repair are the same as a change. What carries no mark of the operator
//! ([`is_ours`]) is never changed.

mod certificate;
mod condition;
mod decide;
mod difference;
mod notice;
mod objects;
mod others;
mod pod;
mod policy;
mod settings;
mod source;
mod wanted;

pub use certificate::{PairState, pair_object, pair_secret_name};
pub use condition::{DISCOVERER_READY, DiscovererCondition, ReadyStatement, condition_to_write};
pub use decide::{AuthorityState, CredentialsState, DiscovererFacts, NextSteps, Step, decide, left_over, object_ids};
pub use notice::{DiscovererNotice, made_notice, problem_notice, removed_notice};
pub use objects::{
    Deployment, DeploymentStatus, MANAGER, ManagedKind, MarkedObject, NetworkPolicy, OWNER_LABEL, ObjectId, PairSecret,
    SecretData, ServiceAccount, SourceSecret, is_ours,
};
pub use others::discoverers;
pub use settings::{DiscovererTraces, OperatorSettings, PullPolicy};
pub use source::{SourceKind, SourceProblem, SourcedBackend, WantedDiscoverer};
pub use wanted::{WantedObject, wanted};
