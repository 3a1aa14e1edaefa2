//! Many Ingresses at once on a router that serves: another one is made with all of them and takes its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use gimbal_tests::{INGRESSES, WayBack};
use serde_json::json;

use super::ingress::{answer, make, rule, until, until_gone, until_routed};

const MANY: usize = 8;
/// How often the other host gets a request. Without a pause they would take the processor that Octavia needs.
const EVERY: Duration = Duration::from_millis(20);
const PATHS: [(&str, &str, &str); 4] =
    [("/a", "Prefix", "s1"), ("/b", "Prefix", "s2"), ("/c", "Prefix", "s3"), ("/d", "Prefix", "s4")];

/// One request makes what would be some hundred, and a client of another host gets its answers all the time.
pub(super) async fn many_routes_at_once(stage: &WayBack, router: &str) {
    let marks = stage.marks().unwrap();
    let done = AtomicBool::new(false);
    let edits = async {
        join_all((0..MANY).map(async |number| make(stage, &name(number), &json!([rule(&host(number), &PATHS)])).await))
            .await;
        for number in 0..MANY {
            until_routed(stage, router, &host(number), "/c", "s3/c").await;
        }
        until(stage, "one router is left", async || {
            let list = stage.cloud.octavia().get("/loadbalancers").await?;
            let all = list["loadbalancers"].as_array().into_iter().flatten();
            let routers = all.filter(|one| one["name"].as_str().is_some_and(|name| name.contains("l7-router"))).count();
            anyhow::ensure!(routers == 1, "{list}");
            Ok(())
        })
        .await;
        done.store(true, Ordering::Relaxed);
    };
    let requests = async {
        let (mut count, mut pace) = (0_usize, tokio::time::interval(EVERY));
        while !done.load(Ordering::Relaxed) {
            pace.tick().await;
            assert_eq!(answer(stage, router, "www.example.com", "/").await.unwrap(), "s1", "after {count} requests");
            count += 1;
        }
        count
    };
    let ((), count) = tokio::join!(edits, requests);
    let changes = stage.changes_since(marks).unwrap();
    let made = changes.iter().filter(|call| call.method == "POST" && call.path.ends_with("/loadbalancers")).count();
    println!("{count} requests while {} routes came in {} changes, {made} routers", MANY * PATHS.len(), changes.len());
    assert!((1..=2).contains(&made), "{changes:#?}");
    assert!(changes.len() < MANY * PATHS.len() * 3, "{changes:#?}");
    join_all((0..MANY).map(async |number| {
        stage.cluster.admin().delete(&format!("{INGRESSES}/{}", name(number))).await.unwrap();
        until_gone(stage, &name(number)).await;
    }))
    .await;
    for number in 0..MANY {
        until_routed(stage, router, &host(number), "/c", "503").await;
    }
}

fn name(number: usize) -> String {
    format!("many-{number}")
}

fn host(number: usize) -> String {
    format!("m{number}.example")
}
