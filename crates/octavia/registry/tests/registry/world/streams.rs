//! What clusters stream to writers.

use std::collections::BTreeMap;

use gimbal_kuryr_model::DesiredKey;
use gimbal_property::note;

use super::World;
use crate::wish::Wish;

/// What was wanted under a key before a change.
pub(super) struct Former {
    key: (String, DesiredKey),
    wish: Option<Wish>,
    /// Whether the change wanted something else, instead of nothing.
    is_wanted: bool,
}

impl World {
    /// Opens a cluster's stream to a writer, which has no entries yet.
    pub fn open(&mut self, nth: usize, cluster: &str) {
        let now = self.now();
        note(|| format!("{:?} {cluster} streams to writer {nth}", self.cloud.now()));
        let newest = self.newest.entry(cluster.to_owned()).or_default();
        *newest += 1;
        let writer = &mut self.writers[nth];
        writer.began.insert(cluster.to_owned(), *newest);
        writer.registry.set_cluster(self.clusters[cluster].clone(), now);
        writer.registry.set_facts(cluster, self.facts.clone(), now);
        self.kept.may_release();
        writer.registry.heard(cluster, now);
        writer.registry.set_current(cluster, false, false);
        writer.last_heartbeat.insert(cluster.to_owned(), self.cloud.now());
        if !writer.streams.iter().any(|one| one == cluster) {
            writer.streams.push(cluster.to_owned());
        }
    }

    /// Lets a cluster stream to a writer: a snapshot, then changes.
    pub fn connect(&mut self, nth: usize, cluster: &str) {
        self.open(nth, cluster);
        let now = self.now();
        let writer = &mut self.writers[nth];
        for ((_, key), wish) in self.wishes.iter().filter(|((of, _), _)| of == cluster) {
            self.kept.wants(key, wish, self.cloud.now());
            writer.registry.want(cluster, key.clone(), wish.entry(), now);
        }
        // The session tells what it held and what the snapshot lacks.
        let gone =
            |(of, key): &(String, DesiredKey)| of == cluster && !self.wishes.contains_key(&(of.clone(), key.clone()));
        for (_, key) in writer.holds.extract_if(.., gone) {
            writer.registry.forget(cluster, &key, now);
        }
        writer.holds.extend(self.wishes.keys().filter(|(of, _)| of == cluster).cloned());
        writer.registry.snapshot_complete(cluster, now, now);
        for (key, report) in writer.registry.reports(cluster, now) {
            self.reports.insert((cluster.to_owned(), key), report);
        }
    }

    /// Lets a cluster stream what it wanted `back` changes ago, as a controller does that was restarted and reads an API server
    /// which is behind.
    pub fn connect_with_older_state(&mut self, nth: usize, cluster: &str, back: usize) {
        let Some(older) = self.older(back + 1) else { return };
        note(|| format!("{:?} {back} changes back:", self.cloud.now()));
        let newest = std::mem::replace(&mut self.wishes, older);
        self.connect(nth, cluster);
        self.wishes = newest;
    }

    /// Returns what was wanted before the last `changes` wishes, if there were that many.
    fn older(&self, mut changes: usize) -> Option<BTreeMap<(String, DesiredKey), Wish>> {
        let mut wishes = self.wishes.clone();
        for Former { key, wish, is_wanted } in self.history.iter().rev() {
            match wish {
                Some(wish) => wishes.insert(key.clone(), wish.clone()),
                None => wishes.remove(key),
            };
            changes -= usize::from(*is_wanted);
            if changes == 0 {
                return Some(wishes);
            }
        }
        None
    }

    pub fn disconnect(&mut self, nth: usize, cluster: &str) {
        self.writers[nth].streams.retain(|one| one != cluster);
        self.writers[nth].registry.stream_ended(cluster);
    }

    /// Lets a stream fall silent without anybody noticing.
    pub fn silence(&mut self, nth: usize, cluster: &str) {
        note(|| format!("{:?} {cluster} is silent to writer {nth}", self.cloud.now()));
        self.writers[nth].streams.retain(|one| one != cluster);
    }

    /// Wants something, and tells whoever the cluster streams to.
    pub fn want(&mut self, cluster: &str, key: DesiredKey, wish: Wish) {
        let now = self.now();
        note(|| format!("{:?} {cluster} {key} {wish:?}", self.cloud.now()));
        for writer in self.writers.iter_mut().filter(|writer| writer.streams.iter().any(|one| one == cluster)) {
            writer.registry.want(cluster, key.clone(), wish.entry(), now);
            writer.holds.insert((cluster.to_owned(), key.clone()));
        }
        self.kept.wants(&key, &wish, self.cloud.now());
        let key = (cluster.to_owned(), key);
        let former = self.wishes.insert(key.clone(), wish);
        self.history.push(Former { key, wish: former, is_wanted: true });
    }

    /// Changes a wish.
    pub fn change(&mut self, cluster: &str, key: &DesiredKey, change: impl FnOnce(&mut Wish)) {
        let mut wish = self.wishes[&(cluster.to_owned(), key.clone())].clone();
        change(&mut wish);
        wish.generation += 1;
        self.want(cluster, key.clone(), wish);
    }

    pub fn forget(&mut self, cluster: &str, key: &DesiredKey) {
        let now = self.now();
        note(|| format!("{:?} {cluster} forgets {key}", self.cloud.now()));
        let former = (cluster.to_owned(), key.clone());
        let wish = self.wishes.remove(&former);
        self.history.push(Former { key: former, wish, is_wanted: false });
        for writer in self.writers.iter_mut().filter(|writer| writer.streams.iter().any(|one| one == cluster)) {
            writer.registry.forget(cluster, key, now);
            writer.holds.remove(&(cluster.to_owned(), key.clone()));
        }
    }
}
