//! The lists of one poll, each merged with the one before as far as rows cannot be read.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::cloud::Trouble;
use crate::rows::{L7Policy, Listener, LoadBalancer, Member, Pool};
use crate::{Id, Kind, List};

/// A row with an ID.
pub(crate) trait Row: PartialEq {
    const KIND: Kind;
    fn id(&self) -> &Id;
}

macro_rules! row {
    ($($row:ident),*) => {$(
        impl Row for $row {
            const KIND: Kind = Kind::$row;
            fn id(&self) -> &Id {
                &self.id
            }
        }
    )*};
}
row!(LoadBalancer, Listener, Pool, Member, L7Policy);

/// One complete list by ID.
#[derive(Debug)]
pub(crate) struct Table<T> {
    rows: HashMap<Id, Arc<T>>,
    /// Rows that are there, cannot be read, and never could.
    unread: HashSet<Id>,
    /// The projects that own those and the nameless ones, as far as they say so; `None` where one does not.
    owners: Option<HashSet<Id>>,
    /// Whether a row that cannot be read does not even say which it is: it may be any.
    nameless: bool,
    /// Rows of the list before that may be the nameless one, or are of what stands: no evidence that it is still seen.
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
    /// A row that cannot be read stays as it was last: it is there, so it is not gone, and nothing is known of a change. A
    /// row that did not change stays the same in memory.
    pub(crate) fn merge(list: List<T>, before: Option<&Self>, troubles: &mut Vec<Trouble>) -> Self {
        let mut table = Self { rows: HashMap::with_capacity(list.rows.len()), ..Self::default() };
        let before = before.map(|before| &before.rows);
        for row in list.rows {
            let old = before.and_then(|before| before.get(row.id())).filter(|old| ***old == row);
            let row = old.cloned().unwrap_or_else(|| Arc::new(row));
            table.rows.insert(row.id().clone(), row);
        }
        for row in list.unreadable {
            let id = row.id.as_deref().and_then(|id| Id::try_from(id).ok());
            match id.as_ref().and_then(|id| Some((id, before?.get(id)?))) {
                Some((id, old)) => drop(table.rows.insert(id.clone(), old.clone())),
                None => {
                    let owner = row.project.as_deref().and_then(|project| Id::try_from(project).ok());
                    match (owner, &mut table.owners) {
                        (Some(owner), Some(owners)) => drop(owners.insert(owner)),
                        (None, owners) => *owners = None,
                        (Some(_), None) => {}
                    }
                    table.nameless |= id.is_none();
                    table.unread.extend(id);
                }
            }
            troubles.push(Trouble::Unreadable { kind: T::KIND, id: row.id, problem: row.problem });
        }
        if table.nameless {
            for (id, row) in before.into_iter().flatten() {
                if !table.rows.contains_key(id) {
                    table.carried.insert(id.clone());
                    table.rows.insert(id.clone(), row.clone());
                }
            }
        }
        table
    }

    /// The projects of rows that cannot be read, if each of them says whose it is.
    pub(crate) fn unread_owners(&self) -> Option<impl Iterator<Item = &Id>> {
        self.owners.as_ref().map(|owners| owners.iter())
    }

    pub(crate) fn is_known_unread(&self, id: &Id) -> bool {
        self.unread.contains(id)
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Arc<T>> {
        self.rows.get(id)
    }

    /// Whether this one may be there, and could never be read.
    pub(crate) fn may_be_unread(&self, id: &Id) -> bool {
        !self.contains(id) && (self.nameless || self.unread.contains(id))
    }

    /// Whether the list had rows of which nothing is known.
    pub(crate) fn has_unread(&self) -> bool {
        self.nameless || !self.unread.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn contains(&self, id: &Id) -> bool {
        self.rows.contains_key(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.rows.values()
    }

    /// Those that the list itself has.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Arc<T>> {
        self.rows.values().filter(|row| !self.carried.contains(row.id()))
    }

    /// Takes a row of the list before, unless this one has it.
    fn keep(&mut self, id: &Id, before: &Self) {
        if let Some(row) = before.get(id).filter(|_| !self.contains(id)) {
            self.carried.insert(id.clone());
            self.rows.insert(id.clone(), row.clone());
        }
    }

    /// Takes a row of the list before in the place of this one's.
    pub(crate) fn put_back(&mut self, id: &Id, before: &Self) {
        if let Some(row) = before.get(id) {
            self.rows.insert(id.clone(), row.clone());
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.rows.retain(|_, row| keep(row));
    }
}

/// The lists of one poll.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) load_balancers: Table<LoadBalancer>,
    pub(crate) listeners: Table<Listener>,
    pub(crate) pools: Table<Pool>,
    pub(crate) policies: Table<L7Policy>,
}

/// Objects by the one that they belong to.
#[derive(Debug, Default)]
pub(crate) struct Belongings<'a> {
    pub(crate) listeners: HashMap<&'a Id, Vec<&'a Arc<Listener>>>,
    pub(crate) policies: HashMap<&'a Id, Vec<&'a Arc<L7Policy>>>,
}

impl Lists {
    /// Keeps what these load balancers were told with, as far as it is missing now. They stand, so a row of theirs that
    /// cannot be read in the next list is one that was told, and not a new one.
    pub(crate) fn keep(&mut self, standing: &[&Id], before: &Self) {
        if standing.is_empty() {
            return;
        }
        let belongings = before.belongings();
        for id in standing {
            self.load_balancers.keep(id, &before.load_balancers);
            for listener in belongings.listeners.get(id).into_iter().flatten() {
                self.listeners.keep(&listener.id, &before.listeners);
                let policies = belongings.policies.get(&listener.id).map(Vec::as_slice).unwrap_or_default();
                policies.iter().for_each(|policy| self.policies.keep(&policy.id, &before.policies));
                let redirects = policies.iter().filter_map(|policy| policy.redirect_pool.as_ref());
                for pool in listener.default_pool_id.iter().chain(redirects) {
                    self.pools.keep(pool, &before.pools);
                }
            }
        }
    }

    /// Sorts listeners by load balancer, whichever of the two names the other, and policies by listener; each by ID.
    pub(crate) fn belongings(&self) -> Belongings<'_> {
        let mut found = Belongings::default();
        for listener in self.listeners.iter() {
            for id in &listener.load_balancers {
                found.listeners.entry(id).or_default().push(listener);
            }
        }
        for balancer in self.load_balancers.iter() {
            for listener in balancer.listeners.iter().filter_map(|id| self.listeners.get(id)) {
                if !listener.load_balancers.contains(&balancer.id) {
                    found.listeners.entry(&balancer.id).or_default().push(listener);
                }
            }
        }
        for listener in self.listeners.iter() {
            // The listener's row decides which there are, as a pool's does of its members.
            for policy in listener.l7_policies.iter().flatten().filter_map(|id| self.policies.get(id)) {
                found.policies.entry(&listener.id).or_default().push(policy);
            }
        }
        for policy in self.policies.iter() {
            if let Some(listener) = policy.listener.as_ref().and_then(|id| self.listeners.get(id))
                && listener.l7_policies.is_none()
            {
                found.policies.entry(&listener.id).or_default().push(policy);
            }
        }
        found.listeners.values_mut().for_each(|listeners| listeners.sort_unstable_by(|a, b| a.id.cmp(&b.id)));
        found.policies.values_mut().for_each(|policies| policies.sort_unstable_by(|a, b| a.id.cmp(&b.id)));
        found
    }
}
