//! The part of a plan that can be written while the API server refuses some of it. A refused object keeps no other
//! from being written, and additions that are refused keep no removal from being written (`docs/design.md#rule-7`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use gimbal_kubernetes_objects::{self as objects, Object as _};
use gimbal_model::{Endpoint, Family, PortSet, TargetKey};

use super::{Action, Body, Plan, Removals, delete, delete_slice};
use crate::lost::{meta, patch};
use crate::observed::{Packed, Slice};
use crate::shape::{flat_not_ready, not_ready};
use crate::{Observed, Wanted, shape};

impl Plan {
    /// Leaves out the `refused` actions. A slice that cannot be written as wanted still loses the endpoints that are
    /// gone, and updates those that stay. An endpoint that is to move stays in its slice until it exists in the new
    /// one. Where nothing is wanted, the phases after a refused deletion wait for it, because slices go before their
    /// Service.
    #[must_use]
    pub fn around(
        mut self,
        target: &TargetKey,
        wanted: Option<&Wanted>,
        observed: &Observed,
        removals: Removals,
        refused: impl Fn(&Action) -> bool,
    ) -> Self {
        let Some(wanted) = wanted else {
            if let Some(at) = self.phases.iter().position(|phase| phase.iter().any(&refused)) {
                self.phases.truncate(at + 1);
                self.phases[at].retain(|action| !refused(action));
                self.phases.retain(|phase| !phase.is_empty());
            }
            return self;
        };
        let kept_ready = (removals == Removals::HeldReady).then(|| wanted.keeping_ready(observed));
        let wanted = kept_ready.as_ref().unwrap_or(wanted);
        let is_service = |action: &Action| action.kind() == objects::Service::KIND;
        let barred: Vec<&Action> = self.actions().filter(|action| refused(action)).collect();
        if barred.is_empty() {
            return self;
        }
        // Without a Service of ours, no slice or endpoint is added.
        let no_service = barred.iter().any(|action| is_service(action) && matches!(action, Action::Create(_)));
        let undeleted = barred.iter().any(|action| is_service(action) && matches!(action, Action::Delete { .. }));
        let scarce = no_service || barred.iter().any(|action| !is_service(action));
        let mut shrink = Shrink::new(target, wanted, observed, removals);
        if scarce {
            shrink.wait_for_places(&self);
        }
        for phase in &mut self.phases {
            let instead = phase.drain(..).filter_map(|action| {
                if is_service(&action) {
                    let waits = undeleted && matches!(action, Action::Create(_));
                    return Some(action).filter(|action| !refused(action) && !waits);
                }
                let adds = matches!(action, Action::Create(_) | Action::Replace(_));
                match refused(&action) || no_service && adds || shrink.loses_a_place(&action) {
                    true => shrink.of(&action).filter(|action| !refused(action)),
                    false => Some(action),
                }
            });
            *phase = instead.collect();
        }
        self.phases.retain(|phase| !phase.is_empty());
        self
    }
}

/// Reduces writes of slices and `Endpoints` objects to their removals and updates.
struct Shrink<'a> {
    target: &'a TargetKey,
    wanted: &'a Wanted,
    observed: &'a Observed,
    held: bool,
    /// Wanted addresses that may not be in all of their slices yet.
    waiting: BTreeSet<IpAddr>,
    /// The same for the `Endpoints` object.
    waiting_packed: BTreeSet<IpAddr>,
}

impl<'a> Shrink<'a> {
    fn new(target: &'a TargetKey, wanted: &'a Wanted, observed: &'a Observed, removals: Removals) -> Self {
        let (waiting, waiting_packed) = (BTreeSet::new(), BTreeSet::new());
        Self { target, wanted, observed, held: removals != Removals::Allowed, waiting, waiting_packed }
    }

    /// Finds the wanted addresses that are not in all of their places yet. They stay where they are until then.
    fn wait_for_places(&mut self, plan: &Plan) {
        let in_slices = self.wanted.api().slices().then(|| {
            let there = self.places(plan);
            let wanted = self.wanted.groups().iter();
            let pairs = wanted.flat_map(|((_, ports), endpoints)| endpoints.iter().map(move |at| (ports, at.address)));
            pairs.filter(|pair| !there.contains(pair)).map(|(_, address)| address).collect::<BTreeSet<_>>()
        });
        let in_packed = self.wanted.packed().map(|(_, groups)| {
            let held = self.observed.packed().filter(|packed| !packed.common.deleting);
            let there = held.map(|packed| shape::ungroup(&packed.groups)).unwrap_or_default();
            let wanted = shape::ungroup(groups).into_keys();
            wanted.filter(|pair| !there.contains_key(pair)).map(|(address, _)| address).collect::<BTreeSet<_>>()
        });
        // Objects of an API that is no longer used stay until the other API's objects are complete.
        self.waiting = in_slices.clone().or_else(|| in_packed.clone()).unwrap_or_default();
        self.waiting_packed = in_packed.or(in_slices).unwrap_or_default();
    }

