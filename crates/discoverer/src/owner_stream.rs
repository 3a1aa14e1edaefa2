//! The owner's part in the stream: handles events of the link and sends messages.

use std::time::Instant;

use gimbal_session::{AgentMessage, AgentVerdict, Need, Reject, StreamState, WriterMessage, capability};
use gimbal_traces::SentChange;

use crate::dial_pauses::DialFailure;
use crate::from_writer::{ContentRequest, UnhandledReport};
use crate::link::LinkEvent;
use crate::owner_task::OwnerTask;
use crate::payload::OfferedPayload;
use crate::source::{Changed, MaySpeak, Source, SourceStatus as _};

/// Why there is no stream while another process speaks for the source.
const SPOKEN_FOR: &str = "another process speaks for this source, or may";

impl<S: Source<P>, P: OfferedPayload> OwnerTask<S, P> {
    /// Handles an event of the link. Returns whether there may be a message to send.
    pub(crate) fn link_event(&mut self, event: LinkEvent<P>) -> bool {
        match event {
            LinkEvent::Opened => {
                self.metrics.streams.inc();
                self.publisher.agent.connected(Instant::now());
            }
            LinkEvent::Message(message) => self.received(message),
            LinkEvent::Unreadable(reason) => tracing::warn!(reason, "a message of the writer cannot be read"),
            LinkEvent::Room => return self.send_next().is_some(),
            LinkEvent::Down(reason) => self.down(&reason),
        }
        true
    }

    /// Ends the stream if another process speaks for the source, and opens one if this process may. Returns whether it may
    /// send now.
    pub(crate) fn follow_right_to_speak(&mut self) -> bool {
        let right = self.source.may_speak();
        match right {
            MaySpeak::Yes => {
                if self.link_trouble.as_deref() == Some(SPOKEN_FOR) {
                    self.link_trouble = None;
                }
                self.link.resume();
                if self.publisher.is_read() {
                    self.link.skip_head_start();
                }
            }
            MaySpeak::NotNow if self.link.is_open() => {}
            MaySpeak::NotNow | MaySpeak::No => {
                if self.link.hold() {
                    self.down(SPOKEN_FOR);
                } else if self.link_trouble.as_deref() != Some(SPOKEN_FOR) {
                    self.link_trouble = Some(SPOKEN_FOR.to_owned());
                }
            }
        }
        right == MaySpeak::Yes
    }

