//! Whether load balancers serve, as far as Octavia has said.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::DesiredEntry;
use gimbal_octavia_plan::Provisioning;
use serde_json::Value;

use crate::cell::Cell;
use crate::owner_look::{OwnerRows, ids};

/// How long Octavia may show OFFLINE of one that serves: of a new one until its first heartbeat, and these come every ten seconds.
const UNHEARD: Duration = Duration::from_secs(60);

/// Whether a load balancer serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BalancerHealth {
    /// Nothing is known of it yet.
    #[default]
    Unseen,
    /// This process has asked for it: that it is OFFLINE at first says nothing.
    New,
    /// Nothing speaks against it.
    Serves,
    /// It was OFFLINE when this process saw it first, then: it may have been so for long, or may be new.
    Found(Instant),
    /// It may be OFFLINE since then, for Octavia has heard nothing of it.
    Unheard(Instant),
    /// It went to ERROR, and is not repaired yet.
    Broken,
    /// It is ACTIVE, and has this operating status.
    Down(&'static str),
}

impl BalancerHealth {
    /// Returns what rows make of it: that of the load balancer, and those of its parts.
    fn shown(self, row: &Value, rows: &OwnerRows, now: Instant) -> Self {
        let word = |key: &str| row[key].as_str().unwrap_or_default();
        let provisioning = Provisioning::read(word("provisioning_status"));
        if provisioning == Provisioning::Error {
            return Self::Broken;
        }
        if provisioning.is_pending() {
            return self;
        }
        match word("operating_status") {
            // Octavia says so of all when the members of one pool are down; the others are served.
            "ERROR" => {
                let pools = rows.pools.values().filter(|pool| has_members(pool));
                let (down, up): (Vec<_>, Vec<_>) = pools.partition(|pool| pool["operating_status"] == "ERROR");
                if down.is_empty() || up.is_empty() { Self::Down("ERROR") } else { Self::Serves }
            }
            "OFFLINE" if is_in_use(row, rows) => match self {
                Self::Unseen => Self::Found(now),
                Self::New | Self::Serves | Self::Broken => Self::Unheard(now),
                Self::Found(since) | Self::Unheard(since) if since + UNHEARD <= now => Self::Down("OFFLINE"),
                Self::Found(_) | Self::Unheard(_) => self,
                Self::Down(_) => Self::Down("OFFLINE"),
            },
            _ => Self::Serves,
        }
    }

    /// Returns why it does not serve, if that is certain.
    fn fault(self) -> Option<&'static str> {
        match self {
            Self::Unseen | Self::New | Self::Serves | Self::Found(_) | Self::Unheard(_) => None,
            Self::Broken => Some("the load balancer is in ERROR; it is repaired as often as the budget allows"),
            Self::Down("OFFLINE") => Some("the load balancer has the operating status OFFLINE"),
            Self::Down(_) => Some("the load balancer has the operating status ERROR"),
        }
    }
}

/// Whether there is something that could serve. What is switched off, or has no members, may be OFFLINE.
fn is_in_use(row: &Value, rows: &OwnerRows) -> bool {
    row["admin_state_up"] != false && !ids(&row["listeners"]).is_empty() && rows.pools.values().any(has_members)
}

fn has_members(pool: &Value) -> bool {
    !ids(&pool["members"]).is_empty()
}

impl Cell {
    /// Whether it is wanted as a router.
    pub(crate) fn is_router(&self) -> bool {
        match self.wanted() {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.routing.is_some(),
            DesiredEntry::Deleting { .. } => false,
        }
    }

