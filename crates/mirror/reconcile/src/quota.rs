//! What a backend publishes, against what it may. First come keeps: a Service that would exceed a limit by growing waits
//! until there is room, in the order in which they came.

use std::collections::BTreeMap;
use std::fmt;

use gimbal_model::{SourceKey, TargetKey};

use crate::Quota;

/// How much one Service, or all of a backend, takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Services.
    pub services: u64,
    /// Endpoints.
    pub endpoints: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One limit that a Service would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{measure} of this backend would be {would_be}, and its quota is {limit} (quota.{measure}); it waits for room")]
pub struct Exceeded {
    /// Which measure.
    pub measure: Measure,
    /// What it would come to.
    pub would_be: u64,
    /// What it may be.
    pub limit: u64,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// See [`Amount::services`].
    Services,
    /// See [`Amount::endpoints`].
    Endpoints,
    /// See [`Amount::bytes`].
    Bytes,
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Services => "services",
            Self::Endpoints => "endpoints",
            Self::Bytes => "bytes",
        })
    }
}

#[derive(Debug, Clone)]
struct Counted {
    amount: Amount,
    at: TargetKey,
    /// Bytes of what stood before this process are not known until an agent says them.
    weighed: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Where each is: while it moves that is more than one place, and it takes what it takes at the larger one.
    counted: BTreeMap<SourceKey, Vec<Counted>>,
    total: Amount,
    /// In the order in which they came.
    waiting: BTreeMap<u64, SourceKey>,
    ticket_of: BTreeMap<SourceKey, u64>,
    tickets: u64,
    /// Something was given back since the last round of turns began.
    room: bool,
    /// Where the round that runs goes on.
    round: Option<u64>,
}

/// How many of those that wait have a turn at a time, so that no change waits long behind them.
const TURNS: usize = 200;

impl Usage {
    /// What all of it takes.
    #[must_use]
    pub fn total(&self) -> Amount {
        self.total
    }

    /// How many endpoints a Service may have that is to grow no more: what it had, and what of it `stands` beside that and has
    /// room.
    #[must_use]
    pub fn without_growth(&self, key: &SourceKey, stands: u64, quota: &Quota) -> u64 {
        let counted = self.counted.get(key).map(|counted| largest(counted).endpoints).unwrap_or_default();
        let others = self.total.endpoints.saturating_sub(counted);
        let room = quota.endpoints.map_or(u64::MAX, |limit| limit.saturating_sub(others));
        counted.max(stands.min(room))
    }

    /// Services that wait for room.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a Service may be as large as `amount` now.
    ///
    /// # Errors
    /// The first limit that it would exceed by growing.
    pub fn check(&self, key: &SourceKey, amount: Amount, quota: &Quota) -> Result<(), Exceeded> {
        let counted = self.counted.get(key).map_or(&[][..], Vec::as_slice);
        let old = largest(counted);
        let weighed = counted.iter().all(|counted| counted.weighed);
        let grows = |measure, limit: Option<u64>, total: u64, old: u64, new: u64| {
            let would_be = total.saturating_sub(old).saturating_add(new);
            match limit {
                Some(limit) if new > old && would_be > limit => Err(Exceeded { measure, would_be, limit }),
                _ => Ok(()),
            }
        };
        let total = self.total;
        grows(Measure::Services, quota.services, total.services, old.services, amount.services)?;
        grows(Measure::Endpoints, quota.endpoints, total.endpoints, old.endpoints, amount.endpoints)?;
        if weighed {
            grows(Measure::Bytes, quota.bytes, total.bytes, old.bytes, amount.bytes)?;
        }
        Ok(())
    }

    /// It is written so, at `at`.
    pub fn count(&mut self, key: &SourceKey, amount: Amount, at: &TargetKey) {
        self.stop_waiting(key);
        self.change(key, |places| {
            let new = Counted { amount, at: at.clone(), weighed: true };
            match places.iter_mut().find(|counted| counted.at == *at) {
                Some(counted) => *counted = new,
                None => add(places, new),
            }
        });
    }

