//! The edge: keeps time, and carries questions to the cloud and answers from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_discoverer::{Backoff, Changed, Source, Taken};
use gimbal_octavia_rows::Id;
use gimbal_openstack_client::{Cloud, Credentials, Error, Options, Session};
use gimbal_openstack_source::{Answer, Ask, Mode, Whose};
use gimbal_runtime::Exit;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::Args;
use crate::access::Access;
use crate::args::ModeWanted;
use crate::entry::{Door, EntryError, ProjectsFrom, Terms, Way, Wish, enter, incarnation};
use crate::fetch::{Fetched, fetch, kind};
use crate::metrics::Metrics;
use crate::seen::{PollResult, Seen};

/// How long a start waits for Keystone before it goes on without.
const FIRST_ENTRY: Duration = Duration::from_secs(10);
/// Pauses between attempts to enter a cloud.
const ENTRY_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// After this time credentials that Keystone refused are shown to it again, and later after twice as long each time.
const REFUSED_FOR: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1800));
/// How many troubles of one poll are told one by one.
const TOLD: usize = 10;

/// When and how much is asked.
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

    /// The interval give or take a tenth, so that many discoverers do not ask together.
    fn jittered(self) -> Duration {
        let fifth = self.interval / 5;
        self.interval * 9 / 10 + Backoff::new(fifth, fifth).pause()
    }
}

/// An OpenStack cloud that is polled.
pub(crate) struct CloudSource {
    seen: Seen,
    door: Door,
    pace: Pace,
    way: Option<Way>,
    /// Credentials that Keystone refused when they were shown last.
    refused: Option<Refused>,
    /// A token of one project showed more, and that was looked into without another mode as its end.
    looked_into: bool,
    /// When that is worth another look.
    look_again: Instant,
    look_pauses: Backoff,
    undated: bool,
    /// Each keeps the token of its project.
    sessions: HashMap<Id, Session>,
    tasks: JoinSet<Event>,
    stage: Stage,
    /// When something is due: the next poll, the next attempt to enter, or the end of patience with what runs.
    due: Instant,
    entry_pauses: Backoff,
    metrics: Metrics,
}

/// Credentials that are no good, as far as Keystone said.
#[derive(Debug)]
struct Refused {
    credentials: Credentials,
    until: Instant,
    pause: Duration,
}

impl Refused {
    /// `before`: what was refused before, if it was.
    fn again(credentials: Credentials, before: Option<Self>, now: Instant) -> Self {
        let same = before.filter(|before| before.credentials.show_the_same_as(&credentials));
        let pause = same.map_or(REFUSED_FOR.0, |before| (before.pause * 2).min(REFUSED_FOR.1));
        Self { credentials, until: now + pause, pause }
    }
}

/// What goes on.
#[derive(Debug)]
enum Stage {
    /// Nothing, until the next poll.
    Resting(Next),
    /// The cloud is being entered: as before, or also to learn what the token sees now.
    Entering(Entering),
    /// A poll.
    Polling(Polling),
}

/// What a rest ends with.
#[derive(Debug, Clone)]
enum Next {
    Poll,
    Enter(Wish),
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
    /// The token has fewer roles than when the terms were decided.
    lost_roles: bool,
}

/// What a task or the clock tells.
pub(crate) enum Event {
    Entered(Result<Box<Way>, EntryError>),
    Fetched(Box<Fetched>),
    Due,
}

