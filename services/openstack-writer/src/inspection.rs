//! Answers inspection calls with what the owner knows.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_admission::Visible;
use gimbal_kuryr_model::{DesiredKey, DesiredKind, Text};
use gimbal_kuryr_wire::{pb, shown_entry};
use gimbal_octavia_registry::BalancerExplanation;
use gimbal_transport::pb as shared;
use gimbal_transport::{InspectionGate, PageFiller, Peer, Viewer, caller, clock_ms};
use tokio::sync::{mpsc, watch};
use tonic::{Request, Response, Status};

use crate::clusters::{Clusters, SharedConfig};
use crate::listing::{EntrySelection, ListPlace, cluster, phase_word, planned_step, status, unreadable};
use crate::mailbox::{OwnerEnded, OwnerHandle};
use crate::run::AGENT;
use crate::watch::follow;

/// Events that may be pending for a reader of Watch.
const WATCH_QUEUE: usize = 256;

/// Serves `gimbal.kuryr.v1.InspectionService`.
pub struct ClusterInspection {
    /// Which clusters a certificate may see.
    pub config: watch::Receiver<SharedConfig>,
    /// The owner, which answers the questions.
    pub owner: OwnerHandle,
    /// Admits calls.
    pub gate: InspectionGate,
}

pub(crate) fn ended(error: OwnerEnded) -> Status {
    Status::unavailable(error.to_string())
}

/// Returns the key of the load balancer of a Service.
pub(crate) fn balancer_key(namespace: &str, name: &str) -> Result<DesiredKey, Status> {
    if namespace.is_empty() || name.is_empty() {
        return Err(Status::invalid_argument("name a Service: namespace and name"));
    }
    Ok(DesiredKey::new(DesiredKind::LoadBalancer, namespace, name))
}

impl ClusterInspection {
    /// Returns an error if a call names a cluster that is not there.
    fn check_cluster(&self, name: &str) -> Result<(), Status> {
        match name.is_empty() || self.config.borrow().cluster(name).is_some() {
            true => Ok(()),
            false => Err(Status::not_found(format!("cluster {name:?} is not configured"))),
        }
    }

    fn viewer(&self, peer: &Peer) -> Result<Viewer, Status> {
        match self.config.borrow().identify(peer).visible() {
            Ok(Visible::Everything) => Ok(Viewer::All),
            Ok(Visible::Tenant(cluster)) => Ok(Viewer::Backend(cluster.name.clone())),
            Err(message) => Err(Status::permission_denied(message)),
        }
    }
}

#[tonic::async_trait]
impl pb::inspection_service_server::InspectionService for ClusterInspection {
    type WatchStream = BoxStream<'static, Result<pb::WatchResponse, Status>>;

    async fn get_server(
        &self,
        request: Request<pb::GetServerRequest>,
    ) -> Result<Response<pb::GetServerResponse>, Status> {
        let mut asks = None;
        let admit = |peer: &Peer| {
            let viewer = self.viewer(peer)?;
            asks = Some(caller(peer, &viewer));
            Ok(viewer)
        };
        let (_, slot) = self.gate.call(&request, admit).await?;
        let server = shared::Server {
            version: AGENT.to_owned(),
            clock_ms: clock_ms(),
            caller: asks,
            // It has no credentials of any Kubernetes cluster.
            rights: None,
        };
        Ok(slot.answer(pb::GetServerResponse { server: Some(server) }))
    }

    async fn list_clusters(
        &self,
        request: Request<pb::ListClustersRequest>,
    ) -> Result<Response<pb::ListClustersResponse>, Status> {
        let (viewer, slot) = self.gate.call(&request, |peer| self.viewer(peer)).await?;
        let question = move |all: &mut Clusters| {
            let now = Instant::now();
            let seen = all.iter().filter(|(name, _)| viewer.sees(name));
            seen.map(|(name, state)| cluster(all, name, state, now)).collect()
        };
        let clusters = self.owner.ask(question).await.map_err(ended)?;
        Ok(slot.answer(pb::ListClustersResponse { clusters }))
    }

    async fn list_load_balancers(
        &self,
        request: Request<pb::ListLoadBalancersRequest>,
    ) -> Result<Response<pb::ListLoadBalancersResponse>, Status> {
        let (viewer, slot) = self.gate.call(&request, |peer| self.viewer(peer)).await?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.cluster)?;
        self.check_cluster(&request.cluster)?;
        let pb::ListLoadBalancersRequest { cluster, namespace, only_trouble, page_size, page_token } = request;
        let mut after = match page_token.as_str() {
            "" => None,
            token => Some(ListPlace::read(token).ok_or_else(|| Status::invalid_argument("page_token is not one"))?),
        };
        let selection = EntrySelection { viewer, cluster, namespace };
        let mut page = PageFiller::new(page_size)?;
        loop {
            let selection = selection.clone();
            let question = move |all: &mut Clusters| selection.part(all, after.as_ref(), only_trouble);
            let part = self.owner.ask(question).await.map_err(ended)?;
            if page.add(part.statuses) {
                let load_balancers = page.into_items();
                let next_page_token = load_balancers.last().map(ListPlace::token).unwrap_or_default();
                return Ok(slot.answer(pb::ListLoadBalancersResponse { load_balancers, next_page_token }));
            }
            after = part.seen;
            if after.is_none() {
                let load_balancers = page.into_items();
                let next_page_token = String::new();
                return Ok(slot.answer(pb::ListLoadBalancersResponse { load_balancers, next_page_token }));
            }
        }
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (viewer, slot) = self.gate.watch(&request, |peer| self.viewer(peer))?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.cluster)?;
        self.check_cluster(&request.cluster)?;
        let pb::WatchRequest { cluster, namespace } = request;
        let (events, receiver) = mpsc::channel(WATCH_QUEUE);
        tokio::spawn(follow(self.owner.clone(), EntrySelection { viewer, cluster, namespace }, events));
        Ok(slot.answer(tokio_stream::wrappers::ReceiverStream::new(receiver).map(Ok).boxed()))
    }

    async fn explain(&self, request: Request<pb::ExplainRequest>) -> Result<Response<pb::ExplainResponse>, Status> {
        let (viewer, slot) = self.gate.call(&request, |peer| self.viewer(peer)).await?;
        let mut request = request.into_inner();
        viewer.narrow(&mut request.cluster)?;
        self.check_cluster(&request.cluster)?;
        let kind = request.kind();
        let pb::ExplainRequest { cluster, namespace, name, kind: _ } = request;
        if cluster.is_empty() {
            return Err(Status::invalid_argument("name the cluster"));
        }
        let key = DesiredKey { kind: kind_of(kind), ..balancer_key(&namespace, &name)? };
        let explained = self.owner.ask(move |all| explain(all, &cluster.into(), &key)).await.map_err(ended)?;
        Ok(slot.answer(explained))
    }
}

