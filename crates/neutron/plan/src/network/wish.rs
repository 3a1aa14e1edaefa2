//! Which network is wanted.

use gimbal_kuryr_model::Text;

/// A network, its subnet and the interface of a router, as a KuryrNetwork says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkWish {
    /// UID of the namespace, or of the node, that everything is made for.
    pub owner: Text,
    /// The name of all parts, for people.
    pub name: Text,
    /// The project that they are made in.
    pub project: Text,
    /// The subnet pool that the addresses are from.
    pub subnet_pool: Text,
    /// The router that leads to other networks; unset: none does.
    pub router: Option<Text>,
    /// The network that the status names.
    pub network: Option<Text>,
    /// The subnet that the status names.
    pub subnet: Option<Text>,
}

/// What is wanted of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkEntry {
    /// Its network.
    Wanted(NetworkWish),
    /// Nothing any more: the owner is going.
    Leaving {
        /// UID of the owner.
        owner: Text,
        /// The project that its network is in.
        project: Text,
        /// The router that has an interface there. Those of other routers are somebody else's.
        router: Option<Text>,
    },
}

impl NetworkEntry {
    /// Returns the UID of the owner.
    #[must_use]
    pub fn owner(&self) -> &Text {
        match self {
            Self::Wanted(wish) => &wish.owner,
            Self::Leaving { owner, .. } => owner,
        }
    }

    /// Returns the router whose interfaces are this cluster's.
    pub(crate) fn router(&self) -> Option<&Text> {
        match self {
            Self::Wanted(wish) => wish.router.as_ref(),
            Self::Leaving { router, .. } => router.as_ref(),
        }
    }

    /// Returns the project that everything is in.
    #[must_use]
    pub fn project(&self) -> &Text {
        match self {
            Self::Wanted(wish) => &wish.project,
            Self::Leaving { project, .. } => project,
        }
    }
}
