//! Who must stay behind a port.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::{DesiredKey, Phase};
use gimbal_property::note;

use super::{SECOND, World};
use crate::wish::{Wish, forwarded};

/// How long what was wanted before may still have effects: a writer whose stream has ended, a request of its that arrives 9 s
/// late, and a provider that takes 20 s for it.
const AFTERMATH: Duration = Duration::from_secs(40);
/// How long a hold must have lasted before nothing of an earlier removal is under way any more, by the same sum.
const HELD_FOR: Duration = Duration::from_secs(30);

type Addresses = BTreeSet<String>;

/// Who must stay behind port 80 of each key.
#[derive(Default)]
pub struct Kept {
    /// What was wanted, and until when; the last one still is.
    wanted: BTreeMap<DesiredKey, Vec<(Duration, Addresses)>>,
    /// Who has served, and has been wanted ever since.
    stays: BTreeMap<DesiredKey, Addresses>,
    /// Since when the guard has held something, and who was there when nothing was under way any more.
    held: BTreeMap<DesiredKey, (Duration, Option<Addresses>)>,
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
            // The report says so only after a moment.
            let streams = self.writers.iter().find(|one| one.streams.contains(&cluster));
            let explained = streams.and_then(|one| one.registry.explain(&cluster, &key, self.start + now));
            if explained.is_none_or(|one| one.report.phase != Phase::Held) {
                kept.held.remove(&key);
                continue;
            }
            let (since, there) = kept.held.entry(key.clone()).or_insert((now, None));
            if *since + HELD_FOR > now {
                continue;
            }
            let there = there.get_or_insert_with(|| served.clone());
            let missing: Vec<_> = there.difference(&served).collect();
            assert!(missing.is_empty(), "{now:?} {key}: {missing:?} left while held; {:#?}", self.last_sent());
            there.extend(served);
        }
        self.kept = kept;
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
