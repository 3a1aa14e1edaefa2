//! Taking over a load balancer that somebody else made.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, LoadBalancerHeader, Text};
use gimbal_octavia_plan::{ChangeOutcome, CloudChange, Seen, ServiceRefusal};
use serde_json::Value;

use crate::call::{CallLane, CallToMake, CloudCall};
use crate::cell::CellState;
use crate::cluster::{ManagedCluster, PlannedRead};
use crate::event::{AdoptionOutcome, AdoptionRefusal, RegistryEvent};
use crate::owner_look::{LookPart, OwnerLook};
use crate::pace::Line;
use crate::shared::{CallFor, ReadFor, RegistryCore};

/// For this long an owner may not have seen what it has adopted.
const UNSEEN: Duration = Duration::from_secs(600);
/// How often a change of an adoption whose answer was lost is looked up.
const LOOK_UPS: u32 = 3;

/// An adoption that goes on.
#[derive(Debug)]
pub(crate) struct PendingAdoption {
    key: DesiredKey,
    dry_run: bool,
    project: Text,
    stage: AdoptionStage,
    /// Answers that were lost.
    lost: u32,
}

#[derive(Debug)]
enum AdoptionStage {
    Looking(Box<OwnerLook>),
    /// The change that makes it ours.
    Ready(CloudChange),
    Sending,
}

impl ManagedCluster {
    /// Begins to take over a load balancer for an entry, unless another such adoption is under way.
    pub(crate) fn adopt(
        &mut self,
        key: &DesiredKey,
        balancer: &str,
        dry_run: bool,
        shared: &mut RegistryCore,
        now: Instant,
    ) -> bool {
        let balancer: Text = balancer.into();
        // An entry that adopts two would lose one of them: of twins the younger goes.
        let mut others = self.adoptions.iter().filter(|(one, other)| **one == balancer || other.key == *key);
        if let Some((one, other)) = others.next() {
            return others.next().is_none() && *one == balancer && other.key == *key && other.dry_run == dry_run;
        }
        let Some(project) = self.adopter(key).map(|header| header.placement.project.clone()) else {
            self.end_adoption(&balancer, key, AdoptionOutcome::Refused(AdoptionRefusal::NoEntry), shared);
            return true;
        };
        if let Some(id) = self.adopted_by(key, now) {
            let outcome = if id == balancer {
                AdoptionOutcome::Done
            } else {
                AdoptionOutcome::Refused(AdoptionRefusal::HasOne(id))
            };
            self.end_adoption(&balancer, key, outcome, shared);
            return true;
        }
        let (mut look, reads) = OwnerLook::at_balancer(&balancer, &project);
        look.number = self.next_number();
        let number = look.number;
        let stage = AdoptionStage::Looking(Box::new(look));
        let adoption = PendingAdoption { key: key.clone(), dry_run, project, stage, lost: 0 };
        self.adoptions.insert(balancer.clone(), adoption);
        self.plan_adoption(&balancer, number, reads);
        true
    }

    /// Returns the load balancer that an entry has, or has adopted since its last look.
    fn adopted_by(&mut self, key: &DesiredKey, now: Instant) -> Option<Text> {
        let owner = self.keys.get(key)?;
        let cell = self.cells.get(owner)?;
        let is_seen = |at: Instant| cell.looked_at.is_some_and(|looked| looked > at) && !cell.is_outdated;
        self.adopted.retain(|one, (_, at)| one != owner || !is_seen(*at) && now < *at + UNSEEN);
        let seen = cell.actor.balancer().map(|one| one.id.as_str().into());
        seen.or_else(|| self.adopted.get(owner).map(|(id, _)| id.clone()))
    }

    /// Ends the adoptions of which nothing was sent: the stream has ended.
    pub(crate) fn end_unsent_adoptions(&mut self, shared: &mut RegistryCore) {
        let is_unsent = |one: &PendingAdoption| !matches!(one.stage, AdoptionStage::Sending) && one.lost == 0;
        let unsent = self.adoptions.iter().filter(|(_, one)| is_unsent(one));
        let unsent: Vec<(Text, DesiredKey)> = unsent.map(|(id, one)| (id.clone(), one.key.clone())).collect();
        for (balancer, key) in unsent {
            let words = "the controller's stream has ended, and nothing was changed; order it again when it is back";
            self.end_adoption(&balancer, &key, AdoptionOutcome::Refused(AdoptionRefusal::Failed(words.into())), shared);
        }
    }

