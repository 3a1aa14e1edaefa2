//! Redirects to HTTPS that are to go. Whoever is sent there has to find the certificate and the route that were there, so these go
//! after the redirect; and nothing else waits for it, for it may be one that cannot be changed for long.

use std::time::Duration;

use gimbal_kuryr_model::{DesiredLoadBalancer, RouteTarget, Text};
use serde_json::json;

use crate::actor::Actor;
use crate::certificates::{namespace_of, terminates};
use crate::change::CloudChange;
use crate::children::listener_at;
use crate::mark::service_of;
use crate::memory::PlanPart;
use crate::routing::content::{content, wanted_content};
use crate::routing::difference::leads_there;
use crate::routing::fold::{WantedPolicy, fold};
use crate::routing::policies::{PolicyGoes, PolicyWay, host_of, overlap};
use crate::seen::{SeenBalancer, SeenListener};
use crate::seen_policy::SeenPolicy;
use crate::step::{BalancerStep, Block};
use crate::target::TERMINATED_HTTPS;

/// Redirects to HTTPS that are to go.
#[derive(Debug, Default)]
pub(crate) struct GoingRedirects<'a>(Vec<GoingRedirect<'a>>);

#[derive(Debug)]
struct GoingRedirect<'a> {
    seen: &'a SeenPolicy,
    /// The Ingresses in its name; an empty one: others that it does not name.
    names: Vec<Text>,
    /// Whether it goes soon.
    is_soon: bool,
}

impl<'a> GoingRedirect<'a> {
    fn new(seen: &'a SeenPolicy, is_soon: bool) -> Self {
        Self { seen, names: WantedPolicy::names_in(&seen.name), is_soon }
    }

    /// Whether clients that it sends to HTTPS may be answered by a policy there. A redirect comes only where its own Ingress has the
    /// same host and path over HTTPS.
    fn leads_to(&self, policy: &SeenPolicy) -> bool {
        let names = WantedPolicy::names_in(&policy.name);
        match names.iter().chain(&self.names).any(|name| name.is_empty()) {
            true => overlap(host_of(self.seen), host_of(policy)),
            false => names.iter().any(|name| self.names.contains(name)),
        }
    }
}

impl GoingRedirects<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns when a policy over HTTPS may go.
    pub(crate) fn policy_goes(&self, policy: &SeenPolicy) -> PolicyGoes {
        let led = self.0.iter().filter(|one| one.leads_to(policy));
        match led.map(|one| one.is_soon).max() {
            None => PolicyGoes::Now,
            Some(true) => PolicyGoes::Soon,
            Some(false) => PolicyGoes::NotYet,
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
            left.0.extend(gone.map(|seen| GoingRedirect::new(seen, self.goes_soon(seen, &policies, now))));
        }
        left
    }

    /// Whether a redirect goes soon for these policies: it is not refused, and does not serve until one of its host can be made.
    fn goes_soon(&self, seen: &SeenPolicy, policies: &[WantedPolicy], now: Duration) -> bool {
        let waits = |one: &WantedPolicy| {
            let part = PlanPart::Policy(one.identity());
            let way = match &one.to {
                RouteTarget::Pool(id) => Some(self.way_of_missing(&part, id, now)),
                RouteTarget::Redirect(_) => self.unless_part_blocked(&part, now),
            };
            matches!(way, Some(PolicyWay::NoRoom | PolicyWay::Later))
        };
        let of_host = |one: &&WantedPolicy| one.host() == host_of(seen);
        self.policy_goes(seen, now) != PolicyGoes::NotYet && !policies.iter().filter(of_host).any(waits)
    }

    /// Returns the redirects of a load balancer, for a listener for HTTPS that is not wanted any more: none where what takes their place
    /// lacks the room that is taken there.
    pub(crate) fn redirects_in<'a>(&self, balancer: &'a SeenBalancer, now: Duration) -> GoingRedirects<'a> {
        let lacks_room = |(part, block): (&PlanPart, &Block)| {
            matches!(block, Block::Quota(_)) && !matches!(part, PlanPart::Balancer | PlanPart::Successor)
        };
        if self.memory.blocked(now).any(lacks_room) {
            return GoingRedirects::default();
        }
        let is_ours = |one: &SeenPolicy| self.mark.is_on(&one.tags) && self.part_may_go(&one.id, &one.tags);
        let others = balancer.listeners.iter().filter(|one| one.protocol != TERMINATED_HTTPS);
        let sent = others.flat_map(|one| &one.policies).filter(|one| one.sends_to_https() && is_ours(one));
        GoingRedirects(sent.map(|one| GoingRedirect::new(one, true)).collect())
    }

    /// Takes from listeners for HTTPS that are not kept, and that redirects lead to, what these do not lead to: the default pool, then
    /// policies from the last one up, so that the requests of one are taken by no other.
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
        surplus.find_map(|one| without_default(one).or_else(|| without_policy(one)))
    }
}
