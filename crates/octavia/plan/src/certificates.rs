//! Certificates of a router: each is a secret of the key manager, stored before a listener refers to it, and removed when none does any
//! more.
//!
//! Their contents come from the cluster, by request and one at a time: they are held here from the answer of the cluster until that of
//! the key manager.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_kuryr_model::{
    CertificateHash, CertificateWish, DesiredEntry, DesiredLoadBalancer, ListenerId, ListenerKind,
};

use crate::actor::Actor;
use crate::answered::BLOCKED_FOR;
use crate::change::CloudChange;
use crate::children::listener_at;
use crate::memory::PlanPart;
use crate::secret::{SecretPayload, SeenSecret};
use crate::seen::{HiddenSecrets, Seen, SeenListener};
use crate::step::{BalancerStep, Block, CloudLook, Wait};
use crate::target::WantedBalancer;

/// How long the creation of a load balancer waits for contents. With everything in it it is one request, and a listener that comes later
/// is one request for each of its policies.
const AWAITED: Duration = Duration::from_secs(5);
/// Contents that are asked for at a time: each is held until the key manager has it.
const MOST_AT_A_TIME: usize = 8;
/// How long a request may be on its way whose answer was lost.
const LATE: Duration = Duration::from_secs(60);
/// How long a content is left alone that the cluster does not have, or that cannot be used.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// What is known of the contents of certificates.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CertificateMemory {
    /// When the cluster was asked for those that it has not sent.
    asked: BTreeMap<CertificateHash, Duration>,
    held: BTreeMap<CertificateHash, SecretPayload>,
    /// Secrets that a request may still remove whose answer was lost: nothing is to refer to them again.
    doomed: BTreeSet<String>,
    /// Until then a request may arrive that refers to what is stored: its answer was lost.
    late: Option<Duration>,
    /// The last look could not see what is stored, and whether that was refused.
    hidden: Option<bool>,
}

/// The answer of a cluster that was asked for a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundContent {
    /// It, as it is stored.
    Usable(SecretPayload),
    /// It cannot be stored; why, in words that do not show it.
    Unusable(String),
    /// The cluster has it no longer.
    Nowhere,
}

impl Actor {
    /// Returns the certificates whose contents the cluster is to be asked for, or was; `None` if that is not known.
    #[must_use]
    pub fn wanted_contents(&self, now: Duration) -> Option<BTreeSet<CertificateHash>> {
        let memory = &self.memory;
        if !memory.looked || memory.certificates.hidden.is_some() {
            return None;
        }
        let is_needed = |wish: &&CertificateWish| {
            !memory.certificates.held.contains_key(&wish.hash)
                && memory.block_of(&PlanPart::Certificate(wish.hash), now).is_none()
        };
        let mut needed: Vec<CertificateHash> = self.unstored().filter(is_needed).map(|wish| wish.hash).collect();
        // One that does not come takes the place of no other.
        needed.sort_by_key(|hash| self.is_overdue(hash, now));
        Some(needed.into_iter().take(MOST_AT_A_TIME).collect())
    }

    /// Whether a content was asked for so long ago that it may never come.
    fn is_overdue(&self, hash: &CertificateHash, now: Duration) -> bool {
        self.memory.certificates.asked.get(hash).is_some_and(|asked| *asked + ASK_AGAIN <= now)
    }

    /// Takes note that the cluster is asked for a content.
    pub fn content_asked(&mut self, hash: CertificateHash, now: Duration) {
        self.memory.certificates.asked.entry(hash).or_insert(now);
    }

    /// Takes the content of a certificate.
    pub fn found_content(&mut self, hash: CertificateHash, found: FoundContent, now: Duration) {
        self.memory.certificates.asked.remove(&hash);
        let Some(wish) = self.unstored().find(|wish| wish.hash == hash) else { return };
        let words = match found {
            FoundContent::Usable(payload) => {
                self.memory.certificates.held.insert(hash, payload);
                return;
            }
            FoundContent::Unusable(words) => format!("certificate {}: {words}", wish.secret),
            FoundContent::Nowhere => format!("certificate {}: the cluster has it no longer", wish.secret),
        };
        self.memory.block(PlanPart::Certificate(hash), Block::Certificate(words), now + ASK_AGAIN);
    }

