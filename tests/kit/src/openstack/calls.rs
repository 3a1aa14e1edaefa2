//! The log of calls to a service.

use serde::Deserialize;

use super::{OpenStack, Service, USER_AGENT};

/// A call with its answer. Calls of this crate itself are left out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Call {
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query, as it was sent.
    pub query: String,
    /// HTTP status.
    pub status: u16,
    /// The client's User-Agent.
    pub user_agent: String,
    /// When the service got it, in seconds since 1970.
    pub came: f64,
}

impl std::fmt::Display for Call {
    /// `GET /v2/lbaas/pools?limit=1000 200`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.query.is_empty() { "" } else { "?" };
        write!(f, "{} {}{mark}{} {}", self.method, self.path, self.query, self.status)
    }
}

impl OpenStack {
    /// Returns the calls to a service so far, except for the first `seen`, a number that [`OpenStack::calls_mark`]
    /// returned. Contains every call whose client has its answer. The services' own calls, by which they check tokens
    /// at Keystone, are included; their User-Agent is `python-…` or `openstacksdk…`.
    ///
    /// # Errors
    /// The log cannot be read; neutron-lbaas has none.
    pub fn calls_since(&self, service: Service, seen: usize) -> anyhow::Result<Vec<Call>> {
        let log = match std::fs::read_to_string(self.layout.calls(service)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && service != Service::NeutronLbaas => {
                String::new()
            }
            other => other?,
        };
        // An incomplete last line is still being written.
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let calls = whole.lines().map(serde_json::from_str::<Call>).collect::<Result<Vec<_>, _>>()?;
        Ok(calls.into_iter().filter(|call| call.user_agent != USER_AGENT).skip(seen).collect())
    }

    /// Returns the number of calls so far, for [`OpenStack::calls_since`].
    ///
    /// # Errors
    /// As [`OpenStack::calls_since`].
    pub fn calls_mark(&self, service: Service) -> anyhow::Result<usize> {
        Ok(self.calls_since(service, 0)?.len())
    }
}