impl CloudSource {
    /// Reads the credentials; nothing is asked yet.
    ///
    /// # Errors
    /// [`Exit::Usage`] when they cannot be read or make no sense.
    pub(crate) fn new(args: &Args, pace: Pace, metrics: Metrics) -> Result<Self, Exit> {
        let access = Access::of(args);
        let options = Options {
            list_timeout: args.list_timeout.0,
            timeout: args.call_timeout.0,
            user_agent: crate::PROGRAM.to_string(),
            random: Arc::new(|| Backoff::new(Duration::from_secs(1), Duration::from_secs(1)).pause().as_secs_f64()),
            ..Options::default()
        };
        let wrong = |error: &dyn std::fmt::Display| Exit::Usage(format!("{}: {error}", access.flag()));
        let credentials = access.read().map_err(|error| wrong(&error))?;
        let cloud = Cloud::new(credentials, options.clone()).map_err(|error| wrong(&error))?;
        let incarnation = incarnation(&cloud);
        Ok(Self {
            seen: Seen::new(incarnation.clone(), args.options(), pace.interval),
            door: Door { access, options, mode: args.mode, incarnation },
            pace,
            way: None,
            refused: None,
            looked_into: false,
            look_again: Instant::now(),
            look_pauses: Backoff::new(ENTRY_PAUSES.0, ENTRY_PAUSES.1),
            undated: false,
            sessions: HashMap::new(),
            tasks: JoinSet::new(),
            stage: Stage::Resting(Next::Enter(Wish::Decide(None))),
            due: Instant::now(),
            entry_pauses: Backoff::new(ENTRY_PAUSES.0, ENTRY_PAUSES.1),
            metrics,
        })
    }

    /// Shows the credentials to Keystone once, so that wrong ones end the process (seed 000).
    ///
    /// # Errors
    /// [`Exit::Usage`] when Keystone says that they are invalid.
    pub(crate) async fn first_entry(&mut self) -> Result<(), Exit> {
        let entry = enter(self.door.clone(), Wish::Decide(None), None);
        match timeout(FIRST_ENTRY, entry).await {
            Ok(Err(error)) if error.is_wrong_input() => {
                Err(Exit::Usage(format!("{}: {error}", self.door.access.flag())))
            }
            Ok(entered) => {
                self.entered(entered.map(Box::new), Entering::Deciding, Instant::now());
                Ok(())
            }
            Err(_) => {
                tracing::warn!(
                    keystone = self.door.incarnation,
                    "the cloud does not answer yet; asking again until it does"
                );
                Ok(())
            }
        }
    }

    fn rest(&mut self, pause: Duration, next: Next, now: Instant) {
        self.due = now + pause;
        self.stage = Stage::Resting(next);
    }

    /// The clock says that it is time.
    fn time_is_up(&mut self, now: Instant) {
        match std::mem::replace(&mut self.stage, Stage::Resting(Next::Poll)) {
            Stage::Resting(Next::Poll) => self.begin(now),
            Stage::Resting(Next::Enter(wish)) => self.start_entering(wish, now),
            Stage::Entering(how) => {
                self.tasks = JoinSet::new();
                let message = "not within the time that a poll may take (--poll-timeout)".to_owned();
                self.entered(Err(EntryError::Cloud(Error::Timeout { message })), how, now);
            }
            Stage::Polling(polling) => {
                self.tasks = JoinSet::new();
                self.finish(polling, now);
            }
        }
    }

    fn start_entering(&mut self, wish: Wish, now: Instant) {
        let refused = self.refused.as_ref().filter(|refused| now < refused.until);
        let how = if matches!(wish, Wish::As(_)) { Entering::AsBefore } else { Entering::Deciding };
        let entry = enter(self.door.clone(), wish, refused.map(|refused| refused.credentials.clone()));
        self.tasks.spawn(async move { Event::Entered(entry.await.map(Box::new)) });
        self.stage = Stage::Entering(how);
        self.due = now + self.pace.timeout;
    }