    /// Returns port set and address of the endpoints that stay in their slices, whichever part of the plan is carried
    /// out.
    fn places(&self, plan: &Plan) -> BTreeSet<(&'a PortSet, IpAddr)> {
        let mut places = BTreeSet::new();
        for slice in self.observed.slices().iter().filter(|slice| !slice.common.deleting) {
            let is_its =
                |action: &&Action| action.kind() == objects::EndpointSlice::KIND && *action.name() == slice.name;
            let kept = match plan.actions().find(is_its) {
                None => None,
                Some(Action::Replace(Body::Slice(new))) if new.ports == shape::slice_ports(&slice.ports) => {
                    Some(addresses(new))
                }
                Some(_) => continue,
            };
            let stays = |address: &IpAddr| kept.as_ref().is_none_or(|kept| kept.contains(&*address.to_string()));
            places.extend(slice.endpoints.addresses().filter(stays).map(|address| (&slice.ports, address)));
        }
        places
    }

    fn slice(&self, name: &str) -> Option<&'a Slice> {
        self.observed.slices().iter().find(|slice| *slice.name == *name)
    }

    /// Whether an action removes an endpoint whose address may not be in another slice yet.
    fn loses_a_place(&self, action: &Action) -> bool {
        if action.kind() == objects::Endpoints::KIND {
            // It is deleted where only slices are written.
            let groups = self.observed.packed().map(|packed| packed.groups.as_slice()).unwrap_or_default();
            let mut addresses = groups.iter().flat_map(|group| group.endpoints.addresses());
            return matches!(action, Action::Delete { .. })
                && addresses.any(|address| self.waiting_packed.contains(&address));
        }
        let kept: BTreeSet<&str> = match action {
            Action::Replace(Body::Slice(slice)) => addresses(slice),
            Action::Delete { .. } => BTreeSet::new(),
            _ => return false,
        };
        let Some(slice) = self.slice(action.name()) else { return false };
        let mut waits = slice.endpoints.addresses().filter(|address| self.waiting.contains(address));
        waits.any(|address| !kept.contains(address.to_string().as_str()))
    }

    fn of(&self, action: &Action) -> Option<Action> {
        if action.kind() == objects::EndpointSlice::KIND {
            self.slice(action.name()).and_then(|slice| self.shrunk(slice))
        } else {
            self.observed.packed().and_then(|packed| self.shrunk_packed(packed))
        }
    }

    fn shrunk(&self, slice: &Slice) -> Option<Action> {
        let family: Family = slice.family.filter(|_| !slice.common.deleting)?;
        let group: &(Family, PortSet) = &(family, slice.ports.clone());
        let wanted: &[Endpoint] = match self.wanted.api().slices() {
            true => self.wanted.groups().get(group).map_or(&[], Vec::as_slice),
            false => &[],
        };
        let stays = |endpoint: Endpoint| match wanted.binary_search_by_key(&endpoint.address, |other| other.address) {
            Ok(at) => Some(wanted[at].clone()),
            Err(_) if !self.held && !self.waiting.contains(&endpoint.address) => None,
            Err(_) if self.wanted.is_not_ready() => Some(not_ready(&endpoint)),
            Err(_) => Some(endpoint),
        };
        let kept: Vec<Endpoint> = slice.endpoints.iter().filter_map(stays).collect();
        if kept.is_empty() {
            return delete_slice(self.target, slice);
        }
        if kept.len() == slice.endpoints.len() && kept.iter().zip(slice.endpoints.iter()).all(|(a, b)| *a == b) {
            return None;
        }
        let body = Body::Slice(objects::EndpointSlice {
            metadata: meta(self.target, slice.name.clone(), &slice.common),
            address_type: family.as_str().into(),
            endpoints: kept.iter().map(shape::slice_endpoint).collect(),
            ports: shape::slice_ports(&slice.ports),
        });
        patch(body, &slice.common)
    }

    fn shrunk_packed(&self, packed: &Packed) -> Option<Action> {
        if packed.common.deleting {
            return None;
        }
        let wanted = self.wanted.packed().map(|(_, groups)| shape::ungroup(groups)).unwrap_or_default();
        let old = shape::ungroup(&packed.groups);
        let mut kept = old.clone();
        kept.retain(|(address, port), state| match wanted.get(&(*address, port.clone())) {
            Some(now) => {
                *state = now.clone();
                true
            }
            None => self.held || self.waiting_packed.contains(address),
        });
        if self.wanted.is_not_ready() {
            kept = flat_not_ready(kept);
        }
        if kept == old {
            return None;
        }
        if kept.is_empty() {
            return delete(objects::Endpoints::KIND, self.target, &self.target.name, &packed.common);
        }
        let body = Body::Endpoints(objects::Endpoints {
            metadata: meta(self.target, self.target.name.clone(), &packed.common),
            subsets: shape::subsets(&shape::group(&kept)),
        });
        patch(body, &packed.common)
    }
}

fn addresses(slice: &objects::EndpointSlice) -> BTreeSet<&str> {
    slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses).map(|address| &**address).collect()
}
