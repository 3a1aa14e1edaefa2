//! Traces of changes, as a writer and a collector get them.

use crate::cloud::{Poll, Running};
use gimbal_testkit::OtlpReceiver;
use gimbal_testkit::scripted_writer::ScriptedWriter;

/// Offers a Service to a writer with these capabilities, and changes it. Returns what the writer got beside the change.
async fn change(capabilities: &[&'static str], flags: &[&str]) -> Vec<String> {
    let writer = ScriptedWriter::start().await;
    writer.name_capabilities(capabilities);
    let cloud = Running::start(&[&["--writer", &writer.url], flags].concat()).await;
    cloud.poll(Poll::of(&["a/web 10.0.0.1"])).await;
    writer.until_held(&["a/web 10.0.0.1"]).await;
    assert_eq!(writer.traces(), [], "what was there is no change");
    cloud.poll(Poll::of(&["a/web 10.0.0.2"])).await;
    writer.until_held(&["a/web 10.0.0.2"]).await;
    let traces = writer.traces().iter().map(ToString::to_string).collect();
    cloud.stop().await;
    traces
}

#[tokio::test]
async fn a_sampled_change_travels_with_its_trace() {
    let receiver = OtlpReceiver::start().await.unwrap();
    let traces = change(&["trace"], &["--otlp-endpoint", &receiver.url, "--trace-ratio", "1"]).await;
    let spans = receiver.spans();
    let begun = spans.iter().find(|span| span.name == "change").unwrap();
    assert_eq!(traces, [format!("00-{}-{}-01", begun.trace, begun.id)]);
    assert_eq!(begun.program, "gimbal-scripted-discoverer");
    assert_eq!((&*begun.attributes["gimbal.backend"], &*begun.attributes["gimbal.changes"]), ("osp1", "1"));
    let leg = spans.iter().find(|span| span.name == "agent").unwrap();
    assert_eq!((&leg.trace, &leg.parent), (&begun.trace, &begun.id));
}

#[tokio::test]
async fn without_a_collector_or_a_share_a_change_has_no_trace() {
    let receiver = OtlpReceiver::start().await.unwrap();
    for flags in [&["--trace-ratio", "1"][..], &["--otlp-endpoint", &receiver.url, "--trace-ratio", "0"]] {
        assert_eq!(change(&["trace"], flags).await, [""; 0], "{flags:?}");
    }
    assert_eq!(receiver.spans(), []);
}

#[tokio::test]
async fn a_writer_that_does_not_continue_traces_gets_none() {
    let receiver = OtlpReceiver::start().await.unwrap();
    let flags = ["--otlp-endpoint", &receiver.url, "--trace-ratio", "1"];
    assert_eq!(change(&["change-age"], &flags).await, [""; 0]);
    assert!(receiver.spans().iter().any(|span| span.name == "agent"), "the agent's part of it is there");
}
