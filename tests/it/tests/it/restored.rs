//! A cluster whose etcd was restored to an older state: its versions go backwards.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_testkit::cluster::{BUMP, Backup, Snapshot};
use gimbal_testkit::{TestCluster, eventually};
use gimbal_tests::{Discoverer, Mirror, Scene, Writer, expect_metric, metric, slice_of, svc};

/// What etcd is restored from.
enum Saved {
    /// Its data as they were: versions that were seen come again.
    Data(Backup),
    /// A snapshot, as docs/operations.md says: no version comes again.
    Snapshot(Snapshot),
}

impl Saved {
    async fn data(cluster: &TestCluster) -> Self {
        Self::Data(cluster.back_up().await.unwrap())
    }

    async fn snapshot(cluster: &TestCluster) -> Self {
        Self::Snapshot(cluster.snapshot().await.unwrap())
    }

    async fn restore(&self, cluster: &TestCluster) {
        match self {
            Self::Data(backup) => cluster.restore(backup).await.unwrap(),
            Self::Snapshot(snapshot) => {
                let before = version(cluster).await;
                cluster.restore_bumped(snapshot).await.unwrap();
                let after = version(cluster).await;
                assert!(before < BUMP && after >= BUMP, "{before} is followed by {after}");
                is_forgotten(cluster, before).await;
            }
        }
    }
}

const SERVICES: &str = "/api/v1/services";

/// Returns the version of the cluster's store.
async fn version(cluster: &TestCluster) -> u64 {
    let list = cluster.admin().get(SERVICES).await.unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// A watch from this version is refused, so that whoever has one lists.
async fn is_forgotten(cluster: &TestCluster, version: u64) {
    let watch = format!("{SERVICES}?watch=true&timeoutSeconds=5&resourceVersion={version}");
    let code = match cluster.admin().get(&watch).await {
        Ok(event) => event["object"]["code"].clone(),
        Err(refused) => refused.code.into(),
    };
    assert_eq!(code, 410);
}

async fn offer(scene: &Scene, name: &str, first: u32, endpoints: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "a", first << 8, endpoints)).await.unwrap();
}

/// Offers five Services of 30 endpoints each, and waits until they are published.
async fn mirrored(scene: &Scene) -> (Writer, Discoverer) {
    for number in 0..5 {
        offer(scene, &format!("web{number}"), number, 30).await;
    }
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    for number in 0..5 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-web{number}"), 30).await.unwrap();
    }
    (writer, discoverer)
}

/// Changes a Service, adds one, and changes another so often that all versions after a restoration were seen before.
async fn changed(scene: &Scene) {
    offer(scene, "later", 100, 3).await;
    offer(scene, "web0", 0, 31).await;
    for round in 0..50 {
        offer(scene, "web1", 1, 20 + round % 5).await;
    }
    offer(scene, "web1", 1, 30).await;
    is_changed(scene).await;
}

async fn is_changed(scene: &Scene) {
    Mirror::expect_count(&scene.gimbal, "team1", "node02-later", 3).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 31).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web1", 30).await.unwrap();
}

/// What the Gimbal cluster lost is created again, what is older there is written again, and later changes are
/// published.
async fn gimbal_cluster_is_made_as_the_sources_are(save: impl AsyncFn(&TestCluster) -> Saved) {
    let scene = Scene::start().await.unwrap();
    let (writer, _discoverer) = mirrored(&scene).await;
    let record = "/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02";
    let kept = async || scene.gimbal.admin().get(record).await.map(|record| record["data"]["incarnation"].clone());
    let before = eventually("the source is known", Duration::from_secs(20), kept).await.unwrap();
    // As in a backup from before the backend was known.
    scene.gimbal.admin().delete(record).await.unwrap();
    let backup = save(&scene.gimbal).await;
    changed(&scene).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();

    backup.restore(&scene.gimbal).await;
    is_changed(&scene).await;
    let writes = scene.writes_since(mark).await.unwrap();
    let creates = writes.iter().filter(|write| write.starts_with("create")).count();
    assert!(creates < 10, "{creates} creates: {writes:?}");
    // One write for each object that differs; what is refused because of its version does not count.
    let done: Vec<_> =
        writes.iter().filter(|write| [" 200", " 201"].iter().any(|code| write.ends_with(code))).collect();
    let object = |write: &String| write.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ");
    let objects: BTreeSet<String> = done.iter().map(|write| object(write)).collect();
    assert_eq!(done.len(), objects.len(), "{writes:?}");
    let others: Vec<_> = writes.iter().filter(|w| !["later", "web0", "web1"].iter().any(|n| w.contains(n))).collect();
    assert_eq!(others, [""; 0], "what is as it was is not written");
    offer(&scene, "web1", 1, 29).await;
    offer(&scene, "web2", 2, 29).await;
    scene.remove("team1", "later").await.unwrap();
    for name in ["node02-web1", "node02-web2"] {
        Mirror::expect_count(&scene.gimbal, "team1", name, 29).await.unwrap();
    }
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-later").await.unwrap();
    assert_eq!(metric(writer.admin_port, "gimbal_writer_comparison_differences", "").await.unwrap(), 0.0);
    let after = eventually("whose name it is, is kept again", Duration::from_secs(20), kept).await.unwrap();
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gimbal_cluster_restored_to_an_older_state_is_made_as_the_sources_are() {
    gimbal_cluster_is_made_as_the_sources_are(Saved::data).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gimbal_cluster_restored_as_documented_is_made_as_the_sources_are() {
    gimbal_cluster_is_made_as_the_sources_are(Saved::snapshot).await;
}

/// What the restored source does not have is removed; all else is compared by content and not written; and later
/// changes are published, although their versions were seen before.
async fn source_loses_nothing_but_what_it_lost(save: impl AsyncFn(&TestCluster) -> Saved) {
    let scene = Scene::start().await.unwrap();
    let empty = scene.source.back_up().await.unwrap();
    let (writer, _discoverer) = mirrored(&scene).await;
    let backup = save(&scene.source).await;
    changed(&scene).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();

    backup.restore(&scene.source).await;
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-later").await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 30).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    let others: Vec<_> = writes.iter().filter(|w| !w.contains("later") && !w.contains("web0")).collect();
    assert_eq!(others, [""; 0], "what is as it was is not written");
    offer(&scene, "web2", 2, 29).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web2", 29).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_held_endpoints", "", 0.0).await.unwrap();

    // If it is restored to a state without Services, the guard holds the removals.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene.source.restore(&empty).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_held_endpoints", "", 149.0).await.unwrap();
    assert_eq!(scene.writes_since(mark).await.unwrap(), [""; 0]);
    assert_eq!(metric(writer.admin_port, "gimbal_writer_comparison_differences", "").await.unwrap(), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_restored_to_an_older_state_loses_nothing_but_what_it_lost() {
    source_loses_nothing_but_what_it_lost(Saved::data).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_restored_as_documented_loses_nothing_but_what_it_lost() {
    source_loses_nothing_but_what_it_lost(Saved::snapshot).await;
}
