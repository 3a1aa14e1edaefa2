//! What must hold when everything is at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gimbal_kubernetes_objects::{EndpointSlice, Meta, Object as _, Service as ServiceObject, keys};
use gimbal_model::{BackendName, Service, SourceKey, TargetKey, service_name};
use gimbal_plan::Body;
use gimbal_reconcile::Mode;

use super::listing::listed;
use super::server::is_marked;
use super::world::{BACKENDS, World, is_valid};

/// Brings the world to rest, first with the present refusals and then without them. No part of a source is unknown
/// then.
pub(super) fn come_to_rest(world: &mut World) {
    if !world.writer.is_leading() {
        world.regain_lease();
    }
    (0..BACKENDS.len()).for_each(|agent| world.source_complete(agent));
    world.settle();
    if !(world.server.refuses.is_empty() && world.server.full.is_empty()) {
        check_removals(world);
        world.server.refuses.clear();
        world.server.full.clear();
        // Longer than any refused write waits before it is tried again.
        world.pass(Duration::from_secs(310));
        world.settle();
    }
    for (agent, backend) in BACKENDS.iter().enumerate() {
        assert_eq!(world.unacknowledged(agent), 0, "frames of {backend} are not acknowledged");
    }
    assert_eq!(world.writer.oldest_pending(world.now), None, "a change waits, and nothing is left to do");
}

/// Checks that endpoints that a source no longer has get no traffic, whatever the API server refuses to add.
pub(super) fn check_removals(world: &World) {
    for ((namespace, name), claims) in wanted(world) {
        let [(backend, key, service)] = &claims[..] else { continue };
        // If the policy maps it elsewhere or makes it wait, the object is not the source's own here, or it stays.
        let policy = world.policies.get(backend).filter(|policy| policy.mode == Mode::Admit);
        let led = policy.and_then(|policy| policy.target(backend, key, None).ok());
        if led != Some(TargetKey::new(namespace.clone(), name.clone())) {
            continue;
        }
        let own = |meta: &Meta| {
            *meta.labels[keys::BACKEND] == *backend.as_str() && *meta.annotations[keys::SOURCE] == *key.to_string()
        };
        let has: BTreeSet<String> = service.endpoints().map(|(_, endpoint)| endpoint.address.to_string()).collect();
        let theirs = world.slices().filter(|s| is_marked(&Body::Slice((*s).clone())));
        for slice in theirs.filter(|s| *s.metadata.namespace == *namespace && names_its_source(&s.metadata)) {
            if *slice.metadata.labels[keys::SERVICE_NAME] != *name || !own(&slice.metadata) {
                continue;
            }
            // If the slice itself may not be written in its present form, nothing can be removed from it.
            let label = slice.metadata.labels.get("label").map(ToString::to_string).unwrap_or_default();
            if world.server.refuses.contains(&(EndpointSlice::KIND.kind, label)) {
                continue;
            }
            for endpoint in &slice.endpoints {
                assert!(has.contains(&*endpoint.addresses[0]), "{key} has {} no more", endpoint.addresses[0]);
            }
        }
    }
}

type Wanted = BTreeMap<(String, String), Vec<(BackendName, SourceKey, Arc<Service>)>>;

fn wanted(world: &World) -> Wanted {
    let mut wanted = Wanted::new();
    for (agent, name) in BACKENDS.iter().enumerate() {
        let backend = BackendName::parse(name).unwrap();
        for (key, service) in &world.agents[agent].source {
            let target = (key.namespace.to_string(), service_name(&backend, &key.name));
            if world.server.namespaces.contains(&target.0) {
                wanted.entry(target).or_default().push((backend.clone(), key.clone(), service.clone()));
            }
        }
    }
    wanted
}

fn addresses(service: &Service) -> BTreeSet<String> {
    service.endpoints().map(|(ports, e)| format!("{}:{:?}", e.address, ports.ports()[0].port)).collect()
}

