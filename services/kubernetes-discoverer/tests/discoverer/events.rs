//! Events on the source's Services, and the cases without one.

use crate::common::{RunningDiscoverer, ScriptedWriter, cluster, make, start};
use gimbal_model::SourceKey;
use gimbal_session::{Reject, RejectReason, WriterMessage};
use gimbal_testkit::{Rights, eventually};

fn reject(name: &str, reason: RejectReason, message: &str) -> WriterMessage {
    let key = Some(SourceKey::new("team-a", name));
    WriterMessage::Reject(Reject { key, reason, retryable: true, message: message.to_owned() })
}

async fn expect_written(discoverer: &RunningDiscoverer, outcome: &str, count: u64) {
    let line = format!("gimbal_discoverer_event_writes_total{{outcome=\"{outcome}\"}} {count}");
    eventually(&line, crate::common::SOON, async || {
        let (_, text) = discoverer.get("/metrics").await;
        if text.contains(&line) { Ok(()) } else { Err(text) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_not_there_gets_none_and_one_with_a_strange_sentence_does() {
    let (cluster, user) = cluster().await;
    let names = ["gimbal-kubernetes-discoverer", "gimbal-kubernetes-discoverer-events"];
    cluster.bind(&user, &Rights::deployed(&names).unwrap()).await.unwrap();
    make(&cluster, "team-a", "web", &["10.0.0.1"]).await;
    let writer = ScriptedWriter::start().await;
    let discoverer = start(&user, &["--writer", &writer.url, "--write-events"]).await;
    writer.until_held(&["team-a/web 10.0.0.1"]).await;
    discoverer.ready().await;

    writer.say(reject("unheard-of", RejectReason::Quota, "full"));
    expect_written(&discoverer, "gone", 1).await;
    // Longer than an Event takes, with what no other text should hold.
    let strange = format!("a\n\0\u{1b}\u{2028}{}", "\u{4e16}".repeat(2000));
    writer.say(reject("web", RejectReason::Held, &strange));
    expect_written(&discoverer, "written", 1).await;
    // Nothing is over that did not begin.
    writer.say(WriterMessage::Resolved(SourceKey::new("team-a", "other")));
    writer.say(WriterMessage::Resolved(SourceKey::new("team-a", "web")));
    expect_written(&discoverer, "written", 2).await;

    let events = cluster.admin().items("/api/v1/namespaces/team-a/events").await.unwrap();
    let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["Accepted", "Held"]);
    let message = events[1]["message"].as_str().unwrap();
    assert!(message.len() <= 1024 && message.starts_with("a   \u{2028}\u{4e16}"), "{message:?}");
    discoverer.stop().await;
}
