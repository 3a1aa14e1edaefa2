//! What the Ingresses ask for, how it is edited, and who answers then.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use gimbal_octavia_sim::Dice;
use gimbal_tests::ingress_path;
use serde_json::{Value, json};

/// Services, and the address of the one member of each.
pub const SERVICES: [(&str, &str); 4] =
    [("s1", "10.1.0.1"), ("s2", "10.1.0.2"), ("s3", "10.1.0.3"), ("s4", "10.1.0.4")];
/// The host of an Ingress that stays as it is.
pub const STABLE: &str = "stable.edits.example";
/// The host of an Ingress whose TLS and redirect are edited.
pub const SECURE: &str = "secure.edits.example";
/// The hosts of the others. Those above are hosts of the wildcard, too.
const HOSTS: [&str; 3] = ["a.edits.example", "b.edits.example", WILDCARD];
const WILDCARD: &str = "*.edits.example";
/// A host that no rule is for.
const OTHER: &str = "other.example";
const PATHS: [&str; 4] = ["/", "/x", "/x/y", "/z"];
const MOST_INGRESSES: usize = 3;
const MOST_ROUTES: usize = 4;
const EVERYWHERE: &[&str] = &["/", "/x", "/x/y/7", "/xx", "/z"];
const TWO: &[&str] = &["/", "/x"];
const NO_RULE: &str = "503";

/// Where requests go to.
pub struct Watched {
    pub is_https: bool,
    pub host: &'static str,
    pub paths: &'static [&'static str],
}

pub const WATCHED: [Watched; 8] = [
    Watched { is_https: false, host: HOSTS[0], paths: EVERYWHERE },
    Watched { is_https: false, host: HOSTS[1], paths: EVERYWHERE },
    Watched { is_https: false, host: "any.edits.example", paths: EVERYWHERE },
    Watched { is_https: false, host: SECURE, paths: TWO },
    Watched { is_https: true, host: SECURE, paths: TWO },
    Watched { is_https: false, host: STABLE, paths: TWO },
    Watched { is_https: true, host: STABLE, paths: TWO },
    Watched { is_https: false, host: OTHER, paths: TWO },
];

/// All Ingresses.
#[derive(Debug, Clone)]
pub struct State {
    /// The oldest first.
    ingresses: Vec<Edited>,
    secure: Secure,
}

#[derive(Debug, Clone)]
struct Edited {
    /// That of the edit that made it.
    number: u64,
    routes: Vec<EditedRoute>,
}

#[derive(Debug, Clone)]
struct EditedRoute {
    host: &'static str,
    path: &'static str,
    kind: &'static str,
    service: &'static str,
}

#[derive(Debug, Clone)]
struct Secure {
    has_tls: bool,
    is_redirected: bool,
    service: &'static str,
}

impl State {
    pub fn first() -> Self {
        let route = |host, service| EditedRoute { host, path: "/", kind: "Prefix", service };
        let routes = vec![route(HOSTS[0], "s2"), route(WILDCARD, "s3")];
        let secure = Secure { has_tls: true, is_redirected: false, service: "s4" };
        Self { ingresses: vec![Edited { number: 0, routes }], secure }
    }

    /// Returns what an edit does to it, in words, and what comes of it. Some request is answered in another way then.
    pub fn edited(&self, dice: &mut Dice, number: u64) -> (&'static str, Self) {
        loop {
            let mut after = self.clone();
            let what = after.edit(dice, number);
            if after.answers() != self.answers() {
                return (what, after);
            }
        }
    }

