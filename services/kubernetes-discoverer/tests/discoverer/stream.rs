//! The messages that the writer receives in all conditions of the source.

use std::time::{Duration, Instant};

use crate::common::{Said, ScriptedWriter, cluster, delete, make, rights, slice, slices, start};
use gimbal_model::SourceKey;
use gimbal_session::{Reject, RejectReason, WriterMessage};
use gimbal_transport::pb;

/// From the first word to the last.
#[tokio::test(flavor = "multi_thread")]
async fn tells_everything_once_and_then_changes_and_says_goodbye() {
    let (cluster, user) = cluster().await;
    make(&cluster, "team-a", "web", &["10.0.0.1", "10.0.0.2"]).await;
    let writer = ScriptedWriter::start().await;
    let discoverer = start(&user, &["--writer", &writer.url]).await;
    writer.until_held(&["team-a/web 10.0.0.1 10.0.0.2"]).await;
    // Chunks are applied as they come, so everything can be held a moment before the snapshot's end arrives.
    writer.until_said("the end of the snapshot", |said| *said == Said::End).await;
    assert_eq!(
        writer.said(),
        [Said::Hello(Some(1)), Said::Begin, Said::Chunk(vec!["team-a/web".into()]), Said::End],
        "one stream, opened when the source was read"
    );
    let namespace = cluster.admin().get("/api/v1/namespaces/kube-system").await.unwrap();
    assert_eq!(writer.incarnations(), [namespace["metadata"]["uid"].as_str().unwrap().to_owned()].into());
    discoverer.ready().await;

    make(&cluster, "team-a", "api", &["10.0.1.1"]).await;
    writer.until_held(&["team-a/api 10.0.1.1", "team-a/web 10.0.0.1 10.0.0.2"]).await;
    cluster.admin().put(&format!("{}/web", slices("team-a")), &slice("web", &["10.0.0.2"])).await.unwrap();
    writer.until_held(&["team-a/api 10.0.1.1", "team-a/web 10.0.0.2"]).await;
    delete(&cluster, "team-a", "api").await;
    writer.until_held(&["team-a/web 10.0.0.2"]).await;
    assert!(writer.said().contains(&Said::Removed("team-a/api".into())));

    let began = Instant::now();
    discoverer.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let said = writer.said();
    assert_eq!(said[said.len() - 2..], [Said::Goodbye, Said::Closed]);
}

/// A right that is taken away makes the source unknown, never empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_right_removes_nothing_and_a_regained_one_tells_everything() {
    let (cluster, user) = cluster().await;
    make(&cluster, "team-a", "web", &["10.0.0.1"]).await;
    make(&cluster, "team-a", "old", &["10.0.0.9"]).await;
    let writer = ScriptedWriter::start().await;
    let discoverer = start(&user, &["--writer", &writer.url]).await;
    writer.until_held(&["team-a/old 10.0.0.9", "team-a/web 10.0.0.1"]).await;

    cluster.revoke(&user).await.unwrap();
    // A watch that is open outlives the right to it; the server ends it when it goes.
    cluster.stop_apiserver().unwrap();
    cluster.start_apiserver().await.unwrap();
    writer
        .until_said("the source is unknown", |said| matches!(said, Said::Unknown(why) if why.contains("forbidden")))
        .await;
    delete(&cluster, "team-a", "old").await;
    assert_eq!(writer.held(), ["team-a/old 10.0.0.9", "team-a/web 10.0.0.1"]);
    assert!(!writer.said().iter().any(|said| matches!(said, Said::Removed(_))));
    let (code, text) = discoverer.get("/readyz").await;
    assert_eq!((code, text.contains("a complete list of the source")), (503, true), "{text}");
    assert_eq!(discoverer.get("/healthz").await.0, 200);

    let snapshots = |writer: &ScriptedWriter| writer.said().iter().filter(|said| **said == Said::End).count();
    assert_eq!(snapshots(&writer), 1);
    cluster.bind(&user, &rights()).await.unwrap();
    writer.until_held(&["team-a/web 10.0.0.1"]).await;
    gimbal_testkit::eventually("a snapshot of what was unknown", crate::common::SOON, async || {
        if snapshots(&writer) == 2 { Ok(()) } else { Err(format!("{:?}", writer.said())) }
    })
    .await
    .unwrap();
    discoverer.ready().await;
    discoverer.stop().await;
}

