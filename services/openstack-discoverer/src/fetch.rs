//! One question to the cloud, and its answer.

use gimbal_load_balancing::rows::{LoadBalancer, Project};
use gimbal_load_balancing::{Answer, Ask, Existence, List, NoMembers, Whose};
use gimbal_openstack::{Error, Lookup, Outcome, Scope, Session};

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
            let list = async { session.load_balancing().await?.load_balancers(None).await }.await;
            sees_all = list.as_ref().ok().and_then(|list| foreign(&whose, list));
            Answer::LoadBalancers(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::Listeners(whose) => {
            let list = async { session.load_balancing().await?.listeners(None).await }.await;
            Answer::Listeners(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::Pools(whose) => {
            let list = async { session.load_balancing().await?.pools(None).await }.await;
            Answer::Pools(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::L7Policies(whose) => {
            let list = async { session.load_balancing().await?.l7_policies(None).await }.await;
            Answer::L7Policies(whose, list.map_err(|error| failures.note(error)))
        }
        Ask::Members(whose, pool) => {
            let list = async { session.load_balancing().await?.members(pool.as_str()).await }.await;
            let list = list.map_err(|error| match error {
                Error::NotFound { .. } => NoMembers::PoolGone,
                error => NoMembers::Failed(failures.note(error)),
            });
            Answer::Members(whose, pool, list)
        }
        Ask::LoadBalancer(whose, id) => {
            let lookup = async { session.load_balancing().await?.load_balancer(id.as_str()).await }.await;
            let existence = lookup.map(|lookup| match lookup {
                Lookup::Found(_) => Existence::Found,
                Lookup::Gone => Existence::Gone,
                Lookup::Forbidden => Existence::Forbidden,
            });
            Answer::LoadBalancer(whose, id, existence.map_err(|error| failures.note(error)))
        }
    };
    let Failures { last, invalid_credentials } = failures;
    Fetched { answer, failure: last, invalid_credentials, sees_all }
}

/// A list that Keystone cut off is no list.
async fn projects(way: &Way) -> Result<List<Project>, Error> {
    let projects = match &way.terms.projects {
        ProjectsFrom::All(_) => way.projects.all_projects().await?,
        ProjectsFrom::Roles => way.cloud.projects().await?,
        ProjectsFrom::Token => return Ok(List::from(Vec::from_iter(way.session.project().await?))),
    };
    if projects.truncated {
        let message = "Keystone cut the list of projects off (list_limit): raise the limit".to_owned();
        return Err(Error::Undecodable { message });
    }
    Ok(projects.list)
}

/// The scope of a token for one project that shows objects of another one.
fn foreign(whose: &Whose, list: &List<LoadBalancer>) -> Option<Scope> {
    match whose {
        Whose::Everyones => None,
        Whose::Project(id) => {
            let foreign = list.rows.iter().any(|row| row.project != *id);
            foreign.then(|| Scope::Project(id.to_string()))
        }
    }
}
