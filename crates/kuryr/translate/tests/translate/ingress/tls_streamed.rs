//! What is streamed of certificates.

use gimbal_kuryr_crd::{KlrRoute, KlrTls, KuryrL7Router, KuryrL7RouterStatus, StatusListener, StatusSecret};
use gimbal_kuryr_model::{DesiredKind, ListenerKind, RouteTarget};
use gimbal_kuryr_translate::{Streamed, desired_router};
use gimbal_model::Protocol;
use serde_json::json;

use gimbal_kubernetes_objects::Ingress;

use super::common::{Cluster, backend, ingress, rule, secret};
use super::tls::{asking, cluster, of_namespace, with_tls};

fn object(cluster: &Cluster) -> KuryrL7Router {
    let mut object = KuryrL7Router { spec: cluster.shared().spec, ..KuryrL7Router::default() };
    let meta = &mut object.metadata.meta;
    (meta.namespace, meta.name, meta.uid) = ("gimbal-system".into(), "kuryr-l7-router".into(), "router-uid".into());
    meta.labels.insert("kuryr.openstack.org/l7-router".into(), "shared".into());
    object
}

fn streamed(cluster: &Cluster) -> Streamed {
    desired_router(&object(cluster), &cluster.facts, None).unwrap()
}

/// Everything that matters here, in lines.
fn lines(streamed: &Streamed) -> Vec<String> {
    let header = &streamed.wanted.header;
    assert_eq!(streamed.wanted.contradiction(DesiredKind::L7Router), None);
    let routing = header.routing.as_ref().unwrap();
    let mut lines: Vec<String> = header
        .listeners
        .iter()
        .map(|one| {
            assert_eq!(one.id.protocol, Protocol::Tcp);
            let kind = match one.kind {
                ListenerKind::Plain => "plain",
                ListenerKind::Http => "HTTP",
                ListenerKind::TerminatedHttps => "HTTPS",
            };
            format!("listener {} {kind}", one.id.port)
        })
        .collect();
    lines.extend(routing.routes.iter().map(|route| {
        let to = match &route.to {
            RouteTarget::Pool(pool) => format!("pool {pool}"),
            RouteTarget::Redirect(to) => format!("redirect {to}"),
        };
        format!("{} {:?} -> {to} ({})", route.listener.port, route.host, route.name)
    }));
    lines.extend(routing.default.iter().map(|pool| format!("default {pool}")));
    lines.extend(
        routing.certificates.iter().map(|one| format!("certificate {} {}", one.secret, one.hash.as_bytes()[0])),
    );
    lines
}

fn shop() -> Cluster {
    cluster(
        [
            asking(with_tls("shop", &["shop.example.com"], &["x: shop.example.com"]), "true"),
            with_tls("plain", &["plain.example.com"], &[]),
            with_tls("wild", &["*.example.com"], &["y: *.example.com", "copy: *.example.com"]),
        ],
        [
            secret("team/x", 1, &["shop.example.com"]),
            secret("team/y", 2, &["*.example.com"]),
            secret("team/copy", 2, &["*.example.com"]),
        ],
    )
}

#[test]
fn https_has_the_routes_that_certificates_are_for() {
    let expected = [
        "listener 80 HTTP",
        "listener 443 HTTPS",
        "80 Exact(\"plain.example.com\") -> pool team/s1/80 (team/plain)",
        "80 Exact(\"shop.example.com\") -> redirect https://shop.example.com (team/shop)",
        "80 Wildcard(\"example.com\") -> pool team/s1/80 (team/wild)",
        // Otherwise the wildcard would take its requests.
        "443 Exact(\"plain.example.com\") -> pool gimbal-system/_/503 (team/plain)",
        "443 Exact(\"shop.example.com\") -> pool team/s1/80 (team/shop)",
        "443 Wildcard(\"example.com\") -> pool team/s1/80 (team/wild)",
        "certificate team/x 1",
        "certificate team/y 2",
    ];
    assert_eq!(lines(&streamed(&shop())), expected);
}

/// What has no certificate has no answer over HTTPS, and does not get that of another default either.
#[test]
fn what_has_no_certificate_falls_to_no_other_route_over_https() {
    let one = |name: &str, host: &str, path: &str, tls: bool| {
        let mut spec = json!({"rules": [rule(host, &[&format!("{path} s1:80")])]});
        if tls {
            spec["tls"] = json!([{"hosts": [host], "secretName": "x"}]);
        }
        ingress(name, spec)
    };
    let over_https = |cluster: &Cluster| -> Vec<String> {
        lines(&streamed(cluster)).into_iter().filter(|line| line.starts_with("443 ")).collect()
    };
    let of = |ingresses: &[&Ingress]| {
        cluster(ingresses.iter().map(|one| (*one).clone()), [secret("team/x", 1, &["a.example.com"])])
    };
    // Of one host: the longer path has none.
    let whole = one("whole", "a.example.com", "*", true);
    let admin = one("admin", "a.example.com", "/admin*", false);
    let other = one("other", "b.example.com", "*", false);
    let closed = "443 Exact(\"a.example.com\") -> pool gimbal-system/_/503 (team/admin)";
    let served = "443 Exact(\"a.example.com\") -> pool team/s1/80 (team/whole)";
    assert_eq!(over_https(&of(&[&whole, &admin, &other])), [closed, served]);
    // A default would take what no route takes.
    let default = ingress("default", json!({"defaultBackend": backend("s1:80")}));
    let closed_too = "443 Exact(\"b.example.com\") -> pool gimbal-system/_/503 (team/other)";
    let lines = over_https(&of(&[&whole, &admin, &other, &default]));
    assert!(lines.iter().any(|line| line == closed_too) && lines.iter().any(|line| line == closed), "{lines:?}");
}

