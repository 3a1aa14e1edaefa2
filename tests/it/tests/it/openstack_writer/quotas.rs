//! What a quota has no room for waits and says so, and stops nothing else, until something goes.

use gimbal_kuryr_model::{DesiredLoadBalancer, LoadBalancerReport};
use gimbal_testkit::openstack::Service;
use gimbal_tests::expect_metric;
use serde_json::json;

use super::controller::{Controller, from_outside, wanted, with};
use super::stage::{PROD1, Stage, Surroundings};

fn owner(number: u32) -> String {
    format!("abababab-0000-4000-8000-{number:012}")
}

async fn limit(stage: &Stage, service: Service, resource: &str, most: i32) {
    stage.cloud.set_quota(service, &stage.project, &json!({resource: most})).await.unwrap();
}

async fn expect_over(controller: &Controller, name: &str, generation: i64) {
    let over = |report: &LoadBalancerReport| {
        report.generation == generation && report.conditions.iter().any(|one| &*one.kind == "QuotaExceeded")
    };
    controller.expect(name, "over quota", over).await;
}

/// A load balancer that wants more than there is, beside one that changes within its own and goes then.
struct Two<'a> {
    stage: &'a Stage,
    controller: Controller,
    waits: String,
    goes: String,
}

impl<'a> Two<'a> {
    /// Both are made, and there is no room for more.
    async fn made(stage: &'a Stage, numbers: [u32; 2], members: &[&str]) -> Self {
        let [waits, goes] = numbers.map(owner);
        let two = Self { stage, controller: stage.controller(PROD1), waits, goes };
        two.controller.want("waits", two.wish(&two.waits, 1, &[80], members));
        two.controller.want("goes", two.wish(&two.goes, 1, &[80], &["10.0.0.1"]));
        for name in ["waits", "goes"] {
            two.controller.expect_ready(name, 1).await;
        }
        two
    }

    fn wish(&self, owner: &str, generation: i64, ports: &[u16], members: &[&str]) -> DesiredLoadBalancer {
        wanted(owner, generation, &self.stage.subnet, ports, members)
    }

    /// The other one goes on, and when it goes there is room.
    async fn end(self, ports: &[u64], members: &[&str]) {
        self.controller.want("goes", self.wish(&self.goes, 2, &[80], &["10.0.0.9"]));
        let other = self.controller.expect_ready("goes", 2).await;
        self.stage.expect_members(&other, &[80], &["10.0.0.9"]).await;
        self.controller.remove("goes", &self.goes).await;
        let id = self.controller.expect_ready("waits", 2).await;
        self.stage.expect_members(&id, ports, members).await;
        self.controller.remove("waits", &self.waits).await;
    }
}

/// What is left of it is a metric, under Kuryr's name. It is read when the writer starts, and now and then.
pub async fn what_is_left(stage: &mut Stage) {
    limit(stage, Service::Octavia, "load_balancer", 7).await;
    let controller = stage.controller(PROD1);
    controller.want("one", wanted(&owner(7), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("one", 1).await;
    stage.stop_writer().await;
    stage.start_writer().await;
    let labels = r#"cluster="prod1",resource="loadbalancers""#;
    expect_metric(stage.writer().admin_port, "kuryr_quota_free_count", labels, 6.0).await.unwrap();
    controller.remove("one", &owner(7)).await;
    limit(stage, Service::Octavia, "load_balancer", -1).await;
}

/// A port more has no room; the members of the one that is there follow.
pub async fn of_listeners(stage: &Stage) {
    limit(stage, Service::Octavia, "listener", 2).await;
    let two = Two::made(stage, [1, 2], &["10.0.0.1"]).await;
    two.controller.want("waits", two.wish(&two.waits, 2, &[80, 81], &["10.0.0.2"]));
    expect_over(&two.controller, "waits", 2).await;
    let report = two.controller.report("waits").unwrap();
    stage.expect_members(&report.objects.load_balancer.unwrap().id, &[80], &["10.0.0.2"]).await;
    two.end(&[80, 81], &["10.0.0.2"]).await;
    limit(stage, Service::Octavia, "listener", -1).await;
}

/// A member more has no room; those that are there stay.
pub async fn of_members(stage: &Stage) {
    limit(stage, Service::Octavia, "member", 3).await;
    let two = Two::made(stage, [3, 4], &["10.0.0.1", "10.0.0.2"]).await;
    let more = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
    two.controller.want("waits", two.wish(&two.waits, 2, &[80], &more));
    expect_over(&two.controller, "waits", 2).await;
    let report = two.controller.report("waits").unwrap();
    stage.expect_members(&report.objects.load_balancer.unwrap().id, &[80], &more[..2]).await;
    two.end(&[80], &more).await;
    limit(stage, Service::Octavia, "member", -1).await;
}

/// Neutron has no floating IP more; the load balancer is there, and its members follow.
pub async fn of_floating_ips(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let (first, second) = (owner(5), owner(6));
    let wish = |owner: &str, generation, members: &[&str]| {
        let wish = from_outside(wanted(owner, generation, &stage.subnet, &[80], members));
        with(wish, |header| around.ask(header))
    };
    limit(stage, Service::Neutron, "floatingip", 1).await;
    controller.want("first", wish(&first, 1, &["10.0.0.1"]));
    controller.expect_ready("first", 1).await;
    controller.want("second", wish(&second, 1, &["10.0.0.1"]));
    expect_over(&controller, "second", 1).await;
    controller.want("second", wish(&second, 2, &["10.0.0.2"]));
    expect_over(&controller, "second", 2).await;
    let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{second}")).await[..] else { panic!("not one") };
    stage.expect_members(balancer["id"].as_str().unwrap(), &[80], &["10.0.0.2"]).await;
    controller.want("first", wish(&first, 2, &["10.0.0.3"]));
    controller.expect_ready("first", 2).await;
    controller.remove("first", &first).await;
    controller.expect_ready("second", 2).await;
    assert!(controller.report("second").unwrap().objects.floating_ip.is_some());
    controller.remove("second", &second).await;
    limit(stage, Service::Neutron, "floatingip", -1).await;
}
