//! How large a router may become.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kuryr_crd::{KlrPool, KuryrL7RouterSpec};
use gimbal_kuryr_model::Text;

use super::IngressProblem;
use super::index::Routed;
use crate::Finding;
use crate::bounds::{LEAN_ABOVE, METADATA, MOST_BYTES, encoded_len};

/// No router has rules that take more than this in their Ingresses, so that half of it is left for endpoints.
pub const MOST_ROUTES: usize = 500_000;

/// Keeps the Ingresses for whose rules there is room. Namespaces share it in equal parts: first comes what is within the part of its
/// namespace, then what is within two parts, and so on, each time the oldest first. So each namespace has its part whatever others
/// ask for, and one that comes takes nothing from those that have no more than that. Within a namespace the oldest come first, and
/// what comes after one that does not fit is not kept either: who is served there must not depend on how much fits.
pub(crate) fn with_room<'a>(
    ingresses: Vec<Routed<'a>>,
    serves_tls: bool,
    findings: &mut Vec<Finding>,
) -> Vec<Routed<'a>> {
    let fits = which_fit(&ingresses, serves_tls);
    let mut kept = Vec::with_capacity(ingresses.len());
    for (routed, fits) in ingresses.into_iter().zip(fits) {
        if fits {
            kept.push(routed);
        } else {
            let problem = IngressProblem::NoRoom { router: routed.placement.router.clone() };
            findings.push(Finding::Ingress { ingress: routed.key.clone(), problem });
        }
    }
    kept
}

fn which_fit(ingresses: &[Routed<'_>], serves_tls: bool) -> Vec<bool> {
    let lens: Vec<usize> = ingresses.iter().map(|routed| rules_len(routed, serves_tls)).collect();
    let namespaces: BTreeSet<&Text> = ingresses.iter().map(|routed| &routed.key.namespace).collect();
    let part = (MOST_ROUTES / namespaces.len().max(1)).max(1);
    let mut has: BTreeMap<&Text, usize> = BTreeMap::new();
    let mut order = Vec::with_capacity(ingresses.len());
    for (at, routed) in ingresses.iter().enumerate() {
        let has = has.entry(&routed.key.namespace).or_default();
        *has += lens[at];
        order.push((has.div_ceil(part), at));
    }
    order.sort_unstable();
    let mut room = MOST_ROUTES;
    let mut fits = vec![false; ingresses.len()];
    let mut full: BTreeSet<&Text> = BTreeSet::new();
    for (_, at) in order {
        let namespace = &ingresses[at].key.namespace;
        if full.contains(namespace) {
            continue;
        }
        if lens[at] > room {
            full.insert(namespace);
            continue;
        }
        room -= lens[at];
        fits[at] = true;
    }
    fits
}

/// Bytes of its routes, pools and certificates in the spec, at most, with those of the routes' copies for HTTPS in what is streamed.
fn rules_len(routed: &Routed<'_>, serves_tls: bool) -> usize {
    /// What a route and a pool have beside their texts.
    const ITEM: usize = 160;
    /// What a route has beside its texts as it is streamed.
    const COPY: usize = 60;
    let spec = &routed.ingress.spec;
    let key = routed.key.namespace.len() + routed.key.name.len();
    // JSON has two bytes for some characters.
    let backend = |backend: &gimbal_kubernetes_objects::IngressBackend| {
        3 * (routed.key.namespace.len() + backend.service.as_ref().map_or(0, |service| service.name.len()))
    };
    // Where no certificate is served, TLS takes nothing away from what is served over HTTP.
    let tls = if serves_tls { spec.tls.as_slice() } else { &[] };
    let has_tls = !tls.is_empty();
    // What has no certificate is closed over HTTPS where its requests would go to another one.
    let is_copied = serves_tls;
    let without_hosts = tls.iter().filter(|one| one.hosts.is_empty()).count();
    let mut len = spec.default_backend.as_ref().map_or(0, |one| ITEM + backend(one));
    for tls in tls {
        let secret = routed.key.namespace.len() + tls.secret_name.as_ref().map_or(0, |name| name.len());
        len += ITEM + secret + tls.hosts.iter().map(|host| host.len() + 3).sum::<usize>();
    }
    for rule in &spec.rules {
        let host = rule.host.as_deref().unwrap_or_default().len();
        // With the end of a host.
        len += ITEM + key + host;
        if is_copied {
            // Where it has no hosts, an entry of TLS lists this one.
            len += COPY + key + host + if has_tls { without_hosts * (host + 3) } else { 0 };
        }
        for path in rule.http.iter().flat_map(|http| &http.paths) {
            let text = path.path.as_deref().unwrap_or_default().len();
            len += ITEM + key + host + 2 * text + backend(&path.backend);
            if is_copied {
                len += COPY + key + host + text;
            }
            if has_tls {
                // The address that requests are sent to is the host once more.
                len += host + backend(&path.backend);
            }
        }
    }
    len
}

/// Makes a spec small enough. What is left of equal specs is equal: details go first, from every endpoint, then endpoints from the
/// end of whichever pool has most, so that no Service loses all of its members for another.
pub(crate) fn shorten(spec: &mut KuryrL7RouterSpec) -> Option<Finding> {
    if METADATA + encoded_len(spec) <= LEAN_ABOVE {
        return None;
    }
    for endpoint in spec
        .pools
        .iter_mut()
        .flat_map(|pool| &mut pool.endpoint_slices)
        .flat_map(|one| &mut Arc::make_mut(one).endpoints)
    {
        endpoint.target_ref = None;
        endpoint.node_name = None;
        endpoint.hostname = None;
    }
    let mut size = METADATA + encoded_len(spec);
    if size <= MOST_BYTES {
        return None;
    }
    let mut by_count: BTreeSet<(usize, usize)> =
        spec.pools.iter().enumerate().map(|(at, pool)| (count(pool), at)).collect();
    let total = by_count.iter().map(|(count, _)| count).sum();
    let mut kept: usize = total;
    while size > MOST_BYTES
        && let Some((count, at)) = by_count.pop_last()
        && count > 0
    {
        size -= pop(&mut spec.pools[at]);
        kept -= 1;
        by_count.insert((count - 1, at));
    }
    Some(Finding::TooLarge { kept, total })
}

fn count(pool: &KlrPool) -> usize {
    pool.endpoint_slices.iter().map(|slice| slice.endpoints.len()).sum()
}

/// Removes the last endpoint, and returns its bytes.
fn pop(pool: &mut KlrPool) -> usize {
    let mut freed = 0;
    while let Some(slice) = pool.endpoint_slices.last_mut() {
        let slice = Arc::make_mut(slice);
        // With the comma before it.
        freed += slice.endpoints.pop().map_or(0, |endpoint| encoded_len(&endpoint) + 1);
        if !slice.endpoints.is_empty() {
            break;
        }
        freed += encoded_len(slice) + 1;
        pool.endpoint_slices.pop();
        if freed > 0 {
            break;
        }
    }
    freed
}
