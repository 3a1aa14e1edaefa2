//! Inspection of both services with a usual client, grpcurl.

use std::time::{Duration, Instant};

use gimbal_testkit::{San, eventually, pki::backend_identity};
use gimbal_tests::{Grpcurl, Mirror, SOON, Scene, expect_metric, gimbalctl, slice_of, svc};
use serde_json::{Value, json};

fn key(namespace: &str, name: &str) -> Value {
    json!({"namespace": namespace, "name": name})
}

/// Checks what a program answers to grpcurl's `list` and `describe`, and its health check.
fn introduces_itself(client: &Grpcurl, admin: bool) {
    let listed = client.run(&[], &["list"]).unwrap();
    let service = |name: &str| listed.lines().any(|line| line == name);
    assert!(service("gimbal.discovery.v1.InspectionService"), "{listed}");
    assert!(service("grpc.health.v1.Health"), "{listed}");
    assert_eq!(service("gimbal.discovery.v1.AdminService"), admin, "{listed}");
    assert_eq!(service("gimbal.discovery.v1.DiscoveryService"), admin, "{listed}");
    let described = client.run(&[], &["describe", "gimbal.discovery.v1.Backend"]).unwrap();
    assert!(described.contains("held_changes"), "{described}");
    for service in ["", "gimbal.discovery.v1.InspectionService"] {
        let request = json!({"service": service}).to_string();
        let health = client.run(&["-d", &request], &["grpc.health.v1.Health/Check"]).unwrap();
        assert!(health.contains("SERVING") && !health.contains("NOT_SERVING"), "{service:?}: {health}");
    }
}

fn services(client: &Grpcurl, request: &Value) -> Vec<Value> {
    let answer = client.call("InspectionService/ListServices", request).unwrap();
    answer["services"].as_array().cloned().unwrap_or_default()
}

