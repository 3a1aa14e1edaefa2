//! The policies of the configuration file, and the effect of their changes, with real binaries.

use gimbal_testkit::{Rights, eventually};
use gimbal_tests::{Ep, Grpcurl, Mirror, SOON, Scene, expect_log, expect_metric, metric, put, slice, slice_of, svc};
use serde_json::{Value, json};

async fn offer(scene: &Scene, namespace: &str, name: &str, first: u32, count: u32) {
    scene.source.namespace(namespace).await.unwrap();
    scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of(namespace, name, "v4", first, count)).await.unwrap();
}

/// Writes a file and waits until the writer has loaded it.
async fn reload(scene: &Scene, admin_port: u16, backends: &[&str], policy: &str) {
    let taken = metric(admin_port, "gimbal_writer_config_reloads_total", "taken").await.unwrap();
    scene.config(backends, policy).unwrap();
    expect_metric(admin_port, "gimbal_writer_config_reloads_total", "taken", taken + 1.0).await.unwrap();
}

fn held_change(backend: &Value) -> Option<&str> {
    backend["heldChanges"][0]["id"].as_str()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_wrong_is_told_once_and_changes_nothing() {
    let scene = Scene::start().await.unwrap();
    offer(&scene, "team1", "web", 7, 3).await;
    let config = scene.config(&["node02"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    let ask = scene.ask(&writer).unwrap();
    let generation = ask.backend("node02").unwrap()["generation"].clone();
    let mark = scene.gimbal.audit_mark().await.unwrap();

    scene.config(&["node02"], "namespaces: {alow: [team1]}").unwrap();
    let place = format!("{}:5:16: unknown field `alow`", config.display());
    expect_log(&writer.process, &["ERROR", &place, "stays in force"]).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_config_file_good", "", 0.0).await.unwrap();
    // The backend would be in quarantine if a part of the file were loaded.
    scene.config(&["node02"], "mode: quarantine\nmode: off").unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_config_reloads_total", "refused", 2.0).await.unwrap();
    scene.put(&slice_of("team1", "web", "v4", 7, 4)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 4).await.unwrap();
    assert_eq!(writer.process.log().matches("stays in force").count(), 2, "each content is logged once");

    // Valid again, with another backend and no change for this one: its stream goes on, and nothing is written.
    reload(&scene, writer.admin_port, &["node02", "node03"], "").await;
    expect_metric(writer.admin_port, "gimbal_writer_config_file_good", "", 1.0).await.unwrap();
    offer(&scene, "team1", "other", 9, 1).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-other", 1).await.unwrap();
    assert_eq!(ask.backend("node02").unwrap()["generation"], generation);
    assert_eq!(ask.backend("node03").unwrap()["policy"]["listed"], true);
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!(writes.len(), 3, "one change, and one Service that came: {writes:?}");

    // An agent of the new backend is accepted; then its backend is removed from the file.
    let _other = scene.discoverer("node03", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node03-web", 4).await.unwrap();
    reload(&scene, writer.admin_port, &["node02"], "").await;
    let gone = |backend: &Value| backend["connected"].is_null() && backend["policy"]["listed"].is_null();
    ask.expect_backend("node03", "it is refused and still shown", gone).await.unwrap();
    let metrics = "gimbal_writer_refused_streams_total";
    eventually("its agent is refused", SOON, async || {
        let refused = metric(writer.admin_port, metrics, "UnknownBackend").await?;
        anyhow::ensure!(refused >= 1.0, "{refused}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node03-web", 4).await.unwrap();
    assert_eq!(ask.backend("node02").unwrap()["generation"], generation);
}

/// The filter is changed to exclude what is published.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_change_of_namespaces_excludes_is_removed_through_the_guard() {
    let scene = Scene::start().await.unwrap();
    for namespace in ["team2", "team3"] {
        scene.gimbal.namespace(namespace).await.unwrap();
    }
    offer(&scene, "team1", "web", 7, 5).await;
    offer(&scene, "team2", "web", 20, 30).await;
    let config = scene.config(&["node02"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 5).await.unwrap();
    let there = Mirror::expect_count(&scene.gimbal, "team2", "node02-web", 30).await.unwrap();
    let (ask, ask_agent) = (scene.ask(&writer).unwrap(), agent.ask());
    let mark = scene.gimbal.audit_mark().await.unwrap();

    reload(&scene, writer.admin_port, &["node02"], "namespaces: {deny: [team2]}").await;
    for ask in [&ask, &ask_agent] {
        let message = ask.expect_rejected("node02", "team2", "web", "NAMESPACE_FORBIDDEN").await.unwrap();
        assert!(message.contains("denied to this backend"), "{message}");
    }
    let held = ask.expect_backend("node02", "the removal is held", |b| held_change(b).is_some()).await.unwrap();
    assert_eq!(held["heldChanges"][0]["endpointsRemoved"], "30");
    let key = json!({"target": {"namespace": "team2", "name": "node02-web"}});
    let why = ask.call("InspectionService/Explain", &key).unwrap();
    assert!(why["reasons"].to_string().contains("denied to this backend"), "{why}");
    assert_eq!(Mirror::get(&scene.gimbal, "team2", "node02-web").await.unwrap(), Some(there));
    assert!(scene.writes_since(mark).await.unwrap().is_empty());
    let approve = json!({"backend": "node02", "id": held_change(&held).unwrap()});
    ask.call("AdminService/Approve", &approve).unwrap();
    Mirror::expect_gone(&scene.gimbal, "team2", "node02-web").await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 5).await.unwrap();

    // Allowed again, without any message of the agent; then mapped to another namespace, where it is created first.
    reload(&scene, writer.admin_port, &["node02"], "").await;
    Mirror::expect_count(&scene.gimbal, "team2", "node02-web", 30).await.unwrap();
    for ask in [&ask, &ask_agent] {
        ask.expect_synced("node02", "team2", "web").await.unwrap();
    }
    let mark = scene.gimbal.audit_mark().await.unwrap();
    reload(&scene, writer.admin_port, &["node02"], "namespaces: {map: {team2: team3}}").await;
    Mirror::expect_count(&scene.gimbal, "team3", "node02-web", 30).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team2", "node02-web").await.unwrap();
    let writes = scene.writes_since(mark).await.unwrap();
    let verbs: Vec<&str> = writes.iter().filter_map(|write| write.split(' ').next()).collect();
    assert_eq!(verbs, ["create", "create", "delete", "delete"], "{writes:?}");

    // Changed while the writer is down and the agent away: no agent has to send anything.
    drop(agent);
    drop(writer);
    let guardless = "namespaces: {allow: [team1]}\nguard: {maxDropPercent: 100}";
    let writer = scene.writer(&scene.config(&["node02"], guardless).unwrap(), &[]).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team3", "node02-web").await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 5).await.unwrap();
    drop(writer);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_created_where_the_policy_says_so() {
    let scene = Scene::start().await.unwrap();
    offer(&scene, "team7", "web", 7, 3).await;
    offer(&scene, "team7", "api", 10, 3).await;
    let writer = scene.writer(&scene.config(&["node02"], "namespaces: {create: true}").unwrap(), &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    // Without the right to create it.
    let ask = agent.ask();
    eventually("the agent hears why", SOON, async || {
        let message = ask.expect_rejected("node02", "team7", "web", "NAMESPACE_MISSING").await?;
        anyhow::ensure!(message.contains("could not be created") && message.contains("forbidden"), "{message}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let user = scene.gimbal.user("writer").unwrap();
    let rights = Rights::deployed(&["gimbal-writer", "gimbal-writer-namespaces"]).unwrap();
    scene.gimbal.bind(&user, &rights.in_namespace("kube-system")).await.unwrap();
    for name in ["node02-web", "node02-api"] {
        Mirror::expect_count(&scene.gimbal, "team7", name, 3).await.unwrap();
    }
    let namespace = scene.gimbal.admin().get("/api/v1/namespaces/team7").await.unwrap();
    let labels = &namespace["metadata"]["labels"];
    assert_eq!(labels["gimbal.projectcontour.io/created-by"], "gimbal-writer");
    assert_eq!(labels["gimbal.projectcontour.io/backend"], "node02");
    ask.expect_synced("node02", "team7", "web").await.unwrap();
}

/// A source that offers forbidden addresses, through an honest agent.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_a_backends_are_left_out_and_a_change_is_applied_at_once() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    let v4 = ["10.1.0.1", "10.96.0.1", "192.0.2.1", "10.2.0.1"].map(Ep::Ready);
    scene.put(&slice("team1", "web", "v4", &[("http", 80)], &v4)).await.unwrap();
    let v6 = ["fd00::1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"].map(Ep::Ready);
    scene.put(&slice("team1", "web", "v6", &[("http", 80)], &v6)).await.unwrap();
    let policy = "addresses: {allow: [10.0.0.0/8, \"fd00::/8\", \"64:ff9b::/96\", \"2002::/16\"]}";
    let config = scene.config(&["node02"], policy).unwrap();
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("refusedAddresses: [10.96.0.0/12]\n{text}")).unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let wanted = ["10.1.0.1:8080", "10.2.0.1:8080", "fd00::1:8080"];
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &wanted).await.unwrap();
    for ask in [&scene.ask(&writer).unwrap(), &agent.ask()] {
        ask.expect_rejected("node02", "team1", "web", "ADDRESS_REFUSED").await.unwrap();
    }
    let mark = scene.gimbal.audit_mark().await.unwrap();
    reload(&scene, writer.admin_port, &["node02"], "addresses: {allow: [10.2.0.0/16, \"fd00::/8\"]}").await;
    Mirror::expect(&scene.gimbal, "team1", "node02-web", &["10.2.0.1:8080", "fd00::1:8080"]).await.unwrap();
    assert_eq!(scene.writes_since(mark).await.unwrap().len(), 1);
    // A change of what is stripped takes effect at once, too: the label `app` of all objects.
    reload(&scene, writer.admin_port, &["node02"], "strip: {labels: [app]}\naddresses: {allow: [10.2.0.0/16]}").await;
    Mirror::expect_that(&scene.gimbal, "team1", "node02-web", |mirror| {
        let labels = &mirror.service["metadata"]["labels"];
        anyhow::ensure!(labels["app"].is_null(), "{labels}");
        Ok(())
    })
    .await
    .unwrap();
}

/// The loser of a name does not learn the name's owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_all_that_the_loser_hears() {
    let scene = Scene::start().await.unwrap();
    // Backend "node" with "02-web" and backend "node-02" with "web" want one name.
    offer(&scene, "team1", "02-web", 7, 3).await;
    let config = scene.config(&["node", "node-02"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let _first = scene.discoverer("node", &scene.source, writer.port, &[]).unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node-02-web", 3).await.unwrap();
    put(&scene.source, &svc("team1", "web", &[("http", 80)])).await.unwrap();
    let second = scene.discoverer("node-02", &scene.source, writer.port, &[]).unwrap();
    let ask = scene.ask(&writer).unwrap();
    for ask in [&ask, &second.ask()] {
        let message = ask.expect_rejected("node-02", "team1", "web", "NAME_CONFLICT").await.unwrap();
        assert_eq!(message, "the name team1/node-02-web is taken");
    }
    assert!(!second.process.log().contains("backend node\""), "{}", second.process.log_tail());
    let target = json!({"target": {"namespace": "team1", "name": "node-02-web"}});
    let own = Grpcurl::tls(&scene.pki, &scene.pair("node-02").unwrap(), writer.port);
    let answer = own.call("InspectionService/Explain", &target).unwrap();
    assert_eq!(answer["reasons"], json!(["the name belongs to another backend"]));
    let answer = ask.call("InspectionService/Explain", &target).unwrap();
    assert!(answer["reasons"].to_string().contains("team1/02-web of backend node"), "an admin learns it: {answer}");
}
