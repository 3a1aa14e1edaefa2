//! The source's I/O: keeps time, executes the poller's queries and returns the replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_discoverer::{Changed, EventEffect, JitteredBackoff, Source};
use gimbal_octavia_rows::Id;
use gimbal_openstack_client::{ClientOptions, Cloud, CloudCredentials, Error, Session};
use gimbal_openstack_source::{ListMode, ListScope, Query, Reply};
use gimbal_runtime::Exit;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::Args;
use crate::args::ModeWanted;
use crate::credentials_source::CredentialsSource;
use crate::entry::{
    AccessMode, CloudConnection, EntryContext, EntryError, EntryMode, ProjectsFrom, enter, incarnation,
};
use crate::fetch::{Fetched, fetch, kind};
use crate::metrics::CloudSourceMetrics;
use crate::poll_state::{PollResult, PollState};

/// How long a start waits for Keystone before it continues without an answer.
const FIRST_ENTRY: Duration = Duration::from_secs(10);
/// The shortest and longest pause between attempts to enter a cloud.
const ENTRY_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long refused credentials are not presented to Keystone again: the first wait, which doubles each time, and the
/// longest.
const REFUSED_FOR: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1800));
/// The maximum number of troubles of one poll that are logged one by one.
const TROUBLES_LOGGED: usize = 10;

/// The timing and concurrency of polls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    interval: Duration,
    timeout: Duration,
    concurrency: usize,
}

impl Pace {
    pub(crate) fn of(args: &Args) -> Self {
        Self {
            interval: args.poll_interval.0,
            timeout: args.poll_timeout.0,
            concurrency: usize::from(args.concurrency),
        }
    }

    /// Returns the interval plus or minus a tenth, so that many discoverers do not poll at the same time.
    fn jittered(self) -> Duration {
        let fifth = self.interval / 5;
        self.interval * 9 / 10 + JitteredBackoff::new(fifth, fifth).pause()
    }
}

/// A source that polls an OpenStack cloud.
pub(crate) struct CloudSource {
    state: PollState,
    context: EntryContext,
    pace: Pace,
    connection: Option<CloudConnection>,
    /// Credentials that Keystone refused the last time.
    refused: Option<Refused>,
    /// Whether a project's token that sees other projects' objects already caused a new decision about the mode.
    decided_again: bool,
    /// When such a token may cause the next decision.
    look_again: Instant,
    look_pauses: JitteredBackoff,
    undated: bool,
    /// Sessions by project, each of which keeps its token.
    sessions: HashMap<Id, Session>,
    tasks: JoinSet<CloudEvent>,
    stage: Activity,
    /// When the next poll or the next attempt to enter is due, or the running one times out.
    due: Instant,
    entry_pauses: JitteredBackoff,
    metrics: CloudSourceMetrics,
}

/// Credentials that Keystone refused, and until when they are not presented again.
#[derive(Debug)]
struct Refused {
    credentials: CloudCredentials,
    until: Instant,
    pause: Duration,
}

impl Refused {
    /// Records a refusal. `before` is the previous refusal, if any.
    fn again(credentials: CloudCredentials, before: Option<Self>, now: Instant) -> Self {
        let same = before.filter(|before| before.credentials.show_the_same_as(&credentials));
        let pause = same.map_or(REFUSED_FOR.0, |before| (before.pause * 2).min(REFUSED_FOR.1));
        Self { credentials, until: now + pause, pause }
    }
}

/// The present activity.
#[derive(Debug)]
enum Activity {
    /// Waits for the next poll, or for the next attempt to enter.
    Resting(Next),
    /// Enters the cloud, with the same terms or to decide what the token sees now.
    Entering(Entering),
    /// Polls the cloud.
    Polling(Polling),
}

