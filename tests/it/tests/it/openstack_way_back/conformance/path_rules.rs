//! Rules for a path, and for all paths that begin with its elements.

use gimbal_tests::WayBack;

use super::{NO_RULE, Row, Spec, routers};

const EXACT: &str = "exact.paths.example";
const PREFIX: &str = "prefix.paths.example";
const MIXED: &str = "mixed.paths.example";
const SLASH: &str = "slash.paths.example";
const ROOT: &str = "root.paths.example";

pub(super) const INGRESSES: &[Spec] = &[Spec {
    name: "path-rules",
    rules: &[
        (EXACT, "/foo", "Exact", "path-exact"),
        (EXACT, "/a.c", "Exact", "path-dot"),
        // The shorter one first: their order in the Ingress does not count.
        (PREFIX, "/aaa", "Prefix", "path-aaa"),
        (PREFIX, "/aaa/bbb", "Prefix", "path-aaa-bbb"),
        (PREFIX, "/foo", "Prefix", "path-prefix"),
        (PREFIX, "/impl", "ImplementationSpecific", "path-impl"),
        (MIXED, "/foo", "Prefix", "path-prefix"),
        (MIXED, "/foo", "Exact", "path-exact"),
        (MIXED, "/foo/bar", "Prefix", "path-deep"),
        (MIXED, "/foo/bar/x", "Exact", "path-exact"),
        (SLASH, "/aaa/bbb/", "Prefix", "path-slash-prefix"),
        (SLASH, "/foo/", "Exact", "path-slash-exact"),
        (ROOT, "/", "Prefix", "path-root"),
        (ROOT, "/", "Exact", "path-root-exact"),
        (ROOT, "/foo", "Prefix", "path-prefix"),
    ],
    ..Spec::OURS
}];

const ROWS: [Row; 43] = [
    (EXACT, "/foo", "path-exact"),
    (EXACT, "/foo?a=/bar", "path-exact"),
    (EXACT, "/foo/", NO_RULE),
    (EXACT, "/foo/bar", NO_RULE),
    (EXACT, "/foobar", NO_RULE),
    (EXACT, "/FOO", NO_RULE),
    (EXACT, "/bar", NO_RULE),
    (EXACT, "/", NO_RULE),
    (EXACT, "/a.c", "path-dot"),
    (EXACT, "/abc", NO_RULE),
    (PREFIX, "/foo", "path-prefix"),
    (PREFIX, "/foo/", "path-prefix"),
    (PREFIX, "/foo/bar", "path-prefix"),
    (PREFIX, "/foo?a", "path-prefix"),
    (PREFIX, "/FOO", NO_RULE),
    (PREFIX, "/foobar", NO_RULE),
    (PREFIX, "/x/foo", NO_RULE),
    (PREFIX, "/aaa", "path-aaa"),
    (PREFIX, "/aaa/ccc", "path-aaa"),
    (PREFIX, "/aaa/bbbccc", "path-aaa"),
    (PREFIX, "/aaaccc", NO_RULE),
    (PREFIX, "/aaa/bbb", "path-aaa-bbb"),
    (PREFIX, "/aaa/bbb/", "path-aaa-bbb"),
    (PREFIX, "/aaa/bbb/ccc", "path-aaa-bbb"),
    (PREFIX, "/impl/ementation", "path-impl"),
    (PREFIX, "/", NO_RULE),
    (MIXED, "/foo", "path-exact"),
    (MIXED, "/foo/", "path-prefix"),
    (MIXED, "/foo/baz", "path-prefix"),
    (MIXED, "/foo/bar", "path-deep"),
    (MIXED, "/foo/bar/x", "path-exact"),
    (MIXED, "/foo/bar/x/", "path-deep"),
    (SLASH, "/aaa/bbb", "path-slash-prefix"),
    (SLASH, "/aaa/bbb/", "path-slash-prefix"),
    (SLASH, "/aaa/bbb/ccc", "path-slash-prefix"),
    (SLASH, "/aaa/bbbccc", NO_RULE),
    (SLASH, "/foo/", "path-slash-exact"),
    (SLASH, "/foo", NO_RULE),
    (ROOT, "/", "path-root-exact"),
    (ROOT, "/?a=b", "path-root-exact"),
    (ROOT, "/foo", "path-prefix"),
    (ROOT, "/foobar", "path-root"),
    (ROOT, "/bar/foo", "path-root"),
];

pub(super) async fn paths(stage: &WayBack) {
    super::expect(stage, routers::SHARED, &ROWS).await;
}