    /// Wipes the contents that are held, and forgets what was asked for: where the stream was lost, nothing is stored.
    pub fn forget_contents(&mut self) {
        let CertificateMemory { asked, held, .. } = &mut self.memory.certificates;
        asked.clear();
        held.clear();
    }

    /// Returns why something of an owner may be left in the key manager when nothing else is: it shows nothing, or does not let it go.
    #[must_use]
    pub fn secrets_left(&self, now: Duration) -> Option<String> {
        if self.memory.certificates.hidden.is_some() {
            return Some("the key manager does not show what it has".to_owned());
        }
        let mut left = self.seen.secrets.iter().map(|one| PlanPart::Removal(one.id.clone()));
        left.find_map(|part| self.memory.block_of(&part, now).map(ToString::to_string))
    }

    /// Returns what the owner has in the key manager.
    #[must_use]
    pub fn secrets(&self) -> &[SeenSecret] {
        &self.seen.secrets
    }

    /// Keeps what was seen before where a look could not see what is stored.
    pub(crate) fn find_hidden(&mut self, seen: &mut Seen, now: Duration) {
        let hidden = seen.secrets_hidden.take();
        self.memory.certificates.hidden = hidden.as_ref().map(|hidden| hidden.is_refused);
        let Some(HiddenSecrets { words, is_refused }) = hidden else {
            self.memory.unblock(&PlanPart::Secrets);
            self.memory.certificates.doomed.retain(|id| seen.secrets.iter().any(|one| one.id == *id));
            return;
        };
        seen.secrets = self.seen.secrets.clone();
        if self.wishes().next().is_some() {
            let words = format!("certificates cannot be stored, for it is not known which are: {words}");
            let time = if is_refused { BLOCKED_FOR } else { ASK_AGAIN };
            self.memory.block(PlanPart::Secrets, Block::Certificate(words), now + time);
        } else if self.desired.is_deleting() && !is_refused {
            self.memory.part_failed(PlanPart::Secrets, now, None);
        }
    }

    /// Whether the key manager is to be looked at again that has shown nothing.
    pub(crate) fn looks_for_hidden(&self, now: Duration) -> bool {
        self.memory.certificates.hidden.is_some()
            && self.wishes().next().is_some()
            && self.memory.block_of(&PlanPart::Secrets, now).is_none()
    }

    /// Wipes a content: it was sent, and whatever came of that, it is asked for again if it is needed again.
    pub(crate) fn content_sent(&mut self, hash: &CertificateHash) {
        self.memory.certificates.held.remove(hash);
    }

    /// A secret may be removed later than it is known.
    pub(crate) fn secret_doomed(&mut self, id: &str) {
        self.memory.certificates.doomed.insert(id.to_owned());
    }

    /// A listener may come to refer to what is stored later than that is known.
    pub(crate) fn may_refer_late(&mut self, now: Duration) {
        self.memory.certificates.late = Some(now + LATE);
    }

    /// Wipes what nothing needs any more.
    pub(crate) fn contents_wanted(&mut self) {
        let wanted: BTreeSet<CertificateHash> = self.unstored().map(|wish| wish.hash).collect();
        let CertificateMemory { asked, held, .. } = &mut self.memory.certificates;
        asked.retain(|hash, _| wanted.contains(hash));
        held.retain(|hash, _| wanted.contains(hash));
    }

    /// Returns the certificate that is wanted with this hash.
    pub(crate) fn certificate(&self, hash: CertificateHash) -> Option<&CertificateWish> {
        self.wishes().find(|wish| wish.hash == hash)
    }

