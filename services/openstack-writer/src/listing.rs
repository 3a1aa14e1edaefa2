//! Load balancers as inspection shows them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, LoadBalancerReport, Phase, Text};
use gimbal_kuryr_wire::{KuryrReason, PackedReport, pb};
use gimbal_octavia_plan::{ApiVerb, PlannedStep, ServiceCall};
use gimbal_octavia_registry::ClusterView;
use gimbal_session::StoredReport as _;
use gimbal_transport::{Viewer, clock_ms};

use crate::clusters::{ClusterState, Clusters, Namesake};
use crate::mailbox::ChangedEntry;

/// Load balancers that are looked at in one turn of the owner.
const PART: usize = 256;
/// Most conditions and characters of words that are shown of one.
const WORDS: usize = 1024;

/// Which load balancers are asked for.
#[derive(Debug, Clone)]
pub(crate) struct EntrySelection {
    pub viewer: Viewer,
    /// Empty: all that the viewer may see.
    pub cluster: String,
    /// Empty: all.
    pub namespace: String,
}

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub cluster: Text,
    pub key: DesiredKey,
}

/// A part of a list.
pub(crate) struct ListPart {
    pub statuses: Vec<pb::LoadBalancerStatus>,
    /// Where the next part begins after; `None` at the end.
    pub seen: Option<ListPlace>,
}

impl EntrySelection {
    fn sees(&self, cluster: &str) -> bool {
        self.viewer.sees(cluster) && (self.cluster.is_empty() || self.cluster == cluster)
    }

    /// Returns whether a change is of one of them.
    pub(crate) fn wants(&self, changed: &ChangedEntry) -> bool {
        self.sees(&changed.cluster) && (self.namespace.is_empty() || *self.namespace == *changed.key.namespace)
    }

    /// Returns the next part after a place.
    pub(crate) fn part(&self, all: &Clusters, after: Option<&ListPlace>, only_trouble: bool) -> ListPart {
        let (mut statuses, mut looked) = (Vec::new(), 0);
        for (name, state) in all.iter().filter(|(name, _)| self.sees(name)) {
            let from = match after {
                Some(place) if **name < *place.cluster => continue,
                Some(place) if *name == place.cluster => Some(&place.key),
                _ => None,
            };
            for key in state.end.keys_after(&self.namespace, from) {
                statuses.extend(status(name, state, key).filter(|one| !only_trouble || is_trouble(one)));
                looked += 1;
                if looked == PART {
                    return ListPart { statuses, seen: Some(ListPlace { cluster: name.clone(), key: key.clone() }) };
                }
            }
        }
        ListPart { statuses, seen: None }
    }
}

impl ListPlace {
    /// Returns it as a page token.
    pub(crate) fn token(status: &pb::LoadBalancerStatus) -> String {
        let key = status.key.clone().unwrap_or_default();
        serde_json::json!([status.cluster, key.namespace, key.kind, key.name]).to_string()
    }

    /// Reads a page token.
    pub(crate) fn read(token: &str) -> Option<Self> {
        let (cluster, namespace, kind, name): (String, String, i32, String) = serde_json::from_str(token).ok()?;
        let kind = DesiredKind::ALL.into_iter().find(|known| number(*known) == kind)?;
        Some(Self { cluster: cluster.into(), key: DesiredKey::new(kind, namespace, name) })
    }
}

fn number(kind: DesiredKind) -> i32 {
    pb::EntryKey::from(&DesiredKey::new(kind, "", "")).kind
}

fn is_trouble(status: &pb::LoadBalancerStatus) -> bool {
    status.phase() != pb::Phase::Ready
}

/// Returns a phase in the word that people see.
pub(crate) fn phase_word(phase: pb::Phase) -> String {
    phase.as_str_name().trim_start_matches("PHASE_").to_lowercase()
}

