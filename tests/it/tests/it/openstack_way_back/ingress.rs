//! Ingresses of a real cluster: a router of the real Octavia leads real requests by host and path.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Reply, Steer};
use gimbal_tests::{INGRESSES, ROUTERS, SECRETS, WayBack, ingress_path, metric};
use serde_json::{Value, json};

use super::ingress_again::a_route_comes_after_a_failure_without_an_edit;
use super::rebuilt::many_routes_at_once;
use super::{WRITER, expect_no_change, kill_controller, kill_writer, steer};

/// A route takes three or four changes of a load balancer, one after the other.
const WITHIN: Duration = Duration::from_secs(480);
const CONTROLLER: [&str; 2] = ["--cluster-ip-services=false", "--ingress"];
const HTTP: (&str, u16) = ("http", 8080);
/// Services, and the address of the one Pod of each.
const SERVICES: [(&str, &str); 4] = [("s1", "10.1.0.1"), ("s2", "10.1.0.2"), ("s3", "10.1.0.3"), ("s4", "10.1.0.4")];

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_led_by_host_and_path() {
    let options = Options { data_plane: true, key_manager: true, ..Options::with_checked_tokens() };
    let mut stage = WayBack::build_for_ingresses_on(options).await.unwrap();
    for (name, address) in SERVICES {
        stage.plane().unwrap().member(address, HTTP.1, name).await.unwrap();
    }
    stage.make_ingress_class().await.unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    let router = the_router_is_there_before_the_first_ingress(&stage).await;
    steps![
        an_ingress_that_comes_before_its_service(&stage, &router),
        a_service_that_comes_before_its_ingresses(&stage, &router),
        a_route_comes_after_a_failure_without_an_edit(&stage, &router),
        hosts_and_paths_have_their_order(&stage, &router),
        what_is_wrong_is_told_and_the_rest_is_served(&stage, &router),
        a_certificate_is_served_renewed_and_removed(&stage, &router),
        a_router_in_error_is_reported_and_repaired(&stage, &router),
    ];
    // It takes minutes.
    if std::env::var_os("GIMBAL_PROVE").is_some() {
        steps![many_routes_at_once(&stage, &router)];
    }
    nothing_changes_in_a_restart(&mut stage).await;
    killed_while_routes_change(&mut stage, &router).await;
    without_leave_routers_go(&stage).await;
}

/// Seed: the L7 router is made if it does not exist, with a floating IP.
async fn the_router_is_there_before_the_first_ingress(stage: &WayBack) -> String {
    let address = until(stage, "the shared router is ready", async || {
        let routers = stage.cluster.admin().items(ROUTERS).await?;
        let ready = routers.iter().find(|one| is_true(one, "Ready"));
        let address = ready.and_then(|one| one["status"]["service_pub_ip_info"]["ip_addr"].as_str());
        address.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{routers:?}"))
    })
    .await;
    until_routed(stage, &address, "www.example.com", "/", "503").await;
    address
}

/// The seed's first use case.
async fn an_ingress_that_comes_before_its_service(stage: &WayBack, router: &str) {
    make(stage, "test", &json!([rule("www.example.com", &[("/", "Prefix", "s1")])])).await;
    until(stage, "the pool is there", async || has_pool(stage, "shop_s1").await).await;
    until_routed(stage, router, "www.example.com", "/", "503").await;
    make_service(stage, "s1").await;
    until_routed(stage, router, "www.example.com", "/", "s1").await;
    until_routed(stage, router, "WWW.example.com:80", "/a", "s1/a").await;
    until_routed(stage, router, "other.example.com", "/", "503").await;
    // The Service has a load balancer of its own as well.
    let own = stage.until_address("s1").await.unwrap();
    stage.until_answers(&own, 80, &["s1"]).await.unwrap();
    until(stage, "the Ingress has the router's address", async || {
        let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/test")).await?;
        anyhow::ensure!(ingress["status"]["loadBalancer"]["ingress"][0]["ip"] == router, "{ingress}");
        Ok(())
    })
    .await;
}

