//! Backends divided over two writers of one Gimbal cluster (docs/scale.md): each leads in a namespace of its own, and
//! leaves the other's objects alone, even where names meet.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, Writer, expect_log, expect_metric, slice_of, svc, writer_rights};
use serde_json::json;

/// "b-web" of the first and "web" of the second want one name.
const BACKENDS: [&str; 2] = ["a", "a-b"];
const USERS: [&str; 2] = ["writer", "user-1"];
const NAMESPACES: [&str; 2] = ["gimbal-first", "gimbal-second"];

struct Divided {
    scene: Scene,
    configs: [PathBuf; 2],
    ports: [u16; 2],
}

impl Divided {
    async fn start() -> Self {
        let scene = Scene::start().await.unwrap();
        // Each may keep its Lease and ConfigMaps in its own namespace only.
        for (user, namespace) in USERS.iter().zip(NAMESPACES) {
            let rights = writer_rights().unwrap().in_namespace(namespace);
            scene.gimbal.bind(&scene.gimbal.user(user).unwrap(), &rights).await.unwrap();
        }
        let configs = BACKENDS.map(|backend| {
            let path = scene.path(&format!("{backend}.yaml"));
            std::fs::copy(scene.config(&[backend], "").unwrap(), &path).unwrap();
            path
        });
        Self { scene, configs, ports: [free_port().unwrap(), free_port().unwrap()] }
    }

    async fn writer(&self, which: usize) -> Writer {
        let args = ["--namespace", NAMESPACES[which], "--comparison-interval", "1s"];
        let writer = self.scene.writer_as(USERS[which], self.ports[which], &self.configs[which], &args).await.unwrap();
        expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
        writer
    }

    fn agent(&self, which: usize) -> Discoverer {
        self.scene.discoverer(BACKENDS[which], &self.scene.source, self.ports[which], &[]).unwrap()
    }

    async fn offer(&self, name: &str, first: u32) {
        self.scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
        self.scene.put(&slice_of("team1", name, "a", first, 3)).await.unwrap();
    }

    /// Waits until a Service belongs to a backend, by its label.
    async fn expect_owner(&self, name: &str, backend: &str) {
        eventually(&format!("{name} is {backend}'s"), SOON, async || {
            let mirror = Mirror::get(&self.scene.gimbal, "team1", name).await?;
            let service = mirror.map(|mirror| mirror.service).unwrap_or_default();
            let label = service["metadata"]["labels"]["gimbal.projectcontour.io/backend"].clone();
            anyhow::ensure!(label == backend, "its label is {label}");
            Ok::<_, anyhow::Error>(())
        })
        .await
        .unwrap();
    }

    /// Returns the names of the objects that a writer wrote since `mark`.
    async fn written(&self, which: usize, mark: usize) -> BTreeSet<String> {
        let entries = self.scene.gimbal.audit_since(mark).await.unwrap();
        let writes = entries.into_iter().filter(|entry| entry.is_publication() && entry.user == USERS[which]);
        writes.map(|entry| entry.name).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_leaves_the_others_objects_alone() {
    let divided = Divided::start().await;
    let scene = &divided.scene;
    divided.offer("web", 1).await;
    let mut writers = [divided.writer(0).await, divided.writer(1).await];
    let _agents = [divided.agent(0), divided.agent(1)];
    for name in ["a-web", "a-b-web"] {
        Mirror::expect_count(&scene.gimbal, "team1", name, 3).await.unwrap();
    }
    let began = [divided.written(0, 0).await, divided.written(1, 0).await];
    assert!(began[0].iter().all(|name| name.starts_with("a-web")), "{began:?}");
    assert!(began[1].iter().all(|name| name.starts_with("a-b-web")), "{began:?}");

    // A restart of both writes nothing, though each meets objects that no agent of its own claims.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    for (which, writer) in writers.iter_mut().enumerate() {
        writer.process.kill().unwrap();
        *writer = divided.writer(which).await;
    }
    for writer in &writers {
        writer.settled(1).await.unwrap();
    }
    let again = [divided.written(0, mark).await, divided.written(1, mark).await];
    assert_eq!(again, [BTreeSet::new(), BTreeSet::new()]);

    // From its first list on the first writer knows the other's backend by its objects, and that it is not its own.
    let first = scene.ask(&writers[0]).unwrap();
    let stays = |backend: &serde_json::Value| {
        backend["trouble"].as_str().is_some_and(|text| text.contains("objects stay until it is decommissioned"))
    };
    first.expect_backend("a-b", "is not configured here", stays).await.unwrap();

    // The name is taken by the other writer's object; it stays there, in both writers' eyes.
    divided.offer("b-web", 100).await;
    Mirror::expect_count(&scene.gimbal, "team1", "a-b-b-web", 3).await.unwrap();
    expect_log(&writers[0].process, &["rejected", "team1/b-web", "NameConflict"]).await.unwrap();
    divided.expect_owner("a-b-web", "a-b").await;
    // It is not touched even when the writer of its own backend is down.
    writers[1].process.kill().unwrap();
    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene.remove("team1", "web").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "a-web").await.unwrap();
    divided.expect_owner("a-b-web", "a-b").await;
    assert!(divided.written(0, mark).await.iter().all(|name| name.starts_with("a-web")));

    // The object's own writer learns that its Service is gone, and then the name is free.
    writers[1] = divided.writer(1).await;
    divided.expect_owner("a-b-web", "a").await;
    Mirror::expect_count(&scene.gimbal, "team1", "a-b-web", 3).await.unwrap();

    // The saved state of each backend is in its writer's namespace.
    for (backend, namespace) in BACKENDS.into_iter().zip(NAMESPACES) {
        let maps = scene.gimbal.admin().items(&format!("/api/v1/namespaces/{namespace}/configmaps")).await.unwrap();
        let ours = maps.iter().map(|map| &map["metadata"]["name"]).filter(|name| *name != "kube-root-ca.crt");
        assert_eq!(ours.collect::<Vec<_>>(), [&json!(format!("gimbal-backend-{backend}"))]);
    }
}
