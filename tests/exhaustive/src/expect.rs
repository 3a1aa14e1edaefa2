//! The content that the Gimbal cluster should have according to the sources and their policies, computed without the
//! code under test.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::keys;
use gimbal_model::{SourceKey, TargetKey};
use gimbal_session::RejectReason;
use gimbal_simulation::content::{self, Mirror};

use crate::rules::{Fault, Rule};
use crate::setup::{Offer, address};
use crate::world::World;
use crate::{Trouble, Writes};

/// A Service that wants a target.
struct Claim {
    agent: usize,
    key: SourceKey,
    offer: Offer,
}

fn wrong(what: String) -> Result<(), Fault> {
    Err(Fault { rule: Rule::Content, what })
}

impl Claim {
    fn endpoints(&self) -> BTreeMap<String, bool> {
        self.offer.hosts.iter().map(|(host, ready)| (format!("{} http=8080", address(*host)), *ready)).collect()
    }

    fn is_in(&self, world: &World, mirror: &Mirror) -> bool {
        let is = |map: &BTreeMap<String, String>, key: &str, value: &str| map.get(key).is_some_and(|v| v == value);
        is(&mirror.annotations, keys::SOURCE, &self.key.to_string())
            && is(&mirror.labels, keys::BACKEND, world.setup.backends[self.agent].name.as_str())
    }
}

impl World {
    fn claims(&self) -> BTreeMap<TargetKey, Vec<Claim>> {
        let mut claims: BTreeMap<TargetKey, Vec<Claim>> = BTreeMap::new();
        for (agent, backend) in self.setup.backends.iter().enumerate() {
            for (key, offer) in self.source(agent) {
                claims.entry(backend.target(&key)).or_default().push(Claim { agent, key, offer });
            }
        }
        claims
    }

    fn rejected(&self, claim: &Claim) -> Option<RejectReason> {
        self.agents[claim.agent].end.rejects().get(&claim.key).map(|reject| reject.reason)
    }

    /// Returns which writes for a claim are refused for good.
    fn refused(&self, claim: &Claim) -> Option<Writes> {
        match self.small.trouble {
            Some(Trouble::Refused { backend, writes, for_good: true }) if backend == claim.agent => Some(writes),
            Some(Trouble::Conflicts(backend)) if backend == claim.agent => Some(Writes::All),
            _ => None,
        }
    }

    /// Checks, while removals may be held, that no Service leads to endpoints of another one.
    pub(crate) fn check_owners(&self) -> Result<(), Fault> {
        let found = content::read(&self.cluster.server).map_err(|what| Fault { rule: Rule::Content, what })?;
        let offers = |key: &str| {
            let of = self.setup.backends.iter().flat_map(|backend| {
                let then = backend.script.iter().filter_map(|(key, offer)| Some((key, offer.as_ref()?)));
                backend.has.iter().map(|(key, offer)| (key, offer)).chain(then)
            });
            let of = of.filter(move |(other, _)| other.to_string() == key).map(|(_, offer)| offer);
            of.flat_map(|offer| offer.hosts.keys()).map(|host| address(*host).to_string()).collect::<BTreeSet<_>>()
        };
        for ((namespace, name), mirror) in &found {
            let own = offers(mirror.annotations.get(keys::SOURCE).map_or("", String::as_str));
            let strange =
                mirror.endpoints.keys().find(|endpoint| endpoint.split(' ').next().is_some_and(|a| !own.contains(a)));
            if let Some(strange) = strange {
                return wrong(format!("{namespace}/{name} leads to {strange}, which is another's"));
            }
        }
        Ok(())
    }

    pub(crate) fn check_content(&self) -> Result<(), Fault> {
        let found = content::read(&self.cluster.server).map_err(|what| Fault { rule: Rule::Content, what })?;
        let claims = self.claims();
        let at = |(namespace, name): &(String, String)| TargetKey::new(namespace.as_str(), name.as_str());
        let targets: BTreeSet<TargetKey> = found.keys().map(at).chain(claims.keys().cloned()).collect();
        for target in targets {
            let mirror = found.get(&(target.namespace.to_string(), target.name.to_string()));
            self.check_target(&target, mirror, claims.get(&target).map_or(&[], Vec::as_slice))?;
        }
        self.check_quotas(&found, &claims)
    }