    /// The way into the cloud is open, or not.
    fn entered(&mut self, entered: Result<Box<Way>, EntryError>, how: Entering, now: Instant) -> Taken {
        let stays = |way: &Way| self.way.as_ref().is_none_or(|before| before.terms.place == way.terms.place);
        let way = match entered.and_then(|way| if stays(&way) { Ok(way) } else { Err(EntryError::Elsewhere) }) {
            Ok(way) => *way,
            Err(error) => {
                let goes_on = how == Entering::Deciding && self.way.is_some();
                if goes_on {
                    tracing::warn!(%error, "what the token sees could not be looked into: going on as before");
                } else {
                    self.seen.not_entered(error.to_string());
                }
                if let EntryError::Refused { credentials, .. } = error {
                    self.refused = Some(Refused::again(*credentials, self.refused.take(), now));
                }
                if goes_on {
                    self.begin(now);
                    return Taken::Told;
                }
                // In doubt the terms stay: what a token may see must not change what an empty list means.
                let wish = self.way.as_ref().map_or(Wish::Decide(None), |way| Wish::As(way.terms.clone()));
                let pause = self.entry_pauses.pause();
                self.rest(pause, Next::Enter(wish), now);
                return Taken::Told;
            }
        };
        let before = self.way.as_ref().map(|way| way.terms.mode);
        let mode = way.terms.mode;
        self.metrics.client_replaced();
        self.metrics.count(&way.cloud.calls());
        self.sessions.clear();
        let another = before != Some(mode);
        if another {
            say(&way.terms);
            self.metrics.entered(mode);
            self.seen.enter(mode, &way.terms);
        }
        self.way = Some(way);
        self.begin(now);
        if another && before.is_some() { Taken::StartedOver } else { Taken::Told }
    }

    fn begin(&mut self, now: Instant) {
        let calls_before = self.way.as_ref().map(|way| way.cloud.calls().total()).unwrap_or_default();
        self.way.iter().for_each(|way| way.cloud.begin_round());
        self.seen.begin(now);
        self.due = now + self.pace.timeout;
        self.stage = Stage::Polling(Polling { began: now, calls_before, next: Next::Poll, lost_roles: false });
        self.ask();
    }

    /// Asks as much as may be asked at once.
    fn ask(&mut self) {
        let Some(way) = &self.way else { return };
        while self.tasks.len() < self.pace.concurrency {
            let Some(ask) = self.seen.next_ask() else { return };
            let session = match whose(&ask) {
                // A token of an application credential is good for its project, and no other can be made from it.
                Some(Whose::Project(_)) if way.terms.projects == ProjectsFrom::Token => way.session.clone(),
                Some(Whose::Project(id)) => {
                    let new = || way.cloud.session(&gimbal_openstack_client::Scope::Project(id.to_string()));
                    self.sessions.entry(id.clone()).or_insert_with(new).clone()
                }
                Some(Whose::Everyones) | None => way.session.clone(),
            };
            let fetching = fetch(way.clone(), session, ask);
            self.tasks.spawn(async move { Event::Fetched(Box::new(fetching.await)) });
        }
    }

    fn fetched(&mut self, fetched: Fetched, now: Instant) {
        let Fetched { answer, failure, invalid_credentials, sees_all } = fetched;
        let kind = kind(&answer.ask());
        match failure {
            Some(outcome) => self.metrics.source.failed(kind, outcome.as_str()),
            None => self.metrics.source.listed(kind),
        }
        if !self.undated && matches!(&answer, Answer::LoadBalancers(_, Ok(list)) if list.server_time.is_none()) {
            self.undated = true;
            tracing::warn!("answers come without a Date, as from a proxy that strips it: what changed is read twice");
        }
        if let Answer::Projects(Ok(list)) = &answer {
            self.metrics.projects(list.rows.len());
            self.sessions.retain(|id, _| list.rows.iter().any(|project| project.id == *id));
        }
        let Stage::Polling(polling) = &mut self.stage else { return };
        let mut over = false;
        polling.lost_roles |= matches!(&answer, Answer::Roles(_, Ok(missing)) if !missing.is_empty());
        if let Some(way) = self.way.as_ref().filter(|_| invalid_credentials) {
            // They may have been replaced where they came from. Until then no other question may show them.
            polling.next = Next::Enter(Wish::As(way.terms.clone()));
            self.refused = Some(Refused::again(way.credentials.clone(), self.refused.take(), now));
            over = true;
        } else if sees_all.is_some()
            && self.door.mode == ModeWanted::Auto
            && now >= self.look_again
            && matches!(polling.next, Next::Poll)
        {
            polling.next = Next::Enter(Wish::Decide(sees_all));
            // Each project's list would show everything. If looking into it changed nothing before, the lists are read all
            // the same.
            over = !self.looked_into;
        }
        self.seen.answer(answer, failure.is_some(), now);
        if over {
            self.tasks = JoinSet::new();
        } else {
            self.ask();
        }
        if (over || self.seen.is_done())
            && let Stage::Polling(polling) = std::mem::replace(&mut self.stage, Stage::Resting(Next::Poll))
        {
            self.finish(polling, now);
        }
    }

