//! What a user may see, on the real Keystone and Octavia: each discoverer is a dry run, inspected through its own port.
//!
//! One cloud for all steps: Keystone returns three projects at once, and two processes of Octavia's API answer in turn.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{OpenStack, Options, User};
use gimbal_tests::{Discoverer, SOON, dry_openstack_discoverer, expect_log, expect_metric, metric, web};
use serde_json::{Value, json};

const OFTEN: [&str; 6] = ["--poll-interval", "500ms", "--sweep", "0s", "--projects-interval", "1s"];
/// Several polls.
const A_WHILE: Duration = Duration::from_secs(3);
/// As in docs/openstack.md.
const OVERRIDE: &str = "\"load-balancer:global_observer\": \"role:load-balancer_global_observer or role:admin\"\n";

pub struct Roles {
    dir: tempfile::TempDir,
    cloud: OpenStack,
}

impl Roles {
    /// Starts a discoverer with these credentials and without a writer.
    fn discover(&self, name: &str, keys: &[(&str, &str)], args: &[&str]) -> Discoverer {
        let folder = self.dir.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let url = self.cloud.keystone_url();
        for (key, value) in [("keystoneUrl", &*url), ("region", "RegionOne")].iter().chain(keys) {
            std::fs::write(folder.join(key), value).unwrap();
        }
        let args = [&OFTEN[..], args].concat();
        dry_openstack_discoverer(self.dir.path(), &folder, &args).unwrap()
    }

    async fn complete(&self, discoverer: &Discoverer, complete: bool) {
        let wanted = f64::from(u8::from(complete));
        let metric = expect_metric(discoverer.admin_port, "gimbal_discoverer_source_complete", "", wanted);
        metric.await.unwrap_or_else(|error| panic!("{error:#}\n{}", discoverer.process.log_tail()));
    }

