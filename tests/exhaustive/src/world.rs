//! A state of everything: the real state machines, and what is on its way between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use gimbal_model::{BackendName, TargetKey};
use gimbal_plan::Action as Write;
use gimbal_reconcile::{BackendState, Job, Reconciler, Watched, Written};
use gimbal_session::{AgentEnd, AgentMessage, WriterMessage};
use gimbal_simulation::server::{Event, Server};

use crate::part::Part;
use crate::print::fingerprint;
use crate::rules::Fault;
use crate::{Setup, Trouble};

/// See the module. Cheap to clone: only what changes is copied.
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) setup: Rc<Setup>,
    pub(crate) began: Instant,
    /// What the Gimbal cluster was at the beginning.
    pub(crate) beginning: Rc<Cluster>,
    pub(crate) agents: Vec<Part<Agent>>,
    /// Of each agent, the newest connection last.
    pub(crate) links: Vec<Part<Vec<Link>>>,
    pub(crate) writer: Part<Writer>,
    pub(crate) cluster: Part<Cluster>,
    pub(crate) small: Small,
    pub(crate) fault: Option<Fault>,
}

/// What is small of a state.
#[derive(Debug, Clone)]
pub(crate) struct Small {
    pub(crate) clock: Duration,
    pub(crate) waits: u8,
    /// The one that happened.
    pub(crate) trouble: Option<Trouble>,
    /// What it made worse is well again.
    pub(crate) over: bool,
    /// The epoch of the Lease, and whether who leads may rely on it.
    pub(crate) epoch: u64,
    pub(crate) in_time: bool,
    /// Endpoints that the Gimbal cluster had at the beginning and the sources have had ever since, with where they are.
    pub(crate) lasting: BTreeMap<IpAddr, TargetKey>,
    /// The next line of each backend's script.
    pub(crate) next: Vec<usize>,
    /// What the Gimbal cluster held of each backend, for the guard's sentence; `None` once something was released.
    pub(crate) held: Vec<Option<BTreeSet<Held>>>,
    /// A stream was ended though nobody else led.
    pub(crate) disturbed: bool,
}

/// When, and how many endpoints of each Service.
pub(crate) type Held = (Duration, BTreeMap<TargetKey, u64>);

#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) end: AgentEnd,
    /// It has read its source.
    pub(crate) has_read: bool,
    /// A namespace that it cannot see.
    pub(crate) unknown: Option<&'static str>,
}

/// A connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    /// Set when the writer took the stream in.
    pub(crate) generation: Option<u64>,
    pub(crate) up: VecDeque<AgentMessage>,
    pub(crate) down: VecDeque<WriterMessage>,
    pub(crate) agent_open: bool,
    pub(crate) writer_open: bool,
}

/// The process that leads, or is about to.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) state: Reconciler,
    /// In which epoch it believes that it leads.
    pub(crate) leading: Option<u64>,
    pub(crate) running: BTreeMap<TargetKey, Running>,
    /// What each watch has yet to show. Without an entry it has to list first.
    pub(crate) watches: BTreeMap<Watched, VecDeque<Seen>>,
    /// What is to be kept, the newest for each backend.
    pub(crate) keeps: BTreeMap<BackendName, Keep>,
}

#[derive(Debug, Clone)]
pub(crate) enum Keep {
    State(u64, Box<BackendState>),
    Nothing,
}

/// A job, and the answers to those of its writes that were carried out.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) job: Job,
    pub(crate) answers: Vec<Written>,
}

/// What a watch shows.
#[allow(clippy::large_enum_variant)] // A world holds a handful.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// All that there is, and that this is all.
    List(Vec<Event>),
    Event(Event),
}

/// What is in the Gimbal cluster, or on its way there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) server: Server,
    /// What is kept of the backends.
    pub(crate) kept: BTreeMap<BackendName, BackendState>,
    /// Writes of a process that is no more.
    pub(crate) late: Vec<Write>,
}

impl Link {
    pub(crate) fn is_over(&self) -> bool {
        !self.agent_open && !self.writer_open
    }
}

impl World {
    pub(crate) fn now(&self) -> Instant {
        self.began + self.small.clock
    }

    pub(crate) fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30) + self.small.clock
    }

    /// Equal for equal states.
    pub fn fingerprint(&mut self) -> u64 {
        let agents: Vec<u64> = self.agents.iter_mut().map(Part::fingerprint).collect();
        let links: Vec<u64> = self.links.iter_mut().map(Part::fingerprint).collect();
        let rest = (self.writer.fingerprint(), self.cluster.fingerprint(), &self.small);
        fingerprint(&(agents, links, rest))
    }

    /// The first thing that must not be counts.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// What went wrong on the way here.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.small.trouble
    }
}