/// Returns the kind that a call names. A call of before there were others names none.
fn kind_of(kind: pb::EntryKind) -> DesiredKind {
    match kind {
        pb::EntryKind::Unspecified | pb::EntryKind::LoadBalancer => DesiredKind::LoadBalancer,
        pb::EntryKind::L7Router => DesiredKind::L7Router,
        pb::EntryKind::Port => DesiredKind::Port,
        pb::EntryKind::Network => DesiredKind::Network,
        pb::EntryKind::SecurityGroup => DesiredKind::SecurityGroup,
    }
}

pub(crate) fn explain(all: &Clusters, cluster: &Text, key: &DesiredKey) -> pb::ExplainResponse {
    let mut response = pb::ExplainResponse::default();
    let Some(state) = all.get(cluster) else {
        response.reasons.push(format!("Cluster {cluster:?} is not configured."));
        return response;
    };
    let now = Instant::now();
    response.load_balancer = status(cluster, state, key);
    response.wanted = state.end.entry(key).map(|entry| shown_entry(key, entry));
    let reasons = &mut response.reasons;
    match state.is_connected() {
        true => reasons.push("The controller of the cluster is connected.".to_owned()),
        false => reasons.push("The controller of the cluster is not connected, so nothing is changed.".to_owned()),
    }
    if state.config.quarantine {
        reasons.push("The cluster is in quarantine: what follows is planned, and not made.".to_owned());
    }
    if all.registry.settings().dry_run {
        reasons.push("The writer runs with --dry-run: what follows is planned, and not made.".to_owned());
    }
    match &state.reading {
        None => reasons.push("The cloud was not read yet, so the policy cannot be applied.".to_owned()),
        Some(reading) => reasons.extend(reading.missing.iter().map(|missing| format!("Missing: {missing}."))),
    }
    let unreadable = all.registry.cluster(cluster, now).as_ref().map(unreadable).unwrap_or_default();
    reasons.extend(unreadable.into_iter().map(|words| format!("In the way: {words}.")));
    match state.end.entry(key) {
        None => reasons.push(format!("The cluster does not want {key}.")),
        Some(entry) if entry.is_deleting() => reasons.push("Its owner is going: what was made is removed.".to_owned()),
        Some(_) => reasons.push("The cluster wants it.".to_owned()),
    }
    if let Some(reject) = state.reject(key) {
        reasons.push(format!("It is refused ({}): {}.", reject.reason.as_str(), reject.message));
    }
    if let Some(explanation) = all.registry.explain(cluster, key, now) {
        registry_reasons(&mut response, explanation);
    }
    response.planned = all.registry.planned(cluster, key, now).iter().map(planned_step).collect();
    response
}

/// Adds what the registry knows. Phase and conditions are those of the status beside it, which lists show as well: work that
/// ends soon changes neither.
fn registry_reasons(response: &mut pb::ExplainResponse, explanation: BalancerExplanation) {
    let BalancerExplanation { report, working_for, next, steps, .. } = explanation;
    let told = response.load_balancer.clone().unwrap_or_default();
    if response.load_balancer.is_some() {
        response.reasons.push(format!("It is {}.", phase_word(told.phase())));
    }
    if let Some(time) = working_for {
        let seconds = time.as_secs_f32();
        response.reasons.push(match told.phase() {
            pb::Phase::Blocked | pb::Phase::Held => format!("It has not been as it is wanted for {seconds:.1} s."),
            _ => format!(
                "Work on it has been under way for {seconds:.1} s; a status follows when it ends, or takes long."
            ),
        });
    }
    let told_kinds: Vec<&str> = told.conditions.iter().map(|condition| condition.r#type.as_str()).collect();
    for condition in &told.conditions {
        response.reasons.push(format!("{} ({}): {}", condition.r#type, condition.reason, sentence(&condition.message)));
    }
    for condition in report.conditions.iter().filter(|one| !told_kinds.contains(&&*one.kind)) {
        response.reasons.push(format!("{} ({}): {}", condition.kind, condition.reason, sentence(&condition.message)));
    }
    if let Some(error) = &report.last_error {
        response.reasons.push(format!("The last refusal: {}", sentence(error)));
    }
    response.reasons.push(format!("Next: {}", sentence(&next)));
    let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let step = |(age, step)| pb::StepTaken { age_ms: millis(age), step, outcome: String::new() };
    response.steps = steps.into_iter().map(step).collect();
}

/// Returns words with one full stop: those of OpenStack mostly have their own.
fn sentence(words: &str) -> String {
    format!("{}.", words.trim_end_matches('.'))
}
