//! Which request goes where, as Kubernetes describes it, against the routes in their order.

use gimbal_kubernetes_objects::Ingress;
use gimbal_kuryr_crd::{KlrPathType, KlrRoute, KuryrL7RouterSpec};
use proptest::prelude::*;
use serde_json::json;

use super::common::{Cluster, backend, ingress, rule};

const HOSTS: [&str; 6] = ["", "a.example.com", "b.example.com", "*.example.com", "*.b.example.com", "c.b.example.com"];
const PATHS: [&str; 7] = ["*", "/*", "/a*", "/a/*", "/a/b*", "/a", "/ab*"];
const SERVICES: [&str; 3] = ["s0:80", "s1:80", "later:http"];
const ASKED_HOSTS: [&str; 7] = [
    "a.example.com",
    "b.example.com",
    "x.example.com",
    "x.y.example.com",
    "c.b.example.com",
    "d.b.example.com",
    "example.org",
];
const ASKED_PATHS: [&str; 8] = ["/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/abc", "/c"];

/// Host, path and Service of a rule, each by its place above.
type Rule = (usize, usize, usize);

fn an_ingress(name: usize, rules: &[Rule], default: Option<usize>) -> Ingress {
    let of = |(host, path, to): &Rule| rule(HOSTS[*host], &[&format!("{} {}", PATHS[*path], SERVICES[*to])]);
    let mut spec = json!({"rules": rules.iter().map(of).collect::<Vec<_>>()});
    if let Some(default) = default {
        spec["defaultBackend"] = backend(SERVICES[default]);
    }
    ingress(&format!("i{name}"), spec)
}

/// Who answers, by what Kubernetes says: the rules of the host decide, else those of its wildcard, else those for every host; of
/// them the exact path, else the longest prefix; else the default backend of the oldest Ingress with rules for that host, else of the
/// oldest. `None`: 503.
fn expected(ingresses: &[(Vec<Rule>, Option<usize>)], host: &str, path: &str) -> Option<usize> {
    let default = || {
        let all = ingresses.iter().flat_map(|(rules, _)| rules);
        let every = all.into_iter().find(|(host, path, _)| {
            HOSTS[*host].is_empty() && PATHS[*path].trim_end_matches('*').trim_matches('/').is_empty()
        });
        every.map(|(.., to)| *to).or_else(|| ingresses.iter().find_map(|(_, default)| *default))
    };
    let parent = host.split_once('.').map(|(_, rest)| format!("*.{rest}")).unwrap_or_default();
    let Some(of) = [host, &parent, ""].into_iter().find(|of| has_rules(ingresses, of)) else {
        return served(default());
    };
    let mut best: Option<((u8, usize), usize)> = None;
    for (rule_host, rule_path, to) in ingresses.iter().flat_map(|(rules, _)| rules) {
        let text = PATHS[*rule_path];
        let rank = match text.strip_suffix('*').map(|prefix| prefix.trim_end_matches('/')) {
            None => (text == path).then_some((2, text.len())),
            Some("") => Some((0, 0)),
            Some(prefix) => {
                let rest = path.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')).then_some((1, prefix.len()))
            }
        };
        // Of equal ones the first counts.
        if HOSTS[*rule_host] == of
            && let Some(rank) = rank
            && best.is_none_or(|(best, _)| best < rank)
        {
            best = Some((rank, *to));
        }
    }
    let own = || {
        let of_host = |(rules, _): &&(Vec<Rule>, Option<usize>)| rules.iter().any(|(host, ..)| HOSTS[*host] == of);
        ingresses.iter().filter(of_host).find_map(|(_, default)| *default).filter(|_| !of.is_empty())
    };
    served(best.map(|(_, to)| to).or_else(own).or_else(default))
}

fn has_rules(ingresses: &[(Vec<Rule>, Option<usize>)], host: &str) -> bool {
    ingresses.iter().flat_map(|(rules, _)| rules).any(|(of, ..)| HOSTS[*of] == host)
}

/// The Service that is not there is answered with 503.
fn served(to: Option<usize>) -> Option<usize> {
    to.filter(|to| *to < 2)
}

/// Who answers, by the routes in their order.
fn answered(spec: &KuryrL7RouterSpec, host: &str, path: &str) -> Option<usize> {
    let takes = |route: &&KlrRoute| {
        let of_host = match route.host.as_deref() {
            None => true,
            Some(name) => match name.strip_prefix("*.") {
                Some(base) => host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == base),
                None => name == host,
            },
        };
        let of_path = match (route.path.as_deref(), route.path_type) {
            (None, _) => true,
            (Some(exact), Some(KlrPathType::Exact)) => exact == path,
            (Some(prefix), _) => path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        of_host && of_path
    };
    let service = match spec.routes.iter().find(takes) {
        Some(route) => route.service.clone(),
        None => {
            let of_default = |pool: &&gimbal_kuryr_crd::KlrPool| Some(&pool.name) == spec.default_pool.as_ref();
            spec.pools.iter().find(of_default).map(|pool| pool.service.clone())
        }
    };
    service.and_then(|service| service.strip_prefix("team/s").and_then(|number| number.parse().ok()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1_024, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_answered_by_whom_kubernetes_says(
        ingresses in proptest::collection::vec(
            (
                proptest::collection::vec((0..HOSTS.len(), 0..PATHS.len(), 0..SERVICES.len()), 0..4),
                proptest::option::weighted(0.3, 0..SERVICES.len()),
            ),
            0..5,
        ),
    ) {
        let objects = ingresses.iter().enumerate().map(|(name, (rules, default))| an_ingress(name, rules, *default));
        let spec = Cluster::with(objects).shared().spec;
        for host in ASKED_HOSTS {
            for path in ASKED_PATHS {
                prop_assert_eq!(
                    answered(&spec, host, path), expected(&ingresses, host, path),
                    "{}{} of {:?}", host, path, super::common::routes(&spec)
                );
            }
        }
    }
}
