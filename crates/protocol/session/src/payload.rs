//! What a session carries.
//!
//! [`AgentEnd`](crate::AgentEnd) and [`WriterEnd`](crate::WriterEnd) keep two copies of a keyed set equal and know
//! nothing of its content. A [`Payload`] names the types; its [`Entry`] says how an entry is digested, compared,
//! divided and measured. Everything is dispatched statically.
//!
//! An entry is one header and any number of parts. The header travels whole when it changes; parts travel one by one.
//! Whether entries may have no parts, or may be [being deleted](Entry::is_deleting), is for the payload to choose.
//!
//! What goes the other way, from the writer to the agent, is optional: a payload that has no reports, facts or contents
//! names [`Never`] in their place, and nothing of them is ever sent.

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::Digest;

use crate::EntryChange;

/// The types that one session carries. Implemented by a marker type without data.
pub trait Payload: Copy + Default + Eq + Debug + Send + Sync + 'static {
    /// Names an entry.
    type Key: Key;
    /// What is held under a key.
    type Entry: Entry<Self>;
    /// How the agent's end keeps it.
    type Kept: KeptEntry<Self>;
    /// The part of an entry that is sent whole when it changes.
    type Header: Clone + PartialEq + Debug + Send + Sync;
    /// A part of an entry that is sent by itself.
    type Part: Clone + PartialEq + Debug + Send + Sync;
    /// A part that is set or gone.
    type PartChange: Clone + PartialEq + Debug + Send + Sync;
    /// Why the writer does not take an entry.
    type Reason: Reason;
    /// What the writer reports of an entry; the latest of a key replaces those before it.
    type Report: Clone + PartialEq + Debug + Send + Sync;
    /// How the writer's end keeps it for the next stream.
    type StoredReport: StoredReport<Self>;
    /// What the writer says about itself; the latest replaces those before it.
    type Facts: Clone + PartialEq + Debug + Send + Sync;
    /// Names a content.
    type Hash: Clone + Ord + Debug + Send + Sync;
    /// Something too large or too secret to be part of an entry. It is sent only when the writer asks for its hash.
    type Content: Content<Hash = Self::Hash>;

    /// What an entry is called in messages to people, with its article.
    const AN_ENTRY: &'static str;
    /// What entries are called in messages to people, in the plural.
    const ENTRIES: &'static str;
    /// What parts are called in messages to people, in the plural.
    const PARTS: &'static str;
    /// What of an entry cannot be divided between frames, in messages to people.
    const INDIVISIBLE: &'static str;

    /// Whether the writer keeps what it has of an entry whose newest state fits in no frame; else that counts as gone. An
    /// agent that never had a state of it that fits takes its namespace for unknown, so that its absence is not implied.
    const KEEPS_TOO_LARGE: bool = false;

    /// Whether the entries of a namespace that is unknown, or of all while the whole source is, are sent one by one where a
    /// snapshot is owed. A writer then knows what the source has there, and that the rest of what it holds may be out of date.
    const SENDS_UNKNOWN: bool = false;

    /// The [capabilities](crate::capability) of both ends.
    const CAPABILITIES: &'static [Cow<'static, str>] = &[];

    /// Interval of the agent's heartbeats.
    const HEARTBEAT: Duration = crate::HEARTBEAT;

    /// Returns the bytes that a report takes on the wire; never less than it really does.
    fn report_len(report: &Self::Report) -> usize;

    /// Returns the same for facts.
    fn facts_len(facts: &Self::Facts) -> usize;
}

/// Names an entry. Keys are ordered by namespace first.
pub trait Key: Clone + Ord + Debug + Display + Send + Sync + 'static {
    /// Returns the part of the source that the entry belongs to. Digests, snapshots and unknown scopes are kept by
    /// namespace.
    fn namespace(&self) -> &Arc<str>;

    /// Returns a key that is not greater than any other of this namespace.
    fn first_in(namespace: Arc<str>) -> Self;

    /// Returns the bytes of its texts.
    fn text_len(&self) -> usize;
}

/// One entry of the set: a header and parts. Cheap to clone.
pub trait Entry<P: Payload>: Clone + PartialEq + Debug + Send + Sync {
    /// Puts an entry together from what was sent. The parts come in any order; of two for one identity the last one
    /// counts.
    fn new(header: Arc<P::Header>, parts: Vec<P::Part>) -> Self;

