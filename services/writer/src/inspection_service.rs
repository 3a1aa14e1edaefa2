//! Answers inspection calls with what the owner knows. `admin.rs` adds the decisions of administrators.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_model::BackendName;
use gimbal_plan::Action;
use gimbal_reconcile::{
    AddressExplanation, Claim, Explanation, Mode, Reconciler, ServiceStatus, SyncState, Tally, TargetProgress,
    WriteAnswer,
};
use gimbal_session::{Scope, Summary};
use gimbal_transport::{Inspection, Part, Peer, Place, RightsReview, Viewer, clock_ms};
use gimbal_wire::{pb, source_key, target_key};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use crate::args::BackendsIn;
use crate::config::Config;
use crate::decommission;
use crate::lag::{LagSummary, RECENT, millis_begun};
use crate::links::Links;
use crate::listing::{ServiceSelection, status};
use crate::mailbox::{Ended, Handle};
use crate::misnamed::MisnamedAgents;
use crate::watch_rpc::follow;
use gimbal_admission::Visible;
use gimbal_lease::{Leadership, Moment};

/// Reported as the problem of every backend by a writer that does not lead.
const STANDBY: &str = "this writer does not lead and hears no agent; ask the one that leads";
/// Events that may be pending for a reader of Watch.
const WATCH_QUEUE: usize = 256;
/// Most unknown scopes listed for each backend, and most characters of the reason of each.
const UNKNOWN: usize = 10;
const UNKNOWN_REASON: usize = 200;

/// Program and version.
pub(crate) const PROGRAM: &str = concat!("gimbal-writer/", env!("CARGO_PKG_VERSION"));

/// Serves the inspection service and the admin service.
pub struct Answers {
    /// The configuration in force: which backends a certificate may see.
    pub config: watch::Receiver<Arc<Config>>,
    /// Where backends are named.
    pub backends: BackendsIn,
    /// The owner, which answers the questions.
    pub owner: Handle,
    /// Identity of this writer in the Lease.
    pub identity: String,
    /// The leadership: only the leader takes decisions.
    pub leadership: watch::Receiver<Leadership>,
    /// Agents whose certificate is not that of the backend that they name.
    pub misnamed: MisnamedAgents,
    /// Finds the rights in the Gimbal cluster that are missing; `None` where there is no cluster.
    pub rights: Option<RightsReview>,
}

pub(crate) fn ended(error: Ended) -> Status {
    Status::unavailable(error.to_string())
}

#[tonic::async_trait]
impl Inspection for Answers {
    fn viewer(&self, peer: &Peer) -> Result<Viewer, Status> {
        match self.config.borrow().identify(peer).visible() {
            Ok(Visible::Everything) => Ok(Viewer::All),
            Ok(Visible::Tenant(backend)) => Ok(Viewer::Backend(backend.name.clone())),
            Err(message) => Err(Status::permission_denied(message)),
        }
    }

    fn writer(&self) -> Option<pb::WriterStanding> {
        let leadership = self.leadership.borrow();
        let leader = match &*leadership {
            // Even if the lease is late: no other leader is known.
            Leadership::Leader { .. } => self.identity.clone(),
            Leadership::Follower { holder } => holder.clone(),
        };
        Some(pb::WriterStanding { leading: leadership.may_write(Moment::now()), leader })
    }

    async fn server(&self, viewer: &Viewer) -> Result<pb::Server, Status> {
        // What a writer lacks is no backend's business.
        let rights = match self.rights.as_ref().filter(|_| *viewer == Viewer::All) {
            Some(review) => Some(review().await),
            None => None,
        };
        Ok(pb::Server { version: PROGRAM.to_owned(), rights, ..pb::Server::default() })
    }

    async fn list_backends(&self, viewer: &Viewer) -> Result<Vec<pb::Backend>, Status> {
        let viewer = viewer.clone();
        let config = self.config.borrow().clone();
        // Compared here, because the owner has more to do. A backend learns nothing of others.
        let joining: Vec<(BackendName, BackendName)> = match &viewer {
            Viewer::All => config.joining().map(|(one, other)| (one.clone(), other.clone())).collect(),
            Viewer::Backend(_) => Vec::new(),
        };
        let misnamed = (viewer == Viewer::All).then(|| self.misnamed.clone());
        let question = move |state: &mut Reconciler, links: &Links| {
            let (now, leading) = (Instant::now(), state.is_leading());
            let pending = state.pending_by_backend();
            let seen = state.backends().values().filter(|backend| viewer.sees(backend.name().as_str()));
            seen.map(|backend| pb::Backend {
                policy: Some(policy(state, backend, identity(&config, backend.name()))),
                loss: Some(decommission::loss(backend, now)),
                decommission: decommission::progress(state, backend),
                trouble: if leading { backend.trouble() } else { STANDBY.to_owned() },
                lag: links.lag(backend.name(), now).map(lag),
                certificate_left_ms: links.certificate_ends(backend.name()).map(left),
                clock_ahead_ms: ahead(backend, now),
                names_join: names_join(&joining, backend.name()),
                refused_agent: misnamed.as_ref().and_then(|agents| refused_agent(agents, backend.name(), now)),
                ..describe(backend, pending.get(backend.name()).copied().unwrap_or_default(), now)
            })
            .collect()
        };
        self.owner.ask_with_links(question).await.map_err(ended)
    }

