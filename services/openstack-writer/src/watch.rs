//! Serves Watch: the present load balancers, a marker, then each change. Changes that occur while a reader is busy are kept as
//! a set of keys, so that a slow reader costs no more memory than a fast one and always gets the last state.

use std::collections::BTreeSet;
use std::convert::Infallible;

use gimbal_kuryr_model::{DesiredKey, Text};
use gimbal_kuryr_wire::pb;
use pb::watch_response::{Event, Restarted, SnapshotDone};
use tokio::sync::{broadcast, mpsc};

use crate::listing::{EntrySelection, status};
use crate::mailbox::{ChangedEntry, OwnerHandle};

/// Why the current round ended.
enum RoundEnd {
    /// The reader is gone, or the process ends.
    Over,
    /// Changes were missed: everything has to be sent again.
    Missed,
}

struct WatchReader {
    owner: OwnerHandle,
    selection: EntrySelection,
    events: mpsc::Sender<pb::WatchResponse>,
    changes: broadcast::Receiver<ChangedEntry>,
    /// Load balancers that changed since they were sent.
    changed: BTreeSet<(Text, DesiredKey)>,
}

/// Sends the selected load balancers and their changes to a reader until it is gone.
pub(crate) async fn follow(owner: OwnerHandle, selection: EntrySelection, events: mpsc::Sender<pb::WatchResponse>) {
    let changes = owner.changed();
    let mut reader = WatchReader { owner, selection, events, changes, changed: BTreeSet::new() };
    loop {
        let Err(end) = reader.run().await;
        match end {
            RoundEnd::Over => return,
            RoundEnd::Missed => {
                reader.changes = reader.owner.changed();
                reader.changed.clear();
                let restarted = pb::WatchResponse { event: Some(Event::Restarted(Restarted {})) };
                if reader.events.send(restarted).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl WatchReader {
    async fn run(&mut self) -> Result<Infallible, RoundEnd> {
        self.send_all().await?;
        loop {
            self.send_next_change().await?;
        }
    }

    async fn send_all(&mut self) -> Result<(), RoundEnd> {
        let mut after = None;
        loop {
            let selection = self.selection.clone();
            let part = self.owner.ask(move |all| selection.part(all, after.as_ref(), false)).await;
            let part = part.map_err(|_| RoundEnd::Over)?;
            for status in part.statuses {
                self.say(Event::LoadBalancer(status)).await?;
            }
            after = part.seen;
            if after.is_none() {
                return self.say(Event::SnapshotDone(SnapshotDone {})).await;
            }
        }
    }

    async fn send_next_change(&mut self) -> Result<(), RoundEnd> {
        let (cluster, key) = loop {
            if let Some(changed) = self.changed.pop_first() {
                break changed;
            }
            tokio::select! {
                () = self.events.closed() => return Err(RoundEnd::Over),
                changed = self.changes.recv() => note(&self.selection, &mut self.changed, changed)?,
            }
        };
        let (of, asked) = (cluster.clone(), key.clone());
        let known = self.owner.ask(move |all| all.get(&of).and_then(|state| status(&of, state, &asked))).await;
        self.say(match known.map_err(|_| RoundEnd::Over)? {
            Some(status) => Event::LoadBalancer(status),
            None => Event::Gone(pb::LoadBalancerGone { cluster: cluster.to_string(), key: Some((&key).into()) }),
        })
        .await
    }

    /// Sends an event. Meanwhile, records what changes.
    async fn say(&mut self, event: Event) -> Result<(), RoundEnd> {
        loop {
            tokio::select! {
                permit = self.events.reserve() => {
                    permit.map_err(|_| RoundEnd::Over)?.send(pb::WatchResponse { event: Some(event) });
                    return Ok(());
                }
                changed = self.changes.recv() => note(&self.selection, &mut self.changed, changed)?,
            }
        }
    }
}

fn note(
    selection: &EntrySelection,
    changed: &mut BTreeSet<(Text, DesiredKey)>,
    next: Result<ChangedEntry, broadcast::error::RecvError>,
) -> Result<(), RoundEnd> {
    match next {
        Ok(next) => {
            if selection.wants(&next) {
                changed.insert((next.cluster, next.key));
            }
            Ok(())
        }
        Err(broadcast::error::RecvError::Lagged(_)) => Err(RoundEnd::Missed),
        Err(broadcast::error::RecvError::Closed) => Err(RoundEnd::Over),
    }
}