/// A redirect to where nothing answers would be worse than none.
#[test]
fn without_certificates_everything_is_served_over_http() {
    let mut shop = shop();
    shop.facts.certificates = false;
    let expected = [
        "listener 80 HTTP",
        "80 Exact(\"plain.example.com\") -> pool team/s1/80 (team/plain)",
        "80 Exact(\"shop.example.com\") -> pool team/s1/80 (team/shop)",
        "80 Wildcard(\"example.com\") -> pool team/s1/80 (team/wild)",
    ];
    assert_eq!(lines(&streamed(&shop)), expected);
}

/// The writer does not find the key manager for a while, or is an older one.
#[test]
fn what_is_served_over_https_stays_where_certificates_are_not_served_any_more() {
    let mut shop = shop();
    let mut object = object(&shop);
    let served = lines(&streamed(&shop));
    let stored = StatusSecret { reference: "https://keys.example.com/1".into(), content_hash: "01".repeat(32).into() };
    shop.facts.certificates = false;
    let without = lines(&streamed(&shop));
    let listener = |protocol: &str| StatusListener { protocol: protocol.into(), ..StatusListener::default() };
    let of_secrets = |secrets| KuryrL7RouterStatus { secrets, ..KuryrL7RouterStatus::default() };
    let with = |protocols: &[&str]| {
        let mut status = of_secrets(Vec::new());
        status.balancer.listeners = protocols.iter().map(|one| listener(one)).collect();
        status
    };
    for (status, expected) in [
        (of_secrets(vec![stored]), &served),
        // One that was started meanwhile knows of the listener alone.
        (with(&["HTTP", "TERMINATED_HTTPS"]), &served),
        (with(&["HTTP"]), &without),
    ] {
        object.status = Some(status);
        assert_eq!(lines(&desired_router(&object, &shop.facts, None).unwrap()), *expected);
    }
}

/// Whoever may write a KuryrL7Router of their own could name any Secret there.
#[test]
fn one_that_somebody_made_has_no_certificates_and_its_redirects() {
    let mut of_hand = object(&shop());
    of_hand.metadata.meta.labels.clear();
    of_hand.spec.routes = vec![
        KlrRoute {
            host: Some("a.example.com".into()),
            redirect: Some("https://b.example.com".into()),
            ..KlrRoute::default()
        },
        KlrRoute { https: true, ..of_hand.spec.routes[1].clone() },
    ];
    let expected = [
        "listener 80 HTTP",
        "80 Exact(\"a.example.com\") -> redirect https://b.example.com (a.example.com/)",
        "80 Exact(\"shop.example.com\") -> pool team/s1/80 (team/shop)",
    ];
    assert_eq!(lines(&desired_router(&of_hand, &shop().facts, None).unwrap()), expected);
}

/// As an API server gives it back whose definition is of an older release.
#[test]
fn without_routes_for_https_nothing_is_redirected_there() {
    let cluster = shop();
    let mut object = object(&cluster);
    object.spec.routes.iter_mut().for_each(|route| route.https = false);
    let lines = lines(&desired_router(&object, &cluster.facts, None).unwrap());
    assert!(!lines.iter().any(|line| line.contains("redirect")), "{lines:?}");
}

#[test]
fn what_is_no_hash_is_no_certificate() {
    let cluster = shop();
    let mut object = object(&cluster);
    let tls = |secret: Option<&str>, hash: Option<&str>| KlrTls {
        hosts: Vec::new(),
        secret_name: secret.map(Into::into),
        content_hash: hash.map(Into::into),
    };
    let hash = "00".repeat(32);
    object.spec.tls = vec![tls(Some("team/a"), None), tls(None, Some(&hash)), tls(Some("team/b"), Some("00"))];
    let of = |object: &KuryrL7Router| lines(&desired_router(object, &cluster.facts, None).unwrap());
    assert!(!of(&object).iter().any(|line| line.contains("443") || line.contains("certificate")));
    object.spec.tls.push(tls(Some("team/c"), Some(&hash)));
    assert!(of(&object).contains(&"certificate team/c 0".to_owned()));
}

/// Its routes are there twice as they are streamed: no Ingress may make the router of all too large.
#[test]
fn a_router_with_certificates_always_fits() {
    let label = "b".repeat(55);
    let base = format!("{label}.{label}.{label}");
    // A host without paths is short in an Ingress, and leads to the default backend of that.
    let many = |at: usize| {
        let rules = (0..20).map(|n| json!({"host": format!("{:05}{}.{base}", 20 * at + n, "a".repeat(50))}));
        let spec = json!({
            "rules": rules.collect::<Vec<_>>(), "tls": [{"secretName": "x"}],
            "defaultBackend": backend(if at == 0 { "s1:80" } else { "s2:80" }),
        });
        let ingress = ingress(&format!("{at:03}{}", "i".repeat(240)), spec);
        of_namespace(asking(ingress, "true"), &"n".repeat(63))
    };
    let names = format!("*.{base}");
    let cluster = cluster((0..100).map(many), [secret(&format!("{}/x", "n".repeat(63)), 1, &[&names])]);
    let made = cluster.shared();
    assert!(made.findings.iter().any(|one| one.reason() == "TooManyRoutes"));
    let streamed = desired_router(&object(&cluster), &cluster.facts, None).unwrap();
    let routes = streamed.wanted.header.routing.as_ref().unwrap().routes.len();
    assert_eq!(routes, 2 * made.spec.routes.len());
    assert!(routes > 300, "{routes}");
}
