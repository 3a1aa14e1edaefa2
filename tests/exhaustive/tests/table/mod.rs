//! The worlds that are checked.

use std::time::Duration;

use gimbal_exhaustive::{Backend, Setup, Trouble, Writes, hosts};
use gimbal_guard::{Floors, GuardConfig};
use gimbal_reconcile::{NamespacePolicy, Policy, Quota};

/// The troubles that are possible with one backend, whatever its Services.
const ANY: [Trouble; 11] = [
    Trouble::Cut(0),
    Trouble::HalfOpen(0),
    Trouble::KillAgent(0),
    Trouble::KillWriter,
    Trouble::OtherWriter,
    Trouble::LateLease,
    Trouble::LostAnswer,
    Trouble::FailedWrite,
    Trouble::FailedKeep,
    Trouble::PutBack,
    Trouble::Pause,
];

/// Returns a policy whose guard allows half of the endpoints to be missing, or `min_endpoints` if that is more.
fn guarded(min_endpoints: u64) -> Policy {
    let guard = GuardConfig {
        max_drop_percent: 50,
        min_endpoints,
        window: Duration::from_secs(60),
        quiet_time: Duration::from_secs(60),
        release_all_after: None,
        floors: Floors { endpoints_per_namespace: 0, endpoints_per_service: 0 },
        readiness: false,
    };
    Policy { guard, ..Policy::default() }
}

fn open() -> Policy {
    let mut policy = guarded(1000);
    policy.guard.max_drop_percent = 100;
    policy
}

fn limited(quota: Quota) -> Policy {
    Policy { quota, ..open() }
}

/// Maps two namespaces of the source to one in the Gimbal cluster.
fn merged(policy: Policy) -> Policy {
    let map = [("p1".to_owned(), "one".to_owned()), ("p2".to_owned(), "one".to_owned())].into();
    Policy { namespaces: NamespacePolicy { map, ..NamespacePolicy::default() }, ..policy }
}

fn world(name: &'static str, backends: Vec<Backend>, troubles: impl IntoIterator<Item = Trouble>) -> Setup {
    let troubles = troubles.into_iter().collect();
    Setup { name, backends, troubles, waits: 1, filled: true, everyday: false }
}

pub fn worlds() -> Vec<Setup> {
    let web = ("one", "web");
    let refused = |writes, for_good| Trouble::Refused { backend: 0, writes, for_good };
    vec![
        world(
            "a Service is changed",
            vec![Backend::new("a", open()).has(web, hosts(&[1, 2])).then(web, hosts(&[2, 3]).label(1))],
            ANY.into_iter().chain([
                Trouble::Unknown(0, "one"),
                Trouble::Conflicts(0),
                refused(Writes::ServiceChanges, false),
                refused(Writes::ServiceChanges, true),
            ]),
        ),
        world(
            "a Service goes and comes back",
            vec![Backend::new("a", open()).has(web, hosts(&[1])).then(web, None).then(web, hosts(&[2]))],
            ANY.into_iter().chain([
                Trouble::Unknown(0, "one"),
                refused(Writes::NewServices, false),
                refused(Writes::NewSlices, false),
                refused(Writes::NewSlices, true),
            ]),
        ),
        world(
            "two backends change",
            vec![
                Backend::new("a", guarded(0)).has(web, hosts(&[1, 2])).then(web, hosts(&[2])),
                Backend::new("b", guarded(0)).has(web, hosts(&[11, 12])).then(web, hosts(&[12])),
            ],
            [Trouble::RefusedKeep(0), Trouble::RefusedKeep(1), Trouble::FailedKeep],
        ),
        world(
            "two of three Services go",
            vec![
                Backend::new("a", guarded(1))
                    .has(("one", "x"), hosts(&[1]))
                    .has(("one", "y"), hosts(&[2]))
                    .has(("two", "z"), hosts(&[3]))
                    .then(("one", "y"), None)
                    .then(("two", "z"), None),
            ],
            ANY.into_iter().filter(|trouble| *trouble != Trouble::PutBack),
        ),
        world(
            "a drop in a namespace that cannot be seen",
            vec![
                Backend::new("a", guarded(0))
                    .has(("one", "x"), hosts(&[1]))
                    .has(("two", "z"), hosts(&[2, 3]))
                    .then(("two", "z"), None),
            ],
            [Trouble::Unknown(0, "two")],
        ),
        Setup {
            everyday: true,
            ..world(
                "one of two Services is always there",
                vec![
                    Backend::new("a", guarded(0))
                        .has(("one", "x"), hosts(&[1]))
                        .has(("one", "y"), hosts(&[2]))
                        .then(("one", "x"), None)
                        .then(("one", "x"), hosts(&[1]))
                        .then(("one", "y"), None),
                ],
                [Trouble::Cut(0), Trouble::KillWriter, Trouble::LostAnswer],
            )
        },
        world(
            "two backends want one name",
            vec![
                Backend::new("a", open()).has(("one", "b-svc"), hosts(&[1])).then(("one", "b-svc"), None),
                Backend::new("a-b", open()).then(("one", "svc"), hosts(&[11])),
            ],
            [Trouble::KillWriter, Trouble::LostAnswer, Trouble::Cut(0), Trouble::KillAgent(1)],
        ),
        world(
            "who waits for a name cannot be written",
            vec![
                Backend::new("a", merged(open()))
                    .has(("p1", "web"), hosts(&[1]))
                    .then(("p2", "web"), hosts(&[2]).invalid())
                    .then(("p1", "web"), None),
            ],
            [Trouble::Cut(0), Trouble::KillWriter],
        ),
        world(
            "who has a name is held",
            vec![
                Backend::new("a", merged(guarded(0)))
                    .has(("p1", "web"), hosts(&[1]))
                    .then(("p2", "web"), hosts(&[2]))
                    .then(("p1", "web"), None)
                    .then(("p2", "web"), hosts(&[2]).label(1)),
            ],
            [Trouble::Cut(0), Trouble::KillWriter],
        ),
        world(
            "room for one Service",
            vec![
                Backend::new("a", limited(Quota { services: Some(1), ..Quota::default() }))
                    .has(("two", "svc"), hosts(&[1]))
                    .then(("one", "svc"), hosts(&[2])),
            ],
            ANY,
        ),
        world(
            "room for two endpoints",
            vec![
                Backend::new("a", limited(Quota { endpoints: Some(2), ..Quota::default() }))
                    .has(web, hosts(&[1, 2]))
                    .then(web, hosts(&[2, 3, 4])),
            ],
            [Trouble::KillWriter],
        ),
        Setup {
            filled: false,
            ..world(
                "two backends begin",
                vec![Backend::new("a", open()).has(web, hosts(&[1])), Backend::new("b", open()).has(web, hosts(&[11]))],
                [Trouble::KillWriter, Trouble::LostAnswer, Trouble::FailedWrite],
            )
        },
    ]
}
