//! How often, and when, something in `ERROR` is repaired.

use std::time::Duration;

use crate::memory::{Memory, PlanPart};

/// How often something in `ERROR` is repaired: a load balancer, and each of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairBudget {
    /// The number of repairs that are made.
    pub repairs: usize,
    /// The time in which they count.
    pub within: Duration,
}

impl Default for RepairBudget {
    fn default() -> Self {
        Self { repairs: 3, within: Duration::from_secs(3600) }
    }
}

/// The pause after the first repair; the next ones double it.
const REPAIR_PAUSE: Duration = Duration::from_secs(30);

/// When something in `ERROR` is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepairTime {
    Now,
    /// After a pause.
    At(Duration),
    /// The budget is spent until then.
    Spent(Duration),
}

impl Memory {
    /// Returns how often something was repaired of late.
    pub(crate) fn repairs_of(&self, part: &PlanPart, budget: RepairBudget, now: Duration) -> usize {
        self.recent_repairs(part, budget, now).count()
    }

    fn recent_repairs(
        &self,
        part: &PlanPart,
        budget: RepairBudget,
        now: Duration,
    ) -> impl Iterator<Item = Duration> + use<'_> {
        let all = self.repairs.get(part).map(Vec::as_slice).unwrap_or_default();
        all.iter().copied().filter(move |at| *at + budget.within > now)
    }

    /// Returns when something may be repaired.
    pub(crate) fn next_repair(&self, part: &PlanPart, budget: RepairBudget, now: Duration) -> RepairTime {
        let recent: Vec<Duration> = self.recent_repairs(part, budget, now).collect();
        if budget.repairs == 0 {
            return RepairTime::Spent(now + budget.within);
        }
        let (Some(first), Some(last)) = (recent.first(), recent.last()) else { return RepairTime::Now };
        if recent.len() >= budget.repairs {
            return RepairTime::Spent(*first + budget.within);
        }
        let doubled = u32::try_from(recent.len() - 1).unwrap_or(16).min(16);
        let next = *last + REPAIR_PAUSE.saturating_mul(1 << doubled);
        if next <= now { RepairTime::Now } else { RepairTime::At(next) }
    }

    pub(crate) fn repaired(&mut self, part: PlanPart, budget: RepairBudget, now: Duration) {
        // Policies come and go: those that were repaired long ago would be remembered for ever.
        self.repairs.retain(|_, all| {
            all.retain(|at| *at + budget.within > now);
            !all.is_empty()
        });
        self.repairs.entry(part).or_default().push(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_repaired_long_ago_is_forgotten() {
        let (mut memory, budget) = (Memory::default(), RepairBudget::default());
        let pool = |id: u64| PlanPart::Policy(id.to_string());
        (0..100).for_each(|id| memory.repaired(pool(id), budget, Duration::from_secs(id)));
        assert_eq!(memory.repairs.len(), 100);
        let now = budget.within + Duration::from_secs(98);
        memory.repaired(pool(7), budget, now);
        assert_eq!(memory.repairs.len(), 2, "{:?}", memory.repairs);
        assert_eq!(memory.repairs_of(&pool(99), budget, now), 1);
    }
}
