//! How far a change of a Service has come, from its source to the Gimbal cluster.

use std::time::{Duration, Instant};

use gimbal_session::{ChangeAge, Outcome, RejectReason, TraceContext};

/// A change of a Service that came and is not settled for good. If more changes of it come, it is the one that began first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Journey {
    /// Its age when it came.
    pub age: ChangeAge,
    /// When it came.
    pub arrived: Instant,
    /// When the first write for it was handed out; `None`: there was none.
    pub started: Option<Instant>,
    /// The trace of the frame that it came in, if that is sampled.
    pub trace: Option<TraceContext>,
    /// When the first change came that is not settled, whatever agents say of their ages.
    waits_since: Instant,
    /// Whether the API server failed to do the last write for it, which is tried again.
    failed: bool,
    /// Whether it was counted as rejected.
    rejected: bool,
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JourneyEnd {
    /// The API server accepted it.
    Written,
    /// It is not published, or was not when it was first tried. If the API server failed, it may still be written.
    Rejected,
    /// The guard, or the loss of its backend, holds it.
    Held,
}

/// The times that a settled change took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JourneyLegs {
    /// From its cause in the source to when the source reported it to the agent; `None`: the source does not say.
    pub source: Option<Duration>,
    /// In the agent, until it was sent.
    pub agent: Duration,
    /// In the writer, until its first write was handed out, or until it was settled without one.
    pub queue: Duration,
    /// From its first write until it was settled; `None`: nothing was written.
    pub api_server: Option<Duration>,
}

impl JourneyEnd {
    /// Returns its name in metrics and traces.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Rejected => "rejected",
            Self::Held => "held",
        }
    }
}

impl Journey {
    /// A change comes.
    pub(crate) fn begin(age: ChangeAge, trace: Option<TraceContext>, now: Instant) -> Self {
        Self { age, arrived: now, started: None, trace, waits_since: now, failed: false, rejected: false }
    }

    /// Another change of the same Service comes. The one that began first counts.
    pub(crate) fn joined_by(self, other: Self) -> Self {
        let first = if other.begun() < self.begun() { other } else { self };
        Self { waits_since: self.waits_since, failed: self.failed, rejected: self.rejected, ..first }
    }

    /// Returns when the first change came that is not settled.
    pub(crate) fn waits_since(&self) -> Instant {
        self.waits_since
    }

    /// A write for it was answered otherwise than hoped for: the API server failed, or refused it.
    pub(crate) fn set_failed(&mut self, failed: bool) {
        self.failed = failed;
    }

    /// Returns what is left of it with this outcome, and what to count. A write that the API server failed to do is tried
    /// again, and the change is settled for good only when it succeeds: until then it is rejected, which counts once.
    pub(crate) fn settle(self, outcome: &Outcome) -> (Option<Self>, Option<JourneyEnd>) {
        let end = self.end(outcome).filter(|end| !(self.rejected && *end == JourneyEnd::Rejected));
        let goes_on =
            self.failed && matches!(outcome, Outcome::Rejected(reject) if reject.reason == RejectReason::ApiError);
        (goes_on.then_some(Self { rejected: true, ..self }), end)
    }

