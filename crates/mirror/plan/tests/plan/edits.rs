//! Every edit of an owned object is overwritten, by one write where that is possible.

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Kind, Object as _, Service};
use gimbal_plan::EndpointsApi;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::render::render;
use crate::server::Server;
use crate::world::{converged, planned, v4, wanted_by, web};

/// Applies each edit to a copy of the server. Returns the edits with the writes that repair them; one plan is
/// always enough.
fn put_right(server: &Server, kind: Kind, name: &str, edits: &[(&str, Value)]) -> String {
    let wanted = wanted_by(&web((0..3).map(v4)), EndpointsApi::Both);
    let mut all = String::new();
    for (pointer, value) in edits {
        let mut server = server.clone();
        server.edit(kind, name, |object| set(object, pointer, value.clone()));
        let plan = planned(Some(&wanted), &server.observe());
        all += &format!("{pointer} = {value}\n  {}", render(&plan, &server).replace('\n', "\n  ").trim_end());
        all.push('\n');
        server.run(&plan);
        assert!(planned(Some(&wanted), &server.observe()).is_empty(), "{pointer}");
    }
    all
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        map => {
            let map = map.as_object_mut().unwrap();
            let key = key.replace("~1", "/");
            if value.is_null() {
                map.remove(&key)
            } else {
                map.insert(key, value)
            };
        }
    }
}

#[test]
fn service() {
    let server = converged(&web((0..3).map(v4)), EndpointsApi::Both);
    assert_snapshot!(put_right(
        &server,
        Service::KIND,
        "node02-web",
        &[
            ("/metadata/labels/app", json!("edited")),
            ("/metadata/labels/app", Value::Null),
            ("/metadata/labels/extra", json!("x")),
            ("/metadata/labels/gimbal.projectcontour.io~1backend", json!("other")),
            ("/metadata/labels/gimbal.projectcontour.io~1service", json!("other")),
            ("/metadata/annotations/owner", json!("edited")),
            ("/metadata/annotations/extra", json!("x")),
            ("/metadata/annotations/gimbal.projectcontour.io~1source", Value::Null),
            ("/spec/type", json!("ExternalName")),
            ("/spec/externalName", json!("example.org")),
            ("/spec/clusterIP", json!("10.96.0.7")),
            ("/spec/selector", json!({"app": "web"})),
            ("/spec/externalIPs", json!(["192.0.2.1"])),
            ("/spec/sessionAffinity", json!("ClientIP")),
            ("/spec/publishNotReadyAddresses", json!(true)),
            ("/spec/ports", json!([])),
            ("/spec/ports/0/name", json!("edited")),
            ("/spec/ports/0/port", json!(81)),
            ("/spec/ports/0/protocol", json!("UDP")),
            ("/spec/ports/0/appProtocol", json!("https")),
            ("/spec/ports/0/targetPort", json!(8081)),
        ]
    ));
}

#[test]
fn slice() {
    let server = converged(&web((0..3).map(v4)), EndpointsApi::Both);
    let name = server.slices().next().unwrap().metadata.name.clone();
    assert_snapshot!(put_right(
        &server,
        EndpointSlice::KIND,
        &name,
        &[
            ("/metadata/labels/app", json!("edited")),
            ("/metadata/labels/extra", json!("x")),
            ("/metadata/labels/service.kubernetes.io~1headless", Value::Null),
            ("/metadata/annotations/extra", json!("x")),
            ("/metadata/annotations/gimbal.projectcontour.io~1source", Value::Null),
            ("/addressType", json!("FQDN")),
            ("/addressType", json!("IPv6")),
            ("/ports", json!([])),
            ("/ports/0/name", json!("edited")),
            ("/ports/0/name", Value::Null),
            ("/ports/0/port", json!(81)),
            ("/ports/0/protocol", json!("UDP")),
            ("/ports/0/appProtocol", json!("https")),
            ("/endpoints", json!([])),
            ("/endpoints/0/addresses", json!(["192.0.2.1"])),
            ("/endpoints/0/addresses", json!(["10.0.0.0", "192.0.2.1"])),
            ("/endpoints/0/addresses", json!(["10.0.0.1"])),
            ("/endpoints/0/addresses", json!(["nonsense"])),
            ("/endpoints/0/conditions", json!({})),
            ("/endpoints/0/conditions/ready", json!(false)),
            ("/endpoints/0/conditions/serving", json!(false)),
            ("/endpoints/0/conditions/terminating", json!(true)),
            ("/endpoints/0/hostname", json!("edited")),
            ("/endpoints/0/zone", json!("edited")),
            ("/endpoints/0/hints", json!({"forZones": [{"name": "edited"}]})),
            ("/endpoints/0/hints", json!({})),
        ]
    ));
}

