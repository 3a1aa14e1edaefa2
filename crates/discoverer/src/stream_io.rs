//! What the owner does with the stream: events of the link in, messages out.

use std::time::Instant;

use gimbal_session::{AgentMessage, AgentVerdict, Need, WriterMessage};

use crate::backoff::Trouble;
use crate::connect::LinkEvent;
use crate::owner::Owner;
use crate::source::{Known as _, Source};

impl<S: Source> Owner<S> {
    /// Takes an event of the link. True: there may be something to send.
    pub(crate) fn link_event(&mut self, event: LinkEvent) -> bool {
        match event {
            LinkEvent::Opened => {
                self.metrics.streams.inc();
                self.offer.agent.connected(Instant::now());
            }
            LinkEvent::Message(message) => self.received(message),
            LinkEvent::Unreadable(reason) => tracing::warn!(reason, "the writer said something unreadable"),
            LinkEvent::Room => return self.send_next().is_some(),
            LinkEvent::Down(reason) => self.down(&reason),
        }
        true
    }

    /// Sends what is to be said now, if anything; true if that was goodbye.
    pub(crate) fn send_next(&mut self) -> Option<bool> {
        let now = Instant::now();
        self.offer.agent.set_freshness(self.source.known().freshness(now));
        let message = self.offer.agent.next(now)?;
        let goodbye = matches!(message, AgentMessage::Goodbye(_));
        if self.link.send(message) {
            self.metrics.sent.inc();
            Some(goodbye)
        } else {
            // Only a stream that has just ended has no room now; the link tells so next, and all is sent again.
            None
        }
    }

    fn received(&mut self, message: WriterMessage) {
        self.metrics.received.inc();
        let told = message.clone();
        let trouble = match &message {
            WriterMessage::Goodbye(goodbye) => Trouble::of(goodbye.reason),
            _ => Trouble::Refused,
        };
        match self.offer.agent.receive(message, Instant::now()) {
            AgentVerdict::Continue => self.taken(told),
            AgentVerdict::Close { retry_after, reason } => {
                self.down(&reason);
                self.link.close(trouble, retry_after);
            }
        }
    }

    fn taken(&mut self, message: WriterMessage) {
        match message {
            WriterMessage::Welcome(welcome) => {
                tracing::info!(
                    generation = welcome.generation,
                    backend = welcome.backend,
                    needs = needs(&welcome.need),
                    "the writer took the stream in"
                );
                self.link.worked();
                self.welcomed = true;
                self.link_trouble = None;
                self.tell_watchers(|watchers, view| watchers.everything(view, &[]));
            }
            WriterMessage::Ack(_) => self.tell_watchers(|watchers, view| watchers.acknowledged(view)),
            WriterMessage::Reject(reject) => {
                if let Some(key) = self.health_log.rejected(&reject) {
                    self.source.rejected(key, &reject);
                }
                if let Some(key) = reject.key {
                    self.tell_watchers(|watchers, view| watchers.changed(view, std::iter::once(&key)));
                }
            }
            WriterMessage::Resolved(key) => {
                if self.health_log.resolved(&key) {
                    self.source.resolved(&key);
                }
                self.tell_watchers(|watchers, view| watchers.changed(view, std::iter::once(&key)));
            }
            WriterMessage::Resync { reason, .. } => tracing::info!(reason, "the writer asks for a snapshot"),
            WriterMessage::Credit(_) | WriterMessage::Goodbye(_) => {}
        }
    }

    /// There is no stream any more. Told once; each further attempt that fails the same way is no news.
    fn down(&mut self, reason: &str) {
        self.offer.agent.disconnected();
        let was_up = std::mem::take(&mut self.welcomed);
        if was_up || self.link_trouble.as_deref() != Some(reason) {
            tracing::warn!(reason, "no stream to the writer");
        } else {
            tracing::debug!(reason, "still no stream to the writer");
        }
        self.link_trouble = Some(reason.to_owned());
        if was_up {
            self.tell_watchers(|watchers, view| watchers.everything(view, &[]));
        }
    }
}

/// What the writer lacks, for the log.
fn needs(need: &Need) -> &'static str {
    match need {
        Need::Nothing => "nothing",
        Need::Namespaces(_) => "namespaces that differ",
        Need::All => "everything",
    }
}
