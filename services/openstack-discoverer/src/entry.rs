//! Entering a cloud: reads the credentials, and decides whether one token sees the objects of all projects. This is
//! decided once, because the meaning of an empty list must not change with what a token may see.

use std::collections::BTreeSet;

use gimbal_octavia_rows::{CompleteList, Id};
use gimbal_octavia_rows::{LoadBalancer, Project};
use gimbal_openstack_client::{
    ApiLocation, ClientOptions, Cloud, CloudCredentials, CredentialsError, Dialect, Error, LoadBalancing, Session,
    TokenScope,
};
use gimbal_openstack_source::ListMode;

use crate::args::ModeWanted;
use crate::credentials_source::CredentialsSource;

/// How lists are requested. All of this stays as it was decided; a later difference is reported as trouble.
#[derive(Debug, Clone)]
pub(crate) struct AccessMode {
    pub(crate) mode: ListMode,
    /// The scope of the token that is entered with: it lists all projects' objects in bulk mode.
    pub(crate) scope: TokenScope,
    pub(crate) projects: ProjectsFrom,
    /// The service that implements load balancing, and its URL.
    pub(crate) place: ApiLocation,
    /// The roles that the token had. With fewer roles its lists are shorter, without an error.
    pub(crate) roles: BTreeSet<String>,
    /// The project of the token, if it has one.
    pub(crate) own: Option<Id>,
}

impl AccessMode {
    /// Adapts the terms to credentials of another kind: an application credential's token has only its own scope, which
    /// no other credentials can have.
    async fn fit(mut self, cloud: &Cloud) -> Result<Self, Error> {
        let bound = cloud.scope() == Some(&TokenScope::Bound);
        if bound == (self.scope == TokenScope::Bound) {
            return Ok(self);
        }
        self.scope = first_scope(cloud).await?;
        self.projects = match self.projects {
            ProjectsFrom::All(_) => ProjectsFrom::All(self.scope.clone()),
            ProjectsFrom::Token => ProjectsFrom::Roles,
            ProjectsFrom::Roles => ProjectsFrom::Roles,
        };
        Ok(self)
    }
}

/// The source of the list of projects. It never changes, because projects would seem to come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectsFrom {
    /// All projects of the cloud, listed with a token of this scope.
    All(TokenScope),
    /// The projects on which the user has a role.
    Roles,
    /// The token's own project, the only one of an application credential.
    Token,
}

/// A client for a cloud that was entered.
#[derive(Debug, Clone)]
pub(crate) struct CloudConnection {
    pub(crate) cloud: Cloud,
    pub(crate) credentials: CloudCredentials,
    pub(crate) terms: AccessMode,
    /// The session in the terms' scope.
    pub(crate) session: Session,
    /// The session that lists all projects, if [`ProjectsFrom::All`].
    pub(crate) projects: Session,
}

/// How to determine the terms when a cloud is entered.
#[derive(Debug, Clone)]
pub(crate) enum EntryMode {
    /// Decide the terms, with a token of this scope if one is given.
    Decide(Option<TokenScope>),
    /// Keep terms that were decided before.
    As(AccessMode),
    /// Keep terms that were decided before, but with the token's present roles, if it still sees all projects' objects.
    Renew(AccessMode),
}

/// What every attempt to enter needs.
#[derive(Debug, Clone)]
pub(crate) struct EntryContext {
    pub(crate) credentials: CredentialsSource,
    pub(crate) options: ClientOptions,
    pub(crate) mode: ModeWanted,
    /// The cloud that the credentials must name: Keystone's URL and the region.
    pub(crate) incarnation: String,
}

/// Why a cloud could not be entered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    #[error("{0}")]
    Cloud(#[from] Error),
    #[error("{error}")]
    Refused { error: Error, credentials: Box<CloudCredentials> },
    #[error("invalid credentials: Keystone has refused them, and they are the same still; shown to it again later")]
    StillRefused,
    #[error("the credentials name another cloud now ({now}) than at the start ({before}): start again for that one")]
    Moved { before: String, now: String },
    #[error("load balancing is served elsewhere now, by the catalog: start again if it has moved for good")]
    Elsewhere,
    #[error(
        "nothing shows that the token sees the load balancers of all projects, as --mode bulk demands: a role is missing, \
         or no other project has a load balancer yet"
    )]
    NotBulk,
    #[error("neutron-lbaas is read with a token of a project, not of the system: configure a project")]
    SystemOfNeutron,
}

