//! State that outlives the process: one record for each tenant, each in a `ConfigMap` of its own, written only under
//! the lease and only when it changes.
//!
//! [`StateKeeper`] is the handle of the task that reads and writes the records; a [`Format`] says what they hold.

mod format;
mod keeper;
mod store;
mod task;
#[cfg(test)]
mod tests;
mod versions;

pub use format::{Format, RecordData};
pub use keeper::{StateEvent, StateKeeper};
pub use store::StoredRecord;
pub use versions::NewerRecord;
