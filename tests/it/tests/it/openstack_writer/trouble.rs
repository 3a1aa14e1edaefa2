//! Lost answers, quotas, kills, and orphans.

use std::time::Duration;

use gimbal_kuryr_model::{
    Algorithm, DesiredLoadBalancer, DesiredMember, DesiredMembers, HealthMonitor, LoadBalancerHeader,
    LoadBalancerReport, MonitorKind,
};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Service, Steer, Steered};
use serde_json::json;

use super::controller::{from_outside, wanted, with};
use super::drift::expect_shape;
use super::stage::{PROD1, Stage, Surroundings};

fn owner(number: u32) -> String {
    format!("bbbbbbbb-0000-4000-8000-{number:012}")
}

/// A kind of call: the service, the method, and the path.
pub type Kind = (Service, &'static str, &'static str);

/// The calls by which a load balancer is made.
const MAKING: [Kind; 5] = [
    (Service::Octavia, "POST", "/loadbalancers$"),
    (Service::Neutron, "POST", "/ports$"),
    (Service::Neutron, "PUT", "/ports/[^/]+/tags$"),
    (Service::Neutron, "POST", "/floatingips$"),
    (Service::Neutron, "PUT", "/floatingips/[^/]+/tags$"),
];
/// Those by which it is changed, and gets another port.
const CHANGING: [Kind; 10] = [
    (Service::Octavia, "PUT", "/loadbalancers/[^/]+$"),
    (Service::Octavia, "PUT", "/listeners/[^/]+$"),
    (Service::Octavia, "PUT", "/pools/[^/]+$"),
    (Service::Octavia, "PUT", "/healthmonitors/[^/]+$"),
    (Service::Octavia, "PUT", "/members$"),
    (Service::Octavia, "POST", "/listeners$"),
    (Service::Octavia, "POST", "/pools$"),
    (Service::Octavia, "POST", "/healthmonitors$"),
    (Service::Neutron, "PUT", "/ports/[^/]+$"),
    (Service::Neutron, "PUT", "/floatingips/[^/]+$"),
];
/// Those by which it loses parts, gets its name back, and gets members one by one.
const TAKING: [Kind; 8] = [
    (Service::Octavia, "PUT", "/loadbalancers/[^/]+$"),
    (Service::Octavia, "DELETE", "/listeners/[^/]+$"),
    (Service::Octavia, "DELETE", "/pools/[^/]+$"),
    (Service::Octavia, "DELETE", "/healthmonitors/[^/]+$"),
    (Service::Octavia, "POST", "/members$"),
    (Service::Octavia, "PUT", "/members/[^/]+$"),
    (Service::Octavia, "DELETE", "/members/[^/]+$"),
    (Service::Neutron, "DELETE", "/floatingips/[^/]+$"),
];
/// Those by which it goes.
const REMOVING: [Kind; 2] =
    [(Service::Octavia, "DELETE", "/loadbalancers/[^/]+$"), (Service::Neutron, "DELETE", "/ports/[^/]+$")];
/// All of them.
pub const KINDS: [&[Kind]; 4] = [&MAKING, &CHANGING, &TAKING, &REMOVING];

/// The answer to the first call of each of these kinds will be lost.
pub async fn lose(stage: &Stage, kinds: &[Kind]) -> Vec<(Steered, Kind)> {
    let mut rules = Vec::new();
    for kind in kinds {
        let (service, method, path) = *kind;
        // Octavia calls Neutron, too.
        let rule = Steer::calls(method, path).by("^gimbal-openstack-writer").once().lose_the_answer();
        rules.push((stage.cloud.steer(service, &rule).await.unwrap(), *kind));
    }
    rules
}

/// Checks that the answer to each was lost.
pub async fn expect_lost(stage: &Stage, rules: Vec<(Steered, Kind)>) {
    for (rule, kind) in rules {
        assert_eq!(stage.cloud.steered(rule).await.unwrap(), 1, "no answer was lost: {kind:?}");
    }
}