/// Returns the state of one load balancer; `None` if it is not wanted. This is what lists, Watch and Explain show: what was
/// reported to the controller of the cluster last.
pub(crate) fn status(cluster: &str, state: &ClusterState, key: &DesiredKey) -> Option<pb::LoadBalancerStatus> {
    let entry: &Arc<DesiredEntry> = state.end.entry(key)?;
    let report = state.end.latest_report(key).filter(|report| report.owner() == entry.owner());
    let reject = state.reject(key);
    let mut status = pb::LoadBalancerStatus {
        cluster: cluster.to_owned(),
        key: Some(key.into()),
        owner: entry.owner().to_string(),
        phase: phase(shown_phase(report.map_or(Phase::Waiting, PackedReport::phase), entry.is_deleting())).into(),
        deleting: entry.is_deleting(),
        ..pb::LoadBalancerStatus::default()
    };
    if let DesiredEntry::LoadBalancer(wanted) = &**entry {
        status.generation = wanted.generation;
        status.listeners = wanted.header.listeners.len() as u64;
        status.members = wanted.members.as_slice().len() as u64;
        status.project = wanted.header.placement.project.to_string();
    }
    if let Some(report) = report {
        reported(&mut status, &report.report());
    }
    if let Some(reject) = reject {
        status.phase = pb::Phase::Blocked.into();
        status.reject_reason = reject_reason(reject.reason).into();
        status.message = cut(&reject.message);
    }
    Some(status)
}

fn reported(status: &mut pb::LoadBalancerStatus, report: &LoadBalancerReport) {
    status.reported_generation = Some(report.generation);
    if let Some(made) = &report.objects.load_balancer {
        status.id = made.id.to_string();
        status.project = made.project.to_string();
        status.provider = made.provider.to_string();
        status.vip = made.address.to_string();
    }
    if let Some(floating) = &report.objects.floating_ip {
        status.floating_ip = floating.address.to_string();
    }
    status.conditions = report
        .conditions
        .iter()
        .map(|condition| pb::Condition {
            r#type: condition.kind.to_string(),
            reason: condition.reason.to_string(),
            message: cut(&condition.message),
        })
        .collect();
    let trouble = report.conditions.iter().find(|condition| !["Ready", "Synced"].contains(&&*condition.kind));
    if report.phase != Phase::Ready {
        let words = trouble.map(|condition| &condition.message).or(report.last_error.as_ref());
        status.message = words.map(|words| cut(words)).unwrap_or_default();
    }
}

fn cut(words: &str) -> String {
    words.chars().take(WORDS).collect()
}

/// Returns the phase of an entry. The last report may be of before its owner began to go: while its project cannot be read, none
/// follows it.
fn shown_phase(reported: Phase, is_deleting: bool) -> Phase {
    match reported {
        Phase::Waiting | Phase::Making | Phase::Ready | Phase::Degraded if is_deleting => Phase::Removing,
        reported => reported,
    }
}

fn phase(phase: Phase) -> pb::Phase {
    match phase {
        Phase::Waiting => pb::Phase::Waiting,
        Phase::Making => pb::Phase::Making,
        Phase::Ready => pb::Phase::Ready,
        Phase::Degraded => pb::Phase::Degraded,
        Phase::Blocked => pb::Phase::Blocked,
        Phase::Held => pb::Phase::Held,
        Phase::Removing => pb::Phase::Removing,
        Phase::Gone => pb::Phase::Gone,
    }
}

fn reject_reason(reason: KuryrReason) -> pb::RejectReason {
    match reason {
        KuryrReason::Invalid => pb::RejectReason::Invalid,
        KuryrReason::TooLarge => pb::RejectReason::TooLarge,
        KuryrReason::Unsupported => pb::RejectReason::Unsupported,
        KuryrReason::OwnerConflict => pb::RejectReason::OwnerConflict,
        KuryrReason::ProjectNotAllowed => pb::RejectReason::ProjectNotAllowed,
        KuryrReason::NetworkNotAllowed => pb::RejectReason::NetworkNotAllowed,
        KuryrReason::FloatingNotAllowed => pb::RejectReason::FloatingNotAllowed,
        KuryrReason::ProviderNotAllowed => pb::RejectReason::ProviderNotAllowed,
        KuryrReason::MemberNotAllowed => pb::RejectReason::MemberNotAllowed,
        KuryrReason::SharingNotAllowed => pb::RejectReason::SharingNotAllowed,
        KuryrReason::Quota => pb::RejectReason::Quota,
        KuryrReason::Quarantined => pb::RejectReason::Quarantined,
        KuryrReason::CertificateNotAllowed => pb::RejectReason::CertificateNotAllowed,
    }
}

