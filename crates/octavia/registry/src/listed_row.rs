//! Rows of long lists, in few bytes until they are looked at: a large cloud has tens of thousands, and most show what is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kuryr_packed::PackedValue;
use serde_json::Value;

use crate::owner_look::{OwnerRows, ids};

/// A row of a list, packed.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedRow {
    /// Its ID, and of a pool the number of its members: for these nothing is unpacked.
    id: Option<Box<str>>,
    members: u32,
    row: PackedValue<Value>,
}

impl ListedRow {
    /// Returns the row.
    #[must_use]
    pub fn get(&self) -> Arc<Value> {
        self.row.get()
    }

    /// Returns how many members a pool has.
    pub(crate) fn members(&self) -> u32 {
        self.members
    }

    /// Returns the row, and gives up the packed one.
    #[must_use]
    pub fn into_row(self) -> Value {
        let row = self.row.get();
        drop(self);
        Arc::unwrap_or_clone(row)
    }
}

impl From<Value> for ListedRow {
    fn from(row: Value) -> Self {
        let members = row["members"].as_array().map_or(0, Vec::len).try_into().unwrap_or(u32::MAX);
        Self { id: row["id"].as_str().map(Box::from), members, row: PackedValue::new(Arc::new(row)) }
    }
}

/// Rows by their ID.
pub(crate) type RowsById = BTreeMap<String, ListedRow>;

/// Returns rows by their ID. What has none is nothing that can be asked for.
pub(crate) fn by_id(rows: Vec<ListedRow>) -> impl Iterator<Item = (String, ListedRow)> {
    rows.into_iter().filter_map(|row| Some((row.id.as_deref()?.to_owned(), row)))
}

/// What [`OwnerRows`] are of Octavia, packed.
#[derive(Debug, Default)]
pub(crate) struct PackedOwnerRows {
    balancers: Vec<ListedRow>,
    listeners: Vec<(String, ListedRow)>,
    pools: Vec<(String, ListedRow)>,
    policies: Vec<(String, ListedRow)>,
}

impl PackedOwnerRows {
    /// Adds a load balancer with what it names of these rows. Returns the rows of its listeners and pools.
    pub(crate) fn add_balancer(
        &mut self,
        packed: ListedRow,
        row: &Value,
        [listeners, pools, policies]: [&mut RowsById; 3],
    ) -> impl Iterator<Item = &ListedRow> {
        let take = |from: &mut RowsById, names: &Value| -> Vec<(String, ListedRow)> {
            ids(names).into_iter().filter_map(|id| from.remove_entry(&id)).collect()
        };
        let (first_listener, first_pool) = (self.listeners.len(), self.pools.len());
        self.listeners.extend(take(listeners, &row["listeners"]));
        self.pools.extend(take(pools, &row["pools"]));
        if !policies.is_empty() {
            for (_, listener) in &self.listeners[first_listener..] {
                self.policies.extend(take(policies, &listener.get()["l7policies"]));
            }
        }
        self.balancers.push(packed);
        self.listeners[first_listener..].iter().chain(&self.pools[first_pool..]).map(|(_, row)| row)
    }

    /// Packs rows of Octavia, and leaves none of them.
    pub(crate) fn pack(rows: &mut OwnerRows) -> Self {
        let by_id = |rows: &mut BTreeMap<String, Value>| {
            std::mem::take(rows).into_iter().map(|(id, row)| (id, row.into())).collect()
        };
        Self {
            balancers: std::mem::take(&mut rows.balancers).into_iter().map(ListedRow::from).collect(),
            listeners: by_id(&mut rows.listeners),
            pools: by_id(&mut rows.pools),
            policies: by_id(&mut rows.policies),
        }
    }

    /// Adds what was packed to other rows.
    pub(crate) fn unpack(self, rows: &mut OwnerRows) {
        let by_id = |all: Vec<(String, ListedRow)>| all.into_iter().map(|(id, row)| (id, row.into_row()));
        rows.balancers.extend(self.balancers.into_iter().map(ListedRow::into_row));
        rows.listeners.extend(by_id(self.listeners));
        rows.pools.extend(by_id(self.pools));
        rows.policies.extend(by_id(self.policies));
    }
}