#[test]
fn endpoints() {
    let server = converged(&web((0..3).map(v4)), EndpointsApi::Both);
    assert_snapshot!(put_right(
        &server,
        Endpoints::KIND,
        "node02-web",
        &[
            ("/metadata/labels/extra", json!("x")),
            ("/metadata/labels/endpointslice.kubernetes.io~1skip-mirror", Value::Null),
            ("/metadata/annotations/extra", json!("x")),
            ("/subsets", json!([])),
            ("/subsets/0/ports/0/port", json!(81)),
            ("/subsets/0/ports/0/name", Value::Null),
            ("/subsets/0/ports/0/appProtocol", json!("https")),
            ("/subsets/0/addresses/0/ip", json!("192.0.2.1")),
            ("/subsets/0/addresses/0/hostname", json!("edited")),
            ("/subsets/0/notReadyAddresses", json!([{"ip": "10.0.0.1"}])),
            ("/subsets/0/notReadyAddresses", json!([{"ip": "nonsense"}])),
        ]
    ));
}

/// Values that the server fills in do not count as edits.
#[test]
fn what_the_server_fills_in() {
    let mut server = converged(&web((0..3).map(v4)), EndpointsApi::Both);
    let wanted = wanted_by(&web((0..3).map(v4)), EndpointsApi::Both);
    server.edit(Service::KIND, "node02-web", |object| {
        set(object, "/spec/sessionAffinity", json!("None"));
        set(object, "/spec/publishNotReadyAddresses", json!(false));
        set(object, "/spec/clusterIPs", json!(["None"]));
        set(object, "/status", json!({"loadBalancer": {}}));
    });
    assert!(planned(Some(&wanted), &server.observe()).is_empty());
}

/// An object whose deletion waits for a finalizer is neither deleted again nor relied on.
#[test]
fn deletion_has_begun() {
    let service = web((0..3).map(v4));
    let mut server = converged(&service, EndpointsApi::EndpointSlices);
    let name = server.slices().next().unwrap().metadata.name.clone();
    let begun = json!("2026-01-01T00:00:00Z");
    server.edit(EndpointSlice::KIND, &name, |object| set(object, "/metadata/deletionTimestamp", begun.clone()));
    server.edit(Service::KIND, "node02-web", |object| set(object, "/metadata/deletionTimestamp", begun));
    let wanted = wanted_by(&service, EndpointsApi::EndpointSlices);
    assert_snapshot!(render(&planned(Some(&wanted), &server.observe()), &server));
    assert!(planned(None, &server.observe()).is_empty());
}

#[test]
fn a_slices_name_tells_its_target() {
    assert_eq!(gimbal_plan::made_for("node02-web-8f5a304c98-0"), Some("node02-web"));
    assert_eq!(gimbal_plan::made_for("a-0123456789-0-8f5a304c98-12"), Some("a-0123456789-0"));
    for other in ["", "web", "web-x7k2p", "web-8f5a304c98-", "web-8f5a304c9-0", "web-8F5A304C98-0", "-8f5a304c98-0"] {
        assert_eq!(gimbal_plan::made_for(other), None, "{other}");
    }
}
