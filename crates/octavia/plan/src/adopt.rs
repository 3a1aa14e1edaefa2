//! Taking over a load balancer that another program has made, as Kuryr or cloud-provider-openstack.

use std::time::Duration;

use serde_json::{Map, Value, json};

use gimbal_kuryr_model::{DesiredEntry, DesiredLoadBalancer, ListenerId, LoadBalancerHeader};
use gimbal_model::Protocol;

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::mark::{clusters_in, is_group, is_marked, names_another_cluster, owner_tag_of, port_tag, with_missing};
use crate::seen::{SeenBalancer, SeenListener, SeenPool};
use crate::sharing::Sharing;
use crate::step::{BalancerStep, Block, CloudLook};
use crate::vip::kept_otherwise;

/// What taking over a load balancer would change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Takeover {
    /// The changes that mark it and name it; the first is about the load balancer itself, and after it the actor finds the
    /// load balancer and does the rest by itself.
    pub changes: Vec<CloudChange>,
    /// What the load balancer keeps for its life and is not as it is wanted, in words. If there is any, it would be replaced
    /// right after.
    pub differences: Vec<String>,
}

impl Actor {
    /// Returns what would change if this load balancer were taken over for the owner, whatever it is called and whoever made
    /// it. Sends nothing.
    ///
    /// # Errors
    /// It carries the mark of another owner, or the owner goes; in words.
    pub fn adoption(&self, balancer: &SeenBalancer) -> Result<Takeover, String> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else {
            return Err("the owner is being removed".to_owned());
        };
        // What a group has names the owners of it as well.
        let is_groups = is_group(&self.mark.owner) && self.mark.is_on(&balancer.tags);
        let foreign = |word: &&str| {
            names_another_cluster(std::iter::once(*word), &self.mark.cluster)
                || clusters_in(std::iter::once(*word)).any(|uid| *uid != *self.mark.cluster_uid)
                || (is_marked(word) && **word != self.mark.owner_tag() && (!is_groups || is_group(word)))
        };
        // The mark is in both, and somebody may have taken it out of one.
        let mut words = balancer.tags.iter().map(String::as_str).chain(balancer.description.split_whitespace());
        if let Some(word) = words.find(foreign) {
            return Err(format!("load balancer {} is marked for another owner: {word}", balancer.id));
        }
        let name = LoadBalancerHeader::display_name(&self.key.namespace, &self.key.name);
        let mut fields = Map::new();
        set(&mut fields, "name", &balancer.name, &name);
        set(&mut fields, "description", &balancer.description, &self.mark.description());
        let sharing = self.sharing.as_deref();
        let owners = sharing.into_iter().flat_map(Sharing::owner_tags);
        let tags: Vec<String> = self.mark.tags().into_iter().chain(owners).collect();
        fields.extend(with_missing(&balancer.tags, &tags).map(|tags| ("tags".to_owned(), tags)));
        let mut changes = Vec::new();
        if !fields.is_empty() {
            changes.push(CloudChange::UpdateBalancer { id: balancer.id.clone(), fields: Value::Object(fields) });
        }
        for listener in &balancer.listeners {
            let Some(id) = wanted.header.listener(id_of(listener)).map(|wish| wish.id) else { continue };
            let part = sharing.and_then(|sharing| sharing.parts.get(&id));
            let key = part.map_or(&self.key, |part| &part.key);
            let name = LoadBalancerHeader::listener_name(&key.namespace, &key.name, id);
            let owner = part.map(|part| owner_tag_of(&part.owner));
            let tags: Vec<String> = std::iter::once(port_tag(id)).chain(self.mark.tags()).chain(owner).collect();
            let fields = marked(&listener.name, &name, &listener.tags, &tags);
            changes.extend(fields.map(|fields| CloudChange::UpdateListener { id: listener.id.clone(), fields }));
            // The pools of a router are those of Services, and are made anew.
            let is_its_own = |_: &&SeenPool| wanted.header.routing.is_none();
            let pool = balancer.pools.iter().find(|pool| Some(&pool.id) == listener.default_pool.as_ref());
            let pool = pool.filter(is_its_own);
            if let Some(pool) = pool {
                let fields = marked(&pool.name, &name, &pool.tags, &tags);
                changes.extend(fields.map(|fields| CloudChange::UpdatePool { id: pool.id.clone(), fields }));
            }
        }
        Ok(Takeover { changes, differences: differences(balancer, &wanted.header) })
    }

    /// Returns what there is to do where a load balancer is asked for by its ID that is not the owner's. As long as it exists
    /// somebody may take it over for the owner. The ID of one that has gone asks for nothing: it was adopted and then deleted,
    /// or replaced.
    pub(crate) fn adoption_awaited(&self, wanted: &DesiredLoadBalancer, now: Duration) -> Option<BalancerStep> {
        let id = wanted.header.adopt.as_deref()?;
        if self.seen.balancers.iter().any(|one| one.id == id) {
            return None;
        }
        match self.memory.asked_balancer.as_ref().filter(|(asked, _)| asked == id) {
            Some((_, None)) => None,
            Some((_, Some(until))) if *until > now => {
                let words = format!("load balancer {id} does not carry the mark of this owner");
                Some(BalancerStep::Blocked(Block::Conflict(words)))
            }
            _ => Some(BalancerStep::Look(CloudLook::Balancer { id: id.to_owned() })),
        }
    }

    /// Takes whether there is a load balancer with an ID that is asked for.
    pub fn found_balancer(&mut self, id: &str, is_there: bool, now: Duration) {
        self.memory.asked_balancer = Some((id.to_owned(), is_there.then(|| now + self.drift_interval)));
    }
}

fn set(fields: &mut Map<String, Value>, key: &str, seen: &str, wanted: &str) {
    if seen != wanted {
        fields.insert(key.to_owned(), json!(wanted));
    }
}

fn marked(seen_name: &str, name: &str, seen_tags: &[String], tags: &[String]) -> Option<Value> {
    let mut fields = Map::new();
    set(&mut fields, "name", seen_name, name);
    fields.extend(with_missing(seen_tags, tags).map(|tags| ("tags".to_owned(), tags)));
    (!fields.is_empty()).then_some(Value::Object(fields))
}

pub(crate) fn id_of(listener: &SeenListener) -> ListenerId {
    let protocol = match listener.protocol.as_str() {
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => Protocol::Tcp,
    };
    ListenerId::new(protocol, listener.port)
}

fn differences(balancer: &SeenBalancer, header: &LoadBalancerHeader) -> Vec<String> {
    let differs = kept_otherwise(balancer, header);
    differs.map(|(what, wanted, seen)| format!("{what} is {seen}, and {wanted} is wanted")).collect()
}
