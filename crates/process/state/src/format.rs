//! The format of a record.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use gimbal_kubernetes_client::ApiError;

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

    /// Returns the tenant of this name, or `None` if there can be none.
    fn parse_tenant(name: &str) -> Option<Self::Tenant>;

    /// Renders a state as data, one key for each figure, so that `kubectl` shows it.
    fn render(state: &Self::State) -> RecordData;

    /// Parses a state, and returns with it the keys that could not be read, for example because a person edited them.
    fn parse(data: &RecordData) -> (Self::State, Vec<&'static str>);

    /// Logs that a tenant's state could not be written and is tried again. Removals that depend on it wait meanwhile.
    fn log_not_written(tenant: &Self::Tenant, error: &ApiError);

    /// Logs that keys of a tenant's record could not be read and are ignored.
    fn log_not_read(tenant: &Self::Tenant, config_map: &str, keys: &str);
}
