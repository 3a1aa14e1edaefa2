//! The router of each Ingress: the shared one, which has the address that the configuration says, and those by annotation.

use std::collections::BTreeSet;

use gimbal_testkit::openstack::{Call, Service};
use gimbal_tests::{INGRESSES, ROUTERS, WayBack};
use serde_json::Value;

use super::{FEATURES, Spec, load_balancing};

/// `external_svc_subnet`: the second subnet of the network of floating IPs.
pub(super) const OUTSIDE: &str = "198.51.100.0/24";
/// `l7_router_ip`.
pub(super) const SHARED: &str = "198.51.100.77";
pub(super) const GROUP: &[(&str, &str)] = &[("kuryr.openstack.org/l7-router", "group:balancing")];
/// The routers by annotation: that of an Ingress alone has its name, that of a group the group's.
const OWN: &str = "default-backend";
const OF_GROUP: &str = "balancing";

pub(super) async fn each_ingress_has_the_address_of_its_router(stage: &WayBack) {
    let is_ours = |spec: &&Spec| spec.class == Some("kuryr");
    let mut addresses = BTreeSet::new();
    for spec in FEATURES.into_iter().flatten().filter(is_ours) {
        let what = format!("Ingress {} has an address", spec.name);
        let address = super::until(stage, &what, async || super::address(stage, spec.name).await).await;
        let router = match spec.annotations.iter().find(|(key, _)| key.ends_with("/l7-router")) {
            None => "kuryr-l7-router",
            Some((_, "own")) => spec.name,
            Some(_) => OF_GROUP,
        };
        assert_eq!(address == SHARED, router == "kuryr-l7-router", "{}: {address}", spec.name);
        assert!(address.starts_with("198.51.100."), "it is of the subnet that is configured: {address}");
        addresses.insert((router, address));
    }
    assert_eq!(addresses.len(), 3, "Ingresses of a router have one address: {addresses:?}");
    let floating = floating_ips(stage).await.unwrap();
    let found: BTreeSet<&str> = floating.iter().filter_map(|one| one["floating_ip_address"].as_str()).collect();
    assert_eq!(found, addresses.iter().map(|(_, address)| &**address).collect());
    assert_eq!(stage.balancers().await.unwrap().len(), 3, "a Service has no load balancer because of an Ingress");
}

/// octavia-ingress-controller's eleventh: everything was made step by step. Only what was accepted counts: a cloud that is busy
/// refuses a creation, and gets it again.
pub(super) async fn each_is_made_in_one_request(stage: &WayBack) {
    let changes = stage.changes_since([0, 0]).unwrap();
    let accepted = |what: &str| {
        let is_it = |call: &&Call| call.method == "POST" && call.status < 300 && call.path.ends_with(what);
        changes.iter().filter(is_it).count()
    };
    let routers = stage.cluster.admin().items(ROUTERS).await.unwrap().len();
    let made = ["/loadbalancers", "/listeners", "/pools", "/members", "/l7policies", "/rules"].map(accepted);
    assert_eq!(made, [routers, 0, 0, 0, 0, 0], "{changes:#?}");
}

/// The shared router stays, and so does the floating IP that somebody made for it.
pub(super) async fn go_with_their_last_ingress(stage: &WayBack) {
    for (ingress, left) in [
        (OWN, &["kuryr-l7-router", OF_GROUP][..]),
        ("load-balancing-beside", &["kuryr-l7-router", OF_GROUP]),
        (load_balancing::NAME, &["kuryr-l7-router"]),
    ] {
        let path = format!("{INGRESSES}/{ingress}");
        stage.cluster.admin().delete(&path).await.unwrap();
        super::until(stage, &format!("Ingress {ingress} is gone, and {left:?} are left"), async || {
            anyhow::ensure!(
                stage.cluster.admin().get(&path).await.is_err_and(|error| error.code == 404),
                "it is there"
            );
            let routers = stage.cluster.admin().items(ROUTERS).await?;
            let names: Vec<&str> = routers.iter().filter_map(|one| one["metadata"]["name"].as_str()).collect();
            let (balancers, floating) = (stage.balancers().await?.len(), floating_ips(stage).await?.len());
            anyhow::ensure!(
                names == left && [balancers, floating] == [left.len(); 2],
                "{names:?}, {balancers}, {floating}"
            );
            Ok(())
        })
        .await;
    }
}

async fn floating_ips(stage: &WayBack) -> anyhow::Result<Vec<Value>> {
    let list = stage.cloud.neutron(Service::Neutron)?.get("/floatingips").await?;
    Ok(list["floatingips"].as_array().cloned().unwrap_or_default())
}
