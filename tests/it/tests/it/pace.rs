//! How fast the writer writes: as fast as the API server accepts, and never faster than configured.

use std::sync::Arc;
use std::time::Duration;

use gimbal_testkit::{ApiProxy, eventually};
use gimbal_tests::{Mirror, SOON, Scene, expect_slices, metric, offer_many, put, slice_of, svc};

/// Returns the largest number of writes of the writer in any second, by the API server's clock.
async fn most_in_a_second(scene: &Scene) -> usize {
    let audit = scene.gimbal.audit().await.unwrap();
    let mut writes: Vec<_> = audit.iter().filter(|e| e.is_publication() && e.user == "writer").collect();
    writes.sort_by_key(|entry| entry.received);
    let after = |from: usize| {
        let end = writes[from].received + Duration::from_secs(1);
        writes[from..].iter().take_while(|entry| entry.received < end).count()
    };
    (0..writes.len()).map(after).max().unwrap_or(0)
}

/// The API server answers the writer with 429 for a while, and later with 503.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_asks_for_patience_nothing_is_sent_and_after_it_nothing_is_lost() {
    const SERVICES: u32 = 60;
    const SLICES: u32 = 20;
    const SIDE_BY_SIDE: usize = 4;
    const STORM: Duration = Duration::from_secs(3);
    let scene = Arc::new(Scene::start().await.unwrap());
    put(&scene.source, &svc("team1", "big", &[("http", 80)])).await.unwrap();
    offer_many(&scene, SERVICES).await.unwrap();
    let proxy = ApiProxy::start(&scene.gimbal, &scene.gimbal.user("writer").unwrap()).await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let args = ["--comparison-interval", "1s", "--write-concurrency", "4"];
    let writer = scene.writer_through(&proxy, &config, &args).await.unwrap();

    proxy.refuse(429, STORM).unwrap();
    let mut agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_slices(&scene, SERVICES).await.unwrap();
    writer.settled(1).await.unwrap();
    // Writes in flight at the first refusal are refused, too. No other write followed: it would have been counted.
    let refused = proxy.refused();
    assert!((1..=SIDE_BY_SIDE).contains(&refused), "{refused} writes were refused");
    let writes = scene.writes_since(0).await.unwrap();
    assert_eq!(writes.len(), 1 + 2 * SERVICES as usize, "each object is written once: {writes:?}");
    assert!(writes.iter().all(|write| write.ends_with(" 201")), "{writes:?}");

    // Twenty slices of one Service, while the server answers 503 with a Retry-After, the other sign of overload. What
    // changes meanwhile is written in its final state.
    agent.process.kill().unwrap();
    for part in 0..SLICES {
        put(&scene.source, &slice_of("team1", "big", &format!("part-{part}"), 1000 + part * 100, 100)).await.unwrap();
    }
    let mark = scene.gimbal.audit_mark().await.unwrap();
    proxy.refuse(503, STORM).unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    eventually("a write is refused", SOON, async || {
        anyhow::ensure!(proxy.refused() > refused, "not yet");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    put(&scene.source, &slice_of("team1", "web-7", "v4", 1, 4)).await.unwrap();
    put(&scene.source, &slice_of("team1", "web-7", "v4", 1, 5)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-big", 100 * SLICES as usize).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web-7", 5).await.unwrap();
    writer.settled(1).await.unwrap();
    let again = proxy.refused() - refused;
    assert!((1..=SIDE_BY_SIDE).contains(&again), "{again} writes were refused");
    let writes = scene.writes_since(mark).await.unwrap();
    assert!((1 + SLICES as usize..=2 + SLICES as usize).contains(&writes.len()), "{writes:?}");

    let read = async |name: &str, labels: &str| metric(writer.admin_port, name, labels).await.unwrap();
    assert_eq!(read("gimbal_writer_pauses_total", "").await, (refused + again) as f64);
    let waited = read("gimbal_writer_write_wait_seconds_total", "reason=\"pause\"").await;
    assert!(waited > STORM.as_secs_f64(), "{waited}");
    assert!(!writer.process.log().contains("leading=false"), "the lease is no business of a pause");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_second_sees_more_writes_than_the_budgets_allow() {
    for (services, args, reason, most) in [
        // 50 a second, and a burst of a quarter of a second; the rest of the limit allows for a machine that stalls.
        (300, ["--write-qps", "50", "--watchers", "1"], "write_qps", 100),
        // An object has some 500 bytes: with 1,000 watchers, about four writes a second, and a burst of one.
        (15, ["--write-fanout", "2000000", "--watchers", "1000"], "write_fanout", 15),
    ] {
        let scene = Arc::new(Scene::start().await.unwrap());
        offer_many(&scene, services).await.unwrap();
        let args = [args.as_slice(), &["--comparison-interval", "1s"]].concat();
        let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &args).await.unwrap();
        let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
        expect_slices(&scene, services).await.unwrap();
        writer.settled(1).await.unwrap();
        assert_eq!(scene.writes_since(0).await.unwrap().len(), 2 * services as usize);
        let seen = most_in_a_second(&scene).await;
        assert!(seen <= most, "{reason}: {seen} writes in a second, {most} at most");
        let labels = format!("reason=\"{reason}\"");
        let waited = metric(writer.admin_port, "gimbal_writer_write_wait_seconds_total", &labels).await.unwrap();
        assert!(waited > 1.0, "{reason}: {waited}");
    }
}

/// The endpoints of one Service change all the time, and a flag says how long changes of its slice may wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_one_service_are_written_together() {
    const PERIOD: u64 = 2;
    const FIRST: u32 = 8;
    const CHANGES: u32 = 20;
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 0, FIRST)).await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let period = format!("--endpointslice-updates-batch-period={PERIOD}s");
    let writer = scene.writer(&config, &[&*period]).await.unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", FIRST as usize).await.unwrap();
    let (mark, begin) = (scene.gimbal.audit_mark().await.unwrap(), std::time::Instant::now());
    for change in 1..=CHANGES {
        scene.put(&slice_of("team1", "web", "a", 0, FIRST + change)).await.unwrap();
    }
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", (FIRST + CHANGES) as usize).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    // The first one at once, and then one a period.
    let periods = begin.elapsed().as_secs() / PERIOD + 2;
    assert!(writes.len() as u64 <= periods, "{} writes in {periods} periods: {writes:?}", writes.len());
}
