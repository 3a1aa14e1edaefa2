//! How far the routes of routers are.

use std::time::Duration;

use gimbal_kuryr_model::{DesiredEntry, ReportedCondition, ReportedRoutes, RouteDifference, RouteState, Text};
use gimbal_octavia_plan::{Block, RouteGap, RouteObstacle};

use crate::cell::Cell;
use crate::cluster::ManagedCluster;

/// The most differences in a report, which has to fit into a frame.
const MOST_DIFFERENCES: usize = 1_000;

impl ManagedCluster {
    /// Notes how far the routes of a router are, if that is certain. Else what was certain before still is.
    pub(crate) fn note_routes(&mut self, owner: &Text, cell: &mut Cell, at: Duration) {
        let DesiredEntry::LoadBalancer(wanted) = cell.wanted() else { return };
        let generation = wanted.generation;
        let Some(gaps) = cell.actor.route_gaps(&self.facts, at) else { return };
        let words = cell.last_error.clone().unwrap_or_default();
        let differences = bounded(gaps.into_iter().map(|gap| difference(gap, &words)).collect());
        let routes = ReportedRoutes { generation, differences };
        if cell.routes.as_deref() != Some(&routes) {
            cell.routes = Some(Box::new(routes));
            self.told.insert(owner.clone());
        }
    }
}

impl Cell {
    /// Called when something else is wanted. Where the cluster's store went back, a generation that comes again is another one.
    pub(crate) fn forget_later_routes(&mut self, entry: &DesiredEntry) {
        self.routes.take_if(|routes| match entry {
            DesiredEntry::LoadBalancer(wanted) => routes.generation >= wanted.generation,
            DesiredEntry::Deleting { .. } => true,
        });
    }
}

fn difference(gap: RouteGap, last_error: &str) -> RouteDifference {
    let why = gap.why.map(|why| {
        let (kind, reason, message) = match &why {
            RouteObstacle::Inexpressible(words) => ("Unsupported", "InexpressibleRoute", words.as_str()),
            RouteObstacle::Blocked(block) => as_condition(block, last_error),
        };
        ReportedCondition { kind: kind.into(), reason: reason.into(), message: message.into() }
    });
    RouteDifference { route: gap.name, state: gap.state, why }
}

/// Of those that there is no room for only that there are some is said.
fn bounded(mut differences: Vec<RouteDifference>) -> Vec<RouteDifference> {
    if differences.len() > MOST_DIFFERENCES {
        let cut = differences.split_off(MOST_DIFFERENCES);
        for state in [RouteState::Left, RouteState::Missing] {
            if cut.iter().any(|one| one.state == state) {
                differences.push(RouteDifference { route: Text::default(), state, why: None });
            }
        }
    }
    differences
}

/// Returns type, reason and words of the condition that says why something is left alone.
pub(crate) fn as_condition<'a>(block: &'a Block, last_error: &'a str) -> (&'static str, &'static str, &'a str) {
    match block {
        Block::Quota(words) => ("QuotaExceeded", "Quota", words.as_str()),
        Block::Forbidden(words) => ("Degraded", "Forbidden", words.as_str()),
        Block::Invalid(words) => ("Degraded", "Invalid", words.as_str()),
        Block::Unsupported(words) => ("Unsupported", "Provider", words.as_str()),
        Block::Conflict(words) => ("Conflict", "InUse", words.as_str()),
        Block::Certificate(words) => ("Degraded", "Certificate", words.as_str()),
        Block::Failing => ("Degraded", "Failing", last_error),
        Block::RepairBudget => {
            let words = "it was made again too often, and is left as it is for now";
            ("Degraded", ReportedCondition::REPAIR_BUDGET, words)
        }
    }
}
