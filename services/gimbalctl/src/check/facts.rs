//! What the server says of itself: who this client is to it, its version, its clock and its rights.

use gimbal_wire::pb;
use jiff::Timestamp;

use super::result::CheckResult;
use super::versions;
use crate::output::age;

/// Clocks that differ by more are reported: certificates, tokens and the times in logs are all compared with one.
const CLOCK: u64 = 5000;
/// What to do about clocks that differ.
const CLOCK_HINT: &str = "is NTP at work on both machines? Certificates and tokens are judged by these clocks";

/// The facts, with the time of this machine before they were asked for and after they came.
#[derive(Debug, Clone)]
pub struct ServerAnswer {
    pub server: pb::Server,
    pub asked: Timestamp,
    pub answered: Timestamp,
}

/// The checks that are made of the facts, in their order.
pub const IDS: [&str; 4] = ["client.identity", "server.version", "server.clock", "server.rights"];

/// Checks what the server said. `shows_all`: it has a view of all backends or clusters, so that a client that sees one is no
/// administrator's.
pub fn results(told: &ServerAnswer, of: &str, shows_all: bool) -> Vec<CheckResult> {
    let ServerAnswer { server, .. } = told;
    let mut results = vec![identity(server.caller.as_ref(), of, shows_all)];
    results.push(versions::result("server.version", of, env!("CARGO_PKG_VERSION"), "gimbalctl", &server.version));
    results.push(clock("server.clock", of, ahead(told)));
    results.push(rights(server.rights.as_ref(), of));
    results
}

/// Returns by how much the server's clock is ahead of ours, in milliseconds. What the answer may have taken on its way is given to
/// the server: a slow line is no wrong clock.
fn ahead(told: &ServerAnswer) -> i64 {
    let (asked, answered) = (told.asked.as_millisecond(), told.answered.as_millisecond());
    let theirs = told.server.clock_ms;
    match () {
        () if theirs < asked => theirs.saturating_sub(asked),
        () if theirs > answered => theirs.saturating_sub(answered),
        () => 0,
    }
}

/// Checks a clock that is ahead by this, in milliseconds.
pub fn clock(id: &'static str, of: &str, ahead: i64) -> CheckResult {
    let by = ahead.unsigned_abs();
    if by <= CLOCK {
        return CheckResult::ok(id, of, "");
    }
    let way = if ahead > 0 { "ahead" } else { "behind" };
    CheckResult::warn(id, of, format!("its clock is {} {way}", age(Some(by))), CLOCK_HINT)
}

fn identity(caller: Option<&pb::Caller>, of: &str, shows_all: bool) -> CheckResult {
    let id = IDS[0];
    let Some(pb::Caller { names, only }) = caller else { return CheckResult::skip(id, of, "the server does not say") };
    let names = if names.is_empty() { "no certificate, over loopback".to_owned() } else { names.join(", ") };
    if only.is_empty() || !shows_all {
        return CheckResult::ok(id, of, names);
    }
    let hint = "an administrator's certificate has a name of admins in the server's configuration";
    CheckResult::warn(id, of, format!("{names}: this client is {only}, sees that alone and decides nothing"), hint)
}

/// The result for a client by whose certificate the server knows no client.
pub fn stranger(of: &str, words: &str, names: &[String]) -> CheckResult {
    let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    let hint = "put one of its names, or sha256: and its fingerprint (gimbalctl certs show), into admins of the server's configuration";
    CheckResult::fail(IDS[0], of, format!("{words}; the certificate has {names}"), hint)
}

fn rights(rights: Option<&pb::Rights>, of: &str) -> CheckResult {
    let id = IDS[3];
    let Some(pb::Rights { missing, unknown }) = rights else {
        return CheckResult::skip(id, of, "the server does not say");
    };
    if !unknown.is_empty() {
        let hint = "does its API server answer? What the server does there will be tried all the same";
        return CheckResult::warn(id, of, format!("it is not known: {unknown}"), hint);
    }
    match missing.as_slice() {
        [] => CheckResult::ok(id, of, ""),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let hint = "apply the role of this program anew (deploy/rbac, or its chart), and bind it to its user";
            CheckResult::fail(id, of, format!("it may not {first}{more}"), hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    fn told(change: fn(&mut ServerAnswer)) -> Vec<(&'static str, CheckLevel)> {
        let time = |second| Timestamp::from_second(second).unwrap();
        let server = pb::Server {
            version: concat!("gimbal-writer/", env!("CARGO_PKG_VERSION")).into(),
            clock_ms: 1_000_500,
            caller: Some(pb::Caller { names: vec!["spiffe://a/admin".into()], only: String::new() }),
            rights: Some(pb::Rights::default()),
        };
        let mut one = ServerAnswer { server, asked: time(1000), answered: time(1001) };
        change(&mut one);
        let results = results(&one, "https://a:1", true);
        results.into_iter().filter(|one| one.level != CheckLevel::Ok).map(|one| (one.id, one.level)).collect()
    }

    #[test]
    fn each_fact_has_a_check_of_its_own() {
        type Change = fn(&mut ServerAnswer);
        let missing =
            |one: &mut ServerAnswer| one.server.rights.as_mut().unwrap().missing = vec!["list services".into()];
        let cases: [(Change, &[(&str, CheckLevel)]); 9] = [
            (|_| (), &[]),
            (|one| one.server.caller.as_mut().unwrap().only = "a".into(), &[("client.identity", CheckLevel::Warn)]),
            (|one| one.server.caller = None, &[("client.identity", CheckLevel::Skip)]),
            (|one| one.server.version = "gimbal-writer/99.9.0".into(), &[("server.version", CheckLevel::Fail)]),
            (|one| one.server.clock_ms = 1_006_500, &[("server.clock", CheckLevel::Warn)]),
            (|one| one.server.clock_ms = 994_500, &[("server.clock", CheckLevel::Warn)]),
            (missing, &[("server.rights", CheckLevel::Fail)]),
            (|one| one.server.rights.as_mut().unwrap().unknown = "503".into(), &[("server.rights", CheckLevel::Warn)]),
            (|one| one.server.rights = None, &[("server.rights", CheckLevel::Skip)]),
        ];
        for (place, (change, expected)) in cases.into_iter().enumerate() {
            assert_eq!(told(change), expected, "case {place}");
        }
    }

    #[test]
    fn a_slow_answer_is_no_wrong_clock() {
        for (asked, answered, clock_ms, expected) in [
            (1000, 1009, 1_000_000, 0),
            (1000, 1009, 1_009_000, 0),
            (1000, 1009, 1_010_500, 1500),
            (1000, 1009, 998_500, -1500),
        ] {
            let time = |second| Timestamp::from_second(second).unwrap();
            let server = pb::Server { clock_ms, ..Default::default() };
            assert_eq!(ahead(&ServerAnswer { server, asked: time(asked), answered: time(answered) }), expected);
        }
        let (exact, far) = (clock("server.clock", "a", -5000), clock("server.clock", "a", -7000));
        assert_eq!((exact.level, far.found.as_str()), (CheckLevel::Ok, "its clock is 7s behind"));
    }

    #[test]
    fn where_all_is_one_backend_its_certificate_is_the_right_one() {
        let caller = pb::Caller { names: vec!["a.example".into()], only: "a".into() };
        assert_eq!(identity(Some(&caller), "https://a:1", false).level, CheckLevel::Ok);
        let words = stranger("https://a:1", "neither an admin's nor a backend's", &["b.example".into()]);
        assert!(words.level == CheckLevel::Fail && words.found.ends_with("the certificate has b.example"));
    }
}
