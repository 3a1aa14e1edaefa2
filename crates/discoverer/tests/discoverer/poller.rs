//! The framework around a source that polls, between a scripted cloud and a scripted writer.

use crate::cloud::{Poll, Running};
use gimbal_model::SourceKey;
use gimbal_session::{Reject, RejectReason, WriterMessage};
use gimbal_testkit::scripted_writer::{Said, ScriptedWriter};
use gimbal_transport::pb;

fn reject(key: &str, reason: RejectReason) -> WriterMessage {
    let (namespace, name) = key.split_once('/').unwrap();
    let key = Some(SourceKey::new(namespace, name));
    WriterMessage::Reject(Reject { key, reason, retryable: true, message: "because".into() })
}

/// A project that cannot be listed keeps its entries, while all others are updated.
#[tokio::test]
async fn what_failed_in_part_keeps_its_part_and_the_rest_goes_on() {
    let writer = ScriptedWriter::start().await;
    let cloud = Running::start(&["--writer", &writer.url]).await;
    cloud.poll(Poll::of(&["a/web 10.0.0.1", "b/api 10.0.0.2"])).await;
    writer.until_held(&["a/web 10.0.0.1", "b/api 10.0.0.2"]).await;
    let chunk = vec!["a/web".to_owned(), "b/api".to_owned()];
    assert_eq!(writer.said(), [Said::Hello(Some(2)), Said::Begin, Said::Chunk(chunk), Said::End]);
    assert_eq!(writer.incarnations(), ["http://keystone/RegionOne".to_owned()].into());
    cloud.ready().await;

    cloud.poll(Poll::of(&["b/new 10.0.0.3"]).failed("a")).await;
    writer.until_held(&["a/web 10.0.0.1", "b/new 10.0.0.3"]).await;
    writer.until_said("what is unknown", |said| *said == Said::Unknown("project a: 500".into())).await;
    assert!(writer.said().contains(&Said::Removed("b/api".into())), "what the source saw go is gone");

    let mut inspection = cloud.inspection().await;
    let backend = inspection.list_backends(pb::ListBackendsRequest {}).await.unwrap().into_inner().backends.remove(0);
    let unknown: Vec<_> = backend.unknown.into_iter().map(|part| part.scope.unwrap().namespaces).collect();
    assert_eq!((backend.connected, backend.complete, unknown), (true, false, vec![vec!["a".to_owned()]]));
    assert_eq!(&*backend.agent_version, "gimbal-scripted-discoverer/1.2.3");
    let services = inspection.list_services(pb::ListServicesRequest::default()).await.unwrap().into_inner().services;
    let held: Vec<_> = services.iter().filter(|service| service.state() == pb::ServiceState::Held).collect();
    assert_eq!(held.len(), 1, "{services:?}");
    assert_eq!(held[0].message, "the source is not fully known: project a: 500");
    let (code, text) = cloud.get("/readyz").await;
    assert_eq!((code, text.contains("a complete list of the source")), (503, true), "{text}");

    cloud.poll(Poll::of(&["b/new 10.0.0.3"])).await;
    writer.until_held(&["b/new 10.0.0.3"]).await;
    cloud.ready().await;
    cloud.stop().await;
    let said = writer.said();
    assert_eq!(said[said.len() - 2..], [Said::Goodbye, Said::Closed]);
}

/// A project that never answers does not block the others, but a source of which nothing is known sends no data.
#[tokio::test]
async fn a_first_poll_that_failed_in_part_offers_the_rest() {
    let writer = ScriptedWriter::start().await;
    let cloud = Running::start(&["--writer", &writer.url]).await;
    cloud.poll(Poll::down("keystone: 503")).await;
    writer.until_said("a stream without data", |said| *said == Said::Hello(None)).await;
    writer.until_said("all is unknown", |said| *said == Said::Unknown("keystone: 503".into())).await;
    assert_eq!(writer.held(), [""; 0]);

    cloud.poll(Poll::of(&["b/api 10.0.0.2"]).failed("a")).await;
    writer.until_held(&["b/api 10.0.0.2"]).await;
    writer.until_said("a part is unknown", |said| *said == Said::Unknown("project a: 500".into())).await;

    cloud.poll(Poll::of(&["a/web 10.0.0.1", "b/api 10.0.0.2"]).failed("b")).await;
    writer.until_held(&["a/web 10.0.0.1", "b/api 10.0.0.2"]).await;
    writer.until_said("another part is", |said| *said == Said::Unknown("project b: 500".into())).await;
    cloud.stop().await;
}

