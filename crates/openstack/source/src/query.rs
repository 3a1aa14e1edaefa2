//! What the machine asks the edge for, and what comes back.

use gimbal_octavia_rows::{Existence, Id, L7Policy, List, Listener, LoadBalancer, Member, Pool, Project};

/// Whose objects a list is to hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListScope {
    /// Those of all projects, with one token.
    AllProjects,
    /// Those of one project, with a token of its own.
    Project(Id),
}

/// One thing to fetch. All that are told at once may be fetched side by side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The projects.
    Projects,
    /// A list of load balancers.
    LoadBalancers(ListScope),
    /// A list of listeners.
    Listeners(ListScope),
    /// A list of pools.
    Pools(ListScope),
    /// A list of L7 policies.
    L7Policies(ListScope),
    /// The members of a pool.
    Members(ListScope, Id),
    /// Whether one load balancer exists: tells a deletion from a role that was lost.
    LoadBalancer(ListScope, Id),
    /// Whether one listener exists, which lists of two polls name and do not have.
    Listener(ListScope, Id),
    /// The same for a pool.
    Pool(ListScope, Id),
    /// Whether the token still has the roles that it had when the mode was decided.
    Roles(ListScope),
}

/// What an [`Query`] came to. A list is whole or an error; the error's text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Query::Projects`].
    Projects(Result<List<Project>, String>),
    /// To [`Query::LoadBalancers`].
    LoadBalancers(ListScope, Result<List<LoadBalancer>, String>),
    /// To [`Query::Listeners`].
    Listeners(ListScope, Result<List<Listener>, String>),
    /// To [`Query::Pools`].
    Pools(ListScope, Result<List<Pool>, String>),
    /// To [`Query::L7Policies`].
    L7Policies(ListScope, Result<List<L7Policy>, String>),
    /// To [`Query::Members`].
    Members(ListScope, Id, Result<List<Member>, MembersError>),
    /// To [`Query::LoadBalancer`].
    LoadBalancer(ListScope, Id, Result<Existence, String>),
    /// To [`Query::Listener`].
    Listener(ListScope, Id, Result<Existence, String>),
    /// To [`Query::Pool`].
    Pool(ListScope, Id, Result<Existence, String>),
    /// To [`Query::Roles`]: the names of those that are missing now.
    Roles(ListScope, Result<Vec<String>, String>),
}

impl Reply {
    /// What it answers.
    #[must_use]
    pub fn ask(&self) -> Query {
        match self {
            Self::Projects(_) => Query::Projects,
            Self::LoadBalancers(whose, _) => Query::LoadBalancers(whose.clone()),
            Self::Listeners(whose, _) => Query::Listeners(whose.clone()),
            Self::Pools(whose, _) => Query::Pools(whose.clone()),
            Self::L7Policies(whose, _) => Query::L7Policies(whose.clone()),
            Self::Members(whose, pool, _) => Query::Members(whose.clone(), pool.clone()),
            Self::LoadBalancer(whose, id, _) => Query::LoadBalancer(whose.clone(), id.clone()),
            Self::Listener(whose, id, _) => Query::Listener(whose.clone(), id.clone()),
            Self::Pool(whose, id, _) => Query::Pool(whose.clone(), id.clone()),
            Self::Roles(whose, _) => Query::Roles(whose.clone()),
        }
    }
}

/// Why a pool's members are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembersError {
    /// 404: the pool went between two calls, or came back from a copy of the database that lags.
    PoolGone,
    /// Anything else.
    Failed(String),
}
