//! What openstack-writer does not try is said to the owner.

use gimbal_kuryr_wire::KuryrReason;
use gimbal_testkit::eventually;
use gimbal_tests::SOON;
use serde_json::Value;

use super::stage::{BALANCERS, SERVICES, Stage, condition};

const REFUSED: &str = "kuryr.openstack.org/LoadBalancerRefused";

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_that_the_writer_does_not_try_says_why() {
    let stage = Stage::start().await;
    let words = "project \"8f0c\" is not allowed (projects.allow of the writer)";
    stage.openstack.refuse("team", "web", Some((KuryrReason::ProjectNotAllowed, words)));
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("web", "LoadBalancer").await;
    stage.make_service("other", "LoadBalancer").await;
    let because = |kind: &'static str, reason: &'static str| {
        move |object: Option<&Value>| object.is_some_and(|object| condition(object, kind)["reason"] == reason)
    };
    let refused = because("Ready", "ProjectNotAllowed");
    let balancer = stage.until("the condition says why", (BALANCERS, "web"), refused).await.unwrap();
    assert_eq!(condition(&balancer, "Ready")["status"], "False");
    assert_eq!(condition(&balancer, "Ready")["message"], words);
    let service =
        stage.until("so does the Service", (SERVICES, "web"), because(REFUSED, "ProjectNotAllowed")).await.unwrap();
    assert_eq!(condition(&service, REFUSED)["message"], words);
    stage.until_ready("other").await;
    eventually("an Event says so, once", SOON, async || {
        let events = stage.events("web").await;
        let found: Vec<_> = events.iter().filter(|[_, kind, _]| kind == "Warning").collect();
        match found[..] {
            [[reason, _, message]] if reason == "KuryrEnsureLBError" && message == words => Ok(()),
            _ => Err(format!("{events:?}")),
        }
    })
    .await
    .unwrap();
    // What is said again on a new stream, to a new process, is no news.
    let mark = stage.cluster.audit_mark().await.unwrap();
    let streams = stage.openstack.streams().0;
    controller.process.terminate(SOON).await.unwrap();
    let mut controller = stage.controller();
    controller.ready().await;
    eventually("there is a new stream with data", SOON, async || {
        let (now, open) = stage.openstack.streams();
        let held = stage.openstack.held();
        if now > streams && open > 0 && held.len() == 2 { Ok(()) } else { Err(format!("{now} {open} {held:?}")) }
    })
    .await
    .unwrap();
    // Other words are shown, so what was said before them has been read.
    stage.openstack.refuse("team", "web", Some((KuryrReason::OwnerConflict, "team/other has the same owner")));
    let conflict = because("Conflict", "OwnerConflict");
    stage.until("another reason is shown", (BALANCERS, "web"), conflict).await;
    stage.until("on the Service too", (SERVICES, "web"), because(REFUSED, "OwnerConflict")).await;
    let writes = stage.writes(mark).await;
    let of_statuses: Vec<_> = writes.iter().filter(|write| !write.contains(" events ")).collect();
    assert_eq!(of_statuses.len(), 2, "{writes:?}");
    // What is tried again shows nothing of it.
    stage.openstack.refuse("team", "web", None);
    let balancer = stage.until_ready("web").await;
    assert_eq!(condition(&balancer, "Conflict")["status"], "False");
    let passed = |object: Option<&Value>| object.is_some_and(|object| condition(object, REFUSED).is_null());
    stage.until("the Service says nothing", (SERVICES, "web"), passed).await;
    stage.expect_rights_to_suffice().await;
}
