//! The handle of the task.

use gimbal_kubernetes_client::Cluster;
use gimbal_lease::Leadership;
use tokio::sync::{mpsc, watch};

use crate::Format;
use crate::store::{RecordChange, RecordOf, Store};
use crate::task::{Request, Task};

/// An event that the task reports.
pub enum StateEvent<F: Format> {
    /// The API server has accepted this version of a tenant's state, and with it all earlier ones.
    Kept(F::Tenant, u64),
    /// The stored state of every tenant, read in this epoch.
    Read(u64, Vec<RecordOf<F>>),
}

impl<F: Format> std::fmt::Debug for StateEvent<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kept(tenant, version) => f.debug_tuple("Kept").field(tenant).field(version).finish(),
            Self::Read(epoch, states) => f.debug_tuple("Read").field(epoch).field(states).finish(),
        }
    }
}

impl<F: Format> PartialEq for StateEvent<F> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kept(tenant, version), Self::Kept(t, v)) => tenant == t && version == v,
            (Self::Read(epoch, states), Self::Read(e, s)) => epoch == e && states == s,
            _ => false,
        }
    }
}

/// Sends requests to the task that keeps the records. When it is dropped, the task ends once it has written what is
/// pending, and after a second at the latest.
pub struct StateKeeper<F: Format> {
    requests: mpsc::UnboundedSender<Request<F>>,
    events: mpsc::UnboundedReceiver<StateEvent<F>>,
}

impl<F: Format> StateKeeper<F> {
    /// Creates the keeper and its task, which works while this process leads. `cluster` should withhold writes once the
    /// lease has ended.
    pub fn new(
        cluster: Cluster,
        namespace: &str,
        leadership: watch::Receiver<Leadership>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (publish, events) = mpsc::unbounded_channel();
        let store = Store::new(cluster, namespace);
        (Self { requests, events }, Task::new(store, leadership, publish).run(receiver))
    }

    /// Requests the records of every tenant. Retried until it works or the epoch ends; answered by
    /// [`StateEvent::Read`].
    pub fn read(&self, epoch: u64) {
        self.request(Request::Read(epoch));
    }

    /// Requests that a state that was decided in this epoch is kept. Answered by [`StateEvent::Kept`], unless the epoch
    /// ends first; a newer version replaces one that is still pending.
    pub fn keep(&self, epoch: u64, tenant: F::Tenant, version: u64, state: F::State) {
        self.request(Request::Change(epoch, tenant, RecordChange::Keep(version, state)));
    }

    /// Requests that a tenant's record is deleted.
    pub fn forget(&self, epoch: u64, tenant: F::Tenant) {
        self.request(Request::Change(epoch, tenant, RecordChange::Forget));
    }

    fn request(&self, request: Request<F>) {
        if self.requests.send(request).is_err() {
            tracing::error!("the task that keeps the state has ended");
        }
    }

    /// Returns the next event, or `None` when the task has ended.
    pub async fn next(&mut self) -> Option<StateEvent<F>> {
        self.events.recv().await
    }
}
