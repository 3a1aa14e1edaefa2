//! All targets, and which of them concern which backend: what is asked of one backend costs what that backend has.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::sync::Arc;

use gimbal_model::{SourceKey, TargetKey};
use gimbal_plan::Observed;

use crate::probe;
use crate::target::Target;

/// See the module. Which backends a target concerns follows from the target alone, and is read off it when the next one is
/// lent out to be changed: nobody who changes a target has to tell, and at most one is not filed as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets {
    all: BTreeMap<TargetKey, Target>,
    /// By a backend's name, as claims and labels have it.
    files: Files,
    lent: Option<TargetKey>,
}

type Files = BTreeMap<Arc<str>, File>;

/// What concerns one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct File {
    targets: BTreeSet<TargetKey>,
    /// Source Services that an object says it stands for, and where: at two places while one moves.
    places: BTreeSet<(SourceKey, TargetKey)>,
    /// Of the targets, the ones that line up under it and are not converged.
    pending: u64,
}

/// Under which names a target is filed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filed {
    under: Box<[Arc<str>]>,
    /// The source Service that its objects say they stand for, and the position in `under` of the backend.
    stands_for: Option<(usize, SourceKey)>,
    /// The position in `under` of the backend that it is pending for.
    pending: Option<usize>,
}

impl Targets {
    pub(crate) fn get(&self, key: &TargetKey) -> Option<&Target> {
        probe::looked();
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
        Self::take_out(&mut self.files, key, &target.filed, |_| true, true);
        Some(target)
    }

    /// Changes every target.
    pub(crate) fn change_all(&mut self, mut change: impl FnMut(&mut Target)) {
        let keys: Vec<TargetKey> = self.all.keys().cloned().collect();
        for key in keys {
            self.get_mut(&key).into_iter().for_each(&mut change);
        }
    }

    /// Changes what is known of what every target holds, but not what that is: nothing is to be filed anew.
    pub(crate) fn all_observed(&mut self, change: impl FnMut(&mut Observed)) {
        self.all.values_mut().map(|target| &mut target.observed).for_each(change);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TargetKey, &Target)> {
        self.range(..)
    }

    pub(crate) fn range(&self, range: impl RangeBounds<TargetKey>) -> impl Iterator<Item = (&TargetKey, &Target)> {
        self.all.range(range).inspect(|_| probe::looked())
    }

    /// Every target that a claim, an object or a count says has to do with a backend; and the one that is being changed, whatever it
    /// says: whoever asks looks at what the target is.
    pub(crate) fn of(&self, backend: &str) -> impl Iterator<Item = (&TargetKey, &Target)> {
        let filed = self.files.get(backend).map(|file| &file.targets);
        let lent = self.lent.as_ref().filter(|lent| filed.is_none_or(|filed| !filed.contains(*lent)));
        let keys = filed.into_iter().flatten().chain(lent);
        keys.filter_map(|key| self.all.get_key_value(key)).inspect(|_| probe::looked())
    }

