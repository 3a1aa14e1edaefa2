//! Statuses and protocols. An unknown word is never an error.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// `provisioning_status`: the progress of an object's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(from = "Option<Arc<str>>")]
pub enum ProvisioningStatus {
    /// The last change is complete. Also the value for a missing status (neutron-lbaas) or an unknown one.
    #[default]
    Active,
    /// The object is being created or changed.
    Pending,
    /// The object is being deleted, or was deleted.
    Deleting,
    /// The last change failed.
    Error,
}

impl From<Option<Arc<str>>> for ProvisioningStatus {
    fn from(text: Option<Arc<str>>) -> Self {
        match text.as_deref() {
            Some("PENDING_DELETE" | "DELETED") => Self::Deleting,
            Some("ERROR") => Self::Error,
            Some(text) if text.starts_with("PENDING_") => Self::Pending,
            _ => Self::Active,
        }
    }
}

impl ProvisioningStatus {
    /// Returns whether a change is in progress (`PENDING_*`), so that what is read now may be outdated soon.
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Pending | Self::Deleting)
    }
}

/// `operating_status`: whether an object works, as far as a health monitor knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(from = "Option<Arc<str>>")]
pub enum OperatingStatus {
    /// The object works.
    Online,
    /// The object fails its health checks.
    Error,
    /// A status in between (`DRAINING`, `OFFLINE`, `DEGRADED`), no health monitor (`NO_MONITOR`), or no status.
    #[default]
    Other,
}

impl From<Option<Arc<str>>> for OperatingStatus {
    fn from(text: Option<Arc<str>>) -> Self {
        match text.as_deref() {
            Some("ONLINE") => Self::Online,
            Some("ERROR") => Self::Error,
            _ => Self::Other,
        }
    }
}

/// The protocol that a listener accepts, or that a pool's members speak.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Arc<str>")]
pub enum Protocol {
    /// `HTTP`.
    Http,
    /// `HTTPS`: TLS that the load balancer passes through.
    Https,
    /// `TERMINATED_HTTPS`: TLS that ends at the listener.
    TerminatedHttps,
    /// `TCP`.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
    /// `PROMETHEUS`: a listener that serves the load balancer's own metrics.
    Prometheus,
    /// `PROXY`: a pool whose members expect a PROXY protocol header.
    Proxy,
    /// `PROXYV2`: a pool whose members expect a binary PROXY protocol header.
    ProxyV2,
    /// A protocol unknown to this crate.
    Other(Arc<str>),
}

impl From<Arc<str>> for Protocol {
    fn from(text: Arc<str>) -> Self {
        match &*text {
            "HTTP" => Self::Http,
            "HTTPS" => Self::Https,
            "TERMINATED_HTTPS" => Self::TerminatedHttps,
            "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            "PROMETHEUS" => Self::Prometheus,
            "PROXY" => Self::Proxy,
            "PROXYV2" => Self::ProxyV2,
            _ => Self::Other(text),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::TerminatedHttps => "TERMINATED_HTTPS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Prometheus => "PROMETHEUS",
            Self::Proxy => "PROXY",
            Self::ProxyV2 => "PROXYV2",
            Self::Other(text) => text,
        })
    }
}