/// The seed's second use case: the pool goes with the last policy that leads to it, and the Service's own load balancer stays.
async fn a_service_that_comes_before_its_ingresses(stage: &WayBack, router: &str) {
    make_service(stage, "s2").await;
    let own = stage.until_address("s2").await.unwrap();
    assert!(has_pool(stage, "shop_s2").await.is_err(), "no Ingress leads to it");
    make(stage, "first", &json!([rule("first.example.com", &[("/", "Prefix", "s2")])])).await;
    make(stage, "second", &json!([rule("second.example.com", &[("/", "Prefix", "s2")])])).await;
    until_routed(stage, router, "first.example.com", "/", "s2").await;
    until_routed(stage, router, "second.example.com", "/", "s2").await;
    remove(stage, "first").await;
    until_routed(stage, router, "first.example.com", "/", "503").await;
    assert_eq!(answer(stage, router, "second.example.com", "/").await.unwrap(), "s2");
    assert!(has_pool(stage, "shop_s2").await.is_ok(), "another policy leads to it");
    remove(stage, "second").await;
    until(stage, "the pool is gone", async || match has_pool(stage, "shop_s2").await {
        Ok(()) => anyhow::bail!("it is there"),
        Err(_) => Ok(()),
    })
    .await;
    until_routed(stage, router, "second.example.com", "/", "503").await;
    stage.until_answers(&own, 80, &["s2"]).await.unwrap();
}

async fn hosts_and_paths_have_their_order(stage: &WayBack, router: &str) {
    make_service(stage, "s3").await;
    make_service(stage, "s4").await;
    let rules = json!([
        rule("*.shop.example", &[("/", "Prefix", "s4")]),
        rule("www.shop.example", &[("/a", "Prefix", "s1"), ("/cart", "Prefix", "s2"), ("/cart", "Exact", "s3")],),
    ]);
    make(stage, "order", &rules).await;
    for (host, path, expected) in [
        ("www.shop.example", "/a/b", "s1/a/b"),
        ("www.shop.example", "/cart", "s3/cart"),
        ("www.shop.example", "/cart/", "s2/cart/"),
        ("www.shop.example", "/cart/7", "s2/cart/7"),
        ("any.shop.example", "/cart", "s4/cart"),
        ("a.b.shop.example", "/", "503"),
        ("shop.example", "/", "503"),
        // A host with routes of its own never falls through to a wildcard's.
        ("www.shop.example", "/carts", "503"),
    ] {
        until_routed(stage, router, host, path, expected).await;
    }
    remove(stage, "order").await;
    until_routed(stage, router, "www.shop.example", "/", "503").await;
}

async fn what_is_wrong_is_told_and_the_rest_is_served(stage: &WayBack, router: &str) {
    let resource = json!({"resource": {"apiGroup": "a.example", "kind": "Bucket", "name": "b"}});
    let rules = json!([
        {"host": "bad.example", "http": {"paths": [
            {"path": "/resource", "pathType": "Prefix", "backend": resource},
            {"path": "/named", "pathType": "Prefix", "backend": {"service": {"name": "absent", "port": {"name": "http"}}}},
            {"path": "/good", "pathType": "Prefix", "backend": {"service": {"name": "s1", "port": {"name": "http"}}}},
            // Octavia would write `&` into haproxy's configuration as HTML does.
            ingress_path("/a&b", "Prefix", "s1"),
        ]}},
        {"host": "empty.example"},
        rule("www.example.com", &[("/", "Prefix", "s2")]),
    ]);
    make(stage, "bad", &rules).await;
    let tls = json!({"spec": {"tls": [{"hosts": ["bad.example"], "secretName": "nowhere"}]}});
    stage.cluster.admin().patch(&format!("{INGRESSES}/bad"), &tls).await.unwrap();
    until_routed(stage, router, "bad.example", "/good", "s1/good").await;
    assert_eq!(answer(stage, router, "bad.example", "/a&b").await.unwrap(), "503", "no policy is made of it");
    assert_eq!(answer(stage, router, "www.example.com", "/").await.unwrap(), "s1", "the older Ingress has the route");
    for (reason, words) in [
        ("KuryrBackendMissing", "/resource"),
        ("KuryrBackendMissing", "absent"),
        ("KuryrSkipRoute", "empty.example"),
        ("KuryrSkipRoute", "/a&b"),
        ("KuryrTlsNotServed", "nowhere"),
        ("KuryrRouteConflict", "shop/test"),
    ] {
        until(stage, &format!("the Event {reason} says {words}"), async || {
            let events = stage.events("bad").await?;
            let is_told = events.iter().any(|(of, message)| of == reason && message.contains(words));
            anyhow::ensure!(is_told, "{events:?}");
            Ok(())
        })
        .await;
    }
    remove(stage, "bad").await;
    until_routed(stage, router, "bad.example", "/good", "503").await;
}

