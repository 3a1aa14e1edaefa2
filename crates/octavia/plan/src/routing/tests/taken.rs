//! Whether two policies take some of the same requests.

use proptest::prelude::*;

use super::evaluate::{any_routes, http, led_by, requests, route, routing};
use crate::routing::fold::fold;
use crate::routing::taken::TakenRequests;

fn taken((host, path): (&str, &str)) -> TakenRequests {
    fold(&routing(vec![route(host, path, "p1")]), http()).policies.remove(0).takes
}

#[test]
fn policies_meet_in_the_requests_that_both_take() {
    let cases = [
        (("a.test", ""), ("a.test", "/a"), true),
        (("a.test", "/a"), ("a.test", "/a/b"), true),
        (("a.test", "/a"), ("a.test", "/ab"), false),
        (("a.test", "=/a/b"), ("a.test", "/a"), true),
        (("a.test", "=/ab"), ("a.test", "/a"), false),
        (("a.test", "=/a"), ("a.test", "=/a"), true),
        (("a.test", "=/a"), ("a.test", "=/b"), false),
        (("a.test", ""), ("b.test", ""), false),
        (("a.test", ""), ("*.test", ""), true),
        (("a.test", ""), ("*.a.test", ""), false),
        (("x.a.test", ""), ("*.test", ""), false),
        (("*.test", ""), ("*.a.test", ""), false),
        (("*.test", "/a"), ("*.test", ""), true),
        (("", "/a"), ("a.test", "/a/b"), true),
        (("", "/a"), ("a.test", "/b"), false),
    ];
    for (one, other, meet) in cases {
        assert_eq!(taken(one).meet(&taken(other)), meet, "{one:?}, {other:?}");
        assert_eq!(taken(other).meet(&taken(one)), meet, "{other:?}, {one:?}");
    }
}

/// A request that two policies take shows that they meet, whatever was folded into them.
#[test]
fn what_takes_the_same_request_meets() {
    gimbal_property::check(64, &(any_routes(6), any_routes(6)), |(some, others)| {
        for one in fold(&routing(some), http()).policies {
            for other in fold(&routing(others.clone()), http()).policies {
                let takes = |of: &TakenRequests, request| {
                    let routes: Vec<_> = of
                        .paths
                        .iter()
                        .map(|path| gimbal_kuryr_model::Route {
                            host: of.host.clone(),
                            path: path.clone(),
                            ..route("", "", "p1")
                        })
                        .collect();
                    led_by(&routes, request).is_some()
                };
                let both = requests().find(|request| takes(&one.takes, *request) && takes(&other.takes, *request));
                prop_assert!(both.is_none() || one.takes.meet(&other.takes), "{one:?} {other:?}: {both:?}");
            }
        }
        Ok(())
    });
}
