//! On a real API server: writes to the status subresource, merge patches with preconditions, and field selectors.

use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt;
use gimbal_kubernetes_client::{ApiError, Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{ConfigMap, Kind, LifecycleMeta, Meta, Object, ServicePort, ServiceSpec};
use gimbal_testkit::TestCluster;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

const FINALIZER: &str = "gimbal.example/hold";
const ANOTHER_UID: &str = "00000000-0000-0000-0000-000000000000";

/// A Service as a controller of load balancers reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Service {
    metadata: LifecycleMeta,
    spec: ServiceSpec,
    status: ServiceStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancer,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ingress: Vec<Ingress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Ingress {
    ip: String,
}

impl Object for Service {
    const KIND: Kind = Kind { kind: "Service", api_version: "v1", plural: "services" };
    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

impl Service {
    fn ip(&self) -> Option<&str> {
        self.status.load_balancer.ingress.first().map(|ingress| &*ingress.ip)
    }
}

fn service(name: &str) -> Service {
    let meta = Meta { namespace: "team".into(), name: name.into(), ..Meta::default() };
    let ports = vec![ServicePort { port: 80, ..ServicePort::default() }];
    let spec = ServiceSpec { type_: Some("LoadBalancer".into()), ports, ..ServiceSpec::default() };
    Service { metadata: LifecycleMeta { meta, ..LifecycleMeta::default() }, spec, ..Service::default() }
}

fn status(ip: &str) -> ServiceStatus {
    ServiceStatus { load_balancer: LoadBalancer { ingress: vec![Ingress { ip: ip.into() }] } }
}

fn with_uid(meta: &Meta, uid: &str) -> Meta {
    Meta { uid: uid.into(), ..meta.clone() }
}

fn without_version(meta: &Meta) -> Meta {
    Meta { resource_version: "".into(), ..meta.clone() }
}

async fn team() -> anyhow::Result<(TestCluster, Cluster)> {
    let server = TestCluster::start().await?;
    server.namespace("team").await?;
    let cluster = server.client()?;
    Ok((server, cluster))
}

#[tokio::test]
async fn the_status_is_written_apart_from_the_rest() -> anyhow::Result<()> {
    let (_server, cluster) = team().await?;
    let created = cluster.create(&service("web")).await?;
    assert_eq!(created.status, ServiceStatus::default());
    assert!(created.metadata.creation_timestamp.is_some());

    // The server applies only the status of the object that is sent.
    let mut wanted = Service { status: status("192.0.2.1"), ..created.clone() };
    wanted.spec.ports[0].port = 81;
    let replaced = cluster.replace_status(&wanted).await?;
    assert_eq!((replaced.ip(), replaced.spec.ports[0].port), (Some("192.0.2.1"), 80));
    assert!(matches!(cluster.replace_status(&wanted).await, Err(ApiError::Conflict { .. })), "the version is old");
    let mut other = replaced.clone();
    other.metadata.meta.uid = ANOTHER_UID.into();
    assert!(matches!(cluster.replace_status(&other).await, Err(ApiError::Conflict { .. })), "the object is another");

    // A write of the rest leaves the status alone.
    let mut wanted = Service { status: ServiceStatus::default(), ..replaced.clone() };
    wanted.spec.ports[0].port = 82;
    let rest = cluster.replace(&wanted).await?;
    assert_eq!((rest.ip(), rest.spec.ports[0].port), (Some("192.0.2.1"), 82));

    let patched: Service = cluster.patch_status(rest.meta(), &status("192.0.2.2")).await?;
    assert_eq!((patched.ip(), patched.spec.ports[0].port), (Some("192.0.2.2"), 82));
    let stale = cluster.patch_status::<Service>(rest.meta(), &status("192.0.2.3")).await;
    assert!(matches!(stale, Err(ApiError::Conflict { .. })), "{stale:?}");
    // What is applied is about a version as well, where one is named, even if it overrules other managers.
    let stale = cluster.apply_status::<Service>(rest.meta(), &status("192.0.2.3"), "test").await;
    assert!(matches!(stale, Err(ApiError::Conflict { .. })), "{stale:?}");
    let patched: Service = cluster.apply_status(patched.meta(), &status("192.0.2.4"), "test").await?;
    let patched: Service = cluster.apply_status(&without_version(patched.meta()), &status("192.0.2.2"), "test").await?;
    assert_eq!(patched.ip(), Some("192.0.2.2"));
    let cleared: Service = cluster.patch_status(patched.meta(), &json!({ "loadBalancer": null })).await?;
    assert_eq!(cleared.ip(), None);
    assert_eq!(cluster.get::<Service>("team", "web").await?, cleared);
    Ok(())
}

#[tokio::test]
async fn what_is_missing_and_what_has_no_status() -> anyhow::Result<()> {
    let (_server, cluster) = team().await?;
    let missing = service("missing");
    let answer = cluster.patch_status::<Service>(missing.meta(), &status("192.0.2.1")).await;
    assert!(matches!(answer, Err(ApiError::NotFound { namespace: false, .. })), "{answer:?}");

    let map = ConfigMap { metadata: missing.metadata.meta.clone(), ..ConfigMap::default() };
    let map = cluster.create(&map).await?;
    let answer = cluster.replace_status(&map).await;
    assert!(matches!(answer, Err(ApiError::NotServed { .. })), "{answer:?}");
    let answer = cluster.patch_status::<ConfigMap>(&map.metadata, &json!({})).await;
    assert!(matches!(answer, Err(ApiError::NotServed { .. })), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn a_merge_patch_changes_what_was_read_or_nothing() -> anyhow::Result<()> {
    let (_server, cluster) = team().await?;
    let created = cluster.create(&service("web")).await?;
    let hold = json!({"metadata": {"finalizers": [FINALIZER]}});
    let held: Service = cluster.merge_patch(created.meta(), &hold).await?;
    assert!(held.metadata.has_finalizer(FINALIZER));
    assert_eq!(held.spec, created.spec, "what the patch does not name stays");

    let moved = cluster.merge_patch::<Service>(created.meta(), &hold).await;
    assert!(matches!(moved, Err(ApiError::Conflict { .. })), "{moved:?}");
    let moved = cluster.patch(&created).await;
    assert!(matches!(moved, Err(ApiError::Conflict { .. })), "{moved:?}");

    for meta in [with_uid(held.meta(), ANOTHER_UID), with_uid(&without_version(held.meta()), ANOTHER_UID)] {
        let another = cluster.merge_patch::<Service>(&meta, &json!({"metadata": {"finalizers": null}})).await;
        assert!(matches!(another, Err(ApiError::Conflict { .. })), "{another:?}");
    }
    let invalid = cluster.merge_patch::<Service>(held.meta(), &json!({"spec": {"ports": []}})).await;
    assert!(matches!(invalid, Err(ApiError::Invalid { .. })), "{invalid:?}");

    // Deleted, the object waits for its finalizer.
    cluster.delete(Service::KIND, "team", "web", &held.meta().uid, "").await?;
    let waiting: Service = cluster.get("team", "web").await?;
    assert!(waiting.metadata.is_being_deleted());
    cluster.merge_patch::<Service>(waiting.meta(), &json!({"metadata": {"finalizers": null}})).await?;
    let gone = cluster.get::<Service>("team", "web").await;
    assert!(matches!(gone, Err(ApiError::NotFound { .. })), "{gone:?}");

    // One of the same name is another object.
    cluster.create(&service("web")).await?;
    for meta in [waiting.meta().clone(), without_version(waiting.meta())] {
        let another = cluster.merge_patch::<Service>(&meta, &hold).await;
        assert!(matches!(another, Err(ApiError::Conflict { .. })), "{another:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_applied_changes_the_very_object_and_keeps_what_others_have() -> anyhow::Result<()> {
    let (_server, cluster) = team().await?;
    let metadata = Meta { namespace: "team".into(), name: "map".into(), ..Meta::default() };
    let made = cluster.create(&ConfigMap { metadata, ..ConfigMap::default() }).await?;
    let named = without_version(&made.metadata);
    let with = |metadata: &Meta, key: &str| ConfigMap {
        metadata: metadata.clone(),
        data: [(key.to_owned(), "1".to_owned())].into(),
    };
    for (manager, key, expected) in
        [("one", "a", vec!["a"]), ("two", "b", vec!["a", "b"]), ("one", "c", vec!["b", "c"])]
    {
        let applied = cluster.apply(&with(&named, key), manager).await?;
        assert_eq!(applied.data.keys().collect::<Vec<_>>(), expected, "{manager} {key}");
    }
    let absent = Meta { name: "absent".into(), ..named.clone() };
    for meta in [with_uid(&named, ANOTHER_UID), absent] {
        let another = cluster.apply(&with(&meta, "d"), "one").await;
        assert!(matches!(another, Err(ApiError::Conflict { .. })), "{another:?}");
    }
    let unread = cluster.apply(&with(&with_uid(&named, ""), "d"), "one").await;
    assert!(matches!(unread, Err(ApiError::Invalid { .. })), "{unread:?}");
    Ok(())
}

#[tokio::test]
async fn field_selectors() -> anyhow::Result<()> {
    let (_server, cluster) = team().await?;
    for name in ["one", "two"] {
        let metadata = Meta { namespace: "team".into(), name: name.into(), ..Meta::default() };
        cluster.create(&ConfigMap { metadata, ..ConfigMap::default() }).await?;
    }
    let one = WatchScope {
        namespace: Some("team".into()),
        field_selector: Some("metadata.name=one".into()),
        ..WatchScope::default()
    };
    let listed = cluster.list::<ConfigMap>(&one).await?;
    assert_eq!(listed.iter().map(|map| &*map.metadata.name).collect::<Vec<_>>(), ["one"]);

    let mut events = watch::<ConfigMap>(cluster.clone(), one);
    let mut names = Vec::new();
    let seen = async {
        loop {
            match events.next().await.context("the watch ended")? {
                WatchEvent::Listed(page) => names.extend(page.into_iter().map(|map| map.metadata.name)),
                // Both change once the list is done; only one of them is in the watch.
                WatchEvent::ListDone => {
                    for name in ["two", "one"] {
                        let map: ConfigMap = cluster.get("team", name).await?;
                        let _: ConfigMap = cluster.merge_patch(&map.metadata, &json!({"data": {"a": "b"}})).await?;
                    }
                }
                WatchEvent::Applied(map) => {
                    names.push(map.metadata.name);
                    return Ok(());
                }
                WatchEvent::Deleted(map) => anyhow::bail!("{} was not deleted", map.metadata.name),
                WatchEvent::Failed(error) => return Err(error.into()),
                WatchEvent::ListBegin | WatchEvent::Alive | WatchEvent::WentBack { .. } => {}
            }
        }
    };
    timeout(Duration::from_secs(30), seen).await.context("nothing came")??;
    assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["one", "one"]);

    let unknown = WatchScope { field_selector: Some("spec.nothing=1".into()), ..WatchScope::default() };
    let refused = cluster.list::<ConfigMap>(&unknown).await;
    assert!(matches!(refused, Err(ApiError::Invalid { .. })), "{refused:?}");
    Ok(())
}
