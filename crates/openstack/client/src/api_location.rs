//! The place where load balancing is served, for comparing the catalogs of two tokens. Pure.

use std::fmt;

use gimbal_octavia_rows::Project;
use reqwest::Url;

use crate::Dialect;
use crate::service::for_all_projects;

/// The service that implements load balancing, and its URL. The same for all projects of a cloud.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApiLocation {
    dialect: Dialect,
    url: String,
}

impl ApiLocation {
    /// Returns the place for an endpoint of a token's catalog. The endpoint's URL may contain the ID of the token's
    /// project.
    pub(crate) fn of(dialect: Dialect, url: &Url, project: Option<&Project>) -> Self {
        Self { dialect, url: for_all_projects(url, project) }
    }

    /// Returns the service that implements load balancing there.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns whether requests are sent without TLS.
    #[must_use]
    pub fn is_plaintext(&self) -> bool {
        self.url.starts_with("http:")
    }
}

impl fmt::Display for ApiLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.dialect {
            Dialect::Octavia => "Octavia",
            Dialect::NeutronLbaas => "neutron-lbaas",
        };
        write!(f, "by {by} at {}", self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_for_all_projects() {
        let place = |url: &str, project: &str| {
            let project = Project { id: project.try_into().unwrap(), name: "".into() };
            ApiLocation::of(Dialect::Octavia, &Url::parse(url).unwrap(), Some(&project))
        };
        assert_eq!(place("http://o/v1/AUTH_p1/v2/lbaas", "p1"), place("http://o/v1/AUTH_p2/v2/lbaas", "p2"));
        assert_ne!(place("http://o/v2/lbaas", "p1"), place("http://n/v2/lbaas", "p1"));
        assert_eq!(place("http://o/v2/lbaas", "p1").to_string(), "by Octavia at http://o/v2/lbaas");
    }
}
