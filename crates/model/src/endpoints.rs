//! Stores many endpoints compactly: a backend may have half a million of them, each held more than once.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::{Conditions, Detail, Endpoint};

/// Endpoints sorted by address (all `IPv4` before all `IPv6`), one per address. Stored in columns: an `IPv4` endpoint
/// without detail takes five bytes, an [`Endpoint`] 32. Clones share the columns until one of them changes.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Endpoints(Arc<Columns>);

#[derive(Clone, PartialEq, Eq, Default)]
struct Columns {
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
    /// For each address in order, a bit for each condition.
    conditions: Vec<u8>,
    /// For each address in order; empty if no endpoint has details.
    details: Vec<Option<Arc<Detail>>>,
}

impl Endpoints {
    /// Returns the number of endpoints in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.conditions.len()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.conditions.is_empty()
    }

    /// Returns the endpoints in order.
    pub fn iter(&self) -> impl Iterator<Item = Endpoint> {
        (0..self.len()).map(|at| self.0.at(at))
    }

    /// Returns the addresses in order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.v4.iter().copied().map(IpAddr::V4).chain(self.0.v6.iter().copied().map(IpAddr::V6))
    }

    /// Returns the conditions in the order of the addresses.
    pub fn conditions(&self) -> impl Iterator<Item = Conditions> {
        self.0.conditions.iter().copied().map(unpack)
    }

    /// Returns the endpoint of this address.
    #[must_use]
    pub fn get(&self, address: IpAddr) -> Option<Endpoint> {
        self.0.find(address).ok().map(|at| self.0.at(at))
    }

    /// Adds an endpoint. Returns the endpoint of the same address that it replaces.
    pub fn insert(&mut self, endpoint: Endpoint) -> Option<Endpoint> {
        Arc::make_mut(&mut self.0).insert(endpoint)
    }

    /// Removes and returns the endpoint of this address.
    pub fn remove(&mut self, address: IpAddr) -> Option<Endpoint> {
        let at = self.0.find(address).ok()?;
        Some(Arc::make_mut(&mut self.0).remove(at))
    }
}

impl Columns {
    fn insert(&mut self, endpoint: Endpoint) -> Option<Endpoint> {
        let Endpoint { address, conditions, detail } = endpoint;
        match self.find(address) {
            Ok(at) => {
                let old = self.at(at);
                self.conditions[at] = pack(conditions);
                if self.has_details(detail.is_some()) {
                    self.details[at] = detail;
                    self.forget_details();
                }
                Some(old)
            }
            Err(at) => {
                if self.has_details(detail.is_some()) {
                    put(&mut self.details, at, detail);
                }
                match address {
                    IpAddr::V4(address) => put(&mut self.v4, at, address),
                    IpAddr::V6(address) => put(&mut self.v6, at - self.v4.len(), address),
                }
                put(&mut self.conditions, at, pack(conditions));
                None
            }
        }
    }

    fn remove(&mut self, at: usize) -> Endpoint {
        let old = self.at(at);
        match old.address {
            IpAddr::V4(_) => take(&mut self.v4, at),
            IpAddr::V6(_) => take(&mut self.v6, at - self.v4.len()),
        }
        take(&mut self.conditions, at);
        if !self.details.is_empty() {
            take(&mut self.details, at);
            self.forget_details();
        }
        old
    }

    fn at(&self, at: usize) -> Endpoint {
        let address = match self.v4.get(at) {
            Some(address) => IpAddr::V4(*address),
            None => IpAddr::V6(self.v6[at - self.v4.len()]),
        };
        let detail = self.details.get(at).cloned().flatten();
        Endpoint { address, conditions: unpack(self.conditions[at]), detail }
    }

    fn find(&self, address: IpAddr) -> Result<usize, usize> {
        let first = self.v4.len();
        match address {
            IpAddr::V4(address) => self.v4.binary_search(&address),
            IpAddr::V6(address) => self.v6.binary_search(&address).map(|at| at + first).map_err(|at| at + first),
        }
    }

    /// Whether there is a column of details; creates it if it is `needed`.
    fn has_details(&mut self, needed: bool) -> bool {
        if needed && self.details.is_empty() {
            self.details = vec![None; self.conditions.len()];
        }
        needed || !self.details.is_empty()
    }

    /// Drops a column without any detail, so that equal sets have equal columns.
    fn forget_details(&mut self) {
        if self.details.iter().all(Option::is_none) {
            self.details = Vec::new();
        }
    }
}

