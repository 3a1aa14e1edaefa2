//! The mailbox of the owner: messages of agents, and questions of inspection calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use gimbal_model::BackendName;
use gimbal_reconcile::{Claim, Policy, Reconciler};
use gimbal_session::{AgentMessage, Data, Frame, Goodbye, GoodbyeReason, Hello, WriterMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};

use crate::links::Links;

/// Messages that may be pending at the owner. Few, so that a flood stays at the agents.
const MAILBOX: usize = 256;
/// Parts of snapshots that may be pending at the owner, of all streams together. When every agent comes back at once,
/// the other parts stay at the agents, and nothing else waits behind them.
pub(crate) const BULK: usize = 16;
/// Changes of status that a reader of Watch may lag behind.
const TOUCHED: usize = 4096;

pub(crate) type StateQuestion = Box<dyn FnOnce(&mut Reconciler, &Links) + Send>;

/// A message to the owner.
pub(crate) enum Mail {
    /// Opens a stream of an agent that was identified as this backend's.
    Open {
        backend: BackendName,
        /// Policy with which the backend is added if it is not known yet; `None` if a certificate names it, as it is
        /// configured then.
        policy: Option<Box<Policy>>,
        hello: Hello,
        /// When the agent's client certificate ends, if it has one.
        certificate_ends: Option<SystemTime>,
        outgoing: mpsc::Sender<WriterMessage>,
        reply: oneshot::Sender<Result<u64, Goodbye>>,
    },
    Message {
        backend: BackendName,
        generation: u64,
        message: AgentMessage,
        /// Permits that are released once the message is processed: the stream's, and one for a part of a snapshot.
        turns: Vec<OwnedSemaphorePermit>,
    },
    Closed {
        backend: BackendName,
        generation: u64,
    },
    Ask(StateQuestion),
}

/// Sends messages to the owner. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    mail: mpsc::Sender<Mail>,
    bulk: Arc<Semaphore>,
    touched: Touched,
}

/// Notifies readers of Watch of changes of status. A reader of one backend is woken by that backend's changes only,
/// however many changes others have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touched(Arc<Mutex<BTreeMap<Option<BackendName>, broadcast::Sender<Claim>>>>);

impl Touched {
    fn readers(&self) -> MutexGuard<'_, BTreeMap<Option<BackendName>, broadcast::Sender<Claim>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the readers of the backend, and the readers of all backends.
    pub(crate) fn notify(&self, claim: Claim) {
        let mut readers = self.readers();
        for whose in [Some(claim.backend.clone()), None] {
            // An error means that the last reader left.
            if readers.get(&whose).is_some_and(|reader| reader.send(claim.clone()).is_err()) {
                readers.remove(&whose);
            }
        }
    }

    /// Subscribes to the changes of one backend, or of all, from now on.
    fn subscribe(&self, backend: Option<BackendName>) -> broadcast::Receiver<Claim> {
        let mut readers = self.readers();
        readers.retain(|_, reader| reader.receiver_count() > 0);
        readers.entry(backend).or_insert_with(|| broadcast::channel(TOUCHED).0).subscribe()
    }
}

/// The owner has ended, because the process ends.
#[derive(Debug, thiserror::Error)]
#[error("the writer is shutting down")]
pub struct Ended;

impl Handle {
    /// Creates a handle, and the owner's end of it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Mail>, Touched) {
        let (sender, mail) = mpsc::channel(MAILBOX);
        let touched = Touched::default();
        let bulk = Arc::new(Semaphore::new(BULK));
        (Self { mail: sender, bulk, touched: touched.clone() }, mail, touched)
    }

    /// Opens a stream. Messages for the agent go to `outgoing`; it is closed when the stream must end.
    ///
    /// # Errors
    /// Returns the goodbye to answer with.
    pub async fn open(
        &self,
        backend: BackendName,
        policy: Option<Policy>,
        hello: Hello,
        certificate_ends: Option<SystemTime>,
        outgoing: mpsc::Sender<WriterMessage>,
    ) -> Result<u64, Goodbye> {
        let ending = || Goodbye { reason: GoodbyeReason::Shutdown, message: Ended.to_string(), retry_after: None };
        let (reply, answer) = oneshot::channel();
        let policy = policy.map(Box::new);
        let mail = Mail::Open { backend, policy, hello, certificate_ends, outgoing, reply };
        self.mail.send(mail).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())?
    }

    /// Passes on a message of a stream. Waits while the owner is busy, which is the back-pressure. `turn` is one of the
    /// stream's permits, so that no stream fills the mailbox alone. A part of a snapshot also takes one of `BULK`
    /// permits that all streams share, in turn, so that snapshots never fill the mailbox.
    ///
    /// # Errors
    /// Returns an error if the process ends.
    pub async fn message(
        &self,
        backend: &BackendName,
        generation: u64,
        message: AgentMessage,
        turn: OwnedSemaphorePermit,
    ) -> Result<(), Ended> {
        let mut turns = vec![turn];
        if matches!(&message, AgentMessage::Data(Data { frame: Frame::SnapshotChunk { .. }, .. })) {
            turns.push(self.bulk.clone().acquire_owned().await.map_err(|_| Ended)?);
        }
        let mail = Mail::Message { backend: backend.clone(), generation, message, turns };
        self.mail.send(mail).await.map_err(|_| Ended)
    }

    /// Reports that a stream ended. If the owner has ended already, nothing is to be done.
    pub async fn closed(&self, backend: &BackendName, generation: u64) {
        let mail = Mail::Closed { backend: backend.clone(), generation };
        if self.mail.send(mail).await.is_err() {
            tracing::debug!(%backend, generation, "a stream ended after the owner");
        }
    }

    /// Runs `question` on the state, and returns its answer.
    ///
    /// # Errors
    /// Returns an error if the process ends.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Reconciler) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        self.ask_with_links(|state, _| question(state)).await
    }

    /// Like [`Self::ask`], of the links to agents, too.
    pub(crate) async fn ask_with_links<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Reconciler, &Links) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let (reply, answer) = oneshot::channel();
        let question: StateQuestion = Box::new(move |state, links| {
            if reply.send(question(state, links)).is_err() {
                tracing::debug!("whoever asked did not wait for the answer");
            }
        });
        self.mail.send(Mail::Ask(question)).await.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    /// Subscribes to the source Services of one backend, or of all, whose status may have changed, from now on.
    #[must_use]
    pub fn touched(&self, backend: Option<BackendName>) -> broadcast::Receiver<Claim> {
        self.touched.subscribe(backend)
    }
}

#[cfg(test)]
mod tests {
    use gimbal_model::SourceKey;

    use super::*;

    #[test]
    fn who_watches_one_backend_is_woken_by_no_other() {
        let name = |backend: &str| BackendName::parse(backend).unwrap();
        let claim = |backend: &str| Claim { backend: name(backend), key: SourceKey::new("team1", "web") };
        let (handle, _mail, touched) = Handle::new();
        let (mut one, mut all) = (handle.touched(Some(name("a"))), handle.touched(None));
        for backend in ["a", "b", "b", "b"] {
            touched.notify(claim(backend));
        }
        assert_eq!(one.try_recv().unwrap(), claim("a"));
        assert!(one.try_recv().is_err(), "nothing of b");
        assert_eq!(std::iter::from_fn(|| all.try_recv().ok()).count(), 4);
        drop((one, all));
        touched.notify(claim("a"));
        assert!(touched.readers().is_empty(), "without readers, nothing is kept");
    }
}
