//! Lists, page by page, from a fake cloud with faults that a real one cannot be made to have.

use std::time::Duration;

use crate::common::{cloud_with, connect, credentials, list, load_balancing, options};
use gimbal_openstack_client::{
    CallKind, CallOutcome, ClientOptions, Cloud, Dialect, Error, Lookup, RawQuery, ServiceType, TokenScope,
};
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault, Paging};
use serde_json::json;

const LISTS: &str = "GET /v2/lbaas/loadbalancers";

#[tokio::test]
async fn every_page_asks_for_the_same() {
    let (fake, cloud) = cloud_with(8).await;
    fake.set(|cloud| {
        cloud.project("p2", "beta");
        cloud.load_balancer("p2", "foreign", "x");
        cloud.global = true;
    });
    let rows = load_balancing(&cloud).await.load_balancers(Some("p1")).await.unwrap().rows;
    assert_eq!(rows.len(), 8);
    let calls: Vec<_> = fake.calls().into_iter().filter(|call| call.starts_with(LISTS)).collect();
    let query = "fields=id&fields=name&fields=project_id&fields=tenant_id&fields=admin_state_up\
                 &fields=provisioning_status&fields=listeners&fields=pools&project_id=p1&limit=3";
    let expected = ["", "&marker=lb2", "&marker=lb5"].map(|marker| format!("{LISTS}?{query}{marker}"));
    assert_eq!(calls, expected);
    // The token sees other projects' objects, too.
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb2 lb3 lb4 lb5 lb6 lb7 foreign");
}

/// Keystone 27 and later return at most 1,000 projects, by ID, and say so only if a page is requested.
#[tokio::test]
async fn every_project_is_listed_though_keystone_cuts_in_silence() {
    for (paged, projects) in [(true, 6), (true, 4), (true, 0), (false, 6)] {
        let (fake, cloud) = cloud_with(0).await;
        fake.set(|cloud| {
            cloud.global = true;
            cloud.projects_max = 4;
            cloud.projects_paged = paged;
            (0..projects).for_each(|n| cloud.project(&format!("x{n}"), &format!("name {n}")));
        });
        let session = cloud.session(&TokenScope::Project("p1".into()));
        let found = session.all_projects().await.unwrap();
        assert_eq!((found.rows.len(), found.server_time.is_some()), (projects + 1, true), "{paged}");
    }
}

#[tokio::test]
async fn a_project_that_goes_between_two_pages_begins_the_list_anew() {
    let (fake, cloud) = cloud_with(0).await;
    fake.set(|cloud| {
        cloud.global = true;
        cloud.projects_max = 2;
        (0..3).for_each(|n| cloud.project(&format!("x{n}"), "x"));
    });
    let session = cloud.session(&TokenScope::Project("p1".into()));
    session.roles().await.unwrap();
    fake.fail(Fault::on("/v3/projects").with_marker().times(1).change(|cloud| {
        cloud.projects.retain(|project| project["id"] != "x0");
    }));
    let found = session.all_projects().await.unwrap();
    assert_eq!(found.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["p1", "x1", "x2"]);
    // A list that a Keystone without pagination truncates is an error.
    fake.set(|cloud| {
        cloud.projects_paged = false;
        cloud.projects_truncated = true;
    });
    assert!(matches!(session.all_projects().await, Err(Error::Cut { .. })));
}

/// The server is restarted, or a proxy finds no server behind it.
#[tokio::test]
async fn a_server_that_is_away_for_a_moment_is_asked_once_more() {
    for status in [502, 503] {
        let (fake, cloud) = cloud_with(1).await;
        fake.fail(Fault::on("/loadbalancers").times(1).status(status));
        assert_eq!(list(&cloud).await.unwrap(), "lb0");
        fake.forget_calls();
        fake.fail(Fault::on("/loadbalancers").status(status));
        assert!(matches!(list(&cloud).await, Err(Error::Server { .. })));
        assert_eq!(fake.count(LISTS), 2);
    }
}

