//! A dry run: nothing is sent, everything can be looked at.

use crate::common::{cluster, delete, make, start};
use gimbal_testkit::eventually;
use gimbal_transport::pb;
use pb::watch_response::Event;

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_shows_what_would_be_offered() {
    let (cluster, user) = cluster().await;
    make(&cluster, "team-a", "web", &["10.0.0.1", "10.0.0.2"]).await;
    let discoverer = start(&user, &[]).await;
    discoverer.ready().await;
    let mut inspection = discoverer.inspection().await;

    let backend = inspection.list_backends(pb::ListBackendsRequest {}).await.unwrap().into_inner().backends.remove(0);
    assert_eq!((&*backend.name, backend.complete, backend.connected, backend.endpoints), ("node02", true, false, 2));
    assert!(!backend.source_incarnation.is_empty() && backend.sources.iter().all(|source| source.age_ms.is_some()));

    let request = pb::ListServicesRequest { namespace: "team-a".into(), ..Default::default() };
    let services = inspection.list_services(request).await.unwrap().into_inner().services;
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].target.as_ref().unwrap().name, "node02-web");
    assert_eq!((services[0].endpoints, services[0].ready_endpoints), (2, 2));
    assert_eq!(services[0].message, "no writer is configured: a dry run");

    for (namespace, name, expected) in [
        ("team-a", "web", "Service team-a/web has 2 endpoints, 2 of them ready, from 1 EndpointSlice objects: web"),
        ("default", "kubernetes", "Service default/kubernetes is not offered: it is the source's own API server"),
        ("team-a", "none", "the source has no Service team-a/none"),
    ] {
        let key = Some(pb::ServiceKey { namespace: namespace.into(), name: name.into() });
        let source = pb::SourceRef { backend: "node02".into(), key };
        let object = Some(pb::explain_request::Object::Source(source));
        // The API server makes its own Service a moment after it is ready.
        eventually("it is explained", crate::common::SOON, async || {
            let answer = inspection
                .explain(pb::ExplainRequest { object: object.clone(), ..Default::default() })
                .await
                .unwrap()
                .into_inner();
            if answer.reasons.contains(&expected.to_owned()) { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await
        .unwrap();
    }
    let target = pb::ServiceKey { namespace: "team-a".into(), name: "node02-web".into() };
    let object = Some(pb::explain_request::Object::Target(target));
    let of = |address: &str| pb::ExplainRequest { object: object.clone(), address: address.into() };
    let answer = inspection.explain(of("")).await.unwrap().into_inner();
    assert_eq!(answer.service.unwrap().source.unwrap().name, "web");
    let progress = answer.progress.unwrap();
    assert!(progress.reported_ms.is_some() && progress.carried_ms.is_none(), "{progress:?}");
    assert_eq!((progress.seq, answer.address), (0, None));

    let there = inspection.explain(of("10.0.0.2")).await.unwrap().into_inner().address.unwrap();
    assert_eq!((&*there.objects[0].name, there.endpoint.unwrap().ready), ("web", true), "{there:?}");
    let absent = inspection.explain(of("10.0.0.9")).await.unwrap().into_inner().address.unwrap();
    assert_eq!((absent.objects.len(), absent.endpoint), (0, None));
    assert_eq!(absent.reasons, ["the only EndpointSlice of Service team-a/web has no endpoint with it"]);
    let refused = inspection.explain(of("ten")).await.unwrap_err();
    assert!(refused.message().contains("address is no IP address"), "{refused}");
    discoverer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_what_is_there_and_then_what_changes() {
    let (cluster, user) = cluster().await;
    make(&cluster, "team-a", "web", &["10.0.0.1"]).await;
    make(&cluster, "team-b", "web", &["10.0.0.1"]).await;
    let discoverer = start(&user, &[]).await;
    discoverer.ready().await;
    let request = pb::WatchRequest { namespace: "team-a".into(), ..Default::default() };
    let mut events = discoverer.inspection().await.watch(request).await.unwrap().into_inner();
    let mut next = async || events.message().await.unwrap().unwrap().event.unwrap();
    assert!(matches!(next().await, Event::Service(status) if status.endpoints == 1));
    assert!(matches!(next().await, Event::SnapshotDone(_)));

    make(&cluster, "team-b", "other", &["10.0.0.1"]).await;
    make(&cluster, "team-a", "api", &["10.0.1.1"]).await;
    eventually("the new Service with its endpoint", crate::common::SOON, async || match next().await {
        Event::Service(status) if status.source.as_ref().unwrap().name == "api" && status.endpoints == 1 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    delete(&cluster, "team-a", "api").await;
    eventually("it is gone", crate::common::SOON, async || match next().await {
        Event::Gone(gone) if gone.source.as_ref().unwrap().name == "api" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    discoverer.stop().await;
}
