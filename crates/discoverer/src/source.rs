//! What each discoverer implements: a source, and the state that is known of it.

use std::future::Future;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use gimbal_model::AddressInSource;
use gimbal_session::{Credit, Freshness, Payload, Reject, Scope, Services};

use crate::from_writer::{ContentRequest, SourceReply, UnhandledReport};
use crate::payload::OfferedPayload;

/// Entries that changed, with their newest state; `None` if they are gone.
pub type Changed<P = Services> = Vec<(<P as Payload>::Key, Option<<P as Payload>::Kept>)>;

/// How much of a source is known. What is unknown is never taken for empty (docs/design.md#rule-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Coverage {
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
pub enum EventEffect {
    /// The source continues.
    Continues,
    /// The source is read again from the beginning, and nothing read before counts. The writer keeps what it holds
    /// until the new reading is complete.
    StartedOver,
    /// Like `StartedOver`, because another source (another incarnation) now answers at the same place.
    Replaced,
}

/// Whether this process may speak to the writer. Of several processes beside one source, only one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaySpeak {
    /// It may.
    Yes,
    /// Nothing is sent now. An open stream stays open, because another process may not have been chosen yet.
    NotNow,
    /// Another process speaks. An open stream ends without another message, and none is opened.
    No,
}

/// The known state of a source, which inspection, metrics, heartbeats and readiness report. Only [`Source::apply`] and
/// [`Source::drain`] change it. Implementations do no I/O and have no clock.
pub trait SourceStatus<P: Payload = Services> {
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
    fn coverage(&self) -> Coverage;

    /// Returns whether the source has no parts beside the known ones and those that [`SourceStatus::coverage`] lists as
    /// unknown. If it may have others, the source counts as incomplete, but nothing waits for them.
    fn is_whole(&self) -> bool {
        true
    }

    /// Returns whether the process is ready, as far as the source decides: by default, when all of it is known. A source
    /// that is known only together with what the writer says is ready before that.
    fn is_ready(&self) -> bool {
        self.coverage() == Coverage::Complete && self.is_whole()
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

    /// Returns what is wrong as [`Self::trouble`] does, but nothing that a server or a plug-in said, which may contain more than
    /// everybody should see who reaches the status page.
    fn public_trouble(&self) -> Option<String> {
        self.trouble()
    }

    /// Returns how long before [`Source::drain`] returned it last the change of a key began in the source; `None` if the
    /// source does not say.
    fn caused(&self, _key: &P::Key) -> Option<Duration> {
        None
    }

    /// Returns the number of objects left out, by reason, for a metric. A reason that is no longer listed counts as 0.
    fn skipped(&self) -> Vec<(&'static str, u64)>;

    /// Returns why an entry is offered as it is, or why it is not offered, in sentences.
    fn explain(&self, key: &P::Key) -> Vec<String>;

    /// Returns the objects of the source that have an address of an entry, and why it is offered as it is, or why it is
    /// not. The default is for sources whose entries have no addresses.
    fn explain_address(&self, _key: &P::Key, _address: IpAddr) -> AddressInSource {
        AddressInSource::default()
    }
}

/// A source and the connection to it. One task calls all methods, so they must not block and need no locks.
///
/// Only [`Source::event`] does I/O: it waits for a watch, a polling task or a timer. The other methods only change
/// state. An implementation is a thin layer around a pure [`SourceStatus`] state, which is tested by itself.
///
/// The methods about reports, facts and contents matter only for payloads that have them; Services have none.
pub trait Source<P: OfferedPayload = Services>: Send + 'static {
    /// One watch event, or the whole result of a poll.
    type Event: Send;
    /// The known state.
    type Status: SourceStatus<P>;

    /// Waits for the next event. The future is dropped and made again often; no event may be lost by that.
    fn event(&mut self) -> impl Future<Output = Self::Event> + Send;

    /// Applies an event. Up to a few hundred are applied before [`Source::drain`] is called.
    fn apply(&mut self, event: Self::Event, now: Instant) -> EventEffect;

    /// Returns what changed since the last call. Called after every turn of the task, so it must be cheap when nothing
    /// changed. A source that polls returns the difference between its last two results.
    ///
    /// A key that is not returned stays as it was, such as one in an unknown scope.
    fn drain(&mut self, now: Instant) -> Changed<P>;

    /// Returns when [`Source::drain`] has to be called without an event, for a timeout.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns the known state.
    fn status(&self) -> &Self::Status;

    /// Returns whether this process may speak to the writer now. Asked before each message and once a turn, so a right that
    /// ends by time needs no event; one that begins does.
    fn may_speak(&self) -> MaySpeak {
        MaySpeak::Yes
    }

    /// Called whenever the writer rejects an entry or holds its changes, so that the source can notify the entry's owner:
    /// once for each change of what it says, and again on every new stream. So is an entry that fits in no frame, which is
    /// rejected before it is sent. `reject.message` is a sentence to show to the owner. `is_known` says that the entry was
    /// rejected for this reason before, as far as that is remembered.
    fn rejected(&mut self, _key: &P::Key, _reject: &Reject<P>, _is_known: bool) {}

    /// Called when a reject ends, because the writer accepted the entry or the source removed it. One that ended between two
    /// streams ends with the first report of its entry on the second one; where the writer sends no reports, some time after
    /// that began.
    fn resolved(&mut self, _key: &P::Key) {}

    /// Called when the writer took a new stream in. On it the rejects that hold are said again, each before a report of
    /// its entry; of one that ended meanwhile nothing is said.
    fn stream_opened(&mut self) {}

    /// Returns how many reports, and how many bytes of them, may be on their way at a time. `None`, the default, means that the
    /// writer sends no reports. It does not bound how many wait for [`SourceReply::Handled`]: each report is handed over as it
    /// comes, so a source keeps the newest of each entry.
    fn report_credit(&self) -> Option<Credit> {
        None
    }

    /// Called with each report of the writer; the latest of an entry replaces those before it. On every new stream the
    /// writer sends its latest reports again, handled or not.
    fn report_received(&mut self, _report: UnhandledReport<P>) {}

    /// Called with what the writer says about itself: on every new stream, and when it changes.
    fn facts_received(&mut self, _facts: &P::Facts) {}

    /// Called when the writer asks for a content. The answer is a [`SourceReply::Content`], now or later. A request that
    /// is not answered within 30 seconds comes again, and so it does on the next stream.
    fn content_requested(&mut self, _request: ContentRequest<P>) {}

    /// Returns the replies to the writer since the last call. Called as often as [`Source::drain`].
    fn drain_replies(&mut self) -> Vec<SourceReply<P>> {
        Vec::new()
    }
}
