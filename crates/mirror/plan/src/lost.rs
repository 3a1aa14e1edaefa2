//! What becomes of what a backend published when it is lost and its policy says so (docs/design.md#rule-5). Nothing is known but
//! what is observed: the writer may have restarted since it heard the backend last. The Service itself always stays.

use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, Meta, Object as _};
use gimbal_model::{Conditions, Endpoint, TargetKey};

use crate::observed::{Common, Packed, Slice};
use crate::plan::delete;
use crate::{Action, Body, Observed, Plan, shape};

/// What a policy makes of endpoints that are no longer vouched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// They stay, not ready.
    NotReady,
    /// They go.
    Drained,
}

/// What is to be written. Nothing where it is so already.
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

/// An endpoint that is no longer vouched for.
pub(crate) fn not_ready(endpoint: &Endpoint) -> Endpoint {
    let conditions = Conditions { terminating: endpoint.conditions.terminating, ..Conditions::NOT_READY };
    Endpoint { conditions, ..endpoint.clone() }
}

/// The same for a form that knows only ready and not.
pub(crate) fn flat_not_ready(mut flat: shape::Flat) -> shape::Flat {
    flat.values_mut().for_each(|state| state.ready = false);
    flat
}

/// Labels are not held, so only what changes is sent.
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

/// Nothing where the API server has made of it what is there.
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
