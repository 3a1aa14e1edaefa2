//! Selects the endpoints to use from a token's catalog. Pure.

use reqwest::Url;
use serde::Deserialize;

use crate::service::CatalogEndpoints;
use crate::{CloudCredentials, Dialect, Error, Interface, ServiceType};

/// A service of the catalog, as Keystone lists it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CatalogService {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Clone, Deserialize)]
struct Endpoint {
    #[serde(default)]
    interface: String,
    // Two names of the same field. Older Keystones send both.
    region_id: Option<String>,
    region: Option<String>,
    #[serde(default)]
    url: String,
}

impl Endpoint {
    fn region(&self) -> &str {
        self.region_id.as_deref().or(self.region.as_deref()).unwrap_or_default()
    }
}

/// Finds the endpoints of the services that this client uses.
pub(crate) fn endpoints(catalog: &[CatalogService], credentials: &CloudCredentials) -> CatalogEndpoints {
    CatalogEndpoints {
        load_balancing: load_balancing(catalog, credentials),
        network: endpoint(catalog, credentials, credentials.network.as_ref(), ServiceType::Network, "v2.0"),
        key_manager: endpoint(catalog, credentials, None, ServiceType::KeyManager, "v1"),
    }
}

fn endpoint(
    catalog: &[CatalogService],
    credentials: &CloudCredentials,
    configured: Option<&Url>,
    service: ServiceType,
    version: &str,
) -> Result<Url, Error> {
    let found = match configured {
        Some(url) => Some(url.clone()),
        None => find(catalog, &[service.as_str()], credentials)?,
    };
    let interface = credentials.interface.as_str();
    let missing =
        || Error::Catalog { message: format!("there is no {interface} endpoint of type {}", service.as_str()) };
    found.map(|url| with_path(url, &[version], version)).ok_or_else(missing)
}

/// Returns the URL and dialect of the load balancing API: Octavia if the catalog has it, else neutron-lbaas below the
/// network endpoint. The URL includes the path of the API (`.../v2/lbaas`, `.../v2.0/lbaas`).
pub(crate) fn load_balancing(
    catalog: &[CatalogService],
    credentials: &CloudCredentials,
) -> Result<(Dialect, Url), Error> {
    let octavia = match &credentials.load_balancer {
        Some(url) => Some(url.clone()),
        None => find(catalog, &["load-balancer", "loadbalancer"], credentials)?,
    };
    if let Some(url) = octavia {
        return Ok((Dialect::Octavia, with_path(url, &["v2", "v2.0"], "v2/lbaas")));
    }
    let network = match &credentials.network {
        Some(url) => Some(url.clone()),
        None => find(catalog, &["network"], credentials)?,
    };
    match network {
        Some(url) => Ok((Dialect::NeutronLbaas, with_path(url, &["v2.0"], "v2.0/lbaas"))),
        None => Err(nothing(catalog, credentials)),
    }
}

fn find(catalog: &[CatalogService], kinds: &[&str], credentials: &CloudCredentials) -> Result<Option<Url>, Error> {
    let mut found: Option<&Endpoint> = None;
    for endpoint in of_interface(catalog, kinds, credentials.interface) {
        if credentials.region.as_deref().is_some_and(|region| region != endpoint.region()) {
            continue;
        }
        match found {
            Some(other) if other.region() != endpoint.region() => {
                let (one, two) = (other.region(), endpoint.region());
                let message = format!("{} is served in regions {one:?} and {two:?}; name one of them", kinds[0]);
                return Err(Error::Catalog { message });
            }
            Some(_) => {}
            None => found = Some(endpoint),
        }
    }
    let Some(endpoint) = found else { return Ok(None) };
    match Url::parse(&endpoint.url) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && !url.cannot_be_a_base() => Ok(Some(url)),
        _ => Err(Error::Catalog { message: format!("{} has the address {:?}", kinds[0], endpoint.url) }),
    }
}

/// Returns the endpoints of an interface. A v3 catalog has `public`; some deployments kept v2's `publicURL`.
fn of_interface<'a>(
    catalog: &'a [CatalogService],
    kinds: &'a [&str],
    interface: Interface,
) -> impl Iterator<Item = &'a Endpoint> {
    catalog
        .iter()
        .filter(move |service| kinds.contains(&service.kind.as_str()))
        .flat_map(|service| &service.endpoints)
        .filter(move |endpoint| endpoint.interface.trim_end_matches("URL") == interface.as_str())
}

