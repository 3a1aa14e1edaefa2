//! What a backend publishes, compared with its quota. Services that are published keep their room. A Service that
//! would exceed a limit by growing waits in line until there is room.

use std::collections::BTreeMap;
use std::fmt;

use gimbal_model::{SourceKey, TargetKey};

use crate::Quota;

/// What one Service, or a whole backend, takes of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Services.
    pub services: u64,
    /// Endpoints.
    pub endpoints: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The limit that a Service would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{measure} of this backend would be {would_be}, and its quota is {limit} (quota.{measure}); it waits for room")]
pub struct Exceeded {
    /// What the limit is for.
    pub measure: Measure,
    /// The total with the Service.
    pub would_be: u64,
    /// The limit.
    pub limit: u64,
}

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The number of Services.
    Services,
    /// The number of endpoints.
    Endpoints,
    /// Bytes of headers and endpoints on the stream.
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
    /// Whether `bytes` is known. For objects from before this process it is not until an agent sends the Service.
    weighed: bool,
}

/// What a backend takes of its quota.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// The targets at which each Service is charged. While it moves there are several, and the largest amount counts.
    counted: BTreeMap<SourceKey, Vec<Counted>>,
    total: Amount,
    /// The Services that wait for room, by ticket, that is, in the order in which they came.
    waiting: BTreeMap<u64, SourceKey>,
    ticket_of: BTreeMap<SourceKey, u64>,
    tickets: u64,
    /// Room was released since the last round of turns began.
    room: bool,
    /// The ticket at which the current round continues.
    round: Option<u64>,
}

/// How many waiting Services get a turn at a time, so that no change waits long behind them.
const TURNS: usize = 200;

impl Usage {
    /// Returns the total of all Services.
    #[must_use]
    pub fn total(&self) -> Amount {
        self.total
    }

    /// Returns how many endpoints a Service may have that must not grow: those charged, or as many of those that
    /// exist (`existing`) as there is room for, if that is more.
    #[must_use]
    pub fn without_growth(&self, key: &SourceKey, existing: u64, quota: &Quota) -> u64 {
        let counted = self.counted.get(key).map(|counted| largest(counted).endpoints).unwrap_or_default();
        let others = self.total.endpoints.saturating_sub(counted);
        let room = quota.endpoints.map_or(u64::MAX, |limit| limit.saturating_sub(others));
        counted.max(existing.min(room))
    }

    /// Returns how many Services wait for room.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Checks whether a Service may be as large as `amount` now.
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

    /// Charges a Service that is written as a whole at a target.
    pub fn charge(&mut self, key: &SourceKey, amount: Amount, at: &TargetKey) {
        self.stop_waiting(key);
        self.change(key, |places| {
            let new = Counted { amount, at: at.clone(), weighed: true };
            match places.iter_mut().find(|counted| counted.at == *at) {
                Some(counted) => *counted = new,
                None => add(places, new),
            }
        });
    }

    /// Charges a Service whose objects exist already, whatever the limits are.
    pub fn charge_existing(&mut self, key: &SourceKey, endpoints: u64, at: &TargetKey) {
        self.change(key, |places| {
            if places.iter().all(|counted| counted.at != *at) {
                let amount = Amount { services: 1, endpoints, bytes: 0 };
                add(places, Counted { amount, at: at.clone(), weighed: false });
            }
        });
    }

    /// Whether a Service is charged at a target.
    pub(crate) fn is_charged_at(&self, key: &SourceKey, at: &TargetKey) -> bool {
        self.counted.get(key).is_some_and(|places| places.iter().any(|counted| counted.at == *at))
    }

    /// Returns each Service with the targets at which it is charged, with repeats.
    pub(crate) fn charges(&self) -> impl Iterator<Item = (&SourceKey, &TargetKey)> {
        self.counted.iter().flat_map(|(key, places)| places.iter().map(move |counted| (key, &counted.at)))
    }

    /// Puts a Service in line for room.
    pub fn wait(&mut self, key: &SourceKey) {
        if !self.ticket_of.contains_key(key) {
            self.tickets += 1;
            self.ticket_of.insert(key.clone(), self.tickets);
            self.waiting.insert(self.tickets, key.clone());
        }
    }