/// Checks that the answer to each was lost, that there is exactly one of each thing that is wanted, and that the writer is at
/// rest. `floating`: how many floating IPs are wanted.
async fn expect_one_of_each(stage: &Stage, rules: Vec<(Steered, Kind)>, owner: &str, floating: usize) {
    expect_lost(stage, rules).await;
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    let found = neutron.get(&format!("/floatingips?project_id={}", stage.project)).await.unwrap();
    let addresses = found["floatingips"].as_array().unwrap().len();
    let (balancers, ports) = (stage.balancers("").await.len(), stage.marked_ports(owner).await.len());
    assert_eq!((balancers, ports, addresses), (1, 1, floating), "load balancers, ports and floating IPs: no twin");
    let marks = stage.marks();
    stage.expect_looks(2).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "nothing is left to do");
}

/// Changes whose answers are lost, one of each kind, are looked up, and not made twice.
pub async fn lost_answers(stage: &Stage, around: &Surroundings) {
    let controller = stage.controller(PROD1);
    let owner = owner(1);
    let wish = |generation, ports: &[u16], members: &[&str], change: &dyn Fn(&mut LoadBalancerHeader)| {
        with(from_outside(wanted(&owner, generation, &stage.subnet, ports, members)), |header| {
            header.balancing.algorithm = Some(Algorithm::RoundRobin);
            header.timeouts.client_data = Some(40_000);
            change(header);
        })
    };
    let monitor = |delay| {
        let (kind, timeout, rise, fall) = (MonitorKind::Connect, 3, 1, 3);
        Some(Box::new(HealthMonitor { kind, port: None, delay, timeout, rise, fall, path: None, codes: None }))
    };
    let lost = lose(stage, &MAKING).await;
    controller.want(
        "lost",
        wish(1, &[80], &["10.0.0.1"], &|header| {
            around.ask(header);
            header.monitor = monitor(5);
        }),
    );
    let id = controller.expect_ready("lost", 1).await;
    let report = controller.report("lost").unwrap().objects;
    let (address, floating) = (report.load_balancer.unwrap().address, report.floating_ip.unwrap().id);
    let balancer = format!("\"shop/lost\" true \"{address}\"");
    let port = |port: u16, timeout: u32, algorithm: &str, members: &[&str], delay: &str| {
        let name = format!("\"shop/lost:TCP:{port}\"");
        [
            format!("listener {port} {name} {timeout} true -> {name}"),
            format!("pool {name} \"{algorithm}\" {members:?} {delay}"),
        ]
    };
    let shape = |ports: &[[String; 2]]| {
        let mut shape: Vec<String> = ports.iter().flatten().chain([&balancer]).cloned().collect();
        shape.sort();
        shape
    };
    expect_shape(stage, &id, &shape(&[port(80, 40_000, "ROUND_ROBIN", &["10.0.0.1=1"], "5")])).await;
    expect_one_of_each(stage, lost, &owner, 1).await;

    let lost = lose(stage, &CHANGING).await;
    // Somebody leads it away, so that it has to be led back.
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    neutron.put(&format!("/floatingips/{floating}"), &json!({"floatingip": {"port_id": null}})).await.unwrap();
    controller.want(
        "lost",
        wish(2, &[80, 81], &["10.0.0.1", "10.0.0.2"], &|header| {
            around.ask(header);
            header.monitor = monitor(7);
            header.timeouts.client_data = Some(30_000);
            header.balancing.algorithm = Some(Algorithm::LeastConnections);
            header.vip.security_groups = [around.group.as_str().into()].into();
        }),
    );
    assert_eq!(controller.expect_ready("lost", 2).await, id);
    let members = ["10.0.0.1=1", "10.0.0.2=1"];
    let of = |number| port(number, 30_000, "LEAST_CONNECTIONS", &members, "7");
    expect_shape(stage, &id, &shape(&[of(80), of(81)])).await;
    let [vip] = &stage.marked_ports(&owner).await[..] else { panic!("not one port") };
    assert!(vip["security_groups"].as_array().unwrap().contains(&json!(around.group)), "{vip}");
    assert_eq!(stage.floating(&floating).await.unwrap()["port_id"], vip["id"]);
    expect_one_of_each(stage, lost, &owner, 1).await;

    // From now on the provider takes members one by one.
    let batch = stage.steer(&Steer::provider("^member_batch_update$").unsupported()).await;
    let lost = lose(stage, &TAKING).await;
    stage.cloud.update(&format!("/loadbalancers/{id}"), &json!({"name": "theirs"})).await.unwrap();
    let less = wish(3, &[80], &["10.0.0.2", "10.0.0.3"], &|header| {
        header.vip.security_groups = [around.group.as_str().into()].into();
    });
    let drains = |one: &DesiredMember| u8::from(one.id.address.to_string() != "10.0.0.2");
    let members = less.members.as_slice().iter().map(|one| DesiredMember { weight: drains(one), ..one.clone() });
    let members = DesiredMembers::new(members.collect());
    controller.want("lost", DesiredLoadBalancer { members, ..less });
    assert_eq!(controller.expect_ready("lost", 3).await, id);
    let members = ["10.0.0.2=0", "10.0.0.3=1"];
    expect_shape(stage, &id, &shape(&[port(80, 40_000, "ROUND_ROBIN", &members, "null")])).await;
    expect_one_of_each(stage, lost, &owner, 0).await;
    stage.cloud.stop_steering(batch).await.unwrap();

    let lost = lose(stage, &REMOVING).await;
    controller.remove("lost", &owner).await;
    expect_lost(stage, lost).await;
    assert!(stage.balancers("").await.is_empty() && stage.marked_ports(&owner).await.is_empty());
}