/// Returns a change as it is shown before it is made.
pub(crate) fn planned(request: &ServiceCall) -> pb::PlannedChange {
    let verb = match request.verb {
        ApiVerb::Create => "create",
        ApiVerb::Update => "update",
        ApiVerb::Delete => "delete",
    };
    // The last segment names the object. Members that are set together have the ID of their pool.
    let mut path = request.path.rsplit('/').skip_while(|last| ["tags", "members", "failover"].contains(last));
    let id = match request.verb {
        ApiVerb::Create => "",
        _ => path.next().unwrap_or_default(),
    };
    let body = request.body.get(request.resource).unwrap_or(&request.body);
    let fields = body.as_object().into_iter().flatten();
    let sign = if request.verb == ApiVerb::Create { '+' } else { '~' };
    pb::PlannedChange {
        verb: verb.to_owned(),
        kind: request.resource.to_owned(),
        id: id.to_owned(),
        name: body["name"].as_str().unwrap_or_default().to_owned(),
        diff: fields.map(|(key, value)| cut(&format!("{sign} {key}: {value}"))).collect(),
    }
}

/// Returns a change that would follow, with what is known of the object.
pub(crate) fn planned_step(step: &PlannedStep) -> pb::PlannedChange {
    let mut shown = planned(&step.change.request());
    if shown.name.is_empty() {
        shown.name.clone_from(&step.name);
    }
    shown.diff.extend(step.members.iter().map(|line| cut(line)));
    shown
}

/// Returns one cluster.
pub(crate) fn cluster(all: &Clusters, name: &Text, state: &ClusterState, now: Instant) -> pb::Cluster {
    let view = all.registry.cluster(name, now);
    let hello = state.end.hello();
    let millis = |at: Instant| u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX);
    let mut members = 0;
    let mut pending = 0;
    for (key, entry) in state.end.entries() {
        if let DesiredEntry::LoadBalancer(wanted) = &**entry {
            members += wanted.members.as_slice().len() as u64;
        }
        let ready = state.end.latest_report(key).is_some_and(|report| report.phase() == Phase::Ready);
        pending += u64::from(!ready);
    }
    let held = view.iter().flat_map(|view| {
        let balancers = view.held_balancers.iter().map(|held| (held, true));
        balancers.chain(view.held_members.iter().map(|held| (held, false)))
    });
    pb::Cluster {
        name: name.to_string(),
        connected: state.is_connected(),
        complete: state.end.is_complete(),
        cluster_uid: state.uid.as_deref().unwrap_or_default().to_owned(),
        agent_instance: hello.map(|hello| hello.agent_instance.clone()).unwrap_or_default(),
        agent_version: hello.map(|hello| hello.agent_version.clone()).unwrap_or_default(),
        last_heard_ms: state.end.last_heard().map(millis),
        sources: state.end.freshness().iter().map(Into::into).collect(),
        load_balancers: state.end.tree().count(),
        members,
        pending,
        rejected: state.end.rejects().len() as u64,
        held: held.map(|(held, balancers)| removal(held, balancers, state.held_for(balancers, now))).collect(),
        orphans: view.as_ref().map_or(0, |view| view.orphans as u64),
        trouble: trouble(name, state, view.as_ref()),
        decommission: all
            .removal(name)
            .map(|progress| pb::DecommissionProgress { id: progress.id.clone(), owners: progress.left() }),
        clock_ahead_ms: state
            .end
            .agent_clock_ms(now)
            .filter(|_| state.is_connected())
            .map(|theirs| theirs.saturating_sub(clock_ms())),
    }
}

