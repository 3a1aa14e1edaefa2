//! One cloud that two discoverers mirror at the same time: one with a token for each project, one with a token that
//! sees all projects.

use std::path::PathBuf;
use std::time::Duration;

use gimbal_testkit::openstack::{OpenStack, User};
use gimbal_testkit::process::free_port;
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, Writer, expect_metric};
use serde_json::Value;

/// The first backend's discoverer has a token for each project, the second's has one that sees all projects.
pub const BACKENDS: [&str; 2] = ["osp1", "osp2"];
/// Several polls: long enough to show that something does not happen.
pub const A_WHILE: Duration = Duration::from_secs(3);
const OFTEN: [&str; 8] =
    ["--poll-interval", "500ms", "--sweep", "1s", "--projects-interval", "1s", "--project-hold", "1s"];

pub struct Stage {
    pub scene: Scene,
    pub cloud: OpenStack,
    pub config: PathBuf,
    pub writer: Writer,
    pub discoverers: Vec<Discoverer>,
}

impl Stage {
    pub async fn start() -> Self {
        let (scene, cloud) = tokio::join!(Scene::start(), OpenStack::start());
        let (scene, cloud) = (scene.unwrap(), cloud.unwrap());
        for namespace in ["alpha", "beta", "gamma", "beta-two"] {
            scene.gimbal.namespace(namespace).await.unwrap();
        }
        // A load balancer of another project shows that a token sees more than its own project.
        cloud.create_load_balancer("gamma", &gimbal_tests::web("first", &["10.1.0.1"])).await.unwrap();
        for (backend, user) in BACKENDS.iter().zip([User::Discoverer, User::Admin]) {
            cloud.credentials(user).write_secret(&scene.path(backend)).unwrap();
        }
        // These tests remove most of the few endpoints, which the guard would hold.
        let extra = "guard: {minEndpoints: 1000}";
        let config = scene.config(&[BACKENDS[0], BACKENDS[1], "osp3"], extra).unwrap();
        let port = free_port().unwrap();
        let writer = scene.writer_at(port, &config, &["--comparison-interval", "1s"]).await.unwrap();
        let mut stage = Self { scene, cloud, config, writer, discoverers: Vec::new() };
        stage.start_discoverers();
        // The gauge is set once a second; from here on it falls only when something fails.
        stage.expect_complete(true).await;
        stage
    }

    pub fn start_discoverers(&mut self) {
        self.discoverers = BACKENDS.iter().map(|backend| self.discoverer(backend, &OFTEN)).collect();
    }

    pub fn discoverer(&self, backend: &str, args: &[&str]) -> Discoverer {
        let credentials = self.scene.path(backend);
        self.scene.openstack_discoverer(backend, &credentials, self.writer.port, args).unwrap()
    }

    pub async fn restart_writer(&mut self) {
        self.writer.process.terminate(SOON).await.unwrap();
        let port = self.writer.port;
        self.writer = self.scene.writer_at(port, &self.config, &["--comparison-interval", "1s"]).await.unwrap();
    }

    /// Waits until a load balancer's Service of each backend has these endpoints. Returns the first backend's mirror.
    pub async fn expect(&self, namespace: &str, balancer: &Value, endpoints: &[&str]) -> Mirror {
        let mut mirrors = Vec::new();
        for (backend, discoverer) in BACKENDS.iter().zip(&self.discoverers) {
            let name = service(backend, balancer);
            let mirror = Mirror::expect(&self.scene.gimbal, namespace, &name, endpoints).await;
            mirrors.push(mirror.unwrap_or_else(|error| {
                let offered = discoverer.ask().call("InspectionService/ListServices", &serde_json::json!({}));
                panic!("{error:#}\noffered: {offered:?}\n{}", discoverer.process.log_tail())
            }));
        }
        mirrors.swap_remove(0)
    }

    pub async fn expect_gone(&self, namespace: &str, balancer: &Value) {
        for backend in BACKENDS {
            Mirror::expect_gone(&self.scene.gimbal, namespace, &service(backend, balancer)).await.unwrap();
        }
    }

    /// Waits until every discoverer reports its source as complete, or as incomplete.
    pub async fn expect_complete(&self, complete: bool) {
        for discoverer in &self.discoverers {
            let wanted = f64::from(u8::from(complete));
            let metric = expect_metric(discoverer.admin_port, "gimbal_discoverer_source_complete", "", wanted);
            metric.await.unwrap_or_else(|error| panic!("{error:#}\n{}", discoverer.process.log_tail()));
        }
    }
}

/// Returns `<backend>-<name>-<id>`, for names that need no escaping.
pub fn service(backend: &str, balancer: &Value) -> String {
    match (text(&balancer["name"]), text(&balancer["id"])) {
        ("", id) => format!("{backend}-{id}"),
        (name, id) => format!("{backend}-{name}-{id}"),
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Returns an object's path in Octavia.
pub fn path(collection: &str, object: &Value) -> String {
    format!("/{collection}/{}", text(&object["id"]))
}
