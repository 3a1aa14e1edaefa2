//! What the machine asks the edge for, and what comes back.

use gimbal_octavia_rows::{Existence, Id, L7Policy, List, Listener, LoadBalancer, Member, Pool, Project};

/// Whose objects a list is to hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// Those of all projects, with one token.
    Everyones,
    /// Those of one project, with a token of its own.
    Project(Id),
}

/// One thing to fetch. All that are told at once may be fetched side by side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// The projects.
    Projects,
    /// A list of load balancers.
    LoadBalancers(Whose),
    /// A list of listeners.
    Listeners(Whose),
    /// A list of pools.
    Pools(Whose),
    /// A list of L7 policies.
    L7Policies(Whose),
    /// The members of a pool.
    Members(Whose, Id),
    /// Whether one load balancer exists: tells a deletion from a role that was lost.
    LoadBalancer(Whose, Id),
    /// Whether one listener exists, which lists of two polls name and do not have.
    Listener(Whose, Id),
    /// The same for a pool.
    Pool(Whose, Id),
    /// Whether the token still has the roles that it had when the mode was decided.
    Roles(Whose),
}

/// What an [`Ask`] came to. A list is whole or an error; the error's text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`Ask::Projects`].
    Projects(Result<List<Project>, String>),
    /// To [`Ask::LoadBalancers`].
    LoadBalancers(Whose, Result<List<LoadBalancer>, String>),
    /// To [`Ask::Listeners`].
    Listeners(Whose, Result<List<Listener>, String>),
    /// To [`Ask::Pools`].
    Pools(Whose, Result<List<Pool>, String>),
    /// To [`Ask::L7Policies`].
    L7Policies(Whose, Result<List<L7Policy>, String>),
    /// To [`Ask::Members`].
    Members(Whose, Id, Result<List<Member>, NoMembers>),
    /// To [`Ask::LoadBalancer`].
    LoadBalancer(Whose, Id, Result<Existence, String>),
    /// To [`Ask::Listener`].
    Listener(Whose, Id, Result<Existence, String>),
    /// To [`Ask::Pool`].
    Pool(Whose, Id, Result<Existence, String>),
    /// To [`Ask::Roles`]: the names of those that are missing now.
    Roles(Whose, Result<Vec<String>, String>),
}

impl Answer {
    /// What it answers.
    #[must_use]
    pub fn ask(&self) -> Ask {
        match self {
            Self::Projects(_) => Ask::Projects,
            Self::LoadBalancers(whose, _) => Ask::LoadBalancers(whose.clone()),
            Self::Listeners(whose, _) => Ask::Listeners(whose.clone()),
            Self::Pools(whose, _) => Ask::Pools(whose.clone()),
            Self::L7Policies(whose, _) => Ask::L7Policies(whose.clone()),
            Self::Members(whose, pool, _) => Ask::Members(whose.clone(), pool.clone()),
            Self::LoadBalancer(whose, id, _) => Ask::LoadBalancer(whose.clone(), id.clone()),
            Self::Listener(whose, id, _) => Ask::Listener(whose.clone(), id.clone()),
            Self::Pool(whose, id, _) => Ask::Pool(whose.clone(), id.clone()),
            Self::Roles(whose, _) => Ask::Roles(whose.clone()),
        }
    }
}

/// Why a pool's members are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMembers {
    /// 404: the pool went between two calls, or came back from a copy of the database that lags.
    PoolGone,
    /// Anything else.
    Failed(String),
}
