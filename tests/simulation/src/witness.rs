//! Checks the rules that must hold at every moment: what the sources have had all the time is in the Gimbal cluster
//! all the time, and every write makes a difference.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::keys;
use gimbal_model::TargetKey;
use gimbal_plan::{Action, Body};

use crate::server::{Event, Server, id, is_marked};
use crate::sources::{self, Sources};

/// What the Gimbal cluster holds for a target.
#[derive(Debug, Default, PartialEq)]
struct Held {
    service: bool,
    slices: BTreeMap<Arc<str>, Vec<IpAddr>>,
}

/// The part of a source Service that has existed since the storm began.
#[derive(Debug)]
struct Lasting {
    hosts: BTreeMap<u8, IpAddr>,
    keeps_endpoints: bool,
}

/// An observer of the API server's content.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    held: HashMap<TargetKey, Held>,
    lasting: HashMap<TargetKey, Lasting>,
}

impl Witness {
    /// Begins to look for losses. Everything that exists now has to stay while its source has it.
    pub(crate) fn begin(&mut self, sources: &Sources) {
        for (backend, service, offer) in sources.offers().filter(|(_, _, offer)| offer.there) {
            let hosts = offer.hosts.keys().filter(|host| sources::is_let_through(backend, **host));
            let hosts = hosts.map(|host| (*host, sources::address(backend, service, *host))).collect();
            let lasting = Lasting { hosts, keeps_endpoints: sources::keeps_endpoints(backend) };
            self.lasting.insert(sources::target(backend, service), lasting);
        }
    }

    /// Called when a source Service changes: hosts that it no longer has may be removed.
    pub(crate) fn changed(&mut self, sources: &Sources, backend: usize, service: usize) {
        let target = sources::target(backend, service);
        let offer = sources.offer(backend, service);
        if !offer.there {
            self.lasting.remove(&target);
        } else if let Some(lasting) = self.lasting.get_mut(&target) {
            lasting.hosts.retain(|host, _| offer.hosts.contains_key(host));
        }
    }

    /// Checks the effect of an event about an object with our mark.
    pub(crate) fn look(&mut self, event: &Event) -> Result<(), String> {
        self.note(event).map_or(Ok(()), |target| self.judge(&target))
    }

    /// Records what exists after an event. Returns the target that it is about.
    fn note(&mut self, event: &Event) -> Option<TargetKey> {
        let target = match event {
            Event::Is(Body::Service(service)) => {
                let target = TargetKey::new(service.metadata.namespace.clone(), service.metadata.name.clone());
                self.held.entry(target.clone()).or_default().service = true;
                target
            }
            Event::Gone(Body::Service(service)) => {
                let target = TargetKey::new(service.metadata.namespace.clone(), service.metadata.name.clone());
                self.held.entry(target.clone()).or_default().service = false;
                target
            }
            Event::Is(Body::Slice(slice)) | Event::Gone(Body::Slice(slice)) => {
                let meta = &slice.metadata;
                let service = meta.labels.get(keys::SERVICE_NAME).cloned().unwrap_or_default();
                let target = TargetKey::new(meta.namespace.clone(), service);
                let slices = &mut self.held.entry(target.clone()).or_default().slices;
                if matches!(event, Event::Is(_)) {
                    let addresses = slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
                    slices.insert(meta.name.clone(), addresses.filter_map(|text| text.parse().ok()).collect());
                } else {
                    slices.remove(&meta.name);
                }
                target
            }
            _ => return None,
        };
        Some(target)
    }

    /// Called when the API server's store is restored. What is lost by that was not removed by a write of ours. Where
    /// the store held something else just before, a removal that was decided then may now meet a restored object
    /// without anybody being able to know, so such targets are no longer checked.
    pub(crate) fn restored(&mut self, server: &Server) {
        let before = std::mem::take(&mut self.held);
        for body in server.objects.values().filter(|body| is_marked(body)) {
            self.note(&Event::Is(body.clone()));
        }
        let mut lasting = std::mem::take(&mut self.lasting);
        lasting.retain(|target, lasting| {
            let Some(held) = self.held.get(target).filter(|held| held.service) else { return false };
            if before.get(target) != Some(held) {
                return false;
            }
            let there: BTreeSet<&IpAddr> = held.slices.values().flatten().collect();
            lasting.hosts.retain(|_, address| there.contains(address));
            true
        });
        self.lasting = lasting;
    }

    fn judge(&self, target: &TargetKey) -> Result<(), String> {
        let (Some(lasting), Some(held)) = (self.lasting.get(target), self.held.get(target)) else { return Ok(()) };
        if !held.service {
            return Err(format!("Service {target} was deleted though its source had it all the while"));
        }
        let there: BTreeSet<&IpAddr> = held.slices.values().flatten().collect();
        let lost = lasting.hosts.values().find(|address| !there.contains(address));
        match lost.filter(|_| lasting.keeps_endpoints) {
            Some(lost) => {
                Err(format!("endpoint {lost} of {target} was removed though its source had it all the while"))
            }
            None => Ok(()),
        }
    }
}

/// Checks a write before the API server handles it. `in_time`: its sender still leads and waits for the answer.
///
/// # Errors
/// Returns what is wrong with the write.
pub fn judge_write(server: &Server, action: &Action, in_time: bool) -> Result<(), String> {
    match action {
        Action::Replace(body) => {
            let there = server.objects.get(&id(body.kind(), body.meta()));
            let same = there.is_some_and(|there| {
                there.meta().resource_version == body.meta().resource_version
                    && there.fingerprint() == body.fingerprint()
            });
            if same {
                return Err(format!("{} {} was written as it is", body.kind().kind, body.name()));
            }
        }
        Action::Create(Body::Slice(slice)) if in_time => {
            let service = slice.metadata.labels.get(keys::SERVICE_NAME).map(ToString::to_string).unwrap_or_default();
            let of = ("Service", slice.metadata.namespace.to_string(), service);
            if !server.objects.contains_key(&of) && !server.objects.contains_key(&slice_id(slice)) {
                return Err(format!("slice {} was created before its Service", slice.metadata.name));
            }
        }
        _ => {}
    }
    Ok(())
}

fn slice_id(slice: &gimbal_kubernetes_objects::EndpointSlice) -> crate::server::Id {
    ("EndpointSlice", slice.metadata.namespace.to_string(), slice.metadata.name.to_string())
}
