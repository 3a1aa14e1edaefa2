//! Redirects from HTTP to HTTPS: they come when HTTPS answers, and go before it stops.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredLoadBalancer, Route, RouteTarget, Routing};

use crate::actor::Actor;
use crate::certificates::{namespace_of, terminates};
use crate::children::listener_at;
use crate::routing::content::{content, wanted_content};
use crate::routing::difference::leads_there;
use crate::routing::fold::{WantedPolicy, fold};
use crate::seen_policy::SeenPolicy;

/// Which clients may be sent to HTTPS.
#[derive(Debug, Default)]
pub(crate) struct RedirectsForNow<'a> {
    /// Whether HTTPS is answered, or is as soon as there is anything.
    pub(crate) serves_https: bool,
    /// Namespaces that lack a certificate: the host of a redirect of theirs may be the one that it is for.
    pub(crate) lacking: BTreeSet<&'a str>,
    /// Where clients are sent already: what is served stays.
    pub(crate) sent: BTreeSet<&'a str>,
}

impl RedirectsForNow<'_> {
    fn may_come(&self, route: &Route, to: &str) -> bool {
        self.serves_https && (self.sent.contains(to) || !self.lacking.contains(namespace_of(&route.name)))
    }
}

/// Returns routes whose redirects lead to where HTTPS would lead them, unless they may come: without a certificate there is no listener
/// for HTTPS, or another's certificate, and a client that was sent there would get no answer.
pub(crate) fn without_redirects<'r>(routing: &'r Routing, now: &RedirectsForNow<'_>) -> Cow<'r, Routing> {
    let over_https = |route: &Route| {
        let is_sent_there =
            matches!(&route.to, RouteTarget::Redirect(to) if to.starts_with("https://") && !now.may_come(route, to));
        let same = |other: &&Route| {
            other.listener != route.listener
                && (&other.host, &other.path, &other.name) == (&route.host, &route.path, &route.name)
                && matches!(other.to, RouteTarget::Pool(_))
        };
        is_sent_there.then(|| routing.routes.iter().find(same).map(|other| other.to.clone())).flatten()
    };
    if !routing.routes.iter().any(|route| over_https(route).is_some()) {
        return Cow::Borrowed(routing);
    }
    let to = |route: &Route| Route { to: over_https(route).unwrap_or_else(|| route.to.clone()), ..route.clone() };
    Cow::Owned(Routing { routes: routing.routes.iter().map(to).collect(), ..routing.clone() })
}

impl Actor {
    pub(crate) fn redirects_for_now<'a>(&'a self, wanted: &'a DesiredLoadBalancer) -> RedirectsForNow<'a> {
        if wanted.header.routing.is_none() {
            return RedirectsForNow::default();
        }
        let listeners = self.balancer().map(|one| one.listeners.as_slice()).unwrap_or_default();
        let sends = listeners.iter().flat_map(|one| &one.policies).filter(|one| one.admin_state_up);
        RedirectsForNow {
            serves_https: self.serves_https(wanted),
            lacking: self.namespaces_without_certificates(wanted),
            sent: sends.filter_map(|one| one.prefix.as_deref()).collect(),
        }
    }

    /// Whether a policy that is to go sends clients to HTTPS. Until it has gone, nothing is taken away there: they would find another
    /// certificate, or no route.
    pub(crate) fn redirects_are_left(&self, wanted: &DesiredLoadBalancer) -> bool {
        let (Some(balancer), Some(routing)) = (self.balancer(), wanted.header.routing.as_deref()) else { return false };
        let is_left = |seen: &SeenPolicy, policies: &[WantedPolicy]| {
            let is_it = |one: &WantedPolicy| {
                leads_there(balancer, seen, one) && wanted_content(one) == content(&seen.action, &seen.rules)
            };
            !policies.iter().any(is_it)
        };
        let sends = |one: &&SeenPolicy| one.sends_to_https() && self.part_may_go(&one.id, &one.tags);
        let listeners = wanted.header.listeners.iter().map(|wish| wish.id).filter(|id| !terminates(wanted, *id));
        self.serves_https(wanted)
            && listeners.filter_map(|id| Some((id, listener_at(balancer, id)?))).any(|(id, seen)| {
                let mut sent = seen.policies.iter().filter(sends).peekable();
                sent.peek().is_some() && {
                    let policies = fold(routing, id).policies;
                    sent.any(|one| is_left(one, &policies))
                }
            })
    }
}
