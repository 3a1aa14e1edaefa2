//! A real neutron-lbaas, as in a cloud of the Mitaka era, mirrored by real binaries into a real API server, in both
//! modes at once. On machines without Python 3.7, its recorded answers are tested by `recorded` of
//! gimbal-openstack-client.

use gimbal_testkit::openstack::{Api, OpenStack, Options, Service, User, skipped};
use gimbal_tests::{Discoverer, Mirror, Scene, Writer, expect_log, expect_metric, metric};
use serde_json::{Value, json};

/// Backend, sweep, user, and the resulting mode. One has no sweep: the lists of every poll show all that it needs.
const WAYS: [(&str, &str, User, &str); 2] =
    [("osp1", "0s", User::Discoverer, "per-project"), ("osp2", "1s", User::Admin, "bulk")];

/// Creates objects of project `alpha`, as the administrator.
struct Maker {
    api: Api,
    project: String,
    subnet: String,
}

impl Maker {
    async fn new(cloud: &OpenStack) -> Self {
        let (api, project) = (cloud.neutron(Service::NeutronLbaas).unwrap(), cloud.project("alpha").await.unwrap());
        let mut maker = Self { api, project, subnet: String::new() };
        let network = maker.make("/networks", "network", json!({"name": "net"})).await;
        let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.30.0.0/24"});
        maker.subnet = maker.make("/subnets", "subnet", subnet).await;
        maker
    }

    /// Creates an object and returns its ID.
    async fn make(&self, collection: &str, singular: &str, mut body: Value) -> String {
        body["tenant_id"] = json!(self.project);
        let made = self.api.post(collection, &json!({singular: body})).await.unwrap();
        made[singular]["id"].as_str().unwrap().to_owned()
    }

    async fn member(&self, tree: &Tree, address: &str) -> String {
        let member = json!({"address": address, "protocol_port": 8080, "subnet_id": self.subnet});
        let id = self.make(&format!("/lbaas/pools/{}/members", tree.pool), "member", member).await;
        format!("/lbaas/pools/{}/members/{id}", tree.pool)
    }

    async fn weight(&self, member: &str, weight: u8) {
        self.api.put(member, &json!({"member": {"weight": weight}})).await.unwrap();
    }

    async fn delete(&self, path: &str) {
        self.api.delete(path).await.unwrap();
    }