async fn is_up(stage: &WayBack) -> anyhow::Result<f64> {
    let port = stage.controller.as_ref().unwrap().admin_port;
    metric(port, "kuryr_l7_router_up", "").await
}

/// Waits until everything is as it should be, and every status says so.
async fn until_well(stage: &WayBack, what: &str) {
    until(stage, what, async || {
        let (up, routers) = (is_up(stage).await?, stage.cluster.admin().items(ROUTERS).await?);
        let list = stage.cloud.octavia().get("/loadbalancers").await?;
        let all = list["loadbalancers"].as_array().into_iter().flatten();
        let are_active = all.into_iter().all(|one| one["provisioning_status"] == "ACTIVE");
        let is_current = |one: &Value| one["status"]["observedGeneration"] == one["metadata"]["generation"];
        let is_well = |one: &Value| is_current(one) && is_true(one, "Ready") && !is_true(one, "Degraded");
        anyhow::ensure!(up > 0.5 && are_active && routers.iter().all(is_well), "{up} {list} {routers:?}");
        Ok(())
    })
    .await;
}

/// It is reported while Octavia takes no changes, and repaired as soon as it does.
async fn a_router_in_error_is_reported_and_repaired(stage: &WayBack, router: &str) {
    let is_up = async || is_up(stage).await;
    let said = async || {
        let events = stage.events("test").await?;
        let is_it = |(reason, message): &&(String, String)| reason == "KuryrNotAsAsked" && message.contains("in ERROR");
        Ok::<_, anyhow::Error>(events.iter().filter(is_it).count())
    };
    until_well(stage, "nothing is changed any more").await;
    assert_eq!(said().await.unwrap(), 0);
    let busy = steer(stage, &Steer::calls("^(POST|PUT|DELETE)$", "/lbaas/").too_many(1)).await;
    let broken = "update octavia.load_balancer set provisioning_status = 'ERROR' where name like '%/kuryr-l7-router'";
    stage.cloud.sql(broken).await.unwrap();
    until(stage, "the router is down, and its Ingress says so", async || {
        let (up, said) = (is_up().await?, said().await?);
        anyhow::ensure!(up < 0.5 && said == 1, "{up} {said}");
        Ok(())
    })
    .await;
    let routers = stage.cluster.admin().items(ROUTERS).await.unwrap();
    assert!(routers.iter().all(|one| is_true(one, "Degraded") && !is_true(one, "Ready")), "{routers:?}");
    stage.cloud.stop_steering(busy).await.unwrap();
    until_well(stage, "it is repaired").await;
    until_routed(stage, router, "www.example.com", "/", "s1").await;
    assert_eq!(said().await.unwrap(), 1, "once");
}

async fn nothing_changes_in_a_restart(stage: &mut WayBack) {
    // A status that was not final is written by whoever starts next.
    until_well(stage, "the last change is in the status").await;
    let (marks, audit) = (stage.marks().unwrap(), stage.cluster.audit_mark().await.unwrap());
    kill_controller(stage);
    kill_writer(stage);
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    // What comes last shows that everything before it has been looked at.
    stage.make_service("last", &[("http", 80, HTTP.1)]).await.unwrap();
    stage.set_members("last", &["10.1.0.1"], &[HTTP]).await.unwrap();
    stage.until_address("last").await.unwrap();
    let of_routers = |path: &str| path.contains("l7") || path.contains("ingress");
    let writes = stage.writes_since(audit).await.unwrap();
    assert!(!writes.iter().any(|write| of_routers(&write.resource)), "{writes:?}");
    let changes = stage.changes_since(marks).unwrap();
    // The load balancer of the Service is one request, and its members, its port and its floating IP come by others.
    let of_last = |path: &str| {
        ["/loadbalancers", "/members", "/floatingips"].iter().any(|end| path.ends_with(end)) || path.contains("/ports")
    };
    let of_others: Vec<_> = changes.iter().filter(|call| call.method == "DELETE" || !of_last(&call.path)).collect();
    assert!(of_others.is_empty(), "{of_others:?}");
    let uid = stage.delete_service("last").await.unwrap();
    stage.until_gone("last", &uid).await.unwrap();
    let marks = stage.marks().unwrap();
    super::expect_looks(stage, 2).await;
    expect_no_change(stage, marks);
}

