//! Floating IPs: from the pool, a user's own, kept, and one that somebody else has.

use gimbal_kuryr_model::{FloatingAllocation, LoadBalancerHeader, LoadBalancerReport, Phase};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Service;
use serde_json::{Value, json};

use super::controller::{MADE, from_outside, wanted, with};
use super::stage::{PROD1, Stage, Surroundings};

fn owner(number: u32) -> String {
    format!("dddddddd-0000-4000-8000-{number:012}")
}

impl Surroundings {
    /// Asks for a floating IP, any.
    pub fn ask(&self, header: &mut LoadBalancerHeader) {
        let floating = header.floating.get_or_insert_default();
        floating.network = Some(self.outside.as_str().into());
    }
}

impl Stage {
    /// Makes a floating IP as a user of the project does, and leads it to a port if one is given. Returns its ID and address.
    pub async fn make_floating(&self, around: &Surroundings, port: Option<&str>) -> (String, String) {
        self.make_floating_described(around, port, "").await
    }

    /// As [`Stage::make_floating`]. The description is there from the first moment on, for looks may come at once.
    pub async fn make_floating_described(
        &self,
        around: &Surroundings,
        port: Option<&str>,
        description: &str,
    ) -> (String, String) {
        let neutron = self.cloud.neutron(Service::Neutron).unwrap();
        let body = json!({"floating_network_id": around.outside, "project_id": self.project, "port_id": port,
            "description": description});
        let made = neutron.post("/floatingips", &json!({"floatingip": body})).await.unwrap();
        let text = |field: &str| made["floatingip"][field].as_str().unwrap().to_owned();
        (text("id"), text("floating_ip_address"))
    }

    pub async fn floating(&self, id: &str) -> Option<Value> {
        let neutron = self.cloud.neutron(Service::Neutron).unwrap();
        match neutron.get(&format!("/floatingips/{id}")).await {
            Ok(mut found) => Some(found["floatingip"].take()),
            Err(error) if error.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the ID of the port of a load balancer's VIP.
    pub async fn vip_port(&self, balancer: &str) -> String {
        let found = self.cloud.octavia().get(&format!("/loadbalancers/{balancer}")).await.unwrap();
        found["loadbalancer"]["vip_port_id"].as_str().unwrap().to_owned()
    }
}

fn is_ready(report: &LoadBalancerReport) -> bool {
    report.phase == Phase::Ready
}

/// From the pool: made, and gone with the load balancer. Kept: it stays, and belongs to no load balancer then.
pub async fn of_the_pool_and_kept(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let wish = |owner: &str, keep| {
        let wish = from_outside(wanted(owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
        with(wish, |header| {
            around.ask(header);
            header.floating.as_mut().unwrap().keep = keep;
        })
    };
    let owners = [owner(1), owner(2)];
    let mut made = Vec::new();
    for (owner, (name, keep)) in owners.iter().zip([("pool", false), ("kept", true)]) {
        controller.want(name, wish(owner, keep));
        let report = controller.expect(name, "ready", is_ready).await;
        let floating = report.objects.floating_ip.unwrap();
        assert_eq!(floating.allocation, FloatingAllocation::Pool);
        let balancer = report.objects.load_balancer.unwrap().id;
        let row = stage.floating(&floating.id).await.unwrap();
        assert_eq!(row["port_id"].as_str(), Some(stage.vip_port(&balancer).await.as_str()), "{row}");
        made.push(floating.id.to_string());
    }
    for (owner, name) in owners.iter().zip(["pool", "kept"]) {
        controller.remove(name, owner).await;
    }
    assert_eq!(stage.floating(&made[0]).await, None, "one of the pool goes");
    let kept = stage.floating(&made[1]).await.unwrap();
    assert!(kept["port_id"].is_null() && !kept["description"].as_str().unwrap().contains("k8s-svc-uid"), "{kept}");
}

/// One that a user made, and asks for by its address.
pub async fn of_a_user(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let owner = owner(3);
    let (own, address) = stage.make_floating(around, None).await;
    let wish = from_outside(wanted(&owner, 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let wish = with(wish, |header| {
        around.ask(header);
        header.floating.as_mut().unwrap().address = address.parse().ok();
    });
    controller.want("user", wish);
    let floating = controller.expect("user", "ready", is_ready).await.objects.floating_ip.unwrap();
    assert_eq!((&*floating.id, floating.allocation), (&*own, FloatingAllocation::User));
    controller.remove("user", &owner).await;
    let left = stage.floating(&own).await.expect("it is the user's");
    assert!(left["port_id"].is_null(), "{left}");
}

/// Somebody else has the address: nothing is taken from them, the load balancer serves at its VIP. Once the address is free, it
/// gets that with the next change of the Service.
pub async fn taken_by_someone_else(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let (holder, owner) = (owner(4), owner(5));
    controller.want("holder", from_outside(wanted(&holder, 1, &stage.subnet, &[80], &["10.0.0.9"])));
    let balancer = controller.expect_ready("holder", 1).await;
    let port = stage.vip_port(&balancer).await;
    // A port of somebody else's: no load balancer of ours has it.
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    let network = neutron.get(&format!("/ports/{port}")).await.unwrap()["port"]["network_id"].clone();
    let fixed = json!([{"subnet_id": stage.subnet}]);
    let body = json!({"network_id": network, "project_id": stage.project, "fixed_ips": fixed, "name": "a server"});
    let server = neutron.post("/ports", &json!({"port": body})).await.unwrap()["port"]["id"].clone();
    let (taken, address) = stage.make_floating(around, server.as_str()).await;

    let wish = |generation, members: &[&str]| {
        with(from_outside(wanted(&owner, generation, &stage.subnet, &[80], members)), |header| {
            around.ask(header);
            header.floating.as_mut().unwrap().address = address.parse().ok();
        })
    };
    controller.want("wants", wish(1, &["10.0.0.1"]));
    let conflict = |report: &LoadBalancerReport| report.conditions.iter().any(|one| &*one.kind == "Conflict");
    let report = controller.expect("wants", "in conflict", conflict).await;
    let words = report.conditions.iter().find(|one| &*one.kind == "Conflict").unwrap().message.to_string();
    assert!(words.contains(&address) && report.objects.load_balancer.is_some(), "{report:?}");
    let id = report.objects.load_balancer.unwrap().id.to_string();
    stage.expect_members(&id, &[80], &["10.0.0.1"]).await;
    stage.expect_looks(2).await;
    assert_eq!(stage.floating(&taken).await.unwrap()["port_id"], server, "it is not taken away");

    neutron.put(&format!("/floatingips/{taken}"), &json!({"floatingip": {"port_id": null}})).await.unwrap();
    controller.want("wants", wish(2, &["10.0.0.2"]));
    let report = controller.expect("wants", "ready", is_ready).await;
    assert_eq!(*report.objects.floating_ip.unwrap().id, *taken);
    let vip = stage.vip_port(&id).await;
    let wait = eventually("it leads to the VIP", MADE, async || {
        let row = stage.floating(&taken).await.unwrap();
        if row["port_id"] == vip { Ok(()) } else { Err(row) }
    });
    wait.await.unwrap();
    controller.remove("wants", &owner).await;
    controller.remove("holder", &holder).await;
    neutron.delete(&format!("/ports/{}", server.as_str().unwrap())).await.unwrap();
}
