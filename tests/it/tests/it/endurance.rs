//! The writer's own dependencies fail: its API server is down or in trouble, its credentials come late or are replaced,
//! its log is not read. A lease that is renewed late but still held changes nothing: no stream is lost, nothing is sent
//! again.
//!
//! Short by default; `cargo xtask prove endurance` runs it at whole size (`GIMBAL_PROVE`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use gimbal_testkit::api_proxy::{Calls, Trouble};
use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::{ApiProxy, eventually};
use gimbal_tests::{
    Discoverer, Mirror, Proxy, SOON, Scene, Writer, expect_log, expect_metric, slice_of, svc, writer_rights,
};
use serde_json::{Value, json};

/// The size of a run.
struct Size {
    agents: usize,
    /// How long the API server is paused, each time.
    pauses: Vec<Duration>,
    /// How long each trouble lasts.
    trouble: Duration,
    /// How often a plug-in is run.
    runs: usize,
}

fn size() -> Size {
    let seconds = |all: &[u64]| all.iter().map(|seconds| Duration::from_secs(*seconds)).collect();
    match std::env::var_os("GIMBAL_PROVE") {
        Some(_) => Size { agents: 20, pauses: seconds(&[3, 60]), trouble: Duration::from_secs(60), runs: 20 },
        None => Size { agents: 2, pauses: seconds(&[3]), trouble: Duration::from_secs(3), runs: 3 },
    }
}

async fn offer(scene: &Scene, name: &str, count: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "a", 1, count)).await.unwrap();
}

/// Returns the number of log lines that contain `what`.
fn told(writer: &Writer, what: &str) -> usize {
    writer.process.log().lines().filter(|line| line.contains(what)).count()
}

/// A writer behind a proxy, and its agents, all of one source.
struct Stage {
    scene: Scene,
    api: ApiProxy,
    writer: Writer,
    dialled: Proxy,
    agents: Vec<Discoverer>,
    names: Vec<String>,
    count: u32,
}

impl Stage {
    async fn start(agents: usize) -> Self {
        let scene = Scene::start().await.unwrap();
        let names: Vec<String> = (0..agents).map(|n| format!("b{n:02}")).collect();
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let config = scene.config(&texts, "").unwrap();
        let api = ApiProxy::start(&scene.gimbal, &scene.gimbal.user("writer").unwrap()).await.unwrap();
        let writer = scene.writer_through(&api, &config, &[]).await.unwrap();
        expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
        let dialled = Proxy::start(&[writer.port]).await.unwrap();
        let start = |name: &String| scene.discoverer(name, &scene.source, dialled.port, &[]).unwrap();
        let agents = names.iter().map(start).collect();
        let mut stage = Self { scene, api, writer, dialled, agents, names, count: 0 };
        stage.change().await;
        stage
    }

    /// Makes a change in the source, and waits for it in the Gimbal cluster, from every agent.
    async fn change(&mut self) {
        self.begin_change().await;
        self.expect_change().await;
    }

    async fn begin_change(&mut self) {
        self.count += 1;
        offer(&self.scene, "web", self.count).await;
    }

    async fn expect_change(&self) {
        for name in &self.names {
            let service = format!("{name}-web");
            Mirror::expect_count(&self.scene.gimbal, "team1", &service, self.count as usize).await.unwrap();
        }
    }