#[tokio::test]
async fn the_source_hears_what_the_writer_thinks_of_a_service() {
    let writer = ScriptedWriter::start().await;
    let cloud = Running::start(&["--writer", &writer.url]).await;
    cloud.poll(Poll::of(&["a/web 10.0.0.1", "b/api 10.0.0.2"])).await;
    writer.until_held(&["a/web 10.0.0.1", "b/api 10.0.0.2"]).await;

    writer.say(reject("a/web", RejectReason::NamespaceMissing));
    writer.say(reject("a/web", RejectReason::NamespaceMissing));
    writer.say(reject("b/api", RejectReason::NameConflict));
    writer.say(reject("a/web", RejectReason::Quota));
    writer.say(WriterMessage::Resolved(SourceKey::new("a", "web")));
    let so_far = [
        "a/web NamespaceMissing: because",
        "a/web NamespaceMissing: because again",
        "b/api NameConflict: because",
        "a/web Quota: because",
    ];
    cloud.until_heard(&[&so_far[..], &["a/web resolved"]].concat()).await;

    // A reject ends when its Service is removed.
    cloud.poll(Poll::of(&["a/web 10.0.0.1"])).await;
    cloud.until_heard(&[&so_far[..], &["a/web resolved", "b/api resolved"]].concat()).await;
    cloud.stop().await;
}

#[tokio::test]
async fn another_source_removes_nothing_before_it_is_read() {
    let writer = ScriptedWriter::start().await;
    let cloud = Running::start(&["--writer", &writer.url]).await;
    cloud.poll(Poll::of(&["a/web 10.0.0.1"])).await;
    writer.until_held(&["a/web 10.0.0.1"]).await;

    cloud.replaced("http://keystone/RegionTwo").await;
    writer.until_said("a stream of the other source", |said| *said == Said::Hello(None)).await;
    assert_eq!(writer.held(), ["a/web 10.0.0.1"]);
    cloud.metric("gimbal_discoverer_source_replacements_total 1").await;

    cloud.poll(Poll::of(&["a/other 10.0.0.9"])).await;
    writer.until_held(&["a/other 10.0.0.9"]).await;
    let two = ["http://keystone/RegionOne".to_owned(), "http://keystone/RegionTwo".to_owned()];
    assert_eq!(writer.incarnations(), two.into());
    cloud.stop().await;
}

#[tokio::test]
async fn the_metrics_are_those_of_every_discoverer_and_the_source_adds_its_own() {
    let cloud = Running::start(&[]).await;
    cloud.poll(Poll::of(&["a/web 10.0.0.1"])).await;
    cloud.ready().await;
    cloud.poll(Poll::down("keystone: 503")).await;
    for line in [
        "gimbal_discoverer_info{backend=\"osp1\",version=\"1.2.3\"} 1",
        "gimbal_discoverer_services 1",
        "gimbal_discoverer_endpoints 1",
        "gimbal_discoverer_source_complete 0",
        "gimbal_discoverer_skipped{reason=\"NoName\"} 3",
        "gimbal_discoverer_source_age_seconds{kind=\"pools\"}",
        "gimbal_discoverer_source_lists_total{kind=\"pools\"} 1",
        "gimbal_discoverer_source_failures_total{kind=\"pools\",reason=\"Server\"} 1",
        "gimbal_discoverer_polls_total 2",
    ] {
        cloud.metric(line).await;
    }
    cloud.stop().await;
}