    /// Creates a load balancer with one HTTP listener on port 80 and its pool.
    async fn tree(&self, name: &str) -> Tree {
        let balancer = json!({"name": name, "vip_subnet_id": self.subnet});
        let balancer = self.make("/lbaas/loadbalancers", "loadbalancer", balancer).await;
        let pool = json!({"loadbalancer_id": balancer, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
        let pool = self.make("/lbaas/pools", "pool", pool).await;
        let listener = json!({
            "loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 80, "default_pool_id": pool,
        });
        let listener = self.make("/lbaas/listeners", "listener", listener).await;
        Tree { name: name.to_owned(), balancer, pool, listener }
    }
}

struct Tree {
    name: String,
    balancer: String,
    pool: String,
    listener: String,
}

impl Tree {
    /// Returns the name of its Service in the Gimbal cluster.
    fn service(&self, backend: &str) -> String {
        format!("{backend}-{}-{}", self.name, self.balancer)
    }
}

struct Stage {
    scene: Scene,
    _writer: Writer,
    discoverers: Vec<Discoverer>,
}

impl Stage {
    async fn start(cloud: &OpenStack) -> Self {
        let scene = Scene::start().await.unwrap();
        scene.gimbal.namespace("alpha").await.unwrap();
        // These tests remove most of the few endpoints, which the guard would hold.
        let config = scene.config(&WAYS.map(|(backend, ..)| backend), "guard: {minEndpoints: 1000}").unwrap();
        let writer = scene.writer(&config, &[]).await.unwrap();
        let mut discoverers = Vec::new();
        for (backend, sweep, user, _) in WAYS {
            let credentials = scene.path(backend);
            cloud.credentials(user).write_secret(&credentials).unwrap();
            // Otherwise the other region's Octavia would be preferred.
            std::fs::write(credentials.join("region"), "RegionMitaka").unwrap();
            let pace =
                ["--poll-interval", "500ms", "--projects-interval", "1s", "--sweep", sweep, "--second-look", "2s"];
            discoverers.push(scene.openstack_discoverer(backend, &credentials, writer.port, &pace).unwrap());
        }
        Self { scene, _writer: writer, discoverers }
    }

    /// Waits until one backend's Service has these endpoints on port 8080.
    async fn expect_in(&self, way: usize, tree: &Tree, addresses: &[&str]) -> Mirror {
        let name = tree.service(WAYS[way].0);
        let endpoints: Vec<String> = addresses.iter().map(|address| format!("{address}:8080")).collect();
        let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
        let mirror = Mirror::expect(&self.scene.gimbal, "alpha", &name, &endpoints).await;
        mirror.unwrap_or_else(|error| panic!("{error:#}\n{}", self.discoverers[way].process.log_tail()))
    }

    async fn expect(&self, tree: &Tree, addresses: &[&str]) {
        for way in 0..WAYS.len() {
            self.expect_in(way, tree, addresses).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_neutron_lbaas_is_mirrored_in_both_modes() {
    let Some(cloud) = OpenStack::with_lbaas(Options::default()).await.unwrap() else {
        skipped("neutron-lbaas needs a Python 3.7 (on the PATH or in pyenv)");
        return;
    };
    let maker = Maker::new(&cloud).await;
    // Created before the start, because it shows that the administrator's token sees more than its own project.
    let tree = maker.tree("web").await;
    maker.member(&tree, "10.30.0.11").await;
    let second = maker.member(&tree, "10.30.0.12").await;
    let stage = Stage::start(&cloud).await;
    stage.expect(&tree, &["10.30.0.11", "10.30.0.12"]).await;
    let mirror = stage.expect_in(0, &tree, &["10.30.0.11", "10.30.0.12"]).await;
    assert_eq!(mirror.service["metadata"]["labels"]["gimbal.projectcontour.io/load-balancer-id"], tree.balancer);
    assert_eq!(mirror.service["spec"]["ports"][0]["name"], "port-80");
    for (discoverer, (.., mode)) in stage.discoverers.iter().zip(WAYS) {
        expect_log(&discoverer.process, &["serves load balancing", "NeutronLbaas"]).await.unwrap();
        expect_log(&discoverer.process, &[&format!("mode: {mode}")]).await.unwrap();
        let label = format!("mode=\"{mode}\"");
        expect_metric(discoverer.admin_port, "gimbal_discoverer_mode", &label, 1.0).await.unwrap();
    }

    maker.member(&tree, "10.30.0.13").await;
    stage.expect(&tree, &["10.30.0.11", "10.30.0.12", "10.30.0.13"]).await;
    maker.delete(&second).await;
    stage.expect(&tree, &["10.30.0.11", "10.30.0.13"]).await;
    weights_are_swept(&stage, &maker, &tree).await;
    polls_are_complete(&stage).await;
    what_is_deleted_goes(&stage, &maker, &tree).await;
}

/// neutron-lbaas's lists do not show changes of a weight.
async fn weights_are_swept(stage: &Stage, maker: &Maker, tree: &Tree) {
    let member = maker.member(tree, "10.30.0.14").await;
    stage.expect(tree, &["10.30.0.11", "10.30.0.13", "10.30.0.14"]).await;
    maker.weight(&member, 0).await;
    stage.expect_in(1, tree, &["10.30.0.11", "10.30.0.13"]).await;
    maker.weight(&member, 5).await;
    stage.expect_in(1, tree, &["10.30.0.11", "10.30.0.13", "10.30.0.14"]).await;
    let why = "why=\"swept\"";
    let [unswept, swept] = [0, 1].map(|way| stage.discoverers[way].admin_port);
    assert_eq!(metric(unswept, "gimbal_discoverer_member_lists_total", why).await.unwrap(), 0.0);
    assert!(metric(swept, "gimbal_discoverer_member_lists_total", why).await.unwrap() > 0.0);
}

async fn polls_are_complete(stage: &Stage) {
    for discoverer in &stage.discoverers {
        let polls = async |result: &str| {
            let label = format!("result=\"{result}\"");
            metric(discoverer.admin_port, "gimbal_discoverer_polls_total", &label).await.unwrap()
        };
        let log = discoverer.process.log_tail();
        assert!(polls("complete").await > 1.0, "{log}");
        assert_eq!((polls("partial").await, polls("failed").await), (0.0, 0.0), "{log}");
        expect_metric(discoverer.admin_port, "gimbal_discoverer_source_complete", "", 1.0).await.unwrap();
    }
}

/// One of two load balancers is deleted, then the other: that a project's last one vanished from a bulk list proves
/// nothing, so that load balancer is looked up.
async fn what_is_deleted_goes(stage: &Stage, maker: &Maker, tree: &Tree) {
    let other = maker.tree("other").await;
    maker.member(&other, "10.30.0.21").await;
    stage.expect(&other, &["10.30.0.21"]).await;
    for (tree, left) in [(&other, Some(tree)), (tree, None)] {
        maker.delete(&format!("/lbaas/listeners/{}", tree.listener)).await;
        maker.delete(&format!("/lbaas/pools/{}", tree.pool)).await;
        maker.delete(&format!("/lbaas/loadbalancers/{}", tree.balancer)).await;
        for (backend, ..) in WAYS {
            Mirror::expect_gone(&stage.scene.gimbal, "alpha", &tree.service(backend)).await.unwrap();
        }
        if let Some(left) = left {
            stage.expect(left, &["10.30.0.11", "10.30.0.13", "10.30.0.14"]).await;
        }
    }
    let proof = "kind=\"loadbalancer\",result=\"not_found\"";
    let asked = metric(stage.discoverers[1].admin_port, "gimbal_discoverer_cloud_calls_total", proof).await;
    assert!(asked.unwrap() > 0.0);
}
