//! What came of a change, and what that says about the next one.

use std::time::Duration;

use gimbal_kuryr_model::{DesiredEntry, ListenerId, PoolId, Text};
use serde_json::Value;

use crate::actor::Actor;
use crate::change::{ApiService, CloudChange};
use crate::children::listener_at;
use crate::mark::{port_tag, service_of};
use crate::member_turns::MemberTurns;
use crate::memory::PlanPart;
use crate::outcome::{ChangeOutcome, CloudAbility, MissingAbility, ServiceRefusal};
use crate::pools::texts;
use crate::seen::Provisioning;
use crate::seen_policy::SeenPolicy;
use crate::step::Block;

/// How long to leave a project alone whose quota is used up, or where a right is missing.
pub(crate) const BLOCKED_FOR: Duration = Duration::from_secs(300);
/// How long to leave a load balancer alone before it is looked at whether something is invalid.
const INVALID_PAUSE: Duration = Duration::from_secs(1);
/// How long to leave alone what is invalid. Mostly that is so until something else is wanted, but Octavia says the same of a
/// certificate that its store cannot give just now, or of a flavor that is not there yet, and nothing says when that ends.
const INVALID_FOR: Duration = Duration::from_secs(3600);
/// The same of what the provider cannot do: it may be upgraded, and one node of Octavia may say so of what the others can do.
const UNSUPPORTED_FOR: Duration = INVALID_FOR;
/// How long to leave a load balancer alone that somebody else changes.
const PENDING_PAUSE: Duration = Duration::from_secs(1);
/// How long to leave a provider alone that has failed.
const PROVIDER_PAUSE: Duration = Duration::from_secs(5);

impl Actor {
    /// Takes what came of a change. Returns what the answer has shown to be missing.
    pub fn answered(&mut self, change: &CloudChange, outcome: ChangeOutcome, now: Duration) -> Option<MissingAbility> {
        (self.memory.just_looked, self.memory.changed) = (None, true);
        MemberTurns::sent(&mut self.memory.member_turns, change);
        if let CloudChange::CreateSecret { hash, .. } = change {
            self.content_sent(hash);
        }
        let refused = matches!(outcome, ChangeOutcome::Refused(_));
        let failed = matches!(outcome, ChangeOutcome::Refused(ServiceRefusal::ProviderFailed));
        if (!refused || failed)
            && let Some(part) = self.repaired_by(change)
        {
            self.memory.repaired(part, self.budget, now);
        }
        if !matches!(outcome, ChangeOutcome::Accepted(_)) {
            self.suspect(change, refused);
        }
        match outcome {
            ChangeOutcome::Accepted(answer) => {
                self.accepted(change, &answer, now);
                self.note_newborn();
                self.note_successor(now);
                return self.shown_by(change, now);
            }
            ChangeOutcome::Refused(ServiceRefusal::NotFound(_)) if change.is_deletion() => {
                self.accepted(change, &Value::Null, now);
            }
            ChangeOutcome::Refused(refusal) => return self.refused(change, refusal, now),
            ChangeOutcome::Unknown(_) => {
                if let CloudChange::DeleteSecret { id } = change {
                    self.secret_doomed(id);
                }
                if refers_to_certificates(change) || matches!(change, CloudChange::CreateBalancer { .. }) {
                    self.may_refer_late(now);
                }
                self.memory.looked = false;
                self.memory.may_come_late(now);
                let part = self.part_of(change);
                self.part_failed(part, now, None);
                if let Some(root) = change.root() {
                    self.memory.lost(root, change.deletes(), &self.seen, now);
                }
            }
        }
        None
    }

