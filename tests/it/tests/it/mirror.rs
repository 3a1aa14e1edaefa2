//! The main function: a source's Services are published unchanged in the Gimbal cluster, and follow every change.

use gimbal_tests::{Ep, Mirror, Scene, slice, svc};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_arrives_changes_and_goes() {
    let scene = Scene::start().await.unwrap();
    let mut source = svc("team1", "nginx", &[("http", 80), ("metrics", 9090)]);
    source["metadata"]["annotations"] = json!({
        "projectcontour.io/upstream-protocol.h2c": "http",
        "cert-manager.io/issuer": "steers-the-gimbal-cluster",
    });
    source["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    scene.put(&source).await.unwrap();
    let ports = [("http", 80), ("metrics", 9090)];
    scene
        .put(&slice(
            "team1",
            "nginx",
            "v4",
            &ports,
            &[Ep::Ready("10.1.0.1"), Ep::NotReady("10.1.0.2"), Ep::Terminating("10.1.0.3")],
        ))
        .await
        .unwrap();
    scene.put(&slice("team1", "nginx", "v6", &ports, &[Ep::Ready("fd00:1::1")])).await.unwrap();

    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let all = [
        "10.1.0.1:8080",
        "!10.1.0.2:8080",
        "~10.1.0.3:8080",
        "fd00:1::1:8080",
        "10.1.0.1:17090",
        "!10.1.0.2:17090",
        "~10.1.0.3:17090",
        "fd00:1::1:17090",
    ];
    let mirror = Mirror::expect(&scene.gimbal, "team1", "node02-nginx", &all).await.unwrap();

    let service = &mirror.service;
    assert_eq!(
        service["metadata"]["labels"],
        json!({
            "app": "nginx",
            "gimbal.projectcontour.io/backend": "node02",
            "gimbal.projectcontour.io/service": "nginx",
            "gimbal.projectcontour.io/managed-by": "gimbal-writer",
            "service.kubernetes.io/headless": "",
        })
    );
    assert_eq!(
        service["metadata"]["annotations"],
        json!({
            "projectcontour.io/upstream-protocol.h2c": "http",
            "gimbal.projectcontour.io/source": "team1/nginx",
        })
    );
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["selector"], json!(null));
    let port = &service["spec"]["ports"][0];
    assert_eq!((&port["name"], &port["port"], &port["protocol"]), (&json!("http"), &json!(80), &json!("TCP")));
    assert_eq!((&port["appProtocol"], &port["targetPort"]), (&json!("kubernetes.io/h2c"), &json!(8080)));
    assert_eq!(mirror.slices.len(), 2, "one for each family");
    for slice in &mirror.slices {
        let labels = &slice["metadata"]["labels"];
        assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "gimbal-writer");
        assert!(labels.get("service.kubernetes.io/headless").is_some());
        assert_eq!(labels["multicluster.kubernetes.io/source-cluster"], "node02");
        assert_eq!(slice["metadata"].get("ownerReferences"), None);
        for endpoint in slice["endpoints"].as_array().unwrap() {
            assert_eq!((endpoint.get("nodeName"), endpoint.get("targetRef")), (None, None));
        }
    }

    details_are_kept(&scene).await;

    // One endpoint changes: one write.
    let mark = scene.gimbal.audit_mark().await.unwrap();
    scene
        .put(&slice(
            "team1",
            "nginx",
            "v4",
            &ports,
            &[Ep::Ready("10.1.0.1"), Ep::Ready("10.1.0.2"), Ep::Terminating("10.1.0.3")],
        ))
        .await
        .unwrap();
    let changed: Vec<&str> =
        all.iter().map(|a| if a.contains("10.1.0.2") { a.trim_start_matches('!') } else { a }).collect();
    Mirror::expect(&scene.gimbal, "team1", "node02-nginx", &changed).await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(writes[0].starts_with("update endpointslices team1/node02-nginx-"), "{writes:?}");

    scene.remove("team1", "nginx").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-nginx").await.unwrap();
}

