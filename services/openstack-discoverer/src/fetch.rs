//! One question to the cloud, and its answer.

use gimbal_octavia_rows::{Existence, List};
use gimbal_octavia_rows::{LoadBalancer, Project};
use gimbal_openstack_client::{Error, Lookup, Outcome, Scope, Session};
use gimbal_openstack_source::{Answer, Ask, NoMembers, Whose};

use crate::entry::{ProjectsFrom, Way};

/// What came of a question.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) answer: Answer,
    /// How it failed, if it did.
    pub(crate) failure: Option<Outcome>,
    /// Keystone refused the credentials.
    pub(crate) invalid_credentials: bool,
    /// A token of one project that sees more than that.
    pub(crate) sees_all: Option<Scope>,
}

/// The kind of object that a question is about, as freshness and metrics name it.
pub(crate) fn kind(ask: &Ask) -> &'static str {
    match ask {
        Ask::Projects => "projects",
        Ask::LoadBalancers(_) | Ask::LoadBalancer(..) => "loadbalancers",
        Ask::Listeners(_) => "listeners",
        Ask::Pools(_) => "pools",
        Ask::L7Policies(_) => "l7policies",
        Ask::Members(..) => "members",
        Ask::Listener(..) => "listeners",
        Ask::Pool(..) => "pools",
        Ask::Roles(_) => "roles",
    }
}

/// How questions failed, for the counters.
#[derive(Default)]
struct Failures {
    last: Option<Outcome>,
    invalid_credentials: bool,
}

impl Failures {
    fn note(&mut self, error: Error) -> String {
        self.last = Some(error.outcome());
        self.invalid_credentials |= matches!(error, Error::InvalidCredentials { .. });
        error.to_string()
    }
}

/// Asks with the token of `session`.
pub(crate) async fn fetch(way: Way, session: Session, ask: Ask) -> Fetched {
    let mut failures = Failures::default();
    let mut sees_all = None;
    let answer = match ask {
        Ask::Projects => Answer::Projects(projects(&way).await.map_err(|error| failures.note(error))),
        Ask::LoadBalancers(whose) => {
            let list = async { session.load_balancing_at(&way.terms.place).await?.load_balancers(None).await }.await;
            sees_all = list.as_ref().is_ok_and(|list| foreign(&whose, list)).then(|| session.scope().clone());
            Answer::LoadBalancers(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::Listeners(whose) => {
            let list = async { session.load_balancing_at(&way.terms.place).await?.listeners(own(&whose)).await }.await;
            Answer::Listeners(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::Pools(whose) => {
            let list = async { session.load_balancing_at(&way.terms.place).await?.pools(own(&whose)).await }.await;
            Answer::Pools(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::L7Policies(whose) => {
            let list =
                async { session.load_balancing_at(&way.terms.place).await?.l7_policies(own(&whose)).await }.await;
            Answer::L7Policies(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::Members(whose, pool) => {
            let list = async { session.load_balancing_at(&way.terms.place).await?.members(pool.as_str()).await }.await;
            let list = list.map_err(|error| match error {
                Error::NotFound { .. } => NoMembers::PoolGone,
                error => NoMembers::Failed(failures.note(error)),
            });
            Answer::Members(whose, pool, list)
        }
        Ask::LoadBalancer(whose, id) => {
            let lookup =
                async { session.load_balancing_at(&way.terms.place).await?.load_balancer(id.as_str()).await }.await;
            let existence = lookup.map(|lookup| match lookup {
                Lookup::Found(_) => Existence::Found,
                Lookup::Gone => Existence::Gone,
                Lookup::Forbidden => Existence::Forbidden,
            });
            Answer::LoadBalancer(whose, id, existence.map_err(|error| failures.note(error)))
        }
        Ask::Listener(whose, id) => {
            let there = async { session.load_balancing_at(&way.terms.place).await?.listener(id.as_str()).await }.await;
            Answer::Listener(whose, id, there.map_err(|error| failures.note(error)))
        }
        Ask::Pool(whose, id) => {
            let there = async { session.load_balancing_at(&way.terms.place).await?.pool(id.as_str()).await }.await;
            Answer::Pool(whose, id, there.map_err(|error| failures.note(error)))
        }
        Ask::Roles(whose) => {
            let now = session.roles_now().await.map_err(|error| failures.note(error));
            Answer::Roles(whose, now.map(|now| way.terms.roles.difference(&now).cloned().collect()))
        }
    };
    let Failures { last, invalid_credentials } = failures;
    Fetched { answer, failure: last, invalid_credentials, sees_all }
}

async fn projects(way: &Way) -> Result<List<Project>, Error> {
    match &way.terms.projects {
        ProjectsFrom::All(_) => way.projects.all_projects().await,
        ProjectsFrom::Roles => way.cloud.projects().await,
        ProjectsFrom::Token => Ok(List::from(Vec::from_iter(way.session.project().await?))),
    }
}

/// Whether a token for one project shows objects of another one.
fn foreign(whose: &Whose, list: &List<LoadBalancer>) -> bool {
    own(whose).is_some_and(|id| list.rows.iter().any(|row| row.project.as_str() != id && !row.project.is_no_owner()))
}

/// Which project's objects are asked for, where a token may show more. The list of load balancers is not narrowed: it tells
/// whether it does.
fn own(whose: &Whose) -> Option<&str> {
    match whose {
        Whose::Everyones => None,
        Whose::Project(id) => Some(id.as_str()),
    }
}
