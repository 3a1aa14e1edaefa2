//! Which backend a client may speak for, and what happens to a connection that is dead but open.

use std::time::{Duration, Instant};

use gimbal_testkit::process::free_port;
use gimbal_testkit::{Pki, San, TestCluster, eventually, pki::backend_identity};
use gimbal_tests::{
    Ep, Grpcurl, Mirror, Proxy, SOON, Scene, discoverer_rights, expect_log, expect_metric, get, gimbalctl, metric,
    slice, svc,
};
use serde_json::{Value, json};

async fn service(cluster: &TestCluster, name: &str, addresses: &[&str]) {
    let endpoints: Vec<Ep<'_>> = addresses.iter().map(|address| Ep::Ready(address)).collect();
    gimbal_tests::put(cluster, &svc("team1", name, &[("http", 80)])).await.unwrap();
    gimbal_tests::put(cluster, &slice("team1", name, "a", &[("http", 80)], &endpoints)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_speaks_for_its_own_backend_only() {
    let scene = Scene::start().await.unwrap();
    service(&scene.source, "web", &["10.1.0.1"]).await;
    let writer = scene.writer(&scene.config(&["node01", "node02"], "").unwrap(), &[]).await.unwrap();
    let stranger = scene.pki.issue("stranger", &[San::Uri("spiffe://gimbal.example/backend/stranger")]).unwrap();
    let own = scene.pair("node01").unwrap();
    let identities = ["node01", "node02"].map(backend_identity);
    let both = scene.pki.issue("both", &identities.each_ref().map(|identity| San::Uri(identity))).unwrap();
    let nameless = scene.pki.issue("nameless", &[San::Ip("127.0.0.1")]).unwrap();
    let elsewhere = Pki::create(scene.path("elsewhere")).unwrap();
    let forged = elsewhere.backend("node01").unwrap();

    let cases = [
        // Not in the configuration, whatever name it uses.
        (
            scene.discoverer_as(&stranger, "stranger", &scene.source, writer.port, &[]).unwrap(),
            ["UnknownBackend", "spiffe://gimbal.example/backend/stranger"],
        ),
        (
            scene.discoverer_as(&stranger, "node02", &scene.source, writer.port, &[]).unwrap(),
            ["UnknownBackend", "spiffe://gimbal.example/backend/stranger"],
        ),
        // Another backend's name.
        (scene.discoverer_as(&own, "node02", &scene.source, writer.port, &[]).unwrap(), ["UnknownBackend", "node01"]),
        // Two backends' identities, and no identity: a host's address does not identify a backend.
        (
            scene.discoverer_as(&both, "node01", &scene.source, writer.port, &[]).unwrap(),
            ["UnknownBackend", "the identities of two backends, node01 and node02"],
        ),
        (
            scene.discoverer_as(&nameless, "node01", &scene.source, writer.port, &[]).unwrap(),
            ["UnknownBackend", "the certificate has no URI or DNS name"],
        ),
        // Signed by another authority.
        (
            scene.discoverer_as(&forged, "node01", &scene.source, writer.port, &[]).unwrap(),
            ["certificate", "--tls-cert"],
        ),
    ];
    for (mut discoverer, parts) in cases {
        let mut all = vec!["no stream to the writer"];
        all.extend(parts);
        expect_log(&discoverer.process, &all).await.unwrap();
        // It retries at growing intervals, and logs the error once.
        let opened = metric(discoverer.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap();
        assert!(opened < 100.0, "{opened} streams at once");
        assert_eq!(
            discoverer.process.log().matches("no stream to the writer").count(),
            1,
            "{}",
            discoverer.process.log_tail()
        );
        assert_eq!(discoverer.process.exited().unwrap(), None);
        // It has read its source: readiness does not depend on the writer.
        discoverer.ready().await.unwrap();
        assert_eq!(get(discoverer.admin_port, "/healthz").await.unwrap().0, 200);
        let backend = Grpcurl::plaintext(discoverer.port).call("InspectionService/ListBackends", &json!({})).unwrap();
        assert!(backend["backends"][0]["trouble"].as_str().unwrap().contains(parts[0]), "{backend}");
    }
    let refused = eventually("each is refused again and again", SOON, async || {
        let (streams, handshakes) = (
            metric(writer.admin_port, "gimbal_writer_refused_streams_total", "").await?,
            metric(writer.admin_port, "gimbal_writer_handshake_failures_total", "").await?,
        );
        anyhow::ensure!(streams >= 5.0 && handshakes >= 1.0, "{streams} streams, {handshakes} handshakes");
        Ok::<_, anyhow::Error>(streams)
    });
    refused.await.unwrap();

    // A writer that an agent does not trust.
    let text = |path: &std::path::Path| path.display().to_string();
    let url = format!("https://localhost:{}", writer.port);
    let args = [
        "--writer",
        &url,
        "--tls-cert",
        &text(&own.cert),
        "--tls-key",
        &text(&own.key),
        "--tls-ca",
        &text(elsewhere.ca()),
    ];
    let wary = scene.dry_run("node01", &scene.source, &args).unwrap();
    expect_log(&wary.process, &["no stream to the writer", "--tls-ca"]).await.unwrap();
    drop(wary);

    // The rightful one is let in, and no other backend's Service was ever written.
    let discoverer = scene.discoverer("node01", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect(&scene.gimbal, "team1", "node01-web", &["10.1.0.1:8080"]).await.unwrap();
    discoverer.ready().await.unwrap();
    let services = scene.gimbal.admin().items("/api/v1/namespaces/team1/services").await.unwrap();
    assert_eq!(services.len(), 1, "{services:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_source_under_a_backends_name_waits_for_an_admin() {
    let scene = Scene::start().await.unwrap();
    let second = TestCluster::start().await.unwrap();
    second.bind(&second.user("discoverer").unwrap(), &discoverer_rights().unwrap()).await.unwrap();
    second.namespace("team1").await.unwrap();
    service(&scene.source, "first", &["10.1.0.1"]).await;
    service(&second, "second", &["10.2.0.1"]).await;
    let uid = async |cluster: &TestCluster| {
        let namespace = cluster.admin().get("/api/v1/namespaces/kube-system").await.unwrap();
        namespace["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let (old, new) = (uid(&scene.source).await, uid(&second).await);

    let config = scene.config(&["node02", "other"], "").unwrap();
    let port = free_port().unwrap();
    let mut writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let mut rightful = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    let _other = scene.discoverer("other", &scene.source, port, &[]).unwrap();
    Mirror::expect(&scene.gimbal, "team1", "node02-first", &["10.1.0.1:8080"]).await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "other-first", &["10.1.0.1:8080"]).await.unwrap();

    // Refused, and the connected discoverer goes on.
    let intruder = scene.discoverer("node02", &second, port, &[]).unwrap();
    expect_log(&intruder.process, &["no stream to the writer", "Incarnation", &old, &new]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let named = |backend: &Value| {
        let trouble = backend["trouble"].as_str().unwrap_or_default();
        [&old, &new, "ConfirmIncarnation"].iter().all(|part| trouble.contains(*part))
    };
    let backend = client.expect_backend("node02", "the trouble names both sources", named).await.unwrap();
    assert_eq!((&backend["connected"], &backend["sourceIncarnation"]), (&json!(true), &json!(old)));
    service(&scene.source, "first", &["10.1.0.1", "10.1.0.2"]).await;
    let both = ["10.1.0.1:8080", "10.1.0.2:8080"];
    let mirror = Mirror::expect(&scene.gimbal, "team1", "node02-first", &both).await.unwrap();

    // The writer keeps the incarnation.
    let map =
        scene.gimbal.admin().get("/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02").await.unwrap();
    assert_eq!(map["data"]["incarnation"], *old, "{map}");
    rightful.process.terminate(Duration::from_secs(5)).await.unwrap();
    writer.process.kill().unwrap();
    let writer = scene.writer_at(port, &config, &[]).await.unwrap();
    let backend = client.expect_backend("node02", "refused by the next writer as well", named).await.unwrap();
    assert_eq!((backend.get("connected"), &backend["sourceIncarnation"]), (None, &json!(old)));
    mirror.expect_unchanged(&scene.gimbal, Duration::from_millis(500)).await.unwrap();

    // The certificate's identity decides what may be read and done.
    let own = Grpcurl::tls(&scene.pki, &scene.pair("other").unwrap(), writer.port);
    let request = json!({"backend": "node02", "source_incarnation": new});
    for (method, request) in
        [("ConfirmIncarnation", request.clone()), ("Approve", json!({"backend": "other", "id": "x"}))]
    {
        let error = own.call(&format!("AdminService/{method}"), &request).unwrap_err().to_string();
        assert!(error.contains("PermissionDenied"), "{method}: {error}");
    }
    let backends = own.call("InspectionService/ListBackends", &json!({})).unwrap();
    let names: Vec<&Value> = backends["backends"].as_array().unwrap().iter().map(|backend| &backend["name"]).collect();
    assert_eq!(names, ["other"]);
    let error = own.call("InspectionService/ListServices", &json!({"backend": "node02"})).unwrap_err().to_string();
    assert!(error.contains("PermissionDenied"), "{error}");
    let services = own.call("InspectionService/ListServices", &json!({})).unwrap();
    let backends: Vec<&Value> = services["services"].as_array().unwrap().iter().map(|s| &s["backend"]).collect();
    assert_eq!(backends, ["other"]);
    let source = json!({"source": {"backend": "node02", "key": {"namespace": "team1", "name": "first"}}});
    let error = own.call("InspectionService/Explain", &source).unwrap_err().to_string();
    assert!(error.contains("PermissionDenied"), "{error}");
    let stranger = scene.pki.issue("stranger", &[San::Dns("stranger.example")]).unwrap();
    let stranger = Grpcurl::tls(&scene.pki, &stranger, writer.port);
    let error = stranger.call("InspectionService/ListBackends", &json!({})).unwrap_err().to_string();
    assert!(error.contains("PermissionDenied"), "{error}");
    mirror.expect_unchanged(&scene.gimbal, Duration::from_millis(1)).await.unwrap();

    // A mistyped incarnation locks no backend out.
    let slip = json!({"backend": "node02", "source_incarnation": "11111111-2222-3333-4444-555555555555"});
    let error = client.call("AdminService/ConfirmIncarnation", &slip).unwrap_err().to_string();
    assert!(error.contains("FailedPrecondition") && error.contains(&*new), "{error}");
    let confirm = format!("confirm {new} --backend node02");
    let confirmed = gimbalctl(&scene, port, &confirm).unwrap();
    assert_eq!(confirmed.out, format!("backend node02 is source {new} from now on, and no longer {old}\n"));
    Mirror::expect(&scene.gimbal, "team1", "node02-second", &["10.2.0.1:8080"]).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-first").await.unwrap();
    client.expect_backend("node02", "no trouble", |backend| backend.get("trouble").is_none()).await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "other-first", &both).await.unwrap();

    // From now on the first source is refused.
    let former = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect_log(&former.process, &["no stream to the writer", "Incarnation"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_dead_but_open_keeps_nobody_out_and_is_noticed() {
    let scene = Scene::start().await.unwrap();
    service(&scene.source, "web", &["10.1.0.1"]).await;
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let client = scene.ask(&writer).unwrap();
    let proxy = Proxy::start(&[writer.port]).await.unwrap();
    let old = scene.discoverer("node02", &scene.source, proxy.port, &[]).unwrap();
    old.ready().await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &["10.1.0.1:8080"]).await.unwrap();
    let before = client.backend("node02").unwrap();

    proxy.freeze();
    let frozen = Instant::now();
    let new = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    new.ready().await.unwrap();
    let after = client.backend("node02").unwrap();
    assert_eq!(after["connected"], true);
    assert_ne!(after["agentInstance"], before["agentInstance"]);
    service(&scene.source, "web", &["10.1.0.2"]).await;
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &["10.1.0.2:8080"]).await.unwrap();
    assert!(
        frozen.elapsed() < Duration::from_secs(12),
        "it won before the old one was noticed: {:?}",
        frozen.elapsed()
    );

    // Nothing comes through, so the agent has to notice by itself.
    expect_log(&old.process, &["no stream to the writer"]).await.unwrap();
    assert!(frozen.elapsed() < Duration::from_secs(20), "noticed after {:?}", frozen.elapsed());
    expect_metric(old.admin_port, "gimbal_discoverer_connected", "", 0.0).await.unwrap();
    assert_eq!(client.backend("node02").unwrap()["agentInstance"], after["agentInstance"]);
    expect_metric(new.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
}
