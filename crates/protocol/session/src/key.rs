//! Keys of one namespace.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::Key;

/// Returns the keys of a namespace (of all if it is empty) in a map, in order, that come after `after`.
pub(crate) fn within<'a, K: Key, V>(
    map: &'a BTreeMap<K, V>,
    namespace: &str,
    after: Option<&K>,
) -> impl Iterator<Item = &'a K> {
    let namespace: Arc<str> = namespace.into();
    let first = K::first_in(namespace.clone());
    let from = match after {
        Some(after) if *after >= first => Bound::Excluded(after),
        _ => Bound::Included(&first),
    };
    let keys = map.range((from, Bound::Unbounded)).map(|(key, _)| key);
    keys.take_while(move |key| namespace.is_empty() || *key.namespace() == namespace)
}
