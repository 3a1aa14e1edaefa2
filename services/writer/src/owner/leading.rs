//! How the owner follows its lease.

use std::time::{Duration, Instant, SystemTime};

use super::StateOwner;
use crate::backend_state::{BackendFormat, StateEvent, StoredRecord};
use gimbal_lease::Moment;

/// How long a leader may be unable to do its work before it reports that.
const ABLE_WITHIN: Duration = Duration::from_secs(30);
/// How long a lease may be late before its leader stands aside: long enough for an API server to come back, and so
/// short that, if another writer leads meanwhile, agents reach it before it counts their backends as lost for long.
const LATE: Duration = Duration::from_secs(90);

impl StateOwner {
    /// Follows the leadership. A new leader first reads the state that the previous one stored. A leader whose lease is
    /// late stays leader, but not forever: cut off from its API server, it would keep its agents away from another
    /// leader.
    pub(super) fn follow_leadership(&mut self, now: Instant, moment: Moment) {
        let epoch = self.parts.leadership.borrow().epoch();
        if self.leading.is_some() && epoch != self.leading {
            self.lead(None);
        }
        let late = self.parts.leadership.borrow().late(moment);
        self.stand_aside(self.leading.is_some() && late.is_some_and(|late| late >= LATE));
        if epoch != self.begun.map(|(epoch, _)| epoch) {
            self.begun = epoch.map(|epoch| (epoch, now));
            if let Some(epoch) = epoch {
                self.parts.keeper.read(epoch);
            }
        }
        // A store that was restored is listed again by any leader: a change of leader would not help.
        self.observed = self.observed || self.parts.state.has_observed();
        let works = epoch.is_none() || (self.leading.is_some() && self.observed);
        if works && let Some((_, begun)) = &mut self.begun {
            *begun = now;
        }
        let able = works || self.begun.is_none_or(|(_, begun)| now.saturating_duration_since(begun) < ABLE_WITHIN);
        self.parts.able.send_if_modified(|before| std::mem::replace(before, able) != able);
    }

    pub(super) fn state_event(&mut self, event: StateEvent<BackendFormat>) {
        let now = Instant::now();
        match event {
            StateEvent::Kept(backend, version) => self.parts.state.kept(&backend, version, now),
            StateEvent::Read(epoch, kept) => {
                let holds = self.parts.leadership.borrow().epoch() == Some(epoch);
                if !holds || self.leading.is_some() {
                    // Another epoch has begun since, or is about to be seen.
                    return;
                }
                for StoredRecord { tenant: backend, state, newer } in kept {
                    let (ours, wall) = (&mut self.parts.state, SystemTime::now());
                    match newer {
                        None => ours.restore(&backend, state, now, wall),
                        Some(newer) => {
                            ours.restore_withheld(&backend, state.incarnation, &newer.to_string(), now, wall);
                        }
                    }
                }
                self.lead(Some(epoch));
            }
        }
    }

    fn stand_aside(&mut self, aside: bool) {
        if std::mem::replace(&mut self.aside, aside) == aside {
            return;
        }
        if aside {
            tracing::warn!(
                "the lease has been late for long, and another writer may lead: streams are refused until it is renewed"
            );
        } else if self.leading.is_some() {
            tracing::info!("the lease is renewed: streams are accepted again");
        }
        self.parts.state.stand_aside(aside);
    }

    pub(super) fn lead(&mut self, epoch: Option<u64>) {
        tracing::info!(leading = epoch.is_some(), epoch, "leadership changed");
        self.leading = epoch;
        if epoch.is_none() {
            self.creating.forget();
        }
        self.parts.state.lead(epoch);
    }
}
