//! Distributes endpoints over slices. An endpoint stays in the slice where it is observed, so that one change
//! rewrites one slice however large the Service is.

use std::cmp::Reverse;
use std::net::IpAddr;

use gimbal_model::{Endpoint, PortSet};

use crate::MAX_ENDPOINTS;
use crate::observed::Slice;
use crate::print::Fingerprint;
use crate::shape::not_ready;

/// The changes to the slices of one address family and port set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placement<'a> {
    /// Slices whose content changes.
    pub(crate) rewrites: Vec<Rewrite<'a>>,
    /// Slices that lose all endpoints.
    pub(crate) emptied: Vec<&'a Slice>,
    /// The content of new slices.
    pub(crate) new: Vec<Vec<Endpoint>>,
}

/// The new content of an existing slice.
#[derive(Debug, Clone)]
pub(crate) struct Rewrite<'a> {
    pub(crate) slice: &'a Slice,
    /// Sorted by address.
    pub(crate) endpoints: Vec<Endpoint>,
    /// To be written after the others: it gains nothing, or loses endpoints that must first exist in another slice.
    pub(crate) late: bool,
}

/// What happens to endpoints that are observed and not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// They are removed.
    Nothing,
    /// They stay.
    AsItIs,
    /// They stay and are marked not ready.
    NotReady,
}

struct Draft<'a> {
    slice: &'a Slice,
    kept: Vec<Endpoint>,
    /// Its content differs from the observed one.
    touched: bool,
    /// It differs by more than removed endpoints.
    gains: bool,
    /// It has more endpoints than a slice may.
    overflows: bool,
}

/// Distributes `wanted` (sorted by address) over `slices` (sorted by name). `keep` says what happens to endpoints
/// that are not wanted.
pub(crate) fn place<'a>(
    ports: &PortSet,
    meta: Fingerprint,
    wanted: &[Endpoint],
    slices: Vec<&'a Slice>,
    keep: Keep,
) -> Placement<'a> {
    let mut placed = vec![false; wanted.len()];
    let mut rest = Vec::new();
    let mut drafts: Vec<Draft<'a>> = Vec::with_capacity(slices.len());
    for slice in slices {
        drafts.push(draft(slice, ports, meta, wanted, keep, &mut placed, &mut rest));
    }
    rest.extend(wanted.iter().zip(&placed).filter(|(_, placed)| !**placed).map(|(endpoint, _)| endpoint.clone()));
    rest.sort_by_key(|endpoint| endpoint.address);
    rest.dedup_by_key(|endpoint| endpoint.address);

    let mut placement = Placement { new: fill(&mut drafts, rest), ..Placement::default() };
    for Draft { slice, mut kept, touched, gains, overflows } in drafts {
        if kept.is_empty() {
            placement.emptied.push(slice);
        } else if touched {
            kept.sort_by_key(|endpoint| endpoint.address);
            placement.rewrites.push(Rewrite { slice, endpoints: kept, late: overflows || !gains });
        }
    }
    placement
}

/// Returns what a slice keeps. An endpoint that is in two slices stays in the first. What does not fit is added to
/// `rest`.
fn draft<'a>(
    slice: &'a Slice,
    ports: &PortSet,
    meta: Fingerprint,
    wanted: &[Endpoint],
    keep: Keep,
    placed: &mut [bool],
    rest: &mut Vec<Endpoint>,
) -> Draft<'a> {
    let odd = !slice.regular || slice.ports != *ports || slice.meta != meta;
    let mut draft = Draft { slice, kept: Vec::new(), touched: odd, gains: odd, overflows: false };
    let mut next = 0;
    for endpoint in slice.endpoints.iter() {
        let full = draft.kept.len() == MAX_ENDPOINTS;
        let found = find(wanted, endpoint.address, next);
        next = found.map_or(next, |at| at + 1);
        match found {
            Some(at) if !placed[at] && !full => {
                placed[at] = true;
                draft.gains |= wanted[at] != endpoint;
                draft.kept.push(wanted[at].clone());
            }
            Some(at) => draft.overflows |= !placed[at],
            None if keep == Keep::Nothing => {}
            None => {
                let kept = if keep == Keep::NotReady { not_ready(&endpoint) } else { endpoint.clone() };
                draft.gains |= kept != endpoint;
                if full {
                    draft.overflows = true;
                    rest.push(kept);
                } else {
                    draft.kept.push(kept);
                }
            }
        }
    }
    draft.touched |= draft.gains || draft.kept.len() != slice.endpoints.len();
    draft
}

/// Finds an address in `wanted`, at `likely` first: both lists are sorted, and neighbours in one are usually
/// neighbours in the other.
fn find(wanted: &[Endpoint], address: IpAddr, likely: usize) -> Option<usize> {
    match wanted.get(likely) {
        Some(endpoint) if endpoint.address == address => Some(likely),
        _ => wanted.binary_search_by_key(&address, |endpoint| endpoint.address).ok(),
    }
}

/// Distributes `rest` with as few writes as possible: first over slices that are written anyway, the fullest first;
/// then over full new slices; then to the fullest other slice with room for the remainder, or else to one more new
/// slice.
fn fill(drafts: &mut [Draft<'_>], mut rest: Vec<Endpoint>) -> Vec<Vec<Endpoint>> {
    let mut order: Vec<usize> = (0..drafts.len()).collect();
    order.sort_by_key(|at| Reverse(drafts[*at].kept.len()));
    for at in order.iter().copied().filter(|at| drafts[*at].touched).collect::<Vec<_>>() {
        add(&mut drafts[at], &mut rest, MAX_ENDPOINTS);
    }
    let mut new = Vec::new();
    while rest.len() >= MAX_ENDPOINTS {
        new.push(rest.drain(..MAX_ENDPOINTS).collect());
    }
    if !rest.is_empty() {
        let fits = |at: &usize| !drafts[*at].touched && drafts[*at].kept.len() + rest.len() <= MAX_ENDPOINTS;
        match order.into_iter().find(fits) {
            Some(at) => add(&mut drafts[at], &mut rest, MAX_ENDPOINTS),
            None => new.push(rest),
        }
    }
    new
}

fn add(draft: &mut Draft<'_>, rest: &mut Vec<Endpoint>, limit: usize) {
    let room = limit.saturating_sub(draft.kept.len()).min(rest.len());
    if room > 0 {
        draft.kept.extend(rest.drain(..room));
        draft.touched = true;
        draft.gains = true;
    }
}
