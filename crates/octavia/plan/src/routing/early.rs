//! Redirects from HTTP to HTTPS, as long as nothing answers there.

use std::borrow::Cow;

use gimbal_kuryr_model::{Route, RouteTarget, Routing};

/// Returns routes whose redirects lead to where HTTPS would lead them: without a certificate there is no listener for HTTPS, and a
/// client that was sent there would get no answer.
pub(crate) fn without_redirects(routing: &Routing) -> Cow<'_, Routing> {
    let over_https = |route: &Route| {
        let is_sent_there = matches!(&route.to, RouteTarget::Redirect(to) if to.starts_with("https://"));
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
