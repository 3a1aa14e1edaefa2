//! On a real API server: custom resources whose definition is not there, not there any more, or there again.

use std::time::Duration;

use anyhow::Context as _;
use futures::{Stream, StreamExt};
use gimbal_kubernetes_client::{ApiError, Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{Kind, Meta, Object};
use gimbal_testkit::{TestCluster, eventually};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Note {
    metadata: Meta,
}

impl Object for Note {
    const KIND: Kind = Kind { kind: "Note", api_version: "gimbal.example/v1", plural: "notes" };
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A kind that no server has, in a group and version that every server has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Nothing {
    metadata: Meta,
}

impl Object for Nothing {
    const KIND: Kind = Kind { kind: "Nothing", api_version: "discovery.k8s.io/v1", plural: "nothings" };
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

fn meta(name: &str) -> Meta {
    Meta { namespace: "team".into(), name: name.into(), ..Meta::default() }
}

async fn define(server: &TestCluster) -> anyhow::Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let names = json!({"plural": "notes", "singular": "note", "kind": "Note", "listKind": "NoteList"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "notes.gimbal.example"},
        "spec": {
            "group": "gimbal.example", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    server.admin().post(DEFINITIONS, &definition).await?;
    Ok(())
}

async fn undefine(server: &TestCluster) -> anyhow::Result<()> {
    server.admin().delete(&format!("{DEFINITIONS}/notes.gimbal.example")).await?;
    Ok(())
}

async fn served(cluster: &Cluster) -> anyhow::Result<()> {
    eventually("the kind is served", Duration::from_secs(30), async || {
        cluster.list::<Note>(&WatchScope::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await
    .map_err(anyhow::Error::msg)
}

/// Asserts that no call about a kind says anything about its objects.
async fn is_unserved<T: Object>(cluster: &Cluster, object: &T) {
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    for (call, error) in [
        ("get", cluster.get::<T>("team", "a").await.err()),
        ("list", cluster.list::<T>(&WatchScope::default()).await.err()),
        ("create", cluster.create(object).await.err()),
        ("replace", cluster.replace(object).await.err()),
        ("merge_patch", cluster.merge_patch::<T>(object.meta(), &change).await.err()),
        ("patch_status", cluster.patch_status::<T>(object.meta(), &json!({})).await.err()),
        ("delete", cluster.delete(T::KIND, "team", "a", "", "").await.err()),
    ] {
        assert!(matches!(error, Some(ApiError::NotServed { .. })), "{call}: {error:?}");
    }
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_no_missing_object() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    server.namespace("team").await?;
    let cluster = server.client()?;
    let note = Note { metadata: Meta { resource_version: "1".into(), ..meta("a") } };
    is_unserved(&cluster, &note).await;
    is_unserved(&cluster, &Nothing { metadata: note.metadata.clone() }).await;

    define(&server).await?;
    served(&cluster).await?;
    let missing = |error: Option<ApiError>| match error {
        Some(ApiError::NotFound { namespace: false, .. }) => Ok(()),
        other => Err(anyhow::anyhow!("{other:?}")),
    };
    missing(cluster.get::<Note>("team", "a").await.err())?;
    missing(cluster.replace(&note).await.err())?;
    missing(cluster.merge_patch::<Note>(&note.metadata, &json!({"metadata": {"labels": {"a": "b"}}})).await.err())?;
    missing(cluster.delete(Note::KIND, "team", "a", "", "").await.err())?;
    let elsewhere = Note { metadata: Meta { namespace: "nowhere".into(), ..meta("a") } };
    let error = cluster.create(&elsewhere).await.unwrap_err();
    assert!(error.namespace_missing(), "{error:?}");
    Ok(())
}

/// Reads events until `wanted` accepts one.
async fn until<T: std::fmt::Debug>(
    events: &mut (impl Stream<Item = WatchEvent<T>> + Unpin),
    limit: Duration,
    wanted: impl Fn(&WatchEvent<T>) -> bool,
) -> anyhow::Result<Vec<WatchEvent<T>>> {
    let mut seen = Vec::new();
    let follow = async {
        loop {
            seen.push(events.next().await.context("the watch ended")?);
            if seen.last().is_some_and(&wanted) {
                return Ok::<_, anyhow::Error>(());
            }
        }
    };
    let ended = timeout(limit, follow).await;
    ended.with_context(|| format!("after {seen:?}"))??;
    Ok(seen)
}

#[tokio::test]
async fn a_definition_that_goes_while_its_objects_are_watched() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    server.namespace("team").await?;
    let cluster = server.client()?;
    let soon = Duration::from_secs(60);
    let mut events = watch::<Note>(server.client()?, WatchScope::default());
    // Not yet defined: each list fails, and none is empty.
    for _ in 0..2 {
        let seen = until(&mut events, soon, |event| matches!(event, WatchEvent::Failed(_))).await?;
        assert!(
            matches!(&seen[..], [WatchEvent::ListBegin, WatchEvent::Failed(ApiError::NotServed { .. })]),
            "{seen:?}"
        );
    }
    define(&server).await?;
    served(&cluster).await?;
    cluster.create(&Note { metadata: meta("a") }).await?;
    let is_a = |note: &Note| &*note.metadata.name == "a";
    until(&mut events, soon, |event| match event {
        WatchEvent::Listed(page) => page.iter().any(is_a),
        WatchEvent::Applied(note) => is_a(note),
        _ => false,
    })
    .await?;

    // The server deletes the objects before it stops serving their kind, so they are reported one by one.
    undefine(&server).await?;
    until(&mut events, soon, |event| matches!(event, WatchEvent::Deleted(note) if is_a(note))).await?;
    until(&mut events, soon, |event| matches!(event, WatchEvent::Failed(ApiError::NotServed { .. }))).await?;

    define(&server).await?;
    served(&cluster).await?;
    cluster.create(&Note { metadata: meta("b") }).await?;
    until(&mut events, soon, |event| matches!(event, WatchEvent::ListDone)).await?;
    Ok(())
}
