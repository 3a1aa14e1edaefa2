//! What agents with a Kubernetes cluster as their source have in common: who the cluster is, what a failed watch means, and
//! how an Event is written.

mod event;
mod failure;
mod identity;

pub use event::{count_again, empty_patch, short_message, write_event};
pub use failure::{failure_label, kind_failure};
pub use identity::{FoundIdentity, identify};
