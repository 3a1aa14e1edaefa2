//! `gimbalctl lb watch`: what there is, and then each change.

use std::collections::BTreeMap;

use gimbal_kuryr_wire::pb;
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use pb::inspection_service_client::InspectionServiceClient;
use pb::watch_response::Event;
use serde_json::json;

use super::{WhichOnes, heads, json_of, name, namespace_of, row};
use crate::output::{OutputForm, print};
use crate::refusal::failed;
use crate::table::columns;

/// Prints what there is, and then each change.
///
/// # Errors
/// The server's refusal, or the end of the stream.
pub async fn watch(which: WhichOnes, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let request = pb::WatchRequest { cluster: which.cluster, namespace: namespace_of(which.namespace) };
    let mut events = InspectionServiceClient::new(channel).watch(request).await.map_err(failed)?.into_inner();
    let mut table = WatchedTable::default();
    while let Some(event) = events.message().await.map_err(failed)? {
        let Some(event) = event.event else { continue };
        if matches!(&event, Event::LoadBalancer(status) if which.trouble && status.phase() == pb::Phase::Ready) {
            continue;
        }
        let text = match output {
            OutputForm::Table => table.lines(&event),
            OutputForm::Json => event_line(&event),
        };
        if !text.is_empty() {
            print(&text)?;
        }
    }
    Err(Exit::Failure("the server ended the stream: watch again".to_owned()))
}

fn event_line(event: &Event) -> String {
    let event = match event {
        Event::LoadBalancer(status) => json_of(status),
        Event::Gone(gone) => json!({"gone": {"cluster": gone.cluster, "name": name(gone.key.as_ref())}}),
        Event::SnapshotDone(_) => json!({"snapshotDone": true}),
        Event::Restarted(_) => json!({"restarted": true}),
    };
    format!("{event}\n")
}

/// A watch for people: one table of what there is when it begins, and then a line for each change.
#[derive(Debug, Default)]
struct WatchedTable {
    /// Rows of what there is, by cluster and name, until all of that has come.
    first: BTreeMap<(String, String), Vec<String>>,
    is_begun: bool,
}

impl WatchedTable {
    /// Returns what an event adds to what is shown.
    fn lines(&mut self, event: &Event) -> String {
        match event {
            Event::LoadBalancer(status) if self.is_begun => columns(&[row(status)]),
            Event::LoadBalancer(status) => {
                self.first.insert((status.cluster.clone(), name(status.key.as_ref())), row(status));
                String::new()
            }
            Event::Gone(gone) => {
                let key = (gone.cluster.clone(), name(gone.key.as_ref()));
                self.first.remove(&key);
                let line = || columns(&[vec![key.0, key.1, "gone".to_owned()]]);
                if self.is_begun { line() } else { String::new() }
            }
            Event::SnapshotDone(_) if !self.is_begun => {
                self.is_begun = true;
                let rows = std::mem::take(&mut self.first).into_values();
                columns(&std::iter::once(heads()).chain(rows).collect::<Vec<_>>())
            }
            // Everything comes again.
            Event::Restarted(_) => {
                self.first.clear();
                String::new()
            }
            Event::SnapshotDone(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_makes_one_table_and_each_change_a_line() {
        let key = |name: &str| {
            Some(pb::EntryKey { namespace: "shop".to_owned(), name: name.to_owned(), ..pb::EntryKey::default() })
        };
        let one = |name: &str, phase: pb::Phase| {
            Event::LoadBalancer(pb::LoadBalancerStatus {
                cluster: "prod1".to_owned(),
                key: key(name),
                phase: phase.into(),
                ..pb::LoadBalancerStatus::default()
            })
        };
        let gone = |name: &str| Event::Gone(pb::LoadBalancerGone { cluster: "prod1".to_owned(), key: key(name) });
        let mut table = WatchedTable::default();
        for event in [
            one("web", pb::Phase::Making),
            one("more", pb::Phase::Ready),
            one("old", pb::Phase::Ready),
            gone("old"),
            one("web", pb::Phase::Ready),
        ] {
            assert_eq!(table.lines(&event), "", "{event:?}");
        }
        let text = table.lines(&Event::SnapshotDone(pb::watch_response::SnapshotDone {}));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 3 && lines[0].starts_with("CLUSTER"), "{text}");
        assert!(
            lines[1].contains("shop/more") && lines[2].contains("shop/web") && lines[2].contains("ready"),
            "{text}"
        );
        assert!(table.lines(&one("web", pb::Phase::Making)).contains("shop/web"));
        assert_eq!(table.lines(&gone("web")), "prod1  shop/web  gone\n");
    }
}
