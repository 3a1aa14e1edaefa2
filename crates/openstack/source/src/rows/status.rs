//! Words of load balancing's own: statuses and protocols. A word that we do not know is kept as such, never an error.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;

/// `provisioning_status`: how far an object's last change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(from = "Option<Arc<str>>")]
pub enum Provisioning {
    /// Settled; also what is taken for an object without a status (neutron-lbaas) or with an unknown one.
    #[default]
    Active,
    /// Being created or changed.
    Pending,
    /// Being deleted, or deleted.
    Deleting,
    /// The last change failed.
    Error,
}

impl From<Option<Arc<str>>> for Provisioning {
    fn from(text: Option<Arc<str>>) -> Self {
        match text.as_deref() {
            Some("PENDING_DELETE" | "DELETED") => Self::Deleting,
            Some("ERROR") => Self::Error,
            Some(text) if text.starts_with("PENDING_") => Self::Pending,
            _ => Self::Active,
        }
    }
}

impl Provisioning {
    /// Whether it is `PENDING_*`: what is read of it now may be another thing soon.
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Pending | Self::Deleting)
    }
}

/// `operating_status`: whether an object works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(from = "Option<Arc<str>>")]
pub enum Operating {
    /// It does.
    Online,
    /// It does not.
    Error,
    /// Something in between (`DRAINING`, `OFFLINE`, `DEGRADED`), nobody looks (`NO_MONITOR`), or it is not said.
    #[default]
    Other,
}

impl From<Option<Arc<str>>> for Operating {
    fn from(text: Option<Arc<str>>) -> Self {
        match text.as_deref() {
            Some("ONLINE") => Self::Online,
            Some("ERROR") => Self::Error,
            _ => Self::Other,
        }
    }
}

/// What a listener accepts, or a pool's members speak.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Arc<str>")]
pub enum Protocol {
    /// `HTTP`.
    Http,
    /// `HTTPS`: TLS passed through.
    Https,
    /// `TERMINATED_HTTPS`, of listeners.
    TerminatedHttps,
    /// `TCP`.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
    /// `PROMETHEUS`, of listeners: the load balancer's own metrics.
    Prometheus,
    /// `PROXY`, of pools: TCP behind a PROXY header.
    Proxy,
    /// `PROXYV2`, of pools.
    ProxyV2,
    /// One that we do not know.
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