    fn edit(&mut self, dice: &mut Dice, number: u64) -> &'static str {
        match dice.below(12) {
            0 => self.secure_service(dice),
            1 => self.switch(|secure| secure.has_tls = !secure.has_tls, "TLS"),
            2 => self.switch(|secure| secure.is_redirected = !secure.is_redirected, "redirect"),
            3 => self
                .switch(|secure| *secure = Secure { has_tls: !secure.has_tls, is_redirected: true, ..*secure }, "both"),
            4 if !self.ingresses.is_empty() => {
                let at = below(dice, self.ingresses.len());
                self.ingresses.remove(at);
                "Ingress removed"
            }
            5 if self.ingresses.len() < MOST_INGRESSES => self.make(dice, number),
            _ if self.ingresses.is_empty() => self.make(dice, number),
            other => {
                let at = below(dice, self.ingresses.len());
                self.ingresses[at].edit(dice, other)
            }
        }
    }

    fn secure_service(&mut self, dice: &mut Dice) -> &'static str {
        self.secure.service = dice.pick(&SERVICES).0;
        "other Service behind TLS"
    }

    fn switch(&mut self, turn: impl Fn(&mut Secure), what: &'static str) -> &'static str {
        turn(&mut self.secure);
        what
    }

    fn make(&mut self, dice: &mut Dice, number: u64) -> &'static str {
        let routes = EditedRoute::several(dice);
        self.ingresses.push(Edited { number, routes });
        "Ingress made"
    }

    /// Returns who answers a request: the member's name with the path, else the status and where it leads to.
    pub fn answer(&self, watched: &Watched, path: &str) -> String {
        let service = match watched.host {
            STABLE => Some("s1"),
            SECURE if !watched.is_https && self.secure.has_tls && self.secure.is_redirected => {
                return format!("302 https://{SECURE}{path}");
            }
            SECURE => (!watched.is_https || self.secure.has_tls).then_some(self.secure.service),
            OTHER => None,
            host => self.routed(host, path),
        };
        let path = if path == "/" { "" } else { path };
        service.map_or_else(|| NO_RULE.to_owned(), |service| format!("{service}{path}"))
    }

    /// As Kubernetes defines it: rules of the host before those of a wildcard, exact paths before prefixes, longer ones before
    /// shorter ones, and those of older Ingresses before those of younger ones. A host that has rules falls to no wildcard.
    fn routed(&self, host: &str, path: &str) -> Option<&'static str> {
        let routes = || self.ingresses.iter().flat_map(|one| &one.routes);
        let has_own = routes().any(|route| route.host == host);
        let of_host = routes().filter(|route| route.host == if has_own { host } else { WILDCARD });
        let best =
            of_host.filter(|route| route.takes(path)).min_by_key(|route| (route.kind, Reverse(route.path.len())));
        best.map(|route| route.service)
    }

    fn answers(&self) -> Vec<String> {
        let of = |watched: &'static Watched| watched.paths.iter().map(move |path| self.answer(watched, path));
        WATCHED.iter().flat_map(of).collect()
    }

    /// Returns the Ingresses by name, each with everything that an edit may change.
    pub fn manifests(&self) -> BTreeMap<String, Value> {
        let is_redirected = self.secure.is_redirected.to_string();
        let secret = self.secure.has_tls.then_some("secure");
        let edited = self.ingresses.iter().map(|one| {
            let rules = one.routes.iter().map(|one| rule(one.host, one.path, one.kind, one.service)).collect();
            // Those that were made in one second are ordered by name.
            manifest(&format!("edited-{:04}", one.number), (rules, None), "false")
        });
        let stable = (vec![rule(STABLE, "/", "Prefix", "s1")], Some((STABLE, "stable")));
        let secure = (vec![rule(SECURE, "/", "Prefix", self.secure.service)], secret.map(|secret| (SECURE, secret)));
        let all = edited.chain([manifest("stable", stable, "false"), manifest("secure", secure, &is_redirected)]);
        all.map(|one| (one["metadata"]["name"].as_str().unwrap_or_default().to_owned(), one)).collect()
    }
}

impl Edited {
    fn edit(&mut self, dice: &mut Dice, number: u64) -> &'static str {
        let at = below(dice, self.routes.len());
        let route = &mut self.routes[at];
        match number {
            6 => {
                route.service = dice.pick(&SERVICES).0;
                "other Service"
            }
            7 => {
                route.host = dice.pick(&HOSTS);
                "other host"
            }
            8 => {
                (route.path, route.kind) = (dice.pick(&PATHS), dice.pick(&["Exact", "Prefix"]));
                "other path"
            }
            9 if self.routes.len() > 1 => {
                self.routes.remove(at);
                "path removed"
            }
            10 if self.routes.len() < MOST_ROUTES => {
                self.routes.insert(at, EditedRoute::any(dice));
                "path added"
            }
            _ => {
                self.routes = EditedRoute::several(dice);
                "all paths replaced"
            }
        }
    }
}

impl EditedRoute {
    fn any(dice: &mut Dice) -> Self {
        let (host, path) = (dice.pick(&HOSTS), dice.pick(&PATHS));
        Self { host, path, kind: dice.pick(&["Exact", "Prefix"]), service: dice.pick(&SERVICES).0 }
    }

    fn several(dice: &mut Dice) -> Vec<Self> {
        (0..=dice.below(3)).map(|_| Self::any(dice)).collect()
    }

    fn takes(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.trim_end_matches('/'));
        path == self.path || (self.kind == "Prefix" && rest.is_some_and(|rest| rest.starts_with('/')))
    }
}

fn below(dice: &mut Dice, len: usize) -> usize {
    let at = dice.below(len as u64);
    usize::try_from(at).unwrap_or_default()
}

fn rule(host: &str, path: &str, kind: &str, service: &str) -> Value {
    json!({"host": host, "http": {"paths": [ingress_path(path, kind, service)]}})
}

/// Rules, and the host and the Secret of TLS.
type Asked<'a> = (Vec<Value>, Option<(&'a str, &'a str)>);

fn manifest(name: &str, (rules, tls): Asked<'_>, is_redirected: &str) -> Value {
    let tls: Vec<Value> = tls.iter().map(|(host, secret)| json!({"hosts": [host], "secretName": secret})).collect();
    json!({
        "metadata": {"name": name, "annotations": {"kuryr.openstack.org/redirect-http": is_redirected}},
        "spec": {"ingressClassName": "kuryr", "rules": rules, "tls": tls},
    })
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_https { "https" } else { "http" }, self.host)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Edited { number, routes } in &self.ingresses {
            writeln!(f, "Ingress {number}:")?;
            for EditedRoute { host, path, kind, service } in routes {
                writeln!(f, "  {host}{path} {kind} {service}")?;
            }
        }
        write!(f, "{:?}", self.secure)
    }
}
