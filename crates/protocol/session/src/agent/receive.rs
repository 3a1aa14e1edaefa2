//! Handles the writer's messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::DigestTree;

use super::AgentEnd;
use super::stream::Stream;
use crate::{
    Goodbye, GoodbyeReason, Key as _, Need, PROTOCOL, Payload, Reject, Scope, Summary, Welcome, WriterMessage,
};

/// What happens to the stream after a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum AgentVerdict {
    /// The stream continues.
    Continue,
    /// The transport closes the stream and dials again. The process does not exit.
    Close {
        /// How long to wait before dialling; `None` leaves that to the usual back-off.
        retry_after: Option<Duration>,
        /// The reason, for logs.
        reason: String,
    },
}

/// The wait after a supersession doubles from the first to the longest, so that two agents of one name do not keep
/// replacing each other.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Consecutive supersessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Supersessions {
    wait: Option<Duration>,
}

impl Supersessions {
    fn next(&mut self, stream_lived: Duration) -> Duration {
        // The other agent also waits up to the longest wait, so only a stream that lived longer shows that it is gone.
        let previous = self.wait.filter(|_| stream_lived <= 2 * LONGEST_WAIT);
        *self.wait.insert(previous.map_or(FIRST_WAIT, |wait| (wait * 2).min(LONGEST_WAIT)))
    }
}

impl<P: Payload> AgentEnd<P> {
    /// Handles a message of the writer.
    pub fn receive(&mut self, message: WriterMessage<P>, now: Instant) -> AgentVerdict {
        let Some(stream) = &mut self.stream else { return AgentVerdict::Continue };
        let welcomed = stream.generation.is_some();
        match message {
            WriterMessage::Goodbye(goodbye) => return self.dismissed(goodbye, now),
            WriterMessage::Welcome(welcome) => return self.welcome(welcome),
            _ if !welcomed => return broken("the writer spoke before Welcome"),
            WriterMessage::Ack(seq) if seq > stream.seq => {
                return broken(&format!(
                    "the writer acknowledged frame {seq}, but {} is the last one sent",
                    stream.seq
                ));
            }
            WriterMessage::Ack(seq) => {
                let entries = &mut self.entries;
                stream.acknowledged(seq, |key| {
                    if let Some(held) = entries.get_mut(&key) {
                        held.progress.acknowledged = Some(now);
                    }
                });
            }
            WriterMessage::Credit(credit) => stream.window.set_credit(credit),
            WriterMessage::Resync { need: Need::Nothing, .. } => {}
            WriterMessage::Resync { need, .. } => {
                stream.abandon();
                stream.asked = true;
                owe(stream, need, &self.tree);
            }
            WriterMessage::Report { seq, key, report } => {
                // Crossed the removal of its entry. While that waits to be sent, the entry may still come back unchanged.
                let gone = !self.entries.contains_key(&key) && !stream.outbox.contains(&key);
                let taken = if gone { stream.inbox.drop_unneeded(seq) } else { stream.inbox.receive(seq, key, report) };
                if let Err(gap) = taken {
                    return broken(&gap.to_string());
                }
            }
            WriterMessage::Unreadable { report, reason } => {
                self.skipped += 1;
                if let Some(seq) = report
                    && let Err(gap) = stream.inbox.skip(seq, reason)
                {
                    return broken(&gap.to_string());
                }
            }
            WriterMessage::Facts(facts) => self.facts = Some(facts),
            WriterMessage::ContentRequest(hash) => stream.contents.request(hash),
            WriterMessage::Reject(reject) => self.rejected(reject),
            WriterMessage::Resolved(key) => self.said_of(&key, None),
        }
        AgentVerdict::Continue
    }

    fn welcome(&mut self, welcome: Welcome) -> AgentVerdict {
        let Some(stream) = &mut self.stream else { return AgentVerdict::Continue };
        let offered = stream.offer.as_mut().filter(|_| stream.generation.is_none());
        let Some(offer) = offered else { return broken("the writer sent Welcome, but no Hello asked for it") };
        if welcome.protocol != PROTOCOL {
            let reason = format!("the writer chose protocol {}, but this agent speaks {PROTOCOL}", welcome.protocol);
            return AgentVerdict::Close { retry_after: None, reason };
        }
        let tree = std::mem::take(&mut offer.tree);
        stream.generation = Some(welcome.generation);
        stream.window.set_credit(welcome.credit);
        owe(stream, welcome.need, &tree);
        // What the writer does not need it has: a change that it had not was undone.
        self.unsent.retain(|key, _| stream.owed.contains(key.namespace()));
        self.forget_said();
        AgentVerdict::Continue
    }

    fn rejected(&mut self, reject: Reject<P>) {
        // One without a key is about a whole message; the transport logs it.
        if let Some(key) = reject.key.clone() {
            self.said_of(&key, Some(reject));
        }
    }

    fn dismissed(&mut self, goodbye: Goodbye, now: Instant) -> AgentVerdict {
        let lived = self.stream.as_ref().map_or(Duration::ZERO, |stream| now.saturating_duration_since(stream.opened));
        let retry_after = match goodbye.reason {
            GoodbyeReason::Superseded => Some(self.supersessions.next(lived)),
            _ => goodbye.retry_after,
        };
        let reason = format!("the writer ended the stream ({:?}): {}", goodbye.reason, goodbye.message);
        AgentVerdict::Close { retry_after, reason }
    }
}

/// Queues what the writer needs. `tree` holds the digests that its summaries are compared with.
fn owe<P: Payload>(stream: &mut Stream<P>, need: Need, tree: &DigestTree) {
    match need {
        Need::Nothing => {}
        Need::All => stream.owe(&Scope::All),
        Need::Namespaces(held) => {
            let named = held.iter().filter(|(_, summary)| summary.count == 0);
            stream.named = named.map(|(namespace, _)| namespace.clone()).collect();
            let differing = differing(tree, &held);
            if !differing.is_empty() {
                stream.owe(&Scope::Namespaces(differing));
            }
        }
    }
}

/// Returns the namespaces where `held` and `tree` differ, including those that only one of them has.
fn differing(tree: &DigestTree, held: &[(Arc<str>, Summary)]) -> Vec<Arc<str>> {
    let differs =
        |(namespace, summary): &&(Arc<str>, Summary)| tree.namespace(namespace) != (summary.count, summary.digest);
    let listed: std::collections::BTreeSet<&Arc<str>> = held.iter().map(|(namespace, _)| namespace).collect();
    let unlisted = tree.namespaces().map(|(namespace, ..)| namespace).filter(|namespace| !listed.contains(namespace));
    held.iter().filter(differs).map(|(namespace, _)| namespace).chain(unlisted).cloned().collect()
}

fn broken(reason: &str) -> AgentVerdict {
    AgentVerdict::Close { retry_after: None, reason: reason.into() }
}
