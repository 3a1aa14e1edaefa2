use std::sync::Arc;

use gimbal_model::{Endpoint, Header, PortSet, SourceKey};

use super::*;

const READY: Conditions = Conditions::READY;
const NOT_READY: Conditions = Conditions::NOT_READY;

fn service(addresses: &[&str]) -> Service {
    let endpoint = |address: &&str| (PortSet::default(), Endpoint::ready(address.parse().unwrap()));
    Service::new(Arc::new(Header::default()), addresses.iter().map(endpoint))
}

fn reject(reason: RejectReason) -> Reject {
    Reject { key: Some(SourceKey::new("team1", "web")), reason, retryable: true, message: "why".into() }
}

#[test]
fn each_place_where_an_address_can_stop_has_its_sentence() {
    let web = service(&["10.0.0.1", "10.0.0.2"]);
    let (none, one, six) = (service(&[]), service(&["10.0.0.1"]), service(&["fd00::1"]));
    let (held, quota, refused) =
        (reject(RejectReason::Held), reject(RejectReason::Quota), reject(RejectReason::AddressRefused));
    let there = AddressFacts {
        address: "10.0.0.9".parse().unwrap(),
        service: Some(&web),
        sent: Some(READY),
        published: Some(READY),
        refusal: None,
        reject: None,
        removal: None,
        is_gone: false,
        stage: Stage::Hold,
        converged: true,
    };
    let gone = AddressFacts { sent: None, published: None, ..there };
    let absent = AddressFacts { published: None, ..there };
    let stays = AddressFacts { sent: None, ..there };
    let dims = AddressFacts { published: Some(NOT_READY), ..there };
    let not_allowed = format!("it is not published: 10.0.0.9 {}", AddressRefusal::NotAllowed);
    let terminating = Conditions { terminating: true, ..NOT_READY };
    let table: &[(AddressFacts<'_>, &[&str])] = &[
        (there, &["it is published as the agent sent it"]),
        // What the source says.
        (
            AddressFacts { sent: Some(NOT_READY), published: Some(NOT_READY), ..there },
            &["it is not ready in the source", "it is published as the agent sent it"],
        ),
        (
            AddressFacts { sent: Some(terminating), published: Some(NOT_READY), ..there },
            &["it is terminating, and not ready, in the source", "it is published as the agent sent it"],
        ),
        (gone, &["the agent sent 2 endpoints, and none with this address"]),
        (AddressFacts { service: Some(&one), ..gone }, &["the agent sent one endpoint, with another address"]),
        (AddressFacts { service: Some(&none), ..gone }, &["the agent sent no endpoints at all"]),
        (AddressFacts { service: Some(&six), ..gone }, &["the agent sent endpoints of IPv6 only"]),
        (AddressFacts { service: None, ..gone }, &["the agent has sent no such Service"]),
        // Not there yet, or never.
        (AddressFacts { refusal: Some(AddressRefusal::NotAllowed), reject: Some(&refused), ..absent }, &[&not_allowed]),
        (
            AddressFacts { reject: Some(&quota), ..absent },
            &["it is not published: its Service is rejected (Quota): why"],
        ),
        (
            AddressFacts { reject: Some(&refused), converged: false, ..absent },
            &["it is not published: a write is waiting or under way"],
        ),
        (
            AddressFacts { stage: Stage::Drained, ..absent },
            &["it is not published: its backend is lost: its endpoints were removed (onLoss.drainAfter)"],
        ),
        (absent, &["it is not published: the API server stores another form than was sent, and that is accepted"]),
        // Still there.
        (
            AddressFacts { reject: Some(&held), ..stays },
            &[
                "the agent sent 2 endpoints, and none with this address",
                "it is still published: its Service is rejected (Held): why",
            ],
        ),
        (
            AddressFacts { refusal: Some(AddressRefusal::NotAllowed), converged: false, ..stays },
            &[
                "the agent sent 2 endpoints, and none with this address",
                "it is still published: a write is waiting or under way",
            ],
        ),
        (
            AddressFacts { service: None, ..stays },
            &[
                "the agent has sent no such Service",
                "it is still published: no agent has said that it is gone, so what was last known stays",
            ],
        ),
        (
            AddressFacts { service: None, is_gone: true, converged: false, ..stays },
            &[
                "the agent has sent no such Service",
                "it is still published: the agent has said that its Service is gone: a write is waiting or under way",
            ],
        ),
        // There, and otherwise.
        (
            AddressFacts { stage: Stage::NotReady, ..dims },
            &["it is published as not ready: its backend is lost: its endpoints are not ready (onLoss.notReadyAfter)"],
        ),
        (
            AddressFacts { sent: Some(NOT_READY), reject: Some(&held), ..there },
            &["it is not ready in the source", "it is published as ready: its Service is rejected (Held): why"],
        ),
    ];
    for (facts, expected) in table {
        assert_eq!(facts.reasons(), *expected, "{facts:?}");
    }
}
