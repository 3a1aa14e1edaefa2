//! Redirects to HTTPS that are to go. Whoever is sent there has to find the certificate and the route that were there, so these go
//! after the redirect; and nothing else waits for it, for it may be one that cannot be changed for long.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_kuryr_model::{DesiredEntry, DesiredLoadBalancer, RouteTarget, Text};
use serde_json::json;

use crate::actor::Actor;
use crate::certificates::{namespace_of, references_of, terminates};
use crate::change::CloudChange;
use crate::children::{is_at, listener_at};
use crate::mark::service_of;
use crate::memory::PlanPart;
use crate::routing::content::{content, rule_content, wanted_content};
use crate::routing::difference::leads_there;
use crate::routing::fold::{HOST, WantedPolicy, fold};
use crate::routing::policies::{PolicyGoes, PolicyWay, host_of};
use crate::secret::SeenSecret;
use crate::seen::{SeenBalancer, SeenListener};
use crate::seen_policy::SeenPolicy;
use crate::step::BalancerStep;
use crate::target::TERMINATED_HTTPS;

/// Redirects to HTTPS that are to go.
#[derive(Debug, Default)]
pub(crate) struct GoingRedirects<'a>(Vec<GoingRedirect<'a>>);

#[derive(Debug)]
struct GoingRedirect<'a> {
    seen: &'a SeenPolicy,
    /// The Ingresses that it belongs to; an empty one: others that nothing names.
    names: BTreeSet<Text>,
    goes: RedirectGoes,
}

/// When a redirect goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RedirectGoes {
    Soon,
    /// When there is room for what takes its place, which may be that of what it leads to: nothing of that waits for it.
    WithRoom,
    Later,
}

impl GoingRedirect<'_> {
    /// Whether clients that it sends to HTTPS may be answered by a policy there. A redirect comes only where its own Ingress has the
    /// same host and path over HTTPS; a policy that another Ingress has taken over may have either's name.
    fn leads_to(&self, policy: &SeenPolicy) -> bool {
        let names = WantedPolicy::names_in(&policy.name);
        let is_unknown = || names.iter().chain(&self.names).any(|name| name.is_empty());
        let is_shared = || names.iter().any(|name| self.names.contains(name));
        host_of(self.seen) == host_of(policy)
            && (is_unknown() || is_shared() || paths_of(self.seen) == paths_of(policy))
    }
}

/// Returns what a policy compares but for the host.
fn paths_of(seen: &SeenPolicy) -> BTreeSet<String> {
    seen.rules.iter().filter(|rule| rule.kind != HOST).map(rule_content).collect()
}

impl GoingRedirects<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns when a policy over HTTPS may go.
    pub(crate) fn policy_goes(&self, policy: &SeenPolicy) -> PolicyGoes {
        let led: Vec<RedirectGoes> = self.0.iter().filter(|one| one.leads_to(policy)).map(|one| one.goes).collect();
        match led {
            led if led.contains(&RedirectGoes::Soon) => PolicyGoes::Soon,
            led if led.contains(&RedirectGoes::Later) => PolicyGoes::NotYet,
            _ => PolicyGoes::Now,
        }
    }

    /// Whether one of them may be of a namespace.
    pub(crate) fn are_of(&self, namespace: &str) -> bool {
        self.0.iter().flat_map(|one| &one.names).any(|name| name.is_empty() || namespace_of(name) == namespace)
    }
}

