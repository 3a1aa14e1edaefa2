//! Who must stay behind a port.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::DesiredKey;
use gimbal_property::note;
use serde_json::Value;

use super::{SECOND, World, Writer};
use crate::wish::{Wish, forwarded};

/// How long what was wanted before may still have effects: a writer whose stream has ended, a request of its that arrives 9 s
/// late, and a provider that takes 20 s for it.
const AFTERMATH: Duration = Duration::from_secs(40);

/// How long a writer without a stream may still change something.
const FRESH: Duration = Duration::from_secs(10);

type Addresses = BTreeSet<String>;

/// Who must stay behind port 80 of each key.
#[derive(Default)]
pub struct Kept {
    /// What was wanted, and until when; the last one still is.
    wanted: BTreeMap<DesiredKey, Vec<(Duration, Addresses)>>,
    /// Who has served, and has been wanted ever since.
    stays: BTreeMap<DesiredKey, Addresses>,
    /// Who has been there since the guard holds something and nothing of an earlier removal is under way any more.
    held: BTreeMap<DesiredKey, Addresses>,
}

impl Kept {
    pub fn wants(&mut self, key: &DesiredKey, wish: &Wish, now: Duration) {
        let all = self.wanted.entry(key.clone()).or_default();
        if let Some((until, _)) = all.last_mut() {
            *until = now + AFTERMATH;
        }
        let members = wish.members.iter().filter(|(_, port)| *port == 80);
        all.push((Duration::MAX, members.map(|(host, _)| format!("10.1.0.{host}")).collect()));
    }

    /// The guard may let go what it holds.
    pub fn may_release(&mut self) {
        self.held.clear();
    }
}

impl World {
    /// Checks that whoever has served and was wanted ever since is there, and whoever the guard holds.
    pub fn members_stay(&mut self) {
        let (now, mut kept) = (self.cloud.now(), std::mem::take(&mut self.kept));
        for ((cluster, key), wish) in self.wishes.clone() {
            let Some(id) = self.balancers_of(&wish.owner).into_iter().next() else { continue };
            let of_port = forwarded(&self.cloud, &id).into_iter().filter(|(port, _)| *port == 80);
            let served: Addresses = of_port.flat_map(|(_, members)| members).collect();
            let wanted = kept.wanted.entry(key.clone()).or_default();
            wanted.retain(|(until, _)| *until > now);
            let is_wanted = |one: &String| wanted.iter().all(|(_, members)| members.contains(one));
            let stays = kept.stays.entry(key.clone()).or_default();
            stays.retain(is_wanted);
            let missing: Vec<_> = stays.difference(&served).collect();
            assert!(
                missing.is_empty(),
                "{now:?} {key}: {missing:?} left, there is {served:?}; {:#?}",
                self.last_sent()
            );
            stays.extend(served.iter().filter(|one| is_wanted(one)).cloned());
            // Each writer counts for itself what it may remove, whatever another one holds.
            let may_change = |one: &&Writer| one.last_heartbeat.get(&cluster).is_some_and(|at| *at + FRESH > now);
            let mut writers = self.writers.iter().filter(may_change);
            let explained = match (writers.next(), writers.next()) {
                (Some(only), None) => only.registry.explain(&cluster, &key, self.start + now),
                _ => None,
            };
            // Not the phase: what else there is to do is done meanwhile.
            let is_held = explained.is_some_and(|one| one.report.conditions.iter().any(|one| *one.reason == *"Guard"));
            if !is_held {
                kept.held.remove(&key);
                continue;
            }
            if !kept.held.contains_key(&key) && self.is_under_way(&id) {
                continue;
            }
            let there = kept.held.entry(key.clone()).or_insert_with(|| served.clone());
            let missing: Vec<_> = there.difference(&served).collect();
            assert!(missing.is_empty(), "{now:?} {key}: {missing:?} left while held; {:#?}", self.last_sent());
            there.extend(served);
        }
        self.kept = kept;
    }

    /// Whether a change of a load balancer has not had its effect yet.
    fn is_under_way(&mut self, id: &str) -> bool {
        let is_active = |row: &Value| row["id"] == id && row["provisioning_status"] == "ACTIVE";
        self.has_late_requests() || !self.balancers().iter().any(is_active)
    }

    /// Lets the guard of members go what it holds. Returns whether it held anything.
    pub fn approve_members(&mut self, cluster: &str) -> bool {
        let now = self.now();
        note(|| format!("{:?} {cluster}: what is held is approved", self.cloud.now()));
        let mut is_held = false;
        for writer in &mut self.writers {
            let hold = writer.registry.cluster(cluster, now).and_then(|status| status.held_members);
            is_held |= hold.is_some_and(|hold| writer.registry.approve(cluster, &hold.id, now));
        }
        self.kept.may_release();
        is_held
    }

    /// Lets everything end as it is wanted, with somebody who approves.
    pub fn converge_with_approval(&mut self, cluster: &str) {
        for _ in 0..20 {
            self.run(90 * SECOND);
            if !self.approve_members(cluster) {
                break;
            }
        }
        self.converge(300 * SECOND);
    }
}
