//! Redirects from HTTP to HTTPS: they come when HTTPS answers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredLoadBalancer, Route, RouteTarget, Routing};

use crate::actor::Actor;
use crate::certificates::namespace_of;

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
}
