//! Several Services share one load balancer.

use gimbal_kuryr_model::{DesiredLoadBalancer, Phase, SharedGroup};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Service;
use gimbal_tests::SOON;
use serde_json::Value;

use super::controller::{Controller, from_outside, wanted, with};
use super::stage::{PROD1, Stage, Surroundings};

fn owner(number: u32) -> String {
    format!("aaaaaaaa-5555-4000-8000-{number:012}")
}

/// What the Service of this number wants, which was created that many seconds after the first one.
fn shares(stage: &Stage, around: &Surroundings, number: u32, ports: &[u16], group: &str) -> DesiredLoadBalancer {
    let address = format!("10.0.{number}.1");
    let wish = from_outside(wanted(&owner(number), 1, &stage.subnet, ports, &[&address]));
    with(wish, |header| {
        around.ask(header);
        let created = Some(format!("2026-01-01T00:00:{number:02}Z").into());
        header.shared_group = Some(Box::new(SharedGroup { name: group.into(), created }));
    })
}

async fn served(stage: &Stage, balancer: &str, expected: &[(u64, u32)]) {
    let expected: Vec<(u64, Vec<String>)> =
        expected.iter().map(|(port, number)| (*port, vec![format!("10.0.{number}.1")])).collect();
    let what = format!("{balancer} serves {expected:?}");
    let wait = eventually(&what, SOON, async || {
        let found = stage.members(balancer).await;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
}

async fn owners(stage: &Stage, balancer: &str) -> Vec<String> {
    let row = stage.cloud.octavia().get(&format!("/loadbalancers/{balancer}")).await.unwrap();
    let tags = row["loadbalancer"]["tags"].as_array().unwrap().clone();
    let mut found: Vec<String> =
        tags.iter().filter_map(|tag| tag.as_str()?.strip_prefix("k8s-svc-uid:").map(str::to_owned)).collect();
    found.sort();
    found
}

async fn floating_ips(stage: &Stage) -> Vec<Value> {
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    neutron.get("/floatingips").await.unwrap()["floatingips"].as_array().unwrap().clone()
}

fn ports(controller: &Controller, name: &str) -> Vec<u16> {
    controller.report(name).unwrap().objects.listeners.iter().map(|one| one.port).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_a_group_have_one_load_balancer() {
    let (mut stage, around) = Stage::wide(&["--drift-interval", "1s", "--orphan-grace", "3s"]).await;
    let controller = stage.controller(PROD1);
    let [older, younger] =
        [(1, &[80][..]), (2, &[80, 443])].map(|(number, ports)| shares(&stage, &around, number, ports, "shop/web"));

    controller.want("older", older);
    let id = controller.expect_ready("older", 1).await;
    controller.want("younger", younger);
    assert_eq!(controller.expect_ready("younger", 1).await, id);
    served(&stage, &id, &[(80, 1), (443, 2)]).await;
    assert_eq!(owners(&stage, &id).await, [owner(1), owner(2)]);
    assert_eq!((ports(&controller, "older"), ports(&controller, "younger")), (vec![80], vec![443]));
    let told = controller.report("younger").unwrap();
    assert_eq!((&*told.refused_ports[0].reason, told.refused_ports[0].listener.port), ("PortTaken", 80));
    assert_eq!(told.objects.floating_ip, controller.report("older").unwrap().objects.floating_ip);
    assert_eq!((stage.balancers("").await.len(), floating_ips(&stage).await.len()), (1, 1));

    // No other owner may take a port of it.
    controller.want("stranger", shares(&stage, &around, 3, &[9000], "other/web"));
    controller.expect_reject("stranger", KuryrReason::SharingNotAllowed).await;

    // A writer that has just begun changes nothing.
    let marks = stage.marks();
    stage.kill_writer();
    stage.start_writer().await;
    stage.expect_looks(3).await;
    controller.expect_ready("younger", 1).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());

    // The port is the younger one's when the older one goes, and the address stays.
    let address = floating_ips(&stage).await[0]["floating_ip_address"].clone();
    controller.delete("older", &owner(1));
    controller.expect_gone("older").await;
    controller
        .expect("younger", "served whole", |report| {
            report.phase == Phase::Ready && report.refused_ports.is_empty() && report.objects.listeners.len() == 2
        })
        .await;
    served(&stage, &id, &[(80, 2), (443, 2)]).await;
    assert_eq!(owners(&stage, &id).await, [owner(2)]);
    assert_eq!(floating_ips(&stage).await[0]["floating_ip_address"], address);

    // The load balancer goes with the last one.
    controller.remove("younger", &owner(2)).await;
    assert_eq!((stage.balancers("").await.len(), floating_ips(&stage).await.len()), (0, 0));
    assert!(stage.marked_ports("gimbal-group").await.is_empty());
}
