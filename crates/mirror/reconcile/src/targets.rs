//! All targets, with an index of the targets that concern each backend, so that a question about one backend costs
//! only what that backend has.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

use gimbal_model::{SourceKey, TargetKey};
use gimbal_plan::Observed;

use crate::target::Target;
use crate::test_probe;

/// All targets.
///
/// The backends that a target concerns follow from the target alone. They are read off it when the next target is
/// lent out mutably, so that no caller has to maintain the index, and at most one target is indexed under outdated
/// names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets {
    all: BTreeMap<TargetKey, Target>,
    /// By the backend's name, as claims and labels spell it.
    index: Index,
    /// The target that was lent out mutably last.
    lent: Option<TargetKey>,
}

type Index = BTreeMap<Arc<str>, OfBackend>;

/// The index of one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OfBackend {
    targets: BTreeSet<TargetKey>,
    /// The source Services that objects name, and their targets: two while a Service moves.
    places: BTreeSet<(SourceKey, TargetKey)>,
    /// How many of the targets wait in its turn and have not converged.
    pending: u64,
}

/// The index entries of one target.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexedAs {
    under: Box<[Arc<str>]>,
    /// The source Service that its objects name, and the position of its backend in `under`.
    stands_for: Option<(usize, SourceKey)>,
    /// The position in `under` of the backend for which it is pending.
    pending: Option<usize>,
}

impl Targets {
    pub(crate) fn get(&self, key: &TargetKey) -> Option<&Target> {
        test_probe::looked();
        self.all.get(key)
    }

    pub(crate) fn contains_key(&self, key: &TargetKey) -> bool {
        self.all.contains_key(key)
    }

    pub(crate) fn get_mut(&mut self, key: &TargetKey) -> Option<&mut Target> {
        self.lend(key);
        self.all.get_mut(key)
    }

    pub(crate) fn get_or_default(&mut self, key: &TargetKey) -> &mut Target {
        self.lend(key);
        self.all.entry(key.clone()).or_default()
    }

    pub(crate) fn remove(&mut self, key: &TargetKey) -> Option<Target> {
        self.lend(key);
        self.lent = None;
        let target = self.all.remove(key)?;
        Self::take_out(&mut self.index, key, target.indexed_as(), |_| true, true);
        Some(target)
    }

    /// Calls `change` with every target.
    pub(crate) fn change_all(&mut self, mut change: impl FnMut(&mut Target)) {
        let keys: Vec<TargetKey> = self.all.keys().cloned().collect();
        for key in keys {
            self.get_mut(&key).into_iter().for_each(&mut change);
        }
    }

    /// Calls `change` with the observed objects of every target. It must not change what the index depends on.
    pub(crate) fn all_observed(&mut self, change: impl FnMut(&mut Observed)) {
        self.all.values_mut().map(Target::observed_mut).for_each(change);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TargetKey, &Target)> {
        self.range(..)
    }

    pub(crate) fn range(&self, range: impl RangeBounds<TargetKey>) -> impl Iterator<Item = (&TargetKey, &Target)> {
        self.all.range(range).inspect(|_| test_probe::looked())
    }

    /// Returns every target that a claim, an object or a count ties to a backend, and the target that was lent out
    /// mutably last, whether or not it is tied to the backend: callers check the target itself.
    pub(crate) fn of(&self, backend: &str) -> impl Iterator<Item = (&TargetKey, &Target)> {
        let filed = self.index.get(backend).map(|file| &file.targets);
        let lent = self.lent.as_ref().filter(|lent| filed.is_none_or(|filed| !filed.contains(*lent)));
        let keys = filed.into_iter().flatten().chain(lent);
        keys.filter_map(|key| self.all.get_key_value(key)).inspect(|_| test_probe::looked())
    }