/// Checks that other protocols than TCP, and all properties of endpoints, are published; with a headless Service, where
/// they matter most.
async fn details_are_kept(scene: &Scene) {
    let port = |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "protocol": protocol});
    let ports = [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("sig", 2905, "SCTP")];
    let mut service = svc("team1", "detailed", &[]);
    service["spec"] = json!({"clusterIP": "None", "ports": ports});
    scene.put(&service).await.unwrap();
    let mut detailed = slice("team1", "detailed", "a", &[], &[Ep::Ready("10.2.0.1"), Ep::Ready("10.2.0.2")]);
    detailed["ports"] = json!(ports);
    for (endpoint, name, zone) in [(0, "one", "zone-a"), (1, "two", "zone-b")] {
        let endpoint = &mut detailed["endpoints"][endpoint];
        endpoint["hostname"] = json!(name);
        endpoint["zone"] = json!(zone);
        endpoint["hints"] = json!({"forZones": [{"name": zone}]});
    }
    // Unset means ready, serving and not terminating.
    detailed["endpoints"][1]["conditions"] = json!({});
    scene.put(&detailed).await.unwrap();

    let all = ["10.2.0.1:53", "10.2.0.1:2905", "10.2.0.2:53", "10.2.0.2:2905"];
    let mirror = Mirror::expect(&scene.gimbal, "team1", "node02-detailed", &all).await.unwrap();
    let kept = |ports: &Value| {
        let mut kept: Vec<String> = ports
            .as_array()
            .unwrap()
            .iter()
            .map(|port| format!("{} {} {}", port["name"], port["port"], port["protocol"]).replace('"', ""))
            .collect();
        kept.sort();
        kept
    };
    let expected = ["dns 53 UDP", "dns-tcp 53 TCP", "sig 2905 SCTP"];
    assert_eq!(kept(&mirror.service["spec"]["ports"]), expected);
    assert_eq!(mirror.slices.len(), 1);
    assert_eq!(kept(&mirror.slices[0]["ports"]), expected);
    for (address, name, zone) in [("10.2.0.1", "one", "zone-a"), ("10.2.0.2", "two", "zone-b")] {
        let endpoints = mirror.slices[0]["endpoints"].as_array().unwrap();
        let endpoint = endpoints.iter().find(|endpoint| endpoint["addresses"][0] == address).unwrap();
        assert_eq!(
            endpoint,
            &json!({
                "addresses": [address], "hostname": name, "zone": zone, "hints": {"forZones": [{"name": zone}]},
                "conditions": {"ready": true, "serving": true, "terminating": false},
            })
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_not_be_mirrored_is_not() {
    let scene = Scene::start().await.unwrap();
    let names = [
        ("kube-system", "dns"),
        ("team1", "mirrored-here"),
        ("team1", "external"),
        ("secret", "hidden"),
        ("team1", "the-really-long-kube-service-name-that-is-exactly-63-characters"),
    ];
    scene.source.namespace("secret").await.unwrap();
    scene.gimbal.namespace("secret").await.unwrap();
    for (namespace, name) in names {
        let mut service = svc(namespace, name, &[("http", 80)]);
        match name {
            "mirrored-here" => service["metadata"]["labels"]["gimbal.projectcontour.io/backend"] = json!("other"),
            "external" => service["spec"] = json!({"type": "ExternalName", "externalName": "example.com"}),
            _ => {}
        }
        scene.put(&service).await.unwrap();
    }
    let writer = scene.writer(&scene.config(&["us-east-cluster"], "").unwrap(), &[]).await.unwrap();
    let args = ["--exclude-namespaces", "sec*"];
    let discoverer = scene.discoverer("us-east-cluster", &scene.source, writer.port, &args).unwrap();
    discoverer.ready().await.unwrap();
    // The last one is the original's own example of a name.
    let arrived = "us-east-cluster-the-really-long-kube-serv1feeec";
    Mirror::expect(&scene.gimbal, "team1", arrived, &[]).await.unwrap();
    let all = scene.gimbal.admin().items("/api/v1/services").await.unwrap();
    let ours: Vec<&str> = all
        .iter()
        .filter(|s| s["metadata"]["labels"].get("gimbal.projectcontour.io/managed-by").is_some())
        .map(|s| s["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(ours, [arrived]);
}