/// What follows a rest.
#[derive(Debug, Clone)]
enum Next {
    Poll,
    Enter(EntryMode),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entering {
    AsBefore,
    Deciding,
}

#[derive(Debug)]
struct Polling {
    began: Instant,
    calls_before: u64,
    next: Next,
    /// Whether the token has fewer roles than when the terms were decided.
    lost_roles: bool,
}

/// An event from a task or from the clock.
pub(crate) enum CloudEvent {
    Entered(Result<Box<CloudConnection>, EntryError>),
    Fetched(Box<Fetched>),
    Due,
}

impl CloudSource {
    /// Reads the credentials. Sends nothing yet.
    ///
    /// # Errors
    /// [`Exit::Usage`] if they cannot be read or are invalid.
    pub(crate) fn new(args: &Args, pace: Pace, metrics: CloudSourceMetrics) -> Result<Self, Exit> {
        let source = CredentialsSource::of(args);
        let options = ClientOptions {
            list_timeout: args.list_timeout.0,
            timeout: args.call_timeout.0,
            user_agent: crate::PROGRAM.to_string(),
            random: Arc::new(|| {
                JitteredBackoff::new(Duration::from_secs(1), Duration::from_secs(1)).pause().as_secs_f64()
            }),
            ..ClientOptions::default()
        };
        let wrong = |error: &dyn std::fmt::Display| Exit::Usage(format!("{}: {error}", source.flag()));
        let credentials = source.read().map_err(|error| wrong(&error))?;
        let cloud = Cloud::new(credentials, options.clone()).map_err(|error| wrong(&error))?;
        let incarnation = incarnation(&cloud);
        Ok(Self {
            state: PollState::new(incarnation.clone(), args.options(), pace.interval),
            context: EntryContext { credentials: source, options, mode: args.mode, incarnation },
            pace,
            connection: None,
            refused: None,
            decided_again: false,
            look_again: Instant::now(),
            look_pauses: JitteredBackoff::new(ENTRY_PAUSES.0, ENTRY_PAUSES.1),
            undated: false,
            sessions: HashMap::new(),
            tasks: JoinSet::new(),
            stage: Activity::Resting(Next::Enter(EntryMode::Decide(None))),
            due: Instant::now(),
            entry_pauses: JitteredBackoff::new(ENTRY_PAUSES.0, ENTRY_PAUSES.1),
            metrics,
        })
    }

    /// Enters the cloud once at start, so that wrong credentials end the process.
    ///
    /// # Errors
    /// [`Exit::Usage`] if the configuration is wrong or Keystone refuses the credentials.
    pub(crate) async fn first_entry(&mut self) -> Result<(), Exit> {
        let entry = enter(self.context.clone(), EntryMode::Decide(None), None);
        match timeout(FIRST_ENTRY, entry).await {
            Ok(Err(error)) if error.is_wrong_input() => {
                Err(Exit::Usage(format!("{}: {error}", self.context.credentials.flag())))
            }
            Ok(entered) => {
                self.on_entered(entered.map(Box::new), Entering::Deciding, Instant::now());
                Ok(())
            }
            Err(_) => {
                tracing::warn!(
                    keystone = self.context.incarnation,
                    "the cloud does not answer yet; asking again until it does"
                );
                Ok(())
            }
        }
    }

    fn rest(&mut self, pause: Duration, next: Next, now: Instant) {
        self.due = now + pause;
        self.stage = Activity::Resting(next);
    }

    /// Called when `due` is reached.
    fn on_due(&mut self, now: Instant) {
        match std::mem::replace(&mut self.stage, Activity::Resting(Next::Poll)) {
            Activity::Resting(Next::Poll) => self.begin_poll(now),
            Activity::Resting(Next::Enter(wish)) => self.start_entering(wish, now),
            Activity::Entering(how) => {
                self.tasks = JoinSet::new();
                let message = "not within the time that a poll may take (--poll-timeout)".to_owned();
                self.on_entered(Err(EntryError::Cloud(Error::Timeout { message })), how, now);
            }
            Activity::Polling(polling) => {
                self.tasks = JoinSet::new();
                self.finish_poll(polling, now);
            }
        }
    }

    fn start_entering(&mut self, wish: EntryMode, now: Instant) {
        let refused = self.refused.as_ref().filter(|refused| now < refused.until);
        let how = if matches!(wish, EntryMode::As(_)) { Entering::AsBefore } else { Entering::Deciding };
        let entry = enter(self.context.clone(), wish, refused.map(|refused| refused.credentials.clone()));
        self.tasks.spawn(async move { CloudEvent::Entered(entry.await.map(Box::new)) });
        self.stage = Activity::Entering(how);
        self.due = now + self.pace.timeout;
    }