    async fn list_services(
        &self,
        viewer: &Viewer,
        request: &pb::ListServicesRequest,
        after: Option<&Place>,
    ) -> Result<Part, Status> {
        let selection = ServiceSelection {
            viewer: viewer.clone(),
            backend: request.backend.clone(),
            namespace: request.namespace.clone(),
        };
        let (after, only_trouble) = (after.cloned(), request.only_trouble);
        let question = move |state: &mut Reconciler| {
            let wanted = |known: &ServiceStatus| !only_trouble || known.state != SyncState::Synced;
            selection.part(state, after.as_ref(), wanted)
        };
        self.owner.ask(question).await.map_err(ended)
    }

    async fn watch(
        &self,
        viewer: &Viewer,
        request: pb::WatchRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchResponse, Status>>, Status> {
        let (events, receiver) = mpsc::channel(WATCH_QUEUE);
        let selection =
            ServiceSelection { viewer: viewer.clone(), backend: request.backend, namespace: request.namespace };
        tokio::spawn(follow(self.owner.clone(), selection, events));
        Ok(tokio_stream::wrappers::ReceiverStream::new(receiver).map(Ok).boxed())
    }

    async fn explain(
        &self,
        viewer: &Viewer,
        request: pb::ExplainRequest,
        address: Option<IpAddr>,
    ) -> Result<pb::ExplainResponse, Status> {
        let invalid = |error: gimbal_wire::WireError| Status::invalid_argument(error.to_string());
        let with_address = move |state: &Reconciler, explanation: Explanation| {
            let address = address.map(|address| state.explain_address(&explanation, address));
            (explanation, address)
        };
        let answer = match request.object {
            Some(pb::explain_request::Object::Target(key)) => {
                let key = target_key(key).map_err(invalid)?;
                self.owner.ask(move |state| with_address(state, state.explain_target(&key))).await
            }
            Some(pb::explain_request::Object::Source(source)) => {
                let key = source_key(source.key.unwrap_or_default()).map_err(invalid)?;
                let backend =
                    BackendName::parse(&source.backend).map_err(|error| Status::invalid_argument(error.to_string()))?;
                self.owner.ask(move |state| with_address(state, state.explain_source(&Claim { backend, key }))).await
            }
            None => return Err(Status::invalid_argument("name an object: target or source")),
        };
        let (explanation, address) = answer.map_err(ended)?;
        Ok(explain(viewer, &explanation, address.as_ref(), Instant::now()))
    }
}

/// Returns the first few unknown scopes: those of one backend must not make the list of all too long to read.
fn unknown<S: AsRef<str>>(all: impl Iterator<Item = (Scope, S)>) -> Vec<pb::UnknownScope> {
    let mut all = all.map(|(scope, reason)| {
        let reason = reason.as_ref().chars().take(UNKNOWN_REASON).collect();
        pb::UnknownScope { scope: Some((&scope).into()), reason }
    });
    let mut first: Vec<pb::UnknownScope> = all.by_ref().take(UNKNOWN).collect();
    let more = all.count();
    if let Some(last) = first.last_mut().filter(|_| more > 0) {
        last.reason.push_str(&format!("; and {more} more like these"));
    }
    first
}

fn describe(backend: &gimbal_reconcile::Backend, pending: u64, now: Instant) -> pb::Backend {
    let end = backend.end();
    let hello = end.hello().cloned().unwrap_or_default();
    let unknown = unknown(end.unknown().iter());
    let held_changes = [(backend.guards().removals(), false), (backend.guards().readiness(), true)]
        .into_iter()
        .filter_map(|(guard, readiness)| {
            guard.held().map(|held| pb::HeldChange {
                endpoints_removed: held.endpoints_removed,
                endpoints_before: held.endpoints_before,
                services: held.targets as u64,
                message: gimbal_reconcile::describe_hold(&held, readiness),
                held_ms: guard.held_for(now).map(millis).unwrap_or_default(),
                id: held.id,
                readiness,
            })
        });
    let held_changes = held_changes.collect();
    pb::Backend {
        name: backend.name().to_string(),
        connected: backend.is_connected(),
        complete: end.is_complete(),
        generation: backend.generation(),
        agent_instance: hello.agent_instance,
        agent_version: hello.agent_version,
        source_incarnation: backend.state().incarnation.clone().unwrap_or_default(),
        last_heard_ms: end.last_heard().map(|at| millis(now.saturating_duration_since(at))),
        sources: end.freshness().iter().map(Into::into).collect(),
        held: Some(Summary { count: end.tree().count(), digest: end.tree().root() }.into()),
        endpoints: backend.endpoints(),
        pending,
        rejected: end.rejects().len() as u64,
        unknown,
        held_changes,
        peer_capabilities: hello.capabilities.iter().map(ToString::to_string).collect(),
        ..pb::Backend::default()
    }
}

fn lag(summary: LagSummary) -> pb::Lag {
    let LagSummary { changes, p50, p99, most } = summary;
    let (p50_ms, p99_ms, most_ms) = (millis_begun(p50), millis_begun(p99), millis_begun(most));
    pb::Lag { window_ms: millis(RECENT), changes, p50_ms, p99_ms, most_ms }
}

/// Returns the time until a certificate ends. One that has ended is about to lose its stream.
fn left(ends: SystemTime) -> u64 {
    millis(ends.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Returns by how much the clock of a connected agent is ahead of ours, in milliseconds.
fn ahead(backend: &gimbal_reconcile::Backend, now: Instant) -> Option<i64> {
    let theirs = backend.end().agent_clock_ms(now).filter(|_| backend.is_connected())?;
    Some(theirs.saturating_sub(clock_ms()))
}

/// Returns the name that the certificate of a backend's agent must have; empty: none.
fn identity(config: &Config, name: &BackendName) -> String {
    let listed = config.backends.iter().find(|backend| backend.name == *name);
    listed.and_then(|backend| backend.identity.clone()).unwrap_or_default()
}

/// Returns the agent that was refused last although it calls itself this backend.
fn refused_agent(agents: &MisnamedAgents, name: &BackendName, now: Instant) -> Option<pb::RefusedAgent> {
    let last = agents.last(name)?;
    Some(pb::RefusedAgent { age_ms: millis(last.age(now)), names: last.names })
}

/// Returns the backends whose names join those of one.
fn names_join(joining: &[(BackendName, BackendName)], name: &BackendName) -> Vec<String> {
    let other = |(short, long): &(BackendName, BackendName)| match () {
        () if short == name => Some(long.to_string()),
        () if long == name => Some(short.to_string()),
        () => None,
    };
    let mut names: Vec<String> = joining.iter().filter_map(other).collect();
    names.sort_unstable();
    names
}

/// Returns the policy of a backend, and how much of its quota is used.
fn policy(state: &Reconciler, backend: &gimbal_reconcile::Backend, identity: String) -> pb::BackendPolicy {
    let (used, quota) = (backend.usage().total(), backend.policy().quota);
    let measure = |used, limit| Some(pb::QuotaUse { used, limit });
    let (mode, planned) = match backend.policy().mode {
        Mode::Admit => (pb::BackendMode::Admit, None),
        Mode::Quarantine => {
            let Tally { created, changed, deleted } = state.preview(backend.name());
            (pb::BackendMode::Quarantine, Some(pb::PlannedCounts { created, changed, deleted }))
        }
    };
    pb::BackendPolicy {
        listed: backend.is_listed(),
        mode: mode.into(),
        services: measure(used.services, quota.services),
        endpoints: measure(used.endpoints, quota.endpoints),
        bytes: measure(used.bytes, quota.bytes),
        changes_per_second: quota.changes_per_second,
        waiting_for_room: backend.usage().waiting() as u64,
        planned,
        identity,
    }
}

pub(crate) fn planned((action, diff): &(Action, Vec<String>), namespace: &str) -> pb::PlannedChange {
    let verb = match action {
        Action::Create(_) => "create",
        Action::Replace(_) | Action::Patch(_) => "replace",
        Action::Delete { .. } => "delete",
    };
    pb::PlannedChange {
        verb: verb.to_owned(),
        kind: action.kind().kind.to_owned(),
        namespace: namespace.to_owned(),
        name: action.name().to_string(),
        diff: diff.clone(),
    }
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Converts an explanation for a viewer. A viewer of one backend learns of another backend only that it holds the name.
fn explain(
    viewer: &Viewer,
    explanation: &Explanation,
    address: Option<&AddressExplanation>,
    now: Instant,
) -> pb::ExplainResponse {
    let seen = |claim: &Claim| viewer.sees(claim.backend.as_str());
    let others = explanation.others.iter().filter(|other| seen(other));
    let foreign = explanation.holder.as_ref().is_some_and(|holder| !seen(holder));
    let reasons = match foreign {
        true => vec!["the name belongs to another backend".to_owned()],
        false => explanation.reasons.clone(),
    };
    let target = explanation.status.as_ref().and_then(|status| status.target.as_ref());
    let namespace = target.map_or("", |target| &target.namespace);
    let known = explanation.status.as_ref().filter(|known| seen(&known.claim));
    // Without a Service, objects may be those of any backend.
    let address = address.filter(|_| known.is_some() || *viewer == Viewer::All);
    pb::ExplainResponse {
        service: known.map(status),
        reasons,
        other_claims: others
            .map(|other| pb::SourceRef { backend: other.backend.to_string(), key: Some((&other.key).into()) })
            .collect(),
        planned: match foreign {
            true => Vec::new(),
            false => explanation.planned.iter().map(|change| planned(change, namespace)).collect(),
        },
        progress: known.map(|_| progress(&explanation.progress, now)),
        address: address.map(|AddressExplanation { address, sent, objects, reasons }| pb::AddressStatus {
            address: address.to_string(),
            endpoint: sent.map(Into::into),
            objects: objects.iter().map(Into::into).collect(),
            reasons: reasons.clone(),
        }),
    }
}

fn progress(progress: &TargetProgress, now: Instant) -> pb::ServiceProgress {
    let TargetProgress { carried, last_write, written } = progress;
    let since = |at: Instant| millis(now.saturating_duration_since(at));
    let last_write = last_write.as_ref().map(|WriteAnswer { verb, kind, name, status, answer, at }| pb::WriteAnswer {
        verb: (*verb).to_owned(),
        kind: (*kind).to_owned(),
        name: name.to_string(),
        status: status.unwrap_or_default().into(),
        answer: (*answer).to_owned(),
        age_ms: since(*at),
    });
    pb::ServiceProgress {
        generation: carried.map_or(0, |frame| frame.generation),
        seq: carried.map_or(0, |frame| frame.seq),
        carried_ms: carried.map(|frame| since(frame.at)),
        last_write,
        written_ms: written.map(since),
        ..pb::ServiceProgress::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_told_nothing_of_another() {
        let claim = |backend: &str| Claim {
            backend: BackendName::parse(backend).unwrap(),
            key: gimbal_model::SourceKey::new("secret", "plan"),
        };
        let explanation = Explanation {
            holder: Some(claim("a")),
            reasons: vec!["stands for secret/plan of backend a".into()],
            others: vec![claim("a"), claim("b")],
            ..Explanation::default()
        };
        let address = AddressExplanation {
            address: "10.0.0.1".parse().unwrap(),
            sent: None,
            objects: Vec::new(),
            reasons: vec!["it is theirs".into()],
        };
        let explain = |viewer: &Viewer, explanation: &Explanation| {
            super::explain(viewer, explanation, Some(&address), Instant::now())
        };
        let all = explain(&Viewer::All, &explanation);
        assert!(all.address.is_some() && all.progress.is_none(), "no Service of it is known");
        assert_eq!((all.reasons.len(), all.other_claims.len()), (1, 2));
        let own = explain(&Viewer::Backend(BackendName::parse("b").unwrap()), &explanation);
        assert_eq!(own.reasons, ["the name belongs to another backend"]);
        assert_eq!((own.other_claims.len(), &own.address), (1, &None));
        assert_eq!(explain(&Viewer::Backend(BackendName::parse("a").unwrap()), &explanation).reasons, all.reasons);
    }

    #[test]
    fn names_that_join_are_told_of_both_backends() {
        let text = "backends: [{name: b, identity: b}, {name: a-b, identity: ab}, {name: a, identity: a}]";
        let config = Config::parse(std::path::Path::new("writer.yaml"), text).unwrap();
        let joining: Vec<_> = config.joining().map(|(one, other)| (one.clone(), other.clone())).collect();
        let told = |name: &str| names_join(&joining, &BackendName::parse(name).unwrap());
        assert_eq!((told("a"), told("a-b"), told("b")), (vec!["a-b".into()], vec!["a".into()], Vec::new()));
        assert_eq!(identity(&config, &BackendName::parse("a-b").unwrap()), "ab");
        assert_eq!(identity(&config, &BackendName::parse("gone").unwrap()), "");
    }

    #[test]
    fn of_much_that_is_unknown_a_little_is_told_and_how_much_it_is() {
        let scope = |n: usize| (Scope::Namespaces(vec![format!("n{n}").into()]), "r".repeat(2000));
        let told = unknown((0..5000).map(scope));
        assert_eq!(told.len(), UNKNOWN);
        assert!(told.iter().all(|scope| scope.reason.len() <= UNKNOWN_REASON + 40), "{}", told[0].reason.len());
        assert!(told[UNKNOWN - 1].reason.ends_with("; and 4990 more like these"));
        assert_eq!(unknown((0..2).map(scope)).iter().filter(|scope| scope.reason.contains("more")).count(), 0);
    }
}
