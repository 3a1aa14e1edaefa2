//! Streams that open and close, and their messages.

#[cfg(test)]
mod tests;

use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_kuryr_wire::Kuryr;
use gimbal_session::{AgentMessage, Goodbye, GoodbyeReason, Hello, Summary, WriterMessage};
use tokio::sync::mpsc;

use super::{Clusters, LAST_WORDS, Namesake, OpenStream, ToController, send_goodbye};

impl Clusters {
    /// Opens the stream of a cluster's controller, in place of the one before.
    ///
    /// # Errors
    /// Returns the goodbye to answer with.
    pub fn open(
        &mut self,
        name: &Text,
        hello: &Hello,
        outgoing: mpsc::Sender<ToController>,
        now: Instant,
    ) -> Result<u64, Goodbye> {
        self.admit(name, hello)?;
        let former = self.dismiss(name, GoodbyeReason::Superseded, "a newer stream of this cluster has begun");
        if let Some(generation) = former
            && let Some(untold) = self.lines.tell((name.clone(), "superseded"), now)
        {
            tracing::info!(cluster = %name, generation, untold, "a newer stream of this cluster has begun in place of this one");
        }
        self.generation += 1;
        let generation = self.generation;
        if let Some(state) = self.clusters.get_mut(name) {
            if state.uid.is_none() && !hello.source_incarnation.is_empty() {
                state.uid = Some(hello.source_incarnation.as_str().into());
            }
            state.refused_uid = None;
            state.stream = Some(OpenStream { generation, outgoing });
            state.life.heard(now);
            state.forget_all_gone();
            let tree = state.end.tree();
            // What was held before is of use only if the controller wants just that; else its snapshot is awaited.
            state.is_current = hello.held == Some(Summary { count: tree.count(), digest: tree.root() });
            state.has_doubts = false;
            let outputs = state.end.open(hello, name, generation, now);
            self.settings_changed(name, now);
            self.registry.heard(name, now);
            self.carry_out(name, outputs, now);
        }
        let (agent, version) = (&hello.agent_instance, &hello.agent_version);
        // A controller may come again and again.
        if let Some(untold) = self.lines.tell((name.clone(), "opened"), now) {
            let uid = &hello.source_incarnation;
            tracing::info!(cluster = %name, generation, uid, agent, version, untold, "stream opened");
        }
        Ok(generation)
    }

    fn admit(&mut self, name: &Text, hello: &Hello) -> Result<(), Goodbye> {
        let refuse = |reason, message| Err(Goodbye { reason, message, retry_after: None });
        let uid = &hello.source_incarnation;
        if let Err(message) = self.claim_uid(name, uid) {
            return refuse(GoodbyeReason::Incarnation, message);
        }
        let Some(state) = self.clusters.get_mut(name) else {
            return refuse(GoodbyeReason::UnknownBackend, format!("cluster {name} is not configured"));
        };
        if let Some(Namesake { uid: other, balancer }) = &state.namesake {
            let message = format!(
                "load balancer {balancer} carries the name {name} and the UID {other} of another cluster; an admin must confirm \
                 that this cluster has the name now (AdminService.ConfirmCluster), or clusterUid in the configuration"
            );
            if is_uid(uid) && state.uid.as_deref() != Some(uid) && !state.config.former_uids.contains(uid.as_str()) {
                state.refused_uid = Some(uid.as_str().into());
            }
            return refuse(GoodbyeReason::Incarnation, message);
        }
        if uid.is_empty() {
            if hello.held.is_some() {
                let message =
                    format!("the controller of {name} offers data and does not say the UID of its kube-system");
                return refuse(GoodbyeReason::Incarnation, message);
            }
            return Ok(());
        }
        if !is_uid(uid) {
            return refuse(GoodbyeReason::Incarnation, "the UID of kube-system is not one".to_owned());
        }
        if state.config.former_uids.contains(uid.as_str()) {
            let message =
                format!("the cluster with UID {uid} had the name {name} before (formerUids), and has it no longer");
            return refuse(GoodbyeReason::Incarnation, message);
        }
        match &state.uid {
            Some(known) if **known != **uid => {
                let message = format!(
                    "the name {name} belongs to the cluster with UID {known}, not {uid}; an admin must confirm the change \
                     (AdminService.ConfirmCluster)"
                );
                state.refused_uid = Some(uid.as_str().into());
                refuse(GoodbyeReason::Incarnation, message)
            }
            _ => Ok(()),
        }
    }