async fn killed_while_routes_change(stage: &mut WayBack, router: &str) {
    make(stage, "killed", &json!([rule("killed.example", &[("/", "Prefix", "s3")])])).await;
    for _ in 0..3 {
        kill_writer(stage);
        stage.start_writer(&WRITER).await.unwrap();
        kill_controller(stage);
        stage.start_controller(&CONTROLLER).await.unwrap();
    }
    until_routed(stage, router, "killed.example", "/", "s3").await;
    let name = format!("{INGRESSES}/killed");
    stage.cluster.admin().delete(&name).await.unwrap();
    for _ in 0..3 {
        kill_controller(stage);
        stage.start_controller(&CONTROLLER).await.unwrap();
        kill_writer(stage);
        stage.start_writer(&WRITER).await.unwrap();
    }
    until_gone(stage, "killed").await;
    until_routed(stage, router, "killed.example", "/", "503").await;
    assert_eq!(answer(stage, router, "www.example.com", "/").await.unwrap(), "s1");
    let names: Vec<String> = policies(stage).await.unwrap().iter().map(|one| one["name"].to_string()).collect();
    assert!(names.iter().all(|name| name.contains("shop/test")), "no other policy is left: {names:?}");
}

/// `enable_ingress` taken back is a person's word: routers go, and no Ingress is kept by its finalizer.
async fn without_leave_routers_go(stage: &WayBack) {
    stage.configure("").unwrap();
    until(stage, "no router is left", async || {
        let routers = stage.cluster.admin().items(ROUTERS).await?;
        anyhow::ensure!(routers.is_empty(), "{routers:?}");
        Ok(())
    })
    .await;
    stage.cluster.admin().delete(&format!("{INGRESSES}/test")).await.unwrap();
    until_gone(stage, "test").await;
    for (service, _) in SERVICES {
        let uid = stage.delete_service(service).await.unwrap();
        stage.until_gone(service, &uid).await.unwrap();
    }
    assert_eq!(stage.left().await.unwrap(), [""; 0]);
}

async fn make_service(stage: &WayBack, name: &str) {
    let address = SERVICES.iter().find(|(service, _)| *service == name).unwrap().1;
    stage.make_service(name, &[("http", 80, HTTP.1)]).await.unwrap();
    stage.set_members(name, &[address], &[HTTP]).await.unwrap();
}

/// Paths with their type and Service.
pub(super) fn rule(host: &str, paths: &[(&str, &str, &str)]) -> Value {
    let paths: Vec<Value> = paths.iter().map(|(path, kind, service)| ingress_path(path, kind, service)).collect();
    json!({"host": host, "http": {"paths": paths}})
}

const SECURE: &str = "secure.example.com";

async fn until_secure(stage: &WayBack, router: &str, certificate: &str) {
    until(stage, "HTTPS is served with the certificate of the Secret", async || {
        let reply = stage.plane()?.request_tls(router, 443, SECURE, "/").await?;
        let served = reply.certificate.as_deref() == Some(certificate);
        anyhow::ensure!(reply.status == 200 && reply.body == "s1" && served, "{reply:?}");
        Ok(())
    })
    .await;
}