    /// Called when an attempt to enter the cloud has ended.
    fn on_entered(
        &mut self,
        entered: Result<Box<CloudConnection>, EntryError>,
        how: Entering,
        now: Instant,
    ) -> EventEffect {
        let is_same_place = |connection: &CloudConnection| {
            self.connection.as_ref().is_none_or(|before| before.terms.place == connection.terms.place)
        };
        let connection = match entered
            .and_then(|connection| if is_same_place(&connection) { Ok(connection) } else { Err(EntryError::Elsewhere) })
        {
            Ok(connection) => *connection,
            Err(error) => {
                let keeps_polling = how == Entering::Deciding && self.connection.is_some();
                if keeps_polling {
                    tracing::warn!(%error, "what the token sees could not be looked into: going on as before");
                } else {
                    self.state.entry_failed(error.to_string());
                }
                if let EntryError::Refused { credentials, .. } = error {
                    self.refused = Some(Refused::again(*credentials, self.refused.take(), now));
                }
                if keeps_polling {
                    self.begin_poll(now);
                    return EventEffect::Continues;
                }
                // Keep the terms: the meaning of an empty list must not change with what a token may see.
                let wish = self
                    .connection
                    .as_ref()
                    .map_or(EntryMode::Decide(None), |connection| EntryMode::As(connection.terms.clone()));
                let pause = self.entry_pauses.pause();
                self.rest(pause, Next::Enter(wish), now);
                return EventEffect::Continues;
            }
        };
        let before = self.connection.as_ref().map(|connection| connection.terms.mode);
        let mode = connection.terms.mode;
        self.metrics.client_replaced();
        self.metrics.count(&connection.cloud.calls());
        self.sessions.clear();
        let mode_changed = before != Some(mode);
        if mode_changed {
            log_mode(&connection.terms);
            self.metrics.entered(mode);
            self.state.enter(mode, &connection.terms);
        }
        self.connection = Some(connection);
        self.begin_poll(now);
        if mode_changed && before.is_some() { EventEffect::StartedOver } else { EventEffect::Continues }
    }

    fn begin_poll(&mut self, now: Instant) {
        let calls_before =
            self.connection.as_ref().map(|connection| connection.cloud.calls().total()).unwrap_or_default();
        self.connection.iter().for_each(|connection| connection.cloud.begin_round());
        self.state.begin(now);
        self.due = now + self.pace.timeout;
        self.stage = Activity::Polling(Polling { began: now, calls_before, next: Next::Poll, lost_roles: false });
        self.start_queries();
    }

    /// Starts as many queries as may run concurrently.
    fn start_queries(&mut self) {
        let Some(connection) = &self.connection else { return };
        while self.tasks.len() < self.pace.concurrency {
            let Some(query) = self.state.next_query() else { return };
            let session = match list_scope_of(&query) {
                // An application credential's token is valid for its project, and no token of another scope can be made
                // from it.
                Some(ListScope::Project(_)) if connection.terms.projects == ProjectsFrom::Token => {
                    connection.session.clone()
                }
                Some(ListScope::Project(id)) => {
                    let new =
                        || connection.cloud.session(&gimbal_openstack_client::TokenScope::Project(id.to_string()));
                    self.sessions.entry(id.clone()).or_insert_with(new).clone()
                }
                Some(ListScope::AllProjects) | None => connection.session.clone(),
            };
            let fetching = fetch(connection.clone(), session, query);
            self.tasks.spawn(async move { CloudEvent::Fetched(Box::new(fetching.await)) });
        }
    }

    fn on_fetched(&mut self, fetched: Fetched, now: Instant) {
        let Fetched { answer, failure, invalid_credentials, sees_all } = fetched;
        let kind = kind(&answer.query());
        match failure {
            Some(outcome) => self.metrics.source.failed(kind, outcome.as_str()),
            None => self.metrics.source.listed(kind),
        }
        if !self.undated && matches!(&answer, Reply::LoadBalancers(_, Ok(list)) if list.server_time.is_none()) {
            self.undated = true;
            tracing::warn!("answers come without a Date, as from a proxy that strips it: what changed is read twice");
        }
        if let Reply::Projects(Ok(list)) = &answer {
            self.metrics.projects(list.rows.len());
            self.sessions.retain(|id, _| list.rows.iter().any(|project| project.id == *id));
        }
        let Activity::Polling(polling) = &mut self.stage else { return };
        let mut over = false;
        polling.lost_roles |= matches!(&answer, Reply::Roles(_, Ok(missing)) if !missing.is_empty());
        if let Some(connection) = self.connection.as_ref().filter(|_| invalid_credentials) {
            // The credentials may have been replaced at their source. Until they are read again, no other call may
            // present them.
            polling.next = Next::Enter(EntryMode::As(connection.terms.clone()));
            self.refused = Some(Refused::again(connection.credentials.clone(), self.refused.take(), now));
            over = true;
        } else if sees_all.is_some()
            && self.context.mode == ModeWanted::Auto
            && now >= self.look_again
            && matches!(polling.next, Next::Poll)
        {
            polling.next = Next::Enter(EntryMode::Decide(sees_all));
            // Each project's list would show all projects. End the poll, unless an earlier decision changed nothing.
            over = !self.decided_again;
        }
        self.state.answer(answer, failure.is_some(), now);
        if over {
            self.tasks = JoinSet::new();
        } else {
            self.start_queries();
        }
        if (over || self.state.is_done())
            && let Activity::Polling(polling) = std::mem::replace(&mut self.stage, Activity::Resting(Next::Poll))
        {
            self.finish_poll(polling, now);
        }
    }