/// The source is down when the discoverer starts; later its history is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn waits_for_a_source_that_is_down_and_survives_a_compaction() {
    let (cluster, user) = cluster().await;
    make(&cluster, "team-a", "web", &["10.0.0.1"]).await;
    cluster.stop_apiserver().unwrap();
    let writer = ScriptedWriter::start().await;
    let discoverer = start(&user, &["--writer", &writer.url]).await;
    writer.until_said("a stream without data", |said| *said == Said::Hello(None)).await;
    let (code, text) = discoverer.get("/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("a complete list of the source") && text.contains("kube-system"), "{text}");
    let mut inspection = discoverer.inspection().await;
    let backends = inspection.list_backends(pb::ListBackendsRequest {}).await.unwrap().into_inner().backends;
    assert!(!backends[0].complete && backends[0].trouble.contains("cannot reach the API server"), "{backends:?}");
    assert_eq!(writer.held(), [""; 0]);

    cluster.start_apiserver().await.unwrap();
    writer.until_held(&["team-a/web 10.0.0.1"]).await;
    discoverer.ready().await;

    cluster.compact().await.unwrap();
    make(&cluster, "team-a", "api", &["10.0.1.1"]).await;
    delete(&cluster, "team-a", "web").await;
    writer.until_held(&["team-a/api 10.0.1.1"]).await;
    discoverer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_are_shown_until_they_are_over() {
    let (cluster, user) = cluster().await;
    make(&cluster, "team-a", "web", &["10.0.0.1"]).await;
    make(&cluster, "team-b", "web", &["10.0.0.2"]).await;
    make(&cluster, "team-test", "web", &["10.0.0.3"]).await;
    let writer = ScriptedWriter::start().await;
    let patterns = ["--namespaces", "team-*", "--exclude-namespaces", "*-test"];
    let discoverer = start(&user, &[&["--writer", &*writer.url][..], &patterns].concat()).await;
    writer.until_held(&["team-a/web 10.0.0.1", "team-b/web 10.0.0.2"]).await;

    let key = SourceKey::new("team-a", "web");
    let message = "namespace team-a is not there".to_owned();
    let reason = RejectReason::NamespaceMissing;
    writer.say(WriterMessage::Reject(Reject { key: Some(key.clone()), reason, retryable: true, message }));
    let mut inspection = discoverer.inspection().await;
    let only_trouble = pb::ListServicesRequest { only_trouble: true, ..Default::default() };
    let mut trouble = async || {
        let answer = inspection.list_services(only_trouble.clone()).await.unwrap().into_inner();
        answer.services.into_iter().map(|status| (status.source.unwrap().namespace, status.message)).collect::<Vec<_>>()
    };
    gimbal_testkit::eventually("the reject is shown", crate::common::SOON, async || {
        let shown = trouble().await;
        let expected = [("team-a".to_owned(), "namespace team-a is not there".to_owned())];
        if shown == expected { Ok(()) } else { Err(format!("{shown:?}")) }
    })
    .await
    .unwrap();
    gimbal_testkit::eventually("the metrics show it", crate::common::SOON, async || {
        let (_, text) = discoverer.get("/metrics").await;
        let lines = [
            "gimbal_discoverer_rejected{reason=\"NamespaceMissing\"} 1",
            "gimbal_discoverer_skipped{reason=\"NamespaceExcluded\"} 1",
            "gimbal_discoverer_services 2",
            "gimbal_discoverer_endpoints 2",
            "gimbal_discoverer_connected 1",
            "gimbal_discoverer_source_age_seconds{kind=\"endpointslices\"}",
        ];
        match lines.iter().find(|line| !text.contains(**line)) {
            None => Ok(()),
            Some(line) => Err(format!("{line} is not in {text}")),
        }
    })
    .await
    .unwrap();
    writer.say(WriterMessage::Resolved(key));
    gimbal_testkit::eventually("the reject is over", crate::common::SOON, async || {
        let shown = trouble().await;
        if shown.is_empty() { Ok(()) } else { Err(format!("{shown:?}")) }
    })
    .await
    .unwrap();
    discoverer.stop().await;
}
