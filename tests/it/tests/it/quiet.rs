//! No write without a difference: restarts of either side, in any order, leave the Gimbal cluster unchanged.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_tests::{Discoverer, Ep, Mirror, SOON, Scene, Writer, expect_log, metric, put, slice, slice_of, svc};

const SERVICES: usize = 60;
const OFTEN: [&str; 2] = ["--comparison-interval", "1s"];

/// Offers Services of many forms: no slice, one, several, both families, more endpoints than one of Gimbal's slices
/// holds.
async fn fill(scene: &Scene) {
    for n in 0..SERVICES {
        let name = format!("web-{n}");
        scene.put(&svc("team1", &name, &[("http", 80), ("metrics", 9090)][..1 + n % 2])).await.unwrap();
        let ports = [("http", 80), ("metrics", 9090)];
        let addresses: Vec<String> = (0..n % 4).map(|part| format!("10.1.{n}.{part}")).collect();
        for (part, address) in addresses.iter().enumerate() {
            let endpoints = [Ep::Ready(address), Ep::Terminating("10.2.0.1"), Ep::NotReady("10.2.0.2")];
            let endpoints = &endpoints[..1 + part];
            scene.put(&slice("team1", &name, &format!("v4-{part}"), &ports[..1 + n % 2], endpoints)).await.unwrap();
        }
        if n % 5 == 0 {
            let address = format!("fd00::1:{n}");
            scene.put(&slice("team1", &name, "v6", &ports[..1 + n % 2], &[Ep::Ready(&address)])).await.unwrap();
        }
    }
    scene.put(&svc("team1", "big", &[("http", 80)])).await.unwrap();
    for part in 0..3 {
        scene.put(&slice_of("team1", "big", &format!("part-{part}"), 1000 + part * 90, 90)).await.unwrap();
    }
}

struct Quiet {
    scene: Scene,
    config: std::path::PathBuf,
    published: BTreeMap<String, String>,
    mark: usize,
}

impl Quiet {
    async fn writer(&self, port: u16) -> Writer {
        self.scene.writer_at(port, &self.config, &OFTEN).await.unwrap()
    }

    fn agent(&self, port: u16) -> Discoverer {
        self.scene.discoverer("node02", &self.scene.source, port, &[]).unwrap()
    }

    /// Checks that nothing was written since the start, not even the backend's saved state.
    async fn check(&self, what: &str, writer: &Writer) {
        writer.settled(1).await.unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!(self.scene.writes_since(self.mark).await.unwrap(), Vec::<String>::new(), "{what}");
        let kept = self.scene.gimbal.audit_since(self.mark).await.unwrap();
        let kept = kept.iter().filter(|e| e.user == "writer" && e.is_write() && e.resource == "configmaps").count();
        assert_eq!(kept, 0, "{what}: the state of a backend is written on a change only");
        assert_eq!(self.scene.published().await.unwrap(), self.published, "{what}");
    }
}

/// Returns what the writer requested when it accepted the newest stream.
async fn needs(agent: &Discoverer) -> String {
    eventually("the writer takes the stream in", SOON, async || {
        let log = agent.process.log();
        let welcome = log.lines().rfind(|line| line.contains("the writer took the stream in"));
        let needs = welcome.and_then(|line| line.split("needs=\"").nth(1)?.split('"').next().map(str::to_owned));
        needs.ok_or_else(|| anyhow::anyhow!("not yet"))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn restarts_write_nothing_and_a_fresh_change_after_one_is_the_only_write() {
    let scene = Scene::start().await.unwrap();
    fill(&scene).await;
    let config = scene.config(&["node02"], "").unwrap();
    let mut writer = scene.writer(&config, &OFTEN).await.unwrap();
    let port = writer.port;
    let mut agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-big", 270).await.unwrap();
    writer.settled(1).await.unwrap();
    assert_eq!(needs(&agent).await, "everything");
    let published = scene.published().await.unwrap();
    let services = published.keys().filter(|name| name.starts_with("/api/v1/services team1/node02-")).count();
    assert_eq!(services, SERVICES + 1);
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let quiet = Quiet { scene, config, published, mark };

    agent.process.kill().unwrap();
    agent = quiet.agent(port);
    assert_eq!(needs(&agent).await, "nothing", "the writer holds what the agent holds");
    quiet.check("the agent restarted", &writer).await;
    let received = metric(writer.admin_port, "gimbal_writer_backend_services", "").await.unwrap();
    assert_eq!(received, (SERVICES + 1) as f64);

    writer.process.terminate(SOON).await.unwrap();
    writer = quiet.writer(port).await;
    quiet.check("the writer restarted", &writer).await;
    assert_eq!(needs(&agent).await, "everything", "a new writer holds nothing");

    writer.process.kill().unwrap();
    writer = quiet.writer(port).await;
    quiet.check("the writer was killed", &writer).await;

    writer.process.kill().unwrap();
    agent.process.kill().unwrap();
    agent = quiet.agent(port);
    expect_log(&agent.process, &["no stream to the writer"]).await.unwrap();
    writer = quiet.writer(port).await;
    quiet.check("both were killed, and the agent came back first", &writer).await;

    agent.process.terminate(SOON).await.unwrap();
    writer.process.terminate(SOON).await.unwrap();
    writer = quiet.writer(port).await;
    agent = quiet.agent(port);
    quiet.check("both restarted", &writer).await;

    // A change that is made while everything is sent anew.
    writer.process.kill().unwrap();
    writer = quiet.writer(port).await;
    let scene = &quiet.scene;
    let changed = slice("team1", "web-1", "v4-0", &[("http", 80), ("metrics", 9090)], &[Ep::Ready("10.9.9.9")]);
    put(&scene.source, &changed).await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "node02-web-1", &["10.9.9.9:8080", "10.9.9.9:17090"]).await.unwrap();
    writer.settled(1).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(writes[0].starts_with("update endpointslices team1/node02-web-1-"), "{writes:?}");

    // Neither end takes long to stop.
    assert!(agent.process.terminate(SOON).await.unwrap().after < Duration::from_secs(10));
}