    /// Returns the header. An entry may keep it in another form.
    fn header(&self) -> Arc<P::Header>;

    /// Returns every part, always in the same order.
    fn parts(&self) -> impl Iterator<Item = P::Part>;

    /// Returns the number of parts.
    fn part_count(&self) -> usize;

    /// Returns the digest under `key`: a sum over header and parts, so that [`Entry::update`] costs only what changed.
    fn digest(&self, key: &P::Key) -> Digest;

    /// Returns the change that leads from `old` to `new`; `None` if they are equal.
    fn between(old: Option<&Self>, new: Option<&Self>) -> Option<EntryChange<P>>;

    /// Applies an [`EntryChange::Update`] and keeps `digest`, this entry's digest under `key`, up to date.
    fn update(&mut self, key: &P::Key, digest: &mut Digest, header: Option<Arc<P::Header>>, parts: Vec<P::PartChange>);

    /// Returns whether the source is deleting the object of the entry. Such an entry is held like any other, on both
    /// ends and over restarts, until the agent removes it; so the other end can act on a deletion that it was away for.
    fn is_deleting(&self) -> bool {
        false
    }

    /// Returns the bytes that a header takes on the wire; never less than it really does.
    fn header_len(header: &P::Header) -> usize;

    /// Returns the same for a part that follows `before` in a frame. Parts may share what they have in common with the
    /// one before.
    fn part_len(before: Option<&P::Part>, part: &P::Part) -> usize;

    /// Returns the same for a change of a part, and adds the change to `frame`, what was seen of a frame so far.
    fn change_len<'a>(frame: &mut Self::Changes<'a>, change: &'a P::PartChange) -> usize;

    /// What [`Entry::change_len`] remembers of the earlier changes in a frame.
    type Changes<'a>: Default;

    /// Returns the bytes of the largest piece that cannot be divided between two frames: the header, or one part.
    fn largest_len(&self) -> usize {
        let parts = self.parts().map(|part| Self::part_len(None, &part));
        parts.chain([Self::header_len(&self.header())]).max().unwrap_or_default()
    }
}

/// An entry as the agent's end keeps it, where nearly all rest nearly always. Cheap to clone. Where nothing is won by another form,
/// it is the entry itself.
pub trait KeptEntry<P: Payload>: Clone + PartialEq + Debug + Send + Sync {
    /// Returns the entry.
    fn entry(&self) -> Arc<P::Entry>;

    /// Returns its number of parts.
    fn part_count(&self) -> usize;
}

impl<P: Payload> KeptEntry<P> for Arc<P::Entry> {
    fn entry(&self) -> Self {
        self.clone()
    }

    fn part_count(&self) -> usize {
        (**self).part_count()
    }
}

/// A report as the writer's end keeps it: that of each key, for as long as the entry is there. Where nothing is won by another form,
/// it is the report itself.
pub trait StoredReport<P: Payload>: Clone + Debug + Send + Sync {
    /// Keeps a report.
    fn keep(report: P::Report) -> Self;

    /// Returns the report.
    fn report(&self) -> Arc<P::Report>;
}

impl<P: Payload> StoredReport<P> for Arc<P::Report> {
    fn keep(report: P::Report) -> Self {
        Self::new(report)
    }

    fn report(&self) -> Self {
        self.clone()
    }
}

/// Why the writer does not take an entry.
pub trait Reason: Copy + Ord + Debug + Send + Sync {
    /// What came could not be read.
    const INVALID: Self;
    /// It fits in no frame.
    const TOO_LARGE: Self;
}

/// Something that is sent only when it is asked for. Its `Debug` is logged; one that is secret must not show itself
/// there.
pub trait Content: Clone + Eq + Debug + Send + Sync {
    /// Names a content.
    type Hash;

    /// Returns the hash of this content. A content that does not have the hash that was asked for is not taken.
    fn hash(&self) -> Self::Hash;

    /// Returns the bytes that it takes on the wire; never less than it really does.
    fn wire_len(&self) -> usize;
}

/// A type without a value, in the place of what a payload does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Never {}

impl Content for Never {
    type Hash = Self;

    fn hash(&self) -> Self {
        *self
    }

    fn wire_len(&self) -> usize {
        match *self {}
    }
}
