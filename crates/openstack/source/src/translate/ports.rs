//! Translation of listeners to ports.

use std::collections::HashMap;
use std::sync::Arc;

use gimbal_model::{EndpointPort, PortSet, Protocol as Transport};
use gimbal_octavia_rows::{Listener, Pool, Protocol};

use crate::skip::SkipReason;

/// More port sets than one cloud has. A full cache is cleared, which needs no count of users.
const MOST_PORT_SETS: usize = 4096;

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Port {
    pub number: u16,
    pub transport: Transport,
    pub name: Arc<str>,
    pub app_protocol: Option<Arc<str>>,
}

impl Port {
    pub(super) fn same_place(&self, other: &Self) -> bool {
        (self.number, self.transport) == (other.number, other.transport)
    }
}

/// Returns a listener's port. Its name always contains the transport unless that is TCP, so that it does not change
/// when a second listener is added.
pub(super) fn port(listener: &Listener) -> Result<Port, SkipReason> {
    let (transport, suffix) = match &listener.protocol {
        Protocol::Http | Protocol::Https | Protocol::TerminatedHttps | Protocol::Tcp => (Transport::Tcp, ""),
        Protocol::Udp => (Transport::Udp, "-udp"),
        Protocol::Sctp => (Transport::Sctp, "-sctp"),
        Protocol::Prometheus => return Err(SkipReason::Prometheus),
        Protocol::Proxy | Protocol::ProxyV2 | Protocol::Other(_) => return Err(SkipReason::Unsupported),
    };
    let number = listener.port.ok_or(SkipReason::NoPort)?;
    Ok(Port { number, transport, name: format!("port-{number}{suffix}").into(), app_protocol: None })
}

/// Returns the application protocol of a pool's members, which receive the traffic directly.
pub(super) fn app_protocol(pool: &Pool) -> Result<Option<Arc<str>>, SkipReason> {
    match &pool.protocol {
        Protocol::Proxy | Protocol::ProxyV2 | Protocol::Prometheus | Protocol::Other(_) => Err(SkipReason::Unsupported),
        Protocol::Https | Protocol::TerminatedHttps => Ok(Some("https".into())),
        _ if pool.tls_enabled => Ok(Some("https".into())),
        Protocol::Http => Ok(Some("http".into())),
        Protocol::Tcp | Protocol::Udp | Protocol::Sctp => Ok(None),
    }
}

/// A cache of port sets, so that Services share one copy of each.
#[derive(Debug, Default)]
pub(crate) struct PortSets(HashMap<(Port, u16), PortSet>);

impl PortSets {
    /// Returns the port set of endpoints that listen on `number` for `port`.
    pub(super) fn get(&mut self, port: &Port, number: u16) -> PortSet {
        if self.0.len() >= MOST_PORT_SETS {
            self.0.clear();
        }
        let made = || {
            PortSet::new(vec![EndpointPort {
                name: port.name.clone(),
                port: Some(number),
                protocol: port.transport,
                app_protocol: port.app_protocol.clone(),
            }])
        };
        self.0.entry((port.clone(), number)).or_insert_with(made).clone()
    }
}