fn named(services: &[Value]) -> Vec<&str> {
    services.iter().map(|service| service["source"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn grpcurl_shows_on_both_ends_what_is_there_and_why_something_is_not() {
    let scene = Scene::start().await.unwrap();
    scene.source.namespace("nowhere").await.unwrap();
    for (namespace, name, first) in [("team1", "web", 1), ("team1", "api", 20), ("nowhere", "lost", 40)] {
        scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of(namespace, name, "a", first, 3)).await.unwrap();
    }
    let config = scene.config(&["node02", "other"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-api", 3).await.unwrap();

    let (above, below) = (scene.ask(&writer).unwrap(), Grpcurl::plaintext(discoverer.port));
    introduces_itself(&above, true);
    introduces_itself(&below, false);

    // One backend, seen from both ends.
    let settled = |backend: &Value| backend["rejected"] == "1" && backend.get("pending").is_none();
    let seen = above.expect_backend("node02", "one reject, nothing pending", settled).await.unwrap();
    let own = below.expect_backend("node02", "one reject, nothing pending", settled).await.unwrap();
    let uid = scene.source.admin().get("/api/v1/namespaces/kube-system").await.unwrap()["metadata"]["uid"].clone();
    for backend in [&seen, &own] {
        assert_eq!((&backend["connected"], &backend["complete"]), (&json!(true), &json!(true)), "{backend}");
        assert_eq!(backend["sourceIncarnation"], uid);
        assert_eq!(backend["peerCapabilities"], json!(["change-age", "trace"]), "what the other end named");
        assert_eq!(backend["held"]["count"], "3");
        let kinds: Vec<&Value> = backend["sources"].as_array().unwrap().iter().map(|source| &source["kind"]).collect();
        assert_eq!(kinds, ["services", "endpointslices"]);
        assert_eq!(backend.get("trouble"), None, "{backend}");
    }
    for field in ["agentInstance", "agentVersion", "generation", "held"] {
        assert_eq!(seen[field], own[field], "{field}: both tell of the same");
    }
    // Six in the Gimbal cluster, nine at the source.
    assert_eq!((&seen["endpoints"], &own["endpoints"]), (&json!("6"), &json!("9")));
    let other = above.backend("other").unwrap();
    assert_eq!((other.get("connected"), other.get("complete")), (None, None));
    assert!(other["trouble"].as_str().unwrap().contains("no agent is connected"), "{other}");

    for client in [&above, &below] {
        let all = services(client, &json!({"backend": "node02"}));
        assert_eq!(named(&all), ["lost", "api", "web"], "{all:?}");
        let web = &all[2];
        assert_eq!(web["target"], key("team1", "node02-web"));
        assert_eq!(
            (&web["state"], &web["endpoints"], &web["readyEndpoints"]),
            (&json!("SERVICE_STATE_SYNCED"), &json!("3"), &json!("3"))
        );
        assert_eq!(web["ports"][0]["port"], 80);
        assert_eq!(named(&services(client, &json!({"namespace": "team1"}))), ["api", "web"]);
        assert_eq!(services(client, &json!({"backend": "unheard-of"})), Vec::<Value>::new());
        let trouble = services(client, &json!({"onlyTrouble": true}));
        assert_eq!(named(&trouble), ["lost"], "{trouble:?}");
        assert_eq!(trouble[0]["state"], "SERVICE_STATE_REJECTED");
        assert_eq!(trouble[0]["rejectReason"], "REJECT_REASON_NAMESPACE_MISSING");
        assert!(trouble[0]["message"].as_str().unwrap().contains("namespace nowhere does not exist"), "{trouble:?}");

        let explain = |object: Value| {
            let answer = client.call("InspectionService/Explain", &object).unwrap();
            (answer["service"].clone(), answer["reasons"].to_string())
        };
        let (service, reasons) = explain(json!({"target": key("team1", "node02-web")}));
        assert_eq!(service["source"], key("team1", "web"), "{reasons}");
        let (service, reasons) = explain(json!({"source": {"backend": "node02", "key": key("team1", "web")}}));
        assert_eq!(service["target"], key("team1", "node02-web"), "{reasons}");
        let (service, reasons) = explain(json!({"source": {"backend": "node02", "key": key("nowhere", "lost")}}));
        assert_eq!(service["rejectReason"], "REJECT_REASON_NAMESPACE_MISSING");
        assert!(reasons.contains("namespace nowhere does not exist"), "{reasons}");
        let (service, reasons) = explain(json!({"target": key("team1", "node02-unheard-of")}));
        assert_eq!(service, Value::Null);
        assert!(reasons.contains("node02-unheard-of"), "{reasons}");
        let (service, reasons) = explain(json!({"source": {"backend": "node02", "key": key("kube-system", "dns")}}));
        assert_eq!(service, Value::Null);
        assert_ne!(reasons, "null");
        let refused =
            client.call("InspectionService/Explain", &json!({})).map_or_else(|e| format!("{e:#}"), |a| a.to_string());
        assert!(refused.contains("name an object"), "{refused}");
    }
    gimbalctl_shows_the_same(&scene, writer.port);

    // Skipped Services are explained by the discoverer, because only it knows them.
    let mirrored = json!({
        "apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]},
        "metadata": {"namespace": "team1", "name": "mirrored", "labels": {"gimbal.projectcontour.io/backend": "x"}},
    });
    scene.put(&mirrored).await.unwrap();
    eventually("the discoverer explains what it skips", SOON, async || {
        let object = json!({"source": {"backend": "node02", "key": key("team1", "mirrored")}});
        let answer = below.call("InspectionService/Explain", &object)?;
        anyhow::ensure!(answer["reasons"].to_string().contains("gimbal.projectcontour.io/backend"), "{answer}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

fn gimbalctl_shows_the_same(scene: &Scene, port: u16) {
    let ctl = |words: &str| gimbalctl(scene, port, words).unwrap();
    let backends = ctl("backends -o json").json();
    let states: Vec<_> = backends.iter().map(|backend| (&backend["backend"], &backend["state"])).collect();
    assert_eq!(states, [(&json!("node02"), &json!("synced")), (&json!("other"), &json!("away"))]);
    assert_eq!((&backends[0]["services"], &backends[0]["rejected"]), (&json!(3), &json!(1)));
    let shown = ctl("backends").out;
    assert!(shown.contains("no agent is connected") && !shown.contains("does not lead"), "{shown}");
    let trouble = ctl("services --backend node02 --trouble").out;
    let lines: Vec<&str> = trouble.lines().collect();
    assert_eq!(lines.len(), 2, "{trouble}");
    let words = ["nowhere/lost", "rejected", "namespace missing: ", "namespace nowhere does not exist"];
    assert!(words.iter().all(|word| lines[1].contains(word)), "{trouble}");
    assert_eq!(ctl("services -n team1 -o json").json().len(), 2);
    let above = ctl("why team1/node02-web -o json").json();
    assert_eq!(above[0]["service"]["source"], "team1/web");
    let below = ctl("why nowhere/lost --backend node02").out;
    assert!(below.contains("- ") && below.contains("namespace nowhere does not exist"), "{below}");
    ctl("why team1/unheard-of --backend node02")
        .expect_refusal("team1/unheard-of is not known here as a Service of backend node02");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_backends_says_how_late_it_is_and_when_its_certificate_ends() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let day = Duration::from_secs(24 * 3600);
    let identity = backend_identity("node02");
    let sans = [San::Uri(&identity), San::Dns("localhost"), San::Ip("127.0.0.1")];
    scene.pki.issue_for("node02", &sans, day * 19 / 2).unwrap();
    let writer = scene.writer(&scene.config(&["node02", "other"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    let row = || gimbalctl(&scene, writer.port, "backends -o json").unwrap().json().remove(0);
    assert_eq!(row()["lag"], Value::Null, "a first snapshot is no change");

    let begun = Instant::now();
    scene.put(&slice_of("team1", "web", "a", 1, 5)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 5).await.unwrap();
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
    let measured = eventually("the change is measured", SOON, async || {
        let row = row();
        anyhow::ensure!(row["lag"]["changes"] == 1, "{row}");
        Ok::<_, anyhow::Error>(row)
    })
    .await
    .unwrap();
    let p99 = measured["lag"]["p99Ms"].as_u64().unwrap();
    // The API server shows a change a little before its answer arrives at the writer.
    assert!((1..=took + 100).contains(&p99), "{p99} ms by the writer, {took} ms by the stopwatch");
    let left = Duration::from_millis(measured["certificateLeftMs"].as_u64().unwrap());
    assert!((day * 9..=day * 19 / 2).contains(&left), "{left:?}");

    let table = gimbalctl(&scene, writer.port, "backends").unwrap().out;
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty()).collect()).collect();
    let cells: Vec<&str> = lines[1].iter().map(|cell| cell.trim()).collect();
    assert_eq!((cells[0], cells[1], cells[3]), ("node02", "synced", &*format!("{p99}ms")), "{table}");
    assert_eq!(cells[4..], ["1", "5", "0", "0", "9"], "{table}");

    // Without a stream there is no certificate to renew.
    drop(discoverer);
    eventually("the stream has ended", SOON, async || {
        let row = row();
        anyhow::ensure!(row["state"] == "away" && row["certificateLeftMs"].is_null(), "{row}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_each_service_once_on_both_ends_also_when_one_comes_between() {
    let scene = Scene::start().await.unwrap();
    for n in 0..7 {
        scene.put(&svc("team1", &format!("svc{n}"), &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", &format!("svc{n}"), "a", 1 + n, 1)).await.unwrap();
    }
    let writer = scene.writer(&scene.config(&["node02", "other"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    let clients = [scene.ask(&writer).unwrap(), Grpcurl::plaintext(discoverer.port)];
    let settled = |count: &'static str| move |b: &Value| b.get("pending").is_none() && b["held"]["count"] == count;
    for client in &clients {
        client.expect_backend("node02", "synced", settled("7")).await.unwrap();
    }
    let page = |client: &Grpcurl, token: &str| {
        client.call("InspectionService/ListServices", &json!({"pageSize": 3, "pageToken": token})).unwrap()
    };
    let shown = |page: &Value| named(page["services"].as_array().unwrap()).join(" ");
    let first: Vec<Value> = clients.iter().map(|client| page(client, "")).collect();
    // Before the beginning of the second page, and after it.
    for name in ["svc1b", "svc4b"] {
        scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", name, "a", 1, 1)).await.unwrap();
    }
    for (client, first) in clients.iter().zip(first) {
        client.expect_backend("node02", "synced", settled("9")).await.unwrap();
        assert_eq!(shown(&first), "svc0 svc1 svc2");
        let second = page(client, first["nextPageToken"].as_str().unwrap());
        assert_eq!(shown(&second), "svc3 svc4 svc4b");
        let third = page(client, second["nextPageToken"].as_str().unwrap());
        assert_eq!(shown(&third), "svc5 svc6");
        assert_eq!(third.get("nextPageToken"), None, "it is the last one");
        let refused = client.call("InspectionService/ListServices", &json!({"pageToken": "of another tool"}));
        assert!(format!("{:#}", refused.unwrap_err()).contains("page_token"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_what_is_there_then_a_marker_then_what_changes() {
    let scene = Scene::start().await.unwrap();
    for name in ["api", "web"] {
        scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of("team1", name, "a", 1, 3)).await.unwrap();
    }
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    let (above, below) = (scene.ask(&writer).unwrap(), Grpcurl::plaintext(discoverer.port));
    for client in [&above, &below] {
        client
            .expect_backend("node02", "synced", |b| b.get("pending").is_none() && b["held"]["count"] == "2")
            .await
            .unwrap();
    }
    let request = json!({"backend": "node02", "namespace": "team1"});
    let watch = |client: &Grpcurl, request: &Value| client.watch("InspectionService/Watch", request).unwrap();
    let watches = [watch(&above, &request), watch(&below, &request)];
    for watch in &watches {
        for name in ["api", "web"] {
            let event = watch.next();
            assert_eq!(event["service"]["source"]["name"], name, "{event}");
            assert_eq!(event["service"]["state"], "SERVICE_STATE_SYNCED", "{event}");
        }
        assert_eq!(watch.next(), json!({"snapshotDone": {}}));
    }
    scene.put(&slice_of("team1", "web", "a", 1, 5)).await.unwrap();
    for watch in &watches {
        let synced = |event: &Value| {
            assert_ne!(event["service"]["source"]["name"], "api", "nothing happened to it");
            event["service"]["state"] == "SERVICE_STATE_SYNCED" && event["service"]["endpoints"] == "5"
        };
        watch.until(synced);
    }
    scene.remove("team1", "api").await.unwrap();
    for watch in &watches {
        let event = watch.until(|event| event.get("gone").is_some());
        assert_eq!(event["gone"], json!({"backend": "node02", "source": key("team1", "api")}));
    }
    // A watch of another namespace gets no such event: its marker comes first, then only its own.
    let elsewhere = watch(&above, &json!({"namespace": "team2"}));
    assert_eq!(elsewhere.next(), json!({"snapshotDone": {}}));
    scene.put(&slice_of("team1", "web", "a", 1, 6)).await.unwrap();
    for cluster in [&scene.source, &scene.gimbal] {
        cluster.namespace("team2").await.unwrap();
    }
    scene.put(&svc("team2", "late", &[("http", 80)])).await.unwrap();
    let event = elsewhere.next();
    assert_eq!(event["service"]["source"], key("team2", "late"), "{event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discoverer_without_a_writer_is_a_dry_run_that_shows_what_it_would_send() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let discoverer = scene.dry_run("node02", &scene.source, &[]).unwrap();
    // A dry run has no writer to wait for.
    discoverer.ready().await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_dry_run", "", 1.0).await.unwrap();
    let client = Grpcurl::plaintext(discoverer.port);
    introduces_itself(&client, false);
    let backend = client.expect_backend("node02", "its source is read", |b| b["complete"] == true).await.unwrap();
    assert_eq!((backend.get("connected"), &backend["endpoints"]), (None, &json!("3")));
    let all = services(&client, &json!({}));
    assert_eq!(named(&all), ["web"]);
    assert_eq!(all[0]["state"], "SERVICE_STATE_PENDING");
    assert!(all[0]["message"].as_str().unwrap().contains("dry run"), "{all:?}");
    assert_eq!(all[0]["target"], key("team1", "node02-web"));
    let entries = scene.source.audit().await.unwrap();
    let writes: Vec<_> = entries.iter().filter(|entry| entry.user == "discoverer" && entry.is_write()).collect();
    assert!(writes.is_empty(), "a discoverer only reads: {writes:?}");
}
