//! Options: what of a cloud is published, and how it is polled.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gimbal_model::wildcard_matches;
use gimbal_octavia_rows::Project;

/// How the lists are requested. Decided once, at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMode {
    /// One token sees the load balancers of every project, so three lists cover all of them.
    Bulk,
    /// Each project has its own token, and three lists are read with each.
    PerProject,
}

/// How a load balancer's Service is named (`--service-name`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceName {
    /// `<name>-<id>`, or the ID alone if there is no name.
    #[default]
    NameAndId,
    /// The ID, as the original Gimbal did from 0.3 on.
    Id,
}

/// Settings that are the same for every poll.
#[derive(Debug, Clone)]
pub struct PollOptions {
    /// The projects to publish, by name or ID. Empty: all.
    pub projects: Vec<ProjectPattern>,
    /// Projects not to publish although `projects` matches them.
    pub exclude: Vec<ProjectPattern>,
    /// How Services are named.
    pub service_name: ServiceName,
    /// Whether pools that L7 policies redirect to are published as Services of their own.
    pub l7_pools: bool,
    /// The period in which every pool's members are read once although nothing indicates that they changed, because no
    /// other list shows a member's health. `None`: never.
    pub sweep: Option<Duration>,
    /// The maximum age of the list of projects in bulk mode. In per-project mode every poll reads it.
    pub projects_for: Duration,
    /// How long the Services of a project that left the list are kept in per-project mode. Without further rights
    /// Keystone does not show whether the project was deleted, disabled, or a role on it was lost.
    pub project_hold: Duration,
    /// Whether the list of projects has only those on which the user has a role. If so, in bulk mode a known project
    /// that the list lacks is kept while load balancers of it are listed.
    pub by_role: bool,
    /// How long a project, or an object that the API reports as gone, must be missing from the lists of all projects'
    /// objects before it counts as deleted. `None` where the API distinguishes a deletion (404) from a lost role (403).
    /// OpenStack services cache for some minutes what a token may do, so lists can stay short after a role was removed
    /// and granted again.
    pub second_look: Option<Duration>,
    /// The project of the token that lists all projects' objects. If each list has objects of other projects, the token
    /// sees all, whatever roles it has.
    pub own: Option<gimbal_octavia_rows::Id>,
}

impl Default for PollOptions {
    fn default() -> Self {
        Self {
            projects: Vec::new(),
            service_name: ServiceName::default(),
            l7_pools: false,
            sweep: Some(Duration::from_secs(300)),
            projects_for: Duration::from_secs(300),
            exclude: Vec::new(),
            project_hold: Duration::from_secs(600),
            by_role: false,
            second_look: None,
            own: None,
        }
    }
}

impl PollOptions {
    pub(crate) fn selects(&self, project: &Project) -> bool {
        let matches = |patterns: &[ProjectPattern]| patterns.iter().any(|pattern| pattern.matches(project));
        (self.projects.is_empty() || matches(&self.projects)) && !matches(&self.exclude)
    }
}

/// A project's name or ID, in which `*` matches any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectPattern(String);

/// The error for a pattern that can match no project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("project pattern is empty: use a project's name or ID, in which '*' matches any characters")]
pub struct EmptyProjectPattern;

impl FromStr for ProjectPattern {
    type Err = EmptyProjectPattern;

    fn from_str(text: &str) -> Result<Self, EmptyProjectPattern> {
        if text.is_empty() { Err(EmptyProjectPattern) } else { Ok(Self(text.into())) }
    }
}

impl ProjectPattern {
    /// Returns whether the project's whole name or whole ID matches.
    #[must_use]
    pub fn matches(&self, project: &Project) -> bool {
        wildcard_matches(&self.0, &project.name) || wildcard_matches(&self.0, project.id.as_str())
    }
}

impl fmt::Display for ProjectPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