    /// Lets an owner look again before it does anything: what it has was changed by somebody else, and a look that has begun may
    /// have missed that.
    pub(crate) fn look_anew(&mut self, owner: &Text, now: Instant) {
        let Some(cell) = self.cells.get_mut(owner) else { return };
        cell.actor.look_again();
        // Nor do lists that have begun show it.
        cell.changed_at = Some(now);
        cell.is_outdated = matches!(cell.state, CellState::Looking(_));
        self.wake(owner);
    }

    /// Returns what is wanted under a key.
    fn adopter(&self, key: &DesiredKey) -> Option<&LoadBalancerHeader> {
        match self.cells.get(self.keys.get(key)?)?.wanted() {
            DesiredEntry::LoadBalancer(wanted) => Some(&wanted.header),
            DesiredEntry::Deleting { .. } => None,
        }
    }

    fn plan_adoption(&mut self, balancer: &Text, number: u64, reads: Vec<crate::owner_look::LookRead>) {
        self.reads.extend(reads.into_iter().map(|(part, project, read)| {
            let what = ReadFor::Adoption { balancer: balancer.clone(), number, part };
            PlannedRead { what, project, read }
        }));
    }

    fn end_adoption(&mut self, balancer: &Text, key: &DesiredKey, outcome: AdoptionOutcome, shared: &mut RegistryCore) {
        self.adoptions.remove(balancer);
        let (cluster, key, balancer) = (self.settings.name.clone(), key.clone(), balancer.clone());
        shared.events.push(RegistryEvent::Adopted { cluster, key, balancer, outcome });
    }

    pub(crate) fn adoption_read(
        &mut self,
        balancer: &Text,
        (number, part): (u64, &LookPart),
        project: &Text,
        rows: Option<Vec<Value>>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        let Some(adoption) = self.adoptions.get_mut(balancer) else { return };
        let AdoptionStage::Looking(look) = &mut adoption.stage else { return };
        if look.number != number {
            return;
        }
        let more = match rows {
            Some(rows) => look.rows(part, project, rows),
            None => look.read_failed(project),
        };
        if !look.is_over() {
            return self.plan_adoption(balancer, number, more);
        }
        let (key, dry_run, lost) = (adoption.key.clone(), adoption.dry_run, adoption.lost);
        let AdoptionStage::Looking(look) = std::mem::replace(&mut adoption.stage, AdoptionStage::Sending) else {
            return;
        };
        let outcome = match look.end() {
            None if lost > 0 => Err(lost_for_good()),
            None => {
                Err(AdoptionRefusal::Failed("it could not be read, and nothing was changed; order it again".into()))
            }
            Some((seen, _)) => self.takeover(&key, &seen),
        };
        match outcome {
            Err(refusal) => self.end_adoption(balancer, &key, AdoptionOutcome::Refused(refusal), shared),
            Ok(changes) if dry_run => {
                self.end_adoption(balancer, &key, AdoptionOutcome::WouldChange(changes), shared);
            }
            Ok(changes) => {
                let mut changes = changes.into_iter();
                // With its mark it is found, and the rest is made by itself.
                let change = changes.find(|change| lost == 0 || matches!(change, CloudChange::UpdateBalancer { .. }));
                match change {
                    None => self.adoption_done(balancer, &key, shared, now),
                    Some(change) => {
                        if let Some(adoption) = self.adoptions.get_mut(balancer) {
                            adoption.stage = AdoptionStage::Ready(change);
                        }
                    }
                }
            }
        }
    }

    fn adoption_done(&mut self, balancer: &Text, key: &DesiredKey, shared: &mut RegistryCore, now: Instant) {
        if let Some(owner) = self.keys.get(key).cloned() {
            self.adopted.insert(owner.clone(), (balancer.clone(), now));
            self.look_anew(&owner, now);
        }
        self.end_adoption(balancer, key, AdoptionOutcome::Done, shared);
    }