    fn wishes(&self) -> impl Iterator<Item = &CertificateWish> {
        let wanted = match &self.desired {
            DesiredEntry::LoadBalancer(wanted) => Some(wanted),
            DesiredEntry::Deleting { .. } => None,
        };
        wanted.and_then(|wanted| wanted.header.routing.as_deref()).into_iter().flat_map(|one| &one.certificates)
    }

    pub(crate) fn unstored(&self) -> impl Iterator<Item = &CertificateWish> {
        self.wishes().filter(|wish| self.stored(wish).is_none())
    }

    /// Returns the secret that holds a certificate. Of twins the older one stays.
    fn stored(&self, wish: &CertificateWish) -> Option<&SeenSecret> {
        let all = self.seen.secrets.iter().filter(|one| one.hash() == Some(wish.hash) && self.is_in_place(one));
        all.min_by_key(|one| (&one.created_at, &one.id))
    }

    /// Returns the secret that is used for a certificate: it, or as long as that is not stored, what was stored for the same Secret
    /// before.
    fn usable(&self, wish: &CertificateWish) -> Option<&SeenSecret> {
        let is_former = |one: &&SeenSecret| {
            one.hash().is_some_and(|hash| self.mark.secret_name(&wish.secret, hash) == one.name)
                && self.is_in_place(one)
        };
        let former = || {
            let all = self.seen.secrets.iter().filter(is_former);
            all.max_by_key(|one| (self.is_referred_to(one), &one.created_at, &one.id))
        };
        self.stored(wish).or_else(former)
    }

