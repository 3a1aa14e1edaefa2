//! The client against a real neutron-lbaas, which needs Python 3.7. `recorded.rs` has its answers for other machines.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::Duration;

use crate::common::options;
use gimbal_octavia_rows::{Address, LoadBalancer, Protocol, ProvisioningStatus};
use gimbal_octavia_rows::{CompleteList, Id};
use gimbal_openstack_client::{
    CallKind, CallOutcome, ClientOptions, Cloud, CloudCredentials, Dialect, Error, LoadBalancing, Lookup, TokenScope,
};
use gimbal_testkit::openstack::{self, Api, OpenStack, Service, User};
use serde_json::{Value, json};

/// Creates objects of one project, as the administrator.
struct Maker {
    api: Api,
    project: String,
}

impl Maker {
    async fn make(&self, collection: &str, singular: &str, mut body: Value) -> String {
        body["tenant_id"] = json!(self.project);
        let made = self.api.post(collection, &json!({singular: body})).await.unwrap();
        made[singular]["id"].as_str().unwrap().to_owned()
    }

    async fn subnet(&self) -> String {
        let network = self.make("/networks", "network", json!({"name": "net"})).await;
        let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.30.0.0/24"});
        self.make("/subnets", "subnet", subnet).await
    }

    async fn balancer(&self, name: &str, subnet: &str) -> String {
        self.make("/lbaas/loadbalancers", "loadbalancer", json!({"name": name, "vip_subnet_id": subnet})).await
    }

    async fn pool(&self, name: &str, balancer: &str) -> String {
        let pool = json!({
            "name": name, "loadbalancer_id": balancer, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN",
        });
        self.make("/lbaas/pools", "pool", pool).await
    }
}

/// The IDs of load balancer `web` and the objects below it.
struct Tree {
    balancer: String,
    pool: String,
    redirect: String,
    listener: String,
    policy: String,
    members: Vec<String>,
}

async fn tree(maker: &Maker, subnet: &str) -> Tree {
    let balancer = maker.balancer("web", subnet).await;
    let (pool, redirect) = (maker.pool("web", &balancer).await, maker.pool("static", &balancer).await);
    let listener = json!({
        "loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 80, "default_pool_id": pool,
    });
    let listener = maker.make("/lbaas/listeners", "listener", listener).await;
    let mut members = Vec::new();
    for host in 11..=15 {
        let address = format!("10.30.0.{host}");
        let member = json!({"address": address, "protocol_port": 8080, "subnet_id": subnet, "weight": host});
        members.push(maker.make(&format!("/lbaas/pools/{pool}/members"), "member", member).await);
    }
    let policy = json!({"listener_id": listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": redirect});
    let policy = maker.make("/lbaas/l7policies", "l7policy", policy).await;
    Tree { balancer, pool, redirect, listener, policy, members }
}

fn sorted<'a>(ids: impl IntoIterator<Item = &'a Id>) -> Vec<&'a str> {
    let mut ids: Vec<_> = ids.into_iter().map(Id::as_str).collect();
    ids.sort_unstable();
    ids
}

fn in_order<'a>(ids: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let mut ids: Vec<_> = ids.into_iter().map(String::as_str).collect();
    ids.sort_unstable();
    ids
}

/// Connects with pages of three rows. The region of neutron-lbaas has no Octavia, which would be preferred.
async fn connect(cloud: &OpenStack) -> Cloud {
    let dir = tempfile::tempdir().unwrap();
    cloud.credentials(User::Discoverer).write_secret(dir.path()).unwrap();
    std::fs::write(dir.path().join("region"), "RegionMitaka").unwrap();
    std::fs::write(dir.path().join("neutronUrl"), cloud.url(Service::NeutronLbaas)).unwrap();
    let options = ClientOptions { list_timeout: Duration::from_secs(60), ..options() };
    Cloud::connect(CloudCredentials::from_dir(dir.path()).unwrap(), options).await.unwrap()
}