    /// The source Services of a backend in a namespace (empty: in every one) that objects say they stand for: in order, those
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
        for (key, place) in self.filed_from(backend, from) {
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

    /// Where a source Service of a backend stands, as the objects there say, other than at `but`.
    pub(crate) fn places(&self, backend: &str, source: &SourceKey, but: Option<&TargetKey>) -> Vec<TargetKey> {
        let filed = self.filed_from(backend, source).take_while(|(key, _)| key == source).map(|(_, place)| place);
        let lent = self.lent.iter().filter(|_| self.lent_stands_for(backend) == Some(source));
        let all = filed.filter(|place| self.lent.as_ref() != Some(*place)).chain(lent);
        all.filter(|place| but != Some(*place)).cloned().collect()
    }

    /// What was filed of a backend, from a source Service on.
    fn filed_from(&self, backend: &str, source: &SourceKey) -> impl Iterator<Item = &(SourceKey, TargetKey)> {
        // Empty texts that are made without an allocation.
        let from = (source.clone(), TargetKey::new(Arc::<str>::default(), Arc::<str>::default()));
        let file = self.files.get(backend).into_iter();
        file.flat_map(move |file| file.places.range(from.clone()..)).inspect(|_| probe::looked())
    }

    /// The source Service of a backend that the target that is being changed stands for, whatever is filed.
    fn lent_stands_for(&self, backend: &str) -> Option<&SourceKey> {
        let target = self.all.get(self.lent.as_ref()?)?;
        target.stands_for().filter(|(name, _)| *name == backend).map(|(_, key)| key)
    }

    /// The names that there are for backends.
    pub(crate) fn backends(&mut self) -> impl Iterator<Item = &Arc<str>> {
        self.file();
        self.files.keys()
    }

    /// Targets that line up under a backend and are not converged.
    pub(crate) fn pending(&mut self, backend: &str) -> u64 {
        self.file();
        self.files.get(backend).map_or(0, |file| file.pending)
    }

    fn lend(&mut self, key: &TargetKey) {
        probe::looked();
        if self.lent.as_ref() != Some(key) {
            self.file();
            self.lent = Some(key.clone());
        }
    }

    /// Files the target that was lent out, if it is not filed as it is.
    fn file(&mut self) {
        let Some(key) = self.lent.take() else { return };
        let Some(target) = self.all.get_mut(&key).filter(|target| !target.filed.is_of(target)) else { return };
        let filed = Filed::of(target, &self.files);
        let old = std::mem::replace(&mut target.filed, filed);
        let new = &target.filed;
        let left = |name: &Arc<str>| !new.under.contains(name);
        // Mostly it is only pending, or not any more.
        let moved = old.place() != new.place();
        Self::take_out(&mut self.files, &key, &old, left, moved);
        for (at, name) in new.under.iter().enumerate() {
            let file = self.files.entry(name.clone()).or_default();
            file.targets.insert(key.clone());
            file.pending += u64::from(new.pending == Some(at));
            if let Some((_, source)) = new.stands_for.as_ref().filter(|(of, _)| moved && *of == at) {
                file.places.insert((source.clone(), key.clone()));
            }
        }
    }

    /// Takes back what was filed as `old`, but under no name that it has not `left`.
    /// Unless it `moved`, the source Service that it stands for is still filed at its place.
    fn take_out(files: &mut Files, key: &TargetKey, old: &Filed, left: impl Fn(&Arc<str>) -> bool, moved: bool) {
        for (at, name) in old.under.iter().enumerate() {
            let Entry::Occupied(mut entry) = files.entry(name.clone()) else { continue };
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

    /// Where what is filed is not what the targets say.
    pub(crate) fn misfiled(&self) -> Vec<String> {
        let mut files = Files::new();
        for (key, target) in self.all.iter().filter(|(key, _)| Some(*key) != self.lent.as_ref()) {
            for name in target.concerns() {
                files.entry(name.into()).or_default().targets.insert(key.clone());
            }
            if let Some(file) = target.pending_for().and_then(|name| files.get_mut(name)) {
                file.pending += 1;
            }
            if let Some((name, source)) = target.stands_for()
                && let Some(file) = files.get_mut(name)
            {
                file.places.insert((source.clone(), key.clone()));
            }
        }
        let mut held = self.files.clone();
        if let Some((key, target)) = self.lent.as_ref().and_then(|lent| self.all.get_key_value(lent)) {
            Self::take_out(&mut held, key, &target.filed, |_| true, true);
        }
        let names: BTreeSet<&Arc<str>> = files.keys().chain(held.keys()).collect();
        let differs = |name: &&Arc<str>| files.get(*name) != held.get(*name);
        let tell = |name: &Arc<str>| {
            let file = |files: &Files| files.get(name).cloned().unwrap_or_default();
            let (held, so) = (file(&held), file(&files));
            let targets: Vec<_> = held.targets.symmetric_difference(&so.targets).collect();
            let (pending, of) = (held.pending, so.pending);
            let (stands, sources) = (held.places.len(), so.places.len());
            format!(
                "{name}: {targets:?} are filed or are so, not both; {pending} of {of} are pending; {stands} sources of {sources}"
            )
        };
        names.into_iter().filter(differs).map(tell).collect()
    }
}

impl Filed {
    fn of(target: &Target, files: &Files) -> Self {
        let mut under: Vec<Arc<str>> = Vec::new();
        for name in target.concerns() {
            if !under.iter().any(|known| **known == *name) {
                under.push(files.get_key_value(name).map_or_else(|| name.into(), |(known, _)| known.clone()));
            }
        }
        let position = |name: &str| under.iter().position(|known| **known == *name);
        let pending = target.pending_for().and_then(position);
        let stands_for = target.stands_for().and_then(|(name, key)| Some((position(name)?, key.clone())));
        Self { under: under.into(), stands_for, pending }
    }

    /// The backend and the source Service that it was filed as standing for.
    fn place(&self) -> Option<(&str, &SourceKey)> {
        self.stands_for.as_ref().map(|(at, key)| (&*self.under[*at], key))
    }

    /// Whether this is what the target says. Asked after each change, and mostly so.
    fn is_of(&self, target: &Target) -> bool {
        let pending = self.pending.map(|at| &*self.under[at]);
        let stands_for = self.place();
        pending == target.pending_for()
            && stands_for == target.stands_for()
            && target.concerns().all(|name| self.under.iter().any(|known| **known == *name))
            && self.under.iter().all(|known| target.concerns().any(|name| **known == *name))
    }
}