fn nothing(catalog: &[CatalogService], credentials: &CloudCredentials) -> Error {
    let interface = credentials.interface;
    let kinds = ["load-balancer", "loadbalancer", "network"];
    let mut regions: Vec<_> = of_interface(catalog, &kinds, interface).map(Endpoint::region).collect();
    regions.sort_unstable();
    regions.dedup();
    let interface = interface.as_str();
    let none = format!("no {interface} endpoint of type load-balancer or network");
    match &credentials.region {
        Some(region) if regions.is_empty() => Error::Catalog { message: format!("region {region:?} has {none}") },
        Some(region) => Error::Region { message: format!("region {region:?} has {none}; there is one in {regions:?}") },
        None => Error::Catalog { message: format!("there is {none}") },
    }
}

/// Endpoints are listed with and without their version.
fn with_path(mut url: Url, versions: &[&str], path: &str) -> Url {
    let base = url.path().trim_end_matches('/').to_owned();
    let (before, last) = base.rsplit_once('/').unwrap_or(("", &base));
    let base = if versions.contains(&last) { before } else { base.as_str() };
    url.set_path(&format!("{base}/{path}"));
    url.set_query(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(settings: &[(&str, &str)]) -> CloudCredentials {
        let all = [("OS_AUTH_URL", "http://k"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "p")];
        let find = |name: &str| settings.iter().chain(&all).find(|(key, _)| *key == name).map(|pair| pair.1.to_owned());
        CloudCredentials::from_env(find).unwrap()
    }

    fn catalog(endpoints: &[(&str, &str, &str, &str)]) -> Vec<CatalogService> {
        let service = |&(kind, interface, region, url): &(&str, &str, &str, &str)| serde_json::json!({"type": kind, "endpoints": [{"interface": interface, "region": region, "url": url}]});
        serde_json::from_value(endpoints.iter().map(service).collect()).unwrap()
    }

    #[test]
    fn the_endpoint_that_is_meant() {
        const OCTAVIA: (&str, &str, &str, &str) = ("load-balancer", "public", "one", "http://o:9876");
        const INSIDE: (&str, &str, &str, &str) =
            ("load-balancer", "internal", "one", "http://inside/load-balancer/v2.0/");
        const NEUTRON: (&str, &str, &str, &str) = ("network", "public", "one", "http://n:9696/");
        const MITAKA: (&str, &str, &str, &str) = ("network", "publicURL", "two", "http://m/network/v2.0");
        for (endpoints, settings, expected) in [
            (vec![NEUTRON, OCTAVIA], vec![], "Octavia http://o:9876/v2/lbaas"),
            (vec![INSIDE, OCTAVIA], vec![("OS_INTERFACE", "internal")], "Octavia http://inside/load-balancer/v2/lbaas"),
            (vec![NEUTRON], vec![], "NeutronLbaas http://n:9696/v2.0/lbaas"),
            (
                vec![NEUTRON, OCTAVIA, MITAKA],
                vec![("OS_REGION_NAME", "two")],
                "NeutronLbaas http://m/network/v2.0/lbaas",
            ),
            (
                vec![],
                vec![("OS_NETWORK_ENDPOINT_OVERRIDE", "http://here:9696/")],
                "NeutronLbaas http://here:9696/v2.0/lbaas",
            ),
            // There is an Octavia, so the configured network endpoint is not used for load balancing.
            (
                vec![OCTAVIA],
                vec![("OS_NETWORK_ENDPOINT_OVERRIDE", "http://here:9696/")],
                "Octavia http://o:9876/v2/lbaas",
            ),
            (
                vec![OCTAVIA],
                vec![("OS_LOAD_BALANCER_ENDPOINT_OVERRIDE", "https://here/v2/")],
                "Octavia https://here/v2/lbaas",
            ),
            (
                vec![OCTAVIA],
                vec![("OS_REGION_NAME", "three")],
                "service catalog: region \"three\" has no public endpoint of type load-balancer or network; \
                 there is one in [\"one\"]",
            ),
            (
                vec![OCTAVIA, ("load-balancer", "public", "two", "http://two")],
                vec![],
                "service catalog: load-balancer is served in regions \"one\" and \"two\"; name one of them",
            ),
            (
                vec![("load-balancer", "public", "one", "somewhere")],
                vec![],
                "service catalog: load-balancer has the address \"somewhere\"",
            ),
        ] {
            let found = match load_balancing(&catalog(&endpoints), &credentials(&settings)) {
                Ok((dialect, url)) => format!("{dialect:?} {url}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{endpoints:?} {settings:?}");
        }
    }
}
