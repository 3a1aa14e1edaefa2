//! Rules for a host, and for all hosts of a domain.

use gimbal_tests::WayBack;

use super::{NO_RULE, Row, Spec, routers};

pub(super) const INGRESSES: &[Spec] = &[Spec {
    name: "host-rules",
    rules: &[
        ("shop.hosts.example", "/", "Prefix", "host-exact:http"),
        ("*.hosts.example", "/", "Prefix", "host-wildcard"),
        ("*.deep.hosts.example", "/", "Prefix", "host-deep"),
        // What no rule of its own takes is not for the wildcard either.
        ("part.hosts.example", "/part", "Prefix", "host-part"),
    ],
    ..Spec::OURS
}];

const ROWS: [Row; 19] = [
    ("shop.hosts.example", "/", "host-exact"),
    ("shop.hosts.example", "/any/path", "host-exact"),
    ("SHOP.Hosts.example", "/", "host-exact"),
    ("shop.hosts.example:80", "/", "host-exact"),
    ("shop.hosts.example:8080", "/", "host-exact"),
    ("other.hosts.example", "/", "host-wildcard"),
    ("Other.HOSTS.example:80", "/path", "host-wildcard"),
    ("xshop.hosts.example", "/", "host-wildcard"),
    ("a.deep.hosts.example", "/", "host-deep"),
    ("deep.hosts.example", "/", "host-wildcard"),
    ("part.hosts.example", "/part/of", "host-part"),
    ("part.hosts.example", "/", NO_RULE),
    // One label, no more and no less.
    ("a.b.hosts.example", "/", NO_RULE),
    ("a.shop.hosts.example", "/", NO_RULE),
    ("hosts.example", "/", NO_RULE),
    (".hosts.example", "/", NO_RULE),
    ("shop.hosts.example.org", "/", NO_RULE),
    ("shop-hosts-example", "/", NO_RULE),
    ("10.20.30.40", "/", NO_RULE),
];

pub(super) async fn hosts(stage: &WayBack) {
    super::expect(stage, routers::SHARED, &ROWS).await;
}