/// From the Secret in the cluster to the client of the load balancer, and back to where nothing of it is left.
async fn a_certificate_is_served_renewed_and_removed(stage: &WayBack, router: &str) {
    let first = stage.make_certificate("secure", &[SECURE]).await.unwrap();
    let ingress = json!({
        "metadata": {"name": "secure", "annotations": {"kuryr.openstack.org/redirect-http": "true"}},
        "spec": {
            "ingressClassName": "kuryr",
            "tls": [{"hosts": [SECURE], "secretName": "secure"}],
            "rules": [rule(SECURE, &[("/", "Prefix", "s1")])],
        },
    });
    stage.cluster.admin().post(INGRESSES, &ingress).await.unwrap();
    until_secure(stage, router, &first).await;
    until(stage, "HTTP leads to HTTPS", async || {
        let reply = stage.plane()?.request(router, 80, Some(SECURE), "/a").await?;
        anyhow::ensure!(reply.location.as_deref() == Some("https://secure.example.com/a"), "{reply:?}");
        Ok(())
    })
    .await;
    assert_eq!(answer(stage, router, "www.example.com", "/").await.unwrap(), "s1", "the others are as they were");

    let second = stage.renew_certificate("secure", &[SECURE]).await.unwrap();
    until_secure(stage, router, &second).await;
    let stored = async || {
        let rows = stage.cloud.sql("select name from barbican.secrets where deleted = 0").await?;
        Ok::<_, anyhow::Error>(rows.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    until(stage, "the former certificate is removed", async || {
        let stored = stored().await?;
        anyhow::ensure!(stored.len() == 1 && stored[0].ends_with("/shop/secure"), "{stored:?}");
        Ok(())
    })
    .await;
    remove(stage, "secure").await;
    until(stage, "nothing of it is left", async || {
        let (stored, listeners) = (stored().await?, stage.cloud.octavia().get("/listeners").await?);
        let ports = listeners["listeners"].as_array().into_iter().flatten().map(|one| &one["protocol_port"]);
        anyhow::ensure!(stored.is_empty() && ports.into_iter().all(|port| *port != 443), "{stored:?} {listeners}");
        Ok(())
    })
    .await;
    stage.cluster.admin().delete(&format!("{SECRETS}/secure")).await.unwrap();
}

pub(super) async fn make(stage: &WayBack, name: &str, rules: &Value) {
    stage.make_ingress(name, rules).await.unwrap();
}

pub(super) async fn remove(stage: &WayBack, name: &str) {
    stage.cluster.admin().delete(&format!("{INGRESSES}/{name}")).await.unwrap();
    until_gone(stage, name).await;
}

pub(super) async fn until_gone(stage: &WayBack, name: &str) {
    let path = format!("{INGRESSES}/{name}");
    until(stage, &format!("Ingress {name} is gone"), async || match stage.cluster.admin().get(&path).await {
        Err(error) if error.code == 404 => Ok(()),
        other => anyhow::bail!("{other:?}"),
    })
    .await;
}

/// Waits until a request is answered like this: by the member's name with the path, or with a status.
pub(super) async fn until_routed(stage: &WayBack, router: &str, host: &str, path: &str, expected: &str) {
    until(stage, &format!("{host}{path} is answered by {expected}"), async || {
        let answer = answer(stage, router, host, path).await?;
        anyhow::ensure!(answer == expected, "{answer}");
        Ok(())
    })
    .await;
}

pub(super) async fn answer(stage: &WayBack, router: &str, host: &str, path: &str) -> anyhow::Result<String> {
    let Reply { status, body, .. } = stage.plane()?.request(router, 80, Some(host), path).await?;
    Ok(if status == 200 { body } else { status.to_string() })
}

async fn has_pool(stage: &WayBack, name: &str) -> anyhow::Result<()> {
    let list = stage.cloud.octavia().get("/pools").await?;
    let pools = list["pools"].as_array().map(Vec::as_slice).unwrap_or_default();
    anyhow::ensure!(pools.iter().any(|pool| pool["name"] == name), "{list}");
    Ok(())
}

pub(super) async fn policies(stage: &WayBack) -> anyhow::Result<Vec<Value>> {
    let list = stage.cloud.octavia().get("/l7policies").await?;
    Ok(list["l7policies"].as_array().cloned().unwrap_or_default())
}

fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|one| one["type"] == kind && one["status"] == "True")
}

pub(super) async fn until<T>(stage: &WayBack, what: &str, holds: impl AsyncFn() -> anyhow::Result<T>) -> T {
    match eventually(what, WITHIN, async || holds().await).await {
        Ok(result) => result,
        Err(error) => {
            let routers = stage.cluster.admin().items(ROUTERS).await;
            let (policies, calls) = (policies(stage).await, stage.changes_since([0, 0]));
            panic!("{error:#}\nrouters: {routers:?}\npolicies: {policies:?}\ncalls: {calls:#?}\n{}", stage.logs());
        }
    }
}