    /// Whether listeners of the load balancer can refer to a secret: Octavia reads it with the token of its project.
    fn is_in_place(&self, secret: &SeenSecret) -> bool {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return false };
        let project = &*wanted.header.placement.project;
        let is_there = secret.project.is_empty() || project.is_empty() || secret.project == project;
        is_there && !self.memory.certificates.doomed.contains(&secret.id)
    }

    /// Whether a listener is to serve TLS, and nothing is stored that it could serve it with.
    pub(crate) fn lacks_certificate(&self, id: ListenerId) -> bool {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return false };
        terminates(wanted, id) && !self.can_refer(wanted)
    }

    /// Whether listeners have anything to refer to.
    fn can_refer(&self, wanted: &DesiredLoadBalancer) -> bool {
        let wishes = wanted.header.routing.as_deref().map(|one| &*one.certificates).unwrap_or_default();
        wishes.iter().any(|wish| self.usable(wish).is_some()) || !self.served_references().is_empty()
    }

    /// Returns what listeners are to refer to, the default first.
    pub(crate) fn references(&self, wanted: &DesiredLoadBalancer, now: Duration) -> Vec<String> {
        let mut references: Vec<String> = Vec::new();
        let wishes = wanted.header.routing.as_deref().map(|one| &*one.certificates).unwrap_or_default();
        for secret in wishes.iter().filter_map(|wish| self.usable(wish)) {
            if !references.contains(&secret.reference) {
                references.push(secret.reference.clone());
            }
        }
        let lacking = self.namespaces_without_certificates(wanted);
        // A listener for HTTPS has to have one. What is about to be stored may be for a host that another namespace had until now.
        let comes = wishes.iter().any(|wish| self.usable(wish).is_none() && self.is_about_to_be_stored(wish, now));
        let stays_whole = references.is_empty() || comes;
        let redirects = self.redirects_left(wanted, now);
        if lacking.is_empty() && redirects.is_empty() && !stays_whole {
            return references;
        }
        // Until all of a namespace are stored, while it is not known what is, or while clients are sent to HTTPS that are not to be, what
        // is served for it stays: the default one as well, if that is missing. Other namespaces wait for it only as long as it comes.
        let lacks_default = wishes.first().is_some_and(|wish| self.usable(wish).is_none());
        let stays = |reference: &str| {
            let secret = self.seen.secrets.iter().find(|one| one.reference == reference);
            let namespace = secret.and_then(SeenSecret::namespace);
            let is_needed = |namespace: &str| lacking.contains(namespace) || redirects.are_of(namespace);
            stays_whole || namespace.is_none_or(is_needed)
        };
        for (at, reference) in self.served_references().into_iter().enumerate() {
            if !references.contains(&reference) && stays(&reference) {
                let place = if at == 0 && lacks_default { 0 } else { references.len() };
                references.insert(place, reference);
            }
        }
        references
    }

    /// Whether nothing is in the way of a certificate that is not stored yet. What is refused, goes on failing or never comes must not
    /// keep in service what others have replaced.
    fn is_about_to_be_stored(&self, wish: &CertificateWish, now: Duration) -> bool {
        let goes_on = |part: &PlanPart| match self.memory.block_of(part, now) {
            None => true,
            Some(block) => *block == Block::Failing && !self.memory.fails_on(part),
        };
        goes_on(&PlanPart::Certificate(wish.hash)) && goes_on(&PlanPart::Secrets) && !self.is_overdue(&wish.hash, now)
    }

    /// Returns the namespaces of Secrets for which nothing is stored that could be used.
    pub(crate) fn namespaces_without_certificates<'w>(&self, wanted: &'w DesiredLoadBalancer) -> BTreeSet<&'w str> {
        let wishes = wanted.header.routing.as_deref().map(|one| &*one.certificates).unwrap_or_default();
        wishes.iter().filter(|wish| self.usable(wish).is_none()).map(|wish| namespace_of(&wish.secret)).collect()
    }

    /// What the TLS listener of the load balancer refers to, the default first, as far as it is the owner's or its owner is not known.
    fn served_references(&self) -> Vec<String> {
        let listeners = self.balancer().map(|one| one.listeners.as_slice()).unwrap_or_default();
        let is_hidden = self.memory.certificates.hidden.is_some();
        let known = |reference: &str| self.seen.secrets.iter().find(|one| one.reference == reference);
        let is_own = |reference: &str| known(reference).map_or(is_hidden, |one| self.is_in_place(one));
        let all = listeners.iter().filter(|one| self.mark.is_on(&one.tags)).flat_map(references_of);
        all.filter(|one| is_own(one)).map(str::to_owned).collect()
    }

    /// Whether clients that are sent to HTTPS get an answer: there is a listener, or it comes with everything else.
    pub(crate) fn serves_https(&self, wanted: &DesiredLoadBalancer) -> bool {
        let mut ids = wanted.header.listeners.iter().map(|wish| wish.id).filter(|id| terminates(wanted, *id));
        match self.balancer() {
            None => self.can_refer(wanted),
            Some(balancer) => ids.any(|id| listener_at(balancer, id).is_some()),
        }
    }

    fn is_referred_to(&self, secret: &SeenSecret) -> bool {
        let mut listeners = self.seen.balancers.iter().flat_map(|one| &one.listeners);
        listeners.any(|listener| references_of(listener).any(|one| one == secret.reference))
    }

    /// Returns the next step of storing certificates.
    pub(crate) fn store_step(&self, wanted: &DesiredLoadBalancer, now: Duration) -> Option<BalancerStep> {
        let memory = &self.memory.certificates;
        if memory.hidden.is_some() {
            return None;
        }
        let project = wanted.header.placement.project.to_string();
        self.unstored().find_map(|wish| {
            let payload = memory.held.get(&wish.hash)?.clone();
            let name = self.mark.secret_name(&wish.secret, wish.hash);
            let create = CloudChange::CreateSecret { project: project.clone(), name, hash: wish.hash, payload };
            self.unless_blocked(BalancerStep::Change(create), now)
        })
    }

    /// Returns until when a load balancer is not made, for contents of its certificates may come.
    pub(crate) fn contents_awaited(&self, now: Duration) -> Option<BalancerStep> {
        let asked = &self.memory.certificates.asked;
        let wanted = self.wanted_contents(now)?;
        let until = wanted.iter().map(|hash| asked.get(hash).map_or(now, |at| *at) + AWAITED).max()?;
        (until > now).then_some(BalancerStep::Wait(Wait::Until(until)))
    }

    /// Returns how long to wait for contents where everything else is done; they come before, if they come.
    pub(crate) fn contents_missing(&self, now: Duration) -> Option<BalancerStep> {
        self.unstored().next()?;
        Some(BalancerStep::Wait(Wait::Until(now + ASK_AGAIN)))
    }

    /// Removes a secret that is of no use, and that no listener refers to.
    pub(crate) fn surplus_secret(&self, target: &WantedBalancer<'_>, now: Duration) -> Option<BalancerStep> {
        let is_surplus = |one: &&SeenSecret| {
            !target.certificates.contains(&one.reference) && !self.is_referred_to(one) && self.may_remove(&one.id, now)
        };
        let surplus = self.seen.secrets.iter().find(is_surplus)?;
        if let Some(late) = self.memory.certificates.late.filter(|late| *late > now) {
            return Some(BalancerStep::Wait(Wait::Until(late)));
        }
        // Another writer may have let a listener refer to it a moment ago.
        if !self.memory.has_just_looked(now) {
            return Some(BalancerStep::Look(CloudLook::Owner));
        }
        Some(BalancerStep::Change(CloudChange::DeleteSecret { id: surplus.id.clone() }))
    }

    /// Returns the next step of removing what the key manager has of an owner that goes. What it does not let go is left: a search for
    /// what has no owner finds it again.
    pub(crate) fn last_secret(&self, now: Duration) -> Option<BalancerStep> {
        let step = |one: &SeenSecret| {
            let part = PlanPart::Removal(one.id.clone());
            match self.memory.block_of(&part, now) {
                None => Some(BalancerStep::Change(CloudChange::DeleteSecret { id: one.id.clone() })),
                Some(Block::Failing) => self.memory.left_alone(&part, now),
                Some(_) => None,
            }
        };
        self.seen.secrets.iter().find_map(step).or_else(|| {
            // What may be there is not forgotten for an outage.
            let again = || BalancerStep::Look(CloudLook::Owner);
            let fails = self.memory.certificates.hidden == Some(false);
            fails.then(|| self.memory.left_alone(&PlanPart::Secrets, now).unwrap_or_else(again))
        })
    }

    /// Whether a change is refused in a way that says something about a certificate.
    pub(crate) fn about_certificate(&self, part: &PlanPart, words: String) -> String {
        // The key manager's own words may repeat what they are about, and are left out.
        let words = if words.is_empty() { "the key manager refuses it".to_owned() } else { words };
        match part {
            PlanPart::Certificate(hash) => match self.certificate(*hash) {
                Some(wish) => format!("certificate {}: {words}", wish.secret),
                None => words,
            },
            _ => words,
        }
    }
}

impl WantedBalancer<'_> {
    /// Whether a listener lacks the certificate that it cannot be made without.
    pub(crate) fn lacks_certificate(&self, id: ListenerId) -> bool {
        terminates(self.wanted, id) && self.certificates.is_empty()
    }
}

/// Returns the namespace of what is named by namespace and name: a Secret, or an Ingress.
pub(crate) fn namespace_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(namespace, _)| namespace)
}

/// The references of a listener, the default one first.
pub(crate) fn references_of(listener: &SeenListener) -> impl Iterator<Item = &str> {
    let others = listener.row["sni_container_refs"].as_array().map(Vec::as_slice).unwrap_or_default();
    std::iter::once(&listener.row["default_tls_container_ref"]).chain(others).filter_map(|one| one.as_str())
}

/// Whether a listener of a router is to serve TLS.
pub(crate) fn terminates(wanted: &DesiredLoadBalancer, id: ListenerId) -> bool {
    let wish = wanted.header.listener(id).filter(|_| wanted.header.routing.is_some());
    wish.is_some_and(|wish| wish.kind == ListenerKind::TerminatedHttps)
}