    fn finish_poll(&mut self, mut polling: Polling, now: Instant) {
        let summary = self.state.finish(now);
        if let Some(connection) =
            self.connection.as_ref().filter(|_| polling.lost_roles && matches!(polling.next, Next::Poll))
            && summary.result != PollResult::Failed
        {
            // The lists show as much as before, so the token's present roles are enough. With the old roles, every
            // later poll in which a project vanishes would fail due to a role that is not needed.
            polling.next = Next::Enter(EntryMode::Renew(connection.terms.clone()));
        }
        for trouble in summary.new_troubles.iter().take(TROUBLES_LOGGED) {
            tracing::warn!("{trouble}");
        }
        if let Some(more) = summary.new_troubles.len().checked_sub(TROUBLES_LOGGED).filter(|more| *more > 0) {
            tracing::warn!(more, "and more troubles like these; Explain shows those of a Service");
        }
        if summary.result == PollResult::Complete {
            self.refused = None;
        }
        let took = now.saturating_duration_since(polling.began);
        if let Some(connection) = &self.connection {
            let calls = connection.cloud.calls();
            self.metrics.count(&calls);
            let made = calls.total().saturating_sub(polling.calls_before);
            self.metrics.polled(&summary, took, made);
            tracing::debug!(calls = made, ?took, result = summary.result.as_str(), "a poll has ended");
        }
        let mut pause = self.pace.jittered().saturating_sub(took).max(self.pace.interval / 10);
        match &polling.next {
            Next::Enter(EntryMode::Decide(_)) => {
                // Decide at once the first time, so that the objects of all projects are published without waiting for
                // an interval.
                if !std::mem::replace(&mut self.decided_again, true) {
                    pause = Duration::ZERO;
                }
                // Later decisions wait longer, and the polls between them keep their interval.
                self.look_again = now + self.pace.interval + self.look_pauses.pause();
            }
            _ => self.entry_pauses.reset(),
        }
        self.rest(pause, polling.next, now);
    }
}

fn log_mode(terms: &AccessMode) {
    match terms.mode {
        ListMode::Bulk => {
            tracing::info!(projects = ?terms.projects, "mode: bulk, one token sees the load balancers of all")
        }
        ListMode::PerProject => {
            tracing::info!(projects = ?terms.projects, "mode: per-project, each is listed with a token of its own");
        }
    }
}

fn list_scope_of(query: &Query) -> Option<&ListScope> {
    match query {
        Query::Projects => None,
        Query::LoadBalancers(scope)
        | Query::Listeners(scope)
        | Query::Pools(scope)
        | Query::L7Policies(scope)
        | Query::Members(scope, _)
        | Query::LoadBalancer(scope, _)
        | Query::Listener(scope, _)
        | Query::Pool(scope, _)
        | Query::Roles(scope) => Some(scope),
    }
}

impl Source for CloudSource {
    type Event = CloudEvent;
    type Status = PollState;

    async fn event(&mut self) -> CloudEvent {
        loop {
            tokio::select! {
                Some(joined) = self.tasks.join_next() => match joined {
                    Ok(event) => return event,
                    // The task's query counts as unanswered.
                    Err(error) => tracing::error!(%error, "a task of the poll ended badly"),
                },
                () = sleep_until(self.due.into()) => return CloudEvent::Due,
            }
        }
    }

    fn apply(&mut self, event: CloudEvent, now: Instant) -> EventEffect {
        match event {
            CloudEvent::Entered(entered) => {
                let how = match &self.stage {
                    Activity::Entering(how) => *how,
                    Activity::Resting(_) | Activity::Polling(_) => Entering::AsBefore,
                };
                return self.on_entered(entered, how, now);
            }
            CloudEvent::Fetched(fetched) => self.on_fetched(*fetched, now),
            CloudEvent::Due => self.on_due(now),
        }
        EventEffect::Continues
    }

    fn drain(&mut self, _: Instant) -> Changed {
        self.state.take_changed()
    }

    fn status(&self) -> &PollState {
        &self.state
    }
}

#[cfg(test)]
mod tests;
