//! Projects and their namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::keys;
use gimbal_octavia_rows::{CompleteList, Id, Project};

use crate::options::{ListMode, PollOptions};
use crate::outcome::PollTrouble;
use crate::query::ListScope;
use crate::safe_name::namespace;
use crate::skip::SkipReason;

/// The namespace of a project's Services, and the annotations that name the project.
#[derive(Debug)]
pub(crate) struct ProjectNamespace {
    pub(crate) namespace: Arc<str>,
    pub(crate) annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// The other project that has, or could have, the namespace that this project's name yields.
    taken_by: Option<Id>,
}

impl ProjectNamespace {
    /// Returns the place in the namespace that the project's name yields.
    fn by_name(id: &Id, namespace: Arc<str>) -> Self {
        // If the annotation equals the namespace, the writer assumes that another project has the name. Here the name
        // itself yields the ID and there is no conflict, so the annotation is omitted; a map finds the project by its
        // namespace, which is its ID.
        let annotations = if *namespace == *id.as_str() { BTreeMap::new() } else { annotations(id) };
        Self { namespace, annotations, taken_by: None }
    }

    /// Returns the place in a namespace that the writer publishes only if its policy maps it. The namespace is the
    /// unchanged ID, not a safe name: the writer recognises it because the annotation has the same text.
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

/// What decides which projects are kept although a list of projects lacks them.
#[derive(Debug)]
pub(crate) struct KeepCriteria {
    pub(crate) mode: ListMode,
    pub(crate) now: Instant,
    /// The projects whose load balancers were in the last list of all projects' load balancers.
    pub(crate) seen: BTreeSet<Id>,
}

/// The projects of the last complete list. A namespace is held by a project's ID: a second project whose name yields it
/// is offered under its own ID until the namespace is free, and a renamed project leaves its namespace and moves. If
/// several appear at once, as after a restart, no project holds it: a user who may create projects in some domain can
/// reuse another project's name, and must gain nothing by that.
#[derive(Debug, Default)]
pub(crate) struct Projects {
    known: BTreeMap<Id, Arc<str>>,
    /// Known projects that the list lacks, and since when.
    left: BTreeMap<Id, Instant>,
    /// Namespaces that no project holds because several could, and since when. Services published there before are not
    /// removed at once.
    contested: BTreeMap<Arc<str>, Instant>,
    /// By project; `None` for projects that are not selected.
    places: BTreeMap<Id, Option<ProjectNamespace>>,
    gone: BTreeSet<Id>,
    /// Projects whose rows in the last list cannot be read and were never read before.
    unread: BTreeSet<Id>,
    /// Whether an unreadable row has no ID either: it may be any project that the list lacks.
    nameless: bool,
    listed: bool,
}

impl Projects {
    /// Returns whether a complete list was ever received.
    pub(crate) fn is_known(&self) -> bool {
        self.listed
    }

    /// Returns whether the last list decides about this project: it lists the project, or it was read to find this
    /// project and lacks it.
    pub(crate) fn has_judged(&self, id: &Id) -> bool {
        self.known.contains_key(id) || self.gone.contains(id) || self.unread.contains(id)
    }

    /// Records projects that own load balancers and that a list just read lacks, so that the list is not read again at
    /// once.
    pub(crate) fn confirm_gone(&mut self, gone: BTreeSet<Id>) {
        self.gone.extend(gone);
    }

    /// Returns whether a project of which nothing is known is, or may be, an unreadable row of the last list.
    pub(crate) fn is_unread(&self, id: &Id) -> bool {
        !id.is_no_owner() && !self.known.contains_key(id) && (self.nameless || self.unread.contains(id))
    }

    /// Returns why there may be more projects than are known, if so.
    pub(crate) fn unread(&self) -> Option<&'static str> {
        (self.nameless || !self.unread.is_empty()).then_some("the row of a project cannot be read, and never could")
    }

    /// Applies a list of projects.
    ///
    /// # Errors
    /// Fails when the list is empty. The user has then lost every role, which does not prove that a project is gone.
    pub(crate) fn update(
        &mut self,
        list: CompleteList<Project>,
        options: &PollOptions,
        keep: KeepCriteria,
    ) -> Result<(), String> {
        if list.rows.is_empty() && list.unreadable.is_empty() {
            return Err("it is empty: the user has a role on no project".into());
        }
        let mut known: BTreeMap<Id, Arc<str>> = list.rows.into_iter().map(|row| (row.id, row.name)).collect();
        let named = |row: &gimbal_octavia_rows::UnreadableRow| row.id.as_deref().and_then(|id| Id::try_from(id).ok());
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
            if !kept && keep.mode == ListMode::PerProject {
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

    /// Returns the trouble to report for a scope whose project left the list and is held.
    pub(crate) fn left_trouble(&self, list_scope: &ListScope) -> Option<PollTrouble> {
        let ListScope::Project(id) = list_scope else { return None };
        let name = self.known.get(id).filter(|_| self.left.contains_key(id))?;
        Some(PollTrouble::ProjectLeft { project: id.clone(), name: name.clone() })
    }

    /// Returns the namespaces that several projects could hold, for less than `hold` so far.
    pub(crate) fn contested(&self, now: Instant, hold: Duration) -> impl Iterator<Item = &Arc<str>> {
        let lately = move |since: &Instant| now.saturating_duration_since(*since) < hold;
        self.contested.iter().filter(move |(_, since)| lately(since)).map(|(namespace, _)| namespace)
    }

    /// Assigns a place to each selected project. A project that holds the namespace of its name keeps it; a free
    /// namespace goes to a project only if no other wants it. The namespace of a project's ID is reserved for that
    /// project: a map that names the ID must not apply to another project with that name.
    fn assign(&mut self, options: &PollOptions, now: Instant) {
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
                    Some(rival) => ProjectNamespace::by_id(&id, rival.clone()),
                    None => ProjectNamespace::by_name(&id, namespace),
                }
            });
            self.places.insert(id, place);
        }
    }

    /// Returns the place of a project's Services, or why it is not published.
    pub(crate) fn place(&self, id: &Id) -> Result<&ProjectNamespace, SkipReason> {
        self.places.get(id).ok_or(SkipReason::ProjectGone)?.as_ref().ok_or(SkipReason::ProjectNotSelected)
    }

    /// Returns the namespace of a scope of one project.
    pub(crate) fn namespace_of(&self, list_scope: &ListScope) -> Option<&Arc<str>> {
        match list_scope {
            ListScope::AllProjects => None,
            ListScope::Project(id) => self.place(id).ok().map(|place| &place.namespace),
        }
    }

    /// Returns every selected project with its namespace, by ID.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = (&Id, &Arc<str>)> {
        self.places.iter().filter_map(|(id, place)| Some((id, &place.as_ref()?.namespace)))
    }

    /// Returns the trouble of each project that is offered under its ID due to a name conflict.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = PollTrouble> {
        self.places.keys().filter_map(|id| self.conflict(id))
    }

    /// Returns the name conflict of a project, if it has one.
    pub(crate) fn conflict(&self, id: &Id) -> Option<PollTrouble> {
        let holder = self.place(id).ok()?.taken_by.clone()?;
        let project = Project { id: id.clone(), name: self.known.get(id)?.clone() };
        let namespace = namespace(&project);
        let held = !self.contested.contains_key(&namespace);
        Some(PollTrouble::NameConflict { project: project.id, name: project.name, namespace, holder, held })
    }
}
