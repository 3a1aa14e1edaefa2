//! Failures that a real cloud cannot be made to show: lists that break in their middle, a role that is lost, a list of
//! projects that is truncated. None of them deletes anything.

mod alerts;
mod dry;

use std::time::Duration;

use gimbal_testkit::fake_openstack::{FakeCloud, FakeOpenStack, Fault};
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, Writer, expect_log, expect_metric, metric};

/// Several polls.
const A_WHILE: Duration = Duration::from_secs(2);
const OFTEN: [&str; 4] = ["--poll-interval", "200ms", "--projects-interval", "200ms"];

struct Stage {
    scene: Scene,
    fake: FakeOpenStack,
    writer: Writer,
    discoverer: Discoverer,
    mirrors: Vec<Mirror>,
}

fn balancer(cloud: &mut FakeCloud, project: &str, number: usize) {
    let (balancer, pool) = (format!("lb{number}"), format!("pool{number}"));
    cloud.load_balancer(project, &balancer, "web");
    cloud.pool(&balancer, &pool);
    cloud.listener(&balancer, &format!("listener{number}"), "HTTP", 80, Some(&pool));
    cloud.member(&pool, &format!("member{number}"), &format!("10.1.0.{number}"), 8080);
}

impl Stage {
    /// Starts with two projects, which have two load balancers and one; pages have two rows.
    async fn start(global: bool) -> Self {
        let scene = Scene::start().await.unwrap();
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| {
            cloud.global = global;
            cloud.page_max = 2;
            cloud.project("p1", "alpha");
            cloud.project("p2", "beta");
            for (number, project) in [(1, "p1"), (2, "p1"), (3, "p2")] {
                balancer(cloud, project, number);
            }
        });
        for namespace in ["alpha", "beta"] {
            scene.gimbal.namespace(namespace).await.unwrap();
        }
        let credentials = scene.path("credentials");
        std::fs::create_dir(&credentials).unwrap();
        fake.write_credentials(&credentials).unwrap();
        let writer = scene.writer(&scene.config(&["osp1"], "").unwrap(), &[]).await.unwrap();
        let discoverer = scene.openstack_discoverer("osp1", &credentials, writer.port, &OFTEN).unwrap();
        let mut mirrors = Vec::new();
        for (namespace, number) in [("alpha", 1), ("alpha", 2), ("beta", 3)] {
            let (name, endpoint) = (format!("osp1-web-lb{number}"), format!("10.1.0.{number}:8080"));
            mirrors.push(Mirror::expect(&scene.gimbal, namespace, &name, &[&endpoint]).await.unwrap());
        }
        let stage = Self { scene, fake, writer, discoverer, mirrors };
        // The gauge is refreshed once a second; from here on it falls only if a poll fails.
        stage.complete(true).await;
        stage
    }

    async fn complete(&self, complete: bool) {
        let wanted = f64::from(u8::from(complete));
        expect_metric(self.discoverer.admin_port, "gimbal_discoverer_source_complete", "", wanted).await.unwrap();
    }

    async fn all_stands(&self) {
        for mirror in &self.mirrors {
            mirror.expect_unchanged(&self.scene.gimbal, A_WHILE / 2).await.unwrap();
        }
    }

    /// Checks that the source is unknown and nothing changes during the fault, and that it recovers without a write.
    async fn survives(&self, fault: Fault, reason: &str) {
        self.fake.fail(fault);
        self.complete(false).await;
        expect_log(&self.discoverer.process, &["the source is unknown", reason]).await.unwrap();
        self.all_stands().await;
        let polls = metric(self.discoverer.admin_port, "gimbal_discoverer_polls_total", "result=\"failed\"").await;
        assert!(polls.unwrap() > 0.0);
        self.fake.heal();
        self.complete(true).await;
        self.all_stands().await;
    }

    async fn gone(&self, number: usize) {
        let namespace = if number == 3 { "beta" } else { "alpha" };
        Mirror::expect_gone(&self.scene.gimbal, namespace, &format!("osp1-web-lb{number}")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_breaks_in_its_middle_deletes_nothing() {
    let stage = Stage::start(true).await;
    expect_log(&stage.discoverer.process, &["mode: bulk"]).await.unwrap();
    stage.survives(Fault::on("/lbaas/loadbalancers").with_marker().status(500), "load balancers failed").await;
    stage.survives(Fault::on("/lbaas/pools").with_marker().cut(), "pools failed").await;
    stage.survives(Fault::on("/lbaas/listeners").with_marker().status(504), "listeners failed").await;
    // A complete poll shows a deletion at once.
    stage.fake.set(|cloud| {
        for id in ["lb2", "listener2", "pool2"] {
            cloud.remove(id);
        }
    });
    stage.gone(2).await;
    expect_metric(stage.writer.admin_port, "gimbal_writer_backend_services", "", 2.0).await.unwrap();
}

/// A bulk list shrinks without an error; one GET reveals the lost role.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_lost_deletes_nothing() {
    let stage = Stage::start(true).await;
    stage.fake.set(|cloud| cloud.global = false);
    stage.complete(false).await;
    expect_log(&stage.discoverer.process, &["a role was lost"]).await.unwrap();
    stage.all_stands().await;
    stage.fake.set(|cloud| cloud.global = true);
    stage.complete(true).await;
    stage.all_stands().await;
    // What is really deleted is removed, even if it was its project's last object.
    stage.fake.set(|cloud| {
        for id in ["lb3", "listener3", "pool3"] {
            cloud.remove(id);
        }
    });
    stage.gone(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_for_each_project_a_project_fails_by_itself() {
    let mut stage = Stage::start(false).await;
    expect_log(&stage.discoverer.process, &["mode: per-project"]).await.unwrap();
    // The known projects are still read; one that a truncated list lacks is not gone.
    let beta = stage.fake.set(|cloud| {
        cloud.projects_truncated = true;
        cloud.projects.pop().unwrap()
    });
    expect_log(&stage.discoverer.process, &["list_limit"]).await.unwrap();
    stage.all_stands().await;
    let stale = metric(stage.discoverer.admin_port, "gimbal_discoverer_source_age_seconds", "projects").await;
    assert!(stale.unwrap() >= 1.0);
    stage.fake.set(|cloud| {
        cloud.projects_truncated = false;
        cloud.projects.push(beta);
    });

    // The lists of alpha break in their middle, beta's have one page. Beta is read on without alpha.
    stage.fake.fail(Fault::on("/lbaas/loadbalancers").with_marker().status(500));
    stage.complete(false).await;
    let told = stage.scene.ask(&stage.writer).unwrap();
    let is_told = |backend: &serde_json::Value| backend["unknown"][0]["scope"]["namespaces"][0] == "alpha";
    told.expect_backend("osp1", "alpha is unknown", is_told).await.unwrap();
    stage.fake.set(|cloud| {
        cloud.remove("member1");
        cloud.member("pool3", "member4", "10.1.0.4", 8080);
    });
    let beta = Mirror::expect(&stage.scene.gimbal, "beta", "osp1-web-lb3", &["10.1.0.3:8080", "10.1.0.4:8080"]).await;
    stage.mirrors[2] = beta.unwrap();
    stage.all_stands().await;
    stage.fake.heal();
    stage.complete(true).await;
    Mirror::expect(&stage.scene.gimbal, "alpha", "osp1-web-lb1", &[]).await.unwrap();
}

/// A role is lost, and the discoverer is restarted: it never knew of that project, and the writer does.
#[tokio::test(flavor = "multi_thread")]
async fn what_left_the_list_while_nobody_looked_stands_for_a_while() {
    let mut stage = Stage::start(false).await;
    stage.discoverer.process.terminate(SOON).await.unwrap();
    stage.fake.set(|cloud| {
        cloud.foreign.insert("p2".to_owned());
        cloud.member("pool1", "member9", "10.1.0.9", 8080);
    });
    let flags = [&OFTEN[..], &["--project-hold", "8s"]].concat();
    let credentials = stage.scene.path("credentials");
    stage.discoverer = stage.scene.openstack_discoverer("osp1", &credentials, stage.writer.port, &flags).unwrap();
    stage.complete(true).await;
    let changed = ["10.1.0.1:8080", "10.1.0.9:8080"];
    Mirror::expect(&stage.scene.gimbal, "alpha", "osp1-web-lb1", &changed).await.unwrap();
    stage.mirrors[2].expect_unchanged(&stage.scene.gimbal, A_WHILE).await.unwrap();
    stage.gone(3).await;
}

/// A token of one project turns out to see more: no other project had a load balancer when the mode was decided.
#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_could_not_be_decided_is_decided_later() {
    let scene = Scene::start().await.unwrap();
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| {
        cloud.global = true;
        cloud.project("p1", "alpha");
        cloud.project("p2", "beta");
        balancer(cloud, "p1", 1);
    });
    scene.gimbal.namespace("alpha").await.unwrap();
    scene.gimbal.namespace("beta").await.unwrap();
    let credentials = scene.path("credentials");
    std::fs::create_dir(&credentials).unwrap();
    fake.write_credentials(&credentials).unwrap();
    let writer = scene.writer(&scene.config(&["osp1"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.openstack_discoverer("osp1", &credentials, writer.port, &OFTEN).unwrap();
    let first = Mirror::expect(&scene.gimbal, "alpha", "osp1-web-lb1", &["10.1.0.1:8080"]).await.unwrap();
    fake.set(|cloud| balancer(cloud, "p2", 2));
    expect_log(&discoverer.process, &["mode: bulk"]).await.unwrap();
    Mirror::expect(&scene.gimbal, "beta", "osp1-web-lb2", &["10.1.0.2:8080"]).await.unwrap();
    discoverer.ready().await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_mode", "mode=\"bulk\"", 1.0).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_mode", "mode=\"per-project\"", 0.0).await.unwrap();
    first.expect_unchanged(&scene.gimbal, A_WHILE / 2).await.unwrap();
}

/// A role that sees all load balancers need not see all projects: a reader of the system does; otherwise only Services
/// of projects with a role are offered.
#[tokio::test(flavor = "multi_thread")]
async fn who_may_list_all_projects() {
    let scene = Scene::start().await.unwrap();
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| {
        cloud.global = true;
        for (number, project) in [(1, "p1"), (2, "p2")] {
            cloud.project(project, &format!("name-{project}"));
            balancer(cloud, project, number);
        }
        cloud.foreign.insert("p2".to_owned());
    });
    let credentials = scene.path("credentials");
    std::fs::create_dir(&credentials).unwrap();
    fake.write_credentials(&credentials).unwrap();
    // The first call comes with the project's token, the next one with the system's.
    for (refusals, services) in [(1, 2.0), (2, 1.0)] {
        fake.heal();
        fake.fail(Fault::on("/v3/projects").times(refusals).status(403));
        let discoverer = scene.openstack_discoverer("osp1", &credentials, 1, &OFTEN).unwrap();
        expect_log(&discoverer.process, &["mode: bulk"]).await.unwrap();
        expect_metric(discoverer.admin_port, "gimbal_discoverer_services", "", services).await.unwrap();
        let skipped = "reason=\"ProjectGone\"";
        expect_metric(discoverer.admin_port, "gimbal_discoverer_skipped", skipped, 2.0 - services).await.unwrap();
    }
}