    /// Checks that no agent connected again, no stream was opened again, and no state was requested again.
    fn expect_same_streams(&self, after: &str) {
        let agents = self.agents.len();
        assert_eq!(self.dialled.accepted(), agents, "dials after {after}\n{}", self.writer.process.log_tail());
        let told = |what| told(&self.writer, what);
        let seen = (told("stream opened"), told("goodbye"), told("asked for a snapshot"), told("leadership changed"));
        assert_eq!(seen, (agents, 0, 0, 1), "after {after}\n{}", self.writer.process.log_tail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_in_trouble_costs_no_stream() {
    let size = size();
    let mut stage = Stage::start(size.agents).await;
    for pause in size.pauses {
        stage.scene.gimbal.pause().unwrap();
        stage.begin_change().await;
        // The pause itself is the test.
        tokio::time::sleep(pause).await;
        stage.scene.gimbal.resume().unwrap();
        stage.expect_change().await;
        stage.expect_same_streams(&format!("a pause of {pause:?}"));
    }
    for trouble in [Trouble::Answer(429, Some(1)), Trouble::Answer(500, None), Trouble::Silence] {
        stage.api.trouble(&Calls::ALL, trouble);
        stage.begin_change().await;
        tokio::time::sleep(size.trouble).await;
        stage.api.recover();
        stage.expect_change().await;
        stage.expect_same_streams(&format!("{trouble:?}"));
    }
    // A lease whose renewal takes longer than the renewal interval is still held.
    stage.api.trouble(&[Calls::Leases], Trouble::Late(Duration::from_millis(1200)));
    for _ in 0..3 {
        stage.change().await;
    }
    stage.expect_same_streams("a slow lease");
    assert!(told(&stage.writer, "panicked") == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_its_log_may_go() {
    let scene = Scene::start().await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let (port, admin_port) = (free_port().unwrap(), free_port().unwrap());
    let user = scene.gimbal.user("writer").unwrap();
    let args = scene.writer_args(user.kubeconfig(), port, admin_port, &config, &[]).unwrap();
    let mut writer =
        Ends(Command::new(binary("gimbal-writer").unwrap()).args(args).stderr(Stdio::piped()).spawn().unwrap());
    expect_metric(admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
    drop(writer.0.stderr.take());
    let _agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    offer(&scene, "web", 3).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    assert!(writer.0.try_wait().unwrap().is_none(), "it runs on");
}

/// A process that is killed when dropped.
struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

/// Writes a copy of the writer's kubeconfig with another authority and other credentials.
fn kubeconfig(scene: &Scene, ca: &Path, user: &Value) -> PathBuf {
    let there = std::fs::read(scene.gimbal.user("writer").unwrap().kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_slice(&there).unwrap();
    config["users"][0]["user"] = user.clone();
    config["clusters"][0]["cluster"]["certificate-authority"] = json!(ca);
    let path = scene.path("kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plug_in_may_take_longer_than_a_call() {
    let scene = Scene::start().await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let there = std::fs::read(scene.gimbal.user("writer").unwrap().kubeconfig()).unwrap();
    let there: Value = serde_json::from_slice(&there).unwrap();
    let token = there["users"][0]["user"]["token"].as_str().unwrap();
    let runs = scene.path("runs");
    let script = format!(
        "sleep 2.5; echo run >> {}; until=$(date -u -d '+6 seconds' +%Y-%m-%dT%H:%M:%SZ); \
         echo \"{{\\\"status\\\": {{\\\"token\\\": \\\"{token}\\\", \\\"expirationTimestamp\\\": \\\"$until\\\"}}}}\"",
        runs.display()
    );
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never"
    });
    let kubeconfig = kubeconfig(&scene, &ca_of(&scene), &json!({"exec": exec}));
    let writer = scene.writer_by(&kubeconfig, &config, &[]).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
    let count = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let wanted = 1 + size().runs;
    for runs in 2..=wanted {
        eventually("the plug-in runs again", SOON, async || {
            anyhow::ensure!(count() >= runs, "{} runs", count());
            Ok::<_, anyhow::Error>(())
        })
        .await
        .unwrap();
        offer(&scene, "web", u32::try_from(runs).unwrap()).await;
        Mirror::expect_count(&scene.gimbal, "team1", "node02-web", runs).await.unwrap();
    }
    let seen = (told(&writer, "leadership changed"), told(&writer, "the lease is late"), told(&writer, token));
    assert_eq!(seen, (1, 0, 0), "{}", writer.process.log_tail());
}

/// Writes the authority of the API server's certificate into a file of this scene.
fn ca_of(scene: &Scene) -> PathBuf {
    let path = scene.path("ca.pem");
    std::fs::copy(scene.gimbal.authority().ca(), &path).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_a_kubeconfig_are_replaced_while_it_runs() {
    let scene = Scene::start().await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let (ca, pair) = (ca_of(&scene), scene.gimbal.authority().issue("writer", &[]).unwrap());
    let (cert, key) = (scene.path("client.pem"), scene.path("client.key"));
    let put = |pair: &gimbal_testkit::Pair| {
        std::fs::copy(&pair.cert, &cert).and_then(|_| std::fs::copy(&pair.key, &key)).unwrap();
    };
    put(&pair);
    let kubeconfig = kubeconfig(&scene, &ca, &json!({"client-certificate": cert, "client-key": key}));
    let writer = scene.writer_by(&kubeconfig, &config, &[]).await.unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    offer(&scene, "web", 1).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 1).await.unwrap();

    // Another user, of another authority; and the API server presents a certificate of that authority.
    let next = scene.gimbal.user("user-1").unwrap();
    scene.gimbal.bind(&next, &writer_rights().unwrap()).await.unwrap();
    put(&scene.gimbal.next_authority().issue("user-1", &[]).unwrap());
    std::fs::copy(scene.gimbal.next_authority().ca(), &ca).unwrap();
    scene.gimbal.serve_by_next_authority().unwrap();
    expect_log(&writer.process, &["the credentials for the API server changed"]).await.unwrap();
    scene.gimbal.revoke(&scene.gimbal.user("writer").unwrap()).await.unwrap();
    let mark = scene.gimbal.audit_mark().await.unwrap();
    offer(&scene, "web", 2).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 2).await.unwrap();
    let writes = scene.gimbal.audit_since(mark).await.unwrap();
    let by: Vec<_> =
        writes.iter().filter(|entry| entry.is_publication() && entry.code < 300).map(|e| &e.user).collect();
    assert_eq!(by, ["user-1"]);
    assert_eq!(told(&writer, "leadership changed"), 1, "{}", writer.process.log_tail());
}
