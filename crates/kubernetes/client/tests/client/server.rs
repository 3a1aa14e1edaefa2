//! On a real API server: its answer to each call, and that a watch loses no event when it is interrupted.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use futures::{Stream, StreamExt};
use gimbal_kubernetes_client::{Access, ApiError, Cluster, Right, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{ConfigMap, Meta, Namespace, Object, Service};
use gimbal_testkit::{Rule, TestCluster, eventually};
use tokio::time::timeout;

fn config_map(namespace: &str, name: &str, value: &str) -> ConfigMap {
    let metadata = Meta { namespace: namespace.into(), name: name.into(), ..Meta::default() };
    ConfigMap { metadata, data: [("value".to_owned(), value.to_owned())].into() }
}

#[tokio::test]
async fn calls() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    let cluster = server.client()?;
    let wanted = config_map("team", "one", "1");
    let error = cluster.create(&wanted).await.unwrap_err();
    assert!(error.namespace_missing(), "{error}");
    server.namespace("team").await?;

    let created = cluster.create(&wanted).await?;
    assert_eq!(created.data, wanted.data);
    assert_eq!(cluster.get::<ConfigMap>("team", "one").await?, created);
    assert!(matches!(cluster.create(&wanted).await, Err(ApiError::AlreadyExists { .. })));

    let mut changed = created.clone();
    changed.data = [("value".to_owned(), "2".to_owned())].into();
    let replaced = cluster.replace(&changed).await?;
    assert_ne!(replaced.metadata.resource_version, created.metadata.resource_version);
    assert!(matches!(cluster.replace(&changed).await, Err(ApiError::Conflict { .. })), "the version is old");
    let mut other = replaced.clone();
    other.metadata.uid = "00000000-0000-0000-0000-000000000000".into();
    assert!(matches!(cluster.replace(&other).await, Err(ApiError::Conflict { .. })), "the object is another");

    let delete = |meta: &Meta| {
        let (cluster, meta) = (cluster.clone(), meta.clone());
        async move { cluster.delete(ConfigMap::KIND, &meta.namespace, &meta.name, &meta.uid, &meta.resource_version).await }
    };
    assert!(matches!(delete(&created.metadata).await, Err(ApiError::Conflict { .. })), "the version is old");
    assert!(matches!(delete(&other.metadata).await, Err(ApiError::Conflict { .. })), "the object is another");
    delete(&replaced.metadata).await?;
    let error = delete(&replaced.metadata).await.unwrap_err();
    assert!(matches!(error, ApiError::NotFound { .. }) && !error.namespace_missing(), "{error}");

    assert!(matches!(cluster.create(&config_map("team", "A", "1")).await, Err(ApiError::Invalid { .. })));
    let huge = config_map("team", "huge", &"x".repeat(4 << 20));
    let error = cluster.create(&huge).await.unwrap_err();
    assert!(matches!(error, ApiError::TooLarge { .. }), "{error}");

    let team: Namespace = cluster.get("", "team").await?;
    cluster.delete(Namespace::KIND, "", "team", &team.metadata.uid, "").await?;
    let error = cluster.create(&wanted).await.unwrap_err();
    assert!(matches!(error, ApiError::NamespaceTerminating { .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn rights_that_are_missing() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    let user = server.user("user-1")?;
    let cluster = Cluster::connect(&Access::Kubeconfig(user.kubeconfig().to_owned()), "test")?;
    server.grant(&user, &[Rule::read("", &["services"])]).await?;
    let mut asked = Right::each("", &["services"], &["list", "watch", "delete"], "");
    asked.extend(Right::each("discovery.k8s.io", &["endpointslices/restricted"], &["create"], ""));
    // The API server's authorizer learns of a role a moment after it was made.
    eventually("what was granted is not missing", Duration::from_secs(30), async || {
        let missing = cluster.missing_rights(&asked).await?;
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        anyhow::ensure!(
            missing == ["delete services", "create endpointslices/restricted.discovery.k8s.io"],
            "{missing:?}"
        );
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    assert_eq!(server.client()?.missing_rights(&asked).await?, [], "who may do everything lacks nothing");
    Ok(())
}

#[tokio::test]
async fn refusals() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    let user = server.user("user-1")?;
    let cluster = Cluster::connect(&Access::Kubeconfig(user.kubeconfig().to_owned()), "test")?;
    let all = WatchScope::default();
    assert!(matches!(cluster.list::<Service>(&all).await, Err(ApiError::Forbidden { .. })));
    server.grant(&user, &[Rule::read("", &["services"])]).await?;
    // The API server makes default/kubernetes when it is ready, but a moment later.
    eventually("default/kubernetes is listed", Duration::from_secs(30), async || {
        let listed = cluster.list::<Service>(&all).await?.len();
        anyhow::ensure!(listed == 1, "{listed} Services are listed");
        Ok::<_, anyhow::Error>(())
    })
    .await?;

    let text = std::fs::read_to_string(user.kubeconfig())?;
    let wrong = server.dir().join("wrong");
    let mut config: serde_json::Value = serde_json::from_str(&text)?;
    config["users"][0]["user"]["token"] = "unknown".into();
    std::fs::write(&wrong, config.to_string())?;
    let stranger = Cluster::connect(&Access::Kubeconfig(wrong), "test")?;
    assert!(matches!(stranger.list::<Service>(&all).await, Err(ApiError::Unauthorized { .. })));

    server.pause()?;
    let hasty = cluster.clone().with_timeout(Duration::from_millis(200));
    assert!(matches!(hasty.list::<Service>(&all).await, Err(ApiError::Timeout { .. })));
    server.resume()?;
    server.stop_apiserver()?;
    let error = cluster.list::<Service>(&all).await.unwrap_err();
    assert!(matches!(error, ApiError::Transport { .. }), "{error}");
    Ok(())
}

/// What a consumer of the watch holds, by name.
#[derive(Default)]
struct Held {
    maps: BTreeMap<String, String>,
    listing: Option<BTreeMap<String, String>>,
    lists: usize,
    failures: Vec<ApiError>,
}

impl Held {
    fn take(&mut self, event: WatchEvent<ConfigMap>) {
        let entry = |map: ConfigMap| (map.metadata.name.to_string(), map.data.into_values().next().unwrap_or_default());
        match event {
            WatchEvent::ListBegin => self.listing = Some(BTreeMap::new()),
            WatchEvent::Listed(page) => self.listing.get_or_insert_default().extend(page.into_iter().map(entry)),
            WatchEvent::ListDone => {
                self.maps = self.listing.take().unwrap_or_default();
                self.lists += 1;
            }
            WatchEvent::Applied(map) => self.maps.extend([entry(map)]),
            WatchEvent::Deleted(map) => drop(self.maps.remove(&*map.metadata.name)),
            WatchEvent::Failed(error) => self.failures.push(error),
            WatchEvent::Alive | WatchEvent::WentBack { .. } => {}
        }
    }

    /// Follows the watch until it is as the test wants it.
    async fn until(
        &mut self,
        events: &mut (impl Stream<Item = WatchEvent<ConfigMap>> + Unpin),
        wanted: impl Fn(&Self) -> bool,
    ) -> anyhow::Result<()> {
        let follow = async {
            while !wanted(self) {
                let event = events.next().await.context("the watch ended")?;
                self.take(event);
            }
            Ok(())
        };
        timeout(Duration::from_secs(60), follow).await.context("this never came")?
    }
}

#[tokio::test]
async fn a_watch_through_pages_restart_and_compaction() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    let cluster = server.client()?;
    server.namespace("team").await?;
    let fill: Vec<_> = (0..620).map(|n| config_map("team", &format!("map-{n}"), "0")).collect();
    let filled = futures::stream::iter(&fill).map(|map| cluster.create(map)).buffer_unordered(16);
    let filled: Vec<_> = filled.collect().await;
    assert!(filled.iter().all(Result::is_ok));

    let scope = WatchScope { namespace: Some("team".into()), ..WatchScope::default() };
    assert_eq!(cluster.list::<ConfigMap>(&scope).await?.len(), 620);
    let mut events = watch::<ConfigMap>(server.client()?, scope);
    let mut held = Held::default();
    held.until(&mut events, |held| held.lists == 1).await?;
    assert_eq!(held.maps.len(), 620, "more than a page");

    let first = cluster.get::<ConfigMap>("team", "map-0").await?;
    cluster.delete(ConfigMap::KIND, "team", "map-0", &first.metadata.uid, "").await?;
    cluster.create(&config_map("team", "new", "1")).await?;
    held.until(&mut events, |held| held.maps.contains_key("new")).await?;
    assert!(!held.maps.contains_key("map-0") && held.failures.is_empty(), "{:?}", held.failures);

    // While the server is away nothing is lost.
    server.stop_apiserver()?;
    held.until(&mut events, |held| held.failures.len() > 1).await?;
    assert_eq!(held.maps.len(), 620);
    server.start_apiserver().await?;
    cluster.create(&config_map("team", "after", "1")).await?;
    held.until(&mut events, |held| held.maps.contains_key("after")).await?;

    // Deleted while the watch is away and its version compacted: only a new list can tell.
    server.stop_apiserver()?;
    let failures = held.failures.len();
    held.until(&mut events, |held| held.failures.len() > failures).await?;
    server.start_apiserver().await?;
    for _ in 0..3 {
        cluster.create(&config_map("team", "brief", "1")).await?;
        let brief = cluster.get::<ConfigMap>("team", "brief").await?;
        cluster.delete(ConfigMap::KIND, "team", "brief", &brief.metadata.uid, "").await?;
    }
    let after = cluster.get::<ConfigMap>("team", "after").await?;
    cluster.delete(ConfigMap::KIND, "team", "after", &after.metadata.uid, "").await?;
    server.compact().await?;
    server.stop_apiserver()?;
    server.start_apiserver().await?;
    held.until(&mut events, |held| !held.maps.contains_key("after")).await?;
    assert_eq!(held.maps.len(), 620);
    assert!(held.lists > 1, "by a list");
    Ok(())
}

#[tokio::test]
async fn a_right_that_goes_and_comes() -> anyhow::Result<()> {
    let server = TestCluster::start().await?;
    let user = server.user("user-1")?;
    let cluster = Cluster::connect(&Access::Kubeconfig(user.kubeconfig().to_owned()), "test")?;
    let mut events = watch::<ConfigMap>(cluster, WatchScope::default());
    let mut held = Held::default();
    held.until(&mut events, |held| held.failures.len() == 2).await?;
    assert!(held.failures.iter().all(|error| matches!(error, ApiError::Forbidden { .. })), "{:?}", held.failures);
    assert_eq!(held.lists, 0, "no right is not an empty list");
    server.grant(&user, &[Rule::read("", &["configmaps"])]).await?;
    held.until(&mut events, |held| held.lists == 1).await?;
    Ok(())
}
