//! What a run is made of, and what came of it.

use std::time::Duration;

use gimbal_session::{AgentMessage, Credit, estimated_len};

use crate::Said;

/// What can go wrong during the storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing passes between an agent and the writers, and nobody is told: connections stay half open.
    Partition,
    /// As that, at the worst moment: in the middle of a snapshot.
    CutSnapshot,
    /// One direction of an agent's link takes seconds.
    Lag,
    /// An agent loses its memory and reads its source anew.
    AgentRestart,
    /// An agent does not see its source.
    SourceOutage,
    /// A writer loses its memory; what it sent is still under way.
    WriterRestart,
    /// A writer does not reach the API server: it loses the Lease, and its requests arrive late.
    WriterCutOff,
    /// The API server answers after seconds, some answers after the writer gave up.
    SlowServer,
    /// The API server answers 429.
    Throttling,
    /// Requests get lost, or are refused, or their answers get lost.
    LostWrites,
    /// A watch of a writer shows nothing for a while.
    StalledWatch,
    /// A watch of a writer ends where it can't go on: its version is compacted, and everything is listed anew.
    Compaction,
    /// Somebody edits a Service of ours in the Gimbal cluster.
    HandEdit,
    /// The store of the Gimbal cluster is put back to what it was a while ago: versions are given out again.
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

    /// How long until the next of its kind, on average; those of an agent come to each of them so often. `None`: it has
    /// an occasion of its own.
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

/// What happens once all is quiet after the storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every process loses its memory, at once.
    RestartAll,
    /// The writers lose theirs, and all agents dial at one moment.
    RestartWriters,
    /// All agents lose their streams, and dial at one moment.
    Reconnect,
}

/// One run. The same plan gives the same run, event for event.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Every choice follows from it.
    pub seed: u64,
    /// How many backends there are, each with an agent.
    pub backends: usize,
    /// Services of each backend, at most 12.
    pub services: usize,
    /// Endpoints of each Service, at most 16.
    pub endpoints: u8,
    /// How long the storm lasts, in virtual time.
    pub storm: Duration,
    /// What happens in it, besides changes in the sources.
    pub troubles: Vec<Trouble>,
    /// What happens at the end. It must write nothing.
    pub ending: Ending,
    /// The window of each stream.
    pub credit: Credit,
    /// Bytes of a message as it travels; [`estimated`] unless somebody wants to know exactly.
    pub bytes: fn(&AgentMessage) -> usize,
}

impl Plan {
    /// A run with all troubles, and a window so small that Services of a few endpoints meet it.
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

    /// Source Services that there can be: no queue may be longer.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.backends * self.services
    }
}

/// Never less than what really travels; control messages count as nothing.
#[must_use]
pub fn estimated(message: &AgentMessage) -> usize {
    match message {
        AgentMessage::Data(data) => estimated_len(data),
        _ => 0,
    }
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Hash over every event, in order: equal for equal plans.
    pub trace: u64,
    /// Hash over what the Gimbal cluster holds at the end, without UIDs, versions and names of slices: equal for every seed.
    pub content: u64,
    /// Virtual time that passed.
    pub time: Duration,
    /// Events that happened.
    pub events: u64,
    /// Changes of source Services.
    pub changes: u64,
    /// Requests that changed a Service or a slice, from the storm's begin on.
    pub writes: u64,
    /// Objects that somebody edited by hand.
    pub hand_edits: u64,
    /// Times that the API server's store was put back.
    pub restorations: u64,
    /// Requests that were refused, met another version, got lost or were answered 429.
    pub failed_writes: u64,
    /// Requests of a writer that did not lead any more when they arrived, and still changed something.
    pub late_writes: u64,
    /// Times that another writer led.
    pub leaders: u64,
    /// Lives of agents and of writers.
    pub lives: u64,
    /// Removals that the guard held.
    pub holds: u64,
    /// Longest queue of a writer, in targets.
    pub longest_queue: usize,
    /// What agents said.
    pub said: Said,
    /// Most messages and events that waited for a writer at a time, since the ending began.
    pub most_mail: usize,
    /// What agents said since then.
    pub said_at_the_end: Said,
}
