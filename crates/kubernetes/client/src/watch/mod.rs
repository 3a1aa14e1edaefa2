//! Watches all objects of a kind, for ever.

mod line_buffer;
mod list_watch;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use gimbal_kubernetes_objects::Object;
use tokio::time::{Instant, sleep, timeout};

use self::line_buffer::{LineBuffer, TooLong};
use self::list_watch::{ListWatch, NextCall};
use crate::access::ResponseBody;
use crate::cluster::piece;
use crate::page_bytes::PageBytes;
use crate::{ApiError, Cluster};

/// A watch that is silent for this long is given up for a list: it may be dead. The server sends a bookmark about once a minute, but
/// of a kind without any change it sends none where etcd does not notify it of its progress.
const SILENCE: Duration = Duration::from_secs(90);
/// A watch that stayed open this long counts as a success, even without an event.
const PROVEN_AFTER: Duration = Duration::from_secs(1);

/// Selects the objects of a list or a watch. The default selects all objects of the kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchScope {
    /// Only objects in this namespace. `None` for all namespaces and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Only objects with these labels, in the syntax of `kubectl -l`.
    pub label_selector: Option<String>,
    /// Only objects with these field values, for instance `metadata.name=web` or `spec.nodeName=node-1`. Every kind supports
    /// `metadata.name` and `metadata.namespace`; with a field that its kind does not support, calls fail with
    /// [`ApiError::Invalid`].
    pub field_selector: Option<String>,
}

/// An event of a [`watch()`].
///
/// The objects between `ListBegin` and `ListDone` are a complete set: objects that are not in it are gone at `ListDone`,
/// **and not before**. A second `ListBegin` without a `ListDone` starts the set over. An object that cannot be decoded is
/// reported as `Failed(Undecodable)`; its list has no `ListDone`, because the object would count as gone, and is repeated.
///
/// `ListBegin` comes before the request is sent, and the stream does nothing while it is not polled. So the list is newer
/// than anything that the consumer knew when it took `ListBegin`.
///
/// After a failure the watch continues where it was, and no event is lost. It begins with a new list instead if the server
/// refused the request (401, 403, 404), does not serve the kind (any more), has forgotten the version (410) or sent something undecodable, after ten seconds of
/// failures, and if the server's store may have been replaced: when the server could not be reached, and after silence, which is no
/// failure by itself.
///
/// A kind that is not served is reported as `Failed(NotServed)` between a `ListBegin` and the next, never as an empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A list begins.
    ListBegin,
    /// A page of the list.
    Listed(Vec<T>),
    /// The list is older than what was seen before: the server's store was restored to an older state.
    WentBack {
        /// The newest version seen before.
        seen: String,
        /// The version of the list.
        listed: String,
    },
    /// The list is complete.
    ListDone,
    /// The object was created or changed.
    Applied(T),
    /// The object was deleted. This is its last state.
    Deleted(T),
    /// The server answered: with a page, an accepted watch, or a bookmark.
    Alive,
    /// A call failed. It is retried after a pause.
    Failed(ApiError),
}

impl<T> WatchEvent<T> {
    /// Whether this event comes from the server. `ListBegin` does not: it precedes the request.
    #[must_use]
    pub fn is_sign_of_life(&self) -> bool {
        match self {
            Self::ListBegin | Self::Failed(_) => false,
            Self::Listed(_)
            | Self::WentBack { .. }
            | Self::ListDone
            | Self::Applied(_)
            | Self::Deleted(_)
            | Self::Alive => true,
        }
    }
}

/// Watches all objects of a kind in a scope. The stream never ends, and does nothing while it is not polled.
pub fn watch<T: Object>(cluster: Cluster, scope: WatchScope) -> impl Stream<Item = WatchEvent<T>> + Send + Unpin {
    let follower = Follower {
        cluster,
        scope,
        list_watch: ListWatch::new(),
        size: PageBytes::new(),
        open: None,
        pause: None,
        failing: None,
        pending_events: VecDeque::new(),
    };
    stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await;
        Some((event, follower))
    })
    .boxed()
}

struct Follower<T> {
    cluster: Cluster,
    scope: WatchScope,
    list_watch: ListWatch,
    size: PageBytes,
    open: Option<Open>,
    pause: Option<Pause>,
    /// When the first of the latest failures happened.
    failing: Option<Instant>,
    pending_events: VecDeque<WatchEvent<T>>,
}

