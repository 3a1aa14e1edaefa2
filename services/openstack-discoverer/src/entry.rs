//! How a cloud is entered: credentials, and whether one token sees everything. Decided once, since what a token may see
//! must not change what an empty list means.

use std::collections::BTreeSet;

use gimbal_octavia_rows::{Id, List};
use gimbal_octavia_rows::{LoadBalancer, Project};
use gimbal_openstack_client::{
    Cloud, Credentials, CredentialsError, Dialect, Error, LoadBalancing, Options, Place, Scope, Session,
};
use gimbal_openstack_source::Mode;

use crate::access::Access;
use crate::args::ModeWanted;

/// How lists are asked for. Everything here stays as it was decided: what says otherwise later is trouble.
#[derive(Debug, Clone)]
pub(crate) struct AccessMode {
    pub(crate) mode: Mode,
    /// Of the token for everyone's objects, and for the projects.
    pub(crate) scope: Scope,
    pub(crate) projects: ProjectsFrom,
    /// Who serves load balancing, and where.
    pub(crate) place: Place,
    /// The roles that the token had: with fewer it shows less, without an error.
    pub(crate) roles: BTreeSet<String>,
    /// The project of that token, if it has one.
    pub(crate) own: Option<Id>,
}

impl AccessMode {
    /// What credentials of another kind can keep of them: an application credential's token has no scope but its own, and no
    /// other credentials have that one.
    async fn fit(mut self, cloud: &Cloud) -> Result<Self, Error> {
        let bound = cloud.scope() == Some(&Scope::Bound);
        if bound == (self.scope == Scope::Bound) {
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
pub(crate) struct Connection {
    pub(crate) cloud: Cloud,
    pub(crate) credentials: Credentials,
    pub(crate) terms: AccessMode,
    /// With a token of the terms' scope.
    pub(crate) session: Session,
    /// With the token for the list of projects, where that is one of all.
    pub(crate) projects: Session,
}

/// What is known of the terms before a cloud is entered.
#[derive(Debug, Clone)]
pub(crate) enum EntryMode {
    /// Nothing, but that a token of this scope should be looked at first.
    Decide(Option<Scope>),
    /// They were decided before.
    As(AccessMode),
    /// They were decided before, and the roles of now are to be compared with from now on, if they show as much.
    Renew(AccessMode),
}

/// What every entry needs.
#[derive(Debug, Clone)]
pub(crate) struct EntryContext {
    pub(crate) access: Access,
    pub(crate) options: Options,
    pub(crate) mode: ModeWanted,
    /// Which cloud it has to be.
    pub(crate) incarnation: String,
}

/// Why a cloud was not entered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("{0}")]
    Credentials(#[from] CredentialsError),
    #[error("{0}")]
    Cloud(#[from] Error),
    #[error("{error}")]
    Refused { error: Error, credentials: Box<Credentials> },
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
    /// Whether it is wrong from the start, so that trying again is of no use.
    pub(crate) fn is_wrong_input(&self) -> bool {
        match self {
            Self::Credentials(_) | Self::Refused { .. } | Self::SystemOfNeutron => true,
            Self::Cloud(error) => matches!(error, Error::Region { .. } | Error::Tls { unknown_authority: true, .. }),
            Self::StillRefused | Self::Moved { .. } | Self::Elsewhere | Self::NotBulk => false,
        }
    }
}

/// Which cloud this is: Keystone's URL and the region.
pub(crate) fn incarnation(cloud: &Cloud) -> String {
    match cloud.region() {
        Some(region) => format!("{} {region}", cloud.keystone_url()),
        None => cloud.keystone_url(),
    }
}

/// Reads the credentials, and shows them to Keystone unless the terms are known already. Those that it has `refused` lately
/// are not shown again: that would lock the account, also for the person who repairs it.
pub(crate) async fn enter(
    context: EntryContext,
    wish: EntryMode,
    refused: Option<Credentials>,
) -> Result<Connection, EntryError> {
    let credentials = context.access.read()?;
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
        Ok(Decided { terms, session, projects }) => Ok(Connection { cloud, credentials, terms, session, projects }),
        Err(EntryError::Cloud(error @ Error::InvalidCredentials { .. })) => {
            Err(EntryError::Refused { error, credentials: Box::new(credentials) })
        }
        Err(error) => Err(error),
    }
}

/// Terms, and the sessions of their scopes: with them the tokens that were made already are kept.
struct Decided {
    terms: AccessMode,
    session: Session,
    projects: Session,
}

/// Asks nothing, where the credentials are of the same kind.
async fn as_before(cloud: &Cloud, terms: AccessMode) -> Result<Decided, EntryError> {
    let terms = terms.fit(cloud).await?;
    let session = cloud.session(&terms.scope);
    let projects = match &terms.projects {
        ProjectsFrom::All(scope) => cloud.session(scope),
        ProjectsFrom::Roles | ProjectsFrom::Token => session.clone(),
    };
    Ok(Decided { terms, session, projects })
}

/// The same terms with the roles of now, where the token is shown to see all with these. Everything else stays as it was
/// decided.
async fn renew(cloud: &Cloud, terms: AccessMode) -> Result<Decided, EntryError> {
    let before = as_before(cloud, terms).await?;
    let now = decide(cloud, ModeWanted::Bulk, Some(before.terms.scope.clone())).await?.terms;
    if now.place != before.terms.place {
        return Err(EntryError::Elsewhere);
    }
    Ok(Decided { terms: AccessMode { roles: now.roles, own: now.own, ..before.terms }, ..before })
}

/// A list with a foreign project in it proves that the token sees all. Nothing proves that it does not, so lists of single
/// projects are looked at as well, later (see [`crate::fetch`]).
async fn decide(cloud: &Cloud, wanted: ModeWanted, scope: Option<Scope>) -> Result<Decided, EntryError> {
    let bound = cloud.scope() == Some(&Scope::Bound);
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
    // Before the lists: a token goes with each question.
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
    // Only now, so that a cloud that cannot be entered is not said to serve it with every attempt.
    let version = load_balancing.version().await;
    let version = version.ok().flatten().map(|(major, minor)| format!("v{major}.{minor}"));
    tracing::info!(api = ?place.dialect(), version, %place, "this cloud serves load balancing");
    let mode = if sees_all { Mode::Bulk } else { Mode::PerProject };
    let terms = AccessMode { mode, scope, projects: from, place, roles, own: own.map(|own| own.id) };
    Ok(Decided { terms, session, projects })
}

/// The scope that was configured, else the user's first project.
async fn first_scope(cloud: &Cloud) -> Result<Scope, Error> {
    if let Some(scope) = cloud.scope() {
        return Ok(scope.clone());
    }
    let projects = cloud.projects().await?;
    let first = projects.rows.iter().map(|project| &project.id).min();
    let none = || Error::Forbidden { message: "the user has a role on no project".to_owned() };
    first.map(|id| Scope::Project(id.to_string())).ok_or_else(none)
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
    // A token that is scoped to the system has no project of its own: what it may list is everything, also where that is
    // nothing yet.
    let foreign = |row: &&LoadBalancer| own.is_none_or(|own| row.project != own.id) && !row.project.is_no_owner();
    let foreign: Vec<&LoadBalancer> = list.rows.iter().filter(foreign).collect();
    if foreign.is_empty() {
        return Ok(own.is_none());
    }
    shows_what_belongs_to(load_balancing, &foreign).await?;
    Ok(true)
}

/// Policies are made for each kind of object. Whoever sees everyone's load balancers and nobody's pools would see them all
/// without endpoints.
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
    let (listeners, pools): (List<_>, List<_>) = (listeners?, pools?);
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

/// A role that sees all load balancers need not see all projects. A reader of the system does.
async fn from_all(cloud: &Cloud, session: &Session, bound: bool) -> Result<(ProjectsFrom, Session), Error> {
    let system = (!bound && *session.scope() != Scope::System).then(|| cloud.session(&Scope::System));
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
