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
    /// The name of the routes, see [`Route::name`](crate::Route); one that ends with `/`: those that begin with it, which are all of a
    /// namespace; empty: that of any other.
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
        let is_about = |RouteDifference { route, .. }: &RouteDifference| {
            **route == *name || route.is_empty() || (route.ends_with('/') && name.starts_with(&**route))
        };
        self.differences.iter().any(|one| one.state == state && is_about(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_ends_with_a_slash_is_about_a_namespace() {
        let left = |route: &str| {
            let differences = vec![RouteDifference { route: route.into(), state: RouteState::Left, why: None }];
            let routes = ReportedRoutes { generation: 2, differences };
            ["team/a", "team/b", "teams/a"].map(|name| routes.have_left(name, 2))
        };
        assert_eq!(left("team/a"), [false, true, true]);
        assert_eq!(left("team/"), [false, false, true]);
        assert_eq!(left(""), [false; 3]);
    }
}
