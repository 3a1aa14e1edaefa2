//! Routers that would become too large.

use std::collections::BTreeSet;

use gimbal_kubernetes_objects::{BalancedSlice, Ingress, IngressTls};
use gimbal_kuryr_translate::{Finding, LEAN_ABOVE, MOST_BYTES, RouterTranslated, encoded_len};

use super::common::{Cluster, addresses, findings, one_rule, routes, service, slice};

/// Slices of up to 100 endpoints, as their controller makes them.
fn slices(service: &str, network: u8, endpoints: usize) -> Vec<BalancedSlice> {
    let pods: Vec<String> = (0..endpoints).map(|n| format!("10.{network}.{}.{}", n / 250, n % 250)).collect();
    let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
    let of = |(n, pods): (usize, &[&str])| slice(&format!("{service}-{n:03}"), service, &["http:80"], pods);
    pods.chunks(100).enumerate().map(of).collect()
}

fn with(first: usize, second: usize) -> Cluster {
    Cluster::with([one_rule("web", "a.example.com", &["/a* s1:80", "/b* s2:80"])])
        .and_services(["s1", "s2"].map(|name| service(name, &["http:80"])))
        .and_slices(slices("s1", 1, first))
        .and_slices(slices("s2", 2, second))
}

#[test]
fn details_go_before_endpoints_and_endpoints_of_the_largest_pool_first() {
    let small = with(1_000, 10).shared();
    assert!(encoded_len(&small.spec) < LEAN_ABOVE);
    assert!(small.spec.pools[0].endpoint_slices[0].endpoints[0].target_ref.is_some());

    let lean = with(5_000, 10).shared();
    assert_eq!(lean.findings, []);
    let endpoints = || lean.spec.pools.iter().flat_map(|pool| &pool.endpoint_slices).flat_map(|slice| &slice.endpoints);
    assert!(endpoints().all(|one| one.target_ref.is_none() && one.node_name.is_none()));
    assert_eq!(endpoints().count(), 5_010);

    let cluster = with(30_000, 10);
    let cut = cluster.shared();
    let len = encoded_len(&cut.spec);
    assert!(len <= MOST_BYTES && len > MOST_BYTES - 10_000, "{len}");
    let kept = |pool: &str| addresses(&cut.spec, pool).unwrap();
    assert_eq!(kept("team_s2").len(), 10, "the other Service keeps its own");
    let [Finding::TooLarge { kept: said, total }] = cut.findings.as_slice() else { panic!("{:?}", findings(&cut)) };
    assert_eq!((*said, *total), (kept("team_s1").len() + 10, 30_010));
    assert_eq!(kept("team_s1")[0], "10.1.0.0:8080");
    assert!(cut.spec.pools.iter().flat_map(|pool| &pool.endpoint_slices).all(|slice| !slice.endpoints.is_empty()));
    assert_eq!(cluster.shared(), cut, "the same cut each time");

    // Both large: both are cut alike.
    let cut = with(15_000, 15_000).shared();
    let (first, second) = (addresses(&cut.spec, "team_s1").unwrap(), addresses(&cut.spec, "team_s2").unwrap());
    assert!(first.len().abs_diff(second.len()) <= 1, "{} {}", first.len(), second.len());
    assert!(encoded_len(&cut.spec) <= MOST_BYTES);
}

#[test]
fn the_oldest_ingresses_have_room_for_their_routes() {
    let paths: Vec<String> = (0..50).map(|n| format!("/{}{n}* s1:80", "a".repeat(100))).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let many = |count: usize| (0..count).map(|n| one_rule(&format!("i{n:03}"), &format!("{n}.example.com"), &paths));
    let cluster = Cluster::with(many(100));
    let made = cluster.shared();
    let kept = made.spec.routes.len() / 50;
    assert!((10..100).contains(&kept), "{kept}");
    assert!(encoded_len(&made.spec) < MOST_BYTES / 2 + 100_000, "{}", encoded_len(&made.spec));
    let left_out: Vec<_> = made.findings.iter().filter(|one| one.reason() == "TooManyRoutes").collect();
    assert_eq!(left_out.len(), 100 - kept);
    assert_eq!(left_out[0].ingress().unwrap().to_string(), format!("team/i{kept:03}"));
    assert_eq!(left_out[0].condition(), "TooLarge");
    // A small one that is younger than one that does not fit is not kept either.
    let small = one_rule("small", "small.example.com", &["* s1:80"]);
    let more = Cluster::with(many(100).chain([small])).shared();
    assert!(!routes(&more.spec).iter().any(|route| route.starts_with("small.")));
    assert_eq!(more.spec, made.spec);
}

