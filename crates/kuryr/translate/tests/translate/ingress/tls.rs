//! Certificates, and the way from HTTP to HTTPS.

use gimbal_kubernetes_objects::Ingress;
use gimbal_kuryr_translate::{CertificateProblem, KnownSecret, RouterTranslated};
use gimbal_model::SourceKey;
use serde_json::{Value, json};

use super::common::{Cluster, findings, ingress, rule, secret, service};

/// An Ingress with rules for hosts and entries `SECRET: HOST HOST`.
pub fn with_tls(name: &str, hosts: &[&str], tls: &[&str]) -> Ingress {
    let entry = |text: &&str| -> Value {
        let (secret, hosts) = text.split_once(':').unwrap();
        let hosts: Vec<&str> = hosts.split_whitespace().collect();
        if secret.is_empty() { json!({"hosts": hosts}) } else { json!({"hosts": hosts, "secretName": secret}) }
    };
    let rules: Vec<Value> = hosts.iter().map(|host| rule(host, &["* s1:80"])).collect();
    ingress(name, json!({"rules": rules, "tls": tls.iter().map(entry).collect::<Vec<_>>()}))
}

pub fn of_namespace(mut ingress: Ingress, namespace: &str) -> Ingress {
    ingress.metadata.meta.namespace = namespace.into();
    ingress
}

pub fn asking(mut ingress: Ingress, value: &str) -> Ingress {
    ingress.metadata.meta.annotations.insert("kuryr.openstack.org/redirect-http".into(), value.into());
    ingress
}

pub fn cluster(
    ingresses: impl IntoIterator<Item = Ingress>,
    secrets: impl IntoIterator<Item = KnownSecret>,
) -> Cluster {
    Cluster::with(ingresses).and_services([service("s1", &["http:80"])]).and_secrets(secrets)
}

/// Certificates as `SECRET CONTENT: hosts`.
fn tls(made: &RouterTranslated) -> Vec<String> {
    let one = |tls: &gimbal_kuryr_crd::KlrTls| {
        let content = u8::from_str_radix(&tls.content_hash.as_ref().unwrap()[..2], 16).unwrap();
        format!("{} {content}: {}", tls.secret_name.as_ref().unwrap(), tls.hosts.join(" "))
    };
    made.spec.tls.iter().map(one).collect()
}

/// Routes as `HOST`, `HOST https` or `HOST https -> REDIRECT`.
fn routes(made: &RouterTranslated) -> Vec<String> {
    let one = |route: &gimbal_kuryr_crd::KlrRoute| {
        let to = route.redirect.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
        format!("{}{}{to}", route.host.as_deref().unwrap_or("*"), if route.https { " https" } else { "" })
    };
    made.spec.routes.iter().map(one).collect()
}

/// What is said but of Services, which other namespaces do not have here.
fn said(made: &RouterTranslated) -> Vec<String> {
    findings(made).into_iter().filter(|said| !said.contains("/NoService")).collect()
}

#[test]
fn certificates_are_in_the_order_of_their_ingresses_each_secret_once() {
    let made = cluster(
        [
            with_tls("b", &["B.example.com", "a.example.com"], &["z: B.example.com", "y: a.example.com"]),
            with_tls("a", &["c.example.com", "d.example.com"], &["x:", "z: e.example.com"]),
            with_tls("c", &["f.example.com"], &[]),
        ],
        [
            secret("team/x", 1, &["*.example.com"]),
            secret("team/y", 2, &["a.example.com"]),
            secret("team/z", 3, &["b.example.com", "e.example.com"]),
            secret("team/other", 4, &["f.example.com"]),
        ],
    )
    .shared();
    let expected =
        ["team/z 3: b.example.com e.example.com", "team/y 2: a.example.com", "team/x 1: c.example.com d.example.com"];
    assert_eq!(tls(&made), expected);
    let https =
        ["a.example.com", "b.example.com", "c.example.com", "d.example.com"].map(|host| format!("{host} https"));
    assert_eq!(routes(&made), [&https[..], &["f.example.com".to_owned()]].concat());
    assert_eq!(said(&made), [] as [String; 0]);
}