/// Whether the labels and annotations of an object are those of the source Service that it can stand for. If they
/// were edited by hand and the writer restarted since, its owner is unknown and the object stays.
pub(super) fn names_its_source(meta: &Meta) -> bool {
    let service = meta.labels.get(keys::SERVICE_NAME).unwrap_or(&meta.name);
    let source = SourceKey::from_annotation(&meta.annotations[keys::SOURCE]).unwrap();
    BackendName::parse(&meta.labels[keys::BACKEND]).is_ok_and(|b| service_name(&b, &source.name) == **service)
}

/// Checks that the Gimbal cluster holds what the sources have, and nothing else with our mark.
pub(super) fn check(world: &World) {
    check_removals(world);
    for (agent, name) in BACKENDS.iter().enumerate() {
        let all = listed(world, &BackendName::parse(name).unwrap(), "");
        assert!(world.agents[agent].source.keys().all(|key| all.contains(key)), "{all:?} is not all of {name}");
    }
    let wanted = wanted(world);
    for ((namespace, name), claims) in &wanted {
        let id = ("Service", namespace.clone(), name.clone());
        if claims.iter().all(|(.., service)| !is_valid(service)) {
            // An object that existed before stays, even if it was edited by hand.
            continue;
        }
        // Someone deleted by hand a Service that can no longer be written, and its slices keep the name.
        if claims.iter().any(|(.., service)| !is_valid(service)) && !world.server.objects.contains_key(&id) {
            continue;
        }
        let there = world.server.objects.get(&id).unwrap_or_else(|| panic!("{namespace}/{name} is missing"));
        if !is_marked(there) {
            continue;
        }
        let labels = &there.meta().labels;
        let owner = claims
            .iter()
            .find(|(backend, key, _)| {
                *labels[keys::BACKEND] == *backend.as_str()
                    && *there.meta().annotations[keys::SOURCE] == *key.to_string()
            })
            .or_else(|| claims.iter().find(|(.., service)| !is_valid(service)))
            .unwrap_or_else(|| panic!("{namespace}/{name} stands for none of its claims"));
        // An edit by hand is not repaired if the Service cannot be written.
        if !is_valid(&owner.2) {
            // An object that existed before stays.
            continue;
        }
        assert_eq!(labels["label"], owner.2.header.labels["label"], "{namespace}/{name}");
        let mut held = BTreeSet::new();
        for slice in world.slices().filter(|s| {
            is_marked(&Body::Slice((*s).clone()))
                && *s.metadata.namespace == **namespace
                && *s.metadata.labels[keys::SERVICE_NAME] == **name
        }) {
            for endpoint in &slice.endpoints {
                let address = format!("{}:{:?}", endpoint.addresses[0], slice.ports[0].port.map(|p| p as u16));
                assert!(held.insert(address), "an endpoint is in two slices of {namespace}/{name}");
            }
        }
        assert_eq!(held, addresses(&owner.2), "{namespace}/{name}");
    }
    for service in world.services().filter(|s| is_marked(&Body::Service((*s).clone())) && names_its_source(&s.metadata))
    {
        let target = (service.metadata.namespace.to_string(), service.metadata.name.to_string());
        assert!(wanted.contains_key(&target), "{target:?} is left though no source wants it");
    }
    for slice in world.slices().filter(|s| is_marked(&Body::Slice((*s).clone())) && names_its_source(&s.metadata)) {
        let name = slice.metadata.labels[keys::SERVICE_NAME].to_string();
        let target = (slice.metadata.namespace.to_string(), name);
        assert!(wanted.contains_key(&target), "a slice of {target:?} is left though no source wants it");
    }
}

impl World {
    /// Returns all slices, whether or not they carry our mark.
    pub fn slices(&self) -> impl Iterator<Item = &EndpointSlice> {
        self.server.objects.values().filter_map(|body| match body {
            Body::Slice(slice) => Some(slice),
            _ => None,
        })
    }

    pub fn services(&self) -> impl Iterator<Item = &ServiceObject> {
        self.server.objects.values().filter_map(|body| match body {
            Body::Service(service) => Some(service),
            _ => None,
        })
    }
}
