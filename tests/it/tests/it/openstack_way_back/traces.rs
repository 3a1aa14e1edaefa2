//! Traces of the way back, through both programs to a collector.

use std::collections::BTreeSet;

use gimbal_testkit::{OtlpReceiver, ReceivedSpan, eventually};
use gimbal_tests::WayBack;

use super::{CONTROLLER, WITHIN, WRITER};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_one_trace_from_the_cluster_to_the_answers_of_openstack() {
    let mut stage = WayBack::build().await.unwrap();
    let receiver = OtlpReceiver::start().await.unwrap();
    let to = ["--otlp-endpoint", receiver.url.as_str()];
    stage.start_writer(&[&WRITER[..], &to].concat()).await.unwrap();
    stage.start_controller(&[&CONTROLLER[..], &to, &["--trace-ratio", "1"]].concat()).await.unwrap();
    // What the first snapshot has is there already, and no change. One that has its address came before or in it.
    stage.make_service("before", &[("http", 80, 8080)]).await.unwrap();
    stage.set_members("before", &["10.0.0.9"], &[("http", 8080)]).await.unwrap();
    stage.until_address("before").await.unwrap();
    stage.make_service("web", &[("http", 80, 8080)]).await.unwrap();
    stage.set_members("web", &["10.0.0.1"], &[("http", 8080)]).await.unwrap();
    let made = stage.until_address("web").await;
    made.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    let first = settled(&receiver, &BTreeSet::new()).await;

    // Another change is another trace.
    stage.set_members("web", &["10.0.0.1", "10.0.0.2"], &[("http", 8080)]).await.unwrap();
    let second = settled(&receiver, &[first].into()).await;
    let names: BTreeSet<String> =
        receiver.spans().into_iter().filter(|span| span.trace == second).map(|span| span.name).collect();
    let expected = ["agent", "change", "openstack", "queue", "settle"];
    assert!(expected.iter().all(|name| names.contains(*name)), "{names:?}");
}

/// Waits until a change of the Service is settled, in another trace than these. Returns the trace.
async fn settled(receiver: &OtlpReceiver, before: &BTreeSet<String>) -> String {
    let found = eventually("the spans of both programs", WITHIN, async || {
        let spans = receiver.spans();
        let is_of_web = |span: &&ReceivedSpan| span.attributes.get("gimbal.service").is_some_and(|name| name == "web");
        let is_new = |span: &&ReceivedSpan| span.name == "settle" && is_of_web(span) && !before.contains(&span.trace);
        let settle = spans.iter().find(is_new).ok_or_else(|| format!("{spans:#?}"))?;
        let of_trace = |name: &str| spans.iter().find(|span| span.name == name && span.trace == settle.trace);
        let change = of_trace("change").ok_or_else(|| format!("{spans:#?}"))?;
        assert_eq!((change.program.as_str(), change.parent.as_str()), ("gimbal-kuryr-controller", ""));
        assert_eq!((settle.program.as_str(), &settle.parent), ("gimbal-openstack-writer", &change.id));
        let written = of_trace("openstack").ok_or_else(|| format!("{spans:#?}"))?;
        assert_eq!(written.parent, settle.id);
        for (attribute, value) in
            [("backend", "prod1"), ("namespace", "shop"), ("service", "web"), ("outcome", "written")]
        {
            assert_eq!(settle.attributes[&format!("gimbal.{attribute}")], value);
        }
        Ok::<_, String>(settle.trace.clone())
    });
    found.await.unwrap()
}
