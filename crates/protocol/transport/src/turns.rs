//! Limits the concurrent calls of each peer, over all of its connections, so that one certificate cannot use up the
//! server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::Peer;

/// Calls of one peer that are answered concurrently. Further calls wait.
const ASKS: usize = 4;
/// Largest number of calls of one peer that are answered or wait. Further calls are refused.
const CALLS: usize = 64;
/// Largest number of open watches of one peer. Further ones are refused.
const WATCHES: usize = 32;

/// The calls in progress, by peer.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Peers>>>);

#[derive(Debug)]
struct Peers {
    asks: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

/// A slot for one call or watch, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _permits: Vec<OwnedSemaphorePermit>,
    _peer: Arc<Peers>,
}

impl Turns {
    fn of(&self, peer: &Peer) -> Arc<Peers> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Forgets peers without a call in progress.
        peers.retain(|_, peer| Arc::strong_count(peer) > 1);
        let new = || {
            let [asks, waiting, watches] = [ASKS, CALLS, WATCHES].map(|most| Arc::new(Semaphore::new(most)));
            Arc::new(Peers { asks, waiting, watches })
        };
        peers.entry(peer.key().to_owned()).or_insert_with(new).clone()
    }

    /// Waits for a slot for a call.
    ///
    /// # Errors
    /// Returns `RESOURCE_EXHAUSTED` when too many calls of this peer are answered or wait already.
    pub(crate) async fn ask(&self, peer: &Peer) -> Result<Turn, Status> {
        let peer = self.of(peer);
        let full = |_| Status::resource_exhausted(format!("{CALLS} calls of this certificate are under way already"));
        let waiting = peer.waiting.clone().try_acquire_owned().map_err(full)?;
        let asks = peer.asks.clone().acquire_owned().await;
        let asks = asks.map_err(|_| Status::unavailable("the server shuts down"))?;
        Ok(Turn { _permits: vec![waiting, asks], _peer: peer })
    }

    /// Takes a slot for a watch.
    ///
    /// # Errors
    /// Returns `RESOURCE_EXHAUSTED` when this peer has too many open watches.
    pub(crate) fn watch(&self, peer: &Peer) -> Result<Turn, Status> {
        let peer = self.of(peer);
        let full = |_| Status::resource_exhausted(format!("{WATCHES} watches of this certificate are open already"));
        let watch = peer.watches.clone().try_acquire_owned().map_err(full)?;
        Ok(Turn { _permits: vec![watch], _peer: peer })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::PeerCertificate;

    fn peer(name: &str, port: u16) -> Peer {
        let (sans, fingerprint_sha256) = (vec![name.to_owned()], name.to_owned());
        let (not_after, address) = (std::time::SystemTime::UNIX_EPOCH, ([10, 0, 0, 1], port).into());
        Peer::Certificate(Arc::new(PeerCertificate { sans, fingerprint_sha256, not_after, address }))
    }

    #[test]
    fn one_peer_has_so_many_turns_over_all_its_connections() {
        let turns = Turns::default();
        let connections = || (1..=u16::MAX).map(|port| peer("a", port));
        let watches: Vec<_> = connections().map_while(|peer| turns.watch(&peer).ok()).collect();
        assert_eq!(watches.len(), WATCHES);
        assert!(turns.watch(&peer("b", 1)).is_ok(), "another peer has its own");
        let asks: Vec<_> = connections().map_while(|peer| turns.ask(&peer).now_or_never()).collect();
        assert_eq!(asks.len(), ASKS, "the next one waits");
        // The number of waiting calls is limited, too.
        let mut waiting: Vec<_> = (0..200).map(|_| Box::pin(async { turns.ask(&peer("a", 1)).await })).collect();
        let refused = waiting.iter_mut().filter_map(|ask| ask.as_mut().now_or_never()).filter(Result::is_err).count();
        assert_eq!(200 - refused, CALLS - ASKS);
        drop((waiting, asks, watches));
        assert!(turns.watch(&peer("b", 1)).is_ok());
        assert!(turns.0.lock().unwrap().len() <= 1, "who is gone is forgotten");
    }
}