    /// Returns the source Services of a backend that objects name, in order: those in `namespace` (empty: in all)
    /// after `after`, at most `most`.
    pub(crate) fn stood_for(
        &self,
        backend: &str,
        namespace: &str,
        after: Option<&SourceKey>,
        most: usize,
    ) -> BTreeSet<SourceKey> {
        let first = SourceKey::new(namespace, "");
        let from = after.filter(|after| **after > first).unwrap_or(&first);
        let asked = |key: &SourceKey| {
            (namespace.is_empty() || *key.namespace == *namespace) && after.is_none_or(|after| key > after)
        };
        let (mut keys, now) = (BTreeSet::new(), self.lent_stands_for(backend));
        keys.extend(now.filter(|key| asked(key)).cloned());
        for (key, place) in self.indexed_from(backend, from) {
            if keys.len() > most || !(namespace.is_empty() || *key.namespace == *namespace) {
                break;
            }
            if asked(key) && self.lent.as_ref() != Some(place) && !keys.contains(key) {
                keys.insert(key.clone());
            }
        }
        while keys.len() > most {
            keys.pop_last();
        }
        keys
    }

    /// Returns the targets whose objects name a source Service of a backend, except for `but`.
    pub(crate) fn places(&self, backend: &str, source: &SourceKey, but: Option<&TargetKey>) -> Vec<TargetKey> {
        let filed = self.indexed_from(backend, source).take_while(|(key, _)| key == source).map(|(_, place)| place);
        let lent = self.lent.iter().filter(|_| self.lent_stands_for(backend) == Some(source));
        let all = filed.filter(|place| self.lent.as_ref() != Some(*place)).chain(lent);
        all.filter(|place| but != Some(*place)).cloned().collect()
    }

    /// Returns what is indexed for a backend, from a source Service on.
    fn indexed_from(&self, backend: &str, source: &SourceKey) -> impl Iterator<Item = &(SourceKey, TargetKey)> {
        // Empty strings need no allocation.
        let from = (source.clone(), TargetKey::new(Arc::<str>::default(), Arc::<str>::default()));
        let file = self.index.get(backend).into_iter();
        file.flat_map(move |file| file.places.range(from.clone()..)).inspect(|_| test_probe::looked())
    }

    /// Returns the source Service of a backend that the objects of the target that was lent out last name, whatever is
    /// indexed.
    fn lent_stands_for(&self, backend: &str) -> Option<&SourceKey> {
        let target = self.all.get(self.lent.as_ref()?)?;
        target.stands_for().filter(|(name, _)| *name == backend).map(|(_, key)| key)
    }

    /// Returns the names of all backends that any target concerns.
    pub(crate) fn backends(&mut self) -> impl Iterator<Item = &Arc<str>> {
        self.update_index();
        self.index.keys()
    }

    /// Returns how many targets wait in a backend's turn and have not converged.
    pub(crate) fn pending(&mut self, backend: &str) -> u64 {
        self.update_index();
        self.index.get(backend).map_or(0, |file| file.pending)
    }

    fn lend(&mut self, key: &TargetKey) {
        test_probe::looked();
        if self.lent.as_ref() != Some(key) {
            self.update_index();
            self.lent = Some(key.clone());
        }
    }

    /// Updates the index for the target that was lent out last, if that changed.
    fn update_index(&mut self) {
        let Some(key) = self.lent.take() else { return };
        let Some(target) = self.all.get_mut(&key).filter(|target| !target.indexed_as().is_of(target)) else { return };
        let entries = IndexedAs::of(target, &self.index);
        let old = target.set_indexed_as(entries);
        let new = target.indexed_as();
        let left = |name: &Arc<str>| !new.under.contains(name);
        // Usually only `pending` changes.
        let moved = old.place() != new.place();
        Self::take_out(&mut self.index, &key, &old, left, moved);
        for (at, name) in new.under.iter().enumerate() {
            let file = self.index.entry(name.clone()).or_default();
            file.targets.insert(key.clone());
            file.pending += u64::from(new.pending == Some(at));
            if let Some((_, source)) = new.stands_for.as_ref().filter(|(of, _)| moved && *of == at) {
                file.places.insert((source.clone(), key.clone()));
            }
        }
    }