    /// Returns the changes that give a load balancer the mark of an entry: after the first it is found by it.
    fn takeover(&self, key: &DesiredKey, seen: &Seen) -> Result<Vec<CloudChange>, AdoptionRefusal> {
        let cell = self.keys.get(key).and_then(|owner| self.cells.get(owner)).ok_or(AdoptionRefusal::NoEntry)?;
        let found = seen.balancers.first().ok_or(AdoptionRefusal::NotFound)?;
        let adoption = cell.actor.adoption(found).map_err(|words| AdoptionRefusal::OwnedBy(words.into()))?;
        match adoption.differences.is_empty() {
            true => Ok(adoption.changes),
            false => Err(AdoptionRefusal::Differs(adoption.differences.join("; ").into())),
        }
    }

    /// Returns the change of an adoption, if one may be sent.
    pub(crate) fn next_adoption_change(&mut self, shared: &mut RegistryCore, now: Instant) -> Option<CallToMake> {
        if self.adoptions.is_empty() || !shared.pace.may_change(&Line::Octavia, now) {
            return None;
        }
        let ready = |adoption: &PendingAdoption| matches!(adoption.stage, AdoptionStage::Ready(..));
        let (balancer, adoption) = self.adoptions.iter_mut().find(|(_, adoption)| ready(adoption))?;
        let AdoptionStage::Ready(change) = std::mem::replace(&mut adoption.stage, AdoptionStage::Sending) else {
            return None;
        };
        let (balancer, project) = (balancer.clone(), adoption.project.clone());
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now);
        }
        shared.pace.change_begins(&Line::Octavia);
        shared.sums.changes += 1;
        let name = self.settings.name.clone();
        let id = shared.begin(&name, self.number, CallFor::Adoption { balancer, line: Line::Octavia }, now);
        let not_after = self.live_until(shared.settings.heartbeat_age);
        let what = CloudCall::Change(change);
        Some(CallToMake { id, cluster: name, project, lane: CallLane::Octavia, what, not_after })
    }

    /// Takes what came of an adoption's change; `None` if it was not sent. One whose answer was lost is looked up before it is
    /// made again, or given up.
    pub(crate) fn adoption_changed(
        &mut self,
        balancer: &Text,
        outcome: Option<ChangeOutcome>,
        shared: &mut RegistryCore,
        now: Instant,
    ) {
        use ServiceRefusal::{Busy, Changed, Pending, ProjectBusy};
        let number = self.next_number();
        let Some(adoption) = self.adoptions.get_mut(balancer) else { return };
        let key = adoption.key.clone();
        let is_unsure = match &outcome {
            Some(ChangeOutcome::Unknown(_)) => true,
            // Octavia may be at work on the change whose answer was lost.
            None | Some(ChangeOutcome::Refused(Pending | Busy(_) | ProjectBusy(_) | Changed(_))) => adoption.lost > 0,
            _ => false,
        };
        if is_unsure && adoption.lost < LOOK_UPS {
            adoption.lost += 1;
            let (mut look, reads) = OwnerLook::at_balancer(balancer, &adoption.project);
            look.number = number;
            adoption.stage = AdoptionStage::Looking(Box::new(look));
            return self.plan_adoption(balancer, number, reads);
        }
        if let Some(owner) = self.keys.get(&key).cloned() {
            // Whether it was accepted or not: the mark tells.
            self.look_anew(&owner, now);
        }
        let refusal = match outcome {
            Some(ChangeOutcome::Accepted(_)) => return self.adoption_done(balancer, &key, shared, now),
            _ if is_unsure => lost_for_good(),
            Some(ChangeOutcome::Refused(refusal)) => {
                let words = format!("OpenStack refuses it: {refusal}; nothing was changed");
                AdoptionRefusal::Failed(words.into())
            }
            Some(ChangeOutcome::Unknown(_)) | None => {
                let words = "the change was not sent: the cluster's controller was not heard of lately, or OpenStack is not \
                             reached; order it again";
                AdoptionRefusal::Failed(words.into())
            }
        };
        self.end_adoption(balancer, &key, AdoptionOutcome::Refused(refusal), shared);
    }
}

fn lost_for_good() -> AdoptionRefusal {
    let words = "the answer of OpenStack was lost, and whether it carries the mark cannot be seen now; order it again: it is \
                 looked up first";
    AdoptionRefusal::Failed(words.into())
}
