//! Projects, and the namespace of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::keys;
use gimbal_octavia_rows::{Id, List, Project};

use crate::options::{Mode, Options};
use crate::outcome::Trouble;
use crate::query::ListScope;
use crate::safe_name::namespace;
use crate::skip::Skip;

/// Where a project's Services are, and what each of them says of it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) namespace: Arc<str>,
    pub(crate) annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// Who has the namespace that the project's name yields.
    taken_by: Option<Id>,
}

impl Place {
    /// In the namespace that the project's name yields.
    fn by_name(id: &Id, namespace: Arc<str>) -> Self {
        // Where both are the same text, the writer takes the project for one whose name is taken. This one has
        // no other name, or no rival, and without the annotation a map finds it by its namespace, which is its ID.
        let annotations = if *namespace == *id.as_str() { BTreeMap::new() } else { annotations(id) };
        Self { namespace, annotations, taken_by: None }
    }

    /// In a namespace that only a map at the writer leads on from. It is the ID as it is, not made safe: the writer
    /// recognises it by the annotation's being the same text.
    fn by_id(id: &Id, taken_by: Id) -> Self {
        Self { namespace: id.as_str().into(), annotations: annotations(id), taken_by: Some(taken_by) }
    }

    fn is_by_name(&self, namespace: &str) -> bool {
        self.taken_by.is_none() && *self.namespace == *namespace
    }
}

fn annotations(id: &Id) -> BTreeMap<Arc<str>, Arc<str>> {
    [(keys::PROJECT.into(), id.as_str().into())].into()
}

/// What is kept although a list of projects lacks it.
#[derive(Debug)]
pub(crate) struct Keep {
    pub(crate) mode: Mode,
    pub(crate) now: Instant,
    /// The projects whose load balancers were in the last list of everyone's.
    pub(crate) seen: BTreeSet<Id>,
}

/// The projects of the last complete list. A namespace is held by a project's ID: a second project whose name yields it is
/// offered under its own ID until it is free, a renamed project leaves its namespace and moves. Of several that were never
/// seen one before the other, as after a restart, nobody holds it: whoever may make a project in some domain may give it
/// the name of another one, and must gain nothing by that.
#[derive(Debug, Default)]
pub(crate) struct Projects {
    known: BTreeMap<Id, Arc<str>>,
    /// Known ones that the list lacks, since when.
    left: BTreeMap<Id, Instant>,
    /// Namespaces that nobody holds because several could, since when. What stands there from before is not to go at once.
    contested: BTreeMap<Arc<str>, Instant>,
    /// One that is not selected has none.
    places: BTreeMap<Id, Option<Place>>,
    gone: BTreeSet<Id>,
    /// Those whose rows in the last list cannot be read, and never could.
    unread: BTreeSet<Id>,
    /// One such row does not even say which it is: it may be any that the list lacks.
    nameless: bool,
    listed: bool,
}

impl Projects {
    /// Whether a complete list was ever had.
    pub(crate) fn is_known(&self) -> bool {
        self.listed
    }

    /// Whether the last list says what is with this project: it has it, or was made when it was already missed.
    pub(crate) fn has_judged(&self, id: &Id) -> bool {
        self.known.contains_key(id) || self.gone.contains(id) || self.unread.contains(id)
    }

    /// These own load balancers and are not in the list that was just made: there is no need to ask again at once.
    pub(crate) fn judge_gone(&mut self, gone: BTreeSet<Id>) {
        self.gone.extend(gone);
    }

    /// Whether a project is in the last list, or may be, and nothing is known of it.
    pub(crate) fn is_unread(&self, id: &Id) -> bool {
        !id.is_no_owner() && !self.known.contains_key(id) && (self.nameless || self.unread.contains(id))
    }

