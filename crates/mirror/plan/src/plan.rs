//! The difference between the wanted and the observed objects of a target, as ordered requests
//! (`docs/design.md#rule-6` and `docs/design.md#rule-10`).

mod action;
mod around;

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::{self as objects, Object as _};
use gimbal_model::{Endpoint, Family, PortSet, TargetKey};

use crate::observed::{Common, Slice};
use crate::placement::{Keep, Placement, place};
use crate::print::{self, Printer};
use crate::{Observed, Wanted, lost, shape};
pub(crate) use action::delete;
pub use action::{Action, Body, Plan};

/// Whether endpoints and objects that are no longer wanted may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removals {
    /// They are removed.
    Allowed,
    /// They stay as they are. New and changed endpoints and objects are written.
    Held,
    /// Like `Held`, and endpoints that are ready stay ready.
    HeldReady,
}

/// How many digits of a group's fingerprint the names of its slices contain.
const PRINT: usize = 10;

/// Compares the wanted with the observed objects of `target`, and returns the requests that remove the difference.
/// `taken` holds the names of slices in the target's namespace that objects without our mark have.
///
/// The phases, if something is wanted: the Service, if it is created; slices and the Endpoints object, if they gain or
/// change something; slices that only lose endpoints, and deletions. An existing Service is replaced in the first phase
/// that has writes of the others, because they need not wait for it. Only a Service with a cluster IP, which no update
/// can remove, is deleted before everything else and created anew. The phases, if nothing is wanted: slices and the
/// Endpoints object; the Service.
#[must_use]
pub fn plan(
    target: &TargetKey,
    wanted: Option<&Wanted>,
    observed: &Observed,
    removals: Removals,
    taken: &BTreeSet<String>,
) -> Plan {
    let held = removals != Removals::Allowed;
    let kept_ready = wanted.filter(|_| removals == Removals::HeldReady).map(|wanted| wanted.keeping_ready(observed));
    let wanted = kept_ready.as_ref().or(wanted);
    let mut phases: [Vec<Action>; 4] = Default::default();
    let [first, service, gain, lose] = &mut phases;
    match wanted {
        Some(wanted) => {
            let replaced = plan_service(target, wanted, observed, held, first, service);
            plan_slices(target, wanted, observed, held, taken, gain, lose);
            plan_packed(target, wanted, observed, held, gain, lose);
            let beside = if gain.is_empty() { lose } else { gain };
            beside.splice(..0, replaced);
        }
        None if held => {}
        None => {
            gain.extend(observed.slices().iter().filter_map(|slice| delete_slice(target, slice)));
            let packed = observed.packed().map(|packed| &packed.common);
            gain.extend(packed.and_then(|common| delete(objects::Endpoints::KIND, target, &target.name, common)));
            let common = observed.service().map(|held| &held.common);
            lose.extend(common.and_then(|common| delete(objects::Service::KIND, target, &target.name, common)));
        }
    }
    Plan { phases: phases.into_iter().filter(|phase| !phase.is_empty()).collect() }
}

fn plan_service(
    target: &TargetKey,
    wanted: &Wanted,
    observed: &Observed,
    held: bool,
    first: &mut Vec<Action>,
    phase: &mut Vec<Action>,
) -> Option<Action> {
    let body = Body::Service(wanted.service().clone());
    match observed.service() {
        None => phase.push(Action::Create(body)),
        // If the API server assigns an address to every new Service, that form was accepted.
        Some(old) if old.common.satisfies(body.fingerprint()) => {}
        Some(old) if old.fixed_address => {
            // The name becomes free only when the Service that is being deleted is gone.
            if let (false, Some(delete)) = (held, delete(objects::Service::KIND, target, &target.name, &old.common)) {
                first.push(delete);
                phase.push(Action::Create(body));
            }
        }
        Some(old) => return Some(replace(body, &old.common)),
    }
    None
}

fn plan_packed(
    target: &TargetKey,
    wanted: &Wanted,
    observed: &Observed,
    held: bool,
    gain: &mut Vec<Action>,
    lose: &mut Vec<Action>,
) {
    let old = observed.packed();
    let Some((meta, groups)) = wanted.packed() else {
        let common = old.filter(|_| !held).map(|old| &old.common);
        lose.extend(common.and_then(|common| delete(objects::Endpoints::KIND, target, &target.name, common)));
        return;
    };
    let subsets = match old {
        Some(old) if held => {
            let mut flat = shape::ungroup(groups);
            for (key, state) in shape::ungroup(&old.groups) {
                flat.entry(key).or_insert(state);
            }
            let flat = if wanted.is_not_ready() { shape::flat_not_ready(flat) } else { flat };
            shape::subsets(&shape::group(&flat))
        }
        _ => shape::subsets(groups),
    };
    let body = Body::Endpoints(objects::Endpoints { metadata: meta.clone(), subsets });
    match old {
        None => gain.push(Action::Create(body)),
        Some(old) if old.common.satisfies(body.fingerprint()) => {}
        Some(old) => gain.push(replace(body, &old.common)),
    }
}