    /// A provider that has refused the whole in one request, and has now made all of it in several, cannot do the former.
    /// Before that it may be one of the parts that it cannot do.
    fn shown_by(&self, change: &CloudChange, now: Duration) -> Option<MissingAbility> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        // A router is made in several requests also where one of its policies was refused.
        if wanted.header.routing.is_some() {
            return None;
        }
        let made = self.balancer()?.listeners.len() == wanted.header.listeners.len();
        let is_last = matches!(change, CloudChange::CreateListener { .. }) && made;
        let lacks = is_last && self.memory.lacks(CloudAbility::PopulatedCreate, now);
        (lacks && self.memory.unsupported.is_empty()).then(|| self.missing(CloudAbility::PopulatedCreate))
    }

    fn refused(&mut self, change: &CloudChange, refusal: ServiceRefusal, now: Duration) -> Option<MissingAbility> {
        if let CloudChange::FailoverBalancer { id } = change {
            return self.failover_refused(id.clone(), &refusal, now);
        }
        let part = match &refusal {
            ServiceRefusal::Quota(_)
            | ServiceRefusal::Exhausted(_)
            | ServiceRefusal::Unreachable(_)
            | ServiceRefusal::Forbidden(_)
            | ServiceRefusal::Invalid(_)
            | ServiceRefusal::Unsupported(_) => self.refused_part(change),
            _ => self.part_of(change),
        };
        let is_secret = matches!(change, CloudChange::CreateSecret { .. } | CloudChange::DeleteSecret { .. });
        let is_beside = change.request().service != ApiService::Octavia && !self.seen.balancers.is_empty();
        let refusal = refusal.with_words(|words| self.about_certificate(&part, words));
        let memory = &mut self.memory;
        match refusal {
            // A service that is busy stops nothing of the others: members and routes go on.
            ServiceRefusal::Busy(after) if is_secret || is_beside => self.part_failed(part, now, after),
            // It is no secret that has changed.
            ServiceRefusal::Invalid(words) | ServiceRefusal::Unsupported(words) if is_secret => {
                memory.block(part, Block::Certificate(words), now + BLOCKED_FOR);
            }
            ServiceRefusal::Pending => {
                // Somebody else's change, or ours whose answer was lost: its end is waited for, and what it did is looked at.
                memory.looked = false;
                memory.pause(now, PENDING_PAUSE);
            }
            ServiceRefusal::Duplicate
            | ServiceRefusal::InUse
            | ServiceRefusal::Changed(_)
            | ServiceRefusal::NotFound(_) => {
                if let (CloudChange::UpdatePort { id, .. }, ServiceRefusal::NotFound(_)) = (change, &refusal) {
                    self.seen.ports.retain(|one| one.id != *id);
                }
                memory.looked = false;
                self.part_failed(part, now, None);
            }
            ServiceRefusal::ProviderFailed => {
                memory.looked = false;
                self.part_failed(part, now, Some(PROVIDER_PAUSE));
            }
            ServiceRefusal::Busy(after) | ServiceRefusal::ProjectBusy(after) => memory.failed(now, after),
            ServiceRefusal::Quota(words) => self.lacks_quota(change, part, words, now + BLOCKED_FOR),
            // Others may find an address, in another subnet for instance.
            ServiceRefusal::Exhausted(words) => memory.block(part, Block::Quota(words), now + BLOCKED_FOR),
            // Somebody has to make a router, and nothing says when that is done.
            ServiceRefusal::Unreachable(words) => memory.block(part, Block::Unsupported(words), now + BLOCKED_FOR),
            ServiceRefusal::Forbidden(words) => memory.block(part, Block::Forbidden(words), now + BLOCKED_FOR),
            ServiceRefusal::Invalid(words) => return self.invalid(change, part, words, now),
            ServiceRefusal::Unsupported(words) => return self.unsupported_by_provider(change, part, words, now),
        }
        None
    }

    /// Takes note that a change need not be sent until then, because the quota that it needs is used up. The other parts go on.
    pub fn quota_is_used_up(&mut self, change: &CloudChange, words: String, until: Duration) {
        let part = self.refused_part(change);
        self.lacks_quota(change, part, words, until);
    }

    /// What is made with everything in it may lack room for one of its parts. By itself it has room, and so have the others.
    fn lacks_quota(&mut self, change: &CloudChange, part: PlanPart, words: String, until: Duration) {
        let is_for_a_part = match has_policies(change) {
            true => !names(&words, &["loadbalancer"]),
            // Also a single port serves without its monitor.
            false if names(&words, &["healthmonitor"]) => {
                let is_whole =
                    matches!(change, CloudChange::CreateBalancer { body } if body.get("listeners").is_some());
                is_whole && self.seen.balancers.is_empty()
            }
            false => self.may_be_a_port(change) && names(&words, &["listener", "pool", "member"]),
        };
        if is_for_a_part {
            self.memory.make_apart(until);
        } else {
            self.memory.block(part, Block::Quota(words), until);
        }
    }

    /// Returns the part that a change is about where it is refused for long: that does not stop the other members.
    fn refused_part(&self, change: &CloudChange) -> PlanPart {
        match self.part_of(change) {
            PlanPart::Port(Some(id)) if self.adds_members(change) => PlanPart::NewMembers(id.into()),
            PlanPart::Pool(id) if self.adds_members(change) => PlanPart::NewMembers(PoolId::Service(id)),
            part => part,
        }
    }

    /// Takes note of a failure. The other parts go on meanwhile; but nothing goes on without a load balancer, and a removal is one
    /// thing after another.
    fn part_failed(&mut self, part: PlanPart, now: Duration, at_least: Option<Duration>) {
        let is_alone = part == PlanPart::Balancer && self.seen.balancers.is_empty();
        if is_alone || self.desired.is_deleting() {
            self.memory.failed(now, at_least);
        } else {
            self.memory.part_failed(part, now, at_least);
        }
    }

    /// Where failover is not possible, the load balancer is repaired in another way.
    fn failover_refused(&mut self, id: String, refusal: &ServiceRefusal, now: Duration) -> Option<MissingAbility> {
        match refusal {
            ServiceRefusal::Forbidden(_) | ServiceRefusal::Unsupported(_) | ServiceRefusal::Invalid(_) => {
                self.learn(CloudAbility::Failover, now)
            }
            ServiceRefusal::ProviderFailed => {
                self.memory.failed_over = Some(id);
                self.memory.looked = false;
                None
            }
            _ => {
                self.memory.looked = false;
                self.memory.failed(now, None);
                None
            }
        }
    }

    fn invalid(
        &mut self,
        change: &CloudChange,
        part: PlanPart,
        words: String,
        now: Duration,
    ) -> Option<MissingAbility> {
        let port = match change {
            CloudChange::CreateBalancer { body } => body["vip_port_id"].as_str(),
            _ => None,
        };
        match port {
            // `allow_vip_port_id` is off.
            Some(port) if words.contains("vip_port_id is disallowed") => {
                if !self.asks_for_port(port) {
                    return self.learn(CloudAbility::OwnPort, now);
                }
                // Without that port it would be something else than what is wanted.
                self.memory.block(part, Block::Unsupported(words), now + INVALID_FOR);
                return None;
            }
            Some(port) if words.contains("already used by device") => self.port_is_used(port, now),
            _ => {}
        }
        if self.desired.is_deleting() || change.is_deletion() {
            // What is being removed is not wrong because of anybody's wish.
            self.memory.looked = false;
            self.part_failed(part, now, None);
            return None;
        }
        // One policy of a router is nothing to the others, so each is tried by itself.
        if has_policies(change) {
            drop(self.learn(CloudAbility::PopulatedCreate, now));
            return None;
        }
        // Something else may be there than was thought, a port that a load balancer has taken meanwhile for instance. What is
        // refused after another look too is wrong by itself.
        match self.memory.invalid.insert(part.clone(), Some(words.clone())) {
            None => {
                self.memory.looked = false;
                self.memory.pause(now, INVALID_PAUSE);
            }
            Some(Some(before)) if before == words && self.may_be_a_port(change) => {
                self.memory.invalid.remove(&part);
                self.memory.make_apart(now + INVALID_FOR);
            }
            Some(Some(before)) if before == words => {
                let time = if refers_to_certificates(change) { BLOCKED_FOR } else { INVALID_FOR };
                self.memory.block(part, Block::Invalid(words), now + time);
            }
            // Other words, or each look sees something else: the pause grows.
            Some(_) => {
                self.memory.looked = false;
                self.part_failed(part, now, None);
            }
        }
        None
    }

    /// Whether the wish names this port, so that no other one will do.
    fn asks_for_port(&self, id: &str) -> bool {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return false };
        wanted.header.vip.port.as_deref() == Some(id)
    }

    /// Whether what is refused may be one of several ports: then the load balancer is made without them, for nothing serves the
    /// others meanwhile, and each port is refused by itself. This says nothing about the provider.
    fn may_be_a_port(&self, change: &CloudChange) -> bool {
        let CloudChange::CreateBalancer { body } = change else { return false };
        let ports = body["listeners"].as_array().map_or(0, Vec::len);
        ports > 1 && self.seen.balancers.is_empty()
    }

    /// Octavia says that something uses our port. A load balancer of another writer of ours is seen
    /// after a drift interval; then the port is of no use.
    fn port_is_used(&mut self, port: &str, now: Duration) {
        let since = match &self.memory.used_port {
            Some((id, since, _)) if id == port => *since,
            _ => now,
        };
        self.memory.used_port = Some((port.to_owned(), since, since + self.drift_interval <= now));
        self.memory.forget_invalid();
    }

    fn unsupported_by_provider(
        &mut self,
        change: &CloudChange,
        part: PlanPart,
        words: String,
        now: Duration,
    ) -> Option<MissingAbility> {
        let populated = |body: &Value| body.get("listeners").is_some();
        let restricts = |body: &Value| body["allowed_cidrs"].as_array().is_some_and(|ranges| !ranges.is_empty());
        let has_groups = |body: &Value| body.get("vip_sg_ids").is_some();
        if words.contains("algorithm") && self.leaves_algorithms_open(change, &part) {
            // That it refused the whole in one request was for their sake.
            self.memory.unlearn(CloudAbility::PopulatedCreate);
            return self.learn(CloudAbility::Weights, now);
        }
        match change {
            CloudChange::CreateBalancer { body }
                if has_groups(body) && (!populated(body) || words.contains("sg_ids")) =>
            {
                return self.learn_groups_missing(now);
            }
            CloudChange::UpdateBalancer { fields, .. } if has_groups(fields) => return self.learn_groups_missing(now),
            CloudChange::CreateBalancer { body } if populated(body) => {
                // For this load balancer alone: it may be one of its parts that the provider cannot do.
                drop(self.learn(CloudAbility::PopulatedCreate, now));
            }
            CloudChange::SetMembers { .. } => return self.learn(CloudAbility::BatchMembers, now),
            // One that is to be replaced by that of another provider says nothing about that one.
            CloudChange::UpdateListener { id, .. } if self.has_former_provider(id) => {
                self.memory.block(part, Block::Unsupported(words), now + UNSUPPORTED_FOR);
            }
            // Where a listener is there it goes, for what is not restricted must not be open.
            CloudChange::CreateListener { body } | CloudChange::UpdateListener { fields: body, .. }
                if restricts(body) && words.contains("allowed_cidrs") =>
            {
                return self.learn(CloudAbility::ClientRanges, now);
            }
            CloudChange::CreateListener { .. } | CloudChange::CreatePool { .. } => match part {
                PlanPart::Port(Some(id)) => self.memory.refuse_port(id, words, now + UNSUPPORTED_FOR),
                part => self.memory.block(part, Block::Unsupported(words), now + UNSUPPORTED_FOR),
            },
            // Where others are it may be what this one does, or how its rules compare.
            CloudChange::CreatePolicy { .. } if !self.has_policies() => return self.learn(CloudAbility::L7, now),
            // What is not wanted cannot be wrong by itself.
            _ if change.is_deletion() || self.desired.is_deleting() => {
                self.memory.block(part, Block::Unsupported(words), now + BLOCKED_FOR);
            }
            _ => self.memory.block(part, Block::Unsupported(words), now + UNSUPPORTED_FOR),
        }
        None
    }

    /// Returns the part of what is wanted that a change is about.
    pub(crate) fn part_of(&self, change: &CloudChange) -> PlanPart {
        match change {
            CloudChange::UpdatePort { .. } => PlanPart::Groups,
            CloudChange::UpdateBalancer { fields, .. } if fields.get("vip_sg_ids").is_some() => PlanPart::Groups,
            // One that is given up loses the mark.
            CloudChange::TagFloatingIp { tags, .. } if !has_tag(tags, &self.mark.owner_tag()) => PlanPart::FloatingIp,
            CloudChange::TagPort { .. } | CloudChange::TagFloatingIp { .. } => PlanPart::Tags,
            CloudChange::DeletePort { id } | CloudChange::DeleteBalancer { id } | CloudChange::DeleteSecret { id } => {
                PlanPart::Removal(id.clone())
            }
            CloudChange::CreateSecret { hash, .. } => PlanPart::Certificate(*hash),
            CloudChange::CreatePort { .. } | CloudChange::CreateBalancer { .. } if self.has_serving_one() => {
                PlanPart::Successor
            }
            CloudChange::CreatePort { .. }
            | CloudChange::CreateBalancer { .. }
            | CloudChange::UpdateBalancer { .. }
            | CloudChange::FailoverBalancer { .. } => PlanPart::Balancer,
            CloudChange::CreateFloatingIp { .. }
            | CloudChange::UpdateFloatingIp { .. }
            | CloudChange::DeleteFloatingIp { .. } => PlanPart::FloatingIp,
            CloudChange::CreateListener { body } | CloudChange::CreatePool { body } => {
                let tags = texts(&body["tags"]);
                let service = self.service_in(&tags).map(PlanPart::Pool);
                service.unwrap_or_else(|| PlanPart::Port(self.port_with(|tag| tags.iter().any(|one| one == tag))))
            }
            CloudChange::CreatePolicy { body } => PlanPart::Policy(SeenPolicy::read(body).identity()),
            CloudChange::UpdatePolicy { id, .. } | CloudChange::CreateRule { policy: id, .. } => {
                PlanPart::Policy(self.policy(id).map(SeenPolicy::identity).unwrap_or_default())
            }
            CloudChange::DeletePolicy { id } => PlanPart::Removal(id.clone()),
            CloudChange::DeletePool { id } if self.service_pool(id).is_some() => PlanPart::Removal(id.clone()),
            _ => {
                use CloudChange::{CreateMonitor, DeleteMonitor, UpdateMonitor};
                let is_monitor = matches!(change, CreateMonitor { .. } | UpdateMonitor { .. } | DeleteMonitor { .. });
                if let Some(service) = change.about().and_then(|id| self.service_pool(id)) {
                    return if is_monitor {
                        PlanPart::Monitor(PoolId::Service(service))
                    } else {
                        PlanPart::Pool(service)
                    };
                }
                let port = change.about().and_then(|id| self.port_at(id).or_else(|| self.port_tagged(id)));
                match (change, port) {
                    (_, Some(id)) if is_monitor => PlanPart::Monitor(id.into()),
                    (CloudChange::UpdateListener { fields, .. }, Some(id)) if fields.get("allowed_cidrs").is_some() => {
                        PlanPart::Ranges(id)
                    }
                    (CloudChange::UpdateListener { fields, .. }, Some(id)) if fields["admin_state_up"] == false => {
                        PlanPart::Closing(id)
                    }
                    (CloudChange::DeleteListener { id } | CloudChange::DeletePool { id }, None) => {
                        PlanPart::Removal(id.clone())
                    }
                    (_, port) => PlanPart::Port(port),
                }
            }
        }
    }

    /// Whether there is a load balancer that serves until another one takes its place.
    fn has_serving_one(&self) -> bool {
        self.lineup().is_some_and(|lineup| lineup.current.provisioning != Provisioning::Error)
    }

    /// Returns the wanted port that the listener with this ID has, whatever its tags say.
    fn port_at(&self, id: &str) -> Option<ListenerId> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        let has = |wish: ListenerId| {
            let mut all = self.seen.balancers.iter().filter_map(|one| listener_at(one, wish));
            all.any(|listener| listener.id == id)
        };
        wanted.header.listeners.iter().map(|wish| wish.id).find(|wish| has(*wish))
    }

    /// Returns the wanted port that the tags of the listener or pool with this ID name.
    fn port_tagged(&self, id: &str) -> Option<ListenerId> {
        let mut parts = self.seen.balancers.iter().flat_map(|one| {
            let listeners = one.listeners.iter().map(|listener| (&listener.id, &listener.tags));
            listeners.chain(one.pools.iter().map(|pool| (&pool.id, &pool.tags)))
        });
        let (_, tags) = parts.find(|(one, _)| *one == id)?;
        self.port_with(|tag| tags.iter().any(|one| one == tag))
    }

    /// Returns the wanted Service that the pool with this ID is for.
    fn service_pool(&self, id: &str) -> Option<Text> {
        let mut pools = self.seen.balancers.iter().flat_map(|one| &one.pools);
        self.service_in(&pools.find(|pool| pool.id == id)?.tags)
    }

    /// Returns the wanted Service that a pool with these tags is for.
    fn service_in(&self, tags: &[String]) -> Option<Text> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        let routing = wanted.header.routing.as_deref()?;
        tags.iter().find_map(|tag| Some(routing.pool(service_of(tag)?)?.id.clone()))
    }

    /// Returns the wanted port that a part with these tags is for.
    fn port_with(&self, has_tag: impl Fn(&str) -> bool) -> Option<ListenerId> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return None };
        wanted.header.listeners.iter().map(|wish| wish.id).find(|id| has_tag(&port_tag(*id)))
    }
}