    fn finish(&mut self, mut polling: Polling, now: Instant) {
        let summary = self.seen.finish(now);
        if let Some(way) = self.way.as_ref().filter(|_| polling.lost_roles && matches!(polling.next, Next::Poll))
            && summary.result != PollResult::Failed
        {
            // The lists show as much as before, so what the token has now is enough. Were it kept to what it had, each poll
            // from the next loss on would fail for a role that shows nothing.
            polling.next = Next::Enter(Wish::Renew(way.terms.clone()));
        }
        for trouble in summary.new_troubles.iter().take(TOLD) {
            tracing::warn!("{trouble}");
        }
        if let Some(more) = summary.new_troubles.len().checked_sub(TOLD).filter(|more| *more > 0) {
            tracing::warn!(more, "and more troubles like these; Explain tells those of a Service");
        }
        if summary.result == PollResult::Complete {
            self.refused = None;
        }
        let took = now.saturating_duration_since(polling.began);
        if let Some(way) = &self.way {
            let calls = way.cloud.calls();
            self.metrics.count(&calls);
            let made = calls.total().saturating_sub(polling.calls_before);
            self.metrics.polled(&summary, took, made);
            tracing::debug!(calls = made, ?took, result = summary.result.as_str(), "a poll has ended");
        }
        let mut pause = self.pace.jittered().saturating_sub(took).max(self.pace.interval / 10);
        match &polling.next {
            Next::Enter(Wish::Decide(_)) => {
                // What one token sees is to be offered from the first poll on, not an interval later.
                if !std::mem::replace(&mut self.looked_into, true) {
                    pause = Duration::ZERO;
                }
                // The polls between keep their pace.
                self.look_again = now + self.pace.interval + self.look_pauses.pause();
            }
            _ => self.entry_pauses.reset(),
        }
        self.rest(pause, polling.next, now);
    }
}

fn say(terms: &Terms) {
    match terms.mode {
        Mode::Bulk => {
            tracing::info!(projects = ?terms.projects, "mode: bulk, one token sees the load balancers of all")
        }
        Mode::PerProject => {
            tracing::info!(projects = ?terms.projects, "mode: per-project, each is listed with a token of its own");
        }
    }
}

fn whose(ask: &Ask) -> Option<&Whose> {
    match ask {
        Ask::Projects => None,
        Ask::LoadBalancers(whose)
        | Ask::Listeners(whose)
        | Ask::Pools(whose)
        | Ask::L7Policies(whose)
        | Ask::Members(whose, _)
        | Ask::LoadBalancer(whose, _)
        | Ask::Listener(whose, _)
        | Ask::Pool(whose, _)
        | Ask::Roles(whose) => Some(whose),
    }
}

impl Source for CloudSource {
    type Event = Event;
    type Known = Seen;

    async fn event(&mut self) -> Event {
        loop {
            tokio::select! {
                Some(joined) = self.tasks.join_next() => match joined {
                    Ok(event) => return event,
                    // Its question counts as not answered in time.
                    Err(error) => tracing::error!(%error, "a task of the poll ended badly"),
                },
                () = sleep_until(self.due.into()) => return Event::Due,
            }
        }
    }

    fn take(&mut self, event: Event, now: Instant) -> Taken {
        match event {
            Event::Entered(entered) => {
                let how = match &self.stage {
                    Stage::Entering(how) => *how,
                    Stage::Resting(_) | Stage::Polling(_) => Entering::AsBefore,
                };
                return self.entered(entered, how, now);
            }
            Event::Fetched(fetched) => self.fetched(*fetched, now),
            Event::Due => self.time_is_up(now),
        }
        Taken::Told
    }

    fn settle(&mut self, _: Instant) -> Changed {
        self.seen.take_changed()
    }

    fn known(&self) -> &Seen {
        &self.seen
    }
}

#[cfg(test)]
mod tests;