    /// It stands already, whatever the limits say.
    pub fn stands(&mut self, key: &SourceKey, endpoints: u64, at: &TargetKey) {
        self.change(key, |places| {
            if places.iter().all(|counted| counted.at != *at) {
                let amount = Amount { services: 1, endpoints, bytes: 0 };
                add(places, Counted { amount, at: at.clone(), weighed: false });
            }
        });
    }

    /// Whether it counts at `at`.
    pub(crate) fn counts_at(&self, key: &SourceKey, at: &TargetKey) -> bool {
        self.counted.get(key).is_some_and(|places| places.iter().any(|counted| counted.at == *at))
    }

    /// It waits for room.
    pub fn wait(&mut self, key: &SourceKey) {
        if !self.ticket_of.contains_key(key) {
            self.tickets += 1;
            self.ticket_of.insert(key.clone(), self.tickets);
            self.waiting.insert(self.tickets, key.clone());
        }
    }

    /// Whether it waits for room.
    #[must_use]
    pub fn waits(&self, key: &SourceKey) -> bool {
        self.ticket_of.contains_key(key)
    }

    /// It is not written further, and so many endpoints of it are there.
    pub fn stopped_at(&mut self, key: &SourceKey, endpoints: u64, at: &TargetKey) {
        self.change(key, |places| {
            for counted in places.iter_mut().filter(|counted| counted.at == *at) {
                counted.amount.endpoints = counted.amount.endpoints.min(endpoints);
            }
        });
    }

    /// It wants nothing any more.
    pub fn stop_waiting(&mut self, key: &SourceKey) {
        if let Some(ticket) = self.ticket_of.remove(key) {
            self.waiting.remove(&ticket);
        }
    }

    /// Nothing of it is left at `at`. Where it counts elsewhere too, that stays.
    pub fn gone_from(&mut self, key: &SourceKey, at: &TargetKey) {
        self.change(key, |places| places.retain(|counted| counted.at != *at));
    }

    /// The next of those that wait, if there may be room for one of them: each has its turn once for what was given back.
    pub fn take_turns(&mut self) -> Vec<SourceKey> {
        if self.round.is_none() && std::mem::take(&mut self.room) {
            self.round = Some(0);
        }
        let Some(from) = self.round.take() else { return Vec::new() };
        let turns = self.waiting.range(from..).take(TURNS);
        if let Some((last, _)) = turns.clone().nth(TURNS - 1) {
            self.round = Some(last + 1);
        }
        turns.map(|(_, key)| key.clone()).collect()
    }

    fn change(&mut self, key: &SourceKey, change: impl FnOnce(&mut Vec<Counted>)) {
        let mut places = self.counted.remove(key).unwrap_or_default();
        let old = largest(&places);
        change(&mut places);
        let new = largest(&places);
        if !places.is_empty() {
            self.counted.insert(key.clone(), places);
        }
        self.total.services = self.total.services - old.services + new.services;
        self.total.endpoints = self.total.endpoints - old.endpoints + new.endpoints;
        self.total.bytes = self.total.bytes - old.bytes + new.bytes;
        // Only where it came to less there is room for another.
        self.room |= new.services < old.services || new.endpoints < old.endpoints || new.bytes < old.bytes;
    }
}

/// Almost always there is one place, and room for four would be kept.
fn add(places: &mut Vec<Counted>, new: Counted) {
    places.reserve_exact(1);
    places.push(new);
}