    /// Sends the next message, if there is one. Returns whether it was Goodbye.
    pub(crate) fn send_next(&mut self) -> Option<bool> {
        if self.source.may_speak() != MaySpeak::Yes {
            return None;
        }
        let now = Instant::now();
        self.publisher.agent.set_freshness(self.source.status().freshness(now));
        self.publisher.agent.set_clock(gimbal_transport::clock_ms());
        let mut message = self.publisher.agent.next(now)?;
        self.trace(&mut message);
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

    /// Begins the trace of the oldest change in a message, if it is sampled, and puts it beside the changes.
    fn trace(&mut self, message: &mut AgentMessage<P>) {
        let AgentMessage::Data(data) = message else { return };
        if let Some(age) = data.frame.age().filter(|_| self.traces.is_on()) {
            let change = SentChange { backend: self.backend.as_str(), entries: data.frame.entries(), age };
            // A writer that does not take it has nothing to add, and the agent's part of it is there in any case.
            data.trace = self.traces.sent(&change).filter(|_| self.publisher.agent.writer_has(capability::TRACE));
        }
    }

    fn received(&mut self, message: WriterMessage<P>) {
        self.metrics.received.inc();
        let received = message.clone();
        let failure = match &message {
            WriterMessage::Goodbye(goodbye) => DialFailure::of(goodbye.reason),
            _ => DialFailure::Refused,
        };
        match self.publisher.agent.receive(message, Instant::now()) {
            AgentVerdict::Continue => self.accepted(received),
            AgentVerdict::Close { retry_after, reason } => {
                self.down(&reason);
                self.link.close(failure, retry_after);
            }
        }
    }

    /// Handles a message that the session has accepted.
    fn accepted(&mut self, message: WriterMessage<P>) {
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
                self.source.stream_opened();
                self.health_log.stream_opened(self.source.report_credit().is_some(), Instant::now());
                // What fits in no frame is rejected here, on every stream.
                for key in self.too_large.clone() {
                    self.tell_reject(&key);
                }
                self.notify_watchers(|watchers, view| watchers.everything(view, &[]));
            }
            WriterMessage::Ack(_) => self.notify_watchers(|watchers, view| watchers.acknowledged(view)),
            WriterMessage::Reject(Reject { key: Some(key), .. }) | WriterMessage::Resolved(key) => {
                // Of an entry whose newest state fits in no frame, that is what counts.
                if !self.too_large.contains(&key) {
                    self.tell_reject(&key);
                }
            }
            WriterMessage::Reject(reject) => {
                self.health_log.rejected(&reject);
            }
            WriterMessage::Resync { reason, .. } => tracing::info!(reason, "the writer asks for a snapshot"),
            WriterMessage::Report { .. } => {
                while let Some(received) = self.publisher.agent.take_report() {
                    // What holds is said before a report: it is tried now.
                    if self.health_log.is_unsaid(&received.key) {
                        self.tell_reject(&received.key);
                    }
                    let is_early = self.publisher.agent.is_pending(&received.key);
                    self.source.report_received(UnhandledReport { received, publisher: self.publishers, is_early });
                }
            }
            WriterMessage::Facts(facts) => self.source.facts_received(&facts),
            WriterMessage::ContentRequest(hash) => {
                self.source.content_requested(ContentRequest { hash, publisher: self.publishers });
            }
            WriterMessage::Unreadable { reason, .. } => tracing::warn!(reason, "a message of the writer was skipped"),
            WriterMessage::Credit(_) | WriterMessage::Goodbye(_) => {}
        }
    }

    /// Follows which of the entries that changed fit in no frame.
    pub(crate) fn follow_too_large(&mut self, changed: &Changed<P>) {
        for (key, entry) in changed {
            let is_too_large = self.publisher.agent.is_too_large(key);
            let was = if is_too_large { !self.too_large.insert(key.clone()) } else { self.too_large.remove(key) };
            // Of one that is gone nothing is rejected any more.
            if was != is_too_large && entry.is_some() {
                self.tell_reject(key);
            }
        }
    }

    /// Ends the rejects that the writer did not say again on this stream, where no report tells.
    pub(crate) fn end_unsaid_rejects(&mut self) {
        let agent = &self.publisher.agent;
        if agent.stream_state() == StreamState::Open {
            for key in self.health_log.ended(|key| !agent.is_pending(key), Instant::now()) {
                self.tell_reject(&key);
            }
        }
    }

    /// Logs whether an entry is rejected, and tells the source.
    fn tell_reject(&mut self, key: &P::Key) {
        match self.publisher.agent.rejects().get(key) {
            Some(reject) => {
                let is_known = self.health_log.rejected(reject).is_none();
                self.source.rejected(key, reject, is_known);
            }
            None => {
                self.health_log.resolved(key);
                self.source.resolved(key);
            }
        }
        self.notify_watchers(|watchers, view| watchers.changed(view, std::iter::once(key)));
    }

    /// Called when there is no stream. Logs a warning when an accepted stream ended or the reason changed; further
    /// failures with the same reason are logged at debug level.
    fn down(&mut self, reason: &str) {
        self.publisher.agent.disconnected();
        let was_up = std::mem::take(&mut self.welcomed);
        if was_up || self.link_trouble.as_deref() != Some(reason) {
            tracing::warn!(reason, "no stream to the writer");
        } else {
            tracing::debug!(reason, "still no stream to the writer");
        }
        self.link_trouble = Some(reason.to_owned());
        if was_up {
            self.notify_watchers(|watchers, view| watchers.everything(view, &[]));
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
