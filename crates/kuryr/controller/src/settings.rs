//! How the controller was started.

use gimbal_kuryr_resource::NamespacePatterns;
use gimbal_kuryr_translate::ControllerSettings;

/// How the controller was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KuryrSettings {
    /// Which Services are served.
    pub services: ControllerSettings,
    /// The namespaces in which load balancers are made. One that exists is served until its Service goes, wherever it is: a
    /// mistyped pattern must not remove anything.
    pub namespaces: NamespacePatterns,
    /// Whether openstack-writer is to be heard: what its facts decide waits for them.
    pub has_writer: bool,
}
