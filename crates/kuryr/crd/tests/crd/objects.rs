//! Objects as Kuryr wrote them.

use gimbal_kubernetes_definition::{CustomKind, yaml};
use gimbal_kuryr_crd::{
    KuryrL7Router, KuryrL7RouterStatus, KuryrLoadBalancer, KuryrLoadBalancerSpec, KuryrLoadBalancerStatus,
    KuryrNetwork, KuryrPort, KuryrPortStatus,
};
use serde_json::{Value, json};

const OBJECTS: [(&str, &str); 3] = [
    ("created", include_str!("../kuryr/objects/created.json")),
    // From Kuryr's own tests of its handler.
    ("unit-test", include_str!("../kuryr/objects/unit-test.json")),
    ("unknown-fields", include_str!("../kuryr/objects/unknown-fields.json")),
];

/// Whether `value` passes a structural schema, as the API server would check it.
fn check(schema: &Value, value: &Value, path: &str) {
    let right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        other => panic!("{path}: {other:?}"),
    };
    assert!(right, "{path}: {value} is no {}", schema["type"]);
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{path}: {value}");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(!value[name.as_str().unwrap()].is_null(), "{path} lacks {name}");
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let known =
            [&schema["properties"][name], &schema["additionalProperties"]].into_iter().find(|one| !one.is_null());
        let Some(known) = known else {
            assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true, "{path}.{name} would be pruned");
            continue;
        };
        check(known, field, &format!("{path}.{name}"));
    }
    for item in value.as_array().into_iter().flatten() {
        check(&schema["items"], item, &format!("{path}[]"));
    }
}

fn schema<K: CustomKind>() -> Value {
    let definition: Value = serde_saphyr::from_str(&yaml::<K>().unwrap()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// An empty list is as good as none, and is not written.
fn without_empty(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(without_empty);
        map.retain(|name, value| value != &json!([]) || name == "security_groups");
    } else if let Value::Array(list) = value {
        list.iter_mut().for_each(without_empty);
    }
}

#[test]
fn objects_of_kuryr_are_valid_and_keep_every_field() {
    let schema = schema::<KuryrLoadBalancer>();
    for (name, text) in OBJECTS {
        let mut value: Value = serde_json::from_str(text).unwrap();
        for part in ["spec", "status"] {
            check(&schema["properties"][part], &value[part], &format!("{name}: {part}"));
        }
        let object: KuryrLoadBalancer = serde_json::from_str(text).unwrap();
        let mut written = serde_json::to_value(&object).unwrap();
        without_empty(&mut value);
        without_empty(&mut written);
        for part in ["spec", "status"] {
            assert_eq!(written[part], value[part], "{name}");
        }
    }
}

#[test]
fn an_object_without_anything_is_read() {
    let object: KuryrLoadBalancer = serde_json::from_str("{}").unwrap();
    assert_eq!((object.spec, object.status), (KuryrLoadBalancerSpec::default(), None));
    let object: KuryrLoadBalancer = serde_json::from_str(r#"{"status":{}}"#).unwrap();
    assert_eq!(object.status, Some(KuryrLoadBalancerStatus::default()));
}

#[test]
fn numbers_beyond_any_port_are_read() {
    let object = |number: &str| {
        let text = format!(r#"{{"spec":{{"ports":[{{"port":{number},"protocol":"TCP","targetPort":"1"}}]}}}}"#);
        serde_json::from_str::<KuryrLoadBalancer>(&text).map(|object| object.spec.ports[0].port)
    };
    for (number, read) in [("-1", -1), ("70000", 70_000), ("18446744073709551615", i64::MAX), ("1e30", i64::MAX)] {
        assert_eq!(object(number).unwrap(), read, "{number}");
    }
    assert!(object("1.5").is_err());
}

/// What our types can write, the API server takes and does not prune; and the object has every field that the schema has.
fn with_every_field<K: CustomKind>(text: &str) -> K {
    let object: K = serde_json::from_str(text).unwrap();
    let written = serde_json::to_value(&object).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(text).unwrap());
    let schema = schema::<K>();
    for part in ["spec", "status"] {
        check(&schema["properties"][part], &written[part], part);
        let fields = schema["properties"][part]["properties"].as_object().unwrap();
        let unset: Vec<_> = fields.keys().filter(|name| written[part][name.as_str()].is_null()).collect();
        assert!(unset.is_empty(), "it lacks {unset:?} of {part}");
    }
    object
}

#[test]
fn an_object_with_every_field_is_valid() {
    let object: KuryrLoadBalancer = with_every_field(include_str!("../kuryr/objects/every-field.json"));
    let mut status = object.status.unwrap();
    assert!(status.others.is_empty(), "{:?}", status.others);
    status.others.insert("more".into(), json!(1));
    assert_eq!(serde_json::to_value(&status).unwrap()["more"], 1);
}

#[test]
fn a_router_with_every_field_is_valid() {
    let object: KuryrL7Router = with_every_field(include_str!("../routers/every-field.json"));
    let status = object.status.unwrap();
    assert!(status.balancer.others.is_empty(), "{:?}", status.balancer.others);
    assert_eq!(status.balancer.member_count, Some(1));
}

#[test]
fn a_router_without_anything_is_read() {
    let object: KuryrL7Router = serde_json::from_str("{}").unwrap();
    assert_eq!(object, KuryrL7Router::default());
    let text = r#"{"spec":{"routes":[{}],"pools":[{"port":1e30}]},"status":{}}"#;
    let object: KuryrL7Router = serde_json::from_str(text).unwrap();
    assert_eq!((object.spec.routes.len(), object.spec.pools[0].port), (1, i64::MAX));
    assert_eq!(object.status, Some(KuryrL7RouterStatus::default()));
}

#[test]
fn a_port_and_a_network_with_every_field_are_valid() {
    let port: KuryrPort = with_every_field(include_str!("../ports/every-field.json"));
    let status = port.status.unwrap();
    let vif = &status.vifs["eth0"].vif;
    assert!(status.others.is_empty() && vif.others.is_empty(), "{:?} {:?}", status.others, vif.others);
    assert_eq!((&*vif.network.as_ref().unwrap().subnets[0].ips[0], vif.active), ("10.10.0.15", Some(true)));
    let network: KuryrNetwork = with_every_field(include_str!("../networks/every-field.json"));
    assert!(network.status.unwrap().others.is_empty());
}

#[test]
fn a_port_of_kuryrs_time_is_valid_and_keeps_every_field() {
    let text = include_str!("../ports/versioned.json");
    let value: Value = serde_json::from_str(text).unwrap();
    let schema = schema::<KuryrPort>();
    for part in ["spec", "status"] {
        check(&schema["properties"][part], &value[part], part);
    }
    let port: KuryrPort = serde_json::from_str(text).unwrap();
    let written = serde_json::to_value(&port).unwrap();
    assert_eq!((&written["spec"], &written["status"]), (&value["spec"], &value["status"]));
    assert_eq!(port.status.unwrap().vifs["eth0"].vif.id, None, "a versioned object is not read");
}

#[test]
fn a_port_and_a_network_without_anything_are_read() {
    let port: KuryrPort = serde_json::from_str(r#"{"status":{}}"#).unwrap();
    assert_eq!((port.spec, port.status), (Default::default(), Some(KuryrPortStatus::default())));
    let first = serde_json::to_value(KuryrPortStatus::default()).unwrap();
    assert_eq!(first, json!({"vifs": {}}), "the first condition is written beside an empty list");
    assert_eq!(serde_json::from_str::<KuryrNetwork>("{}").unwrap(), KuryrNetwork::default());
}
