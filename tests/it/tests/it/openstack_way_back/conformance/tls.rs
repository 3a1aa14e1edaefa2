//! Certificates by the name that the client asks for (SNI), and redirects to HTTPS.

use std::collections::BTreeMap;

use gimbal_testkit::openstack::ClientRequest;
use gimbal_tests::WayBack;

use super::{NO_RULE, Row, Spec, routers};

const FIRST: &str = "tls-1";
const WILDCARD: &str = "tls-2";
const REDIRECTED: &str = "tls-3";

/// In the order of their age and of their names, for the first one's certificate is the default.
pub(super) const INGRESSES: &[Spec] = &[
    Spec {
        name: FIRST,
        rules: &[("www.tls.example", "/", "Prefix", "tls-www")],
        certificate: &["www.tls.example"],
        ..Spec::OURS
    },
    Spec {
        name: WILDCARD,
        rules: &[
            ("*.wild.tls.example", "/", "Prefix", "tls-wild"),
            ("own.wild.tls.example", "/path", "Prefix", "tls-own"),
        ],
        certificate: &["*.wild.tls.example"],
        ..Spec::OURS
    },
    Spec {
        name: REDIRECTED,
        annotations: &[("kuryr.openstack.org/redirect-http", "true")],
        rules: &[("redirected.tls.example", "/", "Prefix", "tls-redirected")],
        certificate: &["redirected.tls.example"],
        ..Spec::OURS
    },
];

/// A request over HTTPS.
struct Secured {
    /// The name that the client asks for, and the host of its request.
    asked: [&'static str; 2],
    path: &'static str,
    answer: &'static str,
    /// The Ingress with the certificate that the client gets.
    certificate: &'static str,
    /// Whether that has the name.
    is_named: bool,
}

const fn secured(host: &'static str, path: &'static str, answer: &'static str, certificate: &'static str) -> Secured {
    Secured { asked: [host, host], path, answer, certificate, is_named: true }
}

const fn unnamed(name: &'static str, host: &'static str, answer: &'static str) -> Secured {
    Secured { asked: [name, host], path: "/", answer, certificate: FIRST, is_named: false }
}

const SECURED: [Secured; 10] = [
    secured("www.tls.example", "/", "tls-www", FIRST),
    secured("www.tls.example", "/path", "tls-www", FIRST),
    secured("any.wild.tls.example", "/", "tls-wild", WILDCARD),
    secured("own.wild.tls.example", "/path", "tls-own", WILDCARD),
    secured("own.wild.tls.example", "/", NO_RULE, WILDCARD),
    secured("redirected.tls.example", "/a", "tls-redirected", REDIRECTED),
    // Two labels are not what the star is for.
    unnamed("a.b.wild.tls.example", "a.b.wild.tls.example", NO_RULE),
    // Who has no `tls` is not served.
    unnamed("shop.hosts.example", "shop.hosts.example", NO_RULE),
    // The host of the request decides who answers, whatever name the client began with.
    unnamed("other.example", "any.wild.tls.example", "tls-wild"),
    unnamed("", "www.tls.example", "tls-www"),
];

const OVER_HTTP: [Row; 4] = [
    ("www.tls.example", "/", "tls-www"),
    ("any.wild.tls.example", "/", "tls-wild"),
    ("redirected.tls.example", "/a?b=c", "302 https://redirected.tls.example/a?b=c"),
    ("redirected.tls.example:80", "/", "302 https://redirected.tls.example/"),
];

pub(super) async fn certificates_by_name(stage: &WayBack, certificates: &BTreeMap<&'static str, String>) {
    super::until(stage, "each name gets its certificate", async || {
        for one in &SECURED {
            expect_secured(stage, one, certificates).await?;
        }
        Ok(())
    })
    .await;
    super::expect(stage, routers::SHARED, &OVER_HTTP).await;
}

async fn expect_secured(
    stage: &WayBack,
    one: &Secured,
    certificates: &BTreeMap<&'static str, String>,
) -> anyhow::Result<()> {
    let [name, host] = one.asked;
    let request = ClientRequest { method: "GET", host: Some(host), path: one.path, tls: Some(name), authority: None };
    let answer = super::answer(stage, routers::SHARED, 443, &request).await?;
    anyhow::ensure!(answer == one.answer, "{name}: {host} is answered by {answer}");
    let served = stage.plane()?.send(routers::SHARED, 443, &request).await?.certificate;
    anyhow::ensure!(served.as_deref() == Some(&*certificates[one.certificate]), "{name} gets another certificate");
    // A client that asks for no name has none to compare.
    if !name.is_empty() {
        let verified = ClientRequest { authority: Some(stage.programs.pki.ca()), ..request };
        let is_verified = stage.plane()?.send(routers::SHARED, 443, &verified).await;
        anyhow::ensure!(is_verified.is_ok() == one.is_named, "{name}: {is_verified:?}");
    }
    Ok(())
}
