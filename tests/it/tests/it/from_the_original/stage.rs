//! Two clusters, of which the original has filled the second.

use std::collections::BTreeMap;

use gimbal_testkit::{Process, Rule, eventually};
use gimbal_tests::{Discoverer, Ep, Mirror, Printed, SOON, Scene, Writer, gimbalctl, put, slice, slice_of, svc};
use serde_json::{Value, json};

use super::MIRRORING;
use super::original::{Made, made};

pub const MARK: &str = "gimbal.projectcontour.io/managed-by";
pub const SLICE_MARK: &str = "endpointslice.kubernetes.io/managed-by";

/// The Services of the source.
pub const OFFERED: [&str; 4] = ["web", "api", "dual", "big"];
/// The domain of the original's labels since 2020, and until 0.4.0.
const DOMAINS: [&str; 2] = ["gimbal.projectcontour.io", "gimbal.heptio.com"];

pub struct Stage {
    pub scene: Scene,
    /// What the original made of what the source has.
    pub offered: Vec<Made>,
    /// What it made of a Service that was deleted while it did not run.
    pub left: Made,
    /// The person's credentials for the Gimbal cluster.
    kubeconfig: String,
    _mirroring: Process,
}

impl Stage {
    pub async fn start() -> Self {
        let scene = Scene::start().await.unwrap();
        let mirroring = scene.gimbal.start_mirroring().await.unwrap();
        let mut offered = Vec::new();
        for (number, (service, slices)) in source().iter().enumerate() {
            scene.put(service).await.unwrap();
            for slice in slices {
                scene.put(slice).await.unwrap();
            }
            offered.push(made(DOMAINS[number % 2], service, slices));
        }
        let gone = svc("team1", "gone", &[("http", 80)]);
        let left = made(DOMAINS[0], &gone, &[slice_of("team1", "gone", "v4", 900, 2)]);
        for made in offered.iter().chain([&left]) {
            made.write(&scene.gimbal).await;
        }
        // A Service of a user, who has copied the labels.
        let mut foreign = svc("team1", "node02-foreign", &[("http", 80)]);
        foreign["metadata"]["labels"]["gimbal.projectcontour.io/backend"] = json!("node02");
        put(&scene.gimbal, &foreign).await.unwrap();
        let person = scene.gimbal.user("user-1").unwrap();
        let rules = [
            Rule::new("", &["services", "endpoints"], &["list", "patch"]),
            Rule::new("discovery.k8s.io", &["endpointslices"], &["list"]),
        ];
        scene.gimbal.grant(&person, &rules).await.unwrap();
        let kubeconfig = person.kubeconfig().display().to_string();
        let stage = Self { scene, offered, left, kubeconfig, _mirroring: mirroring };
        for made in stage.offered.iter().chain([&stage.left]) {
            stage.is_mirrored(made).await;
        }
        stage
    }

    /// Starts a writer that writes with this API, and a discoverer.
    pub async fn programs(&self, api: &str) -> (Writer, Discoverer) {
        let config = self.scene.config(&["node02"], "").unwrap();
        let args = ["--comparison-interval", "1s", "--endpoints-api", api];
        let writer = self.scene.writer(&config, &args).await.unwrap();
        let agent = self.scene.discoverer("node02", &self.scene.source, writer.port, &[]).unwrap();
        (writer, agent)
    }

    /// Waits until the writer has been refused every name, and has all that the source offers.
    pub async fn expect_conflicts(&self, writer: &Writer) {
        let ask = self.scene.ask(writer).unwrap();
        for source in OFFERED {
            ask.expect_rejected("node02", "team1", source, "NAME_CONFLICT").await.unwrap();
        }
    }

    /// Runs `gimbalctl adopt`.
    pub fn gimbalctl(&self, port: u16, words: &str) -> Printed {
        let kubeconfig = &self.kubeconfig;
        gimbalctl(&self.scene, port, &format!("adopt --backend node02 --kubeconfig {kubeconfig} {words}")).unwrap()
    }

    /// As [`gimbalctl`](Self::gimbalctl), while the caller's other tasks go on.
    pub async fn gimbalctl_beside(&self, port: u16, words: &str) -> Printed {
        let kubeconfig = &self.kubeconfig;
        let words = format!("adopt --backend node02 --kubeconfig {kubeconfig} {words}");
        gimbal_tests::gimbalctl_beside(&self.scene, port, &words).await.unwrap()
    }

