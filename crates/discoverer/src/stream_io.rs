//! The owner's part in the stream: handles events of the link and sends messages.

use std::time::Instant;

use gimbal_session::{AgentMessage, AgentVerdict, Need, WriterMessage};

use crate::backoff::Trouble;
use crate::connect::LinkEvent;
use crate::owner::Owner;
use crate::source::{Known as _, Source};

impl<S: Source> Owner<S> {
    /// Handles an event of the link. Returns whether there may be a message to send.
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

    /// Sends the next message, if there is one. Returns whether it was Goodbye.
    pub(crate) fn send_next(&mut self) -> Option<bool> {
        let now = Instant::now();
        self.offer.agent.set_freshness(self.source.known().freshness(now));
        let message = self.offer.agent.next(now)?;
        let goodbye = matches!(message, AgentMessage::Goodbye(_));
        if self.link.send(message) {
            self.metrics.sent.inc();
            Some(goodbye)
        } else {
            // There was room, so the stream has just ended. The link reports that next, and the new stream sends it
            // again.
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

    /// Called when there is no stream. Logs a warning when an accepted stream ended or the reason changed; further
    /// failures with the same reason are logged at debug level.
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

/// Returns what the writer needs, for logs.
fn needs(need: &Need) -> &'static str {
    match need {
        Need::Nothing => "nothing",
        Need::Namespaces(_) => "namespaces that differ",
        Need::All => "everything",
    }
}
