use std::time::Duration;

use gimbal_octavia_rows::{CompleteList, Id};
use gimbal_octavia_rows::{Listener, LoadBalancer, Member, Pool, Project};
use gimbal_openstack_source::ListScope;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn rows<T: DeserializeOwned>(rows: Value) -> CompleteList<T> {
    CompleteList::from(serde_json::from_value::<Vec<T>>(rows).unwrap())
}

fn id(text: &str) -> Id {
    Id::try_from(text).unwrap()
}

/// Answers for a cloud of two projects with a load balancer each, in either mode. Queries for which `broken` returns
/// true fail.
fn answer(ask: &Query, broken: &dyn Fn(&Query) -> bool) -> (Reply, bool) {
    let fails = broken(ask);
    let of = |whose: &ListScope| match whose {
        ListScope::AllProjects => vec!["a", "b"],
        ListScope::Project(id) if id.as_str() == "pa" => vec!["a"],
        ListScope::Project(_) => vec!["b"],
    };
    let each = |whose: &ListScope, row: &dyn Fn(&str) -> Value| Value::Array(of(whose).into_iter().map(row).collect());
    let why = || "500".to_owned();
    let answer = match ask.clone() {
        Query::Projects if fails => Reply::Projects(Err(why())),
        Query::Projects => Reply::Projects(Ok(rows::<Project>(json!([
            {"id": "pa", "name": "alpha"}, {"id": "pb", "name": "beta"}
        ])))),
        Query::LoadBalancers(whose) if fails => Reply::LoadBalancers(whose, Err(why())),
        Query::LoadBalancers(whose) => {
            let row = |n: &str| json!({"id": format!("lb{n}"), "project_id": format!("p{n}"), "name": "web"});
            let list = rows::<LoadBalancer>(each(&whose, &row));
            Reply::LoadBalancers(whose, Ok(list))
        }
        Query::Listeners(whose) => {
            let row = |n: &str| {
                json!({"id": format!("li{n}"), "protocol": "HTTP", "protocol_port": 80,
                    "default_pool_id": format!("po{n}"), "loadbalancers": [{"id": format!("lb{n}")}], "l7policies": []})
            };
            let list = rows::<Listener>(each(&whose, &row));
            Reply::Listeners(whose, Ok(list))
        }
        Query::Pools(whose) => {
            let row = |n: &str| {
                json!({"id": format!("po{n}"), "protocol": "HTTP", "members": [{"id": format!("m{n}")}],
                    "loadbalancers": [{"id": format!("lb{n}")}]})
            };
            let list = rows::<Pool>(each(&whose, &row));
            Reply::Pools(whose, Ok(list))
        }
        Query::Members(whose, pool) => {
            let row = json!([{"id": pool.as_str().replace("po", "m"), "address": "10.0.0.1", "protocol_port": 80}]);
            Reply::Members(whose, pool, Ok(rows::<Member>(row)))
        }
        other => panic!("{other:?} was not expected"),
    };
    (answer, fails)
}

fn poll(seen: &mut PollState, now: Instant, broken: &dyn Fn(&Query) -> bool) -> PollSummary {
    seen.begin(now);
    while let Some(ask) = seen.next_query() {
        let (answer, failed) = answer(&ask, broken);
        seen.answer(answer, failed, now);
    }
    assert!(seen.is_done());
    seen.finish(now)
}

fn seen(mode: ListMode) -> PollState {
    let options = PollOptions { sweep: None, ..PollOptions::default() };
    let mut seen = PollState::new("http://keystone/v3 r".to_owned(), options, INTERVAL);
    again(&mut seen, mode);
    seen
}

fn again(seen: &mut PollState, mode: ListMode) {
    seen.begin_anew(CloudPoller::new(mode, seen.options.clone()));
}

const INTERVAL: Duration = Duration::from_secs(30);

fn ages(seen: &PollState, now: Instant) -> Vec<Option<u64>> {
    seen.freshness(now).iter().map(|freshness| freshness.age.map(|age| age.as_secs())).collect()
}

fn never(_: &Query) -> bool {
    false
}

