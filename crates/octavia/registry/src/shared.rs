//! What all clusters share.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::CloudChange;

use crate::call::{CallId, CloudRead};
use crate::event::RegistryEvent;
use crate::owner_look::LookPart;
use crate::pace::{CloudPace, ClusterOwner, Line};
use crate::poll::PollPart;
use crate::settings::RegistrySettings;
use crate::settle_times::SettleTimes;
use crate::tracker::TrackRead;
use crate::turns::WorkTurn;

/// What a read is for.
#[derive(Debug, Clone)]
pub(crate) enum ReadFor {
    /// A look at everything that an owner has.
    Look { owner: Text, number: u64, part: LookPart },
    /// The members of a pool.
    Members { owner: Text, pool: String },
    /// The floating IP with an address.
    FloatingIp { owner: Text },
    /// Whether the load balancer exists that is asked for by its ID; `is_list`: as a list says.
    AskedBalancer { owner: Text, id: String, is_list: bool },
    /// The port with an address.
    Holder { owner: Text },
    /// Whether the load balancer of that port exists.
    HolderBalancer { owner: Text, port: Box<gimbal_octavia_plan::SeenPort> },
    /// Whether any load balancer has that port.
    HolderBalancers { owner: Text, port: Box<gimbal_octavia_plan::SeenPort> },
    /// Whether Octavia has finished.
    Track(TrackRead),
    /// Everything that a cluster has.
    Poll(PollPart),
    /// A load balancer that is to be taken over.
    Adoption { balancer: Text, number: u64, part: LookPart },
}

/// What a call is for.
#[derive(Debug, Clone)]
pub(crate) enum CallFor {
    Read { what: ReadFor, read: CloudRead, project: Text },
    Change { owner: Text, line: Line, change: CloudChange, project: Text },
    Adoption { balancer: Text, line: Line },
}

/// A call that was handed out and is not answered yet.
#[derive(Debug, Clone)]
pub(crate) struct CallUnderWay {
    pub(crate) cluster: Text,
    /// Which one it was: another one may have its name and UID by now.
    pub(crate) number: u64,
    pub(crate) what: CallFor,
    pub(crate) sent: Instant,
}

/// Sums since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) drift: u64,
    pub(crate) drift_missing: u64,
    pub(crate) drift_added: u64,
    pub(crate) reads: u64,
    pub(crate) changes: u64,
    pub(crate) unknown: u64,
    pub(crate) refused: u64,
    pub(crate) decisions: u64,
}

/// What all clusters share.
#[derive(Debug)]
pub(crate) struct RegistryCore {
    pub(crate) settings: RegistrySettings,
    start: Instant,
    pub(crate) pace: CloudPace,
    pub(crate) times: SettleTimes,
    pub(crate) calls: BTreeMap<CallId, CallUnderWay>,
    next_id: u64,
    last_cluster: u64,
    pub(crate) events: Vec<RegistryEvent>,
    pub(crate) sums: Sums,
    /// Owners that may try again, for something was deleted in their project.
    pub(crate) freed: Vec<ClusterOwner>,
    pub(crate) turn: WorkTurn,
}

impl RegistryCore {
    pub(crate) fn new(settings: RegistrySettings, start: Instant) -> Self {
        Self {
            pace: CloudPace::new(&settings),
            settings,
            start,
            times: SettleTimes::default(),
            calls: BTreeMap::new(),
            next_id: 0,
            last_cluster: 0,
            events: Vec::new(),
            sums: Sums::default(),
            freed: Vec::new(),
            turn: WorkTurn::default(),
        }
    }

    /// Returns the time in the form that actors take.
    pub(crate) fn at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.start + at
    }

    /// Returns the number of a cluster that is configured now.
    pub(crate) fn next_cluster(&mut self) -> u64 {
        self.last_cluster += 1;
        self.last_cluster
    }

    pub(crate) fn begin(&mut self, cluster: &Text, number: u64, what: CallFor, now: Instant) -> CallId {
        self.next_id += 1;
        let id = CallId(self.next_id);
        self.calls.insert(id, CallUnderWay { cluster: cluster.clone(), number, what, sent: now });
        id
    }

    /// Takes note that a quota of these resources may have room in a project.
    pub(crate) fn may_have_room(&mut self, project: &Text, resources: &[&'static str]) {
        let next = self.pace.may_have_room(project, resources);
        self.freed.extend(next);
    }
}
