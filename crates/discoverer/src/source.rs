//! What each discoverer implements: a source, and the state that is known of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::SourceKey;
use gimbal_session::{Freshness, Payload, Reject, Scope, Services};

/// Entries that changed, with their newest state; `None` if they are gone.
pub type Changed<P = Services> = Vec<(<P as Payload>::Key, Option<Arc<<P as Payload>::Entry>>)>;

/// How much of a source is known. What is unknown is never taken for empty (docs/design.md#rule-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Standing {
    /// The source has not been read yet.
    #[default]
    Nothing,
    /// The whole source is known.
    Complete,
    /// These parts cannot be read now, each with its reason; there is at least one. If they are all namespaces, the
    /// rest of the source is known. What is absent from an unknown part is not removed; only removals that the source
    /// reports explicitly count there.
    Unknown(Vec<(Scope, String)>),
}

/// The effect of an event on the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The source continues.
    Told,
    /// The source is read again from the beginning, and nothing read before counts. The writer keeps what it holds
    /// until the new reading is complete.
    StartedOver,
    /// Like `StartedOver`, because another source (another incarnation) now answers at the same place.
    Replaced,
}

/// The known state of a source, which inspection, metrics, heartbeats and readiness report. Only [`Source::take`] and
/// [`Source::settle`] change it. Implementations do no I/O and have no clock.
pub trait Known {
    /// Returns the identity of the source, once it is known: the UID of the namespace `kube-system`, or Keystone's URL
    /// and the region. It stays the same for as long as the contents of the source may be compared.
    fn incarnation(&self) -> Option<&str>;

    /// Returns a description of where the identity is read, such as "namespace kube-system".
    fn identified_by(&self) -> &'static str;

    /// Returns why the identity cannot be read now, if it has to be read.
    fn identity_trouble(&self) -> Option<&str> {
        None
    }

    /// Returns how much of the source is known.
    fn standing(&self) -> Standing;

    /// Returns whether the source has no parts beside the known ones and those that [`Known::standing`] lists as
    /// unknown. If it may have others, the source counts as incomplete, but nothing waits for them.
    fn is_whole(&self) -> bool {
        true
    }

    /// Returns whether parts that are not listed do not exist. After a start, a source may be unable to list all parts
    /// that it had; the writer then keeps what it holds of unlisted parts.
    fn rest_is_known(&self) -> bool {
        true
    }

    /// Returns the time since the last response of the source, by kind of object ("services", "pools"), for heartbeats
    /// and a metric. The kinds and their order never change.
    fn freshness(&self, now: Instant) -> Vec<Freshness>;

    /// Returns what is wrong with the source now, in one line and without secrets. Something may be wrong before
    /// anything is unknown.
    fn trouble(&self) -> Option<String>;

    /// Returns the number of objects left out, by reason, for a metric. A reason that is no longer listed counts as 0.
    fn skipped(&self) -> Vec<(&'static str, u64)>;

    /// Returns why a Service is offered as it is, or why it is not offered, in sentences.
    fn explain(&self, key: &SourceKey) -> Vec<String>;
}

/// A source and the connection to it. One task calls all methods, so they must not block and need no locks.
///
/// Only [`Source::event`] does I/O: it waits for a watch, a polling task or a timer. The other methods only change
/// state. An implementation is a thin layer around a pure [`Known`] state, which is tested by itself.
pub trait Source: Send + 'static {
    /// One watch event, or the whole result of a poll.
    type Event: Send;
    /// The known state.
    type Known: Known;

    /// Waits for the next event. The future is dropped and made again often; no event may be lost by that.
    fn event(&mut self) -> impl Future<Output = Self::Event> + Send;

    /// Applies an event. Up to a few hundred are applied before [`Source::settle`] is called.
    fn take(&mut self, event: Self::Event, now: Instant) -> Taken;

    /// Returns what changed since the last call. Called after every turn of the task, so it must be cheap when nothing
    /// changed. A source that polls returns the difference between its last two offers.
    ///
    /// A key that is not returned stays as it was, such as one in an unknown scope.
    fn settle(&mut self, now: Instant) -> Changed;

    /// Returns when [`Source::settle`] has to be called without an event, for a timeout.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns the known state.
    fn known(&self) -> &Self::Known;

    /// Called once for each key and reason when the writer rejects a Service or holds its changes, so that the source
    /// can notify the Service's owner. `reject.message` is a sentence to show to the owner.
    fn rejected(&mut self, _key: &SourceKey, _reject: &Reject) {}

    /// Called when a reject ends, because the writer accepted the Service or the source removed it.
    fn resolved(&mut self, _key: &SourceKey) {}
}
