//! What a discoverer has of its own: a source, and what is known of it.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::SourceKey;
use gimbal_session::{Freshness, Payload, Reject, Scope, Services};

/// Entries that changed, with their newest state; `None` if they are gone.
pub type Changed<P = Services> = Vec<(<P as Payload>::Key, Option<Arc<<P as Payload>::Entry>>)>;

/// How much of a source is known. What is not known is never taken for empty (DESIGN 2.4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Standing {
    /// It has not been read yet.
    #[default]
    Nothing,
    /// All of it.
    Complete,
    /// These parts cannot be seen now, each with its reason; at least one. Where they are namespaces only, everything else
    /// is known. Nothing is to be removed in a part that is unknown, except what the source says is gone.
    Unknown(Vec<(Scope, String)>),
}

/// What an event did to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It told something, or nothing.
    Told,
    /// What was read before does not count: it is read anew from its beginning. The writer keeps what it holds until then.
    StartedOver,
    /// The same, because another source answers in the place of the one before (another incarnation).
    Replaced,
}

/// What is known of a source: what inspection, metrics, heartbeats and readiness are told from. It changes only by
/// [`Source::take`] and [`Source::settle`]; implementers keep it free of I/O and of a clock of its own.
pub trait Known {
    /// What the source is, once that is known: the same for as long as its contents may be compared (DESIGN 4). The UID
    /// of the namespace `kube-system`; Keystone's URL and the region.
    fn incarnation(&self) -> Option<&str>;

    /// Where the incarnation is read, in a few words for people: "namespace kube-system".
    fn identified_by(&self) -> &'static str;

    /// Why the incarnation cannot be read now, if it has to be read at all.
    fn identity_trouble(&self) -> Option<&str> {
        None
    }

    /// How much is known.
    fn standing(&self) -> Standing;

    /// Whether what is known is all that there is, apart from what [`Known::standing`] calls unknown. False where there may
    /// be parts that cannot be named yet; it counts as an incomplete source, and holds up nothing.
    fn is_whole(&self) -> bool {
        true
    }

    /// Whether what is not named is not there. False where the source may have had parts that it does not tell of now, as
    /// after a start: what the writer has of them stands, and all else goes on.
    fn rest_is_known(&self) -> bool {
        true
    }

    /// When the source last said anything, by kind of object ("services", "pools"). The kinds are always the same, in the
    /// same order; they go into heartbeats and a metric.
    fn freshness(&self, now: Instant) -> Vec<Freshness>;

    /// What is wrong with the source now, in one line, without a secret. It may be wrong before anything is unknown.
    fn trouble(&self) -> Option<String>;

    /// What is left out, counted by reason, for a metric. A reason that was given once and is no more counts as none.
    fn skipped(&self) -> Vec<(&'static str, u64)>;

    /// Why a Service is offered as it is, or why not, in sentences. For keys that are not offered too.
    fn explain(&self, key: &SourceKey) -> Vec<String>;
}

/// A source and the way to it. One task calls everything here, so nothing blocks and nothing is locked.
///
/// [`Source::event`] is the edge: it waits for what a watch, a poll's task or a timer tells. All the rest is called between two
/// waits and changes state only. An implementer is a thin edge around a pure [`Known`] state that is tested by itself.
pub trait Source: Send + 'static {
    /// What the edge tells: one watch event, or the whole result of a poll.
    type Event: Send;
    /// The state.
    type Known: Known;

    /// The next event; for ever, where there is none. Cancelled and called again for each thing that happens elsewhere:
    /// no event may be lost by that.
    fn event(&mut self) -> impl Future<Output = Self::Event> + Send;

    /// Takes an event. Up to some hundred are taken before [`Source::settle`].
    fn take(&mut self, event: Self::Event, now: Instant) -> Taken;

    /// What changed since the last call. Called after every turn of the task, so it costs next to nothing when nothing did.
    /// A poller gives the differences between what it offered before and what it offers now.
    ///
    /// What it leaves out stays as it was: a key in an unknown scope is simply not named.
    fn settle(&mut self, now: Instant) -> Changed;

    /// When [`Source::settle`] has something to say without an event: a patience that ends.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// What is known now.
    fn known(&self) -> &Self::Known;

    /// The writer rejects a Service, or holds changes of it: told once for each key and reason, so that the source can
    /// tell the Service's owner. `reject.message` is a sentence for people.
    fn rejected(&mut self, _key: &SourceKey, _reject: &Reject) {}

    /// What was told to [`Source::rejected`] is over: the writer took the Service, or it is gone from the source.
    fn resolved(&mut self, _key: &SourceKey) {}
}
