//! Rows by ID, merged from list to list so that an unreadable row never looks like a deleted object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::{CompleteList, Id, L7Policy, Listener, LoadBalancer, Member, ObjectKind, Pool, UnreadableRow};

/// A row that can be kept in a [`Table`].
pub trait Row: PartialEq {
    /// The kind of object that the row describes.
    const KIND: ObjectKind;

    /// Returns the ID of the object.
    fn id(&self) -> &Id;
}

macro_rules! row {
    ($($row:ident),*) => {$(
        impl Row for $row {
            const KIND: ObjectKind = ObjectKind::$row;
            fn id(&self) -> &Id {
                &self.id
            }
        }
    )*};
}
row!(LoadBalancer, Listener, Pool, Member, L7Policy);

/// One complete list, by ID. An unreadable row is replaced by the row of the previous list; if there is none, the table
/// remembers that the object exists and that nothing is known about it.
#[derive(Debug)]
pub struct Table<T> {
    rows: HashMap<Id, Arc<T>>,
    /// IDs of objects that exist, and of which no list had a readable row yet.
    unread: HashSet<Id>,
    /// The owners of the unreadable rows that have no stand-in; `None` if one of them does not say its owner.
    owners: Option<HashSet<Id>>,
    /// Whether an unreadable row has no readable ID either, so that it may stand for any missing object.
    nameless: bool,
    /// Rows of earlier lists that stand in. They do not prove that the server still lists the object.
    carried: HashSet<Id>,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            unread: self.unread.clone(),
            owners: self.owners.clone(),
            nameless: self.nameless,
            carried: self.carried.clone(),
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            unread: HashSet::new(),
            owners: Some(HashSet::new()),
            nameless: false,
            carried: HashSet::new(),
        }
    }
}

impl<T: Row> Table<T> {
    /// Builds the table of `list`, with rows of `before` standing in for unreadable ones. Equal rows share their memory with
    /// `before`. Also returns the unreadable rows, for the caller to report.
    #[must_use]
    pub fn merge(list: CompleteList<T>, before: Option<&Self>) -> (Self, Vec<UnreadableRow>) {
        let mut table = Self { rows: HashMap::with_capacity(list.rows.len()), ..Self::default() };
        let before = before.map(|before| &before.rows);
        for row in list.rows {
            let old = before.and_then(|before| before.get(row.id())).filter(|old| ***old == row);
            let row = old.cloned().unwrap_or_else(|| Arc::new(row));
            table.rows.insert(row.id().clone(), row);
        }
        for row in &list.unreadable {
            let id = row.id.as_deref().and_then(|id| Id::try_from(id).ok());
            match id.as_ref().and_then(|id| Some((id, before?.get(id)?))) {
                Some((id, old)) => drop(table.rows.insert(id.clone(), old.clone())),
                None => table.add_unread(id, row.project.as_deref()),
            }
        }
        if table.nameless {
            // Each object that the list lacks may be the one without an ID.
            for (id, row) in before.into_iter().flatten() {
                if !table.rows.contains_key(id) {
                    table.carried.insert(id.clone());
                    table.rows.insert(id.clone(), row.clone());
                }
            }
        }
        (table, list.unreadable)
    }

    /// Records an object that exists and of which nothing is known.
    fn add_unread(&mut self, id: Option<Id>, project: Option<&str>) {
        match (project.and_then(|project| Id::try_from(project).ok()), &mut self.owners) {
            (Some(owner), Some(owners)) => drop(owners.insert(owner)),
            (None, owners) => *owners = None,
            (Some(_), None) => {}
        }
        self.nameless |= id.is_none();
        self.unread.extend(id);
    }

    /// Returns the projects that own the unreadable rows without a stand-in, or `None` if one of those rows does not say its
    /// owner.
    pub fn unread_owners(&self) -> Option<impl Iterator<Item = &Id>> {
        self.owners.as_ref().map(|owners| owners.iter())
    }

    /// Returns whether the list had a row with this ID, and no list had a readable one.
    #[must_use]
    pub fn is_known_unread(&self, id: &Id) -> bool {
        self.unread.contains(id)
    }

    /// Returns whether an unreadable row may be this object, of which nothing is known.
    #[must_use]
    pub fn may_be_unread(&self, id: &Id) -> bool {
        !self.contains(id) && (self.nameless || self.unread.contains(id))
    }

    /// Returns whether there are objects of which nothing is known.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        self.nameless || !self.unread.is_empty()
    }

    /// Returns the row with this ID, which may be a stand-in.
    #[must_use]
    pub fn get(&self, id: &Id) -> Option<&Arc<T>> {
        self.rows.get(id)
    }

    /// Returns the number of rows, stand-ins included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether there is a row with this ID.
    #[must_use]
    pub fn contains(&self, id: &Id) -> bool {
        self.rows.contains_key(id)
    }

    /// Iterates over all rows, stand-ins included, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.rows.values()
    }

    /// Iterates over the rows whose objects the server listed.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<T>> {
        self.rows.values().filter(|row| !self.carried.contains(row.id()))
    }

    /// Takes over a row of `before` as a stand-in, unless this table has one.
    pub fn keep(&mut self, id: &Id, before: &Self) {
        if let Some(row) = before.get(id).filter(|_| !self.contains(id)) {
            self.carried.insert(id.clone());
            self.rows.insert(id.clone(), row.clone());
        }
    }

    /// Replaces this table's row by that of `before`, if it has one.
    pub fn put_back(&mut self, id: &Id, before: &Self) {
        if let Some(row) = before.get(id) {
            self.rows.insert(id.clone(), row.clone());
        }
    }

    /// Drops the rows for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.rows.retain(|_, row| keep(row));
    }
}
