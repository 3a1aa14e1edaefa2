//! What Contour makes of ports: their names, transports and appProtocol.

use gimbal_tests::{Ep, Mirror, slice, svc};
use serde_json::{Value, json};

use super::{NAMESPACE, PORT, PROXIES, ROUTES, Stage, TARGET_PORT, is_alone, servers};

const SERVER: &str = "10.77.2.1";
/// The port that the second port of a Service leads to.
const OTHER_PORT: u16 = TARGET_PORT + 1;
const OLD: &str = "10.77.2.1 HTTP/1.1";
const NEW: &str = "10.77.2.1 HTTP/2.0";
const ANNOTATION: &str = "projectcontour.io/upstream-protocol.h2c";

/// Offers a Service with one endpoint, whose ports are as `ports` changes them.
async fn offer(stage: &Stage, name: &str, annotated: bool, ports: Value) {
    let mut service = svc(NAMESPACE, name, &[]);
    service["spec"]["ports"] = ports.clone();
    if annotated {
        service["metadata"]["annotations"] = json!({ANNOTATION: PORT.to_string()});
    }
    stage.scene.put(&service).await.unwrap();
    let mut slice = slice(NAMESPACE, name, "a", &[], &[Ep::Ready(SERVER)]);
    let of_slice = ports.as_array().unwrap().iter().map(|port| {
        let mut port = port.clone();
        port["port"] = port["targetPort"].take();
        port.as_object_mut().unwrap().remove("targetPort");
        port
    });
    slice["ports"] = of_slice.collect();
    stage.scene.put(&slice).await.unwrap();
}

/// Returns a port with this appProtocol.
fn speaking(app_protocol: Option<&str>) -> Value {
    json!([{"name": "http", "port": PORT, "targetPort": TARGET_PORT, "appProtocol": app_protocol}])
}

async fn stage(policy_of_mapped: &str) -> (Stage, Vec<impl Sized>) {
    let stage = Stage::start().await;
    let writer = stage.scene.writer(&stage.config(policy_of_mapped), &[]).await.unwrap();
    let discoverers = ["node02", "mapped"]
        .map(|backend| stage.scene.discoverer(backend, &stage.scene.source, writer.port, &[]).unwrap());
    (stage, vec![(writer, discoverers)])
}

/// In an HTTPProxy appProtocol comes before annotations, and an unknown one is HTTP/1.1; a route of Gateway API with an unknown one
/// is not served. A policy of the backend mends both.
#[tokio::test(flavor = "multi_thread")]
async fn app_protocols() {
    if !is_alone("ports::app_protocols") {
        return;
    }
    let (stage, _programs) = stage("appProtocol: {grpc: kubernetes.io/h2c, mysql: null}").await;
    let _servers = servers(&[SERVER], TARGET_PORT).await;
    let services = [
        ("plain", false, None, OLD, OLD),
        ("http", false, Some("http"), OLD, OLD),
        ("ws", false, Some("kubernetes.io/ws"), OLD, OLD),
        ("h2c", false, Some("kubernetes.io/h2c"), NEW, NEW),
        ("annotated", true, None, NEW, NEW),
        ("both", true, Some("http"), OLD, OLD),
        ("grpc", false, Some("grpc"), OLD, NEW),
        ("mysql", true, Some("mysql"), OLD, NEW),
    ];
    for (name, annotated, app_protocol, proxied, mapped) in services {
        offer(&stage, name, annotated, speaking(app_protocol)).await;
        for (backend, expected) in [("node02", proxied), ("mapped", mapped)] {
            let (host, service) = (format!("{backend}-{name}.example"), format!("{backend}-{name}"));
            Mirror::expect_count(&stage.scene.gimbal, NAMESPACE, &service, 1).await.unwrap();
            stage.proxy(&host, &service, PORT).await;
            stage.expect(&host, "/", 200, expected).await;
        }
    }
    // Gateway API takes what it knows.
    for (name, expected) in [("plain", OLD), ("h2c", NEW), ("ws", OLD)] {
        let host = format!("route-{name}.example");
        stage.route(&host, &format!("node02-{name}"), PORT).await;
        stage.expect(&host, "/", 200, expected).await;
    }
    for name in ["grpc", "mysql"] {
        let host = format!("route-{name}.example");
        stage.route(&host, &format!("node02-{name}"), PORT).await;
        stage.expect_status(ROUTES, &host, "UnsupportedProtocol").await;
        stage.expect(&host, "/", 500, "").await;
        let host = format!("route-mapped-{name}.example");
        stage.route(&host, &format!("mapped-{name}"), PORT).await;
        stage.expect(&host, "/", 200, NEW).await;
    }
}

/// A port is found by its number, and its endpoints by its name. Of two ports with one number, the first decides.
#[tokio::test(flavor = "multi_thread")]
async fn names_and_transports() {
    if !is_alone("ports::names_and_transports") {
        return;
    }
    let (stage, _programs) = stage("mode: admit").await;
    let _servers = [servers(&[SERVER], TARGET_PORT).await, servers(&["10.77.2.1"], OTHER_PORT).await];
    offer(&stage, "unnamed", false, json!([{"port": PORT, "targetPort": TARGET_PORT}])).await;
    stage.proxy("unnamed.example", "node02-unnamed", PORT).await;
    stage.expect("unnamed.example", "/", 200, OLD).await;
    stage.expect_endpoints("node02-unnamed", &["10.77.2.1:8090"]).await;

    let two = json!([
        {"name": "first", "port": PORT, "targetPort": TARGET_PORT}, {"name": "second", "port": PORT + 1, "targetPort": OTHER_PORT},
    ]);
    offer(&stage, "two", false, two).await;
    stage.proxy("second.example", "node02-two", PORT + 1).await;
    stage.expect("second.example", "/", 200, OLD).await;
    stage.expect_endpoints("node02-two", &["10.77.2.1:8091"]).await;

    let both = |first: &str, second: &str| {
        json!([first, second].map(|transport| {
            json!({"name": transport.to_lowercase(), "protocol": transport, "port": PORT, "targetPort": TARGET_PORT})
        }))
    };
    offer(&stage, "tcp-first", false, both("TCP", "UDP")).await;
    stage.proxy("tcp.example", "node02-tcp-first", PORT).await;
    stage.expect("tcp.example", "/", 200, OLD).await;
    offer(&stage, "udp-first", false, both("UDP", "TCP")).await;
    stage.proxy("udp.example", "node02-udp-first", PORT).await;
    stage.expect_status(PROXIES, "udp.example", "unsupported service protocol").await;
}
