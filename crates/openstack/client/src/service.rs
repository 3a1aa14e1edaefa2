//! The services of a cloud, and where each is served. Pure.

use std::fmt;

use gimbal_octavia_rows::Project;
use reqwest::Url;

use crate::{Dialect, Error};

/// Replaces the ID of the token's project in a URL that contains it.
const PROJECT: &str = "{project}";

/// A service of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceType {
    /// Keystone.
    Identity,
    /// Octavia, or neutron-lbaas on the network endpoint.
    LoadBalancer,
    /// Neutron.
    Network,
    /// Barbican.
    KeyManager,
}

impl ServiceType {
    /// Returns the catalog's name of the service, which is also the word for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::LoadBalancer => "load-balancer",
            Self::Network => "network",
            Self::KeyManager => "key-manager",
        }
    }
}

/// Where a service is served, the same for the tokens of all projects. Obtained once with
/// [`Session::endpoint`](crate::Session::endpoint) and then required of every token, so that a catalog that changes cannot
/// send changes to another service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceEndpoint {
    pub(crate) service: ServiceType,
    url: String,
}

impl ServiceEndpoint {
    pub(crate) fn new(service: ServiceType, url: &Url, project: Option<&Project>) -> Self {
        Self { service, url: for_all_projects(url, project) }
    }

    /// Returns the service.
    #[must_use]
    pub fn service(&self) -> ServiceType {
        self.service
    }
}

impl fmt::Display for ServiceEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.service.as_str(), self.url)
    }
}

/// Returns the URL without the project's ID, which differs from token to token.
pub(crate) fn for_all_projects(url: &Url, project: Option<&Project>) -> String {
    match project {
        Some(project) => url.as_str().replace(project.id.as_str(), PROJECT),
        None => url.to_string(),
    }
}

/// The endpoints in one token's catalog.
#[derive(Debug, Clone)]
pub(crate) struct CatalogEndpoints {
    /// Octavia, or neutron-lbaas where there is no Octavia.
    pub(crate) load_balancing: Result<(Dialect, Url), Error>,
    pub(crate) network: Result<Url, Error>,
    pub(crate) key_manager: Result<Url, Error>,
}

impl CatalogEndpoints {
    /// Returns the URL of a service, up to and including its version.
    pub(crate) fn get(&self, service: ServiceType) -> Result<Url, Error> {
        match service {
            ServiceType::Identity => {
                Err(Error::Catalog { message: "Keystone is called at its configured URL".to_owned() })
            }
            ServiceType::LoadBalancer => self.load_balancing.clone().map(|(_, url)| url),
            ServiceType::Network => self.network.clone(),
            ServiceType::KeyManager => self.key_manager.clone(),
        }
    }
}

/// Returns the URL of `path` below `base`. A segment that would lead elsewhere is an error.
pub(crate) fn below(base: &Url, path: &[&str]) -> Result<Url, Error> {
    if let Some(id) = path.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
        return Err(Error::Refused { message: format!("{id:?} cannot be the ID of an object") });
    }
    let mut url = base.clone();
    match url.path_segments_mut() {
        Ok(mut segments) => segments.extend(path),
        Err(()) => return Err(Error::Catalog { message: format!("{base} has no path") }),
    };
    Ok(url)
}