impl EntryError {
    /// Returns whether the configuration is wrong, so that a retry does not help.
    pub(crate) fn is_wrong_input(&self) -> bool {
        match self {
            Self::Credentials(_) | Self::Refused { .. } | Self::SystemOfNeutron => true,
            Self::Cloud(error) => matches!(error, Error::Region { .. } | Error::Tls { unknown_authority: true, .. }),
            Self::StillRefused | Self::Moved { .. } | Self::Elsewhere | Self::NotBulk => false,
        }
    }
}

/// Returns the identity of a cloud: Keystone's URL and the region.
pub(crate) fn incarnation(cloud: &Cloud) -> String {
    match cloud.region() {
        Some(region) => format!("{} {region}", cloud.keystone_url()),
        None => cloud.keystone_url(),
    }
}

/// Reads the credentials, and presents them to Keystone unless the terms are known already. Credentials that it
/// `refused` lately are not presented again: that would lock the account, also for the operator who repairs it.
pub(crate) async fn enter(
    context: EntryContext,
    wish: EntryMode,
    refused: Option<CloudCredentials>,
) -> Result<CloudConnection, EntryError> {
    let credentials = context.credentials.read()?;
    if refused.is_some_and(|refused| refused.show_the_same_as(&credentials)) {
        return Err(EntryError::StillRefused);
    }
    let cloud = Cloud::new(credentials.clone(), context.options)?;
    let now = incarnation(&cloud);
    if now != context.incarnation {
        return Err(EntryError::Moved { before: context.incarnation, now });
    }
    let decided = match wish {
        EntryMode::As(terms) => as_before(&cloud, terms).await,
        EntryMode::Decide(scope) => decide(&cloud, context.mode, scope).await,
        EntryMode::Renew(terms) => renew(&cloud, terms).await,
    };
    match decided {
        Ok(Decided { terms, session, projects }) => {
            Ok(CloudConnection { cloud, credentials, terms, session, projects })
        }
        Err(EntryError::Cloud(error @ Error::InvalidCredentials { .. })) => {
            Err(EntryError::Refused { error, credentials: Box::new(credentials) })
        }
        Err(error) => Err(error),
    }
}

/// The terms, with the sessions that were used to decide them, which keeps their tokens.
struct Decided {
    terms: AccessMode,
    session: Session,
    projects: Session,
}

/// Keeps the terms. Sends no request if the credentials are of the same kind as before.
async fn as_before(cloud: &Cloud, terms: AccessMode) -> Result<Decided, EntryError> {
    let terms = terms.fit(cloud).await?;
    let session = cloud.session(&terms.scope);
    let projects = match &terms.projects {
        ProjectsFrom::All(scope) => cloud.session(scope),
        ProjectsFrom::Roles | ProjectsFrom::Token => session.clone(),
    };
    Ok(Decided { terms, session, projects })
}

/// Keeps the terms, with the token's present roles and project, if it is shown to see all projects' objects with these
/// roles.
async fn renew(cloud: &Cloud, terms: AccessMode) -> Result<Decided, EntryError> {
    let before = as_before(cloud, terms).await?;
    let now = decide(cloud, ModeWanted::Bulk, Some(before.terms.scope.clone())).await?.terms;
    if now.place != before.terms.place {
        return Err(EntryError::Elsewhere);
    }
    Ok(Decided { terms: AccessMode { roles: now.roles, own: now.own, ..before.terms }, ..before })
}

/// Decides the terms. A list with another project's load balancer proves that the token sees all. Nothing proves that
/// it does not, so lists with single projects' tokens are also checked later (see [`crate::fetch`]).
async fn decide(cloud: &Cloud, wanted: ModeWanted, scope: Option<TokenScope>) -> Result<Decided, EntryError> {
    let bound = cloud.scope() == Some(&TokenScope::Bound);
    let scope = match scope {
        Some(scope) => scope,
        None => first_scope(cloud).await?,
    };
    let session = cloud.session(&scope);
    let own = session.project().await?;
    let roles = session.roles().await?;
    let load_balancing = session.load_balancing().await?;
    let place = load_balancing.place().clone();
    if own.is_none() && place.dialect() == Dialect::NeutronLbaas {
        return Err(EntryError::SystemOfNeutron);
    }
    // Warn before the first list, because every request carries a token.
    if place.is_plaintext() && cloud.keystone_url().starts_with("https:") {
        tracing::warn!(%place, "Keystone is asked over TLS, and its catalog sends tokens on without: correct the catalog");
    }
    let sees_all = wanted != ModeWanted::PerProject && sees_all(&load_balancing, own.as_ref()).await?;
    if wanted == ModeWanted::Bulk && !sees_all {
        return Err(EntryError::NotBulk);
    }
    let (from, projects) = match (sees_all, bound) {
        (true, _) => from_all(cloud, &session, bound).await?,
        (false, true) => (ProjectsFrom::Token, session.clone()),
        (false, false) => (ProjectsFrom::Roles, session.clone()),
    };
    // Log this only now, so that it is not logged with every attempt to enter a cloud that fails.
    let version = load_balancing.version().await;
    let version = version.ok().flatten().map(|(major, minor)| format!("v{major}.{minor}"));
    tracing::info!(api = ?place.dialect(), version, %place, "this cloud serves load balancing");
    let mode = if sees_all { ListMode::Bulk } else { ListMode::PerProject };
    let terms = AccessMode { mode, scope, projects: from, place, roles, own: own.map(|own| own.id) };
    Ok(Decided { terms, session, projects })
}

