//! Which routes there are, and in which order.

use serde_json::{Value, json};

use super::common::{Cluster, backend, findings, ingress, one_rule, routes, rule};

/// The routes of one Ingress with these rules.
fn of(rules: Value) -> Vec<String> {
    routes(&Cluster::with([ingress("web", json!({"rules": rules}))]).shared().spec)
}

#[test]
fn hosts_then_paths_are_in_the_order_of_the_rules() {
    let rules = json!([
        rule("", &["/any* s1:80", "/any s1:80"]),
        rule("*.example.com", &["/w* s1:80"]),
        rule("*.long.example.com", &["/l* s1:80"]),
        rule("www.example.com", &["/a* s1:80", "/a/b* s2:80", "/a s3:80", "/ s4:80", "/a/b/c s5:80"]),
        rule("api.example.com", &["* s6:80"]),
    ]);
    assert_eq!(
        of(rules),
        [
            "api.example.com * -> team/s6:80",
            "www.example.com /a/b/c -> team/s5:80",
            "www.example.com /a -> team/s3:80",
            "www.example.com / -> team/s4:80",
            "www.example.com /a/b* -> team/s2:80",
            "www.example.com /a* -> team/s1:80",
            "www.example.com * -> 503",
            "*.long.example.com /l* -> team/s1:80",
            "*.long.example.com * -> 503",
            "*.example.com /w* -> team/s1:80",
            "*.example.com * -> 503",
            "* /any -> team/s1:80",
            "* /any* -> team/s1:80",
        ]
    );
}

#[test]
fn paths_are_read_by_their_type() {
    for (path, expected) in [
        (json!({"path": "/a", "pathType": "Prefix"}), "/a*"),
        (json!({"path": "/a/", "pathType": "Prefix"}), "/a*"),
        (json!({"path": "/", "pathType": "Prefix"}), "*"),
        (json!({"path": "", "pathType": "Prefix"}), "*"),
        (json!({"pathType": "Prefix"}), "*"),
        (json!({"path": "/a", "pathType": "Exact"}), "/a"),
        (json!({"path": "/a/", "pathType": "Exact"}), "/a/"),
        (json!({"path": "/", "pathType": "Exact"}), "/"),
        (json!({"path": "/a", "pathType": "ImplementationSpecific"}), "/a*"),
        (json!({"path": "/", "pathType": "ImplementationSpecific"}), "*"),
        (json!({"pathType": "ImplementationSpecific"}), "*"),
        (json!({"path": "/A-b/%20/~u", "pathType": "Prefix"}), "/A-b/%20/~u*"),
        (json!({"path": "/a"}), "/a*"),
        (json!({}), "*"),
    ] {
        let mut path = path;
        path["backend"] = backend("s1:80");
        let made = of(json!([{"host": "www.example.com", "http": {"paths": [path]}}]));
        assert_eq!(made, [format!("www.example.com {expected} -> team/s1:80")], "{path}");
    }
}

#[test]
fn what_octavia_cannot_compare_is_left_out_and_nothing_else() {
    let long = format!("/{}", "a".repeat(248));
    for (path, reason) in [
        ("a", Some("it does not begin with a slash")),
        ("/a\"b", Some("it has a character that Octavia cannot compare")),
        ("/a'b", Some("it has a character that Octavia cannot compare")),
        ("/a#b", Some("it has a character that Octavia cannot compare")),
        ("/ä", Some("it has a character that Octavia cannot compare")),
        ("/a\nb", Some("it has a character that Octavia cannot compare")),
        ("/a b", Some("it has a character that Octavia cannot compare")),
        ("/a&b", Some("it has a character that Octavia cannot compare")),
        ("/a<b>", Some("it has a character that Octavia cannot compare")),
        ("/a\\c(d)$", None),
        (&format!("{long}a"), Some("at most 255 bytes")),
        (&format!("/{}", ".".repeat(125)), Some("at most 255 bytes")),
        (&long, None),
    ] {
        let rules = json!([
            {"host": "www.example.com", "http": {"paths": [
                {"path": path, "pathType": "Prefix", "backend": backend("s1:80")},
                {"path": "/b", "pathType": "Prefix", "backend": backend("s2:80")},
            ]}},
        ]);
        let made = Cluster::with([ingress("web", json!({"rules": rules}))]).shared();
        assert_eq!(routes(&made.spec).len(), if reason.is_some() { 1 } else { 2 }, "{path}");
        assert!(routes(&made.spec).contains(&"www.example.com /b* -> team/s2:80".to_owned()));
        let said = findings(&made).into_iter().find(|said| said.starts_with("Unsupported/InvalidPath"));
        assert_eq!(said.is_some(), reason.is_some(), "{path} {said:?}");
        assert!(reason.is_none_or(|reason| said.unwrap().contains(reason)), "{path}");
    }
    let unknown = json!({"path": "/a", "pathType": "Regex", "backend": backend("s1:80")});
    let made = Cluster::with([ingress("web", json!({"rules": [{"http": {"paths": [unknown]}}]}))]).shared();
    let said = "Unsupported/InvalidPath: Ingress team/web: path \"/a\" of every host is left out: its pathType is not Exact, \
                Prefix or ImplementationSpecific";
    assert_eq!((routes(&made.spec), findings(&made)), (vec![], vec![said.to_owned()]));
}

