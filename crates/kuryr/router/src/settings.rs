//! How the controller was started.

use gimbal_kuryr_resource::NamespacePatterns;
use gimbal_kuryr_translate::IngressSettings;

/// How the controller was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterSettings {
    /// Where the shared router is.
    pub ingresses: IngressSettings,
    /// The namespaces whose Ingresses are served. One that is served stays so, wherever it is: a mistyped pattern must not remove
    /// anything.
    pub namespaces: NamespacePatterns,
}
