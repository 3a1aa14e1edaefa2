//! How a cloud is entered: credentials, and whether one token sees everything. Decided once, since what a token may see
//! must not change what an empty list means.

use gimbal_load_balancing::Mode;
use gimbal_openstack::{Cloud, CredentialsError, Error, Options, Scope, Session};

use crate::access::Access;

/// How lists are asked for.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    /// Of the token for everyone's objects, and for the projects.
    pub(crate) scope: Scope,
    pub(crate) projects: ProjectsFrom,
}

/// Where the list of projects comes from. It stays the same: another one would look like projects that come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectsFrom {
    /// All of the cloud, with a token of this scope.
    All(Scope),
    /// Those on which the user has a role.
    Roles,
    /// The token's own: an application credential has no other.
    Token,
}

/// The way into a cloud.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) cloud: Cloud,
    pub(crate) terms: Terms,
    /// With a token of the terms' scope.
    pub(crate) session: Session,
    /// With the token for the list of projects, where that is one of all.
    pub(crate) projects: Session,
}

/// What is known of the terms before a cloud is entered.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// Nothing, but that a token of this scope should be looked at first.
    Decide(Option<Scope>),
    /// They were decided before.
    As(Terms),
}

/// Why a cloud was not entered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    #[error("{0}")]
    Cloud(#[from] Error),
    #[error("the credentials name another cloud now ({now}) than at the start ({before}): start again for that one")]
    Moved { before: String, now: String },
}

impl EntryError {
    /// Whether it is the credentials' fault, so that trying again is of no use.
    pub(crate) fn is_wrong_input(&self) -> bool {
        matches!(self, Self::Credentials(_) | Self::Cloud(Error::InvalidCredentials { .. }))
    }
}

/// Which cloud this is: Keystone's URL and the region (DESIGN 4).
pub(crate) fn incarnation(cloud: &Cloud) -> String {
    match cloud.region() {
        Some(region) => format!("{} {region}", cloud.keystone_url()),
        None => cloud.keystone_url(),
    }
}

/// Reads the credentials, and shows them to Keystone unless the terms are known already.
pub(crate) async fn enter(access: Access, options: Options, wish: Wish, expected: String) -> Result<Way, EntryError> {
    let cloud = Cloud::new(access.read()?, options)?;
    let now = incarnation(&cloud);
    if now != expected {
        return Err(EntryError::Moved { before: expected, now });
    }
    let terms = match wish {
        Wish::As(terms) => terms,
        Wish::Decide(scope) => decide(&cloud, scope).await?,
    };
    let session = cloud.session(&terms.scope);
    let projects = match &terms.projects {
        ProjectsFrom::All(scope) => cloud.session(scope),
        ProjectsFrom::Roles | ProjectsFrom::Token => session.clone(),
    };
    Ok(Way { cloud, terms, session, projects })
}

/// A list with a foreign project in it proves that the token sees all (research/openstack-direction.md 2.1). Nothing proves
/// that it does not, so lists of single projects are looked at as well, later (see [`crate::fetch`]).
async fn decide(cloud: &Cloud, scope: Option<Scope>) -> Result<Terms, Error> {
    let bound = cloud.scope() == Some(&Scope::Bound);
    let scope = match scope.or_else(|| cloud.scope().cloned()) {
        Some(scope) => scope,
        None => first_project(cloud).await?,
    };
    let session = cloud.session(&scope);
    let own = session.project().await?;
    let load_balancing = session.load_balancing().await?;
    let sees_all = match load_balancing.load_balancers(None).await {
        // A token that is scoped to the system has no project of its own.
        Ok(list) => own.is_none_or(|own| list.rows.iter().any(|row| row.project != own.id)),
        Err(Error::Forbidden { message }) => {
            tracing::info!(message, "this token may list no load balancers by itself");
            false
        }
        Err(error) => return Err(error),
    };
    let projects = match (sees_all, bound) {
        (true, _) => from_all(cloud, &scope, bound).await?,
        (false, true) => ProjectsFrom::Token,
        (false, false) => ProjectsFrom::Roles,
    };
    // Only now, so that a cloud that cannot be entered is not said to serve it with every attempt.
    tracing::info!(api = ?load_balancing.dialect(), "this cloud serves load balancing");
    let mode = if sees_all { Mode::Bulk } else { Mode::PerProject };
    Ok(Terms { mode, scope, projects })
}

async fn first_project(cloud: &Cloud) -> Result<Scope, Error> {
    let projects = cloud.projects().await?;
    let first = projects.list.rows.iter().map(|project| &project.id).min();
    let none = || Error::Forbidden { message: "the user has a role on no project".to_owned() };
    first.map(|id| Scope::Project(id.to_string())).ok_or_else(none)
}

/// A role that sees all load balancers need not see all projects. A reader of the system does.
async fn from_all(cloud: &Cloud, scope: &Scope, bound: bool) -> Result<ProjectsFrom, Error> {
    let system = (!bound && *scope != Scope::System).then_some(Scope::System);
    for scope in [scope.clone()].into_iter().chain(system) {
        match cloud.session(&scope).all_projects().await {
            Ok(_) => return Ok(ProjectsFrom::All(scope)),
            Err(Error::Forbidden { message }) => tracing::debug!(message, ?scope, "may not list all projects"),
            Err(error) => return Err(error),
        }
    }
    let (from, offered) = match bound {
        true => (ProjectsFrom::Token, "its own project"),
        false => (ProjectsFrom::Roles, "the projects on which it has a role"),
    };
    tracing::warn!("this user may not list all projects: only load balancers of {offered} are offered");
    Ok(from)
}