/// What the cloud's quota does not allow waits until something goes.
pub async fn a_quota_is_reached_and_freed(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let quota = |most: i32| json!({"load_balancer": most});
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(1)).await.unwrap();
    controller.want("first", wanted(&owner(2), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("first", 1).await;
    controller.want("second", wanted(&owner(3), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let over = |report: &LoadBalancerReport| report.conditions.iter().any(|one| &*one.kind == "QuotaExceeded");
    controller.expect("second", "over quota", over).await;
    controller.remove("first", &owner(2)).await;
    controller.expect_ready("second", 1).await;
    controller.remove("second", &owner(3)).await;
    stage.cloud.set_quota(Service::Octavia, &stage.project, &quota(-1)).await.unwrap();
}

/// A writer that is killed in the middle leaves nothing that the next one does not find.
pub async fn killed_in_the_middle(stage: &mut Stage) {
    let controller = stage.controller(PROD1);
    for number in 0..4 {
        let wish = wanted(&owner(10 + number), 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]);
        controller.want(&format!("kill{number}"), from_outside(wish));
    }
    let wait = eventually("the first is made", Duration::from_secs(60), async || {
        if stage.balancers("").await.is_empty() { Err("none yet") } else { Ok(()) }
    });
    wait.await.unwrap();
    stage.kill_writer();
    stage.start_writer().await;
    for number in 0..4 {
        controller.expect_ready(&format!("kill{number}"), 1).await;
        // A request of the killed writer may still be under way when the next one looks: of twins the older one stays.
        let owner = owner(10 + number);
        let wait = eventually("there is one of each", Duration::from_secs(30), async || {
            let tag = format!("k8s-svc-uid:{owner}");
            match (stage.balancers(&tag).await.len(), stage.marked_ports(&owner).await.len()) {
                (1, 1) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        wait.await.unwrap();
    }
    for number in 0..4 {
        controller.remove(&format!("kill{number}"), &owner(10 + number)).await;
    }
    assert!(stage.balancers("").await.is_empty());
}

/// What was made for an owner that vanished without a word goes after a while.
pub async fn orphans_go(stage: &Stage) {
    let controller = stage.controller(PROD1);
    controller.want("orphan", wanted(&owner(20), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.want("kept", wanted(&owner(21), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    controller.expect_ready("orphan", 1).await;
    let kept = controller.expect_ready("kept", 1).await;
    controller.forget("orphan");
    let wait = eventually("the orphan is gone", Duration::from_secs(60), async || {
        let left = stage.balancers("").await;
        let ids: Vec<&str> = left.iter().filter_map(|one| one["id"].as_str()).collect();
        if ids == [kept.as_str()] { Ok(()) } else { Err(format!("{ids:?}")) }
    });
    wait.await.unwrap();
    controller.remove("kept", &owner(21)).await;
}
