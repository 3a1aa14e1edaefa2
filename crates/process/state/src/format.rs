//! The format of a record.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use gimbal_kubernetes_client::ApiError;

use crate::NewerRecord;

/// The data of a `ConfigMap`.
pub type RecordData = BTreeMap<String, String>;

/// Which tenants have a record, and how it is written.
pub trait Format: Send + Sync + 'static {
    /// Identifies a tenant. Its text is the end of the `ConfigMap`'s name.
    type Tenant: Clone + Ord + Debug + Display + Send + Sync + 'static;
    /// What is kept for a tenant.
    type State: Clone + Debug + PartialEq + Send + Sync + 'static;

    /// Beginning of the `ConfigMap`'s name.
    const PREFIX: &str;
    /// Key of the label that holds the tenant.
    const TENANT_LABEL: &str;
    /// The version of the keys and of their meaning. It is raised by each change of them that is released. A record without a
    /// version has version 1.
    const VERSION: u32;
    /// The oldest version whose programs may use and replace a record of this version. It is raised where one of them would take
    /// something away that is to stay: it does not know the new keys, changes those beside them, and leaves them as they are.
    const OLDEST_READER: u32;

    /// Returns the tenant of this name, or `None` if there can be none.
    fn parse_tenant(name: &str) -> Option<Self::Tenant>;

    /// Returns whether a record of this version may have the key.
    fn has_key(key: &str) -> bool;

    /// Renders a state as data, one key for each figure, so that `kubectl` shows it.
    fn render(state: &Self::State) -> RecordData;

    /// Parses a state, and returns with it the keys that could not be read, for example because a person edited them.
    fn parse(data: &RecordData) -> (Self::State, Vec<&'static str>);

    /// Logs that a tenant's state could not be written and is tried again. Removals that depend on it wait meanwhile.
    fn log_not_written(tenant: &Self::Tenant, error: &ApiError);

    /// Logs that keys of a tenant's record could not be read and are ignored.
    fn log_not_read(tenant: &Self::Tenant, config_map: &str, keys: &str);

    /// Logs that a tenant's record is for newer programs, and that this one neither uses nor replaces it.
    fn log_newer(tenant: &Self::Tenant, newer: &NewerRecord);
}
