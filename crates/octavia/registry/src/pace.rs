//! How much goes on at a time, in each service and in each project.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, ApiVerb, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_schedule::{ConcurrencyLimit, Pause, WriteResult, WriteSample};

use crate::call::CallLane;
use crate::settings::RegistrySettings;

/// Latency above which fewer changes are sent in parallel. A creation takes Octavia more than half a second.
const LATENCY: Duration = Duration::from_secs(3);
/// How many of those who wait for a quota try it when there may be room.
const TRIED_TOGETHER: usize = 3;
/// What goes with a load balancer.
pub(crate) const WITH_A_BALANCER: [&str; 8] =
    ["loadbalancer", "listener", "pool", "healthmonitor", "member", "l7policy", "l7rule", "port"];
/// How long a used-up quota is left alone, unless something was deleted.
const QUOTA_PAUSE: Duration = Duration::from_secs(300);

/// The line that something waits in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    /// Changes of Neutron's objects.
    Neutron,
    /// Creations of ports for load balancers that are made next, by project.
    VipPort(Text),
    /// Changes of what Octavia has.
    Octavia,
    /// Creations of load balancers, by project.
    Creation(Text),
    /// Changes of what the key manager has.
    KeyManager,
    /// Not a change: looks at everything that an owner has.
    Looks,
}

impl Line {
    pub(crate) fn of(change: &CloudChange, project: &Text) -> Self {
        match (change, change.request().service) {
            (CloudChange::CreateBalancer { .. }, _) => Self::Creation(project.clone()),
            (CloudChange::CreatePort { .. }, _) => Self::VipPort(project.clone()),
            (_, ApiService::Neutron) => Self::Neutron,
            (_, ApiService::KeyManager) => Self::KeyManager,
            (_, ApiService::Octavia) => Self::Octavia,
        }
    }

    /// Whether members of the same owner wait while one of its changes is in it.
    pub(crate) fn stops_members(&self) -> bool {
        matches!(self, Self::Octavia | Self::Looks)
    }

    /// Whether its changes are beside those of Octavia: those of what serves already do not wait for them.
    pub(crate) fn is_beside(&self) -> bool {
        matches!(self, Self::Neutron | Self::KeyManager)
    }

    /// Returns the service that its changes go to.
    fn service(&self) -> ApiService {
        match self {
            Self::Neutron | Self::VipPort(_) => ApiService::Neutron,
            Self::KeyManager => ApiService::KeyManager,
            Self::Octavia | Self::Creation(_) | Self::Looks => ApiService::Octavia,
        }
    }

    pub(crate) fn lane(&self) -> CallLane {
        match self {
            Self::Neutron | Self::VipPort(_) => CallLane::Neutron,
            Self::KeyManager => CallLane::KeyManager,
            Self::Octavia | Self::Creation(_) => CallLane::Octavia,
            Self::Looks => CallLane::Reads,
        }
    }
}

/// An owner, by its cluster.
pub(crate) type ClusterOwner = (Text, Text);

/// The resources that an owner lacks room for; `None` stands for one that the refusal has not named.
pub(crate) type Lacking = BTreeSet<Option<&'static str>>;

/// The changes of one service that are under way, and what it asks for.
#[derive(Debug)]
struct ServicePace {
    limit: ConcurrencyLimit,
    /// Of changes.
    pause: Pause,
    read_pause: Pause,
    in_flight: usize,
}

/// What goes on in one project.
#[derive(Debug, Default)]
struct ProjectPace {
    creating: u32,
    /// Of creations of load balancers.
    pause: Pause,
    /// Resources whose quota is used up, the words of the refusal, and until when that is taken for granted.
    full: BTreeMap<&'static str, (Text, Instant)>,
    /// Owners that wait for a quota, and what each lacks.
    waiting: BTreeMap<ClusterOwner, Lacking>,
    /// Those of them that try it now.
    trying: BTreeMap<ClusterOwner, Lacking>,
    /// The one that was let go last: the next ones have their turn.
    last: Option<ClusterOwner>,
}

/// Limits of all clusters together.
#[derive(Debug)]
pub(crate) struct CloudPace {
    octavia: ServicePace,
    neutron: ServicePace,
    key_manager: ServicePace,
    reads: usize,
    projects: BTreeMap<Text, ProjectPace>,
    most_reads: usize,
    most_creations: u32,
}

impl CloudPace {
    pub(crate) fn new(settings: &RegistrySettings) -> Self {
        let service = || ServicePace {
            limit: ConcurrencyLimit::new(settings.write_concurrency, LATENCY),
            pause: Pause::default(),
            read_pause: Pause::default(),
            in_flight: 0,
        };
        Self {
            octavia: service(),
            neutron: service(),
            key_manager: service(),
            reads: 0,
            projects: BTreeMap::new(),
            most_reads: settings.read_concurrency.max(1) as usize,
            most_creations: settings.creates_by_project.max(1),
        }
    }

    /// Whether there is room for one more read.
    pub(crate) fn has_room_to_read(&self) -> bool {
        self.reads < self.most_reads
    }