    /// Takes a message of an open stream.
    pub fn receive(&mut self, name: &Text, generation: u64, message: AgentMessage<Kuryr>, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        if state.stream.as_ref().is_none_or(|stream| stream.generation != generation) {
            return;
        }
        if let AgentMessage::Goodbye(goodbye) = &message
            && let Some(untold) = self.lines.tell((name.clone(), "goodbye"), now)
        {
            let (reason, text) = (goodbye.reason, &goodbye.message);
            tracing::info!(cluster = %name, generation, ?reason, text, untold, "the controller says goodbye");
        }
        state.life.heard(now);
        let is_heartbeat = matches!(message, AgentMessage::Heartbeat { .. });
        let trace = if let AgentMessage::Data(data) = &message { data.trace } else { None };
        let outputs = state.end.receive(message, now);
        state.is_current |= is_heartbeat && state.has_said_what_it_can();
        let traced = trace.map(|trace| state.begin_traces(&outputs, trace, now));
        self.registry.heard(name, now);
        self.carry_out(name, outputs, now);
        if let Some(keys) = traced {
            self.forget_idle_traces(name, &keys);
        }
    }

    /// Takes note that a stream has ended.
    pub fn closed(&mut self, name: &Text, generation: u64, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        if state.stream.take_if(|stream| stream.generation == generation).is_some() {
            if let Some(untold) = self.lines.tell((name.clone(), "closed"), now) {
                tracing::info!(cluster = %name, generation, untold, "stream closed; OpenStack stays as it is");
            }
            self.stream_ended(name);
        }
    }

    /// Ends the stream of a cluster with a goodbye, if it has one.
    pub(super) fn say_goodbye(&mut self, name: &Text, reason: GoodbyeReason, text: &str) {
        if let Some(generation) = self.dismiss(name, reason, text) {
            tracing::info!(cluster = %name, generation, ?reason, text, "goodbye");
        }
    }

    /// The same without a line in the log. Returns the generation of the stream.
    fn dismiss(&mut self, name: &Text, reason: GoodbyeReason, text: &str) -> Option<u64> {
        let stream = self.clusters.get_mut(name)?.stream.take()?;
        send_goodbye(&stream, reason, text);
        self.stream_ended(name);
        Some(stream.generation)
    }

    /// Ends every stream, because the process ends.
    pub fn say_goodbye_to_all(&mut self) {
        let names: Vec<Text> = self.clusters.keys().cloned().collect();
        for name in names {
            self.say_goodbye(&name, GoodbyeReason::Shutdown, "the writer shuts down");
        }
    }

    fn stream_ended(&mut self, name: &Text) {
        if let Some(state) = self.clusters.get_mut(name) {
            state.life.ended();
            state.is_current = false;
            state.ranking.stream_ended();
            state.end.closed();
        }
        self.registry.stream_ended(name);
    }

    /// Sends what is to be sent on every stream, as far as there is room.
    pub fn send(&mut self, now: Instant) {
        let names: Vec<Text> = self.clusters.keys().cloned().collect();
        for name in names {
            let Some(state) = self.clusters.get_mut(&name) else { continue };
            let Some(stream) = &state.stream else { continue };
            let room = stream.outgoing.capacity().saturating_sub(LAST_WORDS);
            let mut unread = false;
            for message in state.end.take_messages_within(room) {
                unread |= stream.outgoing.try_send(message).is_err();
            }
            if unread {
                let generation = stream.generation;
                state.stream = None;
                if let Some(untold) = self.lines.tell((name.clone(), "unread"), now) {
                    tracing::warn!(cluster = %name, generation, untold, "the controller does not read; its stream ends and it may resume");
                }
                self.stream_ended(&name);
            }
        }
    }

    /// Sends the last messages of a stream that its end wants closed, and closes it.
    pub(super) fn close(&mut self, name: &Text, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        if let Some(stream) = state.stream.take() {
            for message in state.end.take_messages() {
                if let WriterMessage::Goodbye(goodbye) = &message
                    && let Some(untold) = self.lines.tell((name.clone(), "ended"), now)
                {
                    let (generation, text) = (stream.generation, &goodbye.message);
                    tracing::info!(cluster = %name, generation, reason = ?goodbye.reason, text, untold, "the stream is ended");
                }
                if stream.outgoing.try_send(message).is_err() {
                    tracing::debug!(cluster = %name, "no room for the last messages of a stream");
                    break;
                }
            }
            self.stream_ended(name);
        }
    }
}

/// Whether this can be a UID in a tag: Octavia's filters divide tags at commas, and a tag has at most 255 characters.
fn is_uid(uid: &str) -> bool {
    !uid.is_empty() && uid.len() <= 128 && uid.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
}
