//! What of a cloud is offered, and how it is looked at.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gimbal_model::wildcard_matches;
use gimbal_octavia_rows::Project;

/// How the lists are asked for; decided once, at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One token sees the load balancers of every project: three lists for all of them.
    Bulk,
    /// A token for each project, and three lists with each.
    PerProject,
}

/// What a load balancer's Service is named by (`--service-name`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceName {
    /// `<name>-<id>`, or the ID alone if there is no name.
    #[default]
    NameAndId,
    /// The ID, as the original Gimbal did from 0.3 on.
    Id,
}

/// The same for every poll.
#[derive(Debug, Clone)]
pub struct Options {
    /// Projects offered, by name or ID; empty: all.
    pub projects: Vec<ProjectPattern>,
    /// Projects that are not, though `projects` matches them.
    pub exclude: Vec<ProjectPattern>,
    /// How Services are named.
    pub service_name: ServiceName,
    /// Whether pools that L7 policies redirect to are offered, as Services of their own.
    pub l7_pools: bool,
    /// The time in which every pool's members are read once although nothing says that they changed: health of a member
    /// does not show in any list. `None`: never.
    pub sweep: Option<Duration>,
    /// How old the list of projects may become in bulk mode. In the other mode every poll begins with it.
    pub projects_for: Duration,
    /// How long a project that has left the list stands, in the mode with a token for each: Keystone tells a deleted project
    /// from one on which a role was lost, or that was disabled, to nobody without rights.
    pub project_hold: Duration,
    /// Whether the list of projects has only those on which the user has a role. In bulk mode one that it lacks is then
    /// still a project while load balancers of it are listed.
    pub by_role: bool,
    /// How long after a project has vanished from everyone's lists another look must confirm it; `None` where the API tells
    /// a deletion (404) from a lost role (403). Services remember what a token may do for some minutes, so that a role that
    /// was taken and given back leaves short lists behind.
    pub second_look: Option<Duration>,
    /// The project of the token that lists everyone's objects. Those of others in each list show that it sees all, whatever
    /// roles it has.
    pub own: Option<gimbal_octavia_rows::Id>,
}

impl Default for Options {
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

impl Options {
    pub(crate) fn selects(&self, project: &Project) -> bool {
        let matches = |patterns: &[ProjectPattern]| patterns.iter().any(|pattern| pattern.matches(project));
        (self.projects.is_empty() || matches(&self.projects)) && !matches(&self.exclude)
    }
}

/// A project's name or ID, in which `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectPattern(String);

/// A text that can match no project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("project pattern is empty: use a project's name or ID, in which '*' stands for any characters")]
pub struct EmptyProjectPattern;

impl FromStr for ProjectPattern {
    type Err = EmptyProjectPattern;

    fn from_str(text: &str) -> Result<Self, EmptyProjectPattern> {
        if text.is_empty() { Err(EmptyProjectPattern) } else { Ok(Self(text.into())) }
    }
}

impl ProjectPattern {
    /// Whether the whole of the project's name, or of its ID, matches.
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
