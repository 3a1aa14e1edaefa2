//! The load balancing v2 API, as served by Octavia or neutron-lbaas.

use gimbal_octavia_rows::{self as rows, CompleteList, Existence};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::list_page::RowPage;
use crate::paged_list::{PagedList, marker_gone};
use crate::service::below;
use crate::statuses::Statuses;
use crate::transport::ApiRequest;
use crate::{ApiLocation, CallKind, Error, Session};

/// The service that implements the load balancing API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Octavia, under `/v2/lbaas`.
    Octavia,
    /// neutron-lbaas on the network endpoint, under `/v2.0/lbaas`, as in Mitaka. Its rows have no timestamps, and only
    /// load balancers have statuses; [`LoadBalancing::statuses`] returns those of the other objects.
    NeutronLbaas,
}

/// The result of a lookup of one load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The load balancer exists.
    Found(rows::LoadBalancer),
    /// 404: the load balancer does not exist, or neutron-lbaas hides it from this user.
    Gone,
    /// 403: the token may not see the load balancer, whether or not it exists.
    Forbidden,
}

/// A client for a cloud's load balancing API, with a session's token. A list is complete or an error. Its order is the
/// server's (by time of creation, then ID).
#[derive(Debug, Clone)]
pub struct LoadBalancing {
    session: Session,
    dialect: Dialect,
    url: Url,
    place: ApiLocation,
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    id: String,
}

impl LoadBalancing {
    pub(crate) fn new(session: Session, dialect: Dialect, url: Url, place: ApiLocation) -> Self {
        Self { session, dialect, url, place }
    }

    /// Returns where the API is served, which is the same for every project's token.
    #[must_use]
    pub fn place(&self) -> &ApiLocation {
        &self.place
    }

