//! From a Service to its load balancer and back, and what people do to it meanwhile.

use gimbal_kuryr_model::DesiredEntry;
use gimbal_testkit::eventually;
use gimbal_tests::SOON;
use serde_json::{Value, json};

use super::stage::{BALANCER_FINALIZER, BALANCERS, SERVICE_FINALIZER, SERVICES, Stage, finalizers, service};

/// What two KuryrLoadBalancers have in common that were made of the same Service, except its name and address.
fn spec(balancer: &Value) -> Value {
    let mut spec = balancer["spec"].clone();
    for field in ["ip", "service_uid"] {
        spec.as_object_mut().unwrap().remove(field).unwrap();
    }
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn either_order_of_service_and_slices_gives_the_same() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("first", "LoadBalancer").await;
    stage.until_ready("first").await;
    stage.make_slice("first", &["10.1.0.4", "10.1.0.5"]).await;
    stage.make_slice("second", &["10.1.0.4", "10.1.0.5"]).await;
    stage.make_service("second", "LoadBalancer").await;
    let with_members = |object: Option<&Value>| object.is_some_and(|object| object["status"]["memberCount"] == 2);
    let first = stage.until("its members are reported", (BALANCERS, "first"), with_members).await.unwrap();
    let second = stage.until("its members are reported", (BALANCERS, "second"), with_members).await.unwrap();
    assert_eq!(spec(&first), spec(&second));
    for name in ["first", "second"] {
        let service = stage.get(SERVICES, name).await.unwrap();
        let balancer = stage.get(BALANCERS, name).await.unwrap();
        assert_eq!(finalizers(&service), [SERVICE_FINALIZER]);
        assert_eq!(finalizers(&balancer), [BALANCER_FINALIZER]);
        let owner = &balancer["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Service"), &service["metadata"]["uid"]));
        assert_eq!(balancer["spec"]["ip"], service["spec"]["clusterIP"]);
        assert_eq!(stage.openstack.members("team", name), ["10.1.0.4:8080", "10.1.0.5:8080"]);
        let shown = |object: Option<&Value>| {
            object.is_some_and(|object| !object["status"]["loadBalancer"]["ingress"][0]["ip"].is_null())
        };
        let shown = stage.until("its address is shown", (SERVICES, name), shown).await.unwrap();
        assert_eq!(shown["status"]["loadBalancer"]["ingress"][0]["ip"], "172.24.4.7");
    }
    eventually("the reports are acknowledged", SOON, async || {
        let awaits = ["first", "second"].map(|name| stage.openstack.awaits("team", name));
        if awaits == [false, false] { Ok(()) } else { Err(format!("{awaits:?}")) }
    })
    .await
    .unwrap();
    // One that never had an endpoint serves nothing, and is there.
    stage.make_service("empty", "ClusterIP").await;
    stage.until_ready("empty").await;
    assert_eq!(stage.openstack.members("team", "empty"), [""; 0]);
    stage.expect_rights_to_suffice().await;
}