    /// Removes the entries of `old`. The target itself is removed only from the names that it has `left`, and its
    /// source Service only if it `moved`.
    fn take_out(index: &mut Index, key: &TargetKey, old: &IndexedAs, left: impl Fn(&Arc<str>) -> bool, moved: bool) {
        for (at, name) in old.under.iter().enumerate() {
            let Entry::Occupied(mut entry) = index.entry(name.clone()) else { continue };
            let file = entry.get_mut();
            file.pending -= u64::from(old.pending == Some(at));
            if let Some((_, source)) = old.stands_for.as_ref().filter(|(of, _)| moved && *of == at) {
                file.places.remove(&(source.clone(), key.clone()));
            }
            if left(name) {
                file.targets.remove(key);
            }
            if file.targets.is_empty() {
                entry.remove();
            }
        }
    }

    /// Returns where the index differs from what the targets say, in words. For tests.
    pub(crate) fn index_errors(&self) -> Vec<String> {
        let mut index = Index::new();
        for (key, target) in self.all.iter().filter(|(key, _)| Some(*key) != self.lent.as_ref()) {
            for name in target.concerns() {
                index.entry(name.into()).or_default().targets.insert(key.clone());
            }
            if let Some(file) = target.pending_for().and_then(|name| index.get_mut(name)) {
                file.pending += 1;
            }
            if let Some((name, source)) = target.stands_for()
                && let Some(file) = index.get_mut(name)
            {
                file.places.insert((source.clone(), key.clone()));
            }
        }
        let mut held = self.index.clone();
        if let Some((key, target)) = self.lent.as_ref().and_then(|lent| self.all.get_key_value(lent)) {
            Self::take_out(&mut held, key, target.indexed_as(), |_| true, true);
        }
        let names: BTreeSet<&Arc<str>> = index.keys().chain(held.keys()).collect();
        let differs = |name: &&Arc<str>| index.get(*name) != held.get(*name);
        let describe = |name: &Arc<str>| {
            let file = |index: &Index| index.get(name).cloned().unwrap_or_default();
            let (held, so) = (file(&held), file(&index));
            let targets: Vec<_> = held.targets.symmetric_difference(&so.targets).collect();
            let (pending, of) = (held.pending, so.pending);
            let (named, sources) = (held.places.len(), so.places.len());
            format!(
                "{name}: {targets:?} are indexed or are so, not both; {pending} of {of} are pending; {named} sources of {sources}"
            )
        };
        names.into_iter().filter(differs).map(describe).collect()
    }
}

impl IndexedAs {
    fn of(target: &Target, index: &Index) -> Self {
        let mut under: Vec<Arc<str>> = Vec::new();
        for name in target.concerns() {
            if !under.iter().any(|known| **known == *name) {
                under.push(index.get_key_value(name).map_or_else(|| name.into(), |(known, _)| known.clone()));
            }
        }
        let position = |name: &str| under.iter().position(|known| **known == *name);
        let pending = target.pending_for().and_then(position);
        let stands_for = target.stands_for().and_then(|(name, key)| Some((position(name)?, key.clone())));
        Self { under: under.into(), stands_for, pending }
    }

    /// Returns the backend and the source Service that it was indexed under.
    fn place(&self) -> Option<(&str, &SourceKey)> {
        self.stands_for.as_ref().map(|(at, key)| (&*self.under[*at], key))
    }

    /// Whether these are still the entries of a target. Checked after each change, and usually true.
    fn is_of(&self, target: &Target) -> bool {
        let pending = self.pending.map(|at| &*self.under[at]);
        let stands_for = self.place();
        pending == target.pending_for()
            && stands_for == target.stands_for()
            && target.concerns().all(|name| self.under.iter().any(|known| **known == *name))
            && self.under.iter().all(|known| target.concerns().any(|name| **known == *name))
    }
}
