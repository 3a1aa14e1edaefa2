//! Projects, and the namespace of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cloud::{Trouble, Whose};
use crate::rows::Project;
use crate::safe_name::namespace;
use crate::{Id, List, Options, Skip};

/// The projects of the last complete list. A namespace is held by a project's ID: a second project whose name yields it
/// waits until it is free, a renamed project leaves its namespace and moves (DESIGN 3.3).
#[derive(Debug, Default)]
pub(crate) struct Projects {
    known: BTreeMap<Id, Arc<str>>,
    /// Of those selected; a conflict has none.
    namespaces: BTreeMap<Id, Result<Arc<str>, Skip>>,
    gone: BTreeSet<Id>,
    listed: bool,
}

impl Projects {
    /// Whether a complete list was ever had.
    pub(crate) fn is_known(&self) -> bool {
        self.listed
    }

    /// Whether the last list says what is with this project: it has it, or was made when it was already missed.
    pub(crate) fn has_judged(&self, id: &Id) -> bool {
        self.known.contains_key(id) || self.gone.contains(id)
    }

    /// These own load balancers and are not in the list that was just made: there is no need to ask again at once.
    pub(crate) fn judge_gone(&mut self, gone: BTreeSet<Id>) {
        self.gone.extend(gone);
    }

    /// Takes a list.
    ///
    /// # Errors
    /// When it is empty. That says that the user lost every role, which is no proof that a project is gone.
    pub(crate) fn update(&mut self, list: List<Project>, options: &Options) -> Result<(), String> {
        if list.rows.is_empty() && list.unreadable.is_empty() {
            return Err("it is empty: the user has a role on no project".into());
        }
        let mut known: BTreeMap<Id, Arc<str>> = list.rows.into_iter().map(|row| (row.id, row.name)).collect();
        let named = |row: &crate::Unreadable| row.id.as_deref().and_then(|id| Id::try_from(id).ok());
        let unreadable: Option<Vec<Id>> = list.unreadable.iter().map(named).collect();
        for (id, name) in &self.known {
            // Without its ID, an unreadable row may be any of those that are missing.
            if unreadable.as_ref().is_none_or(|unreadable| unreadable.contains(id)) && !known.contains_key(id) {
                known.insert(id.clone(), name.clone());
            }
        }
        self.known = known;
        self.gone.clear();
        self.listed = true;
        self.assign(options);
        Ok(())
    }

    /// Those who hold the namespace that they want keep it; of others the smallest ID comes first.
    fn assign(&mut self, options: &Options) {
        let wanted: Vec<(Id, Option<Arc<str>>)> = self
            .known
            .iter()
            .map(|(id, name)| Project { id: id.clone(), name: name.clone() })
            .map(|project| (project.id.clone(), options.selects(&project).then(|| namespace(&project))))
            .collect();
        let old = std::mem::take(&mut self.namespaces);
        let mut holders: BTreeMap<Arc<str>, Id> = BTreeMap::new();
        for (id, namespace) in &wanted {
            if let Some(namespace) = namespace
                && old.get(id).is_some_and(|held| held.as_ref() == Ok(namespace))
            {
                holders.insert(namespace.clone(), id.clone());
            }
        }
        for (id, namespace) in wanted {
            let assigned = match namespace {
                None => Err(Skip::ProjectNotSelected),
                Some(namespace) if holders.entry(namespace.clone()).or_insert_with(|| id.clone()) == &id => {
                    Ok(namespace)
                }
                Some(_) => Err(Skip::NameConflict),
            };
            self.namespaces.insert(id, assigned);
        }
    }

    /// The namespace of a project's Services, or why they have none.
    pub(crate) fn namespace(&self, id: &Id) -> Result<&Arc<str>, Skip> {
        self.namespaces.get(id).map_or(Err(Skip::ProjectGone), |assigned| assigned.as_ref().map_err(|skip| *skip))
    }

    /// The namespace of a scope that is one project's.
    pub(crate) fn namespace_of(&self, whose: &Whose) -> Option<&Arc<str>> {
        match whose {
            Whose::Everyones => None,
            Whose::Project(id) => self.namespace(id).ok(),
        }
    }

    /// Every project that has a namespace, in order.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = (&Id, &Arc<str>)> {
        self.namespaces.iter().filter_map(|(id, assigned)| Some((id, assigned.as_ref().ok()?)))
    }

    /// The projects that wait for a namespace that another one holds.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = Trouble> {
        let holders: BTreeMap<&Arc<str>, &Id> = self.assigned().map(|(id, namespace)| (namespace, id)).collect();
        let waiting = self.namespaces.iter().filter(|(_, assigned)| **assigned == Err(Skip::NameConflict));
        waiting.filter_map(move |(project, _)| {
            let name = self.known.get(project)?.clone();
            let namespace = namespace(&Project { id: project.clone(), name: name.clone() });
            let holder = (*holders.get(&namespace)?).clone();
            Some(Trouble::NameConflict { project: project.clone(), name, namespace, holder })
        })
    }
}
