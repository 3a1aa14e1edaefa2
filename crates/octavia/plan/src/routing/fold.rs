//! Routes as policies: adjacent ones of one host to one target are one policy, as far as its rules have room for them.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{
    HostMatch, ListenerId, LoadBalancerHeader, MOST_NAME, PathMatch, Route, RouteTarget, Routing, Text,
};

use crate::routing::taken::TakenRequests;
use crate::seen_policy::identity;

/// The kind of a rule about the host.
pub(crate) const HOST: &str = "HOST_NAME";
/// The most characters of a rule's value.
const LONGEST: usize = 255;

/// A wanted policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedPolicy {
    /// At least one; requests that match all of them are taken.
    pub(crate) rules: Vec<WantedRule>,
    pub(crate) to: RouteTarget,
    /// The names of its routes, each once.
    pub(crate) names: Vec<Text>,
    /// The requests that it takes.
    pub(crate) takes: TakenRequests,
}

/// A wanted rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WantedRule {
    pub(crate) kind: &'static str,
    pub(crate) compare: &'static str,
    pub(crate) value: String,
}

/// A route that no policy can express.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedRoute {
    /// The route's name.
    pub(crate) name: Text,
    /// Why, in words.
    pub(crate) words: String,
}

/// The routes of one listener as policies, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FoldedRoutes {
    pub(crate) policies: Vec<WantedPolicy>,
    pub(crate) refused: Vec<RefusedRoute>,
}

impl WantedPolicy {
    /// Returns the name, which says whose routes it has: nothing else does when they are not wanted any more.
    pub(crate) fn name(&self) -> String {
        LoadBalancerHeader::cut(self.names.join(", "))
    }

    /// Returns whose routes a policy of this name has; an empty name for others that it does not say.
    pub(crate) fn names_in(name: &str) -> Vec<Text> {
        let is_whole = name.len() < MOST_NAME;
        let all: Vec<Text> = name.split(", ").map(Text::from).collect();
        let are_names =
            all.iter().all(|one| one.split_once('/').is_some_and(|(of, one)| !of.is_empty() && !one.is_empty()));
        if is_whole && are_names { all } else { vec![Text::default()] }
    }

    pub(crate) fn is_redirect(&self) -> bool {
        matches!(self.to, RouteTarget::Redirect(_))
    }

    /// Returns what it compares the host with.
    pub(crate) fn host(&self) -> Option<&str> {
        self.rules.iter().find(|rule| rule.kind == HOST).map(|rule| rule.value.as_str())
    }

    /// Returns the number of changes that make it on a living listener: itself, its rules, and its place.
    pub(crate) fn changes(&self) -> usize {
        2 + self.rules.len()
    }

    /// Returns Octavia's word for what it does.
    pub(crate) fn action(&self) -> &'static str {
        if self.is_redirect() { "REDIRECT_PREFIX" } else { "REDIRECT_TO_POOL" }
    }

    /// Returns what tells it from the other policies of its listener.
    pub(crate) fn identity(&self) -> String {
        let mut rules: Vec<[&str; 3]> = self.rules.iter().map(|one| [one.kind, one.compare, &*one.value]).collect();
        rules.sort_unstable();
        identity(self.action(), &rules)
    }
}

/// Returns the policies of a listener. Routes that cannot be expressed are left out, each by itself.
pub(crate) fn fold(routing: &Routing, listener: ListenerId) -> FoldedRoutes {
    let mut folded = FoldedRoutes::default();
    let routes = routing.routes_of(listener);
    let is_redirect = |route: &&Route| matches!(route.to, RouteTarget::Redirect(_));
    // As they are tried: what sends a client elsewhere comes first. Of two equal ones the second is never reached.
    let (redirects, others): (Vec<&Route>, Vec<&Route>) = routes.iter().partition(is_redirect);
    let mut taken = BTreeSet::new();
    let mut open: Option<Group<'_>> = None;
    for route in redirects.into_iter().chain(others) {
        if !taken.insert((&route.host, &route.path)) {
            continue;
        }
        if let Err(words) = check(routing, route) {
            folded.refused.push(RefusedRoute { name: route.name.clone(), words });
            continue;
        }
        match open.as_mut().and_then(|group| group.with(route)) {
            Some(group) => open = Some(group),
            None => folded.policies.extend(open.replace(Group::of(route)).map(|group| group.policy())),
        }
    }
    folded.policies.extend(open.map(|group| group.policy()));
    folded
}

/// Adjacent routes of one host to one target.
#[derive(Clone)]
struct Group<'a> {
    first: &'a Route,
    names: Vec<Text>,
    exact: Vec<&'a str>,
    prefixes: Vec<&'a str>,
    /// Whether one of them takes every path.
    any: bool,
}

impl<'a> Group<'a> {
    fn of(route: &'a Route) -> Self {
        let empty = Self { first: route, names: Vec::new(), exact: Vec::new(), prefixes: Vec::new(), any: false };
        empty.added(route)
    }