    async fn offers(&self, discoverer: &Discoverer, namespaces: &[&str]) {
        let what = format!("{namespaces:?} are offered");
        eventually(&what, SOON, async || {
            let found = discoverer.ask().call("InspectionService/ListServices", &json!({}))?;
            let services = found["services"].as_array().into_iter().flatten();
            let mut found: Vec<&str> = services.filter_map(|service| service["source"]["namespace"].as_str()).collect();
            found.sort_unstable();
            found.dedup();
            anyhow::ensure!(found == namespaces, "{found:?}");
            Ok(())
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", discoverer.process.log_tail()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_may_see() {
    let options = Options { keystone_max: 3, octavia_workers: 2, ..Options::default() };
    let cloud = OpenStack::start_with(options).await.unwrap();
    let roles = Roles { dir: tempfile::tempdir().unwrap(), cloud };
    // Together with the initial ones there are seven.
    for name in ["delta", "epsilon", "zeta"] {
        roles.cloud.create_project(name).await.unwrap();
    }
    let mut balancers = Vec::new();
    for (n, project) in ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"].iter().enumerate() {
        let balancer = web("web", &[&format!("10.20.0.{n}")]);
        balancers.push(roles.cloud.create_load_balancer(project, &balancer).await.unwrap());
    }
    every_project_of_a_keystone_that_cuts_its_list(&roles, &balancers).await;
    an_application_credential_is_good_for_its_project(&roles).await;
    a_global_observer_with_and_without_the_policy(&roles).await;
    a_role_that_is_lost_is_no_deletion(&roles).await;
    a_token_of_the_system(&roles).await;
}

const ADMIN: [(&str, &str); 4] =
    [("username", "admin"), ("password", "admin-secret"), ("userDomain", "Default"), ("projectName", "admin")];

/// Without paging, projects beyond the first page would count as gone. And the two processes of Octavia answer in turn.
async fn every_project_of_a_keystone_that_cuts_its_list(roles: &Roles, balancers: &[Value]) {
    let discoverer = roles.discover("cut", &ADMIN, &[]);
    expect_log(&discoverer.process, &["mode: bulk"]).await.unwrap();
    roles.complete(&discoverer, true).await;
    roles.offers(&discoverer, &["alpha", "beta", "delta", "epsilon", "gamma", "zeta"]).await;
    expect_metric(discoverer.admin_port, "gimbal_discoverer_projects", "", 7.0).await.unwrap();
    // A change is seen whichever process answers.
    for n in 0..4 {
        let pool = balancers[0]["pools"][0]["id"].as_str().unwrap();
        let member = json!({"address": format!("10.21.0.{n}"), "protocol_port": 8080});
        roles.cloud.create(&format!("/pools/{pool}/members"), &member).await.unwrap();
        let wanted = 7.0 + f64::from(n);
        expect_metric(discoverer.admin_port, "gimbal_discoverer_endpoints", "", wanted).await.unwrap();
    }
    let failed = metric(discoverer.admin_port, "gimbal_discoverer_polls_total", "result=\"failed\"").await.unwrap();
    assert_eq!(failed, 0.0, "{}", discoverer.process.log_tail());
}

/// The safest credential that an operator can hand out.
async fn an_application_credential_is_good_for_its_project(roles: &Roles) {
    let beta = roles.cloud.project("beta").await.unwrap();
    let (id, secret) = roles.cloud.create_application_credential(&beta, User::Discoverer).await.unwrap();
    let keys = [("applicationCredentialId", &*id), ("applicationCredentialSecret", &*secret)];
    let discoverer = roles.discover("credential", &keys, &[]);
    expect_log(&discoverer.process, &["mode: per-project"]).await.unwrap();
    roles.complete(&discoverer, true).await;
    roles.offers(&discoverer, &["beta"]).await;
}

const OBSERVER: [(&str, &str); 4] =
    [("username", "observer"), ("password", "observer-secret"), ("userDomain", "lab"), ("projectName", "alpha")];

/// By itself the role grants nothing: Octavia's own policies require `admin`.
async fn a_global_observer_with_and_without_the_policy(roles: &Roles) {
    let alone = roles.discover("alone", &OBSERVER, &["--mode", "bulk"]);
    expect_log(&alone.process, &["--mode bulk demands"]).await.unwrap();
    roles.cloud.set_octavia_policy(OVERRIDE).unwrap();
    // Without a role on the system it may list its own project only.
    expect_log(&alone.process, &["mode: bulk"]).await.unwrap();
    roles.complete(&alone, true).await;
    roles.offers(&alone, &["alpha"]).await;
    roles.cloud.grant_on_system(User::Observer, "reader").await.unwrap();
    let reader = roles.discover("reader", &OBSERVER, &["--mode", "bulk"]);
    roles.complete(&reader, true).await;
    roles.offers(&reader, &["alpha", "beta", "delta", "epsilon", "gamma", "zeta"]).await;
}

/// The role is revoked while the token stays valid for a member's rights: each list shrinks to one project, without an
/// error.
async fn a_role_that_is_lost_is_no_deletion(roles: &Roles) {
    let alpha = roles.cloud.project("alpha").await.unwrap();
    roles.cloud.grant(&alpha, User::Observer).await.unwrap();
    let discoverer = roles.discover("loser", &OBSERVER, &[]);
    let all = ["alpha", "beta", "delta", "epsilon", "gamma", "zeta"];
    roles.offers(&discoverer, &all).await;
    roles.cloud.set_role(&alpha, User::Observer, "load-balancer_global_observer", false).await.unwrap();
    roles.complete(&discoverer, false).await;
    expect_log(&discoverer.process, &["a role was lost"]).await.unwrap();
    tokio::time::sleep(A_WHILE / 3).await;
    roles.offers(&discoverer, &all).await;
    roles.cloud.set_role(&alpha, User::Observer, "load-balancer_global_observer", true).await.unwrap();
    roles.complete(&discoverer, true).await;
    roles.offers(&discoverer, &all).await;
}

/// Octavia's own policies show everything to an administrator of the system.
async fn a_token_of_the_system(roles: &Roles) {
    roles.cloud.grant_on_system(User::Admin, "admin").await.unwrap();
    let keys = [("username", "admin"), ("password", "admin-secret"), ("userDomain", "Default"), ("systemScope", "all")];
    let discoverer = roles.discover("system", &keys, &[]);
    expect_log(&discoverer.process, &["mode: bulk"]).await.unwrap();
    roles.complete(&discoverer, true).await;
    roles.offers(&discoverer, &["alpha", "beta", "delta", "epsilon", "gamma", "zeta"]).await;
}
