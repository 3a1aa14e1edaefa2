//! A check of incrementally maintained totals and indexes against the state that they are derived from.

use std::collections::BTreeMap;

use crate::Reconciler;

impl Reconciler {
    /// Returns where a total or an index is wrong, in words. Always empty; for tests, since it reads the whole state.
    #[must_use]
    pub fn audit(&self) -> Vec<String> {
        let mut wrong = self.targets.index_errors();
        wrong.extend(self.leaving_errors());
        for backend in self.desired.values() {
            let mut rejects = BTreeMap::new();
            for reject in backend.end().rejects().values() {
                *rejects.entry(reject.reason).or_default() += 1;
            }
            if rejects != *backend.end().reject_counts() {
                wrong.push(format!(
                    "{}: {:?} are counted, {rejects:?} stand",
                    backend.name(),
                    backend.end().reject_counts()
                ));
            }
            let counted = self.targets.iter().filter(|(_, target)| target.counted_for() == Some(backend.name()));
            let endpoints: u64 = counted.map(|(_, target)| target.settled().endpoints as u64).sum();
            for (key, target) in backend.usage().charges() {
                let charged = self.targets.get(target).and_then(|target| target.charged());
                if charged.is_none_or(|claim| claim.backend != *backend.name() || claim.key != *key) {
                    wrong.push(format!(
                        "{}: {key} is charged at {target}, which is charged to {charged:?}",
                        backend.name()
                    ));
                }
            }
            for (key, measured) in backend.all_measured() {
                if backend.measure(key, self.desired.api()) != Some(*measured) {
                    wrong.push(format!("{}: {key} is not {measured:?}", backend.name()));
                }
            }
            if endpoints != backend.endpoints() {
                wrong.push(format!(
                    "{}: {} endpoints are counted, {endpoints} are held",
                    backend.name(),
                    backend.endpoints()
                ));
            }
        }
        wrong
    }
    /// Returns the claims that leave a target which their backend's index does not name.
    fn leaving_errors(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, target) in self.targets.iter() {
            for claim in target.leaving() {
                if !self.desired.old_places(claim).any(|place| place == key) {
                    wrong.push(format!("{claim} leaves {key}, and is not known to"));
                }
            }
        }
        wrong
    }
}