/// However large one of them is, and however old: the Ingresses of others have been served all the time.
#[test]
fn namespaces_share_the_room() {
    let paths: Vec<String> = (0..3_000).map(|n| format!("/{}{n}* s1:80", "a".repeat(100))).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let of = |namespace: &str, mut ingress: Ingress| {
        ingress.metadata.meta.namespace = namespace.into();
        ingress
    };
    let small = |name: &str| one_rule(name, &format!("{name}.example.com"), &["* s1:80"]);
    let huge = || of("other", one_rule("huge", "huge.example.com", &paths));
    let hosts = |made: &RouterTranslated| -> BTreeSet<String> {
        made.spec.routes.iter().map(|route| route.host.as_deref().unwrap().to_owned()).collect()
    };
    let left_out = |made: &RouterTranslated| -> Vec<String> {
        let all = made.findings.iter().filter(|one| one.reason() == "TooManyRoutes");
        all.map(|one| one.ingress().unwrap().to_string()).collect()
    };
    // Only what is younger in its own namespace goes with it.
    let all = [of("other", small("first")), huge(), of("other", small("second")), small("third")];
    let made = Cluster::with(all).shared();
    assert_eq!(hosts(&made), ["first.example.com".to_owned(), "third.example.com".to_owned()].into());
    assert_eq!(left_out(&made), ["other/huge", "other/second"]);

    // Many are as one.
    let many = |namespace: &'static str| {
        let paths = &paths[..50];
        let name = move |n| format!("{namespace}-{n:03}");
        (0..100).map(move |n| of(namespace, one_rule(&name(n), &format!("{}.example.com", name(n)), paths)))
    };
    let made = Cluster::with(many("other").chain([small("small")])).shared();
    assert!(hosts(&made).contains("small.example.com"), "{:?}", left_out(&made));
    let kept = |made: &RouterTranslated, namespace: &str| {
        hosts(made).iter().filter(|host| host.starts_with(namespace)).count()
    };
    let alone = kept(&made, "other");
    assert!((10..100).contains(&alone), "what a namespace leaves others have: {alone}");
    let made = Cluster::with(many("other").chain(many("older"))).shared();
    let (one, other) = (kept(&made, "other"), kept(&made, "older"));
    assert!(one.abs_diff(other) <= 1 && one + other >= alone, "{one} {other}");
    assert_eq!(left_out(&made)[0], format!("other/other-{one:03}"), "the oldest are kept");
}

/// An Ingress of a namespace with this many paths, which take some 400 bytes each.
fn sized(namespace: &str, name: &str, paths: usize) -> Ingress {
    let paths: Vec<String> = (0..paths).map(|n| format!("/{}{n}* s1:80", "a".repeat(100))).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut ingress = one_rule(name, &format!("{name}.{namespace}.example.com"), &paths);
    ingress.metadata.meta.namespace = namespace.into();
    ingress
}

/// The Ingresses that are left out for want of room.
fn left_out(ingresses: impl IntoIterator<Item = Ingress>) -> Vec<String> {
    let mut cluster = Cluster::with(ingresses);
    // Where they are, each route counts twice.
    cluster.facts.certificates = false;
    let made = cluster.shared();
    let all = made.findings.iter().filter(|one| one.reason() == "TooManyRoutes");
    all.map(|one| one.ingress().unwrap().to_string()).collect()
}

/// It is a little larger than an equal part, and so is each of the others.
#[test]
fn an_ingress_that_is_served_stays_when_other_namespaces_come() {
    let old = || sized("a", "web", 160);
    let others = |count: usize| (0..count).map(|n| sized(&format!("n{n:02}"), "web", 140));
    assert_eq!(left_out([old()].into_iter().chain(others(5))), [""; 0]);
    let left = left_out([old()].into_iter().chain(others(9)));
    assert!(!left.is_empty(), "there is no room for all");
    assert!(!left.contains(&"a/web".to_owned()), "{left:?}");
    let youngest: Vec<String> = (9 - left.len()..9).map(|n| format!("n{n:02}/web")).collect();
    assert_eq!(left, youngest);
}

/// Ten namespaces have the whole room, in Ingresses of 4,000 bytes: nine have an equal part, and one the rest.
#[test]
fn a_namespace_that_comes_takes_from_those_that_have_more_than_an_equal_part() {
    let of = |namespace: String, count: usize| (0..count).map(move |n| sized(&namespace, &format!("i{n:03}"), 10));
    let nine = || (0..9).flat_map(|n| of(format!("n{n:02}"), 8));
    let large = || of("large".into(), 60);
    let before = left_out(large().chain(nine()));
    assert!(before.iter().all(|left| left.starts_with("large/")), "{before:?}");
    let after = left_out(large().chain(nine()).chain(of("new".into(), 5)));
    assert!(after.iter().all(|left| left.starts_with("large/")), "{after:?}");
    let lost = after.len() - before.len();
    assert!((4..=5).contains(&lost), "as many as came: {lost}");
    assert_eq!(after[lost..], before, "its youngest");
}

/// One that somebody makes larger is as old as before.
#[test]
fn an_old_ingress_that_grows_takes_nothing_from_others() {
    let others = || (0..4).flat_map(|n| (0..2).map(move |i| sized(&format!("n{n:02}"), &format!("i{i}"), 140)));
    for paths in [10, 900, 2_000] {
        let left = left_out([sized("a", "web", paths)].into_iter().chain(others()));
        let expected: &[&str] = if paths == 10 { &[] } else { &["a/web"] };
        assert_eq!(left, expected, "{paths}");
    }
}

/// What is served over HTTP alone is not to have less room because of what cannot be served.
#[test]
fn tls_takes_no_room_where_no_certificates_are_served() {
    let paths: Vec<String> = (0..50).map(|n| format!("/{}{n}* s1:80", "a".repeat(100))).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let kept = |with_tls: bool, served: bool| {
        let many = (0..100).map(|n| {
            let mut ingress = one_rule(&format!("i{n:03}"), &format!("{n}.example.com"), &paths);
            ingress.spec.tls = vec![IngressTls::default(); usize::from(with_tls)];
            ingress
        });
        let mut cluster = Cluster::with(many);
        cluster.facts.certificates = served;
        cluster.shared().spec.routes.len()
    };
    assert_eq!(kept(true, false), kept(false, false));
    assert!(kept(true, true) < kept(false, true));
}
