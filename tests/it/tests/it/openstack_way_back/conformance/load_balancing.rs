//! A Service with several members.

use std::collections::BTreeSet;

use gimbal_testkit::openstack::ClientRequest;
use gimbal_tests::WayBack;

use super::{Spec, routers};

pub(super) const NAME: &str = "load-balancing";
const MEMBERS: usize = 10;
const REQUESTS: usize = 100;

pub(super) const INGRESSES: &[Spec] = &[
    Spec { name: NAME, annotations: routers::GROUP, default_backend: Some(NAME), ..Spec::OURS },
    // At the same router.
    Spec {
        name: "load-balancing-beside",
        annotations: routers::GROUP,
        rules: &[("beside.example", "/", "Prefix", "load-balancing-beside")],
        ..Spec::OURS
    },
];

/// Returns the members of a Service: one of its name, and of this one more.
pub(super) fn members(service: &str) -> Vec<String> {
    match service {
        NAME => (0..MEMBERS).map(|number| format!("{NAME}-{number}")).collect(),
        other => vec![other.to_owned()],
    }
}

pub(super) async fn all_members_answer(stage: &WayBack) {
    let router = super::address(stage, NAME).await.unwrap();
    super::expect(stage, &router, &[("beside.example", "/", "load-balancing-beside")]).await;
    let request = ClientRequest { method: "GET", host: Some("load-balancing"), path: "/", tls: None, authority: None };
    let mut answered = BTreeSet::new();
    for _ in 0..REQUESTS {
        answered.insert(super::answer(stage, &router, 80, &request).await.unwrap());
    }
    assert_eq!(answered, members(NAME).into_iter().collect());
}