    /// Returns the service that implements the API.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns the API's base URL, including `/lbaas`.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the newest version that Octavia supports, for instance (2, 30), with one call that needs no token.
    /// Returns `None` for neutron-lbaas, which has no versions.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn version(&self) -> Result<Option<(u32, u32)>, Error> {
        if self.dialect == Dialect::NeutronLbaas {
            return Ok(None);
        }
        let mut url = self.url.clone();
        url.set_path(self.url.path().trim_end_matches("v2/lbaas"));
        let answer = self.session.shared.transport.ask(&ApiRequest::get(CallKind::Versions, url, None)).await?;
        let Versions { versions } = read("its versions", &answer.body)?;
        Ok(versions.iter().filter_map(|version| number(&version.id)).max())
    }

    /// Lists all load balancers that the token may see, or those of one project.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn load_balancers(&self, project: Option<&str>) -> Result<CompleteList<rows::LoadBalancer>, Error> {
        self.list(CallKind::LoadBalancers, &["loadbalancers"], rows::LoadBalancer::DISCOVERY_FIELDS, project).await
    }

    /// All listeners that the token may see, or those of one project.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn listeners(&self, project: Option<&str>) -> Result<CompleteList<rows::Listener>, Error> {
        self.list(CallKind::Listeners, &["listeners"], rows::Listener::DISCOVERY_FIELDS, project).await
    }

    /// All pools that the token may see, or those of one project.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn pools(&self, project: Option<&str>) -> Result<CompleteList<rows::Pool>, Error> {
        self.list(CallKind::Pools, &["pools"], rows::Pool::DISCOVERY_FIELDS, project).await
    }

    /// All L7 policies that the token may see, or those of one project.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn l7_policies(&self, project: Option<&str>) -> Result<CompleteList<rows::L7Policy>, Error> {
        self.list(CallKind::L7Policies, &["l7policies"], rows::L7Policy::DISCOVERY_FIELDS, project).await
    }

    /// The members of a pool.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::NotFound`] when the pool is gone.
    pub async fn members(&self, pool: &str) -> Result<CompleteList<rows::Member>, Error> {
        self.list(CallKind::Members, &["pools", pool, "members"], rows::Member::DISCOVERY_FIELDS, None).await
    }

    /// Looks up one load balancer. With Octavia this distinguishes a deletion (404) from a lost role (403).
    ///
    /// # Errors
    /// See [`Error`]. 403 and 404 are results, not errors.
    pub async fn load_balancer(&self, id: &str) -> Result<Lookup, Error> {
        #[derive(Deserialize)]
        struct One {
            loadbalancer: rows::LoadBalancer,
        }
        let mut url = below(&self.url, &["loadbalancers", id])?;
        with_fields(&mut url, rows::LoadBalancer::DISCOVERY_FIELDS);
        match self.session.get(CallKind::LoadBalancer, url).await {
            Ok(answer) => {
                let One { loadbalancer } = read(&format!("load balancer {id}"), &answer.body)?;
                Ok(Lookup::Found(loadbalancer))
            }
            Err(Error::NotFound { .. }) => Ok(Lookup::Gone),
            Err(Error::Forbidden { .. }) => Ok(Lookup::Forbidden),
            Err(error) => Err(error),
        }
    }

    /// Looks up whether a listener exists.
    ///
    /// # Errors
    /// See [`Error`]. 403 and 404 are results, not errors.
    pub async fn listener(&self, id: &str) -> Result<Existence, Error> {
        self.existence(CallKind::Listener, &["listeners", id]).await
    }

    /// Looks up whether a pool exists.
    ///
    /// # Errors
    /// See [`Error`]. 403 and 404 are results, not errors.
    pub async fn pool(&self, id: &str) -> Result<Existence, Error> {
        self.existence(CallKind::Pool, &["pools", id]).await
    }

    async fn existence(&self, kind: CallKind, path: &[&str]) -> Result<Existence, Error> {
        let mut url = below(&self.url, path)?;
        with_fields(&mut url, &["id"]);
        match self.session.get(kind, url).await {
            Ok(_) => Ok(Existence::Found),
            Err(Error::NotFound { .. }) => Ok(Existence::Gone),
            Err(Error::Forbidden { .. }) => Ok(Existence::Forbidden),
            Err(error) => Err(error),
        }
    }

    /// Returns the statuses of all objects below a load balancer, without their weights and admin states.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn statuses(&self, load_balancer: &str) -> Result<Statuses, Error> {
        let last = match self.dialect {
            Dialect::Octavia => "status",
            Dialect::NeutronLbaas => "statuses",
        };
        let answer =
            self.session.get(CallKind::Status, below(&self.url, &["loadbalancers", load_balancer, last])?).await?;
        Ok(Statuses::read(&read(&format!("the statuses of {load_balancer}"), &answer.body)?, answer.server_time()))
    }

    /// Reads all pages of a list.
    async fn list<T: DeserializeOwned>(
        &self,
        kind: CallKind,
        path: &[&str],
        fields: &[&str],
        project: Option<&str>,
    ) -> Result<CompleteList<T>, Error> {
        let key = path.last().copied().unwrap_or_default();
        let url = self.query(path, fields, project)?;
        let mut list = PagedList::new(key, self.session.shared.page_size(kind.labels().resource));
        loop {
            let mut url = url.clone();
            url.query_pairs_mut().extend_pairs(list.parameters());
            let mut answer = self.session.get(kind, url).await;
            if self.dialect == Dialect::NeutronLbaas
                && let (Ok(page), Some(marker)) = (&answer, list.marker())
                && RowPage::read(key, &page.body)?.ids.is_empty()
                && self.has_vanished(kind, path, marker).await?
            {
                answer = Err(marker_gone(key));
            }
            if list.add(answer)? {
                return Ok(list.complete());
            }
        }
    }

    /// Returns whether the row that served as page marker was deleted. neutron-lbaas answers such a marker with an
    /// empty page, as it does at the end of a list; the list has ended only if the row still exists.
    async fn has_vanished(&self, kind: CallKind, path: &[&str], marker: &str) -> Result<bool, Error> {
        let mut url = below(&self.url, path)?;
        url.query_pairs_mut().append_pair("fields", "id").append_pair("id", marker);
        let answer = self.session.get(kind, url).await?;
        Ok(RowPage::read(path.last().copied().unwrap_or_default(), &answer.body)?.ids.is_empty())
    }

    /// Returns a list's URL with the parameters that are the same for every page.
    fn query(&self, path: &[&str], fields: &[&str], project: Option<&str>) -> Result<Url, Error> {
        let mut url = below(&self.url, path)?;
        with_fields(&mut url, fields);
        if let Some(project) = project {
            let filter = match self.dialect {
                Dialect::Octavia => "project_id",
                Dialect::NeutronLbaas => "tenant_id",
            };
            url.query_pairs_mut().append_pair(filter, project);
        }
        Ok(url)
    }
}

/// Adds one `fields` parameter for each field: `fields=a,b` would return empty rows.
fn with_fields(url: &mut Url, fields: &[&str]) {
    for field in fields {
        url.query_pairs_mut().append_pair("fields", field);
    }
}

fn read<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Undecodable { message: format!("{what}: {error}") })
}

/// Parses a version like `v2.30`.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.strip_prefix('v')?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let newest = ["v2.0", "v2.30", "v2.4", "v1", "next"].into_iter().filter_map(number).max();
        assert_eq!(newest, Some((2, 30)));
    }
}