    /// Makes a dry run with these flags. Returns the id that it prints, and all that it prints.
    pub fn next(&self, port: u16, words: &str) -> (String, String) {
        let shown = self.gimbalctl(port, words);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        let id = shown.out.split_once(" --id ").and_then(|(_, rest)| rest.split_once(' ')).map(|(id, _)| id.to_owned());
        (id.unwrap_or_else(|| panic!("no id: {shown:?}")), shown.out)
    }

    /// Does what a dry run prints.
    pub fn adopt(&self, port: u16) -> Printed {
        let shown = self.gimbalctl(port, "--dry-run");
        let next = shown.out.lines().find_map(|line| line.strip_prefix("next: gimbalctl ")).unwrap();
        let (next, _) = next.split_once(" takes").unwrap();
        gimbalctl(&self.scene, port, next).unwrap()
    }

    /// Waits until only the writer's slices have what the source has of a Service, and its Endpoints are gone.
    pub async fn is_ours(&self, made: &Made) {
        self.is_ours_with(made, |endpoints| {
            anyhow::ensure!(endpoints.is_none(), "its Endpoints are there");
            Ok(())
        })
        .await;
    }

    /// As [`is_ours`](Self::is_ours), with something else about its Endpoints.
    pub async fn is_ours_with(&self, made: &Made, holds: impl Fn(Option<&Value>) -> anyhow::Result<()>) {
        self.expect(made, "gimbal-writer", |mirror| {
            holds(mirror.endpoints.as_ref())?;
            let marked = &mirror.service["metadata"]["labels"][MARK];
            anyhow::ensure!(*marked == "gimbal-writer", "the Service is marked {marked}");
            let others =
                mirror.slices.iter().filter(|slice| slice["metadata"]["labels"][SLICE_MARK] != "gimbal-writer");
            anyhow::ensure!(others.count() == 0, "{:?}", mirror.slices);
            Ok(())
        })
        .await;
    }

    /// Waits until mirrored slices have what the original has of a Service, whatever else has it.
    pub async fn is_mirrored(&self, made: &Made) {
        self.expect(made, MIRRORING, |_| Ok(())).await;
    }

    async fn expect(&self, made: &Made, manager: &str, holds: impl Fn(&Mirror) -> anyhow::Result<()>) {
        let wanted = made.addresses();
        Mirror::expect_that(&self.scene.gimbal, "team1", &made.name, |mirror| {
            let mut its = mirror.clone();
            its.slices.retain(|slice| slice["metadata"]["labels"][SLICE_MARK] == manager);
            anyhow::ensure!(its.addresses() == wanted, "{manager}: {:?}", its.addresses());
            holds(mirror)
        })
        .await
        .unwrap();
    }

    /// Returns the UID of each Service that the original made.
    pub async fn services(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for made in &self.offered {
            let mirror = Mirror::get(&self.scene.gimbal, "team1", &made.name).await.unwrap().unwrap();
            all.insert(made.name.clone(), mirror.service["metadata"]["uid"].clone());
        }
        all
    }

    /// Returns the Service of the user.
    pub async fn foreign(&self) -> Value {
        let path = "/api/v1/namespaces/team1/services/node02-foreign";
        eventually("the user's Service", SOON, async || self.scene.gimbal.admin().get(path).await).await.unwrap()
    }
}

/// Returns Services of the source with their slices: with one port, with two and an endpoint that is not ready, with both families,
/// and with more endpoints than a slice of the writer has.
fn source() -> Vec<(Value, Vec<Value>)> {
    let (one, two) = ([("http", 80)], [("http", 80), ("metrics", 9090)]);
    let service = |name: &str, ports: &[(&str, u16)]| svc("team1", name, ports);
    let ready = [Ep::Ready("10.1.0.1"), Ep::Ready("10.1.0.2"), Ep::NotReady("10.1.0.3")];
    let families = [
        slice("team1", "dual", "v4", &one, &[Ep::Ready("10.2.0.1"), Ep::Ready("10.2.0.2")]),
        slice("team1", "dual", "v6", &one, &[Ep::Ready("fd00::2:1")]),
    ];
    let big = [(1000, "a", 100), (2000, "b", 100), (3000, "c", 50)];
    let big = big.map(|(first, suffix, count)| slice_of("team1", "big", suffix, first, count));
    vec![
        (service("web", &one), vec![slice_of("team1", "web", "v4", 7, 3)]),
        (service("api", &two), vec![slice("team1", "api", "v4", &two, &ready)]),
        (service("dual", &one), families.to_vec()),
        (service("big", &one), big.to_vec()),
    ]
}
