//! Routes as policies.

use gimbal_kuryr_model::RouteTarget;
use proptest::prelude::*;

use super::evaluate::{any_routes, http, led_by, matches, requests, route, routing};
use crate::routing::fold::{FoldedRoutes, WantedPolicy, fold};

fn folded(routes: &[(&str, &str, &str)]) -> FoldedRoutes {
    fold(&routing(routes.iter().map(|(host, path, to)| route(host, path, to)).collect()), http())
}

/// One line for each policy.
fn lines(routes: &[(&str, &str, &str)]) -> Vec<String> {
    let line = |policy: &WantedPolicy| {
        let rules = policy.rules.iter().map(|rule| format!("{} {} {}", rule.kind, rule.compare, rule.value));
        let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = &policy.to;
        format!("{} -> {} {to}", rules.collect::<Vec<_>>().join(" and "), policy.action())
    };
    let folded = folded(routes);
    assert_eq!(folded.refused, []);
    folded.policies.iter().map(line).collect()
}

#[test]
fn hosts_and_paths_are_rules() {
    let cases: [(&str, &str, &str); 8] = [
        ("www.example.com", "", r"HOST_NAME REGEX ^www\.example\.com(:[0-9]+)?$"),
        ("*.example.com", "", r"HOST_NAME REGEX ^[^.]+\.example\.com(:[0-9]+)?$"),
        ("", "=/a.b", "PATH EQUAL_TO /a.b"),
        ("", "/a.b", r"PATH REGEX ^/a\.b(/|$)"),
        ("", "", "PATH STARTS_WITH /"),
        ("", r"/\.+*?()|[]{}^$", r"PATH REGEX ^/\\\.\+\*\?\(\)\|\[\]\{\}\^\$(/|$)"),
        ("", r"=/.+*?()|[]{}^$", r"PATH EQUAL_TO /.+*?()|[]{}^$"),
        ("a.test", "/a", r"HOST_NAME REGEX ^a\.test(:[0-9]+)?$ and PATH REGEX ^/a(/|$)"),
    ];
    for (host, path, rules) in cases {
        assert_eq!(lines(&[(host, path, "p1")]), [format!("{rules} -> REDIRECT_TO_POOL p1")]);
    }
    assert_eq!(lines(&[("", "/a", "https://b.test")]), ["PATH REGEX ^/a(/|$) -> REDIRECT_PREFIX https://b.test"]);
}

#[test]
fn adjacent_routes_of_one_host_to_one_pool_are_one_policy() {
    let host = r"HOST_NAME REGEX ^a\.test(:[0-9]+)?$";
    let one = |paths: &[&str]| lines(&paths.iter().map(|path| ("a.test", *path, "p1")).collect::<Vec<_>>());
    let paths: [(&[&str], &str); 5] = [
        (&["=/a", "=/b.c"], r" and PATH REGEX ^(/a|/b\.c)$"),
        (&["/a", "/b.c"], r" and PATH REGEX ^(/a|/b\.c)(/|$)"),
        (&["=/a", "/b", "=/c"], " and PATH REGEX ^((/a|/c)$|/b(/|$))"),
        (&["=/a", "/b", "/c"], " and PATH REGEX ^(/a$|(/b|/c)(/|$))"),
        (&["=/a", ""], ""),
    ];
    for (routes, path) in paths {
        assert_eq!(one(routes), [format!("{host}{path} -> REDIRECT_TO_POOL p1")]);
    }
    // Another pool or host is another policy, and what comes behind it too.
    let apart = [("a.test", "/a", "p1"), ("a.test", "/b", "p2"), ("a.test", "/c", "p1"), ("b.test", "/c", "p1")];
    assert_eq!(lines(&apart).len(), 4);
}

#[test]
fn a_policy_has_no_more_paths_than_its_rule_has_room_for() {
    let paths: Vec<String> = (0..60).map(|n| format!("/path-{n:02}")).collect();
    let routes: Vec<(&str, &str, &str)> = paths.iter().map(|path| ("a.test", path.as_str(), "p1")).collect();
    let folded = folded(&routes);
    let lengths: Vec<usize> = folded.policies.iter().map(|policy| policy.rules[1].value.len()).collect();
    assert_eq!(lengths, [250, 250, 61], "each path takes nine characters, and what is around them eight");
    let all: String = folded.policies.iter().map(|policy| policy.rules[1].value.clone()).collect();
    assert!(paths.iter().all(|path| all.contains(path.as_str())));
}

#[test]
fn what_cannot_be_a_rule_is_refused_alone() {
    let (long, longer) = ("/a".repeat(127), "/a".repeat(128));
    let exact = (format!("={long}"), format!("={longer}"));
    for (host, path) in [
        ("", &*exact.1),
        ("", &long),
        ("a.test", "/\"a"),
        ("a.test", "=/it's"),
        ("", "/a#b"),
        ("", "/a&b"),
        ("", "/a<b"),
        ("", "/a>b"),
        ("", "/a b"),
        ("", "/\u{7}"),
        ("", "/ä"),
        ("ä.test", ""),
    ] {
        let folded = folded(&[(host, path, "p1"), ("", "/kept", "p2")]);
        assert_eq!((folded.refused.len(), folded.policies.len()), (1, 1), "{host} {path}: {folded:?}");
        assert_eq!(&*folded.refused[0].name, "shop/web");
    }
    assert_eq!(folded(&[("", &exact.0, "p1")]).refused, [], "254 characters");
    for to in ["https://a.test/%[src]", "https://a.test\nx"] {
        assert_eq!(folded(&[("", "", to)]).refused.len(), 1, "{to}");
    }
    let mut routing = routing(vec![route("", "/a", "p1")]);
    routing.pools = Box::default();
    assert_eq!(fold(&routing, http()).refused[0].words, "it leads to p1, which has no pool");
}

#[test]
fn what_is_never_reached_is_no_policy() {
    assert_eq!(lines(&[("", "/a", "p1"), ("", "/a", "p2")]).len(), 1);
    // Clients are sent elsewhere before anything else.
    let all = lines(&[("", "/a", "p1"), ("", "", "https://a.test"), ("", "/b", "p1")]);
    assert!(all[0].ends_with("https://a.test") && all.len() == 2, "{all:?}");
}

/// What takes the same requests has one identity, wherever they go and whatever it is called.
#[test]
fn an_identity_is_what_a_policy_takes() {
    let of = |host, path, to| folded(&[(host, path, to)]).policies[0].identity();
    assert_eq!(of("a.test", "/a", "p1"), of("a.test", "/a", "p2"));
    let all = [("a.test", "/a", "p1"), ("b.test", "/a", "p1"), ("a.test", "=/a", "p1"), ("a.test", "", "p1")];
    let mut ids: Vec<String> = all.iter().map(|(host, path, to)| of(host, path, to)).collect();
    ids.push(of("a.test", "/a", "https://a.test"));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[test]
fn policies_lead_requests_as_the_routes_do() {
    gimbal_property::check(256, &any_routes(14), |routes| {
        let folded = fold(&routing(routes.clone()), http());
        prop_assert_eq!(&folded.refused, &[]);
        for request in requests() {
            let takes = |policy: &&WantedPolicy| {
                policy.rules.iter().all(|rule| matches(rule.kind, rule.compare, &rule.value, request))
            };
            let led = folded.policies.iter().find(takes).map(|policy| {
                let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = &policy.to;
                &**to
            });
            prop_assert_eq!(led, led_by(&routes, request), "{:?}", request);
        }
        Ok(())
    });
}