/// A server in trouble does not get every call twice, and after a restart all waiting calls are repeated at once.
#[tokio::test]
async fn of_many_calls_one_finds_out_whether_a_server_is_back() {
    let (fake, cloud) = cloud_with(1).await;
    let session = cloud.session(&TokenScope::Project("p1".into()));
    session.roles().await.unwrap();
    let nine = async || futures::future::join_all((0..9).map(|_| list(&cloud))).await;
    fake.fail(Fault::on("/loadbalancers").status(503));
    fake.forget_calls();
    assert!(nine().await.iter().all(Result::is_err));
    assert_eq!(fake.count(LISTS), 10);
    // No call is repeated before the next round.
    assert!(nine().await.iter().all(Result::is_err));
    assert_eq!(fake.count(LISTS), 19);
    cloud.begin_round();
    fake.heal();
    fake.fail(Fault::on("/loadbalancers").times(9).status(503));
    let begun = std::time::Instant::now();
    assert!(nine().await.iter().all(Result::is_ok));
    assert_eq!(fake.count(LISTS), 37);
    // All calls together wait one second, not one each.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A gateway that has lost its route says nothing about what is behind it.
#[tokio::test]
async fn an_object_is_gone_only_if_its_service_says_so() {
    let (fake, cloud) = cloud_with(1).await;
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let at = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
    let read =
        async |id: &str| session.row(&at, &RawQuery::new("loadbalancer", "loadbalancer", &["loadbalancers", id])).await;
    assert_eq!(read("lb0").await.unwrap().unwrap()["id"], "lb0");
    assert_eq!(read("none").await.unwrap(), None);
    for page in ["", "<html>404 Not Found</html>", r#"{"error_msg":"404 Route Not Found"}"#] {
        fake.fail(Fault::on("/loadbalancers/lb0").text(404, page));
        let answer = read("lb0").await;
        assert!(matches!(answer, Err(Error::Refused { .. })), "{page}: {answer:?}");
    }
}

#[tokio::test]
async fn a_page_that_is_full_and_last_costs_one_more() {
    let (fake, cloud) = cloud_with(6).await;
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb2 lb3 lb4 lb5");
    assert_eq!(fake.count(LISTS), 3);
}

#[tokio::test]
async fn a_servers_own_maximum_is_not_the_end() {
    let (fake, cloud) = cloud_with(5).await;
    fake.set(|cloud| cloud.page_max = 2);
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb2 lb3 lb4");
    assert_eq!(fake.count(LISTS), 3);
}

#[tokio::test]
async fn a_server_without_pages_is_asked_no_more_than_needed() {
    for (count, calls) in [(2, 1), (3, 2), (5, 1)] {
        let (fake, cloud) = cloud_with(count).await;
        fake.set(|cloud| cloud.paging = Paging::None);
        assert_eq!(list(&cloud).await.unwrap().split(' ').count(), count);
        assert_eq!(fake.count(LISTS), calls, "{count} rows");
    }
}

#[tokio::test]
async fn a_page_that_repeats_is_an_error() {
    let (fake, cloud) = cloud_with(5).await;
    fake.set(|cloud| cloud.paging = Paging::Repeating);
    let error = list(&cloud).await.unwrap_err();
    assert!(matches!(error, Error::RepeatedPage { .. }), "{error}");
    assert_eq!(fake.count(LISTS), 2);
}

#[tokio::test]
async fn a_marker_that_vanished_begins_the_list_anew() {
    let (fake, cloud) = cloud_with(5).await;
    // The last row of the first page is deleted, and another is added, before the second page is requested.
    fake.fail(Fault::on("/loadbalancers").with_marker().times(1).change(|cloud| {
        cloud.remove("lb2");
        cloud.load_balancer("p1", "new", "x");
    }));
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb3 lb4 new");
    assert_eq!(cloud.calls().count(CallKind::LoadBalancers, CallOutcome::InvalidMarker), 1);
}

/// neutron-lbaas answers a deleted marker with an empty page, as after the last row.
#[tokio::test]
async fn a_marker_that_vanished_without_a_word_begins_the_list_anew() {
    let (fake, _) = cloud_with(5).await;
    fake.set(|cloud| cloud.octavia = false);
    let cloud = connect(&fake).await.unwrap();
    fake.fail(Fault::on("/loadbalancers").with_marker().times(1).change(|cloud| cloud.remove("lb2")));
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb3 lb4");
    // If the last page is full, the row before the empty page still exists, so the list has ended.
    fake.set(|cloud| cloud.remove("lb4"));
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb3");
}

#[tokio::test]
async fn markers_that_always_vanish_are_an_error_in_the_end() {
    let (fake, cloud) = cloud_with(5).await;
    fake.fail(Fault::on("/loadbalancers").marker_gone());
    let error = list(&cloud).await.unwrap_err();
    assert!(matches!(error, Error::InvalidMarker { .. }), "{error}");
    assert_eq!(fake.count(LISTS), 8);
}

#[tokio::test]
async fn a_list_that_fails_in_the_middle_is_no_list() {
    let (fake, cloud) = cloud_with(5).await;
    fake.fail(Fault::on("/loadbalancers").with_marker().status(500));
    let error = list(&cloud).await.unwrap_err();
    assert!(matches!(error, Error::Server { status: 500, .. }), "{error}");
    let url = fake.url().replace("/v3", "");
    assert_eq!(error.to_string(), format!("server error: GET {url}/v2/lbaas/loadbalancers: 500 Internal Server Error"));
    fake.heal();
    list(&cloud).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_is_tried_once_more() {
    let (fake, cloud) = cloud_with(1).await;
    fake.fail(Fault::on("/loadbalancers").times(1).cut());
    assert_eq!(list(&cloud).await.unwrap(), "lb0");
    assert_eq!((fake.count(LISTS), cloud.calls().retries()), (2, 1));
    fake.forget_calls();
    fake.fail(Fault::on("/loadbalancers").cut());
    assert!(matches!(list(&cloud).await, Err(Error::Unreachable { .. })));
    assert_eq!(fake.count(LISTS), 2);
}

#[tokio::test]
async fn a_server_that_says_when_is_waited_for() {
    let (fake, cloud) = cloud_with(1).await;
    fake.fail(Fault::on("/loadbalancers").times(1).retry_after("1"));
    assert_eq!(list(&cloud).await.unwrap(), "lb0");
    assert_eq!(cloud.calls().waited(), Duration::from_secs(1));
    assert_eq!(cloud.calls().count(CallKind::LoadBalancers, CallOutcome::RateLimited), 1);
}

#[tokio::test]
async fn a_wait_that_is_too_long_or_unknown_is_an_error_at_once() {
    let (fake, cloud) = cloud_with(1).await;
    for (fault, expected) in [
        (Fault::on("/loadbalancers").retry_after("3600"), Some(Duration::from_secs(3600))),
        (Fault::on("/loadbalancers").status(429), None),
    ] {
        fake.heal();
        fake.fail(fault);
        let error = list(&cloud).await.unwrap_err();
        assert!(matches!(error, Error::RateLimited { .. }), "{error}");
        assert_eq!(error.retry_after(), expected);
    }
    assert_eq!((fake.count(LISTS), cloud.calls().waited()), (2, Duration::ZERO));
}

#[tokio::test]
async fn waits_are_bounded_all_together() {
    let (fake, _) = cloud_with(1).await;
    let options = ClientOptions { longest_wait: Duration::from_millis(1200), ..options() };
    let cloud = Cloud::connect(credentials(&fake.url(), &[]), options).await.unwrap();
    fake.fail(Fault::on("/loadbalancers").retry_after("0"));
    assert!(matches!(list(&cloud).await, Err(Error::RateLimited { .. })));
    assert_eq!(fake.count(LISTS), 3);
}

#[tokio::test]
async fn pages_that_are_too_slow_become_smaller_and_stay_so() {
    let (fake, _) = cloud_with(5).await;
    let options = ClientOptions { page: 200, ..options() };
    let cloud = Cloud::connect(credentials(&fake.url(), &[]), options).await.unwrap();
    fake.fail(Fault::on("/loadbalancers").larger_than(100).hang());
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb2 lb3 lb4");
    assert_eq!(list(&cloud).await.unwrap(), "lb0 lb1 lb2 lb3 lb4");
    let limits: Vec<_> =
        fake.calls().iter().filter_map(|call| call.rsplit_once("limit=")?.1.parse::<u32>().ok()).collect();
    assert_eq!(limits, [200, 100, 100]);
    // A gateway's time-out counts, too.
    fake.fail(Fault::on("/pools").larger_than(50).status(504));
    assert!(load_balancing(&cloud).await.pools(None).await.unwrap().rows.is_empty());
}

#[tokio::test]
async fn a_server_that_hangs_is_left_after_three_tries() {
    let (fake, _) = cloud_with(5).await;
    let options = ClientOptions { page: 1000, list_timeout: Duration::from_millis(200), ..options() };
    let cloud = Cloud::connect(credentials(&fake.url(), &[]), options).await.unwrap();
    fake.fail(Fault::on("/loadbalancers").hang());
    let error = list(&cloud).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(fake.count(LISTS), 3);
}

/// Whoever reads rows as JSON reads the same lists.
#[tokio::test]
async fn pages_of_raw_rows_become_smaller_as_well() {
    let (fake, _) = cloud_with(5).await;
    let options = ClientOptions { page: 1000, ..options() };
    let cloud = Cloud::connect(credentials(&fake.url(), &[]), options).await.unwrap();
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let octavia = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
    let query = RawQuery::new("loadbalancer", "loadbalancers", &["loadbalancers"]);
    fake.fail(Fault::on("/loadbalancers").larger_than(500).hang());
    for _ in 0..2 {
        assert_eq!(session.rows::<serde_json::Value>(&octavia, &query).await.unwrap().rows.len(), 5);
    }
    let lists = fake.calls().into_iter().filter(|call| call.starts_with(LISTS));
    assert_eq!(lists.collect::<Vec<_>>(), [1000, 500, 500].map(|limit| format!("{LISTS}?limit={limit}")));
    // One that hangs is left after three tries.
    fake.fail(Fault::on("/pools").hang());
    let error =
        session.rows::<serde_json::Value>(&octavia, &RawQuery::new("pool", "pools", &["pools"])).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(fake.count("GET /v2/lbaas/pools"), 3);
}

#[tokio::test]
async fn one_load_balancer_is_there_or_gone_or_not_ours() {
    let (fake, cloud) = cloud_with(1).await;
    fake.set(|cloud| {
        cloud.project("p2", "beta");
        cloud.load_balancer("p2", "foreign", "x");
        cloud.global = true;
    });
    let load_balancing = load_balancing(&cloud).await;
    let found = async |id| load_balancing.load_balancer(id).await.unwrap();
    assert!(matches!(found("foreign").await, Lookup::Found(row) if row.id.as_str() == "foreign"));
    assert_eq!(found("none").await, Lookup::Gone);
    fake.set(|cloud| cloud.global = false);
    assert_eq!(found("foreign").await, Lookup::Forbidden);
    assert_eq!(list(&cloud).await.unwrap(), "lb0");
    for odd in ["", ".", ".."] {
        assert!(matches!(load_balancing.load_balancer(odd).await, Err(Error::Refused { .. })), "{odd:?}");
    }
    load_balancing.load_balancer("a/../b?c").await.unwrap();
    assert_eq!(fake.count("GET /v2/lbaas/loadbalancers/a%2F..%2Fb%3Fc"), 1);
}

#[tokio::test]
async fn members_of_a_pool_and_of_none() {
    let (fake, cloud) = cloud_with(1).await;
    fake.set(|cloud| {
        cloud.pool("lb0", "pool");
        (1..=4).for_each(|n| cloud.member("pool", &format!("m{n}"), &format!("10.0.0.{n}"), 80));
    });
    let load_balancing = load_balancing(&cloud).await;
    let members = load_balancing.members("pool").await.unwrap();
    assert_eq!(members.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["m1", "m2", "m3", "m4"]);
    assert!(members.server_time.is_some());
    assert!(matches!(load_balancing.members("none").await, Err(Error::NotFound { .. })));
    // The pool is deleted between two pages of its members: the result is an error and not a partial list.
    fake.fail(Fault::on("/members").with_marker().times(1).change(|cloud| cloud.remove("pool")));
    assert!(matches!(load_balancing.members("pool").await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_reported_by_itself() {
    let (fake, cloud) = cloud_with(2).await;
    fake.set(|cloud| cloud.change("lb0", "listeners", json!("none")));
    let list = load_balancing(&cloud).await.load_balancers(None).await.unwrap();
    assert_eq!(list.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["lb1"]);
    assert_eq!(list.unreadable.len(), 1);
    assert_eq!(list.unreadable[0].id.as_deref(), Some("lb0"));
}

#[tokio::test]
async fn octavia_says_what_it_speaks_without_a_token() {
    let (fake, cloud) = cloud_with(0).await;
    let load_balancing = load_balancing(&cloud).await;
    assert_eq!(load_balancing.dialect(), Dialect::Octavia);
    fake.set(|cloud| cloud.revoke_tokens());
    assert_eq!(load_balancing.version().await.unwrap(), Some((2, 26)));
    assert_eq!(cloud.calls().tokens_rejected(), 0);
}

#[tokio::test]
async fn neutron_lbaas_has_other_paths_and_filters() {
    let (fake, _) = cloud_with(1).await;
    fake.set(|cloud| {
        cloud.octavia = false;
        cloud.paging = Paging::None;
        cloud.pool("lb0", "pool");
        cloud.member("pool", "m", "10.0.0.1", 80);
    });
    let cloud = connect(&fake).await.unwrap();
    let load_balancing = load_balancing(&cloud).await;
    assert_eq!(load_balancing.dialect(), Dialect::NeutronLbaas);
    assert_eq!(load_balancing.version().await.unwrap(), None);
    let pools = load_balancing.pools(Some("p1")).await.unwrap().rows;
    assert_eq!((pools[0].id.as_str(), pools[0].updated_at), ("pool", None));
    assert_eq!(load_balancing.load_balancers(None).await.unwrap().rows[0].project.as_str(), "p1");
    assert_eq!(load_balancing.members("pool").await.unwrap().rows.len(), 1);
    let call = fake.calls().into_iter().find(|call| call.starts_with("GET /v2.0/lbaas/pools?")).unwrap();
    assert!(call.contains("&tenant_id=p1&limit=3"), "{call}");
}

#[tokio::test]
async fn a_redirect_does_not_carry_the_token_away() {
    let (fake, cloud) = cloud_with(1).await;
    let other = FakeOpenStack::start().await.unwrap();
    fake.fail(Fault::on("/loadbalancers").redirect(&other.url()));
    let error = list(&cloud).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(other.calls().is_empty());
}

#[tokio::test]
async fn what_went_over_the_wire_is_counted() {
    let (fake, cloud) = cloud_with(8).await;
    list(&cloud).await.unwrap();
    let session = cloud.session(&TokenScope::Unscoped);
    session.all_projects().await.unwrap_err();
    let calls = cloud.calls();
    assert_eq!(calls.total() as usize, fake.calls().len());
    let lists = calls.sum(CallKind::LoadBalancers);
    assert_eq!((lists.calls, calls.count(CallKind::LoadBalancers, CallOutcome::Ok)), (3, 3));
    assert!(lists.bytes > 1000 && !lists.time.is_zero(), "{lists:?}");
    assert_eq!((calls.tokens_issued(), calls.count(CallKind::Projects, CallOutcome::Forbidden)), (2, 1));
}