impl Actor {
    /// Returns the redirects that are to go where HTTPS is wanted.
    pub(crate) fn redirects_left(&self, wanted: &DesiredLoadBalancer, now: Duration) -> GoingRedirects<'_> {
        let mut left = GoingRedirects::default();
        let (Some(balancer), Some(routing)) = (self.balancer(), wanted.header.routing.as_deref()) else { return left };
        if !self.serves_https(wanted) {
            return left;
        }
        let listeners = wanted.header.listeners.iter().map(|wish| wish.id).filter(|id| !terminates(wanted, *id));
        for (id, seen) in listeners.filter_map(|id| Some((id, listener_at(balancer, id)?))) {
            let sends = |one: &&SeenPolicy| one.sends_to_https() && self.part_may_go(&one.id, &one.tags);
            let mut sent = seen.policies.iter().filter(sends).peekable();
            if sent.peek().is_none() {
                continue;
            }
            let policies = fold(routing, id).policies;
            let is_wanted = |seen: &SeenPolicy, one: &WantedPolicy| {
                leads_there(balancer, seen, one) && wanted_content(one) == content(&seen.action, &seen.rules)
            };
            let gone = sent.filter(|seen| !policies.iter().any(|one| is_wanted(seen, one)));
            left.0.extend(gone.map(|seen| self.going(seen, self.redirect_goes(seen, &policies, now))));
        }
        left
    }

    fn going<'a>(&self, seen: &'a SeenPolicy, goes: RedirectGoes) -> GoingRedirect<'a> {
        GoingRedirect { seen, names: self.names_of(seen), goes }
    }

    /// Returns when a redirect goes for these policies: it may be refused, and serves until those of its host can be made.
    fn redirect_goes(&self, seen: &SeenPolicy, policies: &[WantedPolicy], now: Duration) -> RedirectGoes {
        let of_host = policies.iter().filter(|one| one.host() == host_of(seen));
        let goes: Vec<RedirectGoes> = of_host.map(|one| self.makes_way(one, now)).collect();
        match goes {
            goes if goes.contains(&RedirectGoes::Later) => RedirectGoes::Later,
            _ if self.policy_goes(seen, now) == PolicyGoes::NotYet => RedirectGoes::Later,
            goes if goes.contains(&RedirectGoes::WithRoom) => RedirectGoes::WithRoom,
            _ => RedirectGoes::Soon,
        }
    }

    /// Returns when a redirect goes for one policy. What goes over HTTPS makes room for a policy, and for no pool and no member: while
    /// these are what is lacking, clients would be sent to where nothing answers.
    fn makes_way(&self, policy: &WantedPolicy, now: Duration) -> RedirectGoes {
        let of_policy = self.unless_part_blocked(&PlanPart::Policy(policy.identity()), now);
        let of_pool = match &policy.to {
            RouteTarget::Pool(id) => self.way_of_pool(id, now),
            RouteTarget::Redirect(_) => PolicyWay::Soon,
        };
        match (of_policy, of_pool) {
            (Some(PolicyWay::Shut), _) | (_, PolicyWay::Shut) => RedirectGoes::Soon,
            (Some(PolicyWay::Later), _) | (_, PolicyWay::Later | PolicyWay::NoRoom) => RedirectGoes::Later,
            (Some(PolicyWay::NoRoom), _) => RedirectGoes::WithRoom,
            _ => RedirectGoes::Soon,
        }
    }

    /// Returns the redirects of a load balancer, for a listener for HTTPS that is not wanted any more, but for those whose successors
    /// lack the room that is taken there.
    pub(crate) fn redirects_in<'a>(&self, balancer: &'a SeenBalancer, now: Duration) -> GoingRedirects<'a> {
        let mut left = GoingRedirects::default();
        for listener in balancer.listeners.iter().filter(|one| one.protocol != TERMINATED_HTTPS) {
            let is_ours = |one: &SeenPolicy| self.mark.is_on(&one.tags) && self.part_may_go(&one.id, &one.tags);
            let mut sent = listener.policies.iter().filter(|one| one.sends_to_https() && is_ours(one)).peekable();
            if sent.peek().is_none() {
                continue;
            }
            let policies = self.policies_wanted_of(listener);
            let waits = |seen: &SeenPolicy| self.redirect_goes(seen, &policies, now) == RedirectGoes::WithRoom;
            left.0.extend(sent.filter(|one| !waits(one)).map(|one| self.going(one, RedirectGoes::Soon)));
        }
        left
    }

    /// Returns the policies that are wanted of a listener.
    fn policies_wanted_of(&self, listener: &SeenListener) -> Vec<WantedPolicy> {
        let DesiredEntry::LoadBalancer(wanted) = &self.desired else { return Vec::new() };
        let id = wanted.header.listeners.iter().map(|wish| wish.id).find(|id| is_at(listener, *id));
        let routing = wanted.header.routing.as_deref();
        id.zip(routing).map(|(id, routing)| fold(routing, id).policies).unwrap_or_default()
    }

    /// Takes from listeners for HTTPS that are not kept, and that redirects lead to, what these do not lead to: the default pool, then
    /// policies from the last one up, so that the requests of one are taken by no other, then certificates.
    pub(crate) fn surplus_over_https(
        &self,
        balancer: &SeenBalancer,
        is_kept: impl Fn(&SeenListener) -> bool,
        now: Duration,
    ) -> Option<BalancerStep> {
        let may_go = |one: &SeenListener| one.protocol == TERMINATED_HTTPS && self.part_may_go(&one.id, &one.tags);
        let mut surplus = balancer.listeners.iter().filter(|one| !is_kept(one) && may_go(one)).peekable();
        surplus.peek()?;
        let redirects = self.redirects_in(balancer, now);
        if redirects.is_empty() {
            return None;
        }
        let without_default = |listener: &SeenListener| {
            let pool = balancer.pools.iter().find(|pool| listener.default_pool.as_ref() == Some(&pool.id))?;
            let is_needed =
                pool.tags.iter().filter_map(|tag| service_of(tag)).any(|id| redirects.are_of(namespace_of(id)));
            let fields = json!({"default_pool_id": null});
            let change = CloudChange::UpdateListener { id: listener.id.clone(), fields };
            (!is_needed).then(|| self.unless_blocked(BalancerStep::Change(change), now)).flatten()
        };
        let without_policy = |listener: &SeenListener| {
            let may_go = |one: &&SeenPolicy| {
                redirects.policy_goes(one) == PolicyGoes::Now && self.policy_goes(one, now) == PolicyGoes::Now
            };
            let policy = listener.policies.iter().rev().find(may_go)?;
            Some(BalancerStep::Change(CloudChange::DeletePolicy { id: policy.id.clone() }))
        };
        let without_certificates = |listener: &SeenListener| {
            let change = self.fewer_certificates(listener, &redirects)?;
            self.unless_blocked(BalancerStep::Change(change), now)
        };
        surplus
            .find_map(|one| without_default(one).or_else(|| without_policy(one)).or_else(|| without_certificates(one)))
    }

    /// Returns the change that leaves a listener with the certificates that clients need who are sent there, and with those that nothing
    /// is known of.
    fn fewer_certificates(&self, listener: &SeenListener, redirects: &GoingRedirects<'_>) -> Option<CloudChange> {
        let is_needed = |reference: &&str| {
            let secret = self.seen.secrets.iter().find(|one| one.reference == *reference);
            secret.and_then(SeenSecret::namespace).is_none_or(|namespace| redirects.are_of(namespace))
        };
        let (needed, others): (Vec<&str>, Vec<&str>) = references_of(listener).partition(is_needed);
        // It has to have one.
        let (default, rest) = needed.split_first().filter(|_| !others.is_empty())?;
        let fields = json!({"default_tls_container_ref": default, "sni_container_refs": rest});
        Some(CloudChange::UpdateListener { id: listener.id.clone(), fields })
    }
}