/// Whether Octavia has to read certificates for a change, which it may not be able to just now.
fn refers_to_certificates(change: &CloudChange) -> bool {
    let (CloudChange::CreateListener { body } | CloudChange::UpdateListener { fields: body, .. }) = change else {
        return false;
    };
    body.get("default_tls_container_ref").is_some() || body.get("sni_container_refs").is_some()
}

/// Whether a change makes a load balancer together with policies.
fn has_policies(change: &CloudChange) -> bool {
    let CloudChange::CreateBalancer { body } = change else { return false };
    let mut listeners = body["listeners"].as_array().into_iter().flatten();
    listeners.any(|one| one["l7policies"].as_array().is_some_and(|all| !all.is_empty()))
}

/// Whether the quota that is used up is that of one of these resources: `Quota has been met for resources: Load Balancer`.
fn names(words: &str, resources: &[&str]) -> bool {
    let named = words.rsplit_once("resources:").map_or(words, |(_, named)| named);
    let named: String = named.chars().filter(char::is_ascii_alphanumeric).collect();
    let named = named.to_ascii_lowercase();
    resources.iter().any(|resource| named.starts_with(resource))
}

fn has_tag(tags: &Value, tag: &str) -> bool {
    tags.as_array().is_some_and(|tags| tags.iter().any(|one| one == tag))
}
