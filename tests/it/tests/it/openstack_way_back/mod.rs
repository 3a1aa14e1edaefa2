//! The way back, end to end: a real cluster, both programs, a real cloud whose load balancers answer.
//!
//! One stage for the steps of a test, since it takes seconds to start: they run one after the other.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Service, Steer, Steered};
use gimbal_tests::WayBack;

mod annotations;
mod bad_input;
mod conformance;
mod edits;
mod groups;
mod ingress;
mod ingress_again;
mod ingress_by_hand;
mod ingress_kills;
mod kills;
mod life;
mod people;
mod pods;
mod rebuilt;
mod steps;
mod traces;
mod without_l7;

const WITHIN: Duration = Duration::from_secs(90);
const WRITER: [&str; 1] = ["--drift-interval=5s"];
const CONTROLLER: [&str; 1] = ["--cluster-ip-services=false"];
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const BALANCERS: &str = "/apis/openstack.org/v1/namespaces/shop/kuryrloadbalancers";

#[tokio::test(flavor = "multi_thread")]
async fn people_controllers_and_bad_input() {
    let mut stage = WayBack::build().await.unwrap();
    let _controllers = stage.cluster.start_controllers().await.unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    steps![
        bad_input::each_has_a_condition_and_an_event(&stage),
        people::a_controller_that_has_slept_changes_nothing(&stage),
        pods::a_namespace_that_goes_leaves_nothing(&stage),
        pods::pods_that_are_ready_are_members(&stage),
        people::a_status_that_is_wiped_is_filled_in_again(&stage),
        people::a_status_that_is_wiped_while_the_load_balancer_goes(&mut stage),
        people::finalizers_that_are_removed_by_hand_are_set_again(&stage),
        people::one_that_is_deleted_beside_its_service_comes_back(&stage),
        people::slices_that_come_before_their_service(&stage),
        groups::two_services_share_a_load_balancer(&stage),
        people::a_service_that_is_made_again_at_once(&stage),
    ];
    assert_eq!(stage.left().await.unwrap(), [""; 0]);
}

async fn steer(stage: &WayBack, rule: &Steer) -> Steered {
    stage.cloud.steer(Service::Octavia, rule).await.unwrap()
}

async fn applied(stage: &WayBack, rule: Steered) {
    let result = eventually("the rule applies", WITHIN, async || match stage.cloud.steered(rule).await? {
        0 => anyhow::bail!("not yet"),
        _ => Ok(()),
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

fn kill_writer(stage: &mut WayBack) {
    stage.writer.take().unwrap().process.kill().unwrap();
}

fn kill_controller(stage: &mut WayBack) {
    stage.controller.take().unwrap().process.kill().unwrap();
}

/// Waits for the Event of this reason on a Service whose message has these words.
async fn expect_event(stage: &WayBack, name: &str, reason: &str, words: &str) {
    let what = format!("the Event {reason} says {words}");
    let result = eventually(&what, WITHIN, async || {
        let events = stage.events(name).await?;
        let says = |(found, message): &(String, String)| found == reason && message.contains(words);
        anyhow::ensure!(events.iter().any(says), "{name}: {events:?}");
        Ok(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Waits until the writer has looked at all load balancers again `times` times.
async fn expect_looks(stage: &WayBack, times: usize) {
    let marks = stage.marks().unwrap();
    let result = eventually("the writer looks again", WITHIN, async || {
        let calls = stage.calls_since(marks)?;
        let looks = calls.iter().filter(|call| call.method == "GET" && call.path.ends_with("/loadbalancers")).count();
        anyhow::ensure!(looks >= times, "{looks}");
        Ok(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

/// Fails if the writer has changed something in OpenStack since the marks.
fn expect_no_change(stage: &WayBack, marks: [usize; 2]) {
    let changes: Vec<String> = stage.changes_since(marks).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(changes, [""; 0]);
}
