//! An attacker with backend `hostile`'s certificate beside the honest backend `hostile-b`, and the objects that must
//! not change.

use std::collections::BTreeMap;

use gimbal_testkit::eventually;
use gimbal_testkit::pki::backend_identity;
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, Writer, expect_metric, metric, put, slice_of, svc};
use serde_json::{Value, json};

/// The attacker's policy.
pub const POLICY: &str = r#"
  namespaces: {allow: ["team1", "own-*"], deny: ["own-secret"]}
  addresses: {allow: ["10.0.0.0/8", "fd00::/8", "127.0.0.0/8", "169.254.0.0/16"]}
  quota: {services: 20, endpoints: 40, bytes: 40000}
"#;
const LISTS: [&str; 5] = [
    "/api/v1/services",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/api/v1/endpoints",
    "/api/v1/namespaces",
    "/api/v1/configmaps",
];

pub struct Siege {
    pub scene: Scene,
    pub writer: Writer,
    pub honest: Discoverer,
    /// Every object that is not the attacker's: UID and version, by name.
    others: BTreeMap<String, String>,
    /// The number of streams that the honest discoverer had opened when it was connected.
    streams: f64,
    changes: u8,
}

impl Siege {
    pub async fn begin() -> Self {
        let scene = Scene::start().await.unwrap();
        for namespace in ["theirs", "own-1", "own-secret"] {
            scene.gimbal.namespace(namespace).await.unwrap();
        }
        scene.source.namespace("theirs").await.unwrap();
        for (namespace, name) in [("team1", "web"), ("theirs", "api")] {
            scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
            scene.put(&slice_of(namespace, name, "a", 1, 3)).await.unwrap();
        }
        // Foreign Services: one whose name the attacker can claim, one that its frames can name, one of the cluster's
        // own.
        for (namespace, name) in [("team1", "hostile-taken"), ("theirs", "plain"), ("kube-system", "dns")] {
            put(&scene.gimbal, &svc(namespace, name, &[("http", 80)])).await.unwrap();
            put(&scene.gimbal, &slice_of(namespace, name, "hand", 9, 1)).await.unwrap();
        }
        let (own, honest) = (backend_identity("hostile"), backend_identity("hostile-b"));
        let config = scene.path("writer.yaml");
        let text = format!(
            "admins: [\"spiffe://gimbal.example/admin\"]\nrefusedAddresses: [\"10.96.0.0/12\"]\nbackends:\n\
             - name: hostile\n  identity: {own}{POLICY}- name: hostile-b\n  identity: {honest}\n"
        );
        std::fs::write(&config, text).unwrap();
        let writer = scene.writer(&config, &["--comparison-interval", "1s"]).await.unwrap();
        let honest = scene.discoverer("hostile-b", &scene.source, writer.port, &[]).unwrap();
        honest.ready().await.unwrap();
        expect_metric(honest.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
        for (namespace, name) in [("team1", "hostile-b-web"), ("theirs", "hostile-b-api")] {
            Mirror::expect_count(&scene.gimbal, namespace, name, 3).await.unwrap();
        }
        writer.settled(1).await.unwrap();
        let streams = metric(honest.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap();
        let mut siege = Self { scene, writer, honest, others: BTreeMap::new(), streams, changes: 0 };
        siege.others = siege.not_the_attackers().await;
        assert!(siege.others.len() > 15, "{:?}", siege.others);
        siege
    }

    /// Returns every object of the Gimbal cluster that is not rightly the attacker's, with UID and version.
    async fn not_the_attackers(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for list in LISTS {
            for object in self.scene.gimbal.admin().items(list).await.unwrap() {
                let meta = &object["metadata"];
                let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
                let (namespace, name) = (text("namespace"), text("name"));
                let kept = name == "gimbal-backend-hostile";
                // The API server may change the endpoints of its own Service.
                if !(kept || namespace == "default" || is_the_attackers(&object)) {
                    found.insert(format!("{list} {namespace}/{name}"), text("uid") + " " + &text("resourceVersion"));
                }
            }
        }
        found
    }

    /// Checks that the attacker has changed no other object, and that a change of the honest backend arrives over the
    /// stream that it had before.
    pub async fn unharmed(&mut self) {
        let now = self.not_the_attackers().await;
        assert_eq!(now, self.others);
        self.change_arrives().await;
        self.others = self.not_the_attackers().await;
        assert!(self.others.keys().all(|name| now.contains_key(name) || name.contains("/hostile-b-flow")));
        assert!(now.iter().all(|(name, version)| self.others.get(name) == Some(version)));
        let streams = metric(self.honest.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap();
        assert!((streams - self.streams).abs() < 0.5, "the honest backend's stream was disturbed: {streams}");
    }

    /// Makes a change of the honest backend, and waits for it.
    pub async fn change_arrives(&mut self) {
        self.changes += 1;
        let name = format!("flow{}", self.changes);
        self.scene.put(&svc("team1", &name, &[("http", 80)])).await.unwrap();
        self.scene.put(&slice_of("team1", &name, "a", u32::from(self.changes) << 8, 1)).await.unwrap();
        Mirror::expect_count(&self.scene.gimbal, "team1", &format!("hostile-b-{name}"), 1).await.unwrap();
    }

    /// Replaces the honest discoverer by a new process.
    pub async fn restart_honest(&mut self) {
        self.honest = self.scene.discoverer("hostile-b", &self.scene.source, self.writer.port, &[]).unwrap();
        self.honest.ready().await.unwrap();
        expect_metric(self.honest.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
        self.streams = metric(self.honest.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap();
    }

    /// Returns the names of the attacker's Services in its allowed namespaces.
    pub async fn attackers(&self) -> Vec<String> {
        let services = self.scene.gimbal.admin().items("/api/v1/services").await.unwrap();
        let own = services.iter().filter(|service| is_the_attackers(service));
        own.map(|service| service["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        metric(self.writer.admin_port, &format!("gimbal_writer_{name}"), labels).await.unwrap()
    }

    pub async fn expect_metric(&self, name: &str, labels: &str, wanted: f64) {
        expect_metric(self.writer.admin_port, &format!("gimbal_writer_{name}"), labels, wanted).await.unwrap();
    }

    pub async fn eventually(&self, what: &str, holds: impl AsyncFn() -> bool) {
        eventually(what, SOON, async || if holds().await { Ok(()) } else { Err("not yet") }).await.unwrap();
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.writer.process.log_tail());
        }
    }
}

/// Whether an object has Gimbal's mark and the attacker's name, in a namespace that its policy allows and in the right
/// form. Any other object is foreign, and must not have appeared.
fn is_the_attackers(object: &Value) -> bool {
    let (meta, labels) = (&object["metadata"], &object["metadata"]["labels"]);
    let is_slice = object["addressType"].is_string();
    let mark = if is_slice { "endpointslice.kubernetes.io/managed-by" } else { "gimbal.projectcontour.io/managed-by" };
    let service = if is_slice { &labels["kubernetes.io/service-name"] } else { &meta["name"] };
    let service = service.as_str().unwrap_or_default();
    labels[mark] == "gimbal-writer"
        && labels["gimbal.projectcontour.io/backend"] == "hostile"
        && service.starts_with("hostile-")
        && !service.starts_with("hostile-b-")
        && service != "hostile-taken"
        && [json!("team1"), json!("own-1")].contains(&meta["namespace"])
}
