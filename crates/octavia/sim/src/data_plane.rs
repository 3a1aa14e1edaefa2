//! What a provider forwards since its last change, as haproxy's configuration would have it.

use serde_json::Value;

use crate::cloud::CloudModel;
use crate::objects::{ApiObject, Progress};
use crate::schema::ApiKind;

/// A port that forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// The listener's protocol.
    pub protocol: String,
    /// The listener's port.
    pub port: u16,
    /// The client networks that may connect; `None` for everybody.
    pub allowed: Option<Vec<String>>,
    /// Where connections go.
    pub targets: Vec<ForwardTarget>,
}

/// A member that takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardTarget {
    /// The address, as it was given.
    pub address: String,
    /// The port.
    pub port: u16,
    /// The share of the traffic; 0 takes no new connections.
    pub weight: u16,
}

impl CloudModel {
    /// Returns what a load balancer forwards now: the configuration of the last change that ended well. A load balancer that
    /// never was `ACTIVE`, or is gone, forwards nothing.
    #[must_use]
    pub fn forwards(&self, balancer: &str) -> &[Forwarding] {
        self.applied.get(balancer).map(Vec::as_slice).unwrap_or_default()
    }

    /// Applies the load balancer's present configuration.
    pub(crate) fn render(&mut self, balancer: &str) {
        let Some(object) = self.store.find(balancer) else { return };
        let (mut applied, mut routed) = (Vec::new(), Vec::new());
        if object.is_on("admin_state_up") {
            // What is still in creation when a change has ended was forgotten.
            let is_served =
                |one: &ApiObject| one.is_on("admin_state_up") && one.provisioning != Progress::PendingCreate;
            let listeners: Vec<_> =
                self.store.below(balancer, ApiKind::Listener).filter(|(_, one)| is_served(one)).collect();
            applied.extend(listeners.iter().map(|(_, one)| self.forwarding(one)));
            routed.extend(listeners.iter().filter_map(|(id, one)| self.routing(id, one, port(one))));
        }
        self.applied.insert(balancer.to_owned(), applied);
        self.routed.insert(balancer.to_owned(), routed);
    }

    fn forwarding(&self, listener: &ApiObject) -> Forwarding {
        let allowed = listener.fields.get("allowed_cidrs").and_then(Value::as_array);
        let texts = |all: &Vec<Value>| all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        let pool = listener.text("default_pool_id");
        Forwarding {
            protocol: listener.text("protocol").to_owned(),
            port: port(listener),
            allowed: allowed.map(texts),
            targets: self.members_of(pool).unwrap_or_default(),
        }
    }

    /// Returns where a pool leads to; `None` if it is down, or there is none.
    pub(crate) fn members_of(&self, pool: &str) -> Option<Vec<ForwardTarget>> {
        let is_made = |one: &ApiObject| one.provisioning != Progress::PendingCreate;
        self.store.find(pool).filter(|pool| pool.is_on("admin_state_up") && is_made(pool))?;
        let is_up = |one: &ApiObject| one.is_on("admin_state_up") && one.provisioning != Progress::Error;
        let members = self.store.below(pool, ApiKind::Member).filter(|(_, one)| is_up(one) && is_made(one));
        Some(members.map(|(_, one)| target(one)).collect())
    }
}

fn target(member: &ApiObject) -> ForwardTarget {
    let weight = u16::try_from(member.number("weight")).unwrap_or_default();
    ForwardTarget { address: member.text("address").to_owned(), port: port(member), weight }
}

fn port(object: &ApiObject) -> u16 {
    u16::try_from(object.number("protocol_port")).unwrap_or_default()
}
