//! What a source receives from the writer, and how it replies.

use gimbal_session::{Payload, ReceivedReport};

/// A report that the source has received and not handled yet.
#[derive(Debug, Clone, PartialEq)]
pub struct UnhandledReport<P: Payload> {
    pub(crate) received: ReceivedReport<P>,
    /// Number of the publisher that received it. After a source started over, its earlier reports are void.
    pub(crate) publisher: u64,
    pub(crate) is_early: bool,
}

impl<P: Payload> UnhandledReport<P> {
    /// Returns whether the writer had not acknowledged the newest state of the entry when the report came: it may be about a former
    /// one.
    #[must_use]
    pub fn is_early(&self) -> bool {
        self.is_early
    }

    /// Returns the key of the entry that the report is about.
    #[must_use]
    pub fn key(&self) -> &P::Key {
        &self.received.key
    }

    /// Returns the report.
    #[must_use]
    pub fn report(&self) -> &P::Report {
        &self.received.report
    }
}

/// A request for a content, which the source has not answered yet.
#[derive(Debug, Clone, PartialEq)]
pub struct ContentRequest<P: Payload> {
    pub(crate) hash: P::Hash,
    /// Number of the publisher that received it. After a source started over, what it knew before answers nothing.
    pub(crate) publisher: u64,
}

impl<P: Payload> ContentRequest<P> {
    /// Returns the hash of the content.
    #[must_use]
    pub fn hash(&self) -> &P::Hash {
        &self.hash
    }
}

/// A source's reply to something that the writer sent.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceReply<P: Payload> {
    /// The report was handled, for instance written to a status. The writer receives an acknowledgement, unless a newer
    /// report of the same entry has come meanwhile.
    Handled(UnhandledReport<P>),
    /// The report is not used, for it [is early](UnhandledReport::is_early). The writer receives the entry again, and reports again.
    Repeat(UnhandledReport<P>),
    /// The content that was asked for; `None` if the source has none.
    Content(ContentRequest<P>, Option<P::Content>),
}
