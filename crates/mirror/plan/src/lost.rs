//! The plan for the objects of a lost backend whose policy reacts to the loss (`docs/design.md#rule-5`). It is made
//! from the observed objects alone, because the writer may have restarted since the backend's agent spoke last. The
//! Service itself always stays.

use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, Meta, Object as _};
use gimbal_model::{Conditions, TargetKey};

use crate::observed::{Common, Packed, Slice};
use crate::plan::{Action, Body, Plan, delete};
use crate::shape::{flat_not_ready, not_ready};
use crate::{Observed, shape};

/// What the policy does to the endpoints of a lost backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// They stay and are marked not ready.
    NotReady,
    /// They are removed.
    Drained,
}

/// Returns the plan that brings the observed objects into the state that `lost` asks for.
#[must_use]
pub fn plan_lost(target: &TargetKey, observed: &Observed, lost: Lost) -> Plan {
    let mut phase = Vec::new();
    let packed = observed.packed();
    match lost {
        Lost::NotReady => {
            phase.extend(observed.slices().iter().filter_map(|slice| slice_not_ready(target, slice)));
            phase.extend(packed.and_then(|packed| packed_not_ready(target, packed)));
        }
        Lost::Drained => {
            let kind = objects::EndpointSlice::KIND;
            let slices = observed.slices().iter();
            phase.extend(slices.filter_map(|slice| delete(kind, target, &slice.name, &slice.common)));
            let packed = packed.filter(|packed| !packed.groups.is_empty());
            let kind = objects::Endpoints::KIND;
            phase.extend(packed.and_then(|packed| delete(kind, target, &target.name, &packed.common)));
        }
    }
    Plan { phases: Some(phase).filter(|phase| !phase.is_empty()).into_iter().collect() }
}

/// Returns the patch that marks the endpoints of a slice not ready. A patch, because labels are not held in memory
/// and could not be sent again.
pub(crate) fn slice_not_ready(target: &TargetKey, slice: &Slice) -> Option<Action> {
    let serves = |conditions: Conditions| conditions.ready || conditions.serving;
    let family = slice.family.filter(|_| !slice.common.deleting && slice.endpoints.conditions().any(serves))?;
    let endpoints = slice.endpoints.iter().map(|endpoint| shape::slice_endpoint(&not_ready(&endpoint))).collect();
    patch(
        Body::Slice(objects::EndpointSlice {
            metadata: meta(target, slice.name.clone(), &slice.common),
            address_type: family.as_str().into(),
            endpoints,
            ports: shape::slice_ports(&slice.ports),
        }),
        &slice.common,
    )
}

fn packed_not_ready(target: &TargetKey, packed: &Packed) -> Option<Action> {
    let mut all = packed.groups.iter().flat_map(|group| group.endpoints.conditions());
    if packed.common.deleting || !all.any(|conditions| conditions.ready) {
        return None;
    }
    let groups = shape::group(&flat_not_ready(shape::ungroup(&packed.groups)));
    patch(
        Body::Endpoints(objects::Endpoints {
            metadata: meta(target, target.name.clone(), &packed.common),
            subsets: shape::subsets(&groups),
        }),
        &packed.common,
    )
}

/// Returns a patch, unless the object has the patched form, or the form that the API server made of it, already.
pub(crate) fn patch(body: Body, observed: &Common) -> Option<Action> {
    (!observed.satisfies(body.fingerprint())).then_some(Action::Patch(body))
}

pub(crate) fn meta(target: &TargetKey, name: Arc<str>, common: &Common) -> Meta {
    Meta {
        name,
        namespace: target.namespace.clone(),
        uid: common.uid.clone(),
        resource_version: common.resource_version.clone(),
        ..Meta::default()
    }
}
