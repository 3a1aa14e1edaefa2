//! What must be true at every moment.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use gimbal_kubernetes_objects::keys;
use gimbal_model::TargetKey;
use gimbal_plan::Body;
use gimbal_simulation::server::Server;

use crate::world::World;

/// Rules of what must be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// What the sources had all the while is in the Gimbal cluster all the while.
    Kept,
    /// No write is without a difference, and none comes before what it needs.
    Write,
    /// Of what a backend had within the window, no more is missing than its guard lets go; a drop is released by a snapshot
    /// that covers it.
    Guard,
    /// At the end there is what the sources have.
    Content,
    /// At the end nothing waits: every frame is acknowledged, and the queue is empty.
    Rest,
    /// A comparison of everything finds nothing.
    Comparison,
    /// A lease that was late and is still ours changes nothing.
    Lease,
    /// A restart writes nothing.
    Quiet,
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub rule: Rule,
    /// How, in words.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// Every endpoint that is there, where, and for whom.
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

/// Looks at what the Gimbal cluster holds now.
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

/// The guard's sentence: of all that there was within the window, no more is missing now than may be. A Service counts with
/// the most that it had.
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

/// A snapshot released what the guard held.
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

/// What was taken from outside is nobody's fault.
pub(crate) fn forget_what_is_not_there(world: &mut World) {
    let there: BTreeMap<IpAddr, TargetKey> =
        endpoints(&world.cluster.server).map(|(address, target, _)| (address, target)).collect();
    world.small.lasting.retain(|address, target| there.get(address) == Some(target));
    world.small.held.iter_mut().flatten().for_each(std::collections::BTreeSet::clear);
}