    /// Whether a service does not ask for a pause of reads.
    pub(crate) fn may_read(&self, service: ApiService, now: Instant) -> bool {
        self.service(service).read_pause.until(now).is_none()
    }

    /// Whether a look may begin: each one reads from Octavia and from Neutron.
    pub(crate) fn may_look(&self, now: Instant) -> bool {
        self.pause_until(None, now).is_none()
    }

    pub(crate) fn may_change(&self, line: &Line, now: Instant) -> bool {
        let service = self.service(line.service());
        let has_room = service.in_flight < service.limit.current() && service.pause.until(now).is_none();
        let may_create = match line {
            Line::Creation(project) => {
                let is_open = |of: &ProjectPace| of.creating < self.most_creations && of.pause.until(now).is_none();
                self.projects.get(project).is_none_or(is_open)
            }
            _ => true,
        };
        has_room && may_create
    }

    /// Returns until when OpenStack wants no changes of a line, or not all reads of a look if none is given.
    pub(crate) fn pause_until(&self, line: Option<&Line>, now: Instant) -> Option<Instant> {
        match line {
            Some(line) => {
                let of_project = match line {
                    Line::Creation(project) => self.projects.get(project).and_then(|of| of.pause.until(now)),
                    _ => None,
                };
                self.service(line.service()).pause.until(now).max(of_project)
            }
            None => [&self.octavia, &self.neutron].into_iter().filter_map(|one| one.read_pause.until(now)).max(),
        }
    }

    /// Returns when a pause ends.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let services = [&self.octavia, &self.neutron, &self.key_manager];
        let of_services = services.into_iter().flat_map(|one| [one.pause, one.read_pause]);
        let of_projects = self.projects.values().map(|one| one.pause);
        of_services.chain(of_projects).filter_map(|pause| pause.until(now)).min()
    }

    pub(crate) fn read_begins(&mut self) {
        self.reads += 1;
    }

    pub(crate) fn read_ends(&mut self, service: ApiService, retry_after: Option<Duration>, now: Instant) {
        self.reads = self.reads.saturating_sub(1);
        if retry_after.is_some() {
            self.service_mut(service).read_pause.begin(retry_after, now);
        }
    }

    pub(crate) fn change_begins(&mut self, line: &Line) {
        self.service_mut(line.service()).in_flight += 1;
        if let Line::Creation(project) = line {
            self.projects.entry(project.clone()).or_default().creating += 1;
        }
    }

    /// Takes what came of a change; `None` if it was not sent.
    pub(crate) fn change_ends(&mut self, line: &Line, sent: Instant, outcome: Option<&ChangeOutcome>, now: Instant) {
        if let Line::Creation(project) = line
            && let Some(project) = self.projects.get_mut(project)
        {
            project.creating = project.creating.saturating_sub(1);
            if let Some(ChangeOutcome::Refused(ServiceRefusal::ProjectBusy(after))) = outcome {
                project.pause.begin(*after, now);
            }
        }
        let service = self.service_mut(line.service());
        service.in_flight = service.in_flight.saturating_sub(1);
        let Some(outcome) = outcome else { return };
        let result = match outcome {
            ChangeOutcome::Refused(ServiceRefusal::Busy(after)) => {
                service.pause.begin(*after, now);
                WriteResult::Throttled
            }
            ChangeOutcome::Unknown(_) => WriteResult::Trouble,
            ChangeOutcome::Accepted(_) | ChangeOutcome::Refused(_) => WriteResult::Answered,
        };
        service.limit.answered(&WriteSample { sent, took: now.saturating_duration_since(sent), result });
    }

    fn service(&self, service: ApiService) -> &ServicePace {
        match service {
            ApiService::Neutron => &self.neutron,
            ApiService::KeyManager => &self.key_manager,
            ApiService::Octavia => &self.octavia,
        }
    }

    fn service_mut(&mut self, service: ApiService) -> &mut ServicePace {
        match service {
            ApiService::Neutron => &mut self.neutron,
            ApiService::KeyManager => &mut self.key_manager,
            ApiService::Octavia => &mut self.octavia,
        }
    }

    /// Returns why and until when a creation need not be tried, for its quota is used up.
    pub(crate) fn is_full(&self, project: &Text, change: &CloudChange, now: Instant) -> Option<(Text, Instant)> {
        let call = change.request();
        let (words, until) = self.projects.get(project)?.full.get(call.resource)?;
        (call.verb == ApiVerb::Create && *until > now).then(|| (words.clone(), *until))
    }

    /// Takes note that a quota is used up: that of the resource which the refusal names. A load balancer that is made with
    /// everything in it may be refused for any of it.
    pub(crate) fn filled(&mut self, project: &Text, change: &CloudChange, words: &str, now: Instant) {
        let state = self.projects.entry(project.clone()).or_default();
        let resource = named_resource(words).unwrap_or_else(|| change.request().resource);
        state.full.insert(resource, (words.into(), now + QUOTA_PAUSE));
    }

    /// Lets an owner wait until there may be room for what it lacks in a project.
    pub(crate) fn wait_for_quota(&mut self, project: &Text, owner: ClusterOwner, lacks: Lacking) {
        self.projects.entry(project.clone()).or_default().waiting.insert(owner, lacks);
    }

    /// Takes note that there may be room for these resources in a project: some of them were deleted, or somebody who waited was
    /// given one. Returns who tries next. These are a few of those who wait for it: where they find room, more follow.
    pub(crate) fn may_have_room(&mut self, project: &Text, resources: &[&'static str]) -> Vec<ClusterOwner> {
        let Some(state) = self.projects.get_mut(project) else { return Vec::new() };
        // Whoever asks by himself may do so, too.
        state.full.retain(|resource, _| !resources.contains(resource));
        if resources.is_empty() {
            return Vec::new();
        }
        let is_next = |lacks: &Lacking| {
            lacks.is_empty() || lacks.iter().any(|one| one.is_none_or(|resource| resources.contains(&resource)))
        };
        let mut next: Vec<_> =
            state.waiting.iter().filter(|(_, lacks)| is_next(lacks)).map(|(one, _)| one).cloned().collect();
        let done = next.partition_point(|one| state.last.as_ref().is_some_and(|last| one <= last));
        next.rotate_left(done);
        next.truncate(TRIED_TOGETHER);
        for owner in &next {
            state.trying.extend(state.waiting.remove_entry(owner));
        }
        state.last = next.last().cloned().or_else(|| state.last.take());
        next
    }

    /// Takes what came of a change of somebody who may be trying whether a quota has room. Returns the resources that it has found
    /// room for.
    pub(crate) fn tried(
        &mut self,
        project: &Text,
        owner: &ClusterOwner,
        change: &CloudChange,
        outcome: &ChangeOutcome,
    ) -> Vec<&'static str> {
        let call = change.request();
        let Some(state) = self.projects.get_mut(project).filter(|_| call.verb == ApiVerb::Create) else {
            return Vec::new();
        };
        let is_whole = matches!(change, CloudChange::CreateBalancer { .. });
        let is_it =
            |lacks: &Lacking| is_whole || lacks.iter().any(|one| one.is_none_or(|resource| resource == call.resource));
        let Some(lacked) = state.trying.get(owner).filter(|lacks| is_it(lacks)).cloned() else { return Vec::new() };
        state.trying.remove(owner);
        if !matches!(outcome, ChangeOutcome::Accepted(_)) {
            return Vec::new();
        }
        let named: Vec<&'static str> = lacked.into_iter().flatten().collect();
        if named.is_empty() { WITH_A_BALANCER.to_vec() } else { named }
    }

    pub(crate) fn forget(&mut self, owner: &ClusterOwner) {
        for project in self.projects.values_mut() {
            project.waiting.remove(owner);
            project.trying.remove(owner);
        }
    }
}

