//! Following all objects of a kind, for ever.

mod lines;
mod machine;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use gimbal_kubernetes_objects::Object;
use tokio::time::{Instant, timeout};

use self::lines::{Lines, TooLong};
use self::machine::{Ask, Machine};
use crate::access::Answer;
use crate::cluster::piece;
use crate::page_size::PageSize;
use crate::{ApiError, Cluster};

/// The server sends a bookmark about once a minute: a watch that is silent for longer is dead, whatever TCP thinks.
const SILENCE: Duration = Duration::from_secs(90);
/// A watch that lived this long has worked, even if nothing happened.
const THRIVING: Duration = Duration::from_secs(1);

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

/// What a watch tells.
///
/// A list is a set between `ListBegin` and `ListDone`; what it did not name is gone once it is done, **and only then**. A
/// `ListBegin` without a `ListDone` before it starts the set over. An object that cannot be decoded is told as
/// `Failed(Undecodable)` and its list never comes to `ListDone`, for then it would count as gone; the list is repeated.
///
/// `ListBegin` is told before the server is asked, and the stream does nothing while it is not polled: whatever was known
/// of the server when `ListBegin` was taken, the list shows what became of it, or what was put back in its place.
///
/// After a failure the watch goes on where it was, with nothing lost. It starts with a list instead after a failure to be
/// let in (401, 403, 404), after 410, after something undecodable, after ten seconds of failures, and where the server's
/// store may be another one: after silence, and when the server itself could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A list begins.
    ListBegin,
    /// A page of it.
    Listed(Vec<T>),
    /// The list is of an older version than what was seen before: the server's store was put back to an older state.
    WentBack {
        /// What was seen.
        seen: String,
        /// The version of the list.
        listed: String,
    },
    /// The list is complete.
    ListDone,
    /// The object is there, in this form.
    Applied(T),
    /// The object is gone; this is its last form.
    Deleted(T),
    /// A sign of life: a page, an accepted watch, or a bookmark.
    Alive,
    /// Something went wrong; it is tried again after a pause.
    Failed(ApiError),
}

impl<T> WatchEvent<T> {
    /// Whether the server said this. That a list begins is our own word, told before the server is asked.
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

/// Follows all objects of a kind. The stream never ends, and does nothing while it is not polled.
pub fn watch<T: Object>(cluster: Cluster, scope: WatchScope) -> impl Stream<Item = WatchEvent<T>> + Send + Unpin {
    let follower = Follower {
        cluster,
        scope,
        machine: Machine::new(),
        size: PageSize::new(),
        open: None,
        pause: None,
        failing: None,
        told: VecDeque::new(),
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
    machine: Machine,
    size: PageSize,
    open: Option<Open>,
    /// To wait before the next question.
    pause: Option<Duration>,
    /// Since when nothing but failures came.
    failing: Option<Instant>,
    told: VecDeque<WatchEvent<T>>,
}

/// A watch that the server accepted.
struct Open {
    body: Answer,
    lines: Lines,
    since: Instant,
}

impl<T: Object> Follower<T> {
    async fn next(&mut self) -> WatchEvent<T> {
        loop {
            if let Some(event) = self.told.pop_front() {
                return event;
            }
            if let Some(pause) = self.pause.take() {
                self.cluster.pause(pause).await;
            }
            if let Err(error) = self.step().await {
                self.fail(error);
            }
        }
    }

    async fn step(&mut self) -> Result<(), ApiError> {
        if let Some(open) = &mut self.open {
            if let Some(line) = open.lines.next().map_err(|TooLong| too_long::<T>())? {
                let event = self.machine.line(&line)?;
                self.machine.thrives();
                self.told.push_back(event);
                return Ok(());
            }
            return self.read().await;
        }
        match self.machine.ask() {
            Ask::Begin => {
                self.told.push_back(self.machine.begin());
                Ok(())
            }
            Ask::List(next) => {
                let page = self.cluster.page(&self.scope, &mut self.size, next.as_deref()).await?;
                self.failing = None;
                let (events, through) = self.machine.page(page);
                self.told.extend(events);
                through
            }
            Ask::Watch(version) => {
                // Spread out, so that watches opened together do not end together.
                let seconds = 240 + random() % 50;
                let body = self.cluster.watch(T::KIND, &self.scope, &version, seconds).await?;
                self.failing = None;
                self.open = Some(Open { body, lines: Lines::default(), since: Instant::now() });
                self.told.push_back(WatchEvent::Alive);
                Ok(())
            }
        }
    }

    /// Reads on in the open watch.
    async fn read(&mut self) -> Result<(), ApiError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let silent = |_| ApiError::Timeout { message: format!("a watch of {} was silent", T::KIND.plural) };
        if let Some(piece) = timeout(SILENCE, piece(&mut open.body)).await.map_err(silent)?? {
            open.lines.push(&piece);
            return Ok(());
        }
        // The end: by its own time-out as asked, or because something broke.
        let ended = |how| ApiError::Transport { message: format!("a watch of {} {how}", T::KIND.plural) };
        if open.lines.is_cut() {
            return Err(ended("ended in the middle of an event"));
        }
        if open.since.elapsed() < THRIVING {
            return Err(ended("ended as soon as it began"));
        }
        self.machine.thrives();
        self.open = None;
        Ok(())
    }

    fn fail(&mut self, error: ApiError) {
        let open = self.open.take();
        if open.as_ref().is_some_and(|open| open.since.elapsed() >= THRIVING) {
            self.machine.thrives();
        }
        let outage = self.failing.get_or_insert_with(Instant::now).elapsed();
        let longest = self.machine.failed(&error, open.is_some(), outage);
        // Between half and the whole of it, so that many watches do not come back at once.
        let half = longest / 2;
        let spread = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
        self.pause = Some(half + Duration::from_millis(random() % spread));
        self.told.push_back(WatchEvent::Failed(error));
    }
}

fn too_long<T: Object>() -> ApiError {
    ApiError::Undecodable { message: format!("an event of {} is longer than any object", T::KIND.plural) }
}

/// Good enough to spread things out: each `RandomState` is seeded anew.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
