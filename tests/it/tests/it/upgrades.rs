//! One side is a release older than the other, on the way up and on the way down. `cargo xtask prove upgrades` builds the programs of
//! the former release, so this is not part of the test run.

use std::path::PathBuf;

use gimbal_testkit::eventually;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Discoverer, Grpcurl, Mirror, SOON, Scene, Writer, slice_of, svc};
use serde_json::{Value, json};

const SERVICES: [&str; 3] = ["web", "api", "mail"];
/// How long a program may take to end when it is asked to.
const END: std::time::Duration = std::time::Duration::from_secs(10);

/// Which release a program is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    Former,
    This,
}

/// The folder of the former release's programs.
pub(crate) fn former() -> PathBuf {
    let former = std::env::var_os("GIMBAL_FORMER_BIN_DIR").map(PathBuf::from);
    former.expect("GIMBAL_FORMER_BIN_DIR is not set: run `cargo xtask prove upgrades`")
}

/// Both programs, and how many endpoints each Service has.
struct Stage {
    scene: Scene,
    config: PathBuf,
    /// The folder of the former release's programs.
    former: PathBuf,
    port: u16,
    writer: Option<Writer>,
    discoverer: Option<Discoverer>,
    endpoints: u32,
}

impl Stage {
    async fn start(release: Release) -> Self {
        let former = former();
        let scene = Scene::start().await.unwrap();
        let (config, port) = (scene.config(&["node02"], "").unwrap(), free_port().unwrap());
        let mut stage = Self { scene, config, former, port, writer: None, discoverer: None, endpoints: 0 };
        stage.run_writer(release).await;
        stage.run_discoverer(release).await;
        for service in SERVICES {
            stage.scene.put(&svc("team1", service, &[("http", 80)])).await.unwrap();
        }
        stage.another_endpoint().await;
        stage
    }

    fn take(&mut self, release: Release) {
        let dir = (release == Release::Former).then(|| self.former.clone());
        self.scene.take_programs_from(dir);
    }

    /// Replaces the writer, as a rollout does: it is asked to end, and the next one has its address.
    async fn run_writer(&mut self, release: Release) {
        if let Some(mut writer) = self.writer.take() {
            writer.process.terminate(END).await.unwrap();
        }
        self.take(release);
        self.writer = Some(self.scene.writer_at(self.port, &self.config, &[]).await.unwrap());
    }

    async fn run_discoverer(&mut self, release: Release) {
        if let Some(mut discoverer) = self.discoverer.take() {
            discoverer.process.terminate(END).await.unwrap();
        }
        self.take(release);
        let discoverer = self.scene.discoverer("node02", &self.scene.source, self.port, &[]).unwrap();
        discoverer.ready().await.unwrap();
        self.discoverer = Some(discoverer);
    }

    /// Gives each Service an endpoint more, and waits until all have arrived.
    async fn another_endpoint(&mut self) {
        self.endpoints += 1;
        for (number, service) in (0_u32..).zip(SERVICES) {
            self.scene.put(&slice_of("team1", service, "a", 1000 * number + 1, self.endpoints)).await.unwrap();
        }
        for service in SERVICES {
            let (name, count) = (format!("node02-{service}"), usize::try_from(self.endpoints).unwrap());
            Mirror::expect_count(&self.scene.gimbal, "team1", &name, count).await.unwrap();
        }
    }

    /// Checks that each program of this release says which capabilities the other one named.
    async fn each_knows_the_other(&self, writer: Release, discoverer: Release) {
        let named = |of: Release| if of == Release::This { json!(["change-age", "trace"]) } else { Value::Null };
        let what = |of: Release| format!("what a program of the release {of:?} named");
        if writer == Release::This {
            let client = self.scene.ask(self.writer.as_ref().unwrap()).unwrap();
            let said = |backend: &Value| backend["peerCapabilities"] == named(discoverer);
            client.expect_backend("node02", &what(discoverer), said).await.unwrap();
        }
        if discoverer == Release::This {
            let client = Grpcurl::plaintext(self.discoverer.as_ref().unwrap().port);
            let said = |backend: &Value| backend["peerCapabilities"] == named(writer);
            client.expect_backend("node02", &what(writer), said).await.unwrap();
        }
    }

    /// Checks that since `mark` the writer has written what changed, each change once, and nothing else.
    async fn only_changes_were_written(&self, mark: usize, what: &str) {
        let mut writes = eventually(&format!("{what}: the changes are in the audit log"), SOON, async || {
            let writes = self.scene.writes_since(mark).await?;
            anyhow::ensure!(writes.len() >= SERVICES.len(), "{writes:?}");
            Ok(writes)
        })
        .await
        .unwrap();
        writes.retain(|write| !(write.contains(" endpointslices ") && write.ends_with(" 200")));
        assert_eq!(writes, [] as [String; 0], "{what}");
        let writes = self.scene.writes_since(mark).await.unwrap();
        assert_eq!(writes.len(), SERVICES.len(), "{what}: {writes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn either_side_may_be_a_release_older() {
    use Release::{Former, This};
    let mut stage = Stage::start(Former).await;
    let (mut writer, mut discoverer) = (Former, Former);
    // Discoverers first, and back; then writers first, and back.
    for (program, release) in [
        ("discoverer", This),
        ("writer", This),
        ("discoverer", Former),
        ("discoverer", This),
        ("writer", Former),
        ("discoverer", Former),
        ("writer", This),
        ("writer", Former),
    ] {
        let mark = stage.scene.gimbal.audit_mark().await.unwrap();
        match program {
            "writer" => {
                writer = release;
                stage.run_writer(release).await;
            }
            _ => {
                discoverer = release;
                stage.run_discoverer(release).await;
            }
        }
        stage.another_endpoint().await;
        stage.each_knows_the_other(writer, discoverer).await;
        stage.only_changes_were_written(mark, &format!("the {program} is of the release {release:?}")).await;
    }
}