fn removal(held: &gimbal_guard::HeldDrop, balancers: bool, age: Duration) -> pb::HeldRemoval {
    let removed = held.endpoints_removed;
    // Of some that are counted only a port or a floating IP is left.
    let what = if balancers { "load balancers, or of what is left of them," } else { "members" };
    pb::HeldRemoval {
        id: held.id.clone(),
        load_balancers: if balancers { removed } else { 0 },
        members: if balancers { 0 } else { removed },
        message: format!("{removed} of {} {what} would go at once", held.endpoints_before),
        held_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Says which projects cannot be read.
pub(crate) fn unreadable(view: &ClusterView) -> Vec<String> {
    view.unreadable.iter().map(|(project, words)| format!("project {project} cannot be read: {words}")).collect()
}

fn trouble(name: &str, state: &ClusterState, view: Option<&ClusterView>) -> String {
    if let Some(Namesake { uid, balancer }) = &state.namesake {
        return format!("load balancer {balancer} carries the name {name} and the UID {uid} of another cluster");
    }
    if let Some(refused) = &state.refused_uid {
        let why = match &state.uid {
            Some(known) if known != refused => format!("this name belongs to the one with UID {known}"),
            _ => "another name belongs to that cluster".to_owned(),
        };
        return format!("a controller of the cluster with UID {refused} was refused: {why}");
    }
    match &state.reading {
        None => "the cloud was not read yet".to_owned(),
        Some(reading) => reading
            .missing
            .iter()
            .cloned()
            .chain(view.map(unreadable).unwrap_or_default())
            .collect::<Vec<_>>()
            .join("; "),
    }
}

#[cfg(test)]
mod tests {
    use gimbal_octavia_plan::CloudChange;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_planned_change_names_its_object_and_what_differs() {
        let shown = |change: CloudChange, name: &str, members: &[&str]| {
            let members = members.iter().map(ToString::to_string).collect();
            let pb::PlannedChange { verb, kind, id, name, diff } =
                planned_step(&PlannedStep { change, name: name.to_owned(), members });
            (format!("{verb} {kind} {id} {name}"), diff)
        };
        let pool = || "p1".to_owned();
        let members = CloudChange::SetMembers { pool: pool(), members: vec![json!({"weight": 1})], additive: true };
        let lines = ["+ 10.0.0.1:80, weight 1"];
        let line = "+ 10.0.0.1:80, weight 1".to_owned();
        assert_eq!(
            shown(members, "shop/web:TCP:80", &lines),
            ("update members p1 shop/web:TCP:80".to_owned(), vec![line])
        );
        let rename = CloudChange::UpdatePool { id: pool(), fields: json!({"name": "new"}) };
        assert_eq!(shown(rename, "old", &[]), ("update pool p1 new".to_owned(), vec!["~ name: \"new\"".to_owned()]));
        let made = CloudChange::CreateMember { pool: pool(), body: json!({"weight": 0}) };
        assert_eq!(shown(made, "pool", &[]), ("create member  pool".to_owned(), vec!["+ weight: 0".to_owned()]));
        let tagged = CloudChange::TagPort { id: "port".to_owned(), tags: json!(["a"]) };
        assert_eq!(shown(tagged, "", &[]), ("update port port ".to_owned(), vec!["~ tags: [\"a\"]".to_owned()]));
        let failover = CloudChange::FailoverBalancer { id: "lb".to_owned() };
        assert_eq!(shown(failover, "web", &[]), ("update loadbalancer lb web".to_owned(), Vec::new()));
    }

    #[test]
    fn what_its_owner_leaves_is_being_removed_whatever_was_reported_before() {
        for (reported, shown) in [
            (Phase::Waiting, Phase::Removing),
            (Phase::Ready, Phase::Removing),
            (Phase::Degraded, Phase::Removing),
            (Phase::Blocked, Phase::Blocked),
            (Phase::Held, Phase::Held),
            (Phase::Gone, Phase::Gone),
        ] {
            assert_eq!(shown_phase(reported, true), shown, "{reported:?}");
            assert_eq!(shown_phase(reported, false), reported);
        }
    }
}