#[test]
fn an_entry_covers_the_hosts_of_its_own_ingress() {
    let of = |hosts: &[&str], entries: &[&str]| {
        let names = &["a.example.com", "*.example.com"];
        routes(&cluster([with_tls("web", hosts, entries)], [secret("team/x", 1, names)]).shared())
    };
    assert_eq!(
        of(&["a.example.com", "b.example.com"], &["x: A.example.com"]),
        ["a.example.com https", "b.example.com"]
    );
    assert_eq!(
        of(&["a.example.com", "*.example.com"], &["x: *.example.com"]),
        ["a.example.com https", "*.example.com https"]
    );
    assert_eq!(of(&["*.example.com"], &["x: a.example.com"]), ["*.example.com"]);
    assert_eq!(of(&["a.b.example.com"], &["x: *.example.com"]), ["a.b.example.com"]);
    // A route for every host needs an entry for every host. That one is the default of the router.
    assert_eq!(of(&["a.example.com"], &["x:"]), ["a.example.com https"]);
    let any = json!({"rules": [rule("", &["/a* s1:80"])], "tls": [{"secretName": "x"}]});
    let made = cluster([ingress("web", any)], [secret("team/x", 1, &["a.example.com"])]).shared();
    assert_eq!((routes(&made), tls(&made)), (vec!["* https".to_owned()], vec!["team/x 1: ".to_owned()]));
    let any = json!({"rules": [rule("", &["/a* s1:80"])], "tls": [{"secretName": "x", "hosts": ["a.example.com"]}]});
    let made = cluster([ingress("web", any)], [secret("team/x", 1, &["a.example.com"])]).shared();
    assert_eq!(routes(&made), ["*"]);
    // The host of another Ingress is that one's business.
    let made = cluster(
        [
            with_tls("web", &["a.example.com"], &["x: a.example.com b.example.com"]),
            with_tls("b", &["b.example.com"], &[]),
        ],
        [secret("team/x", 1, &["a.example.com", "b.example.com"])],
    )
    .shared();
    assert_eq!(routes(&made), ["a.example.com https", "b.example.com"]);
}

#[test]
fn what_has_no_certificate_is_served_over_http_and_says_why() {
    let invalid = KnownSecret { state: Err(CertificateProblem::OtherKey), ..secret("team/bad", 1, &[]) };
    let mut cluster = cluster(
        [
            with_tls("a", &["a.example.com"], &["absent: a.example.com"]),
            with_tls("b", &["b.example.com"], &["bad: b.example.com"]),
            with_tls("c", &["c.example.com"], &[": c.example.com", ":"]),
            with_tls("d", &["d.example.com"], &["good: d.example.com"]),
        ],
        [invalid, secret("team/good", 2, &["other.example.com"])],
    );
    let made = cluster.shared();
    assert_eq!(routes(&made), ["a.example.com", "b.example.com", "c.example.com", "d.example.com https"]);
    let alone = "is not served, and its hosts over HTTP alone";
    let expected = [
        format!("Unsupported/NoSecret: Ingress team/a: the certificate in Secret team/absent {alone}: there is no Secret of that name with type kubernetes.io/tls"),
        format!("Unsupported/InvalidCertificate: Ingress team/b: the certificate in Secret team/bad {alone}: tls.key is not the key of the first certificate in tls.crt"),
        "Unsupported/NoSecretName: Ingress team/c: an entry of tls names no Secret: HTTP alone for c.example.com".to_owned(),
        "Unsupported/NoSecretName: Ingress team/c: an entry of tls names no Secret: HTTP alone for every host".to_owned(),
        "Unsupported/NotInCertificate: Ingress team/d: the certificate in Secret team/good is not for host \"d.example.com\": clients will refuse it there".to_owned(),
    ];
    assert_eq!(said(&made), expected);
    let events: Vec<_> = made.findings.iter().map(gimbal_kuryr_translate::Finding::event).collect();
    let tls = "KuryrTlsNotServed";
    assert_eq!(events, [tls, tls, tls, tls, "KuryrCertificateNotAsAsked"]);
    // A cloud without Barbican has nothing to say of the Secrets.
    cluster.facts.certificates = false;
    let said = said(&cluster.shared());
    assert_eq!((said.len(), said.iter().filter(|said| said.contains("/TlsNotServed")).count()), (4, 4), "{said:?}");
}