/// What a Service takes that is in these places.
fn largest(places: &[Counted]) -> Amount {
    places.iter().map(|counted| counted.amount).fold(Amount::default(), |a, b| Amount {
        services: a.services.max(b.services),
        endpoints: a.endpoints.max(b.endpoints),
        bytes: a.bytes.max(b.bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Quota = Quota { services: Some(2), endpoints: Some(10), bytes: Some(1000), changes_per_second: None };

    fn key(name: &str) -> SourceKey {
        SourceKey::new("ns", name)
    }

    fn at(name: &str) -> TargetKey {
        TargetKey::new("ns", name)
    }

    fn amount(endpoints: u64, bytes: u64) -> Amount {
        Amount { services: 1, endpoints, bytes }
    }

    #[test]
    fn first_come_keeps_and_room_is_told_in_order() {
        let mut usage = Usage::default();
        usage.count(&key("a"), amount(6, 100), &at("a"));
        let over = Exceeded { measure: Measure::Endpoints, would_be: 11, limit: 10 };
        assert_eq!(usage.check(&key("b"), amount(5, 100), &LIMIT), Err(over));
        assert_eq!(
            over.to_string(),
            "endpoints of this backend would be 11, and its quota is 10 (quota.endpoints); it waits for room"
        );
        for waiting in ["z", "b", "z"] {
            usage.wait(&key(waiting));
        }
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "there is no room yet");
        usage.count(&key("a"), amount(6, 90), &at("a"));
        assert_eq!(usage.take_turns(), [key("z"), key("b")], "fewer bytes are room");
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "told once");
        usage.count(&key("a"), amount(7, 90), &at("a"));
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "growth is none");
        usage.count(&key("z"), amount(1, 1), &at("z"));
        let third = Exceeded { measure: Measure::Services, would_be: 3, limit: 2 };
        assert_eq!(usage.check(&key("b"), amount(0, 0), &LIMIT), Err(third));
        usage.gone_from(&key("a"), &at("elsewhere"));
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "it counts where it is now");
        usage.gone_from(&key("a"), &at("a"));
        assert_eq!((usage.take_turns(), usage.waiting()), (vec![key("b")], 1));
        assert_eq!(usage.total(), amount(1, 1));
        usage.stop_waiting(&key("b"));
        assert_eq!(usage.waiting(), 0);
    }

    #[test]
    fn many_that_wait_have_their_turns_by_and_by_and_each_once() {
        let mut usage = Usage::default();
        let names: Vec<String> = (0..2 * TURNS + 1).map(|n| format!("{n:04}")).collect();
        names.iter().for_each(|name| usage.wait(&key(name)));
        usage.count(&key("a"), amount(1, 1), &at("a"));
        usage.gone_from(&key("a"), &at("a"));
        let mut turns = usage.take_turns();
        assert_eq!(turns.len(), TURNS);
        // What is given back meanwhile begins another round after this one.
        usage.count(&key("a"), amount(1, 1), &at("a"));
        usage.gone_from(&key("a"), &at("a"));
        turns.extend([usage.take_turns(), usage.take_turns()].concat());
        assert_eq!(turns, names.iter().map(|name| key(name)).collect::<Vec<_>>());
        let rounds: Vec<usize> = (0..4).map(|_| usage.take_turns().len()).collect();
        assert_eq!(rounds, [TURNS, TURNS, 1, 0]);
    }

    #[test]
    fn a_lowered_quota_refuses_growth_and_nothing_else() {
        let mut usage = Usage::default();
        for name in ["a", "b", "c"] {
            usage.count(&key(name), amount(10, 1000), &at(name));
        }
        assert_eq!(usage.check(&key("a"), amount(10, 1000), &LIMIT), Ok(()), "as it is");
        assert_eq!(usage.check(&key("a"), amount(9, 1000), &LIMIT), Ok(()), "smaller, though still too much");
        assert!(usage.check(&key("a"), amount(11, 1), &LIMIT).is_err());
        assert!(usage.check(&key("a"), amount(1, 1001), &LIMIT).is_err());
    }

    #[test]
    fn what_stood_before_this_process_counts_first() {
        let mut usage = Usage::default();
        for name in ["a", "b", "c"] {
            usage.stands(&key(name), 10, &at(name));
        }
        assert_eq!(usage.total(), Amount { services: 3, endpoints: 30, bytes: 0 });
        assert!(usage.check(&key("new"), amount(0, 0), &LIMIT).is_err());
        assert_eq!(usage.check(&key("a"), amount(10, 5000), &LIMIT), Ok(()), "its bytes were not known");
        usage.count(&key("a"), amount(10, 5000), &at("a"));
        assert!(usage.check(&key("a"), amount(10, 5001), &LIMIT).is_err(), "now they are");
        usage.stands(&key("a"), 3, &at("a"));
        assert_eq!(usage.total().endpoints, 30, "what was written is known better");
    }
}