    /// The first write for it is handed out, unless one was before.
    pub(crate) fn start(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    /// Returns what came of it; `None`: nothing had to be written, so it changed nothing in the Gimbal cluster.
    fn end(&self, outcome: &Outcome) -> Option<JourneyEnd> {
        match outcome {
            Outcome::Applied => self.started.map(|_| JourneyEnd::Written),
            Outcome::Rejected(reject) => match reject.reason {
                // The rest of the Service is published.
                RejectReason::Held | RejectReason::AddressRefused if self.started.is_some() => {
                    Some(JourneyEnd::Written)
                }
                RejectReason::Held => Some(JourneyEnd::Held),
                _ => Some(JourneyEnd::Rejected),
            },
        }
    }

    /// Returns its legs, if it is settled now.
    #[must_use]
    pub fn legs(&self, now: Instant) -> JourneyLegs {
        let started = self.started.unwrap_or(now);
        JourneyLegs {
            source: self.age.caused,
            agent: self.age.waited,
            queue: started.saturating_duration_since(self.arrived),
            api_server: self.started.map(|started| now.saturating_duration_since(started)),
        }
    }

    fn begun(&self) -> Option<Instant> {
        self.arrived.checked_sub(self.age.waited)?.checked_sub(self.age.caused.unwrap_or_default())
    }
}

impl JourneyLegs {
    /// Returns the time since the source reported the change to the agent.
    #[must_use]
    pub fn since_reported(&self) -> Duration {
        let times = [self.agent, self.queue, self.api_server.unwrap_or_default()];
        times.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Returns the time since the change began, as far back as that is known.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.since_reported().saturating_add(self.source.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use gimbal_session::Reject;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rejected(reason: RejectReason) -> Outcome {
        Outcome::Rejected(Reject { key: None, reason, retryable: true, message: String::new() })
    }

    #[test]
    fn legs_follow_one_another_without_a_gap() {
        let begun = Instant::now();
        let arrived = begun + 5 * SECOND;
        let age = ChangeAge { waited: 2 * SECOND, caused: Some(3 * SECOND) };
        let mut journey = Journey::begin(age, None, arrived);
        journey.start(arrived + SECOND);
        journey.start(arrived + 9 * SECOND);
        let legs = journey.legs(arrived + 4 * SECOND);
        let expected =
            JourneyLegs { source: Some(3 * SECOND), agent: 2 * SECOND, queue: SECOND, api_server: Some(3 * SECOND) };
        assert_eq!(legs, expected);
        assert_eq!((legs.since_reported(), legs.total()), (6 * SECOND, 9 * SECOND));
        assert_eq!(legs.total(), (arrived + 4 * SECOND) - begun);
    }

    #[test]
    fn what_wrote_nothing_is_no_change_and_what_is_refused_is_apart() {
        let now = Instant::now();
        let idle = Journey::begin(ChangeAge::default(), None, now);
        let mut written = idle;
        written.start(now);
        assert_eq!((idle.end(&Outcome::Applied), written.end(&Outcome::Applied)), (None, Some(JourneyEnd::Written)));
        for (reason, of_idle, of_written) in [
            (RejectReason::Held, JourneyEnd::Held, JourneyEnd::Written),
            (RejectReason::Quota, JourneyEnd::Rejected, JourneyEnd::Rejected),
            (RejectReason::AddressRefused, JourneyEnd::Rejected, JourneyEnd::Written),
        ] {
            assert_eq!(idle.end(&rejected(reason)), Some(of_idle));
            assert_eq!(written.end(&rejected(reason)), Some(of_written));
        }
        assert_eq!(idle.legs(now + SECOND).queue, SECOND);
    }

    #[test]
    fn what_the_api_server_failed_to_write_is_rejected_once_and_goes_on() {
        let now = Instant::now();
        let mut journey = Journey::begin(ChangeAge::default(), None, now);
        journey.start(now);
        let error = rejected(RejectReason::ApiError);
        assert_eq!(journey.settle(&error), (None, Some(JourneyEnd::Rejected)), "it is refused, which is for good");
        journey.set_failed(true);
        let (left, counted) = journey.settle(&error);
        assert_eq!(counted, Some(JourneyEnd::Rejected));
        let left = left.unwrap().joined_by(Journey::begin(ChangeAge::default(), None, now + SECOND));
        assert_eq!(left.settle(&error), (Some(left), None), "once");
        assert_eq!(left.settle(&Outcome::Applied), (None, Some(JourneyEnd::Written)));
        assert_eq!(left.settle(&rejected(RejectReason::Quota)), (None, None));
    }

    #[test]
    fn of_two_changes_the_one_that_began_first_counts() {
        let now = Instant::now();
        let late = Journey::begin(ChangeAge::default(), None, now);
        let trace = TraceContext::new([1; 16], [2; 8]);
        let early = Journey::begin(ChangeAge { waited: 2 * SECOND, caused: None }, trace, now + SECOND);
        // It waits since the first of them came, even if that is the later one.
        assert_eq!(late.joined_by(early), Journey { waits_since: now, ..early });
        assert_eq!(early.joined_by(late), early);
        // An agent may claim any age.
        let forged = Journey::begin(ChangeAge { waited: Duration::MAX, caused: Some(Duration::MAX) }, None, now);
        assert_eq!(forged.legs(now).total(), Duration::MAX);
    }
}
