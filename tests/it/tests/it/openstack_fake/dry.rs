//! The same without a writer: a discoverer in a dry run, inspected through its own ports.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::fake_openstack::{FakeCloud, FakeOpenStack, Fault};
use gimbal_tests::{Discoverer, SOON, dry_openstack_discoverer, expect_log, expect_metric, metric};

use super::{OFTEN, balancer};

/// Several polls.
const A_WHILE: Duration = Duration::from_millis(1500);
const TOKENS: &str = "POST /v3/auth/tokens";

struct Dry {
    fake: FakeOpenStack,
    discoverer: Discoverer,
    dir: tempfile::TempDir,
}

impl Dry {
    /// Starts with two projects, which have two load balancers and one.
    async fn start(set: impl FnOnce(&mut FakeCloud), keys: &[(&str, &str)], args: &[&str]) -> Self {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| {
            cloud.global = true;
            cloud.project("p1", "alpha");
            cloud.project("p2", "beta");
            for (number, project) in [(1, "p1"), (2, "p1"), (3, "p2")] {
                balancer(cloud, project, number);
            }
            set(cloud);
        });
        let dir = tempfile::tempdir().unwrap();
        let credentials = dir.path().join("credentials");
        std::fs::create_dir(&credentials).unwrap();
        if keys.is_empty() {
            fake.write_credentials(&credentials).unwrap();
        }
        for (key, value) in keys.iter().copied().chain([("keystoneUrl", &*fake.url())]) {
            std::fs::write(credentials.join(key), value).unwrap();
        }
        let discoverer = dry_openstack_discoverer(dir.path(), &credentials, &[&OFTEN[..], args].concat()).unwrap();
        Self { fake, discoverer, dir }
    }

    async fn services(&self, count: f64) {
        let found = expect_metric(self.discoverer.admin_port, "gimbal_discoverer_services", "", count).await;
        found.unwrap_or_else(|error| panic!("{error:#}\n{}", self.discoverer.process.log_tail()));
    }

    async fn complete(&self, complete: bool) {
        let wanted = f64::from(u8::from(complete));
        let found = expect_metric(self.discoverer.admin_port, "gimbal_discoverer_source_complete", "", wanted).await;
        found.unwrap_or_else(|error| panic!("{error:#}\n{}", self.discoverer.process.log_tail()));
    }

    /// Checks for several polls that the number of Services stays.
    async fn stays(&self, count: f64) {
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(metric(self.discoverer.admin_port, "gimbal_discoverer_services", "").await.unwrap(), count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keystone_that_cuts_in_silence_hides_no_project() {
    let dry = Dry::start(|cloud| cloud.projects_max = 1, &[], &[]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
}

/// Neutron answers 404 for other projects' objects; only the roles of the token show the loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_lost_at_neutron_is_no_deletion() {
    let dry = Dry::start(|cloud| cloud.octavia = false, &[], &["--second-look", "0s"]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
    dry.fake.set(|cloud| cloud.global = false);
    expect_log(&dry.discoverer.process, &["a role was lost", "load-balancer_global_observer"]).await.unwrap();
    dry.complete(false).await;
    dry.stays(3.0).await;
    dry.fake.set(|cloud| {
        cloud.global = true;
        for id in ["lb3", "listener3", "pool3"] {
            cloud.remove(id);
        }
    });
    dry.services(2.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_neutron_a_project_that_vanished_waits_for_a_second_look() {
    let dry = Dry::start(|cloud| cloud.octavia = false, &[], &["--second-look", "3s"]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
    dry.fake.set(|cloud| {
        for id in ["lb3", "listener3", "pool3"] {
            cloud.remove(id);
        }
    });
    dry.stays(3.0).await;
    dry.services(2.0).await;
    dry.complete(true).await;
}

/// Keystone issues no token of another scope for that of an application credential.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_credential_sees_its_project() {
    let keys = [("applicationCredentialId", "fake"), ("applicationCredentialSecret", "fake-secret")];
    let dry = Dry::start(|cloud| cloud.global = false, &keys, &[]).await;
    dry.services(2.0).await;
    dry.complete(true).await;
    expect_log(&dry.discoverer.process, &["mode: per-project"]).await.unwrap();
}

/// An operator recreates an endpoint of the catalog; meanwhile Neutron's old plug-in would answer with empty lists.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_leaves_the_catalog_sends_nobody_elsewhere() {
    let dry = Dry::start(|_| {}, &[], &[]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
    dry.fake.set(|cloud| {
        cloud.catalog = Some(vec!["network"]);
        cloud.revoke_tokens();
    });
    dry.complete(false).await;
    expect_log(&dry.discoverer.process, &["load balancing is served by neutron-lbaas"]).await.unwrap();
    dry.stays(3.0).await;
    assert_eq!(dry.fake.count("GET /v2.0/lbaas/loadbalancers"), 0);
    dry.fake.set(|cloud| cloud.catalog = None);
    dry.complete(true).await;
}

/// After a password change, every call of a poll would send the old password.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_is_refused_is_not_shown_again() {
    let many = |cloud: &mut FakeCloud| {
        cloud.global = false;
        for n in 10..40 {
            cloud.project(&format!("q{n}"), &format!("name-{n}"));
        }
    };
    let dry = Dry::start(many, &[], &[]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
    dry.fake.set(|cloud| {
        cloud.password = "another-secret".to_owned();
        cloud.revoke_tokens();
    });
    dry.fake.forget_calls();
    expect_log(&dry.discoverer.process, &["invalid credentials"]).await.unwrap();
    dry.stays(3.0).await;
    let by_password = dry.fake.count(TOKENS);
    // One for the revoked token, one with the password, and those in flight.
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(dry.fake.count(TOKENS), by_password, "{}", dry.discoverer.process.log_tail());
    assert!(by_password < 40, "{by_password}");
    std::fs::write(dry.dir.path().join("credentials/password"), "another-secret").unwrap();
    dry.complete(true).await;
}

/// A policy that shows the load balancers of all projects and the pools of none.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_for_one_kind_takes_no_endpoints_away() {
    let dry = Dry::start(|_| {}, &[], &[]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
    dry.fake.set(|cloud| {
        cloud.restricted.insert("pools");
    });
    expect_log(&dry.discoverer.process, &["pool3"]).await.unwrap();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(metric(dry.discoverer.admin_port, "gimbal_discoverer_endpoints", "").await.unwrap(), 3.0);
    // A client that is restricted from the start does not count as one that sees everything.
    let restrict = |cloud: &mut FakeCloud| {
        cloud.restricted.insert("pools");
    };
    let late = Dry::start(restrict, &[], &[]).await;
    expect_log(&late.discoverer.process, &["the list of pools shows none of theirs"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_is_demanded() {
    let none = |cloud: &mut FakeCloud| cloud.global = false;
    let bulk = Dry::start(none, &[], &["--mode", "bulk"]).await;
    expect_log(&bulk.discoverer.process, &["--mode bulk demands"]).await.unwrap();
    bulk.fake.set(|cloud| cloud.global = true);
    bulk.services(3.0).await;
    let each = Dry::start(|_| {}, &[], &["--mode", "per-project"]).await;
    each.services(3.0).await;
    expect_metric(each.discoverer.admin_port, "gimbal_discoverer_mode", "mode=\"per-project\"", 1.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_a_date_are_told_of_once() {
    let dry = Dry::start(|cloud| cloud.dated = false, &[], &[]).await;
    dry.services(3.0).await;
    expect_log(&dry.discoverer.process, &["without a Date"]).await.unwrap();
    let polls = eventually("some polls", SOON, async || {
        let polls = metric(dry.discoverer.admin_port, "gimbal_discoverer_polls_total", "result=\"complete\"").await?;
        anyhow::ensure!(polls > 3.0, "{polls}");
        Ok(())
    });
    polls.await.unwrap();
    assert_eq!(dry.discoverer.process.log().matches("without a Date").count(), 1);
    // A page that fails once is retried once.
    dry.fake.fail(Fault::on("/lbaas/pools").times(1).status(503));
    dry.complete(true).await;
}

/// With a token for each project a lost role looks like a deletion, so the deletion is delayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_leaves_the_list_is_held() {
    let dry = Dry::start(|cloud| cloud.global = false, &[], &["--project-hold", "3s"]).await;
    dry.services(3.0).await;
    dry.complete(true).await;
    dry.fake.set(|cloud| {
        cloud.foreign.insert("p2".to_owned());
    });
    expect_log(&dry.discoverer.process, &["project p2", "has left the list of projects"]).await.unwrap();
    dry.stays(3.0).await;
    dry.services(2.0).await;
    dry.complete(true).await;
}

/// A mistyped region is reported at once and not retried.
#[tokio::test(flavor = "multi_thread")]
async fn a_region_that_is_not_there_ends_the_start() {
    let keys = [("username", "fake"), ("password", "fake-secret"), ("region", "elsewhere")];
    let mut dry = Dry::start(|_| {}, &keys, &[]).await;
    let ended = eventually("the process has ended", SOON, async || {
        dry.discoverer.process.exited()?.ok_or_else(|| anyhow::anyhow!("it runs"))
    });
    assert_eq!(ended.await.unwrap().code(), Some(2));
    let log = dry.discoverer.process.log();
    assert!(log.contains("region \"elsewhere\" has no public endpoint") && log.contains("[\"fake\"]"), "{log}");
}