    /// Returns why its load balancer does not serve, if it is wanted and that is certain.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.health.fault().filter(|_| !self.is_deleting())
    }

    /// Whether it is not known yet if its load balancer serves.
    pub(crate) fn may_be_down(&self) -> bool {
        matches!(self.health, BalancerHealth::Found(_))
    }

    /// Takes note that a load balancer is asked for. Where another one serves until then, its health is that of the owner.
    pub(crate) fn asks_for_balancer(&mut self) {
        if !self.actor.has_balancer() {
            self.health = BalancerHealth::New;
        }
    }

    /// Takes in what rows show that were read from `now` on. Returns whether that is something else than before.
    pub(crate) fn see_health(&mut self, rows: &OwnerRows, now: Instant) -> bool {
        if self.is_deleting() {
            return false;
        }
        // What rests is unpacked only where that is needed.
        let row = match rows.balancers.as_slice() {
            [row] => Some(row),
            several => self.actor.balancer().and_then(|lb| several.iter().find(|row| row["id"] == *lb.id)),
        };
        let Some(row) = row else { return false };
        let shown = self.health.shown(row, rows, now);
        std::mem::replace(&mut self.health, shown) != shown
    }

    /// Takes in what answers have shown: its load balancer is broken, or is so no longer. Returns whether that is something else
    /// than before.
    pub(crate) fn note_health(&mut self, now: Instant) -> bool {
        if self.is_deleting() {
            return false;
        }
        let seen = &self.actor.seen().balancers;
        let only = seen.first().filter(|_| seen.len() == 1);
        let Some(balancer) = only.or_else(|| self.actor.balancer()) else { return false };
        let noted = match (balancer.provisioning, self.health) {
            (Provisioning::Error, _) => BalancerHealth::Broken,
            // Its operating status is the old one until a heartbeat comes, and lists show that.
            (Provisioning::Active, BalancerHealth::Broken) => BalancerHealth::Unheard(now),
            // What was there before was seen in rows first.
            (Provisioning::Active, BalancerHealth::Unseen | BalancerHealth::New) => BalancerHealth::Serves,
            (_, before) => before,
        };
        std::mem::replace(&mut self.health, noted) != noted
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_rows_show() {
        let now = Instant::now();
        let offline =
            json!({"provisioning_status": "ACTIVE", "operating_status": "OFFLINE", "listeners": [{"id": "l"}]});
        let with = |key: &str, value: Value| {
            let mut row = offline.clone();
            row[key] = value;
            row
        };
        let error = with("operating_status", json!("ERROR"));
        let long_ago = BalancerHealth::Unheard(now);
        let (serves, broken) = (BalancerHealth::Serves, BalancerHealth::Broken);
        for (before, row, expected) in [
            (BalancerHealth::Unseen, &offline, BalancerHealth::Found(now + UNHEARD)),
            (BalancerHealth::New, &offline, BalancerHealth::Unheard(now + UNHEARD)),
            (BalancerHealth::New, &with("provisioning_status", json!("PENDING_CREATE")), BalancerHealth::New),
            (BalancerHealth::Found(now + UNHEARD / 2), &offline, BalancerHealth::Found(now + UNHEARD / 2)),
            (BalancerHealth::Found(now), &offline, BalancerHealth::Down("OFFLINE")),
            (BalancerHealth::Found(now), &with("operating_status", json!("ONLINE")), serves),
            (serves, &offline, BalancerHealth::Unheard(now + UNHEARD)),
            (broken, &offline, BalancerHealth::Unheard(now + UNHEARD)),
            (BalancerHealth::Unheard(now + UNHEARD / 2), &offline, BalancerHealth::Unheard(now + UNHEARD / 2)),
            (long_ago, &offline, BalancerHealth::Down("OFFLINE")),
            (BalancerHealth::Down("ERROR"), &offline, BalancerHealth::Down("OFFLINE")),
            (long_ago, &with("admin_state_up", json!(false)), serves),
            (long_ago, &with("listeners", json!([])), serves),
            (long_ago, &with("operating_status", json!("ONLINE")), serves),
            (long_ago, &with("operating_status", json!("DEGRADED")), serves),
            (long_ago, &with("operating_status", json!("NO_MONITOR")), serves),
            (serves, &error, BalancerHealth::Down("ERROR")),
            (broken, &error, BalancerHealth::Down("ERROR")),
            (serves, &with("provisioning_status", json!("ERROR")), broken),
            // While it is worked on, it is as it was.
            (serves, &with("provisioning_status", json!("PENDING_UPDATE")), serves),
            (broken, &with("provisioning_status", json!("PENDING_UPDATE")), broken),
        ] {
            let pool = json!({"operating_status": "ONLINE", "members": [{"id": "m"}]});
            let down = json!({"operating_status": "ERROR", "members": [{"id": "m"}]});
            let empty = json!({"operating_status": "ONLINE", "members": []});
            let rows = |pools: &[&Value]| {
                let pools = pools.iter().zip(0..).map(|(pool, nth)| (format!("p{nth}"), (*pool).clone())).collect();
                OwnerRows { pools, ..OwnerRows::default() }
            };
            assert_eq!(before.shown(row, &rows(&[&pool]), now + UNHEARD), expected, "{row}");
            let one_down = before.shown(row, &rows(&[&pool, &down]), now + UNHEARD);
            let is_said_of_all = expected == BalancerHealth::Down("ERROR");
            assert_eq!(one_down, if is_said_of_all { serves } else { expected }, "{row}");
            for all_down in [rows(&[&down, &down]), rows(&[&down, &empty])] {
                assert_eq!(before.shown(row, &all_down, now + UNHEARD), expected, "{row}");
            }
        }
        assert_eq!(long_ago.shown(&offline, &OwnerRows::default(), now + UNHEARD), serves, "without members");
    }
}
