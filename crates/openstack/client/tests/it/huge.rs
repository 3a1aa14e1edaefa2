//! Answers that fill the memory of whoever reads them to the end.

use std::time::Duration;

use futures::future::join_all;
use gimbal_openstack_client::{ClientOptions, Cloud, Error, RawQuery, ServiceType, TokenScope};
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};

use crate::common::{credentials, list};

const MIB: u64 = 1 << 20;

#[allow(clippy::unwrap_used)]
async fn cloud(page: u32) -> (FakeOpenStack, Cloud) {
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| {
        cloud.project("p1", "alpha");
        cloud.load_balancer("p1", "lb0", "web");
    });
    let options = ClientOptions { page, ..ClientOptions::default() };
    let cloud = Cloud::connect(credentials(&fake.url(), &[]), options).await.unwrap();
    list(&cloud).await.unwrap();
    (fake, cloud)
}

/// Returns the bytes that answers about load balancers had so far.
fn received(cloud: &Cloud) -> u64 {
    cloud.calls().by_labels().values().map(|totals| totals.bytes).sum()
}

#[tokio::test]
async fn a_body_without_end_is_given_up_and_the_request_is_named() {
    let (fake, cloud) = cloud(200).await;
    fake.fail(Fault::on("/loadbalancers").endless(200));
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let octavia = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
    let query = RawQuery::new("loadbalancer", "loadbalancers", &["loadbalancers"]);
    let before = received(&cloud);
    // Many at a time, as a writer reads: none is read for longer than a page may be.
    let reads = join_all((0..8).map(|_| session.rows::<serde_json::Value>(&octavia, &query)));
    for result in tokio::time::timeout(Duration::from_secs(60), reads).await.unwrap() {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
        let words = error.to_string();
        assert!(words.contains("GET ") && words.contains("/loadbalancers: longer than 16 MiB"), "{words}");
    }
    // 200, 100 and 50 rows a page.
    let most = 8 * 3 * 17 * MIB;
    assert!(received(&cloud) - before <= most, "{} bytes", received(&cloud) - before);
}

#[tokio::test]
async fn a_page_that_is_too_large_is_read_in_smaller_ones() {
    let (fake, cloud) = cloud(200).await;
    fake.fail(Fault::on("/loadbalancers").larger_than(100).endless(200));
    fake.forget_calls();
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let octavia = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
    let query = RawQuery::new("loadbalancer", "loadbalancers", &["loadbalancers"]);
    let rows = session.rows::<serde_json::Value>(&octavia, &query).await.unwrap().rows;
    assert_eq!(rows.len(), 1);
    let calls: Vec<String> = fake.calls().into_iter().filter(|call| call.contains("/loadbalancers")).collect();
    assert_eq!(calls, ["limit=200", "limit=100"].map(|page| format!("GET /v2/lbaas/loadbalancers?{page}")));
    // The other kind of lists remembers it.
    assert_eq!(list(&cloud).await.unwrap(), "lb0");
}

/// What is too large is known at once, other than what is too slow.
#[tokio::test]
async fn a_page_that_is_too_large_is_tried_in_every_size_by_both_kinds_of_lists() {
    for is_raw in [false, true] {
        let (fake, cloud) = cloud(1000).await;
        fake.fail(Fault::on("/loadbalancers").larger_than(50).endless(200));
        fake.forget_calls();
        if is_raw {
            let session = cloud.session(&TokenScope::Project("p1".into()));
            let octavia = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
            let query = RawQuery::new("loadbalancer", "loadbalancers", &["loadbalancers"]);
            assert_eq!(session.rows::<serde_json::Value>(&octavia, &query).await.unwrap().rows.len(), 1);
        } else {
            assert_eq!(list(&cloud).await.unwrap(), "lb0");
        }
        let limit = |call: &String| call.rsplit_once("limit=").and_then(|(_, limit)| limit.parse::<u32>().ok());
        let limits: Vec<u32> = fake.calls().iter().filter_map(limit).collect();
        assert_eq!(limits, [1000, 500, 250, 125, 62, 50], "raw: {is_raw}");
    }
}

#[tokio::test]
async fn of_a_refusal_only_the_beginning_is_read() {
    let (fake, cloud) = cloud(200).await;
    fake.fail(Fault::on("/loadbalancers").endless(500));
    let error = tokio::time::timeout(Duration::from_secs(20), list(&cloud)).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Server { status: 500, .. }), "{error:?}");
}
