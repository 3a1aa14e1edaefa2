//! The client against a real Keystone and Octavia, over TLS with a private authority and small pages. For neutron-lbaas
//! see `lbaas.rs`.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::Duration;

use crate::common::options;
use gimbal_octavia_rows::CompleteList;
use gimbal_octavia_rows::LoadBalancer;
use gimbal_openstack_client::{
    ClientOptions, Cloud, CloudCredentials, Dialect, Error, LoadBalancing, Lookup, TokenScope,
};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{self, OpenStack, Service, User};
use serde_json::{Value, json};

fn patient() -> ClientOptions {
    ClientOptions { list_timeout: Duration::from_secs(60), ..options() }
}

async fn connect(cloud: &OpenStack, user: User) -> Cloud {
    let dir = tempfile::tempdir().unwrap();
    cloud.credentials(user).write_secret(dir.path()).unwrap();
    Cloud::connect(CloudCredentials::from_dir(dir.path()).unwrap(), patient()).await.unwrap()
}

async fn of(cloud: &Cloud, project: &str) -> LoadBalancing {
    cloud.session(&TokenScope::Project(project.to_owned())).load_balancing().await.unwrap()
}

fn ids(list: &CompleteList<LoadBalancer>) -> Vec<&str> {
    list.rows.iter().map(|row| row.id.as_str()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn tree(name: &str) -> Value {
    let member = |address: &str| json!({"address": address, "protocol_port": 8080});
    let pool = json!({"name": "p", "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
        "members": [member("10.1.1.1"), member("10.1.1.2"), member("10.1.1.3")]});
    json!({"name": name, "listeners": [{"protocol": "HTTP", "protocol_port": 80, "default_pool": pool}]})
}

#[tokio::test]
async fn a_real_cloud() {
    let options = openstack::Options { tls: true, page_max: 2, ..openstack::Options::default() };
    let cloud = OpenStack::start_with(options).await.unwrap();
    let user = connect(&cloud, User::Discoverer).await;
    let (alpha, beta) = (cloud.project("alpha").await.unwrap(), cloud.project("beta").await.unwrap());

    projects_and_roles(&cloud, &user, &alpha).await;
    let balancer = lists_of_a_project(&cloud, &user, &alpha).await;
    what_others_see(&cloud, &user, &beta, &balancer).await;
    let user = a_password_that_changes(&cloud, &user, &alpha).await;
    keystone_that_goes_and_comes(&cloud, &user, &alpha).await;
}

async fn projects_and_roles(cloud: &OpenStack, user: &Cloud, alpha: &str) {
    let projects = user.projects().await.unwrap();
    let mut names: Vec<_> = projects.rows.iter().map(|project| &*project.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["alpha", "beta", "gamma"]);
    let session = user.session(&TokenScope::Project(alpha.to_owned()));
    assert!(session.roles_now().await.unwrap().contains("load-balancer_member"));
    assert!(matches!(session.all_projects().await, Err(Error::Forbidden { .. })));
    let foreign = cloud.project("admin").await;
    let foreign = foreign.unwrap_or_else(|_| "0123456789abcdef0123456789abcdef".to_owned());
    assert!(matches!(user.session(&TokenScope::Project(foreign)).roles().await, Err(Error::Forbidden { .. })));
}

/// The server's own maximum of two rows is below our limit of three.
async fn lists_of_a_project(cloud: &OpenStack, user: &Cloud, alpha: &str) -> String {
    let mut created = Vec::new();
    for name in ["one", "two", "three", "four", "five"] {
        created.push(cloud.create_load_balancer("alpha", &tree(name)).await.unwrap());
    }
    let load_balancing = of(user, alpha).await;
    assert_eq!(load_balancing.dialect(), Dialect::Octavia);
    assert!(load_balancing.version().await.unwrap() >= Some((2, 26)));
    let list = load_balancing.load_balancers(None).await.unwrap();
    let mut found = ids(&list);
    let mut expected: Vec<_> = created.iter().map(|row| text(&row["id"])).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(list.unreadable, []);
    assert!(list.server_time.is_some());
    let listeners = load_balancing.listeners(None).await.unwrap();
    let pools = load_balancing.pools(Some(alpha)).await.unwrap();
    assert_eq!((listeners.rows.len(), pools.rows.len()), (5, 5));
    assert!(load_balancing.l7_policies(None).await.unwrap().rows.is_empty());
    let members = load_balancing.members(pools.rows[0].id.as_str()).await.unwrap();
    assert_eq!((members.rows.len(), members.unreadable.len()), (3, 0));
    let statuses = load_balancing.statuses(pools.rows[0].load_balancers[0].as_str()).await.unwrap();
    assert_eq!(statuses.by_id[members.rows[0].id.as_str()].operating, "NO_MONITOR");
    text(&created[0]["id"]).to_owned()
}

async fn what_others_see(cloud: &OpenStack, user: &Cloud, beta: &str, balancer: &str) {
    let beta = of(user, beta).await;
    assert!(beta.load_balancers(None).await.unwrap().rows.is_empty());
    assert_eq!(beta.load_balancer(balancer).await.unwrap(), Lookup::Forbidden);
    let admin = connect(cloud, User::Admin).await;
    let all = admin.session(admin.scope().unwrap());
    assert!(all.all_projects().await.unwrap().rows.len() > 3);
    let all = all.load_balancing().await.unwrap();
    assert_eq!(all.load_balancers(None).await.unwrap().rows.len(), 5);
    assert!(matches!(all.load_balancer(balancer).await.unwrap(), Lookup::Found(row) if row.id.as_str() == balancer));
    cloud.delete(&format!("/loadbalancers/{balancer}")).await.unwrap();
    assert_eq!(all.load_balancer(balancer).await.unwrap(), Lookup::Gone);
}

/// Keystone revokes all tokens of a user whose password changes. A client with the old password does not try again; a
/// client with the new one connects.
async fn a_password_that_changes(cloud: &OpenStack, user: &Cloud, alpha: &str) -> Cloud {
    let load_balancing = of(user, alpha).await;
    cloud.set_password(User::Discoverer, "another").await.unwrap();
    let error = load_balancing.load_balancers(None).await.unwrap_err();
    assert!(matches!(error, Error::InvalidCredentials { .. }), "{error}");
    let before = cloud.credentials(User::Discoverer).password;
    cloud.set_password(User::Discoverer, &before).await.unwrap();
    let error = load_balancing.load_balancers(None).await.unwrap_err();
    assert!(matches!(error, Error::InvalidCredentials { .. }), "{error}");
    // Revocations have a resolution of a second: a token issued in the same second is refused, too.
    let (user, list) = eventually("a list", Duration::from_secs(30), async || {
        let user = connect(cloud, User::Discoverer).await;
        let load_balancing = user.session(&TokenScope::Project(alpha.to_owned())).load_balancing().await?;
        let list = load_balancing.load_balancers(None).await?;
        Ok::<_, Error>((user, list))
    })
    .await
    .unwrap();
    assert_eq!(list.rows.len(), 4);
    user
}

/// While Keystone is down, Octavia cannot validate tokens and answers 500.
async fn keystone_that_goes_and_comes(cloud: &OpenStack, user: &Cloud, alpha: &str) {
    let load_balancing = of(user, alpha).await;
    cloud.stop(Service::Keystone).await.unwrap();
    let error = load_balancing.load_balancers(None).await.unwrap_err();
    assert!(matches!(error, Error::Server { .. } | Error::Timeout { .. }), "{error}");
    assert!(matches!(user.projects().await, Err(Error::Unreachable { .. })));
    cloud.resume(Service::Keystone).await.unwrap();
    let list = eventually("a list", Duration::from_secs(30), async || load_balancing.load_balancers(None).await);
    assert_eq!(list.await.unwrap().rows.len(), 4);
}
