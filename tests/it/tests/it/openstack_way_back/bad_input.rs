//! What users get wrong, and what is in their way: a condition and an Event say which and why, and everything else proceeds.

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Steer;
use gimbal_tests::WayBack;
use serde_json::{Value, json};

use super::{SERVICES, WITHIN, steer};

const TIMEOUT: &str = "openstack.org/kuryr-timeout-client-data";
const OF_PROJECT: &str = "openstack.org/kuryr-project";
const BY_ID: &str = "loadbalancer.openstack.org/load-balancer-id";
/// An address in the range of Services, which somebody else's load balancer has.
const TAKEN: &str = "10.96.77.7";

/// What is expected of a Service: the condition, words of its message, the Event, and whether it serves all the same.
struct Case {
    name: &'static str,
    condition: &'static str,
    words: String,
    event: &'static str,
    serves: bool,
}

async fn make(stage: &WayBack, name: &str, annotations: Value, more: Value) {
    let mut spec = json!({"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let service = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
    stage.cluster.admin().post(SERVICES, &service).await.unwrap();
}

pub async fn each_has_a_condition_and_an_event(stage: &WayBack) {
    let theirs = json!({"name": "shop/taken", "vip_subnet_id": stage.subnet, "vip_address": TAKEN});
    let theirs = stage.cloud.create_load_balancer("alpha", &theirs).await.unwrap();
    let id = theirs["id"].as_str().unwrap();
    let other_project = stage.cloud.project("beta").await.unwrap();
    // A provider without SCTP: it refuses the whole, and then the part.
    let whole = Steer::provider("^loadbalancer_create$").populated().named("^shop/sctp$").unsupported();
    let rules =
        [steer(stage, &whole).await, steer(stage, &Steer::provider("_create$").protocol("SCTP").unsupported()).await];

    let http = json!({"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"});
    let sctp = json!({"name": "signals", "port": 81, "targetPort": 8081, "protocol": "SCTP"});
    make(stage, "unread", json!({TIMEOUT: "soon"}), json!({})).await;
    make(stage, "sctp", json!({}), json!({"ports": [http, sctp]})).await;
    make(stage, "outside", json!({}), json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]})).await;
    make(stage, "project", json!({OF_PROJECT: other_project}), json!({})).await;
    make(stage, "taken", json!({}), json!({"clusterIP": TAKEN})).await;
    make(stage, "by-id", json!({BY_ID: id}), json!({})).await;
    make(stage, "good", json!({}), json!({})).await;
    let case =
        |name, condition, words: &str, event, serves| Case { name, condition, words: words.to_owned(), event, serves };
    let cases = [
        case("unread", "Unsupported", TIMEOUT, "KuryrNotAsAsked", true),
        case("sctp", "Unsupported", "81", "KuryrSkipListener", true),
        case("outside", "Conflict", "fd00:96:", "KuryrEnsureLBError", false),
        case("project", "Unsupported", &other_project, "KuryrNotAsAsked", true),
        case("taken", "Conflict", TAKEN, "KuryrEnsureLBError", false),
        case("by-id", "Conflict", id, "KuryrEnsureLBError", false),
    ];
    stage.until_address("good").await.unwrap();
    for case in &cases {
        check(stage, case).await;
    }
    the_port_that_is_not_served_has_an_error(stage, "sctp").await;
    let found = stage.cloud.octavia().get(&format!("/loadbalancers/{id}")).await.unwrap();
    assert_eq!(found["loadbalancer"], theirs, "somebody else's load balancer is not touched");
    let listeners = stage.cloud.octavia().get("/listeners").await.unwrap();
    let of =
        |port: u64| listeners["listeners"].as_array().unwrap().iter().filter(move |one| one["protocol_port"] == port);
    assert_eq!((of(80).count(), of(81).count()), (4, 0), "{listeners}");

    // The address is free, and a Service that somebody changes is tried again at once.
    stage.cloud.delete(&format!("/loadbalancers/{id}")).await.unwrap();
    for rule in rules {
        stage.cloud.stop_steering(rule).await.unwrap();
    }
    let readable = json!({"metadata": {"annotations": {TIMEOUT: "50000"}}});
    stage.cluster.admin().patch(&format!("{SERVICES}/taken"), &readable).await.unwrap();
    stage.until_address("taken").await.unwrap();
    assert_eq!(stage.balancer("taken").await.unwrap()["vip_address"], TAKEN);
    for name in cases.iter().map(|case| case.name).chain(["good"]) {
        stage.cluster.admin().delete(&format!("{SERVICES}/{name}")).await.unwrap();
    }
    let result = eventually("all are gone", WITHIN, async || {
        let left = stage.cluster.admin().items(SERVICES).await?;
        anyhow::ensure!(left.is_empty(), "{left:?}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    assert_eq!(stage.left().await.unwrap(), [""; 0]);
}

/// In the fields that Kubernetes has for that.
async fn the_port_that_is_not_served_has_an_error(stage: &WayBack, name: &str) {
    let address = stage.address(name).await.unwrap();
    let error = "kuryr.openstack.org/Provider";
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "SCTP", "error": error}]);
    let result = eventually("the Service's status says so", WITHIN, async || {
        let service = stage.cluster.admin().get(&format!("{SERVICES}/{name}")).await?;
        let status = &service["status"];
        let ingress = json!([{"ip": address, "ipMode": "VIP", "ports": ports}]);
        anyhow::ensure!(status["loadBalancer"]["ingress"] == ingress, "{status}");
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|one| one["type"] == "LoadBalancerPortsError");
        let says = |one: &Value| one["status"] == "True" && one["message"] == format!("81/SCTP: {error}");
        anyhow::ensure!(found.is_some_and(says), "{status}");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}

async fn check(stage: &WayBack, Case { name, condition, words, event, serves }: &Case) {
    let found = |object: &Value, kind: &str| {
        let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
        all.find(|one| one["type"] == kind && one["status"] == "True").cloned()
    };
    let says = |object: &Value| {
        let message = found(object, condition).map(|one| one["message"].to_string());
        message.is_some_and(|message| message.contains(words)) && found(object, "Ready").is_some() == *serves
    };
    stage.until_resource(name, &format!("says {condition}: {words}"), says).await.unwrap();
    if *serves {
        stage.until_address(name).await.unwrap();
    }
    let result = eventually("an Event says so, once", WITHIN, async || {
        let events = stage.events(name).await?;
        let about = events.iter().filter(|(reason, message)| reason == event && message.contains(words)).count();
        anyhow::ensure!(about == 1, "{name}: {events:?}");
        Ok(())
    });
    result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
}
