//! The cost of polls of a large cloud, counted and timed beside a bare loop over the same lists, and how long a change
//! takes. Counts are checked, times only printed (`--nocapture`).

mod bare;

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use gimbal_kubernetes_client::{WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::EndpointSlice;
use gimbal_testkit::openstack::{OpenStack, Options, Scale, User};
use gimbal_testkit::{TestCluster, eventually};
use gimbal_tests::{Discoverer, SOON, Scene, in_parallel, metric};
use serde_json::json;

use bare::Bare;

/// Time limit for each wait in a large cloud.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_poll_costs_a_call_a_page() {
    // Fewer than a page of each list.
    figures(Scale { projects: 5, balancers: 10, pools: 2, members: 2 }, "2s").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: run it to have the figures of docs/openstack.md"]
async fn figures_of_a_thousand_load_balancers() {
    figures(Scale::default(), "15s").await;
}

async fn figures(scale: Scale, interval: &str) {
    let options = Options { scale: Some(scale), token_cache: Some(Duration::from_secs(300)), ..Options::default() };
    let (scene, cloud) = tokio::join!(Scene::start(), OpenStack::start_with(options));
    let (scene, cloud) = (scene.unwrap(), cloud.unwrap());
    namespaces(&scene.gimbal, scale.projects).await;
    cloud.credentials(User::Admin).write_secret(&scene.path("credentials")).unwrap();
    let writer = scene.writer(&scene.config(&["osp1"], "").unwrap(), &[]).await.unwrap();
    let start =
        |flags: &[&str]| scene.openstack_discoverer("osp1", &scene.path("credentials"), writer.port, flags).unwrap();
    let balancers = scale.projects * scale.balancers;
    let pools = balancers * scale.pools;
    let pages = f64::from(balancers / 1000 + 1 + 2 * (pools / 1000 + 1));
    eprintln!("{} projects, {balancers} load balancers, {pools} listeners and pools", scale.projects);

    let bare = Bare::log_in(&cloud).await;
    let cold = bare.cold().await;
    eprintln!("bare loop, cold: {:.2} s ({} calls)", cold.0, cold.1);
    let idle = bare.idle().await;
    eprintln!("bare loop, idle: {:.2} s ({} calls)", idle.0, idle.1);

    let discoverer = start(&["--poll-interval", interval, "--sweep", "0s"]);
    let (calls, seconds) = after_polls(&discoverer, 1.0).await;
    eprintln!("discoverer, cold: {seconds:.2} s ({calls} calls)");
    // Each list, each pool's members, the projects: a page, and the empty page that ends them.
    let wanted = pages + f64::from(pools) + 2.0;
    assert!((calls - wanted).abs() < 0.5, "{calls} and not {wanted}");
    let (calls, seconds) = rest(&discoverer, pages).await;
    eprintln!("discoverer, idle without sweep: {seconds:.2} s ({calls} calls)");

    let member = format!("/pools/{}/members/{}", Scale::pool_id(1), Scale::member_id(1));
    let before = polls(&discoverer).await;
    let needed =
        async || metric(discoverer.admin_port, "gimbal_discoverer_member_lists_total", "needed").await.unwrap();
    let needed_before = needed().await;
    cloud.update(&member, &json!({"weight": 2})).await.unwrap();
    eventually("the change is read", LONG, async || {
        anyhow::ensure!(polls(&discoverer).await > before + 2.0, "not yet");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let more = needed().await - needed_before;
    eprintln!("member lists read after one member change, in all polls: {more}");
    assert!((1.0..=3.0).contains(&more), "{more}");
    drop(discoverer);

    let discoverer = start(&["--poll-interval", interval, "--sweep", "5m"]);
    after_polls(&discoverer, 1.0).await;
    for poll in [2.0, 3.0, 4.0] {
        let (calls, seconds) = after_polls(&discoverer, poll).await;
        eprintln!("discoverer, idle with a sweep of 5m at {interval}: {seconds:.2} s ({calls} calls)");
    }
    drop(discoverer);

    let discoverer = start(&["--poll-interval", "1s", "--sweep", "0s"]);
    after_polls(&discoverer, 2.0).await;
    let mut latencies = Vec::new();
    let mut events = Box::pin(watch::<EndpointSlice>(scene.gimbal.client().unwrap(), WatchScope::default()));
    while !matches!(events.next().await, Some(WatchEvent::ListDone)) {}
    for round in 0..6 {
        cloud.update(&member, &json!({"weight": round % 2})).await.unwrap();
        let changed = Instant::now();
        let event = tokio::time::timeout(SOON, async {
            while !matches!(events.next().await, Some(WatchEvent::Applied(_) | WatchEvent::Deleted(_))) {}
        });
        event.await.unwrap();
        latencies.push(changed.elapsed());
    }
    latencies.sort();
    let (_, seconds) = after_polls(&discoverer, 3.0).await;
    eprintln!("change in Octavia -> watch event, polls of {seconds:.2} s every 1s: {latencies:.2?}");
}

async fn namespaces(cluster: &TestCluster, projects: u32) {
    let client = cluster.client().unwrap();
    let made = (1..=projects).map(|number| {
        let client = client.clone();
        async move {
            let metadata =
                gimbal_kubernetes_objects::Meta { name: format!("project-{number}").into(), ..Default::default() };
            client.create(&gimbal_kubernetes_objects::Namespace { metadata }).await.map(drop).map_err(Into::into)
        }
    });
    in_parallel(made).await.unwrap();
}

async fn polls(discoverer: &Discoverer) -> f64 {
    metric(discoverer.admin_port, "gimbal_discoverer_polls_total", "").await.unwrap_or_default()
}

/// Returns calls and seconds of the last poll, once `count` polls have ended. All of them must be complete.
async fn after_polls(discoverer: &Discoverer, count: f64) -> (f64, f64) {
    eventually("polls end", LONG, async || {
        anyhow::ensure!(polls(discoverer).await >= count, "{}", discoverer.process.log_tail());
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let read = async |name: &str, labels: &str| metric(discoverer.admin_port, name, labels).await.unwrap();
    let complete = read("gimbal_discoverer_polls_total", "complete").await;
    assert!(complete >= count, "{}", discoverer.process.log_tail());
    (read("gimbal_discoverer_poll_calls", "").await, read("gimbal_discoverer_poll_seconds", "").await)
}

/// Waits for a poll that made exactly the calls of the lists.
async fn rest(discoverer: &Discoverer, pages: f64) -> (f64, f64) {
    eventually("an idle poll", LONG, async || {
        let last = after_polls(discoverer, 2.0).await;
        anyhow::ensure!((last.0 - pages).abs() < 0.5, "the last one had {} calls, the lists {pages} pages", last.0);
        Ok::<_, anyhow::Error>(last)
    })
    .await
    .unwrap()
}
