//! deploy/crds on a real API server.

use gimbal_testkit::TestCluster;
use gimbal_testkit::cluster::Method;
use serde_json::{Value, json};

const OBJECTS: &str = "/apis/openstack.org/v1/namespaces/default/kuryrloadbalancers";

/// Objects as Kuryr wrote them, and one with every field that there is.
const KURYRS: [(&str, &str); 3] = [
    ("created", include_str!("../../../../../crates/kuryr/crd/tests/kuryr/objects/created.json")),
    ("unit-test", include_str!("../../../../../crates/kuryr/crd/tests/kuryr/objects/unit-test.json")),
    ("unknown-fields", include_str!("../../../../../crates/kuryr/crd/tests/kuryr/objects/unknown-fields.json")),
];
const EVERY_FIELD: &str = include_str!("../../../../../crates/kuryr/crd/tests/kuryr/objects/every-field.json");

/// A router with every field that there is.
const EVERY_FIELD_OF_A_ROUTER: &str = include_str!("../../../../../crates/kuryr/crd/tests/routers/every-field.json");
const ROUTERS: &str = "/apis/openstack.org/v1/namespaces/default/kuryrl7routers";

async fn cluster() -> TestCluster {
    let cluster = TestCluster::start().await.unwrap();
    cluster.install_crds().await.unwrap();
    cluster
}

/// Reads an object under another name, without what the server sets.
fn object(name: &str, text: &str) -> Value {
    let mut object: Value = serde_json::from_str(text).unwrap();
    object["apiVersion"] = json!("openstack.org/v1");
    object["kind"] = json!("KuryrLoadBalancer");
    object["metadata"] = json!({"name": name, "finalizers": ["kuryr.openstack.org/kuryrloadbalancer-finalizers"]});
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_kuryr_are_valid_and_keep_every_field() {
    let cluster = cluster().await;
    let api = cluster.admin();
    for (name, text) in [&KURYRS[..], &[("every-field", EVERY_FIELD)]].concat() {
        let sent = object(name, text);
        let created = api.post(OBJECTS, &sent).await.unwrap();
        assert_eq!(created["spec"], sent["spec"], "{name}");
        assert_eq!(created["metadata"]["generation"], 1);
        assert!(created["status"].is_null(), "the status is a subresource: {created}");
        let path = format!("{OBJECTS}/{name}");
        let status = api.patch(&format!("{path}/status"), &json!({"status": sent["status"]})).await.unwrap();
        assert_eq!(status["status"], sent["status"], "{name}");
        // Neither is changed through the other.
        let edit = json!({"spec": {"type": "LoadBalancer"}, "status": {"memberCount": 77}});
        let by_status = api.patch(&format!("{path}/status"), &edit).await.unwrap();
        assert_eq!(by_status["spec"], sent["spec"], "{name}");
        let by_spec =
            api.patch(&path, &json!({"spec": {"provider": "x"}, "status": {"memberCount": 78}})).await.unwrap();
        assert_eq!((&by_spec["status"]["memberCount"], &by_spec["metadata"]["generation"]), (&json!(77), &json!(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_is_valid_and_keeps_every_field() {
    let cluster = cluster().await;
    let api = cluster.admin();
    let mut sent = object("every-field", EVERY_FIELD_OF_A_ROUTER);
    sent["kind"] = json!("KuryrL7Router");
    sent["metadata"]["finalizers"] = json!(["kuryr.openstack.org/l7router-finalizer"]);
    let created = api.post(ROUTERS, &sent).await.unwrap();
    assert_eq!(created["spec"], sent["spec"]);
    assert!(created["status"].is_null(), "the status is a subresource: {created}");
    let path = format!("{ROUTERS}/every-field");
    let status = api.patch(&format!("{path}/status"), &json!({"status": sent["status"]})).await.unwrap();
    assert_eq!((&status["status"], &status["spec"]), (&sent["status"], &sent["spec"]));
    // What is stored has every field, too, and nothing else.
    let stored = api.get(&path).await.unwrap();
    assert_eq!((&stored["status"], &stored["spec"]), (&sent["status"], &sent["spec"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_show_project_address_and_readiness() {
    let cluster = cluster().await;
    let api = cluster.admin();
    let sent = object("every-field", EVERY_FIELD);
    api.post(OBJECTS, &sent).await.unwrap();
    let mut status = sent["status"].clone();
    status["conditions"] = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-23T03:00:00Z",
    }]);
    api.patch(&format!("{OBJECTS}/every-field/status"), &json!({"status": status})).await.unwrap();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = api.exchange(Method::GET, OBJECTS, ("application/json", table), Vec::new()).await.unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    let names: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "PROJECT-ID", "IP", "READY", "Age"]);
    let cells = &table["rows"][0]["cells"];
    let expected = [json!("every-field"), sent["spec"]["project_id"].clone(), status["loadbalancer"]["ip"].clone()];
    assert_eq!(cells.as_array().unwrap()[..3], expected);
    assert_eq!(cells[3], "True");
}

/// What Kuryr's definition requires is required, at every place where it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_required_is_refused_where_it_is_missing() {
    let cluster = cluster().await;
    let api = cluster.admin();
    let text = include_str!("../../../../../crates/kuryr/crd/tests/kuryr/kuryrloadbalancer.yaml");
    let kuryrs: Value = serde_saphyr::from_str(text).unwrap();
    let schema = &kuryrs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let sent = object("every-field", EVERY_FIELD);
    api.post(OBJECTS, &sent).await.unwrap();
    let mut checked = 0;
    for (part, path) in [("spec", ""), ("status", "/status")] {
        for pointer in required(&schema[part], &sent[part], "") {
            let mut lacking = sent.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            lacking[part].pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
            let change = json!({part: lacking[part]});
            let path = format!("{OBJECTS}/every-field{path}?dryRun=All");
            // A merge patch replaces a list whole, and keeps the fields of an object that it does not name.
            let change = if parent.contains("/0") { change } else { removing(part, &pointer) };
            let refused = api.patch(&path, &change).await.unwrap_err();
            assert!(refused.code == 422 && refused.message.contains(name), "{part}{pointer}: {refused}");
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked}");
}

/// Returns where the required fields are, as JSON pointers into `value`: in the first object of each list.
fn required(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let names = schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap());
    let mut all: Vec<String> = names.map(|name| format!("{at}/{name}")).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        all.extend(required(field, &value[name], &format!("{at}/{name}")));
    }
    if !schema["items"].is_null() && !value[0].is_null() {
        all.extend(required(&schema["items"], &value[0], &format!("{at}/0")));
    }
    all
}

fn removing(part: &str, pointer: &str) -> Value {
    let fields = pointer.split('/').skip(1).collect::<Vec<_>>();
    let change = fields.iter().rev().fold(Value::Null, |change, field| json!({*field: change}));
    json!({part: change})
}
