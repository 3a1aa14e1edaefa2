//! The state of a whole world: the real state machines, and the messages on their way between them.

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

/// A state of a world. Cheap to clone, because only the parts that change are copied.
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) setup: Rc<Setup>,
    pub(crate) began: Instant,
    /// The Gimbal cluster at the beginning.
    pub(crate) beginning: Rc<Cluster>,
    pub(crate) agents: Vec<Part<Agent>>,
    /// The connections of each agent, the newest last.
    pub(crate) links: Vec<Part<Vec<Link>>>,
    pub(crate) writer: Part<Writer>,
    pub(crate) cluster: Part<Cluster>,
    pub(crate) small: Small,
    pub(crate) fault: Option<Fault>,
}

/// The small values of a state, which are copied each time.
#[derive(Debug, Clone)]
pub(crate) struct Small {
    pub(crate) clock: Duration,
    pub(crate) waits: u8,
    /// The trouble that happened on this path.
    pub(crate) trouble: Option<Trouble>,
    /// The trouble is over.
    pub(crate) over: bool,
    /// The epoch of the Lease; `in_time` says whether the leader may rely on it.
    pub(crate) epoch: u64,
    pub(crate) in_time: bool,
    /// The endpoints that the Gimbal cluster had at the beginning and the sources have had ever since, each with its
    /// target.
    pub(crate) lasting: BTreeMap<IpAddr, TargetKey>,
    /// The index of the next change in each backend's script.
    pub(crate) next: Vec<usize>,
    /// The endpoint counts of each backend so far, for the guard's rule; `None` once something was released.
    pub(crate) held: Vec<Option<BTreeSet<Held>>>,
    /// A stream was ended although no other writer led.
    pub(crate) disturbed: bool,
}

/// A time, and the number of endpoints of each Service at that time.
pub(crate) type Held = (Duration, BTreeMap<TargetKey, u64>);

#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) end: AgentEnd,
    /// The agent has read its source.
    pub(crate) has_read: bool,
    /// A namespace of the source that the agent cannot see.
    pub(crate) unknown: Option<&'static str>,
}

/// A connection between an agent and the writer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    /// Set when the writer has accepted the stream.
    pub(crate) generation: Option<u64>,
    pub(crate) up: VecDeque<AgentMessage>,
    pub(crate) down: VecDeque<WriterMessage>,
    pub(crate) agent_open: bool,
    pub(crate) writer_open: bool,
}

/// The writer's process that leads, or is about to.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) state: Reconciler,
    /// The epoch in which it considers itself the leader.
    pub(crate) leading: Option<u64>,
    pub(crate) running: BTreeMap<TargetKey, Running>,
    /// The events that each watch has yet to deliver. A watch without an entry has to list first.
    pub(crate) watches: BTreeMap<Watched, VecDeque<Seen>>,
    /// The states to be stored, the newest of each backend.
    pub(crate) keeps: BTreeMap<BackendName, Keep>,
}

#[derive(Debug, Clone)]
pub(crate) enum Keep {
    State(u64, Box<BackendState>),
    Nothing,
}

/// A job, and the answers to those of its writes that were handled.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) job: Job,
    pub(crate) answers: Vec<Written>,
}

/// An item that a watch delivers.
#[allow(clippy::large_enum_variant)] // A world holds a handful.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// All objects of a kind: a complete list.
    List(Vec<Event>),
    Event(Event),
}

/// The objects in the Gimbal cluster, and the writes on their way there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) server: Server,
    /// The stored state of each backend.
    pub(crate) kept: BTreeMap<BackendName, BackendState>,
    /// Writes of a process that has ended.
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

    /// Returns a fingerprint that is equal for equal states.
    pub fn fingerprint(&mut self) -> u64 {
        let agents: Vec<u64> = self.agents.iter_mut().map(Part::fingerprint).collect();
        let links: Vec<u64> = self.links.iter_mut().map(Part::fingerprint).collect();
        let rest = (self.writer.fingerprint(), self.cluster.fingerprint(), &self.small);
        fingerprint(&(agents, links, rest))
    }

    /// Records a fault, unless there is one already.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// Returns the trouble that happened on this path.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.small.trouble
    }
}
