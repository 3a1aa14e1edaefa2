//! Whether routers serve, as far as Octavia has said.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::DesiredEntry;
use gimbal_octavia_plan::Provisioning;
use serde_json::Value;

use crate::cell::Cell;
use crate::owner_look::{OwnerRows, ids};

/// How long Octavia may show OFFLINE of one that serves: of a new one until its first heartbeat, and these come every ten seconds.
const UNHEARD: Duration = Duration::from_secs(60);

/// Whether a router serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RouterHealth {
    /// Nothing speaks against it.
    #[default]
    Serves,
    /// It may be OFFLINE since then, for Octavia has heard nothing of it.
    Unheard(Instant),
    /// Its load balancer went to ERROR, and is not repaired yet.
    Broken,
    /// Its load balancer is ACTIVE, and has this operating status.
    Down(&'static str),
}

impl RouterHealth {
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
                let is_down = |pool: &&Value| pool["operating_status"] == "ERROR";
                let down = rows.pools.values().filter(is_down).count();
                if down == 0 || down == rows.pools.len() { Self::Down("ERROR") } else { Self::Serves }
            }
            "OFFLINE" if is_in_use(row, rows) => match self {
                Self::Serves | Self::Broken => Self::Unheard(now),
                Self::Unheard(since) if since + UNHEARD <= now => Self::Down("OFFLINE"),
                Self::Unheard(_) => self,
                Self::Down(_) => Self::Down("OFFLINE"),
            },
            _ => Self::Serves,
        }
    }

    /// Returns why it does not serve, if that is certain.
    fn fault(self) -> Option<&'static str> {
        match self {
            Self::Serves | Self::Unheard(_) => None,
            Self::Broken => {
                Some("the router's load balancer is in ERROR; it is repaired as often as the budget allows")
            }
            Self::Down("OFFLINE") => Some("the router's load balancer has the operating status OFFLINE"),
            Self::Down(_) => Some("the router's load balancer has the operating status ERROR"),
        }
    }
}

/// Whether there is something that could serve. What is switched off, or has no members, may be OFFLINE.
fn is_in_use(row: &Value, rows: &OwnerRows) -> bool {
    row["admin_state_up"] != false
        && !ids(&row["listeners"]).is_empty()
        && rows.pools.values().any(|pool| !ids(&pool["members"]).is_empty())
}

impl Cell {
    /// Whether it is wanted as a router.
    pub(crate) fn is_router(&self) -> bool {
        match self.wanted() {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.routing.is_some(),
            DesiredEntry::Deleting { .. } => false,
        }
    }

    /// Returns why a router does not serve, if that is certain.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.health.fault().filter(|_| self.is_router())
    }

    /// Takes in what rows show of a router. Returns whether that is something else than before.
    pub(crate) fn see_health(&mut self, rows: &OwnerRows, now: Instant) -> bool {
        if !self.is_router() {
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

    /// Takes in what answers have shown of a router: its load balancer is broken, or is so no longer. Returns whether that is
    /// something else than before.
    pub(crate) fn note_health(&mut self, now: Instant) -> bool {
        if !self.is_router() {
            return false;
        }
        let Some(balancer) = self.actor.balancer() else { return false };
        let noted = match (balancer.provisioning, self.health) {
            (Provisioning::Error, _) => RouterHealth::Broken,
            // Its operating status is the old one until a heartbeat comes, and lists show that.
            (Provisioning::Active, RouterHealth::Broken) => RouterHealth::Unheard(now),
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
        let long_ago = RouterHealth::Unheard(now);
        let (serves, broken) = (RouterHealth::Serves, RouterHealth::Broken);
        for (before, row, expected) in [
            (serves, &offline, RouterHealth::Unheard(now + UNHEARD)),
            (broken, &offline, RouterHealth::Unheard(now + UNHEARD)),
            (RouterHealth::Unheard(now + UNHEARD / 2), &offline, RouterHealth::Unheard(now + UNHEARD / 2)),
            (long_ago, &offline, RouterHealth::Down("OFFLINE")),
            (RouterHealth::Down("ERROR"), &offline, RouterHealth::Down("OFFLINE")),
            (long_ago, &with("admin_state_up", json!(false)), serves),
            (long_ago, &with("listeners", json!([])), serves),
            (long_ago, &with("operating_status", json!("ONLINE")), serves),
            (long_ago, &with("operating_status", json!("DEGRADED")), serves),
            (long_ago, &with("operating_status", json!("NO_MONITOR")), serves),
            (serves, &error, RouterHealth::Down("ERROR")),
            (broken, &error, RouterHealth::Down("ERROR")),
            (serves, &with("provisioning_status", json!("ERROR")), broken),
            // While it is worked on, it is as it was.
            (serves, &with("provisioning_status", json!("PENDING_UPDATE")), serves),
            (broken, &with("provisioning_status", json!("PENDING_UPDATE")), broken),
        ] {
            let pool = json!({"operating_status": "ONLINE", "members": [{"id": "m"}]});
            let down = json!({"operating_status": "ERROR", "members": [{"id": "m"}]});
            let rows = |pools: &[&Value]| {
                let pools = pools.iter().zip(0..).map(|(pool, nth)| (format!("p{nth}"), (*pool).clone())).collect();
                OwnerRows { pools, ..OwnerRows::default() }
            };
            assert_eq!(before.shown(row, &rows(&[&pool]), now + UNHEARD), expected, "{row}");
            let one_down = before.shown(row, &rows(&[&pool, &down]), now + UNHEARD);
            let is_said_of_all = expected == RouterHealth::Down("ERROR");
            assert_eq!(one_down, if is_said_of_all { serves } else { expected }, "{row}");
            let all_down = before.shown(row, &rows(&[&down, &down]), now + UNHEARD);
            assert_eq!(all_down, expected, "{row}");
        }
        assert_eq!(long_ago.shown(&offline, &OwnerRows::default(), now + UNHEARD), serves, "without members");
    }
}
