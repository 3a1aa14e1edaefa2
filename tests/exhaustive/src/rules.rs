//! The rules that must hold at every moment.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use gimbal_kubernetes_objects::keys;
use gimbal_model::TargetKey;
use gimbal_plan::Body;
use gimbal_simulation::server::Server;

use crate::world::World;

/// The rules that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Endpoints that the sources have had all the time are in the Gimbal cluster all the time.
    Kept,
    /// Every write makes a difference, and none comes before a write that it needs.
    Write,
    /// Of the endpoints that a backend had within the window, no more are missing than its guard allows. A held drop
    /// is released only by a snapshot that covers it.
    Guard,
    /// At the end, the Gimbal cluster holds what the sources have.
    Content,
    /// At the end, nothing waits: every frame is acknowledged, and the queue is empty.
    Rest,
    /// A comparison of everything finds no difference.
    Comparison,
    /// A lease that was late and is still held by the same writer changes nothing.
    Lease,
    /// A restart writes nothing.
    Quiet,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The rule.
    pub rule: Rule,
    /// A description of what broke it.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Returns address, target and backend of every endpoint in the server.
pub(crate) fn endpoints(server: &Server) -> impl Iterator<Item = (IpAddr, TargetKey, &str)> {
    server.objects.values().flat_map(|body| {
        let Body::Slice(slice) = body else { return Vec::new() };
        let labels = &slice.metadata.labels;
        let service = labels.get(keys::SERVICE_NAME).cloned().unwrap_or_default();
        let backend = labels.get(keys::BACKEND).map_or("", |name| &**name);
        let target = TargetKey::new(slice.metadata.namespace.clone(), service);
        let addresses = slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
        addresses.filter_map(|text| Some((text.parse().ok()?, target.clone(), backend))).collect()
    })
}

/// Checks what the Gimbal cluster holds now.
pub(crate) fn look(world: &mut World) {
    let server = &world.cluster.server;
    let there: BTreeMap<(IpAddr, TargetKey), &str> =
        endpoints(server).map(|(address, target, backend)| ((address, target), backend)).collect();
    let has_service = |target: &TargetKey| {
        server.objects.contains_key(&("Service", target.namespace.to_string(), target.name.to_string()))
    };
    let lasting = world.small.lasting.iter();
    let lost = lasting
        .filter(|(address, target)| !has_service(target) || !there.contains_key(&(**address, (*target).clone())));
    let lost =
        lost.map(|(address, target)| format!("{address} of {target} is gone, which its source had all the while"));
    let mut fault = lost.map(|what| Fault { rule: Rule::Kept, what }).next();
    let mut counts: Vec<BTreeMap<TargetKey, u64>> = vec![BTreeMap::new(); world.agents.len()];
    for ((_, target), name) in &there {
        let of = world.setup.backends.iter().position(|backend| backend.name.as_str() == *name);
        of.into_iter().for_each(|of| *counts[of].entry(target.clone()).or_default() += 1);
    }
    drop(there);
    for (number, now) in counts.into_iter().enumerate() {
        fault = fault.or_else(|| judge_guard(world, number, &now));
        let clock = world.small.clock;
        if let Some(held) = &mut world.small.held[number] {
            held.insert((clock, now));
        }
    }
    fault.into_iter().for_each(|fault| world.fail(fault));
}

/// Checks the guard's rule: of the endpoints that existed within the window, no more are missing now than allowed.
/// Each Service counts with the most endpoints that it had.
fn judge_guard(world: &World, number: usize, now: &BTreeMap<TargetKey, u64>) -> Option<Fault> {
    let backend = &world.setup.backends[number];
    let guard = &backend.policy.guard;
    let mut most = now.clone();
    let held = world.small.held[number].as_ref()?;
    for (_, then) in held.iter().filter(|(at, _)| world.small.clock < *at + guard.window) {
        for (target, had) in then {
            let most = most.entry(target.clone()).or_default();
            *most = (*most).max(*had);
        }
    }
    let total: u64 = most.values().sum();
    let missing = total - now.values().sum::<u64>();
    let may = (total * u64::from(guard.max_drop_percent) / 100).max(guard.min_endpoints);
    let what = || format!("{missing} of {total} endpoints of {} are missing, {may} may be", backend.name);
    (missing > may).then(|| Fault { rule: Rule::Guard, what: what() })
}

/// Called when a snapshot released a removal that the guard held. The snapshot must cover the removed Services.
pub(crate) fn judge_release(world: &mut World, agent: usize) {
    world.small.held[agent] = None;
    let Some(unknown) = world.agents[agent].unknown else { return };
    let has = world.source(agent);
    let backend = &world.setup.backends[agent];
    let gone = backend.has.iter().filter(|(key, _)| has.iter().all(|(other, _)| other != key));
    let gone = gone.filter(|(key, _)| &*key.namespace == unknown).map(|(key, _)| key.clone()).next();
    if let Some(key) = gone {
        let what = format!("a snapshot released the removal of {key}, and its namespace cannot be seen");
        world.fail(Fault { rule: Rule::Guard, what });
    }
}

/// Forgets endpoints that were removed from outside, because no process of ours is at fault.
pub(crate) fn forget_what_is_not_there(world: &mut World) {
    let there: BTreeMap<IpAddr, TargetKey> =
        endpoints(&world.cluster.server).map(|(address, target, _)| (address, target)).collect();
    world.small.lasting.retain(|address, target| there.get(address) == Some(target));
    world.small.held.iter_mut().flatten().for_each(std::collections::BTreeSet::clear);
}