fn label(length: usize) -> String {
    "a".repeat(length)
}

#[test]
fn hosts_are_read() {
    for (host, expected) in [
        ("www.example.com", Some("www.example.com")),
        ("WWW.Example.com", Some("www.example.com")),
        ("*.Example.com", Some("*.example.com")),
        ("localhost", Some("localhost")),
        ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
        ("bücher.example", None),
        ("*", None),
        ("*.", None),
        ("a.*.example.com", None),
        ("*a.example.com", None),
        ("*.*.example.com", None),
        ("www..example.com", None),
        ("www.example.com.", None),
        ("www.example.com:80", None),
        ("-a.example.com", None),
        ("a_b.example.com", None),
        ("10.0.0.1", None),
        (".*", None),
        ("a\"b", None),
        // With the expression around it, and its dots.
        (&format!("{}.{}.{}.{}", label(63), label(63), label(63), label(50)), None),
        (&format!("{}.{}.{}.{}", label(63), label(63), label(63), label(45)), Some("long")),
        (&format!("*.{}.{}.{}.{}", label(63), label(63), label(63), label(45)), None),
    ] {
        let long = host.to_owned();
        let expected = expected.map(|expected| if expected == "long" { &*long } else { expected });
        let made = Cluster::with([one_rule("web", host, &["* s1:80"])]).shared();
        let expected_routes: Vec<_> = expected.iter().map(|host| format!("{host} * -> team/s1:80")).collect();
        assert_eq!(routes(&made.spec), expected_routes, "{host}");
        let said = findings(&made).into_iter().find(|said| said.starts_with("Unsupported/InvalidHost"));
        assert_eq!(said.is_some(), expected.is_none(), "{host}");
    }
}

#[test]
fn of_two_that_are_equal_the_older_counts() {
    let equal = [
        one_rule("old", "www.example.com", &["/a* s1:80"]),
        one_rule("new", "WWW.example.com", &["/a/* s2:80", "/a s3:80", "/b* s2:80"]),
    ];
    let made = Cluster::with(equal.clone()).shared();
    assert_eq!(
        routes(&made.spec),
        ["www.example.com /a -> team/s3:80", "www.example.com /a* -> team/s1:80", "www.example.com /b* -> team/s2:80",]
    );
    let said = "Conflict/RouteTaken: Ingress team/new: path \"/a\" of host \"www.example.com\" is left out: Ingress team/old has \
                it, and is older";
    assert!(findings(&made).contains(&said.to_owned()), "{:?}", findings(&made));
    // Of one age, the first by namespace and name; and one without an age is younger.
    let mut cluster = Cluster::new();
    for mut object in equal.clone() {
        object.metadata.creation_timestamp = Some("2026-01-01T00:00:00Z".into());
        cluster.ingresses.apply_ingress(object);
    }
    assert!(routes(&cluster.shared().spec).contains(&"www.example.com /a* -> team/s2:80".to_owned()));
    let mut unknown = equal[1].clone();
    unknown.metadata.creation_timestamp = None;
    cluster.ingresses.apply_ingress(unknown);
    assert!(routes(&cluster.shared().spec).contains(&"www.example.com /a* -> team/s1:80".to_owned()));
    // When the older one goes, the younger has it.
    cluster.ingresses.delete_ingress("team", "old");
    assert!(routes(&cluster.shared().spec).contains(&"www.example.com /a* -> team/s2:80".to_owned()));
}

#[test]
fn what_one_ingress_says_twice_counts_once() {
    let made = Cluster::with([one_rule("web", "a.example.com", &["/a* s1:80", "/a/* s1:80", "/a* s2:80"])]).shared();
    assert_eq!(routes(&made.spec), ["a.example.com /a* -> team/s1:80"]);
    let said = "Conflict/RouteTaken: Ingress team/web: path \"/a\" of host \"a.example.com\" is left out: an earlier rule of this \
                Ingress has it";
    let found = findings(&made);
    assert_eq!(found.iter().filter(|found| *found == said).count(), 1, "{found:?}");
}