/// A pause before the next call.
struct Pause {
    time: Duration,
    /// Whether there was no answer. The pause ends when the server is reached again, and any other pause does not.
    away: bool,
}

/// A watch that the server accepted.
struct Open {
    body: ResponseBody,
    lines: LineBuffer,
    since: Instant,
}

impl<T: Object> Follower<T> {
    async fn next(&mut self) -> WatchEvent<T> {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return event;
            }
            if let Some(Pause { time, away }) = self.pause.take() {
                if away {
                    self.cluster.pause(time).await;
                } else {
                    sleep(time).await;
                }
            }
            if let Err(error) = self.step().await {
                self.fail(error);
            }
        }
    }

    async fn step(&mut self) -> Result<(), ApiError> {
        if let Some(open) = &mut self.open {
            if let Some(line) = open.lines.next().map_err(|TooLong| too_long::<T>())? {
                let event = self.list_watch.line(&line)?;
                self.list_watch.succeeded();
                self.pending_events.push_back(event);
                return Ok(());
            }
            return self.read().await;
        }
        match self.list_watch.ask() {
            NextCall::Begin => {
                self.pending_events.push_back(self.list_watch.begin());
                Ok(())
            }
            NextCall::List(next) => {
                let page = self.cluster.page(&self.scope, &mut self.size, next.as_deref()).await?;
                self.failing = None;
                let (events, through) = self.list_watch.page(page);
                self.pending_events.extend(events);
                through
            }
            NextCall::Watch(version) => {
                // Random, so that watches opened together do not end together.
                let seconds = 240 + random() % 50;
                let body = self.cluster.watch(T::KIND, &self.scope, &version, seconds).await?;
                self.failing = None;
                self.open = Some(Open { body, lines: LineBuffer::default(), since: Instant::now() });
                self.pending_events.push_back(WatchEvent::Alive);
                Ok(())
            }
        }
    }

    /// Reads the next piece of the open watch.
    async fn read(&mut self) -> Result<(), ApiError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Ok(piece) = timeout(SILENCE, piece(&mut open.body)).await else {
            // No failure yet: nothing may have changed. The list tells.
            self.list_watch.succeeded();
            self.list_watch.start_over();
            self.open = None;
            return Ok(());
        };
        if let Some(piece) = piece.map_err(as_broken_watch)? {
            open.lines.push(&piece);
            return Ok(());
        }
        // The watch ended, by the time-out that was asked for or because the connection broke.
        let ended = |how| ApiError::Transport { message: format!("a watch of {} {how}", T::KIND.plural) };
        if open.lines.is_cut() {
            return Err(ended("ended in the middle of an event"));
        }
        if open.since.elapsed() < PROVEN_AFTER {
            return Err(ended("ended as soon as it began"));
        }
        self.list_watch.succeeded();
        self.open = None;
        Ok(())
    }

    fn fail(&mut self, error: ApiError) {
        let open = self.open.take();
        if open.as_ref().is_some_and(|open| open.since.elapsed() >= PROVEN_AFTER) {
            self.list_watch.succeeded();
        }
        let outage = self.failing.get_or_insert_with(Instant::now).elapsed();
        let longest = self.list_watch.failed(&error, open.is_some(), outage);
        self.pause = Some(Pause { time: spread(longest, random()), away: error.nobody_answered() });
        self.pending_events.push_back(WatchEvent::Failed(error));
    }
}

/// Returns a pause between half of `longest` and all of it, so that many watches do not reconnect at once.
fn spread(longest: Duration, random: u64) -> Duration {
    let half = longest / 2;
    let millis = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_millis(random % millis)
}

/// A watch has no end of its own, so it goes on after any break.
fn as_broken_watch(error: ApiError) -> ApiError {
    match error {
        ApiError::Truncated { message } => ApiError::Transport { message: format!("the watch broke off: {message}") },
        error => error,
    }
}

fn too_long<T: Object>() -> ApiError {
    ApiError::Undecodable { message: format!("an event of {} is longer than any object", T::KIND.plural) }
}

/// Returns a number that is random enough for jitter: each `RandomState` has a new seed.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