    /// Whether a Service waits for room.
    #[must_use]
    pub fn waits(&self, key: &SourceKey) -> bool {
        self.ticket_of.contains_key(key)
    }

    /// Lowers the charge of a Service at a target to the endpoints that exist, because it is not written further.
    pub fn lower_charge(&mut self, key: &SourceKey, endpoints: u64, at: &TargetKey) {
        self.change(key, |places| {
            for counted in places.iter_mut().filter(|counted| counted.at == *at) {
                counted.amount.endpoints = counted.amount.endpoints.min(endpoints);
            }
        });
    }

    /// Takes a Service out of the line.
    pub fn stop_waiting(&mut self, key: &SourceKey) {
        if let Some(ticket) = self.ticket_of.remove(key) {
            self.waiting.remove(&ticket);
        }
    }

    /// Releases the charge of a Service at one target.
    pub fn release(&mut self, key: &SourceKey, at: &TargetKey) {
        self.change(key, |places| places.retain(|counted| counted.at != *at));
    }

    /// Returns the next waiting Services, if room was released: each gets one turn for what was released before.
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
        // Room for others appears only where the Service takes less than before.
        self.room |= new.services < old.services || new.endpoints < old.endpoints || new.bytes < old.bytes;
    }
}

/// Almost always there is one target, and a plain `push` would allocate room for four.
fn add(places: &mut Vec<Counted>, new: Counted) {
    places.reserve_exact(1);
    places.push(new);
}

/// Returns what a Service takes that is charged at these targets.
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
    fn first_come_keeps_and_room_is_given_in_order() {
        let mut usage = Usage::default();
        usage.charge(&key("a"), amount(6, 100), &at("a"));
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
        usage.charge(&key("a"), amount(6, 90), &at("a"));
        assert_eq!(usage.take_turns(), [key("z"), key("b")], "fewer bytes are room");
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "once");
        usage.charge(&key("a"), amount(7, 90), &at("a"));
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "growth releases no room");
        usage.charge(&key("z"), amount(1, 1), &at("z"));
        let third = Exceeded { measure: Measure::Services, would_be: 3, limit: 2 };
        assert_eq!(usage.check(&key("b"), amount(0, 0), &LIMIT), Err(third));
        usage.release(&key("a"), &at("elsewhere"));
        assert_eq!(usage.take_turns(), [] as [SourceKey; 0], "it counts where it is now");
        usage.release(&key("a"), &at("a"));
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
        usage.charge(&key("a"), amount(1, 1), &at("a"));
        usage.release(&key("a"), &at("a"));
        let mut turns = usage.take_turns();
        assert_eq!(turns.len(), TURNS);
        // What is given back meanwhile begins another round after this one.
        usage.charge(&key("a"), amount(1, 1), &at("a"));
        usage.release(&key("a"), &at("a"));
        turns.extend([usage.take_turns(), usage.take_turns()].concat());
        assert_eq!(turns, names.iter().map(|name| key(name)).collect::<Vec<_>>());
        let rounds: Vec<usize> = (0..4).map(|_| usage.take_turns().len()).collect();
        assert_eq!(rounds, [TURNS, TURNS, 1, 0]);
    }

    #[test]
    fn a_lowered_quota_refuses_growth_and_nothing_else() {
        let mut usage = Usage::default();
        for name in ["a", "b", "c"] {
            usage.charge(&key(name), amount(10, 1000), &at(name));
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
            usage.charge_existing(&key(name), 10, &at(name));
        }
        assert_eq!(usage.total(), Amount { services: 3, endpoints: 30, bytes: 0 });
        assert!(usage.check(&key("new"), amount(0, 0), &LIMIT).is_err());
        assert_eq!(usage.check(&key("a"), amount(10, 5000), &LIMIT), Ok(()), "its bytes were not known");
        usage.charge(&key("a"), amount(10, 5000), &at("a"));
        assert!(usage.check(&key("a"), amount(10, 5001), &LIMIT).is_err(), "now they are");
        usage.charge_existing(&key("a"), 3, &at("a"));
        assert_eq!(usage.total().endpoints, 30, "what was written is known better");
    }
}