#[test]
fn a_complete_poll_tells_everything_once() {
    let mut seen = seen(ListMode::Bulk);
    assert_eq!(seen.coverage(), Coverage::Nothing);
    let now = Instant::now();
    let summary = poll(&mut seen, now, &never);
    assert_eq!((summary.result, summary.needed), (PollResult::Complete, 2));
    let keys: Vec<String> = seen.take_changed().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["alpha/web-lba", "beta/web-lbb"]);
    assert_eq!((seen.coverage(), seen.trouble()), (Coverage::Complete, None));
    assert_eq!(poll(&mut seen, now, &never).result, PollResult::Complete);
    assert!(seen.take_changed().is_empty());
}

#[test]
fn a_list_that_fails_is_stale_and_unknown_and_changes_nothing() {
    let mut seen = seen(ListMode::Bulk);
    let start = Instant::now();
    poll(&mut seen, start, &never);
    seen.take_changed();
    let later = start + INTERVAL;
    let failing = |ask: &Query| matches!(ask, Query::LoadBalancers(_));
    let summary = poll(&mut seen, later, &failing);
    assert_eq!(summary.result, PollResult::Failed);
    assert_eq!(summary.new_troubles.len(), 1);
    assert!(seen.take_changed().is_empty());
    // In the order of `KINDS`: projects are not queried in each poll, and a poll that showed nothing needed no members.
    assert_eq!(ages(&seen, later), [Some(30), Some(30), Some(0), Some(0), Some(30)]);
    assert!(seen.trouble().unwrap().contains("load balancers failed: 500"), "{:?}", seen.trouble());
    assert_eq!(seen.coverage(), Coverage::Complete, "one poll that fails is no news");
    poll(&mut seen, later, &failing);
    assert_eq!(seen.coverage(), Coverage::Complete, "nor are two that follow each other at once");
    poll(&mut seen, later + 2 * INTERVAL, &failing);
    let Coverage::Unknown(parts) = seen.coverage() else { panic!("{:?}", seen.coverage()) };
    assert_eq!(parts[0].0, Scope::All);
    let again = poll(&mut seen, later, &|ask| matches!(ask, Query::LoadBalancers(_)));
    assert!(again.new_troubles.is_empty(), "reported once for each change: {again:?}");
    assert_eq!(poll(&mut seen, later, &never).result, PollResult::Complete);
    assert_eq!((seen.coverage(), seen.trouble()), (Coverage::Complete, None));
    assert_eq!(ages(&seen, later)[1..], [Some(0); 4]);
}

#[test]
fn a_list_of_projects_that_fails_is_a_trouble_though_all_else_is_known() {
    let mut seen = seen(ListMode::PerProject);
    let now = Instant::now();
    poll(&mut seen, now, &never);
    assert_eq!(seen.trouble(), None);
    poll(&mut seen, now + INTERVAL, &|ask| matches!(ask, Query::Projects));
    assert_eq!(seen.coverage(), Coverage::Complete);
    assert_eq!(seen.trouble().as_deref(), Some("the list of projects failed: 500"));
    poll(&mut seen, now + INTERVAL, &never);
    assert_eq!(seen.trouble(), None);
}

#[test]
fn a_project_that_fails_is_its_own_affair() {
    let mut seen = seen(ListMode::PerProject);
    let now = Instant::now();
    let broken = |ask: &Query| *ask == Query::LoadBalancers(ListScope::Project(id("pb")));
    assert_eq!(poll(&mut seen, now, &broken).result, PollResult::Partial);
    let keys: Vec<String> = seen.take_changed().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["alpha/web-lba"]);
    let Coverage::Unknown(parts) = seen.coverage() else { panic!("{:?}", seen.coverage()) };
    assert_eq!(parts[0].0, Scope::Namespaces(vec!["beta".into()]));
    assert_eq!(ages(&seen, now)[..3], [Some(0), None, Some(0)], "one list of load balancers is missing");
}

/// A namespace that was listed before is reported as unknown after the same time as the whole cloud, any other at once.
#[test]
fn a_project_is_waited_for_like_the_cloud() {
    let mut seen = seen(ListMode::PerProject);
    let start = Instant::now();
    poll(&mut seen, start, &never);
    let broken = |ask: &Query| *ask == Query::LoadBalancers(ListScope::Project(id("pb")));
    for (poll_at, complete) in [(1, true), (2, true), (3, false), (4, false)] {
        assert_eq!(poll(&mut seen, start + poll_at * INTERVAL, &broken).result, PollResult::Partial);
        assert_eq!(seen.coverage() == Coverage::Complete, complete, "{poll_at}");
    }
    poll(&mut seen, start + 5 * INTERVAL, &never);
    assert_eq!(seen.coverage(), Coverage::Complete);
}

