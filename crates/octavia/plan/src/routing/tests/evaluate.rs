//! What routes mean, and what Octavia's load balancers make of policies.

use std::cell::RefCell;
use std::collections::BTreeMap;

use gimbal_kuryr_model::{HostMatch, ListenerId, PathMatch, Route, RouteTarget, RoutedPool, Routing};
use gimbal_model::Protocol;
use proptest::prelude::*;
use regex::bytes::{Regex, RegexBuilder};

/// What a client sends: the header that names the host, and the path.
pub(crate) type Request = (&'static str, &'static str);

pub(crate) const HOSTS: [&str; 7] = [
    "a.example.com",
    "b.example.com:8080",
    "A.Example.com:80",
    "aXexampleXcom",
    "x.a.example.com",
    "example.com",
    "c.test",
];
pub(crate) const PATHS: [&str; 9] = ["/", "/a", "/a/", "/a/b", "/ab", "/a.b", "/aXb", "/a(b", "/a/b/c"];

pub(crate) fn http() -> ListenerId {
    ListenerId::new(Protocol::Tcp, 80)
}

pub(crate) fn requests() -> impl Iterator<Item = Request> {
    HOSTS.into_iter().flat_map(|host| PATHS.into_iter().map(move |path| (host, path)))
}

pub(crate) fn route(host: &str, path: &str, to: &str) -> Route {
    let host = match host.strip_prefix("*.") {
        _ if host.is_empty() => HostMatch::Any,
        Some(parent) => HostMatch::Wildcard(parent.into()),
        None => HostMatch::Exact(host.into()),
    };
    let path = match path.strip_prefix('=') {
        _ if path.is_empty() => PathMatch::Any,
        Some(exact) => PathMatch::Exact(exact.into()),
        None => PathMatch::Prefix(path.into()),
    };
    let to = match to.starts_with("https://") {
        true => RouteTarget::Redirect(to.into()),
        false => RouteTarget::Pool(to.into()),
    };
    Route { listener: http(), host, path, to, name: "shop/web".into() }
}

/// A routing to the pools that the routes name.
pub(crate) fn routing(routes: Vec<Route>) -> Routing {
    let pools = routes.iter().filter_map(|route| match &route.to {
        RouteTarget::Pool(id) => Some(RoutedPool { id: id.clone(), name: id.clone() }),
        RouteTarget::Redirect(_) => None,
    });
    let mut pools: Vec<RoutedPool> = pools.collect();
    pools.sort();
    pools.dedup();
    Routing { pools: pools.into(), default: None, routes: routes.into(), certificates: Box::default() }
}

/// Any routes: hosts, paths and targets that get in each other's way.
pub(crate) fn any_routes(most: usize) -> impl Strategy<Value = Vec<Route>> {
    let host = prop::sample::select(vec!["", "a.example.com", "b.example.com", "*.example.com", "*.a.example.com"]);
    let path = prop::sample::select(vec!["", "/a", "=/a", "/a/b", "=/a/b", "/a.b", "=/a(b", "/ab", "=/"]);
    let to = prop::sample::select(vec!["p1", "p1", "p1", "p2", "p2", "p3", "https://b.example.com"]);
    let one = (host, path, to).prop_map(|(host, path, to)| route(host, path, to));
    prop::collection::vec(one, 0..most)
}

/// Returns where a request goes by the meaning of the routes: those that send a client elsewhere come before the others.
pub(crate) fn led_by(routes: &[Route], request: Request) -> Option<&str> {
    let (redirects, others): (Vec<&Route>, Vec<&Route>) =
        routes.iter().partition(|route| matches!(route.to, RouteTarget::Redirect(_)));
    redirects.into_iter().chain(others).find(|route| takes(route, request)).map(|route| match &route.to {
        RouteTarget::Pool(to) | RouteTarget::Redirect(to) => &**to,
    })
}

fn takes(route: &Route, (host, path): Request) -> bool {
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let by_host = match &route.host {
        HostMatch::Any => true,
        HostMatch::Exact(wanted) => *host == **wanted,
        HostMatch::Wildcard(parent) => host.split_once('.').is_some_and(|(_, rest)| *rest == **parent),
    };
    let by_path = match &route.path {
        PathMatch::Any => true,
        PathMatch::Exact(wanted) => *path == **wanted,
        PathMatch::Prefix(wanted) => {
            path.strip_prefix(&**wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    };
    by_host && by_path
}

/// Whether a rule takes a request, as Octavia's template writes it for haproxy: the case of a host's letters does not matter.
pub(crate) fn matches(kind: &str, compare: &str, value: &str, (host, path): Request) -> bool {
    let (text, any_case) = match kind {
        "HOST_NAME" => (host, true),
        "PATH" => (path, false),
        other => panic!("{other}"),
    };
    match compare {
        "EQUAL_TO" => text == value,
        "STARTS_WITH" => text.starts_with(value),
        "REGEX" => expression(value, any_case).is_match(text.as_bytes()),
        other => panic!("{other}"),
    }
}

fn expression(value: &str, any_case: bool) -> Regex {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<(String, bool), Regex>> = const { RefCell::new(BTreeMap::new()) };
    }
    let new = || RegexBuilder::new(value).case_insensitive(any_case).unicode(false).build().unwrap();
    KNOWN.with_borrow_mut(|known| known.entry((value.to_owned(), any_case)).or_insert_with(new).clone())
}