/// kube-proxy would lead what is sent to the address past the load balancer, and the members would miss the PROXY header.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_behind_which_members_expect_the_proxy_protocol_says_so() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("plain", "LoadBalancer").await;
    for (name, version) in [("first", "v1"), ("second", "v2")] {
        let mut service = service(name, "LoadBalancer");
        service["metadata"]["annotations"] = json!({"loadbalancer.openstack.org/proxy-protocol": version});
        stage.post(SERVICES, &service).await;
    }
    for (name, mode) in [("plain", "VIP"), ("first", "Proxy"), ("second", "Proxy")] {
        let expected = json!([{"ip": "172.24.4.7", "ipMode": mode, "ports": [{"port": 80, "protocol": "TCP"}]}]);
        let shown =
            |object: Option<&Value>| object.is_some_and(|it| it["status"]["loadBalancer"]["ingress"] == expected);
        stage.until(&format!("{name} shows its mode"), (SERVICES, name), shown).await;
    }
    // Once the members expect no header, the address may be taken for their own.
    let plain = json!({"metadata": {"annotations": {"loadbalancer.openstack.org/proxy-protocol": null}}});
    stage.cluster.admin().patch(&format!("{SERVICES}/first"), &plain).await.unwrap();
    let shown =
        |object: Option<&Value>| object.is_some_and(|it| it["status"]["loadBalancer"]["ingress"][0]["ipMode"] == "VIP");
    stage.until("it shows the other mode", (SERVICES, "first"), shown).await;
    stage.expect_rights_to_suffice().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_report_that_nothing_is_left_removes_finalizers() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    let uid = stage.make_service("web", "LoadBalancer").await["metadata"]["uid"].clone();
    stage.until_ready("web").await;
    stage.openstack.make_at_once(false);
    stage.delete(SERVICES, "web").await;
    stage.openstack.until_held(&["team/web deleting"]).await;
    // A restart in the middle: it is still going, and still there.
    let (before, _) = stage.openstack.streams();
    controller.process.terminate(SOON).await.unwrap();
    controller = stage.controller();
    controller.ready().await;
    // The first stream asks for the facts, and the second one has data.
    eventually("a stream with data is open", SOON, async || match stage.openstack.streams() {
        (streams, 1) if streams >= before + 2 => Ok(()),
        streams => Err(format!("{streams:?}")),
    })
    .await
    .unwrap();
    stage.openstack.until_held(&["team/web deleting"]).await;
    let service = stage.get(SERVICES, "web").await.unwrap();
    assert_eq!(finalizers(&service), [SERVICE_FINALIZER]);
    assert_eq!(finalizers(&stage.get(BALANCERS, "web").await.unwrap()), [BALANCER_FINALIZER]);
    stage.openstack.make_at_once(true);
    stage.until_gone(SERVICES, "web").await;
    stage.until_gone(BALANCERS, "web").await;
    stage.openstack.until_held(&[]).await;
    let streamed = stage.openstack.streamed("team", "web");
    let deleting = streamed.iter().flatten().find(|entry| entry.is_deleting()).unwrap();
    assert_eq!(&**deleting.owner(), uid.as_str().unwrap());

    // The next one under the name, at once, is another one.
    stage.make_service("web", "LoadBalancer").await;
    let balancer = stage.until_ready("web").await;
    assert_ne!(balancer["spec"]["service_uid"], uid);
    stage.expect_rights_to_suffice().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_made_again_at_once_gets_a_load_balancer_of_its_own() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    let mut uids = Vec::new();
    for _ in 0..3 {
        uids.push(stage.make_service("web", "ClusterIP").await["metadata"]["uid"].as_str().unwrap().to_owned());
        let uid = uids.last().unwrap().clone();
        let balanced = |object: Option<&Value>| object.is_some_and(|object| object["spec"]["service_uid"] == *uid);
        stage.until("it has a load balancer", (BALANCERS, "web"), balanced).await;
        stage.until_ready("web").await;
        stage.delete(SERVICES, "web").await;
        stage.until_gone(SERVICES, "web").await;
    }
    stage.until_gone(BALANCERS, "web").await;
    stage.openstack.until_held(&[]).await;
    let owners: Vec<String> =
        stage.openstack.streamed("team", "web").iter().flatten().map(|entry| entry.owner().to_string()).collect();
    let mut distinct = owners.clone();
    distinct.dedup();
    assert_eq!(distinct, uids, "{owners:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_emptied_is_looked_for_and_filled_in_again() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_slice("web", &["10.1.0.4"]).await;
    stage.make_service("web", "ClusterIP").await;
    let whole = |object: Option<&Value>| {
        object.is_some_and(|object| object["status"]["members"].as_array().is_some_and(|members| members.len() == 1))
    };
    let before = stage.until("its member is reported", (BALANCERS, "web"), whole).await.unwrap();
    for change in [json!({"status": {"members": null}}), json!({"status": null})] {
        let seen = stage.openstack.streamed("team", "web").len();
        stage.cluster.admin().patch(&format!("{BALANCERS}/web/status"), &change).await.unwrap();
        let after = stage.until("it is filled in again", (BALANCERS, "web"), whole).await.unwrap();
        for field in ["loadbalancer", "listeners", "pools", "members"] {
            assert_eq!(after["status"][field], before["status"][field], "{field} after {change}");
        }
        let streamed = stage.openstack.streamed("team", "web");
        let unknown =
            |entry: &DesiredEntry| matches!(entry, DesiredEntry::LoadBalancer(wanted) if !wanted.header.known);
        assert!(streamed[seen..].iter().flatten().any(|entry| unknown(entry)), "{change}: {:?}", &streamed[seen..]);
        // Filled in, it is known again.
        eventually("it is known", SOON, async || match stage.openstack.entry("team", "web").as_deref() {
            Some(entry) if !unknown(entry) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_that_is_deleted_beside_its_service_is_made_again_and_nothing_is_streamed_as_going() {
    let stage = Stage::start().await;
    let mut controller = stage.controller();
    controller.ready().await;
    stage.make_service("web", "ClusterIP").await;
    let before = stage.until_ready("web").await;
    stage.delete(BALANCERS, "web").await;
    let again = |object: Option<&Value>| {
        object.is_some_and(|object| {
            object["metadata"]["uid"] != before["metadata"]["uid"] && object["metadata"]["deletionTimestamp"].is_null()
        })
    };
    stage.until("it is made again", (BALANCERS, "web"), again).await;
    let after = stage.until_ready("web").await;
    assert_eq!(after["status"]["loadbalancer"], before["status"]["loadbalancer"]);
    let streamed = stage.openstack.streamed("team", "web");
    assert!(streamed.iter().all(|entry| entry.as_deref().is_some_and(|entry| !entry.is_deleting())), "{streamed:?}");
}
