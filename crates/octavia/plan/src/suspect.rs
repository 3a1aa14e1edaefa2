//! An address that something holds after a creation failed.
//!
//! Octavia makes the port of a VIP before it asks the provider, and leaves it behind when the provider refuses. Such a port
//! carries no mark, only the ID of a load balancer that never came to be. Where the address was asked for, the port that has it
//! is found by the address, and is removed once it has been seen without its load balancer for a while. A port with an address
//! that Neutron chose looks like those of other creations, and stays.

use std::time::Duration;

use gimbal_kuryr_model::DesiredEntry;

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::memory::PlanPart;
use crate::seen::{AddressHolder, Seen};
use crate::step::{BalancerStep, Block, CloudLook, Wait};

/// How long to leave an address alone that somebody else has.
const TAKEN_FOR: Duration = Duration::from_secs(300);
/// How much longer to wait after a creation of unknown outcome: it may still go on.
const UNKNOWN: u32 = 5;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Suspect {
    subnet: String,
    address: String,
    project: String,
    /// Whether the service has said that the creation is over.
    refused: bool,
    /// A port without its load balancer, when it was first seen, and whether it has been there long enough.
    orphan: Option<(String, Duration, bool)>,
}

impl Suspect {
    pub(crate) fn is_about(&self, port: &str) -> bool {
        self.orphan.as_ref().is_some_and(|(id, ..)| id == port)
    }

    pub(crate) fn project(&self) -> &str {
        &self.project
    }
}

impl Actor {
    /// Takes note that a creation has failed which may have left its address in use.
    pub(crate) fn suspect(&mut self, change: &CloudChange, refused: bool) {
        let (body, subnet, address) = match change {
            CloudChange::CreateBalancer { body } => (body, &body["vip_subnet_id"], &body["vip_address"]),
            CloudChange::CreatePort { body } => {
                let fixed = &body["fixed_ips"][0];
                (body, &fixed["subnet_id"], &fixed["ip_address"])
            }
            _ => return,
        };
        let (Some(subnet), Some(address)) = (subnet.as_str(), address.as_str()) else { return };
        self.memory.suspect = Some(Suspect {
            subnet: subnet.to_owned(),
            address: address.to_owned(),
            project: body["project_id"].as_str().unwrap_or_default().to_owned(),
            refused,
            orphan: None,
        });
    }

    /// Returns what to do about the address before it is asked for again.
    pub(crate) fn suspect_step(&self, now: Duration) -> Option<BalancerStep> {
        let suspect = self.memory.suspect.as_ref()?;
        let Suspect { subnet, address, .. } = suspect;
        let look = || CloudLook::AddressHolder { subnet: subnet.clone(), address: address.clone() };
        Some(match &suspect.orphan {
            Some((port, _, true)) => {
                self.unless_refused(BalancerStep::Change(CloudChange::DeletePort { id: port.clone() }), now)
            }
            Some((_, since, false)) if *since + self.orphan_time(suspect) > now => {
                BalancerStep::Wait(Wait::Until(*since + self.orphan_time(suspect)))
            }
            _ => BalancerStep::Look(look()),
        })
    }

    fn orphan_time(&self, suspect: &Suspect) -> Duration {
        if suspect.refused { self.drift_interval } else { self.drift_interval * UNKNOWN }
    }

    pub(crate) fn suspected(&mut self, holder: Option<&AddressHolder>, now: Duration) {
        let Some(mut suspect) = self.memory.suspect.take() else { return };
        let Some(holder) = holder else { return };
        let port = &holder.port;
        if self.seen.ports.iter().any(|one| one.id == port.id) {
            return;
        }
        let made_by_octavia = AddressHolder::balancer(port).is_some();
        if made_by_octavia && !holder.in_use && port.project == suspect.project {
            let known = suspect.orphan.take().filter(|(id, ..)| *id == port.id);
            let since = known.map_or(now, |(_, since, _)| since);
            let stayed = since + self.orphan_time(&suspect) <= now;
            suspect.orphan = Some((port.id.clone(), since, stayed));
            self.memory.suspect = Some(suspect);
            return;
        }
        if self.wants_address(&suspect.address) {
            let user = if port.device_owner.is_empty() { "" } else { " of " };
            let words = format!("address {} belongs to port {}{user}{}", suspect.address, port.id, port.device_owner);
            self.memory.block(PlanPart::Balancer, Block::Conflict(words), now + TAKEN_FOR);
        }
    }

    /// The creation has happened after all.
    pub(crate) fn forget_suspect(&mut self) {
        let all = &self.seen.balancers;
        self.memory.suspect.take_if(|suspect| all.iter().any(|one| one.vip_address == suspect.address));
    }

    /// Whether a load balancer of the owner has the address that is wanted, for instance since it was adopted.
    pub(crate) fn has_address(&self, seen: &Seen) -> bool {
        seen.balancers.iter().any(|one| self.wants_address(&one.vip_address))
    }

    /// Whether this address is still wanted.
    fn wants_address(&self, address: &str) -> bool {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return false };
        wanted.header.vip.address.is_some_and(|wanted| wanted.to_string() == address)
    }
}
