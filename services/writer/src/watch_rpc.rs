//! Serves the Watch call: the current Services, a marker, then each change. Changes that occur while a reader is busy
//! are kept as a set of keys, so that a slow reader costs no more memory than a fast one and always gets the last
//! state.

use std::collections::BTreeSet;
use std::convert::Infallible;

use gimbal_reconcile::Claim;
use gimbal_wire::pb;
use pb::watch_response::{Event, Restarted, SnapshotDone};
use tokio::sync::{broadcast, mpsc};

use crate::listing::{ServiceSelection, status};
use crate::mailbox::Handle;

/// Why the current round ended.
enum Stop {
    /// The reader is gone, or the process ends.
    Over,
    /// Changes were missed: everything has to be sent again.
    Missed,
}

struct Follower {
    owner: Handle,
    selection: ServiceSelection,
    events: mpsc::Sender<pb::WatchResponse>,
    touched: broadcast::Receiver<Claim>,
    /// Services that changed since they were sent.
    changed: BTreeSet<Claim>,
}

/// Sends the selected Services and their changes to a reader until it is gone.
pub(crate) async fn follow(owner: Handle, selection: ServiceSelection, events: mpsc::Sender<pb::WatchResponse>) {
    let touched = owner.touched(selection.only_backend());
    let mut follower = Follower { owner, selection, events, touched, changed: BTreeSet::new() };
    loop {
        let Err(stop) = follower.run().await;
        match stop {
            Stop::Over => return,
            Stop::Missed => {
                follower.touched = follower.owner.touched(follower.selection.only_backend());
                follower.changed.clear();
                let restarted = pb::WatchResponse { event: Some(Event::Restarted(Restarted {})) };
                if follower.events.send(restarted).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Follower {
    async fn run(&mut self) -> Result<Infallible, Stop> {
        self.send_all().await?;
        loop {
            self.send_next_change().await?;
        }
    }

    async fn send_all(&mut self) -> Result<(), Stop> {
        let mut after = None;
        loop {
            let selection = self.selection.clone();
            let part = self.owner.ask(move |state| selection.part(state, after.as_ref(), |_| true)).await;
            let part = part.map_err(|_| Stop::Over)?;
            for service in part.services {
                self.tell(Event::Service(service)).await?;
            }
            after = part.seen;
            if after.is_none() {
                return self.tell(Event::SnapshotDone(SnapshotDone {})).await;
            }
        }
    }

    async fn send_next_change(&mut self) -> Result<(), Stop> {
        let claim = loop {
            if let Some(claim) = self.changed.pop_first() {
                break claim;
            }
            tokio::select! {
                () = self.events.closed() => return Err(Stop::Over),
                touched = self.touched.recv() => note(&self.selection, &mut self.changed, touched)?,
            }
        };
        let asked = claim.clone();
        let known = self.owner.ask(move |state| state.status(&asked).as_ref().map(status)).await;
        self.tell(match known.map_err(|_| Stop::Over)? {
            Some(known) => Event::Service(known),
            None => {
                let source = Some((&claim.key).into());
                Event::Gone(pb::ServiceGone { backend: claim.backend.to_string(), source })
            }
        })
        .await
    }

    /// Sends an event. Meanwhile, records what changes.
    async fn tell(&mut self, event: Event) -> Result<(), Stop> {
        loop {
            tokio::select! {
                permit = self.events.reserve() => {
                    permit.map_err(|_| Stop::Over)?.send(pb::WatchResponse { event: Some(event) });
                    return Ok(());
                }
                touched = self.touched.recv() => note(&self.selection, &mut self.changed, touched)?,
            }
        }
    }
}

fn note(
    selection: &ServiceSelection,
    changed: &mut BTreeSet<Claim>,
    touched: Result<Claim, broadcast::error::RecvError>,
) -> Result<(), Stop> {
    match touched {
        Ok(claim) => {
            if selection.wants(&claim) {
                changed.insert(claim);
            }
            Ok(())
        }
        Err(broadcast::error::RecvError::Lagged(_)) => Err(Stop::Missed),
        Err(broadcast::error::RecvError::Closed) => Err(Stop::Over),
    }
}