/// Accepts any order. The last endpoint of an address replaces earlier ones.
impl FromIterator<Endpoint> for Endpoints {
    fn from_iter<I: IntoIterator<Item = Endpoint>>(from: I) -> Self {
        let mut all: Vec<Endpoint> = from.into_iter().collect();
        if !all.is_sorted_by(|a, b| a.address < b.address) {
            // The sort is stable, so the last one of each address comes first and is kept.
            all.reverse();
            all.sort_by_key(|endpoint| endpoint.address);
            all.dedup_by_key(|endpoint| endpoint.address);
        }
        let v4 = all.iter().filter(|endpoint| endpoint.address.is_ipv4()).count();
        let mut columns = Columns {
            v4: Vec::with_capacity(v4),
            v6: Vec::with_capacity(all.len() - v4),
            conditions: all.iter().map(|endpoint| pack(endpoint.conditions)).collect(),
            details: Vec::new(),
        };
        for endpoint in &all {
            match endpoint.address {
                IpAddr::V4(address) => columns.v4.push(address),
                IpAddr::V6(address) => columns.v6.push(address),
            }
        }
        if all.iter().any(|endpoint| endpoint.detail.is_some()) {
            // Not collected in place: that would keep the source's allocation, which is four times as large.
            columns.details.reserve_exact(all.len());
            columns.details.extend(all.into_iter().map(|endpoint| endpoint.detail));
        }
        Self(Arc::new(columns))
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn pack(conditions: Conditions) -> u8 {
    u8::from(conditions.ready) | u8::from(conditions.serving) << 1 | u8::from(conditions.terminating) << 2
}

fn unpack(bits: u8) -> Conditions {
    Conditions { ready: bits & 1 != 0, serving: bits & 2 != 0, terminating: bits & 4 != 0 }
}

/// Grows a column by an eighth: doubling would leave up to half of a large one unused.
fn put<T>(column: &mut Vec<T>, at: usize, value: T) {
    if column.len() == column.capacity() {
        column.reserve_exact(1 + column.len() / 8);
    }
    column.insert(at, value);
}

fn take<T>(column: &mut Vec<T>, at: usize) {
    column.remove(at);
    if column.capacity() > 8 + column.len() + column.len() / 4 {
        column.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        (0u8..8, any::<[bool; 4]>(), 0u8..3).prop_map(|(host, [v6, ready, serving, terminating], detail)| Endpoint {
            address: if v6 { [0xfd00, 0, 0, 0, 0, 0, 0, host.into()].into() } else { [10, 0, 0, host].into() },
            conditions: Conditions { ready, serving, terminating },
            detail: (detail > 0).then(|| {
                Arc::new(Detail { zone: Some(if detail == 1 { "a" } else { "b" }.into()), ..Detail::default() })
            }),
        })
    }

    proptest! {
        #[test]
        fn behaves_as_a_map_by_address(
            start in proptest::collection::vec(endpoint(), 0..20),
            steps in proptest::collection::vec((endpoint(), any::<bool>()), 0..40),
        ) {
            let mut map: BTreeMap<IpAddr, Endpoint> = start.iter().map(|e| (e.address, e.clone())).collect();
            let mut held: Endpoints = start.into_iter().collect();
            for (endpoint, goes) in steps {
                let address = endpoint.address;
                prop_assert_eq!(held.get(address), map.get(&address).cloned());
                if goes {
                    prop_assert_eq!(held.remove(address), map.remove(&address));
                } else {
                    prop_assert_eq!(held.insert(endpoint.clone()), map.insert(address, endpoint));
                }
                prop_assert!(held.iter().eq(map.values().cloned()));
                prop_assert!(held.addresses().eq(map.keys().copied()));
                prop_assert!(held.conditions().eq(map.values().map(|e| e.conditions)));
                prop_assert_eq!((held.len(), held.is_empty()), (map.len(), map.is_empty()));
                // Equal however it was built.
                prop_assert_eq!(&held, &map.values().cloned().collect::<Endpoints>());
            }
        }
    }

    #[test]
    fn a_clone_is_shared_until_it_changes() {
        let held: Endpoints = (0..9).map(|n| Endpoint::ready([10, 0, 0, n].into())).collect();
        let mut other = held.clone();
        assert!(Arc::ptr_eq(&held.0, &other.0));
        assert_eq!(other.remove([10, 0, 0, 99].into()), None);
        assert!(Arc::ptr_eq(&held.0, &other.0), "what is not there need not be taken away");
        other.remove([10, 0, 0, 3].into());
        assert_eq!((held.len(), other.len()), (9, 8));
    }

    #[test]
    fn no_column_keeps_much_more_room_than_it_needs() {
        let of = |hosts: std::ops::Range<u16>| hosts.map(|n| Endpoint::ready([10, 0, (n >> 8) as u8, n as u8].into()));
        let room = |held: &Endpoints| (held.0.v4.capacity(), held.0.conditions.capacity(), held.0.details.capacity());
        let mut held: Endpoints = of(0..1000).collect();
        assert_eq!(room(&held), (1000, 1000, 0));
        of(1000..2000).for_each(|endpoint| drop(held.insert(endpoint)));
        assert!(held.0.v4.capacity() <= 2250 && held.0.conditions.capacity() <= 2250, "{:?}", room(&held));
        of(100..2000).for_each(|endpoint| drop(held.remove(endpoint.address)));
        assert!(held.0.v4.capacity() <= 133 && held.0.conditions.capacity() <= 133, "{:?}", room(&held));
    }
}
