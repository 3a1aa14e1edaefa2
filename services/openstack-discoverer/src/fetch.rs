//! Executes one query of the poller.

use gimbal_octavia_rows::{CompleteList, Existence};
use gimbal_octavia_rows::{LoadBalancer, Project};
use gimbal_openstack_client::{CallOutcome, Error, Lookup, Session, TokenScope};
use gimbal_openstack_source::{ListScope, MembersError, Query, Reply};

use crate::entry::{CloudConnection, ProjectsFrom};

/// The result of a query.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) answer: Reply,
    /// The outcome of the last call that failed, if one did.
    pub(crate) failure: Option<CallOutcome>,
    /// Whether Keystone refused the credentials.
    pub(crate) invalid_credentials: bool,
    /// The scope of a project's token that sees other projects' objects, if it does.
    pub(crate) sees_all: Option<TokenScope>,
}

/// Returns the kind of object that a query is about, as freshness and metrics name it.
pub(crate) fn kind(query: &Query) -> &'static str {
    match query {
        Query::Projects => "projects",
        Query::LoadBalancers(_) | Query::LoadBalancer(..) => "loadbalancers",
        Query::Listeners(_) => "listeners",
        Query::Pools(_) => "pools",
        Query::L7Policies(_) => "l7policies",
        Query::Members(..) => "members",
        Query::Listener(..) => "listeners",
        Query::Pool(..) => "pools",
        Query::Roles(_) => "roles",
    }
}

/// Collects how calls failed, for the counters.
#[derive(Default)]
struct Failures {
    last: Option<CallOutcome>,
    invalid_credentials: bool,
}

impl Failures {
    fn record(&mut self, error: Error) -> String {
        self.last = Some(error.outcome());
        self.invalid_credentials |= matches!(error, Error::InvalidCredentials { .. });
        error.to_string()
    }
}

/// Executes a query with the token of `session`.
pub(crate) async fn fetch(connection: CloudConnection, session: Session, query: Query) -> Fetched {
    let mut failures = Failures::default();
    let mut sees_all = None;
    let answer = match query {
        Query::Projects => Reply::Projects(projects(&connection).await.map_err(|error| failures.record(error))),
        Query::LoadBalancers(scope) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.load_balancers(None).await }.await;
            sees_all = list.as_ref().is_ok_and(|list| foreign(&scope, list)).then(|| session.scope().clone());
            Reply::LoadBalancers(scope, list.map_err(|error| failures.record(error)))
        }
        Query::Listeners(scope) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.listeners(own(&scope)).await }.await;
            Reply::Listeners(scope, list.map_err(|error| failures.record(error)))
        }
        Query::Pools(scope) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.pools(own(&scope)).await }.await;
            Reply::Pools(scope, list.map_err(|error| failures.record(error)))
        }
        Query::L7Policies(scope) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.l7_policies(own(&scope)).await }
                    .await;
            Reply::L7Policies(scope, list.map_err(|error| failures.record(error)))
        }
        Query::Members(scope, pool) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.members(pool.as_str()).await }.await;
            let list = list.map_err(|error| match error {
                Error::NotFound { .. } => MembersError::PoolGone,
                error => MembersError::Failed(failures.record(error)),
            });
            Reply::Members(scope, pool, list)
        }
        Query::LoadBalancer(scope, id) => {
            let lookup =
                async { session.load_balancing_at(&connection.terms.place).await?.load_balancer(id.as_str()).await }
                    .await;
            let existence = lookup.map(|lookup| match lookup {
                Lookup::Found(_) => Existence::Found,
                Lookup::Gone => Existence::Gone,
                Lookup::Forbidden => Existence::Forbidden,
            });
            Reply::LoadBalancer(scope, id, existence.map_err(|error| failures.record(error)))
        }
        Query::Listener(scope, id) => {
            let there =
                async { session.load_balancing_at(&connection.terms.place).await?.listener(id.as_str()).await }.await;
            Reply::Listener(scope, id, there.map_err(|error| failures.record(error)))
        }
        Query::Pool(scope, id) => {
            let there =
                async { session.load_balancing_at(&connection.terms.place).await?.pool(id.as_str()).await }.await;
            Reply::Pool(scope, id, there.map_err(|error| failures.record(error)))
        }
        Query::Roles(scope) => {
            let now = session.roles_now().await.map_err(|error| failures.record(error));
            Reply::Roles(scope, now.map(|now| connection.terms.roles.difference(&now).cloned().collect()))
        }
    };
    let Failures { last, invalid_credentials } = failures;
    Fetched { answer, failure: last, invalid_credentials, sees_all }
}

async fn projects(connection: &CloudConnection) -> Result<CompleteList<Project>, Error> {
    match &connection.terms.projects {
        ProjectsFrom::All(_) => connection.projects.all_projects().await,
        ProjectsFrom::Roles => connection.cloud.projects().await,
        ProjectsFrom::Token => Ok(CompleteList::from(Vec::from_iter(connection.session.project().await?))),
    }
}

/// Returns whether the list made with one project's token has objects of another project.
fn foreign(scope: &ListScope, list: &CompleteList<LoadBalancer>) -> bool {
    own(scope).is_some_and(|id| list.rows.iter().any(|row| row.project.as_str() != id && !row.project.is_no_owner()))
}

/// Returns the project to filter a list by, because a project's token may see more. The list of load balancers is not
/// filtered: it shows whether the token does.
fn own(scope: &ListScope) -> Option<&str> {
    match scope {
        ListScope::AllProjects => None,
        ListScope::Project(id) => Some(id.as_str()),
    }
}
