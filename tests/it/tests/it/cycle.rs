//! A cluster that is mirrored and mirrors back (gimbal#138): A into G as backend `a`, G into A as backend `g`. Without
//! the label that marks a mirror, each would offer the other's mirrors endlessly.

use std::collections::BTreeSet;
use std::mem::swap;
use std::path::PathBuf;

use gimbal_testkit::TestCluster;
use gimbal_tests::{Discoverer, Mirror, Scene, Writer, expect_metric, put, slice_of, svc};
use serde_json::json;

const OFTEN: [&str; 2] = ["--comparison-interval", "1s"];

/// One direction: the writer of a cluster, and the discoverer that reads the other one.
struct Way {
    backend: &'static str,
    writer: Writer,
    discoverer: Discoverer,
}

impl Way {
    /// Starts the direction from the scene's source into its Gimbal cluster.
    async fn open(scene: &Scene, backend: &'static str) -> Self {
        let writer = scene.writer(&config(scene, backend), &OFTEN).await.unwrap();
        let discoverer = scene.discoverer(backend, &scene.source, writer.port, &[]).unwrap();
        Self { backend, writer, discoverer }
    }

    /// Waits until the discoverer offers `offered` Services and skips `mirrors` mirrors, and the writer has nothing to
    /// do.
    async fn expect(&self, offered: u32, mirrors: u32) {
        let port = self.discoverer.admin_port;
        let left_out = "reason=\"Mirror\"";
        expect_metric(port, "gimbal_discoverer_skipped", left_out, f64::from(mirrors)).await.unwrap();
        let offered = offered.to_string();
        let held = |backend: &serde_json::Value| backend["held"]["count"] == *offered;
        self.discoverer.ask().expect_backend(self.backend, &format!("{offered} are offered"), held).await.unwrap();
        self.writer.settled(1).await.unwrap();
    }

    fn why(&self, name: &str) -> String {
        let object = json!({"source": {"backend": self.backend, "key": {"namespace": "team1", "name": name}}});
        let answer = self.discoverer.ask().call("InspectionService/Explain", &object).unwrap();
        assert_eq!(answer.get("service"), None, "{answer}");
        answer["reasons"].to_string()
    }
}

/// Each writer has a configuration file of its own, because each reloads its own.
fn config(scene: &Scene, backend: &str) -> PathBuf {
    let own = scene.path(&format!("writer-of-{backend}.yaml"));
    std::fs::rename(scene.config(&[backend], "").unwrap(), &own).unwrap();
    own
}

async fn add(cluster: &TestCluster, name: &str, first: u32, count: u32) {
    put(cluster, &svc("team1", name, &[("http", 80)])).await.unwrap();
    put(cluster, &slice_of("team1", name, "x", first, count)).await.unwrap();
}

/// Returns the Services and slices of `team1`; slices by the Service that they belong to.
async fn all(cluster: &TestCluster) -> (BTreeSet<String>, Vec<String>) {
    let api = cluster.admin();
    let services = api.items("/api/v1/namespaces/team1/services").await.unwrap();
    let slices = api.items("/apis/discovery.k8s.io/v1/namespaces/team1/endpointslices").await.unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let services = services.iter().map(|service| text(&service["metadata"]["name"])).collect();
    let owner = |slice: &serde_json::Value| text(&slice["metadata"]["labels"]["kubernetes.io/service-name"]);
    let mut slices: Vec<String> = slices.iter().map(owner).collect();
    slices.sort();
    (services, slices)
}

async fn expect_all(cluster: &TestCluster, names: &[&str]) {
    let (services, slices) = all(cluster).await;
    let wanted: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(services, wanted);
    assert_eq!(slices, wanted.into_iter().collect::<Vec<_>>(), "a slice each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_mirrored_back_gets_each_service_once() {
    let mut scene = Scene::start().await.unwrap();
    for (cluster, user, rights) in [
        (&scene.source, "writer", gimbal_tests::writer_rights().unwrap()),
        (&scene.gimbal, "discoverer", gimbal_tests::discoverer_rights().unwrap()),
    ] {
        cluster.bind(&cluster.user(user).unwrap(), &rights).await.unwrap();
    }
    add(&scene.source, "web", 1, 3).await;
    add(&scene.gimbal, "api", 100, 2).await;

    let there = Way::open(&scene, "a").await;
    Mirror::expect_count(&scene.gimbal, "team1", "a-web", 3).await.unwrap();
    swap_ends(&mut scene);
    let back = Way::open(&scene, "g").await;
    swap_ends(&mut scene);
    let (a, g) = (&scene.source, &scene.gimbal);
    Mirror::expect_count(a, "team1", "g-api", 2).await.unwrap();

    // What came from A is not offered back, and what came back is not offered again.
    there.expect(1, 1).await;
    back.expect(1, 1).await;
    let mark = "it carries the label gimbal.projectcontour.io/backend: it is itself a mirror";
    assert!(back.why("a-web").contains(mark), "{}", back.why("a-web"));
    assert!(there.why("g-api").contains(mark), "{}", there.why("g-api"));

    // Changes, each followed by one at the other end: when the second arrives, so have the first and its mirror.
    for round in 1..=3 {
        add(a, "web", 1, 3 + round).await;
        Mirror::expect_count(g, "team1", "a-web", (3 + round) as usize).await.unwrap();
        add(g, "api", 100, 2 + round).await;
        Mirror::expect_count(a, "team1", "g-api", (2 + round) as usize).await.unwrap();
    }
    add(a, "late", 200, 1).await;
    Mirror::expect_count(g, "team1", "a-late", 1).await.unwrap();
    add(g, "marker", 300, 1).await;
    Mirror::expect_count(a, "team1", "g-marker", 1).await.unwrap();
    add(a, "last", 400, 1).await;
    Mirror::expect_count(g, "team1", "a-last", 1).await.unwrap();
    there.expect(3, 2).await;
    back.expect(2, 3).await;
    expect_all(a, &["web", "late", "last", "g-api", "g-marker"]).await;
    expect_all(g, &["api", "marker", "a-web", "a-late", "a-last"]).await;

    // A Service that is deleted at its source has no copy anywhere that would restore it.
    scene.remove("team1", "web").await.unwrap();
    Mirror::expect_gone(g, "team1", "a-web").await.unwrap();
    there.expect(2, 2).await;
    back.expect(2, 2).await;
    expect_all(a, &["late", "last", "g-api", "g-marker"]).await;
    expect_all(g, &["api", "marker", "a-late", "a-last"]).await;
}

/// A scene writes from its source into its Gimbal cluster; swapped, it serves the other direction.
fn swap_ends(scene: &mut Scene) {
    swap(&mut scene.source, &mut scene.gimbal);
}