#[test]
fn what_was_served_stays_until_there_is_something_better() {
    let ingresses = || [with_tls("web", &["a.example.com"], &["x: a.example.com"])];
    let first = cluster(ingresses(), [secret("team/x", 1, &["a.example.com"])]).shared();
    let before: std::collections::BTreeMap<_, _> = first
        .spec
        .tls
        .iter()
        .map(|tls| (tls.secret_name.clone().unwrap(), tls.content_hash.clone().unwrap()))
        .collect();
    let after = |secrets: Vec<KnownSecret>, is_readable: bool| {
        let mut cluster = cluster(ingresses(), secrets);
        cluster.certificates = before.clone();
        if !is_readable {
            cluster.secrets.cannot_be_read();
        }
        cluster.shared()
    };
    let kept =
        "Held/CertificateKept: Ingress team/web: the certificate that Secret team/x had before is still served: ";
    let invalid = || KnownSecret { state: Err(CertificateProblem::Chain), ..secret("team/x", 1, &[]) };
    let gone = after(vec![], true);
    assert_eq!(gone.spec, first.spec);
    assert_eq!(said(&gone), [format!("{kept}there is no Secret of that name with type kubernetes.io/tls")]);
    let broken = after(vec![invalid()], true);
    assert_eq!(broken.spec, first.spec);
    assert_eq!(said(&broken), [format!("{kept}tls.crt is not a chain of certificates in PEM")]);
    // What cannot be read may well be as it was.
    let unread = after(vec![], false);
    assert_eq!((&unread.spec, said(&unread)), (&first.spec, vec![]));
    let rotated = after(vec![secret("team/x", 2, &["a.example.com"])], true);
    assert_eq!((tls(&rotated), said(&rotated)), (vec!["team/x 2: a.example.com".to_owned()], vec![]));
    // Without an Ingress that names it, it goes.
    let mut cluster = cluster([with_tls("web", &["a.example.com"], &[])], []);
    cluster.certificates = before.clone();
    assert_eq!(tls(&cluster.shared()), [] as [String; 0]);
}

#[test]
fn a_certificate_takes_no_host_of_an_older_ingress_of_another_namespace() {
    let taken = |older: Ingress, names: &[&str]| {
        let younger = of_namespace(with_tls("new", &["new.example.com"], &["x: new.example.com"]), "rival");
        let made = cluster([older, younger], [secret("rival/x", 1, names)]).shared();
        let is_served = tls(&made) == ["rival/x 1: new.example.com"];
        assert_eq!(is_served, routes(&made).contains(&"new.example.com https".to_owned()));
        let found: Vec<String> = said(&made).into_iter().filter(|said| said.contains("CertificateTaken")).collect();
        assert_eq!(is_served, found.is_empty(), "{found:?}");
        found.into_iter().next()
    };
    let rules = |host: &str| with_tls("old", &[host], &[]);
    let host = rules("shop.example.com");
    assert_eq!(taken(host.clone(), &["new.example.com"]), None);
    let said = "Conflict/CertificateTaken: Ingress rival/new: the certificate in Secret rival/x is not served, and its hosts over HTTP \
                alone: it is also for host \"shop.example.com\", which Ingress team/old of another namespace has, and is older";
    assert_eq!(taken(host.clone(), &["new.example.com", "Shop.example.com"]).as_deref(), Some(said));
    assert_eq!(
        taken(host.clone(), &["*.example.com"]),
        None,
        "no certificate is served there that it could be taken for"
    );
    assert_eq!(taken(host.clone(), &["*.com", "example.com", "*.shop.example.com"]), None);
    // What an Ingress has a certificate for is its own as well.
    assert!(taken(with_tls("old", &[], &["absent: shop.example.com"]), &["shop.example.com"]).is_some());
    assert!(taken(rules("*.example.com"), &["*.example.com"]).is_some());
    // A host goes before a wildcard, as its rules do.
    assert_eq!(taken(rules("*.example.com"), &["new.example.com"]), None);
    // Its own namespace may share.
    let same = cluster(
        [host.clone(), with_tls("new", &["new.example.com"], &["x: new.example.com"])],
        [secret("team/x", 1, &["*.example.com"])],
    );
    assert_eq!(tls(&same.shared()), ["team/x 1: new.example.com"]);
    // One that is older keeps its certificate, whoever comes later.
    let older = of_namespace(with_tls("new", &["new.example.com"], &["x: new.example.com"]), "rival");
    let made = cluster([older, host], [secret("rival/x", 1, &["*.example.com"])]).shared();
    assert_eq!(tls(&made), ["rival/x 1: new.example.com"]);
}

/// Who claims a host later, or earlier without a certificate, takes nothing from what is served.
#[test]
fn a_wildcard_that_is_served_stays_and_a_new_one_takes_no_host_with_a_certificate() {
    let of = |before: &[(&str, u8)], hash: u8| {
        let old = of_namespace(with_tls("old", &["zzz.example.com"], &["y: zzz.example.com"]), "rival");
        let new = with_tls("web", &["*.example.com"], &["x: *.example.com"]);
        let secrets = [secret("rival/y", 9, &["zzz.example.com"]), secret("team/x", hash, &["*.example.com"])];
        let mut cluster = cluster([old, new], secrets);
        for (name, hash) in before {
            let hash = gimbal_kuryr_model::CertificateHash::from_bytes([*hash; 32]).to_string();
            cluster.certificates.insert((*name).into(), hash.into());
        }
        let made = cluster.shared();
        let words: Vec<String> = said(&made).into_iter().filter(|said| said.contains("Certificate")).collect();
        (tls(&made).into_iter().find(|one| one.starts_with("team/x")), words.len())
    };
    let wild = |hash: u8| Some(format!("team/x {hash}: *.example.com"));
    assert_eq!(of(&[], 1), (None, 1), "a new one");
    assert_eq!(of(&[("team/x", 1)], 1), (wild(1), 0), "it is served");
    assert_eq!(of(&[("team/x", 1)], 2), (wild(1), 1), "a new one in its place waits, and the former one stays");
}

