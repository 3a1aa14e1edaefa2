//! Traces of changes through the real programs, to a collector.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_testkit::process::free_port;
use gimbal_testkit::{OtlpReceiver, eventually};
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, Writer, expect_log, get, slice_of, svc};

const LOST: &str = "traces are lost";
/// Within this time a program ends.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Starts both programs with a collector, and mirrors a Service with three endpoints.
async fn start(scene: &Scene, endpoint: &str, ratio: &str) -> (Writer, Discoverer) {
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let to = ["--otlp-endpoint", endpoint];
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &to).await.unwrap();
    let args = [&to[..], &["--trace-ratio", ratio]].concat();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &args).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    (writer, discoverer)
}

/// Changes the endpoints of the Service, and waits until its mirror has them.
async fn change(scene: &Scene, endpoints: u32) {
    scene.put(&slice_of("team1", "web", "a", 1, endpoints)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", endpoints as usize).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_one_trace_from_its_source_to_the_answer_of_the_api_server() {
    let scene = Scene::start().await.unwrap();
    let receiver = OtlpReceiver::start().await.unwrap();
    let (writer, _discoverer) = start(&scene, &receiver.url, "1").await;
    change(&scene, 5).await;

    let spans = eventually("the spans of both programs", SOON, async || {
        let spans = receiver.spans();
        // Each ends after what is in it.
        let last = ["change", "settle"].map(|name| spans.iter().find(|span| span.name == name));
        let [Some(change), Some(settle)] = last else { return Err(format!("{spans:?}")) };
        assert_eq!(change.trace, settle.trace);
        Ok(spans)
    })
    .await
    .unwrap();
    let names = |program: &str| -> BTreeSet<&str> {
        spans.iter().filter(|span| span.program == program).map(|span| span.name.as_str()).collect()
    };
    assert_eq!(names("gimbal-kubernetes-discoverer"), ["agent", "change"].into());
    assert_eq!(names("gimbal-writer"), ["apiserver", "queue", "settle"].into());
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (change, settle) = (named("change"), named("settle"));
    assert_eq!((change.parent.as_str(), &settle.parent), ("", &change.id));
    for (attribute, value) in
        [("backend", "node02"), ("namespace", "team1"), ("service", "web"), ("outcome", "written")]
    {
        assert_eq!(settle.attributes[&format!("gimbal.{attribute}")], value);
    }

    // The metric of the same times leads to the trace.
    let (_, metrics) = get(writer.admin_port, "/metrics").await.unwrap();
    let example = format!("# {{trace_id=\"{}\"}}", change.trace);
    let examples = metrics.lines().filter(|line| line.contains(&example));
    assert!(examples.filter(|line| line.starts_with("gimbal_propagation_seconds_bucket")).count() >= 4, "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_no_share_of_changes_nothing_is_sent() {
    let scene = Scene::start().await.unwrap();
    let receiver = OtlpReceiver::start().await.unwrap();
    let (writer, discoverer) = start(&scene, &receiver.url, "0").await;
    change(&scene, 5).await;
    // What is finished is sent at the end.
    for mut process in [discoverer.process, writer.process] {
        assert_eq!(process.terminate(AT_ONCE).await.unwrap().code, Some(0));
    }
    assert_eq!(receiver.spans(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_keeps_nothing_waiting_and_is_one_line() {
    let scene = Scene::start().await.unwrap();
    let (writer, discoverer) = start(&scene, &format!("http://127.0.0.1:{}", free_port().unwrap()), "1").await;
    for endpoints in [5, 7] {
        change(&scene, endpoints).await;
        expect_log(&discoverer.process, &["WARN", LOST]).await.unwrap();
        expect_log(&writer.process, &["WARN", LOST]).await.unwrap();
    }
    change(&scene, 9).await;
    for mut process in [discoverer.process, writer.process] {
        assert_eq!(process.terminate(AT_ONCE).await.unwrap().code, Some(0));
        assert_eq!(process.log().matches(LOST).count(), 1, "{}", process.log());
    }
}