#[test]
fn a_host_with_rules_never_falls_to_those_of_a_wildcard() {
    let wildcard = || one_rule("wild", "*.example.com", &["* s9:80"]);
    // Nothing to fall to.
    let alone = one_rule("web", "www.example.com", &["/a* s1:80"]);
    assert_eq!(routes(&Cluster::with([alone.clone()]).shared().spec), ["www.example.com /a* -> team/s1:80"]);
    let other = one_rule("other", "*.example.org", &["* s9:80"]);
    assert_eq!(routes(&Cluster::with([alone.clone(), other]).shared().spec).len(), 2);
    // A wildcard stands for one label.
    let deeper = one_rule("web", "a.www.example.com", &["/a* s1:80"]);
    assert_eq!(routes(&Cluster::with([deeper, wildcard()]).shared().spec).len(), 2);
    let ends = |ingresses: Vec<gimbal_kubernetes_objects::Ingress>| {
        let routes = routes(&Cluster::with(ingresses).shared().spec);
        routes.into_iter().find(|route| route.starts_with("www.example.com * ")).unwrap_or_default()
    };
    // Its own Ingress' default backend, else the router's default, else 503.
    let own =
        ingress("own", json!({"rules": [rule("www.example.com", &["/a* s1:80"])], "defaultBackend": backend("s2:80")}));
    let default = ingress("default", json!({"defaultBackend": backend("s3:80")}));
    assert_eq!(ends(vec![alone.clone(), wildcard()]), "www.example.com * -> 503");
    assert_eq!(ends(vec![default.clone(), alone.clone(), wildcard()]), "www.example.com * -> team/s3:80");
    assert_eq!(ends(vec![default.clone(), own.clone(), wildcard()]), "www.example.com * -> team/s2:80");
    // Also where it is the default of no other host.
    assert_eq!(ends(vec![default.clone(), own.clone()]), "www.example.com * -> team/s2:80");
    assert_eq!(ends(vec![own.clone(), default.clone()]), "", "it is the router's default itself");
    // The oldest of those that have rules for the host.
    assert_eq!(ends(vec![default, alone.clone(), own, wildcard()]), "www.example.com * -> team/s2:80");
    // A rule without paths, or without one that can be served, makes the host its own all the same.
    let bare = ingress("bare", json!({"rules": [{"host": "www.example.com"}]}));
    assert_eq!(ends(vec![bare, wildcard()]), "www.example.com * -> 503");
    let unread = one_rule("unread", "www.example.com", &["/ä* s1:80"]);
    assert_eq!(ends(vec![unread, wildcard()]), "www.example.com * -> 503");
    // Nor to the rules for every host.
    let any = one_rule("any", "", &["/b* s8:80"]);
    assert_eq!(ends(vec![any, alone]), "www.example.com * -> 503");
}

#[test]
fn of_several_default_backends_the_oldest_counts() {
    let default = |name: &str, to: &str| ingress(name, json!({"defaultBackend": backend(to)}));
    let made = Cluster::with([default("old", "s1:80"), default("new", "s2:80")]).shared();
    assert_eq!(routes(&made.spec), ["default -> team_s1"]);
    let said = "Conflict/DefaultTaken: Ingress team/new: its default backend gets no requests but those for its own hosts: that of \
                Ingress team/old has the others";
    assert!(findings(&made).contains(&said.to_owned()), "{:?}", findings(&made));
    assert_eq!(made.spec.pools.len(), 1, "nothing leads to the other");
    // A rule for every host and every path is the default of the router, and comes first.
    let any = one_rule("any", "", &["/* s3:80", "/a* s4:80"]);
    let made = Cluster::with([default("old", "s1:80"), any]).shared();
    assert_eq!(routes(&made.spec), ["* /a* -> team/s4:80", "default -> team_s3"]);
    assert_eq!(
        findings(&made).iter().filter(|said| said.starts_with("Conflict/DefaultTaken: Ingress team/old")).count(),
        1
    );
    // Two of those are equal.
    let two = [one_rule("a", "", &["* s1:80"]), one_rule("b", "", &["/* s2:80"])];
    let made = Cluster::with(two).shared();
    let said = "Conflict/RouteTaken: Ingress team/b: every path of every host is left out: Ingress team/a has it, and is older";
    assert!(findings(&made).contains(&said.to_owned()), "{:?}", findings(&made));
    assert_eq!(routes(&made.spec), ["default -> team_s1"]);
}