#[test]
fn requests_go_from_http_to_https_where_the_ingress_asks_for_it() {
    let of = |value: &str, hosts: &[&str], entries: &[&str]| {
        let made = cluster([asking(with_tls("web", hosts, entries), value)], [secret("team/x", 1, &["*.example.com"])])
            .shared();
        (routes(&made), said(&made))
    };
    let not = |host: &str, why: &str| {
        vec![format!("Unsupported/NotRedirected: Ingress team/web: requests for {host} are not sent to HTTPS: {why}")]
    };
    let redirected = vec!["a.example.com https -> https://a.example.com".to_owned()];
    assert_eq!(of("true", &["A.example.com"], &["x: a.example.com"]), (redirected, vec![]));
    assert_eq!(
        of("false", &["a.example.com"], &["x: a.example.com"]),
        (vec!["a.example.com https".to_owned()], vec![])
    );
    let (routes, said) = of("yes", &["a.example.com"], &["x: a.example.com"]);
    assert_eq!(routes, ["a.example.com https"]);
    assert_eq!(
        said,
        [
            "Unsupported/InvalidAnnotation: Ingress team/web: annotation kuryr.openstack.org/redirect-http=\"yes\" is left out: it is neither \"true\" nor \"false\""
        ]
    );
    let one_host = "Octavia can do that for a host without a wildcard alone";
    let wildcard = of("true", &["*.example.com"], &["x: *.example.com"]);
    assert_eq!(wildcard, (vec!["*.example.com https".to_owned()], not("host \"*.example.com\"", one_host)));
    let without = of("true", &["a.example.com"], &[]);
    assert_eq!(
        without,
        (vec!["a.example.com".to_owned()], not("host \"a.example.com\"", "no certificate for it is served"))
    );
}

/// An Ingress of a solver answers a challenge under the host that the certificate is for. haproxy would redirect it.
#[test]
fn a_host_is_not_redirected_while_a_challenge_is_answered_there() {
    let web = || asking(with_tls("web", &["a.example.com"], &["x: a.example.com"]), "true");
    let solver = |path: &str| ingress("solver", json!({"rules": [rule("a.example.com", &[path])]}));
    let of = |other: Ingress| cluster([web(), other], [secret("team/x", 1, &["a.example.com"])]).shared();
    let made = of(solver("/.well-known/acme-challenge/x s1:80"));
    assert_eq!(routes(&made), ["a.example.com", "a.example.com https"]);
    let why = "Ingress team/solver has a path there that is served over HTTP and would be redirected with it";
    let expected = format!(
        "Unsupported/NotRedirected: Ingress team/web: requests for host \"a.example.com\" are not sent to HTTPS: {why}"
    );
    assert_eq!(said(&made), [expected]);
    let elsewhere = ingress("solver", json!({"rules": [rule("b.example.com", &["/.well-known/x s1:80"])]}));
    assert_eq!(routes(&of(elsewhere)), ["a.example.com https -> https://a.example.com", "b.example.com"]);
}

#[test]
fn secrets_are_told_to_those_that_name_them() {
    let mut cluster = cluster([with_tls("web", &["a.example.com"], &["x: a.example.com"])], []);
    cluster.ingresses.drain();
    for (name, is_named) in [("team/x", true), ("team/y", false), ("other/x", false)] {
        let (namespace, name) = name.split_once('/').unwrap();
        let key = SourceKey::new(namespace, name);
        cluster.ingresses.secret_changed(&key);
        assert_eq!(
            (cluster.ingresses.drain().len(), cluster.ingresses.names_secret(&key)),
            (usize::from(is_named), is_named)
        );
    }
    // The annotation is a change as well.
    let known = cluster.ingresses.ingress(&SourceKey::new("team", "web")).unwrap().clone();
    cluster.ingresses.apply_ingress((*known).clone());
    assert!(cluster.ingresses.drain().is_empty());
    cluster.ingresses.apply_ingress(asking((*known).clone(), "true"));
    assert_eq!(cluster.ingresses.drain().len(), 1);
    cluster.ingresses.delete_ingress("team", "web");
    assert!(!cluster.ingresses.names_secret(&SourceKey::new("team", "x")));
}
