//! Executes one query of the poller.

use gimbal_octavia_rows::{Existence, List};
use gimbal_octavia_rows::{LoadBalancer, Project};
use gimbal_openstack_client::{CallOutcome, Error, Lookup, Scope, Session};
use gimbal_openstack_source::{ListScope, MembersError, Query, Reply};

use crate::entry::{Connection, ProjectsFrom};

/// The result of a query.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) answer: Reply,
    /// The outcome of the last call that failed, if one did.
    pub(crate) failure: Option<CallOutcome>,
    /// Whether Keystone refused the credentials.
    pub(crate) invalid_credentials: bool,
    /// The scope of a project's token that sees other projects' objects, if it does.
    pub(crate) sees_all: Option<Scope>,
}

/// Returns the kind of object that a query is about, as freshness and metrics name it.
pub(crate) fn kind(ask: &Query) -> &'static str {
    match ask {
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
    fn note(&mut self, error: Error) -> String {
        self.last = Some(error.outcome());
        self.invalid_credentials |= matches!(error, Error::InvalidCredentials { .. });
        error.to_string()
    }
}

/// Executes a query with the token of `session`.
pub(crate) async fn fetch(connection: Connection, session: Session, ask: Query) -> Fetched {
    let mut failures = Failures::default();
    let mut sees_all = None;
    let answer = match ask {
        Query::Projects => Reply::Projects(projects(&connection).await.map_err(|error| failures.note(error))),
        Query::LoadBalancers(whose) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.load_balancers(None).await }.await;
            sees_all = list.as_ref().is_ok_and(|list| foreign(&whose, list)).then(|| session.scope().clone());
            Reply::LoadBalancers(whose, list.map_err(|error| failures.note(error)))
        }
        Query::Listeners(whose) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.listeners(own(&whose)).await }.await;
            Reply::Listeners(whose, list.map_err(|error| failures.note(error)))
        }
        Query::Pools(whose) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.pools(own(&whose)).await }.await;
            Reply::Pools(whose, list.map_err(|error| failures.note(error)))
        }
        Query::L7Policies(whose) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.l7_policies(own(&whose)).await }
                    .await;
            Reply::L7Policies(whose, list.map_err(|error| failures.note(error)))
        }
        Query::Members(whose, pool) => {
            let list =
                async { session.load_balancing_at(&connection.terms.place).await?.members(pool.as_str()).await }.await;
            let list = list.map_err(|error| match error {
                Error::NotFound { .. } => MembersError::PoolGone,
                error => MembersError::Failed(failures.note(error)),
            });
            Reply::Members(whose, pool, list)
        }
        Query::LoadBalancer(whose, id) => {
            let lookup =
                async { session.load_balancing_at(&connection.terms.place).await?.load_balancer(id.as_str()).await }
                    .await;
            let existence = lookup.map(|lookup| match lookup {
                Lookup::Found(_) => Existence::Found,
                Lookup::Gone => Existence::Gone,
                Lookup::Forbidden => Existence::Forbidden,
            });
            Reply::LoadBalancer(whose, id, existence.map_err(|error| failures.note(error)))
        }
        Query::Listener(whose, id) => {
            let there =
                async { session.load_balancing_at(&connection.terms.place).await?.listener(id.as_str()).await }.await;
            Reply::Listener(whose, id, there.map_err(|error| failures.note(error)))
        }
        Query::Pool(whose, id) => {
            let there =
                async { session.load_balancing_at(&connection.terms.place).await?.pool(id.as_str()).await }.await;
            Reply::Pool(whose, id, there.map_err(|error| failures.note(error)))
        }
        Query::Roles(whose) => {
            let now = session.roles_now().await.map_err(|error| failures.note(error));
            Reply::Roles(whose, now.map(|now| connection.terms.roles.difference(&now).cloned().collect()))
        }
    };
    let Failures { last, invalid_credentials } = failures;
    Fetched { answer, failure: last, invalid_credentials, sees_all }
}

async fn projects(connection: &Connection) -> Result<List<Project>, Error> {
    match &connection.terms.projects {
        ProjectsFrom::All(_) => connection.projects.all_projects().await,
        ProjectsFrom::Roles => connection.cloud.projects().await,
        ProjectsFrom::Token => Ok(List::from(Vec::from_iter(connection.session.project().await?))),
    }
}

/// Returns whether the list made with one project's token has objects of another project.
fn foreign(whose: &ListScope, list: &List<LoadBalancer>) -> bool {
    own(whose).is_some_and(|id| list.rows.iter().any(|row| row.project.as_str() != id && !row.project.is_no_owner()))
}

/// Returns the project to filter a list by, because a project's token may see more. The list of load balancers is not
/// filtered: it shows whether the token does.
fn own(whose: &ListScope) -> Option<&str> {
    match whose {
        ListScope::AllProjects => None,
        ListScope::Project(id) => Some(id.as_str()),
    }
}