/// With servers that are slow to fail, or many projects, one poll takes minutes.
#[test]
fn one_poll_that_fails_slowly_is_enough() {
    for (mode, takes, complete) in [
        (ListMode::Bulk, INTERVAL * 2, false),
        (ListMode::Bulk, INTERVAL, true),
        (ListMode::PerProject, INTERVAL * 2, false),
        (ListMode::PerProject, INTERVAL, true),
    ] {
        let mut seen = seen(mode);
        let start = Instant::now();
        poll(&mut seen, start, &never);
        let broken = |ask: &Query| *ask == Query::LoadBalancers(ListScope::Project(id("pb"))) || mode == ListMode::Bulk;
        seen.begin(start + INTERVAL);
        while let Some(ask) = seen.next_query() {
            let (answer, failed) = answer(&ask, &|ask| broken(ask) && matches!(ask, Query::LoadBalancers(_)));
            seen.answer(answer, failed, start + INTERVAL + takes);
        }
        seen.finish(start + INTERVAL + takes);
        assert_eq!(seen.coverage() == Coverage::Complete, complete, "{mode:?} {takes:?}");
    }
}

/// A project that left the list before the start is not gone for the writer.
#[test]
fn the_rest_is_not_known_for_a_while_with_a_token_for_each_project() {
    for (mode, known_at_once) in [(ListMode::PerProject, false), (ListMode::Bulk, true)] {
        let mut seen = seen(mode);
        let start = Instant::now();
        poll(&mut seen, start, &never);
        assert_eq!((seen.coverage(), seen.is_whole()), (Coverage::Complete, true));
        assert_eq!(seen.rest_is_known(), known_at_once, "{mode:?}");
        poll(&mut seen, start + PollOptions::default().project_hold, &never);
        assert!(seen.rest_is_known(), "{mode:?}");
    }
}

#[test]
fn a_question_without_an_answer_leaves_its_kind_stale() {
    let mut seen = seen(ListMode::Bulk);
    let now = Instant::now();
    seen.begin(now);
    while let Some(ask) = seen.next_query() {
        if !matches!(ask, Query::Pools(_)) {
            let (answer, failed) = answer(&ask, &never);
            seen.answer(answer, failed, now);
        }
    }
    assert!(!seen.is_done());
    assert_eq!(seen.finish(now).result, PollResult::Failed);
    assert_eq!(ages(&seen, now), [Some(0), Some(0), Some(0), None, None]);
}

#[test]
fn a_cloud_that_cannot_be_entered_loses_nothing_and_another_mode_begins_anew() {
    let mut seen = seen(ListMode::PerProject);
    let now = Instant::now();
    poll(&mut seen, now, &never);
    assert_eq!(seen.take_changed().len(), 2);
    seen.entry_failed("invalid credentials".to_owned());
    assert_eq!(seen.trouble().as_deref(), Some("invalid credentials"));
    assert_eq!(seen.coverage(), Coverage::Unknown(vec![(Scope::All, "invalid credentials".to_owned())]));
    assert!(seen.take_changed().is_empty());
    again(&mut seen, ListMode::Bulk);
    assert_eq!(seen.coverage(), Coverage::Nothing);
    poll(&mut seen, now, &never);
    assert_eq!(seen.take_changed().len(), 2, "a stream that begins anew gets everything");
}

#[test]
fn a_slow_project_delays_no_other() {
    let mut seen = seen(ListMode::PerProject);
    let now = Instant::now();
    let slow = Query::LoadBalancers(ListScope::Project(id("pb")));
    seen.begin(now);
    while let Some(ask) = seen.next_query() {
        if ask != slow {
            let (answer, failed) = answer(&ask, &never);
            seen.answer(answer, failed, now);
        }
    }
    assert!(!seen.is_done());
    let keys: Vec<String> = seen.take_changed().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["alpha/web-lba"]);
    seen.answer(answer(&slow, &never).0, false, now);
    while let Some(ask) = seen.next_query() {
        seen.answer(answer(&ask, &never).0, false, now);
    }
    assert_eq!(seen.finish(now).result, PollResult::Complete);
    assert_eq!(seen.take_changed().len(), 1);
}
