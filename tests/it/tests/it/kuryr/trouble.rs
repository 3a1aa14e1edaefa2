//! Bad input and missing rights: they are reported, and everything else proceeds.

use gimbal_testkit::eventually;
use gimbal_tests::SOON;
use serde_json::{Value, json};

use super::stage::{BALANCERS, SERVICES, Stage, USERS, condition, finalizers, rights, service};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_annotation_gives_a_condition_and_an_event_and_the_rest_proceeds() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    let mut bad = service("web", "ClusterIP");
    bad["metadata"]["annotations"] = json!({
        "openstack.org/kuryr-timeout-client-data": "soon", "openstack.org/kuryr-timeout-member-data": "5000",
    });
    stage.post(SERVICES, &bad).await;
    stage.make_slice("web", &["10.1.0.4"]).await;
    let reported =
        |object: Option<&Value>| object.is_some_and(|object| condition(object, "Unsupported")["status"] == "True");
    let balancer = stage.until("the condition says so", (BALANCERS, "web"), reported).await.unwrap();
    let message = condition(&balancer, "Unsupported")["message"].as_str().unwrap();
    assert!(message.contains("openstack.org/kuryr-timeout-client-data") && message.contains("soon"), "{message}");
    let balancer = stage.until_ready("web").await;
    assert_eq!(balancer["spec"]["timeout_member_data"], 5000);
    eventually("an Event says so, once", SOON, async || {
        let events = stage.events("web").await;
        let reported = events.iter().filter(|[_, kind, message]| {
            kind == "Warning" && message.contains("openstack.org/kuryr-timeout-client-data")
        });
        if reported.count() == 1 { Ok(()) } else { Err(format!("{events:?}")) }
    })
    .await
    .unwrap();
    stage.expect_rights_to_suffice().await;
}

/// What cannot get its finalizer is not streamed, whatever else there is.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_finalizers_nothing_is_streamed() {
    let stage = Stage::start().await;
    let user = stage.cluster.user(USERS[0]).unwrap();
    stage.cluster.bind(&user, &rights().without("services")).await.unwrap();
    let roles = json!({
        "metadata": {"name": "read-services"},
        "rules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]}],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    stage.post(&format!("{rbac}/clusterroles"), &roles).await;
    let binding = json!({
        "metadata": {"name": "read-services"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "read-services"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USERS[0]}],
    });
    stage.post(&format!("{rbac}/clusterrolebindings"), &binding).await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("web", "ClusterIP").await;
    eventually("an Event says why nothing is made", SOON, async || {
        let events = stage.events("web").await;
        let reported = events.iter().any(|[reason, ..]| reason == "KuryrAddServiceFinalizerError");
        if reported { Ok(()) } else { Err(format!("{events:?}\n{}", controller.process.log_tail())) }
    })
    .await
    .unwrap();
    assert_eq!(stage.openstack.held(), [""; 0]);
    assert_eq!(finalizers(&stage.get(SERVICES, "web").await.unwrap()), [""; 0]);
    stage.cluster.bind(&user, &rights()).await.unwrap();
    stage.until_ready("web").await;
}

/// A schema that keeps unknown fields takes them as deeply nested as one likes.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_a_thousand_levels_stops_no_other() {
    let stage = Stage::start().await;
    let post_deep = async |name: &str| {
        let topology = (0..1_000).fold(json!({}), |inside, _| json!({"a": inside}));
        let slices = json!([{"endpoints": [{"addresses": ["10.1.0.9"], "topology": topology}], "ports": []}]);
        let object = json!({
            "apiVersion": "openstack.org/v1", "kind": "KuryrLoadBalancer", "metadata": {"name": name},
            "spec": {"ip": "10.96.3.4", "ports": [], "endpointSlices": slices},
        });
        // The answer has all of its levels, which this test cannot read either.
        let path = format!("{BALANCERS}/{name}");
        let answer = stage.cluster.admin().post(BALANCERS, &object).await.map(drop);
        let stored = stage.cluster.admin().text(&path).await.unwrap_or_else(|error| panic!("{answer:?}: {error:?}"));
        assert!(stored.matches("{\"a\":").count() >= 1_000, "the API server keeps all of them");
    };
    post_deep("listed").await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("web", "LoadBalancer").await;
    stage.until_ready("web").await;
    post_deep("watched").await;
    stage.make_service("other", "LoadBalancer").await;
    stage.until_ready("other").await;
}
