//! Projects that cannot be read: a role is missing, or a service does not answer.

use std::collections::BTreeMap;

use gimbal_kuryr_model::Text;

/// After this many runs of lists in a row that failed, what could be listed counts.
pub(crate) const RUNS: u32 = 3;

#[derive(Debug)]
struct Unreadable {
    runs: u32,
    words: Text,
}

/// Projects that the last run of lists could not read.
#[derive(Debug, Default)]
pub(crate) struct UnreadableProjects(BTreeMap<Text, Unreadable>);

impl UnreadableProjects {
    /// Takes note of the projects that a run could not read, and why. Returns those that are given up for now.
    pub(crate) fn listed(&mut self, failed: &BTreeMap<Text, Text>) -> Vec<(Text, Text)> {
        self.0.retain(|project, _| failed.contains_key(project));
        let mut given_up = Vec::new();
        for (project, words) in failed {
            let one = self.0.entry(project.clone()).or_insert_with(|| Unreadable { runs: 0, words: Text::default() });
            (one.runs, one.words) = (one.runs.saturating_add(1), words.clone());
            if one.runs == RUNS {
                given_up.push((project.clone(), words.clone()));
            }
        }
        given_up
    }

    /// Whether a project could not be read for several runs.
    pub(crate) fn lasts(&self, project: &Text) -> bool {
        self.0.get(project).is_some_and(|one| one.runs >= RUNS)
    }

    /// Returns why a project could not be read; `None` if it could.
    pub(crate) fn words(&self, project: &Text) -> Option<&Text> {
        self.0.get(project).map(|one| &one.words)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(project, one)| (project, &one.words))
    }
}
