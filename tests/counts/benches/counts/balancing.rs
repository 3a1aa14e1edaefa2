//! A poll of an OpenStack cloud.

use std::time::{Duration, Instant};

use gimbal_octavia_rows::{CompleteList, Existence};
use gimbal_octavia_rows::{Listener, LoadBalancer, Member, Pool, Project};
use gimbal_openstack_source::{CloudPoller, ListMode, PollOptions, PollOutcome, Query, Reply};
use gungraun::{library_benchmark, library_benchmark_group};
use serde_json::json;

const INTERVAL: Duration = Duration::from_secs(30);

/// The content of the cloud's lists.
struct Rows {
    load_balancers: Vec<LoadBalancer>,
    listeners: Vec<Listener>,
    pools: Vec<Pool>,
}

/// Returns `count` load balancers, each with one listener, one pool and twenty members.
fn rows(count: u32) -> Rows {
    let mut rows = Rows { load_balancers: Vec::new(), listeners: Vec::new(), pools: Vec::new() };
    for n in 0..count {
        let members: Vec<_> = (0..20).map(|member| json!({"id": format!("m{n}-{member}")})).collect();
        let balancer = json!({
            "id": format!("lb{n}"), "project_id": "p", "name": format!("web {n}"),
            "listeners": [{"id": format!("l{n}")}], "pools": [{"id": format!("pool{n}")}],
            "updated_at": "2026-01-01T00:00:00",
        });
        let listener = json!({
            "id": format!("l{n}"), "protocol": "HTTP", "protocol_port": 80, "default_pool_id": format!("pool{n}"),
            "loadbalancers": [{"id": format!("lb{n}")}], "l7policies": [], "updated_at": "2026-01-01T00:00:00",
        });
        let pool = json!({
            "id": format!("pool{n}"), "protocol": "HTTP", "loadbalancers": [{"id": format!("lb{n}")}],
            "members": members, "updated_at": "2026-01-01T00:00:00",
        });
        rows.load_balancers.push(serde_json::from_value(balancer).unwrap());
        rows.listeners.push(serde_json::from_value(listener).unwrap());
        rows.pools.push(serde_json::from_value(pool).unwrap());
    }
    rows
}

/// Returns the members of a pool.
fn members(pool: &str) -> Vec<Member> {
    let n: u32 = pool.trim_start_matches("pool").parse().unwrap();
    let member = |m: u32| {
        let address = format!("10.1.{n}.{}", m + 1);
        json!({"id": format!("m{n}-{m}"), "address": address, "protocol_port": 8080, "operating_status": "ONLINE"})
    };
    (0..20).map(|m| serde_json::from_value(member(m)).unwrap()).collect()
}

fn list<T>(rows: Vec<T>) -> CompleteList<T> {
    CompleteList { rows, unreadable: Vec::new(), server_time: Some("2026-06-01T00:00:00Z".parse().unwrap()) }
}

fn answer(rows: &Rows, ask: Query) -> Reply {
    let project = || serde_json::from_value::<Project>(json!({"id": "p", "name": "team"})).unwrap();
    match ask {
        Query::Projects => Reply::Projects(Ok(list(vec![project()]))),
        Query::LoadBalancers(whose) => Reply::LoadBalancers(whose, Ok(list(rows.load_balancers.clone()))),
        Query::Listeners(whose) => Reply::Listeners(whose, Ok(list(rows.listeners.clone()))),
        Query::Pools(whose) => Reply::Pools(whose, Ok(list(rows.pools.clone()))),
        Query::L7Policies(whose) => Reply::L7Policies(whose, Ok(list(Vec::new()))),
        Query::Members(whose, pool) => {
            let members = members(pool.as_str());
            Reply::Members(whose, pool, Ok(list(members)))
        }
        Query::LoadBalancer(whose, id) => Reply::LoadBalancer(whose, id, Ok(Existence::Found)),
        Query::Listener(whose, id) => Reply::Listener(whose, id, Ok(Existence::Found)),
        Query::Pool(whose, id) => Reply::Pool(whose, id, Ok(Existence::Found)),
        Query::Roles(whose) => Reply::Roles(whose, Ok(Vec::new())),
    }
}

/// Answers the poller's requests until the poll is done. Returns the outcome, and the number of requests beside the
/// lists.
fn poll(cloud: &mut CloudPoller, rows: &Rows, now: Instant) -> (PollOutcome, usize) {
    let mut members = 0;
    cloud.begin(now);
    while let Some(ask) = cloud.next_query() {
        members += usize::from(matches!(ask, Query::Members(..)));
        cloud.answer(answer(rows, ask), now);
    }
    (cloud.finish(now), members)
}

/// Returns a cloud that was polled before, and the answers of the next poll, without a change.
fn seen(count: u32) -> (CloudPoller, Vec<Reply>, Instant) {
    let (rows, now) = (rows(count), Instant::now());
    let mut cloud = CloudPoller::new(ListMode::Bulk, PollOptions { sweep: None, ..PollOptions::default() });
    let (first, read) = poll(&mut cloud, &rows, now);
    assert_eq!((first.changes.len(), read), (count as usize, count as usize));
    let (second, read) = poll(&mut cloud, &rows, now + INTERVAL);
    assert_eq!((second.changes.len(), read), (0, 0));
    let now = now + 2 * INTERVAL;
    cloud.begin(now);
    let answers = std::iter::from_fn(|| cloud.next_query()).map(|ask| answer(&rows, ask)).collect();
    (cloud, answers, now)
}

#[library_benchmark(setup = seen)]
#[bench::of_100(100)]
fn unchanged_poll((mut cloud, answers, now): (CloudPoller, Vec<Reply>, Instant)) -> (PollOutcome, CloudPoller) {
    answers.into_iter().for_each(|answer| cloud.answer(answer, now));
    (cloud.finish(now), cloud)
}

library_benchmark_group!(name = load_balancing; benchmarks = unchanged_poll);