fn plan_slices(
    target: &TargetKey,
    wanted: &Wanted,
    observed: &Observed,
    held: bool,
    taken: &BTreeSet<String>,
    gain: &mut Vec<Action>,
    lose: &mut Vec<Action>,
) {
    let nothing = BTreeMap::new();
    let groups = if wanted.api().slices() { wanted.groups() } else { &nothing };
    let prefixes: BTreeMap<String, _> = groups.keys().map(|group| (prefix(target, group), group)).collect();
    let mut assigned = BTreeMap::<&(Family, PortSet), Vec<&Slice>>::new();
    for slice in observed.slices() {
        // Endpoints in a slice that is being deleted are placed anew.
        match group_of(slice, groups, &prefixes).filter(|_| !slice.common.deleting) {
            Some(group) => assigned.entry(group).or_default().push(slice),
            None if held && wanted.is_not_ready() => gain.extend(lost::slice_not_ready(target, slice)),
            None if held => {}
            None => lose.extend(delete_slice(target, slice)),
        }
    }
    let names: BTreeSet<&str> = observed.slices().iter().map(|slice| &*slice.name).collect();
    let keep = match held {
        false => Keep::Nothing,
        true if wanted.is_not_ready() => Keep::NotReady,
        true => Keep::AsItIs,
    };
    let is_taken = |name: &str| names.contains(name) || taken.contains(name);
    for (prefix, group) in &prefixes {
        let (family, ports) = *group;
        let endpoints = groups.get(*group).map_or(&[] as &[Endpoint], Vec::as_slice);
        let slices = assigned.remove(*group).unwrap_or_default();
        let Placement { rewrites, emptied, new } = place(ports, wanted.slice_print(), endpoints, slices, keep);
        for rewrite in rewrites {
            let name = rewrite.slice.name.clone();
            let body = Body::Slice(wanted.slice(name, *family, ports, &rewrite.endpoints));
            if !rewrite.slice.common.satisfies(body.fingerprint()) {
                let phase = if rewrite.late { &mut *lose } else { &mut *gain };
                phase.push(replace(body, &rewrite.slice.common));
            }
        }
        lose.extend(emptied.into_iter().filter_map(|slice| delete_slice(target, slice)));
        let free = (0_u64..).map(|ordinal| format!("{prefix}{ordinal}")).filter(|name| !is_taken(name));
        for (endpoints, name) in new.iter().zip(free) {
            gain.push(Action::Create(Body::Slice(wanted.slice(name.into(), *family, ports, endpoints))));
        }
    }
}

/// Returns the group that a slice belongs to: the one that it was named for, so that edited ports are corrected in
/// place, or else the one whose ports it has.
fn group_of<'a>(
    slice: &Slice,
    groups: &'a BTreeMap<(Family, PortSet), Vec<Endpoint>>,
    prefixes: &BTreeMap<String, &'a (Family, PortSet)>,
) -> Option<&'a (Family, PortSet)> {
    let family = slice.family?;
    let stem = slice.name.rfind('-').and_then(|at| slice.name.get(..=at));
    let named = stem.and_then(|stem| prefixes.get(stem)).copied().filter(|(of, _)| *of == family);
    named.or_else(|| groups.get_key_value(&(family, slice.ports.clone())).map(|(group, _)| group))
}

/// Returns what the names of a group's slices begin with: the same for the same ports, so that a create whose answer
/// was lost finds its own object when it is repeated.
fn prefix(target: &TargetKey, (family, ports): &(Family, PortSet)) -> String {
    let mut printer = Printer::new(family.as_str());
    for port in ports.ports() {
        printer.text(&port.name);
        printer.number(port.port.map_or(-1, i64::from));
        printer.text(port.protocol.as_str());
        printer.option(port.app_protocol.as_deref());
    }
    let print = printer.finish().to_string();
    format!("{}-{}-", target.name, print.get(..PRINT).unwrap_or(&print))
}

/// Returns the target that a slice of this name was made for; `None` for a name that we do not give. Labels may be
/// edited by hand; a name cannot be changed.
#[must_use]
pub fn made_for(slice: &str) -> Option<&str> {
    let (stem, ordinal) = slice.rsplit_once('-')?;
    let (target, print) = stem.rsplit_once('-')?;
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    let given = !ordinal.is_empty()
        && ordinal.bytes().all(|c| c.is_ascii_digit())
        && print.len() == PRINT
        && print.bytes().all(hex)
        && !target.is_empty();
    given.then_some(target)
}

fn replace(mut body: Body, observed: &Common) -> Action {
    let meta = body.meta_mut();
    meta.uid = observed.uid.clone();
    meta.resource_version = observed.resource_version.clone();
    Action::Replace(body)
}

fn delete_slice(target: &TargetKey, slice: &Slice) -> Option<Action> {
    delete(objects::EndpointSlice::KIND, target, &slice.name, &slice.common)
}

impl Body {
    /// Whether the other has the same content, field by field. Returns false also for differences that have no effect;
    /// [`Body::fingerprint`] ignores those, and costs more.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (meta, others) = (self.meta(), other.meta());
        meta.labels == others.labels
            && meta.annotations == others.annotations
            && match (self, other) {
                (Self::Service(one), Self::Service(other)) => one.spec == other.spec,
                (Self::Slice(one), Self::Slice(other)) => {
                    one.address_type == other.address_type
                        && one.ports == other.ports
                        && one.endpoints == other.endpoints
                }
                (Self::Endpoints(one), Self::Endpoints(other)) => one.subsets == other.subsets,
                _ => false,
            }
    }

    /// Whether the other has the same endpoints on the same ports. Our patches change nothing else.
    #[must_use]
    pub fn has_same_endpoints(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Slice(one), Self::Slice(other)) => one.ports == other.ports && one.endpoints == other.endpoints,
            (Self::Endpoints(one), Self::Endpoints(other)) => shape::flatten(one).0 == shape::flatten(other).0,
            _ => false,
        }
    }

    /// Returns the fingerprint of everything that we set. Equal if sending one or the other makes no difference.
    #[must_use]
    pub fn fingerprint(&self) -> print::Fingerprint {
        match self {
            Self::Service(object) => print::service(object),
            Self::Slice(object) => print::slice(object),
            Self::Endpoints(object) => print::endpoints(object),
        }
    }
}