    fn added(mut self, route: &'a Route) -> Self {
        match &route.path {
            PathMatch::Any => self.any = true,
            PathMatch::Exact(path) => self.exact.push(path),
            PathMatch::Prefix(path) => self.prefixes.push(path),
        }
        if !self.names.contains(&route.name) {
            self.names.push(route.name.clone());
        }
        self
    }

    /// Returns the group with one route more, if that goes into one policy.
    fn with(&self, route: &'a Route) -> Option<Self> {
        let same = self.first.host == route.host && self.first.to == route.to;
        let group = same.then(|| self.clone().added(route))?;
        let fits = group.path_rule().is_none_or(|rule| rule.value.len() <= LONGEST);
        fits.then_some(group)
    }

    fn path_rule(&self) -> Option<WantedRule> {
        let path = |compare, value| Some(WantedRule { kind: "PATH", compare, value });
        match (&self.exact[..], &self.prefixes[..]) {
            _ if self.any => None,
            ([one], []) => path("EQUAL_TO", (*one).to_owned()),
            (exact, prefixes) => path("REGEX", expression(exact, prefixes)),
        }
    }

    fn policy(&self) -> WantedPolicy {
        let rules: Vec<WantedRule> = host_rule(&self.first.host).into_iter().chain(self.path_rule()).collect();
        // A policy without rules takes nothing.
        let all = || WantedRule { kind: "PATH", compare: "STARTS_WITH", value: "/".to_owned() };
        let rules = if rules.is_empty() { vec![all()] } else { rules };
        WantedPolicy { rules, to: self.first.to.clone(), names: self.names.clone(), takes: self.taken() }
    }

    fn taken(&self) -> TakenRequests {
        let exact = self.exact.iter().map(|path| PathMatch::Exact((*path).into()));
        let prefixes = self.prefixes.iter().map(|path| PathMatch::Prefix((*path).into()));
        let paths = if self.any { vec![PathMatch::Any] } else { exact.chain(prefixes).collect() };
        TakenRequests { host: self.first.host.clone(), paths }
    }
}

/// Returns the rule that a host's requests match. Their header may name the port as well; letters' case does not matter to
/// Octavia's load balancers here.
fn host_rule(host: &HostMatch) -> Option<WantedRule> {
    let value = match host {
        HostMatch::Any => return None,
        HostMatch::Exact(host) => format!("^{}(:[0-9]+)?$", escaped(host)),
        HostMatch::Wildcard(parent) => format!(r"^[^.]+\.{}(:[0-9]+)?$", escaped(parent)),
    };
    Some(WantedRule { kind: HOST, compare: "REGEX", value })
}

/// Returns the expression of paths: `^/a(/|$)`, `^(/a|/b)$`, `^((/a|/b)$|(/c|/d)(/|$))`.
fn expression(exact: &[&str], prefixes: &[&str]) -> String {
    let any_of = |paths: &[&str]| match paths {
        [one] => escaped(one),
        several => format!("({})", several.iter().map(|one| escaped(one)).collect::<Vec<_>>().join("|")),
    };
    match (exact, prefixes) {
        (exact, []) => format!("^{}$", any_of(exact)),
        ([], prefixes) => format!("^{}(/|$)", any_of(prefixes)),
        (exact, prefixes) => format!("^({}$|{}(/|$))", any_of(exact), any_of(prefixes)),
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Says in words why a route cannot be expressed.
fn check(routing: &Routing, route: &Route) -> Result<(), String> {
    let (host, path) = (host_rule(&route.host), Group::of(route).path_rule());
    let rules = [("host", host), ("path", path)];
    for (what, rule) in rules.iter().filter_map(|(what, rule)| Some((what, rule.as_ref()?))) {
        let length = rule.value.chars().count();
        if length > LONGEST {
            return Err(format!("its {what} takes {length} characters of a rule, which has room for {LONGEST}"));
        }
    }
    let (host, path) = (host_text(&route.host), path_text(&route.path));
    for (what, text) in [("host", host), ("path", path)] {
        if let Some(letter) = text.chars().find(|letter| !is_passed_on(*letter)) {
            return Err(format!("its {what} has a character that no rule can hold: {letter:?}"));
        }
    }
    match &route.to {
        RouteTarget::Pool(id) if routing.pool(id).is_none() => Err(format!("it leads to {id}, which has no pool")),
        // What a percent sign begins there is replaced.
        RouteTarget::Redirect(to) if to.len() > LONGEST || to.chars().any(|one| one == '%' || !is_passed_on(one)) => {
            Err("it leads to an address that no policy can hold".to_owned())
        }
        _ => Ok(()),
    }
}

fn host_text(host: &HostMatch) -> &str {
    match host {
        HostMatch::Any => "",
        HostMatch::Exact(host) | HostMatch::Wildcard(host) => host,
    }
}

fn path_text(path: &PathMatch) -> &str {
    match path {
        PathMatch::Any => "",
        PathMatch::Exact(path) | PathMatch::Prefix(path) => path,
    }
}

/// Whether a character arrives as it is in the configuration of Octavia's load balancers. Its template writes some as HTML does,
/// and a quotation mark or `#` that it left alone would end the value there.
fn is_passed_on(letter: char) -> bool {
    letter.is_ascii_graphic() && !"\"'#&<>".contains(letter)
}