/// Returns the configured scope, else that of the user's first project.
async fn first_scope(cloud: &Cloud) -> Result<TokenScope, Error> {
    if let Some(scope) = cloud.scope() {
        return Ok(scope.clone());
    }
    let projects = cloud.projects().await?;
    let first = projects.rows.iter().map(|project| &project.id).min();
    let none = || Error::Forbidden { message: "the user has a role on no project".to_owned() };
    first.map(|id| TokenScope::Project(id.to_string())).ok_or_else(none)
}

async fn sees_all(load_balancing: &LoadBalancing, own: Option<&Project>) -> Result<bool, Error> {
    let list = match load_balancing.load_balancers(None).await {
        Ok(list) => list,
        Err(Error::Forbidden { message }) => {
            tracing::info!(text = message, "this token may list no load balancers by itself");
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    // A token that is scoped to the system has no project of its own: its list is that of all projects, even if it is
    // empty.
    let foreign = |row: &&LoadBalancer| own.is_none_or(|own| row.project != own.id) && !row.project.is_no_owner();
    let foreign: Vec<&LoadBalancer> = list.rows.iter().filter(foreign).collect();
    if foreign.is_empty() {
        return Ok(own.is_none());
    }
    shows_what_belongs_to(load_balancing, &foreign).await?;
    Ok(true)
}

/// Checks that the token also sees other projects' listeners and pools. Each kind of object has its own policy, and
/// with all load balancers but no pools every Service would lose its endpoints.
async fn shows_what_belongs_to(load_balancing: &LoadBalancing, foreign: &[&LoadBalancer]) -> Result<(), Error> {
    let ids: BTreeSet<_> = foreign.iter().map(|row| &row.id).collect();
    let listed = |owners: &[Id]| owners.iter().any(|id| ids.contains(id));
    let missing = |kind: &str| Error::Forbidden {
        message: format!(
            "the list of load balancers shows those of other projects, and the list of {kind} shows none of theirs: \
             a policy of the cloud keeps them from this user"
        ),
    };
    let (listeners, pools) = tokio::join!(load_balancing.listeners(None), load_balancing.pools(None));
    let (listeners, pools): (CompleteList<_>, CompleteList<_>) = (listeners?, pools?);
    if foreign.iter().any(|row| !row.listeners.is_empty())
        && !listeners.rows.iter().any(|row| listed(&row.load_balancers))
    {
        return Err(missing("listeners"));
    }
    if foreign.iter().any(|row| !row.pools.is_empty()) && !pools.rows.iter().any(|row| listed(&row.load_balancers)) {
        return Err(missing("pools"));
    }
    Ok(())
}

/// Decides where the list of projects comes from in bulk mode. A role that sees all load balancers may not see all
/// projects; a token scoped to the system does if the user is a reader there.
async fn from_all(cloud: &Cloud, session: &Session, bound: bool) -> Result<(ProjectsFrom, Session), Error> {
    let system = (!bound && *session.scope() != TokenScope::System).then(|| cloud.session(&TokenScope::System));
    for session in [session.clone()].into_iter().chain(system) {
        let scope = session.scope().clone();
        match session.all_projects().await {
            Ok(_) => return Ok((ProjectsFrom::All(scope), session)),
            Err(Error::Forbidden { message }) => tracing::debug!(text = message, ?scope, "may not list all projects"),
            Err(error) => return Err(error),
        }
    }
    let (from, offered) = match bound {
        true => (ProjectsFrom::Token, "its own project"),
        false => (ProjectsFrom::Roles, "the projects on which it has a role"),
    };
    tracing::warn!("this user may not list all projects: only load balancers of {offered} are offered");
    Ok((from, session.clone()))
}
