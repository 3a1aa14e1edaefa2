//! How large an object may become. The API server refuses a request above 3 MB and etcd one above 1.5 MB.

use std::io;
use std::sync::Arc;

use gimbal_kuryr_crd::{KlbSlice, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{ClientRanges, HostMatch, LoadBalancerHeader, PathMatch, RouteTarget, Routing};
use serde::Serialize;

use crate::Finding;

/// Above this, what endpoints are and where they run is left out of the spec.
pub const LEAN_ABOVE: usize = 500_000;
/// No spec is larger than this.
pub const MOST_BYTES: usize = 1_000_000;
/// With its status, no object is larger than this.
pub const MOST_WITH_STATUS: usize = 1_200_000;
/// No load balancer is streamed whose ports, source ranges and other lists take more than this. One that fits in no frame would make
/// its namespace unknown to the writer.
pub const MOST_LISTED: usize = 800_000;
/// No load balancer has more members than this, over all of its ports.
pub const MOST_DESIRED_MEMBERS: usize = 20_000;
/// No status lists more members than this.
pub const MOST_MEMBERS: usize = 2_000;

/// Everything but spec and status: names, finalizers, the owner, and what the server adds.
pub(crate) const METADATA: usize = 4_000;

/// Returns the bytes of a value as JSON.
#[must_use]
pub fn encoded_len(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    // Counting cannot fail, and neither can the types of this crate: their keys are texts.
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a spec small enough. What is left of equal specs is equal: details go first, from every endpoint, then whole
/// endpoints from the end.
pub(crate) fn bound(spec: &mut KuryrLoadBalancerSpec) -> Option<Finding> {
    if METADATA + encoded_len(spec) <= LEAN_ABOVE {
        return None;
    }
    for endpoint in spec.endpoint_slices.iter_mut().flat_map(|slice| &mut Arc::make_mut(slice).endpoints) {
        endpoint.target_ref = None;
        endpoint.node_name = None;
    }
    let mut size = METADATA + encoded_len(spec);
    if size <= MOST_BYTES {
        return None;
    }
    let total = count(&spec.endpoint_slices);
    while size > MOST_BYTES {
        let Some(slice) = spec.endpoint_slices.last_mut() else { break };
        match Arc::make_mut(slice).endpoints.pop() {
            // With the comma before it.
            Some(endpoint) => size -= encoded_len(&endpoint) + 1,
            None => {
                size -= encoded_len(&**slice) + 1;
                spec.endpoint_slices.pop();
            }
        }
    }
    while spec.endpoint_slices.last().is_some_and(|slice| slice.endpoints.is_empty()) {
        spec.endpoint_slices.pop();
    }
    Some(Finding::TooLarge { kept: count(&spec.endpoint_slices), total })
}

/// Returns how many bytes the lists of a header take at most when it is sent. Members are sent one by one, and everything else is
/// small.
pub(crate) fn listed_len(header: &LoadBalancerHeader) -> usize {
    /// An item without its text: more than its numbers and addresses, and what is around them.
    const ITEM: usize = 32;
    let vip = &header.vip;
    let ranges = match &header.clients {
        ClientRanges::Only(ranges) => ranges.len(),
        ClientRanges::Everyone | ClientRanges::NoOne => 0,
    };
    let names = header.listeners.iter().map(|listener| listener.name.as_deref().unwrap_or_default());
    let texts = vip.additional_subnets.iter().chain(&vip.security_groups).chain(&header.tls_containers);
    let texts = names.chain(texts.map(|text| &**text));
    let routing = header.routing.as_deref().map_or(0, routing_len);
    ITEM * (ranges + vip.additional_addresses.len()) + texts.map(|text| ITEM + text.len()).sum::<usize>() + routing
}

fn routing_len(routing: &Routing) -> usize {
    /// A pool, and a route, without their texts.
    const ITEM: usize = 48;
    let pools = routing.pools.iter().map(|pool| ITEM + pool.id.len() + pool.name.len());
    let routes = routing.routes.iter().map(|route| {
        let host = match &route.host {
            HostMatch::Any => 0,
            HostMatch::Exact(host) | HostMatch::Wildcard(host) => host.len(),
        };
        let path = match &route.path {
            PathMatch::Any => 0,
            PathMatch::Exact(path) | PathMatch::Prefix(path) => path.len(),
        };
        let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = &route.to;
        ITEM + host + path + to.len() + route.name.len()
    });
    pools.sum::<usize>() + routes.sum::<usize>()
}

fn count(slices: &[Arc<KlbSlice>]) -> usize {
    slices.iter().map(|slice| slice.endpoints.len()).sum()
}