/// Returns what there is room for when a change has been carried out.
pub(crate) fn freed_by(change: &CloudChange) -> &'static [&'static str] {
    match change {
        CloudChange::DeleteBalancer { .. } => &WITH_A_BALANCER,
        CloudChange::DeleteListener { .. } => &["listener", "l7policy", "l7rule"],
        CloudChange::DeletePolicy { .. } => &["l7policy", "l7rule"],
        CloudChange::DeletePool { .. } => &["pool", "healthmonitor", "member"],
        CloudChange::DeleteMonitor { .. } => &["healthmonitor"],
        CloudChange::DeleteMember { .. } | CloudChange::SetMembers { additive: false, .. } => &["member"],
        CloudChange::DeletePort { .. } => &["port"],
        CloudChange::DeleteFloatingIp { .. } => &["floatingip"],
        _ => &[],
    }
}

/// Returns the resource that a refusal for a quota names: `Listener`, `['port']`, with or without what the service says before
/// that (`... for resources: Listener`).
pub(crate) fn named_resource(words: &str) -> Option<&'static str> {
    const RESOURCES: [&str; 9] =
        ["loadbalancer", "listener", "pool", "healthmonitor", "member", "l7policy", "l7rule", "port", "floatingip"];
    let named = words.rsplit_once("resources:").map_or(words, |(_, named)| named);
    let named: String = named.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_ascii_lowercase();
    RESOURCES.into_iter().find(|resource| named.starts_with(resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_resource_whose_quota_is_used_up() {
        for (words, resource) in [
            ("Quota has been met for resources: Listener", Some("listener")),
            ("Quota has been met for resources: Load Balancer", Some("loadbalancer")),
            ("Quota has been met for resources: HealthMonitor", Some("healthmonitor")),
            ("Quota has been met for resources: L7Policy", Some("l7policy")),
            ("Quota exceeded for resources: ['port'].", Some("port")),
            // As the client gives it: without what comes before.
            ("Listener", Some("listener")),
            ("Load Balancer", Some("loadbalancer")),
            ("['port']", Some("port")),
            ("no more of this", None),
        ] {
            assert_eq!(named_resource(words), resource, "{words}");
        }
    }
}