    fn check_target(&self, target: &TargetKey, mirror: Option<&Mirror>, claims: &[Claim]) -> Result<(), Fault> {
        let holder = mirror.and_then(|mirror| claims.iter().find(|claim| claim.is_in(self, mirror)));
        for claim in claims {
            let exists = holder.is_some_and(|holder| holder.key == claim.key && holder.agent == claim.agent);
            let reported = self.rejected(claim);
            let why = match exists {
                _ if claim.offer.invalid => Some(RejectReason::Invalid),
                _ if self.refused(claim).is_some() => continue,
                true => reported.filter(|reported| *reported == RejectReason::Quota),
                false if holder.is_some() => {
                    reported.filter(|reported| *reported == RejectReason::Quota).or(Some(RejectReason::NameConflict))
                }
                false => reported.filter(|reported| *reported == RejectReason::Quota),
            };
            if reported != why && !self.waits_for_ever(claim.agent) {
                let there = if exists { "exists" } else { "is not there" };
                return wrong(format!(
                    "{} {there}; it is rejected as {reported:?}, and should be as {why:?}",
                    claim.key
                ));
            }
            if !exists && holder.is_none() && why.is_none() {
                return wrong(format!("{target} is not there"));
            }
        }
        let Some(mirror) = mirror else { return Ok(()) };
        let Some(holder) = holder else {
            let waits = |number: usize| {
                self.waits_for_ever(number)
                    && mirror.labels.get(keys::BACKEND).map(String::as_str)
                        == Some(self.setup.backends[number].name.as_str())
            };
            return match (0..self.agents.len()).any(waits) {
                true => Ok(()),
                false => {
                    wrong(format!("{target} is there, and no source has {:?}", mirror.annotations.get(keys::SOURCE)))
                }
            };
        };
        self.check_mirror(target, mirror, holder)
    }

    fn check_mirror(&self, target: &TargetKey, mirror: &Mirror, holder: &Claim) -> Result<(), Fault> {
        let should = holder.endpoints();
        if holder.offer.invalid || self.waits_for_ever(holder.agent) {
            return Ok(());
        }
        if self.refused(holder) == Some(Writes::All) {
            return Ok(());
        }
        if let Some(dead) = mirror.endpoints.keys().find(|endpoint| !should.contains_key(*endpoint)) {
            return wrong(format!("{dead} of {target} is there, and its source does not have it"));
        }
        let refused = self.refused(holder);
        if self.rejected(holder) == Some(RejectReason::Quota)
            || matches!(refused, Some(Writes::NewSlices | Writes::All))
        {
            return Ok(());
        }
        if mirror.endpoints != should {
            return wrong(format!("{target} has {:?}, and should have {should:?}", mirror.endpoints));
        }
        let label = mirror.labels.get("label");
        match label == Some(&holder.offer.label.to_string()) || refused.is_some() {
            true => Ok(()),
            false => wrong(format!("the label of {target} is {label:?}, and should be {}", holder.offer.label)),
        }
    }

    fn check_quotas(&self, found: &content::Content, claims: &BTreeMap<TargetKey, Vec<Claim>>) -> Result<(), Fault> {
        for (agent, backend) in self.setup.backends.iter().enumerate() {
            let ours =
                |mirror: &&Mirror| mirror.labels.get(keys::BACKEND).map(String::as_str) == Some(backend.name.as_str());
            let there: Vec<&Mirror> = found.values().filter(ours).collect();
            let endpoints = there.iter().map(|mirror| mirror.endpoints.len()).sum::<usize>() as u64;
            let services = there.len() as u64;
            let quota = &backend.policy.quota;
            if quota.services.is_some_and(|most| services > most)
                || quota.endpoints.is_some_and(|most| endpoints > most)
            {
                return wrong(format!(
                    "{services} Services and {endpoints} endpoints of {} are there, more than its quota",
                    backend.name
                ));
            }
            for (target, claims) in claims {
                for claim in claims
                    .iter()
                    .filter(|claim| claim.agent == agent && self.rejected(claim) == Some(RejectReason::Quota))
                {
                    let mirror = found.get(&(target.namespace.to_string(), target.name.to_string()));
                    let own =
                        mirror.filter(|mirror| claim.is_in(self, mirror)).map(|mirror| mirror.endpoints.len() as u64);
                    let more = claim.offer.hosts.len() as u64;
                    let fits = quota.services.is_none_or(|most| services + u64::from(own.is_none()) <= most)
                        && quota.endpoints.is_none_or(|most| endpoints - own.unwrap_or(0) + more <= most);
                    if fits {
                        return wrong(format!("{} is rejected for want of room, and there is room", claim.key));
                    }
                }
            }
        }
        Ok(())
    }
}
