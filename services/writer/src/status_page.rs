//! What the writer's status page shows.

use std::time::{Duration, Instant};

use gimbal_reconcile::Reconciler;
use gimbal_status_page::{Histories, LagMinute, PageSource};
use gimbal_transport::Inspection as _;
use gimbal_wire::pb;
use tonic::Status;

use crate::inspection_service::{Answers, ended};
use crate::lag::{LagSummary, millis_begun};
use crate::links::Links;

#[tonic::async_trait]
impl PageSource for Answers {
    fn title(&self) -> String {
        "Gimbal writer".to_owned()
    }

    fn standing(&self, _: &[pb::Backend]) -> String {
        self.writer().map(|writer| standing(&writer)).unwrap_or_default()
    }

    async fn histories(&self) -> Result<Option<Histories>, Status> {
        self.owner.ask_with_links(|state, links| Some(histories(state, links))).await.map_err(ended)
    }
}

fn standing(writer: &pb::WriterStanding) -> String {
    match writer {
        writer if writer.leading => format!("This writer leads: {}", writer.leader),
        writer if writer.leader.is_empty() => "No writer leads, so nothing is written".to_owned(),
        writer => format!(
            "This writer does not lead, has no streams and knows only what is published. The leader is {}",
            writer.leader
        ),
    }
}

/// Returns the lag of each backend over the last hour.
fn histories(state: &Reconciler, links: &Links) -> Histories {
    let now = Instant::now();
    let minute = |(age, LagSummary { changes, p99, .. }): (Duration, LagSummary)| LagMinute {
        age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        p99_ms: millis_begun(p99),
        changes,
    };
    let of =
        |name: &gimbal_model::BackendName| (name.to_string(), links.lag_by_minute(name, now).map(minute).collect());
    state.backends().keys().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_names_the_leader() {
        let standing = |leading, leader: &str| standing(&pb::WriterStanding { leading, leader: leader.into() });
        assert_eq!(standing(true, "one"), "This writer leads: one");
        assert!(standing(false, "two").ends_with("The leader is two"));
        assert_eq!(standing(false, ""), "No writer leads, so nothing is written");
    }
}