#[tokio::test]
async fn a_real_neutron_lbaas() {
    let Some(cloud) = OpenStack::with_lbaas(openstack::Options::default()).await.unwrap() else {
        openstack::skipped("neutron-lbaas needs a Python 3.7 (on the PATH or in pyenv)");
        return;
    };
    let maker =
        Maker { api: cloud.neutron(Service::NeutronLbaas).unwrap(), project: cloud.project("alpha").await.unwrap() };
    let subnet = maker.subnet().await;
    let tree = tree(&maker, &subnet).await;
    let mut balancers = vec![tree.balancer.clone()];
    for name in ["two", "three", "four", ""] {
        balancers.push(maker.balancer(name, &subnet).await);
    }
    let client = connect(&cloud).await;
    let load_balancing = client.session(&TokenScope::Project(maker.project.clone())).load_balancing().await.unwrap();
    assert_eq!(load_balancing.dialect(), Dialect::NeutronLbaas);
    assert_eq!(load_balancing.version().await.unwrap(), None);

    let list = load_balancing.load_balancers(None).await.unwrap();
    the_load_balancers(&list, &balancers, &maker.project);
    assert_eq!(client.calls().count(CallKind::LoadBalancers, CallOutcome::Ok), 2, "two pages");
    what_belongs_to_one(&load_balancing, &tree).await;
    what_is_deleted(&load_balancing, &maker, &balancers).await;

    let foreign = cloud.project("beta").await.unwrap();
    let foreign = client.session(&TokenScope::Project(foreign)).load_balancing().await.unwrap();
    assert!(foreign.load_balancers(None).await.unwrap().rows.is_empty());
    // Neutron answers 404 both for other projects' objects and for missing ones.
    assert_eq!(foreign.load_balancer(&tree.balancer).await.unwrap(), Lookup::Gone);
}

fn the_load_balancers(list: &CompleteList<LoadBalancer>, created: &[String], project: &str) {
    assert_eq!(sorted(list.rows.iter().map(|row| &row.id)), in_order(created));
    assert_eq!(list.unreadable, []);
    assert!(list.server_time.is_some());
    for row in &list.rows {
        let found = (row.project.as_str(), row.admin_state_up, row.provisioning);
        assert_eq!(found, (project, true, ProvisioningStatus::Active), "{row:?}");
    }
}

async fn what_belongs_to_one(load_balancing: &LoadBalancing, tree: &Tree) {
    let Lookup::Found(row) = load_balancing.load_balancer(&tree.balancer).await.unwrap() else { panic!("not there") };
    assert_eq!((&*row.name, sorted(&row.listeners)), ("web", vec![&*tree.listener]));
    assert_eq!(sorted(&row.pools), in_order([&tree.pool, &tree.redirect]));

    let listeners = load_balancing.listeners(None).await.unwrap().rows;
    assert_eq!(sorted(listeners.iter().map(|row| &row.id)), [&*tree.listener]);
    let listener = &listeners[0];
    assert_eq!((&listener.protocol, listener.port), (&Protocol::Http, Some(80)));
    assert_eq!(sorted(&listener.default_pool_id), [&*tree.pool]);
    assert_eq!(sorted(&listener.load_balancers), [&*tree.balancer]);

    let pools = load_balancing.pools(None).await.unwrap().rows;
    assert_eq!(sorted(pools.iter().map(|row| &row.id)), in_order([&tree.pool, &tree.redirect]));
    let pool = pools.iter().find(|row| row.id.as_str() == tree.pool).unwrap();
    assert_eq!(sorted(&pool.members), in_order(&tree.members));
    assert_eq!((pool.updated_at, listener.updated_at), (None, None), "Mitaka has no times");

    let policies = load_balancing.l7_policies(None).await.unwrap().rows;
    assert_eq!(sorted(policies.iter().map(|row| &row.id)), [&*tree.policy]);
    assert_eq!(sorted(&policies[0].redirect_pool), [&*tree.redirect]);

    let members = load_balancing.members(&tree.pool).await.unwrap().rows;
    assert_eq!(sorted(members.iter().map(|row| &row.id)), in_order(&tree.members), "two pages");
    for member in &members {
        let address = Address::Ip(format!("10.30.0.{}", member.weight).parse().unwrap());
        assert_eq!((&member.address, member.port, member.admin_state_up), (&address, Some(8080), true));
    }

    let statuses = load_balancing.statuses(&tree.balancer).await.unwrap();
    for id in [&tree.balancer, &tree.listener, &tree.pool, &tree.members[0]] {
        assert_eq!(statuses.by_id[id.as_str()].operating, "ONLINE", "{id}");
    }
}

async fn what_is_deleted(load_balancing: &LoadBalancing, maker: &Maker, balancers: &[String]) {
    let gone = &balancers[2];
    assert!(matches!(load_balancing.load_balancer(gone).await.unwrap(), Lookup::Found(row) if row.id.as_str() == gone));
    maker.api.delete(&format!("/lbaas/loadbalancers/{gone}")).await.unwrap();
    assert_eq!(load_balancing.load_balancer(gone).await.unwrap(), Lookup::Gone);
    let left = load_balancing.load_balancers(None).await.unwrap();
    assert_eq!(sorted(left.rows.iter().map(|row| &row.id)), in_order(balancers.iter().filter(|id| *id != gone)));
    let error = load_balancing.members("00000000-0000-4000-8000-000000000000").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}