    /// Why there may be more projects than those that are known, if so.
    pub(crate) fn unread(&self) -> Option<&'static str> {
        (self.nameless || !self.unread.is_empty()).then_some("the row of a project cannot be read, and never could")
    }

    /// Takes a list.
    ///
    /// # Errors
    /// When it is empty. That says that the user lost every role, which is no proof that a project is gone.
    pub(crate) fn update(&mut self, list: List<Project>, options: &Options, keep: Keep) -> Result<(), String> {
        if list.rows.is_empty() && list.unreadable.is_empty() {
            return Err("it is empty: the user has a role on no project".into());
        }
        let mut known: BTreeMap<Id, Arc<str>> = list.rows.into_iter().map(|row| (row.id, row.name)).collect();
        let named = |row: &gimbal_octavia_rows::Unreadable| row.id.as_deref().and_then(|id| Id::try_from(id).ok());
        let unreadable: Option<BTreeSet<Id>> = list.unreadable.iter().map(named).collect();
        self.nameless = unreadable.is_none();
        self.unread = unreadable.iter().flatten().filter(|id| !self.known.contains_key(id)).cloned().collect();
        let mut left = BTreeMap::new();
        for (id, name) in &self.known {
            if known.contains_key(id) {
                continue;
            }
            // Without its ID, an unreadable row may be any of those that are missing.
            let mut kept = unreadable.as_ref().is_none_or(|unreadable| unreadable.contains(id));
            if !kept && keep.mode == Mode::PerProject {
                let since = self.left.get(id).copied().unwrap_or(keep.now);
                kept = keep.now.saturating_duration_since(since) < options.project_hold;
                if kept {
                    left.insert(id.clone(), since);
                }
            }
            if kept || (options.by_role && keep.seen.contains(id)) {
                known.insert(id.clone(), name.clone());
            }
        }
        (self.known, self.left) = (known, left);
        self.gone.clear();
        self.listed = true;
        self.assign(options, keep.now);
        Ok(())
    }

    /// The trouble with a scope's project that has left the list and stands.
    pub(crate) fn left(&self, whose: &ListScope) -> Option<Trouble> {
        let ListScope::Project(id) = whose else { return None };
        let name = self.known.get(id).filter(|_| self.left.contains_key(id))?;
        Some(Trouble::ProjectLeft { project: id.clone(), name: name.clone() })
    }

    /// Namespaces that several could hold, and nobody does, for less than `hold`.
    pub(crate) fn contested(&self, now: Instant, hold: Duration) -> impl Iterator<Item = &Arc<str>> {
        let lately = move |since: &Instant| now.saturating_duration_since(*since) < hold;
        self.contested.iter().filter(move |(_, since)| lately(since)).map(|(namespace, _)| namespace)
    }

    /// Those who hold the namespace that they want keep it; of others a single one gets it. A project's ID is held by itself:
    /// a map that names it must lead no other project, named like it, to the same place.
    fn assign(&mut self, options: &Options, now: Instant) {
        let wanted: Vec<(Id, Option<Arc<str>>)> = self
            .known
            .iter()
            .map(|(id, name)| Project { id: id.clone(), name: name.clone() })
            .map(|project| (project.id.clone(), options.selects(&project).then(|| namespace(&project))))
            .collect();
        let old = std::mem::take(&mut self.places);
        let selected = || wanted.iter().filter_map(|(id, namespace)| Some((id, namespace.as_ref()?)));
        let mut holders: BTreeMap<Arc<str>, Id> = selected().map(|(id, _)| (id.as_str().into(), id.clone())).collect();
        for (id, namespace) in selected() {
            if old.get(id).and_then(Option::as_ref).is_some_and(|held| held.is_by_name(namespace)) {
                holders.entry(namespace.clone()).or_insert_with(|| id.clone());
            }
        }
        let mut claims: BTreeMap<Arc<str>, Vec<Id>> = BTreeMap::new();
        for (id, namespace) in selected().filter(|(_, namespace)| !holders.contains_key(*namespace)) {
            claims.entry(namespace.clone()).or_default().push(id.clone());
        }
        claims.retain(|namespace, claimants| match &claimants[..] {
            [only] => {
                holders.insert(namespace.clone(), only.clone());
                false
            }
            _ => true,
        });
        let before = std::mem::take(&mut self.contested);
        let since = |namespace: &Arc<str>| before.get(namespace).copied().unwrap_or(now);
        self.contested = claims.keys().map(|namespace| (namespace.clone(), since(namespace))).collect();
        for (id, namespace) in wanted {
            let place = namespace.map(|namespace| {
                let rival = claims.get(&namespace).and_then(|claimants| claimants.iter().find(|other| **other != id));
                match rival.or_else(|| holders.get(&namespace).filter(|holder| **holder != id)) {
                    Some(rival) => Place::by_id(&id, rival.clone()),
                    None => Place::by_name(&id, namespace),
                }
            });
            self.places.insert(id, place);
        }
    }

    /// Where a project's Services are, or why nowhere.
    pub(crate) fn place(&self, id: &Id) -> Result<&Place, Skip> {
        self.places.get(id).ok_or(Skip::ProjectGone)?.as_ref().ok_or(Skip::ProjectNotSelected)
    }

    /// The namespace of a scope that is one project's.
    pub(crate) fn namespace_of(&self, whose: &ListScope) -> Option<&Arc<str>> {
        match whose {
            ListScope::AllProjects => None,
            ListScope::Project(id) => self.place(id).ok().map(|place| &place.namespace),
        }
    }

    /// Every project that is selected and its namespace, in order.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = (&Id, &Arc<str>)> {
        self.places.iter().filter_map(|(id, place)| Some((id, &place.as_ref()?.namespace)))
    }

    /// The projects whose names another one has.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = Trouble> {
        self.places.keys().filter_map(|id| self.conflict(id))
    }

    /// Who has this project's name, if that is another one.
    pub(crate) fn conflict(&self, id: &Id) -> Option<Trouble> {
        let holder = self.place(id).ok()?.taken_by.clone()?;
        let project = Project { id: id.clone(), name: self.known.get(id)?.clone() };
        let namespace = namespace(&project);
        let held = !self.contested.contains_key(&namespace);
        Some(Trouble::NameConflict { project: project.id, name: project.name, namespace, holder, held })
    }
}
