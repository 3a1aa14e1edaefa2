//! Nothing is changed that must not be: in a dry run, in quarantine, and while the cloud is in trouble.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Service, Steer, User};
use gimbal_tests::{SOON, expect_log};

use super::admin::{configure_one, eventually_lb, lb};
use super::controller::{Controller, from_outside, wanted};
use super::shown::{self, expect_diff};
use super::stage::{PROD1, Stage};

/// Several looks for drift.
const A_WHILE: Duration = Duration::from_secs(4);
/// The time in which Keystone is away: several looks, and reads that are repeated.
const AWAY: Duration = Duration::from_secs(20);
/// The time that a call takes to the service which checks its token.
const ON_ITS_WAY: Duration = Duration::from_secs(5);

fn owner(number: u32) -> String {
    format!("ffffffff-0000-4000-8000-{number:012}")
}

/// Waits until the command line explains the load balancer with these words.
async fn expect_why(stage: &Stage, words: &[&str]) {
    let wait = eventually("the plan is shown", SOON, async || {
        let why = lb(stage, "why shop/web --cluster prod1");
        if why.code == Some(0) && words.iter().all(|words| why.out.contains(words)) {
            Ok(())
        } else {
            Err(format!("{why:?}"))
        }
    });
    wait.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_and_a_quarantine_show_their_plan_and_change_nothing() {
    let mut stage = Stage::start(&["--drift-interval", "1s", "--dry-run"]).await;
    let controller = stage.controller(PROD1);
    controller.want("web", wanted(&owner(1), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    expect_why(&stage, &["The writer runs with --dry-run", "waits for changes to be allowed: Create loadbalancers"])
        .await;
    expect_diff(&stage, &[("create", "loadbalancer", "shop/web")]).await;
    shown::what_is_only_planned(&stage);
    configure_one(&stage, "prod2", "mode: quarantine\n  clusterUid: 22222222-0000-4000-8000-000000000002");
    let shown = eventually_lb(&stage, "decommission --cluster prod2 --dry-run -o json").await;
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    lb(&stage, &format!("decommission --cluster prod2 --id {id}")).expect_refusal("runs with --dry-run");
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(stage.changes_since((0, 0)), Vec::<String>::new());
    lb(&stage, "why shop/none --cluster prod1").expect_refusal("there is no load balancer for shop/none");
    for words in ["why shop/web --cluster prod9", "list --cluster prod9"] {
        lb(&stage, words).expect_refusal("\"prod9\" is not configured");
    }

    stage.restart_with(&["--drift-interval", "1s"]).await;
    let id = controller.expect_ready("web", 1).await;
    // The other cluster has no controller in this test.
    let checked = lb(&stage, "check -o json");
    let results = checked.out.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        ["check", "of", "result"].map(|key| line[key].as_str().unwrap().to_owned()).join(" ")
    });
    let results: Vec<String> = results.collect();
    for expected in [
        "cluster.connected prod1 ok",
        "cluster.served prod1 ok",
        "cluster.orphans prod1 ok",
        "cluster.connected prod2 fail",
    ] {
        assert!(checked.code == Some(1) && results.iter().any(|one| one == expected), "{expected}: {checked:?}");
    }
    for id in ["client.identity", "server.chain", "server.certificate", "server.version", "server.clock"] {
        assert!(results.iter().any(|one| one.starts_with(id) && one.ends_with(" ok")), "{id}: {checked:?}");
    }
    configure_one(&stage, "prod1", "mode: quarantine");
    expect_why(&stage, &["The cluster is in quarantine"]).await;
    let marks = stage.marks();
    controller.want("web", wanted(&owner(1), 2, &stage.subnet, &[80], &["10.0.0.2"]));
    controller.want("more", wanted(&owner(2), 1, &stage.subnet, &[80], &["10.0.0.2"]));
    expect_why(&stage, &["waits for changes to be allowed: Update pools/"]).await;
    expect_diff(
        &stage,
        &[("update", "members", r#""diff":["+ 10.0.0.2:8080, weight 1","- 10.0.0.1:8080, weight 1"]"#)],
    )
    .await;
    controller.delete("web", &owner(1));
    expect_why(&stage, &["waits for changes to be allowed: Delete loadbalancers/"]).await;
    expect_diff(&stage, &[("delete", "loadbalancer", id.as_str())]).await;
    controller.want("web", wanted(&owner(1), 3, &stage.subnet, &[80], &["10.0.0.3"]));
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());
    stage.configure("");
    assert_eq!(controller.expect_ready("web", 3).await, id);
    controller.expect_ready("more", 1).await;
    shown::what_there_is_and_what_changes(&stage, &controller, &owner(2)).await;
    what_the_guard_holds_is_shown_and_released(&stage, &controller, &id).await;
}

async fn what_the_guard_holds_is_shown_and_released(stage: &Stage, controller: &Controller, id: &str) {
    // Twenty may go without a question.
    let many: Vec<String> = (10..40).map(|last| format!("10.0.0.{last}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    controller.want("web", wanted(&owner(1), 4, &stage.subnet, &[80], &many));
    controller.expect_ready("web", 4).await;
    controller.want("web", wanted(&owner(1), 5, &stage.subnet, &[80], &many[..1]));
    let hold = eventually("the removal is held", SOON, async || {
        let shown = lb(stage, "clusters -o json").json();
        let held = shown[0]["held"][0].clone();
        if held["members"] == 29 { Ok(held["id"].as_str().unwrap().to_owned()) } else { Err(format!("{shown:?}")) }
    });
    let hold = hold.await.unwrap();
    let shown = lb(stage, "clusters").out;
    assert!(shown.contains(&format!("gimbalctl lb approve {hold} --cluster prod1")), "{shown}");
    stage.expect_members(id, &[80], &many).await;
    lb(stage, "approve none --cluster prod1").expect_refusal("nothing is held under the id \"none\"");
    let released = lb(stage, &format!("approve {hold} --cluster prod1"));
    assert_eq!(released.out, "released: 0 load balancers and 29 members are removed now\n");
    stage.expect_members(id, &[80], &many[..1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keystone_nothing_goes_and_everything_is_caught_up() {
    let stage = Stage::start_on(Options::default(), &["--drift-interval", "1s", "--orphan-grace", "2s"]).await;
    let controller = stage.controller(PROD1);
    controller.want("web", wanted(&owner(3), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    let id = controller.expect_ready("web", 1).await;

    // Its tokens end with the password, which stays the same.
    let marks = stage.marks();
    stage.cloud.set_password(User::Discoverer, "discoverer-secret").await.unwrap();
    controller.want("web", wanted(&owner(3), 2, &stage.subnet, &[80], &["10.0.0.2"]));
    assert_eq!(controller.expect_ready("web", 2).await, id);
    stage.expect_members(&id, &[80], &["10.0.0.2"]).await;
    let puts = stage.changes_since(marks);
    assert!(puts.iter().all(|change| change.starts_with("PUT /v2/lbaas/pools/")), "{puts:?}");

    tokens_end_in_the_middle(&stage, &controller).await;

    let marks = stage.marks();
    stage.cloud.stop(Service::Keystone).await.unwrap();
    controller.want("web", wanted(&owner(3), 3, &stage.subnet, &[80], &["10.0.0.3"]));
    controller.want("more", wanted(&owner(4), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    expect_log(&stage.writer().process, &["OpenStack does not answer"]).await.unwrap();
    tokio::time::sleep(AWAY).await;
    let log = stage.writer().process.log();
    let lines = log.lines().filter(|line| line.contains("OpenStack does not answer")).count();
    assert!(lines < 15, "one line for each thing that fails, not for each call:\n{log}");
    controller.expect_open(true).await;
    stage.cloud.resume(Service::Keystone).await.unwrap();
    assert_eq!(controller.expect_ready("web", 3).await, id);
    controller.expect_ready("more", 1).await;
    stage.expect_members(&id, &[80], &["10.0.0.3"]).await;
    let removed: Vec<String> =
        stage.changes_since(marks).into_iter().filter(|change| change.starts_with("DELETE")).collect();
    assert_eq!(removed, Vec::<String>::new());
    expect_log(&stage.writer().process, &["OpenStack answers again", "after_s="]).await.unwrap();
}

/// A load balancer is made part by part, and twice on the way the token ends: while Octavia works on it, and while a call is on its
/// way. It goes on where it was.
async fn tokens_end_in_the_middle(stage: &Stage, controller: &Controller) {
    let owner = owner(5);
    let revoke = async || stage.cloud.set_password(User::Discoverer, "discoverer-secret").await.unwrap();
    let stepwise = stage.steer(&Steer::provider("^loadbalancer_create$").populated().unsupported()).await;
    let stall = stage.steer(&Steer::settling("create").named("^shop/half$").stall()).await;
    let late = stage.steer(&Steer::calls("POST", "/pools$").once().late(ON_ITS_WAY)).await;
    let marks = stage.marks();
    controller.want("half", from_outside(wanted(&owner, 1, &stage.subnet, &[80, 81], &["10.0.0.1"])));
    stage.expect_steered(stall, 1).await;
    revoke().await;
    stage.cloud.stop_steering(stall).await.unwrap();
    stage.expect_steered(late, 1).await;
    revoke().await;
    let id = controller.expect_ready("half", 1).await;
    stage.expect_members(&id, &[80, 81], &["10.0.0.1"]).await;
    let calls = stage.cloud.calls_since(Service::Octavia, marks.0).unwrap();
    assert!(calls.iter().any(|call| call.status == 401), "no token has ended: {calls:?}");
    let [balancer] = &stage.balancers(&format!("k8s-svc-uid:{owner}")).await[..] else { panic!("not one") };
    assert_eq!((balancer["id"].as_str(), stage.marked_ports(&owner).await.len()), (Some(&*id), 1));
    for parts in ["listeners", "pools"] {
        assert_eq!(stage.rows(parts, &format!("loadbalancer_id={id}")).await.len(), 2, "{parts}: no twin");
    }
    let changes = stage.changes_since(marks);
    let made = changes.iter().filter(|change| *change == "POST /v2/lbaas/loadbalancers").count();
    assert_eq!(made, 2, "the one that the provider has refused, and the one that is there: {changes:?}");
    controller.remove("half", &owner).await;
    stage.cloud.stop_steering(stepwise).await.unwrap();
}
