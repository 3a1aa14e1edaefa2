//! What the writer says about the routes of a router.

use crate::{ReportedCondition, Text};

/// How the routes that Octavia has compare with those that are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportedRoutes {
    /// The generation that they were last compared with, at a time when no change of them was in progress. A report may be about a
    /// later one, of which nothing is done yet.
    pub generation: i64,
    /// What differs, by name. Whatever is not named is there, or gone.
    pub differences: Vec<RouteDifference>,
}

/// Routes of one name that are not as they are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteDifference {
    /// The name of the routes, see [`Route::name`](crate::Route); empty: that of any other.
    pub route: Text,
    /// What is not as it is wanted.
    pub state: RouteState,
    /// Why; unset: it is to come, or to go.
    pub why: Option<ReportedCondition>,
}

/// What of the routes of one name is not as it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteState {
    /// Some of them are there that are not wanted any more.
    Left,
    /// None of them is there.
    Missing,
    /// Some of them are not there.
    Partial,
}

impl ReportedRoutes {
    /// Whether no route of this name is there that was not wanted any more from that generation on.
    #[must_use]
    pub fn have_left(&self, name: &str, generation: i64) -> bool {
        self.generation >= generation && !self.have(name, RouteState::Left)
    }

    /// Whether some route of this name is there that is wanted in this generation.
    #[must_use]
    pub fn serve(&self, name: &str, generation: i64) -> bool {
        self.generation == generation && !self.have(name, RouteState::Missing)
    }

    fn have(&self, name: &str, state: RouteState) -> bool {
        let is_about = |one: &RouteDifference| *one.route == *name || one.route.is_empty();
        self.differences.iter().any(|one| one.state == state && is_about(one))
    }
}
