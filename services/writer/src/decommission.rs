//! Answers about backends that are removed or lost.

use std::time::{Duration, Instant, SystemTime};

use gimbal_model::BackendName;
use gimbal_reconcile::{Backend, Decommission, Inventory, Mode, NotDecommissioned, Reconciler, Stage};
use gimbal_wire::pb;
use tonic::Status;

/// Returns what a removal would do, or orders it. `any`: there is no configuration, and a backend is known from its
/// first Hello on.
pub(crate) fn answer(
    state: &mut Reconciler,
    any: bool,
    name: &BackendName,
    request: &pb::DecommissionRequest,
) -> Result<pb::DecommissionResponse, Status> {
    if let Some(refused) = state.backends().get(name).and_then(|backend| refusal(backend, any)) {
        return Err(Status::failed_precondition(refused));
    }
    if !state.has_observed() {
        return Err(Status::unavailable(NotDecommissioned::NotReady.to_string()));
    }
    let inventory = if request.dry_run {
        state.inventory(name)
    } else {
        state.decommission(name, &request.id).map_err(|error| match error {
            NotDecommissioned::NotReady => Status::unavailable(error.to_string()),
            NotDecommissioned::OtherFigures { .. }
            | NotDecommissioned::UnderWay(_)
            | NotDecommissioned::Withheld { .. }
            | NotDecommissioned::Unrecorded(_) => Status::failed_precondition(error.to_string()),
        })?
    };
    let id = inventory.id(name);
    let Inventory { services, slices, endpoints_objects, endpoints, .. } = inventory;
    Ok(pb::DecommissionResponse { id, services, endpoint_slices: slices, endpoints, endpoints_objects })
}

/// Returns the error of an order that was stored and is over, if that is so.
pub(crate) fn withdrawn(state: &Reconciler, name: &BackendName) -> Option<Status> {
    let why = state.backends().get(name)?.withdrawal()?.reason();
    Some(Status::failed_precondition(format!("the removal of backend {name} was ordered, and is over: {why}")))
}

/// Returns why a backend cannot be removed now.
fn refusal(backend: &Backend, any: bool) -> Option<String> {
    let name = backend.name();
    if any {
        return backend.is_connected().then(|| format!("an agent of backend {name} is connected: stop it first"));
    }
    let admitted = backend.is_listed() && backend.policy().mode == Mode::Admit && !backend.policy().leaving;
    admitted.then(|| {
        format!("backend {name} is configured: take it out of the file, delete its object, or set its mode to quarantine, first")
    })
}

/// Returns the removal of a backend and what is left to remove; `None` if the backend is not being removed.
pub(crate) fn progress(state: &Reconciler, backend: &Backend) -> Option<pb::DecommissionProgress> {
    let (stage, order) = (backend.decommission()?, backend.state().decommission.as_ref()?);
    let left = match stage {
        // It has not begun to count.
        Decommission::MakingNotReady { .. } => Some(order.not_ready_for),
        _ => backend.not_ready_until().map(|until| until.duration_since(SystemTime::now()).unwrap_or_default()),
    };
    let removed_in_ms = left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    let Inventory { services, slices, endpoints, .. } = state.inventory(backend.name());
    let (id, unstored) = (order.id.clone(), matches!(stage, Decommission::Ordered { .. }));
    Some(pb::DecommissionProgress { id, services, endpoint_slices: slices, endpoints, removed_in_ms, unstored })
}

/// Returns how long a backend has been lost, and which loss stage applies.
pub(crate) fn loss(backend: &Backend, now: Instant) -> pb::BackendLoss {
    let stage = match backend.loss().stage() {
        Stage::Hold => pb::LossStage::Hold,
        Stage::NotReady => pb::LossStage::NotReady,
        Stage::Drained => pb::LossStage::Drained,
    };
    let millis = |age: Option<Duration>| age.map(|age| age.as_millis().try_into().unwrap_or(u64::MAX));
    pb::BackendLoss {
        stage: stage.into(),
        disconnected_ms: millis(backend.loss().disconnected_for(now)),
        source_silent_ms: millis(backend.loss().stale_for(now)),
        lost_ms: millis(backend.loss().lost_for(now)),
    }
}
