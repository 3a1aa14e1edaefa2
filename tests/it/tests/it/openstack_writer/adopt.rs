//! Load balancers that Kuryr and cloud-provider-openstack made are taken over where they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_kuryr_model::FloatingWish;
use gimbal_testkit::openstack::Service;
use serde_json::{Value, json};

use super::admin::{configure_one, lb};
use super::controller::wanted;
use super::stage::{PROD1, Stage};

fn owner(number: u32) -> String {
    format!("dddddddd-0000-4000-8000-{number:012}")
}

/// A whole load balancer as a request: names of its listener and pool, with these members.
fn tree(name: &str, part: &str, members: &[&str]) -> Value {
    let member = |address: &&str| json!({"address": address, "protocol_port": 8080});
    let members: Vec<Value> = members.iter().map(member).collect();
    let pool = json!({"name": part, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": members});
    let listener = json!({"name": part, "protocol": "TCP", "protocol_port": 80, "default_pool": pool});
    json!({"name": name, "listeners": [listener]})
}

/// What traffic passes through: VIP and its port, listeners, pools and members, by ID.
async fn path_of_traffic(stage: &Stage, id: &str) -> BTreeSet<String> {
    let api = stage.cloud.octavia();
    let row = &api.get(&format!("/loadbalancers/{id}")).await.unwrap()["loadbalancer"];
    let mut path: BTreeSet<String> =
        ["id", "vip_address", "vip_port_id", "vip_subnet_id"].map(|key| row[key].to_string()).into();
    for key in ["listeners", "pools"] {
        path.extend(row[key].as_array().unwrap().iter().map(|one| one["id"].to_string()));
    }
    for pool in row["pools"].as_array().unwrap() {
        let found = api.get(&format!("/pools/{}/members", pool["id"].as_str().unwrap())).await.unwrap();
        path.extend(found["members"].as_array().unwrap().iter().map(|one| one["id"].to_string()));
    }
    path
}

/// What was changed, without IDs: it makes nothing and removes nothing.
fn verbs(changes: &[String]) -> BTreeSet<&str> {
    changes.iter().map(|change| change.split(' ').next().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_kuryr_and_the_cloud_provider_made_is_taken_over() {
    let mut stage = Stage::start(&["--drift-interval", "1s"]).await;
    kuryrs(&stage).await;
    let network = stage.cloud.create_external_network("172.24.4.0/24").await.unwrap();
    stage.cloud.create_router("alpha", &network, &stage.subnet).await.unwrap();
    stage.stop_writer().await;
    configure_one(&stage, "prod1", &format!("floating: {{allow: [{network}]}}"));
    stage.start_writer().await;
    the_cloud_providers(&stage, &network).await;
}

/// Kuryr's has the cluster IP as its VIP.
async fn kuryrs(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let mut body = tree("shop/web", "shop/web:TCP:80", &["10.0.0.1", "10.0.0.2"]);
    body["vip_subnet_id"] = json!(stage.subnet);
    body["vip_address"] = json!("10.60.0.77");
    body["description"] = json!("openstack.org/kuryr-kubernetes");
    let made = stage.cloud.create_load_balancer("alpha", &body).await.unwrap();
    let id = made["id"].as_str().unwrap();
    let before = path_of_traffic(stage, id).await;

    lb(stage, &format!("adopt shop/web {id} --cluster prod1 --dry-run")).expect_refusal("does not want");
    let mut wish = wanted(&owner(1), 1, &stage.subnet, &[80], &["10.0.0.1", "10.0.0.2"]);
    Arc::make_mut(&mut wish.header).vip.address = Some("10.60.0.77".parse().unwrap());
    controller.want("web", wish);
    // Its address is taken, so it waits.
    let in_the_way = |report: &gimbal_kuryr_model::LoadBalancerReport| !report.conditions.is_empty();
    controller.expect("web", "blocked", in_the_way).await;
    let marks = stage.marks();
    let shown = lb(stage, &format!("adopt shop/web {id} --cluster prod1 --dry-run -o json")).json();
    assert_eq!((&shown[0]["verb"], &shown[0]["id"]), (&json!("update"), &json!(id)));
    assert_eq!(shown.len(), 3, "the load balancer, its listener and its pool: {shown:?}");
    let changes = stage.changes_since(marks);
    assert!(changes.iter().all(|change| change == "POST /v2/lbaas/loadbalancers"), "a dry run: {changes:?}");
    let row = stage.cloud.octavia().get(&format!("/loadbalancers/{id}")).await.unwrap();
    assert_eq!(row["loadbalancer"]["tags"], json!([]));

    let done = lb(stage, &format!("adopt shop/web {id} --cluster prod1"));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(controller.expect_ready("web", 1).await, id);
    assert_eq!(path_of_traffic(stage, id).await, before, "the same address, and every part where it was");
    let [row] = &stage.balancers(&format!("k8s-svc-uid:{}", owner(1))).await[..] else { panic!("not one") };
    assert_eq!(row["id"], id);
    let again = lb(stage, &format!("adopt shop/web {id} --cluster prod1"));
    assert_eq!(again.code, Some(0), "a second time nothing is left to do: {again:?}");

    // It is like any other from now on.
    let mut wish = wanted(&owner(1), 2, &stage.subnet, &[80], &["10.0.0.1", "10.0.0.3"]);
    Arc::make_mut(&mut wish.header).vip.address = Some("10.60.0.77".parse().unwrap());
    controller.want("web", wish);
    assert_eq!(controller.expect_ready("web", 2).await, id);
    stage.expect_members(id, &[80], &["10.0.0.1", "10.0.0.3"]).await;
    controller.delete("web", &owner(1));
    controller.expect_gone("web").await;
    controller.forget("web");
}

/// The cloud provider's has an address of Neutron's choice behind a floating IP. The annotation `load-balancer-id` names it.
async fn the_cloud_providers(stage: &Stage, network: &str) {
    let controller = stage.controller(PROD1);
    let name = "kube_service_kubernetes_shop_api";
    let mut body = tree(name, &format!("listener_0_{name}"), &["10.0.0.1"]);
    body["vip_subnet_id"] = json!(stage.subnet);
    body["tags"] = json!([name]);
    body["description"] = json!("Kubernetes external service shop/api from cluster kubernetes");
    let made = stage.cloud.create_load_balancer("alpha", &body).await.unwrap();
    let id = made["id"].as_str().unwrap();
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    let floating = json!({"floatingip": {"floating_network_id": network, "port_id": made["vip_port_id"],
        "project_id": stage.project,
        "description": "Floating IP for Kubernetes external service shop/api from cluster kubernetes"}});
    let floating = neutron.post("/floatingips", &floating).await.unwrap()["floatingip"].clone();
    let before = path_of_traffic(stage, id).await;

    let mut wish = wanted(&owner(2), 1, &stage.subnet, &[80], &["10.0.0.1"]);
    let header = Arc::make_mut(&mut wish.header);
    header.adopt = Some(id.into());
    header.floating = Some(Box::new(FloatingWish { network: Some(network.into()), ..FloatingWish::default() }));
    let marks = stage.marks();
    controller.want("api", wish);
    let conflict = |report: &gimbal_kuryr_model::LoadBalancerReport| {
        report.conditions.iter().any(|one| &*one.kind == "Conflict" && one.message.contains(id))
    };
    controller.expect("api", "waiting for the adoption", conflict).await;
    let shown = lb(stage, &format!("adopt shop/api {id} --cluster prod1 --dry-run"));
    assert!(shown.out.contains("dry run: nothing was changed"), "{shown:?}");
    // The same with grpcurl, and then for real.
    let client = stage.programs.ask(stage.writer()).unwrap();
    let adopt = |dry_run: bool| {
        let order =
            json!({"cluster": "prod1", "namespace": "shop", "name": "api", "loadBalancerId": id, "dryRun": dry_run});
        client.call("gimbal.kuryr.v1.AdminService/Adopt", &order)
    };
    let shown = adopt(true).unwrap();
    let first = &shown["changes"][0];
    assert_eq!((&first["verb"], &first["kind"], &first["id"]), (&json!("update"), &json!("loadbalancer"), &json!(id)));
    assert_eq!(shown["changes"].as_array().unwrap().len(), 3, "the load balancer, its listener and its pool: {shown}");
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());
    adopt(false).unwrap();
    let report = controller.expect("api", "ready", |report| report.phase == gimbal_kuryr_model::Phase::Ready).await;
    let made = report.objects.load_balancer.unwrap();
    assert_eq!(*made.id, *id);
    assert_eq!(path_of_traffic(stage, id).await, before);
    let changes = stage.changes_since(marks);
    assert_eq!(verbs(&changes), BTreeSet::from(["PUT"]), "nothing is made or removed: {changes:?}");
    let path = format!("/floatingips/{}", floating["id"].as_str().unwrap());
    let after = neutron.get(&path).await.unwrap()["floatingip"].clone();
    assert_eq!(
        (&after["port_id"], &after["floating_ip_address"]),
        (&floating["port_id"], &floating["floating_ip_address"])
    );
    let address = report.objects.floating_ip.unwrap().address.to_string();
    assert_eq!(json!(address), floating["floating_ip_address"], "people find it at the same address");
}
