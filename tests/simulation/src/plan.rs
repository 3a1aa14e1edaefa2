//! The parameters of a run, and its report.

use std::time::Duration;

use gimbal_session::{AgentMessage, Credit, estimated_len};

use crate::Said;

/// A trouble that can happen during the storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing passes between an agent and the writers, and neither side learns of it: connections stay half open.
    Partition,
    /// The same in the middle of a snapshot, the worst moment.
    CutSnapshot,
    /// One direction of an agent's link is delayed by seconds.
    Lag,
    /// An agent loses its memory and reads its source anew.
    AgentRestart,
    /// An agent does not see its source for a while.
    SourceOutage,
    /// A writer loses its memory; its requests are still on their way.
    WriterRestart,
    /// A writer cannot reach the API server: it loses the Lease, and its requests arrive late.
    WriterCutOff,
    /// The API server answers after seconds, sometimes after the writer has given up.
    SlowServer,
    /// The API server answers 429.
    Throttling,
    /// Requests are lost or refused, or their answers are lost.
    LostWrites,
    /// A watch of a writer delivers nothing for a while.
    StalledWatch,
    /// A watch of a writer ends and cannot go on, because its version was compacted; everything is listed again.
    Compaction,
    /// Somebody edits a Service of ours in the Gimbal cluster.
    HandEdit,
    /// The store of the Gimbal cluster is restored to an earlier state, so that versions are issued again.
    Restoration,
}

impl Trouble {
    /// Every trouble.
    pub const ALL: [Self; 14] = [
        Self::Partition,
        Self::CutSnapshot,
        Self::Lag,
        Self::AgentRestart,
        Self::SourceOutage,
        Self::WriterRestart,
        Self::WriterCutOff,
        Self::SlowServer,
        Self::Throttling,
        Self::LostWrites,
        Self::StalledWatch,
        Self::Compaction,
        Self::HandEdit,
        Self::Restoration,
    ];

    /// Returns the average time between two troubles of this kind; a trouble of an agent happens that often to each
    /// agent. `None` if the kind has an occasion of its own.
    pub(crate) fn interval(self, backends: usize) -> Option<Duration> {
        let each = |seconds: u64| Duration::from_secs(seconds) / u32::try_from(backends).unwrap_or(u32::MAX);
        Some(match self {
            Self::CutSnapshot => return None,
            Self::Partition | Self::Lag => each(100),
            Self::AgentRestart => each(150),
            Self::SourceOutage | Self::HandEdit => each(200),
            Self::WriterRestart => Duration::from_secs(50),
            Self::Restoration => Duration::from_secs(70),
            Self::WriterCutOff | Self::SlowServer => Duration::from_secs(60),
            Self::Throttling | Self::LostWrites => Duration::from_secs(40),
            Self::StalledWatch | Self::Compaction => Duration::from_secs(30),
        })
    }
}

/// What happens when everything is quiet after the storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every process loses its memory at the same time.
    RestartAll,
    /// The writers lose their memory, and all agents dial at the same time.
    RestartWriters,
    /// All agents lose their streams, and dial at the same time.
    Reconnect,
}

/// The parameters of a run. The same plan gives the same run, event for event.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The random seed. Every choice follows from it.
    pub seed: u64,
    /// Number of backends, each with an agent.
    pub backends: usize,
    /// Number of Services of each backend, at most 12.
    pub services: usize,
    /// Number of endpoints of each Service, at most 16.
    pub endpoints: u8,
    /// Duration of the storm in virtual time.
    pub storm: Duration,
    /// The troubles of the storm, besides changes of the sources.
    pub troubles: Vec<Trouble>,
    /// What happens at the end. It must cause no write.
    pub ending: Ending,
    /// The credit of each stream.
    pub credit: Credit,
    /// Returns the size of an encoded message in bytes. [`estimated`] is the default; the exact size takes longer.
    pub bytes: fn(&AgentMessage) -> usize,
}

impl Plan {
    /// Returns a plan with all troubles, and with a credit so small that Services with a few endpoints exhaust it.
    #[must_use]
    pub fn new(seed: u64, backends: usize) -> Self {
        Self {
            seed,
            backends,
            services: 5,
            endpoints: 6,
            storm: Duration::from_secs(240),
            troubles: Trouble::ALL.to_vec(),
            ending: Ending::RestartAll,
            credit: Credit { changes: 3, bytes: 8 << 10 },
            bytes: estimated,
        }
    }

    /// Returns the maximum number of source Services; no queue may be longer.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.backends * self.services
    }
}

/// Estimates the size of an encoded message: never less than the real size. Control messages count as zero.
#[must_use]
pub fn estimated(message: &AgentMessage) -> usize {
    match message {
        AgentMessage::Data(data) => estimated_len(data),
        _ => 0,
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Hash over every event in order; equal for equal plans.
    pub trace: u64,
    /// Hash over the final content of the Gimbal cluster, without UIDs, versions and names of slices; equal for every
    /// random seed.
    pub content: u64,
    /// The virtual time that passed.
    pub time: Duration,
    /// Number of events.
    pub events: u64,
    /// Number of changes of source Services.
    pub changes: u64,
    /// Number of requests that changed a Service or a slice, since the storm began.
    pub writes: u64,
    /// Number of objects that were edited by hand.
    pub hand_edits: u64,
    /// How often the API server's store was restored.
    pub restorations: u64,
    /// Number of requests that were refused, met a conflict, were lost or were answered with 429.
    pub failed_writes: u64,
    /// Number of requests that changed something although their writer no longer led when they arrived.
    pub late_writes: u64,
    /// How often another writer became the leader.
    pub leaders: u64,
    /// Number of lives of agents and writers.
    pub lives: u64,
    /// Number of removals that the guard held.
    pub holds: u64,
    /// The longest queue of a writer, in targets.
    pub longest_queue: usize,
    /// The messages of the agents.
    pub said: Said,
    /// The most messages and events that waited for a writer at one time, since the ending began.
    pub most_mail: usize,
    /// The messages of the agents since the ending began.
    pub said_at_the_end: Said,
}
