//! `gimbalctl check` on real programs and real API servers: each check has to be right when all is well, and to fail alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use gimbal_testkit::process::binary;
use gimbal_testkit::{Pair, Pki, San, eventually, pki::backend_identity};
use gimbal_tests::{Mirror, SOON, Scene, Writer, slice_of, svc, writer_rights};
use serde_json::Value;

/// What one check said.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    result: String,
    found: String,
    hint: String,
}

/// The results of one run by check, those of a backend with its name, and the exit code.
type Checked = (Option<i32>, BTreeMap<String, Found>);

fn admin(scene: &Scene) -> Pair {
    scene.pki.issue("check-admin", &[San::Uri("spiffe://gimbal.example/admin")]).unwrap()
}

fn check(server: &str, pair: &Pair, ca: &Path, words: &[&str]) -> Checked {
    let mut command = Command::new(binary("gimbalctl").unwrap());
    command.args(["check", "-o", "json", "--server", server]).args(words);
    command.arg("--tls-cert").arg(&pair.cert).arg("--tls-key").arg(&pair.key).arg("--tls-ca").arg(ca);
    let output = tokio::task::block_in_place(|| command.output()).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let one = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let part = |key: &str| line[key].as_str().unwrap().to_owned();
        let id = part("check");
        let of = part("of");
        let key = if id.starts_with("backend") && !of.contains("://") { format!("{id} {of}") } else { id };
        (key, Found { result: part("result"), found: part("found"), hint: part("hint") })
    };
    (output.status.code(), text.lines().map(one).collect())
}

fn of_writer(scene: &Scene, writer: &Writer) -> Checked {
    check(&format!("https://localhost:{}", writer.port), &admin(scene), scene.pki.ca(), &[])
}

/// The checks that are not as they should be, with their results.
fn bad((_, results): &Checked) -> Vec<String> {
    let bad = results.iter().filter(|(_, found)| found.result != "ok");
    bad.map(|(key, found)| format!("{key} {}", found.result)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_is_well_and_then_one_thing_after_the_other_is_not() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();

    let url = format!("https://localhost:{}", writer.port);
    let (pair, ca) = (admin(&scene), scene.pki.ca().to_owned());
    let well = check(&url, &pair, &ca, &["--wait", "30"]);
    assert_eq!((well.0, bad(&well)), (Some(0), Vec::new()), "{well:?}");
    let expected = "client.authorities client.certificate client.chain client.identity server.answers server.certificate server.chain \
                    server.clock server.reached server.rights server.version writer.leads";
    let keys: Vec<&str> = well.1.keys().map(String::as_str).filter(|key| !key.starts_with("backend")).collect();
    assert_eq!(keys.join(" "), expected);
    assert_eq!(well.1.len() - keys.len(), 14, "each check of a backend: {well:?}");
    assert!(well.1["client.identity"].found.contains("spiffe://gimbal.example/admin"), "{well:?}");

    // The discoverer, by any process of its machine.
    let mut own = Command::new(binary("gimbalctl").unwrap());
    own.args(["check", "-o", "json", "--server", &format!("http://127.0.0.1:{}", discoverer.port)]);
    let own = tokio::task::block_in_place(|| own.output()).unwrap();
    let text = String::from_utf8(own.stdout).unwrap();
    let results: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has_rights = results.iter().any(|line| line["check"] == "server.rights" && line["result"] == "ok");
    assert!(own.status.success() && has_rights, "{text}");

    // A backend's certificate is no administrator's, and does not see what rights the writer lacks.
    let of_backend = check(&url, &scene.pair("node02").unwrap(), &ca, &[]);
    assert_eq!(bad(&of_backend), ["client.identity warn", "server.rights skip"], "{of_backend:?}");

    the_right_is_missing(&scene, &writer).await;
    certificates_do_not_fit(&scene, &url, &pair);

    // An agent with the certificate of a backend that is not listed calls itself by the name of one that is.
    let wrong = scene.discoverer_as(&scene.pair("node03").unwrap(), "node02", &scene.source, writer.port, &[]).unwrap();
    eventually("it learns by which name it came", SOON, async || {
        let checked = of_writer(&scene, &writer);
        let identity = &checked.1["backend.identity node02"];
        anyhow::ensure!(identity.result == "warn" && checked.0 == Some(0), "{checked:?}");
        anyhow::ensure!(identity.found.contains(&backend_identity("node03")), "{identity:?}");
        anyhow::ensure!(identity.hint.contains(&backend_identity("node02")), "{identity:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    drop(wrong);

    // Another backend whose names join, and then one that nothing lists any more.
    scene.config(&["node02", "node02-b"], "").unwrap();
    eventually("the names join", SOON, async || {
        let found = bad(&of_writer(&scene, &writer));
        let joins = ["node02", "node02-b"].map(|name| format!("backend.names {name} warn"));
        anyhow::ensure!(joins.iter().all(|join| found.contains(join)), "{found:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    scene.config(&["other"], "").unwrap();
    eventually("what is left has no owner", SOON, async || {
        let checked = of_writer(&scene, &writer);
        let orphans = checked.1.get("backend.orphans node02");
        let told = orphans.is_some_and(|found| found.result == "warn" && found.found.starts_with("3 endpoints"));
        anyhow::ensure!(told && !bad(&checked).contains(&"backend.connected node02 fail".to_owned()), "{checked:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

/// Takes a right from the writer, and gives it back.
async fn the_right_is_missing(scene: &Scene, writer: &Writer) {
    let user = scene.gimbal.user("writer").unwrap();
    scene.gimbal.bind(&user, &writer_rights().unwrap().without("endpointslices/restricted")).await.unwrap();
    let is = async |result: &str, words: &str| {
        eventually("the right is missed, or is there", SOON, async || {
            let checked = of_writer(scene, writer);
            let rights = &checked.1["server.rights"];
            anyhow::ensure!(rights.result == result && rights.found == words, "{rights:?}");
            anyhow::ensure!(checked.0 == Some(i32::from(result == "fail")), "{checked:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await
        .unwrap();
    };
    is("fail", "it may not create endpointslices/restricted.discovery.k8s.io").await;
    scene.gimbal.bind(&user, &writer_rights().unwrap()).await.unwrap();
    is("ok", "").await;
}

/// Certificates that one of both ends does not accept: the one that is wrong is named, and nothing else fails.
fn certificates_do_not_fit(scene: &Scene, url: &str, pair: &Pair) {
    let failed = |checked: &Checked| {
        let fails = checked.1.iter().filter(|(_, found)| found.result == "fail").map(|(key, _)| key.clone());
        fails.collect::<Vec<_>>()
    };
    let other = Pki::create(scene.path("another authority")).unwrap();
    let strange = other.issue("admin", &[San::Uri("spiffe://gimbal.example/admin")]).unwrap();
    // Ours is not of the server's authority, and what it shows is not of ours.
    let checked = check(url, &strange, scene.pki.ca(), &[]);
    assert_eq!((checked.0, failed(&checked)), (Some(1), vec!["client.chain".to_owned()]), "{checked:?}");
    assert_eq!(checked.1["server.chain"].result, "ok");
    let checked = check(url, &strange, other.ca(), &[]);
    assert_eq!(failed(&checked), ["server.chain"], "{checked:?}");
    assert_eq!(checked.1["backend"].result, "skip");
    // One of the right authority, by which the server knows no client.
    let stranger = scene.pki.issue("stranger", &[San::Uri("spiffe://gimbal.example/stranger")]).unwrap();
    let checked = check(url, &stranger, scene.pki.ca(), &[]);
    assert_eq!(failed(&checked), ["client.identity"], "{checked:?}");
    assert!(checked.1["client.identity"].found.contains("spiffe://gimbal.example/stranger"), "{checked:?}");
    // An expired one, and one that is not there.
    let expired = scene.pki.issue_expired("expired", &[San::Uri("spiffe://gimbal.example/admin")]).unwrap();
    let checked = check(url, &expired, scene.pki.ca(), &[]);
    assert_eq!(failed(&checked), ["client.certificate", "client.chain"], "{checked:?}");
    let missing = Pair { cert: scene.path("none.pem"), key: pair.key.clone() };
    let checked = check(url, &missing, scene.pki.ca(), &[]);
    assert_eq!(failed(&checked), ["client.certificate", "client.chain"], "{checked:?}");
    assert_eq!(checked.1["server.reached"].result, "skip");
    // No server is there.
    let checked = check("https://localhost:1", pair, scene.pki.ca(), &[]);
    assert_eq!(failed(&checked), ["server.reached"], "{checked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_refused_by_its_source_lacks_rights() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", "web", "a", 1, 3)).await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    scene.source.revoke(&scene.source.user("discoverer").unwrap()).await.unwrap();
    // A watch that is open goes on: the API server has to end it.
    scene.source.stop_apiserver().unwrap();
    scene.source.start_apiserver().await.unwrap();
    eventually("the source refuses", SOON * 2, async || {
        let found = bad(&of_writer(&scene, &writer));
        anyhow::ensure!(found.contains(&"backend.rights node02 fail".to_owned()), "{found:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    // Who is away learns by which name it would be known.
    drop(discoverer);
    eventually("it is away", SOON, async || {
        let away = of_writer(&scene, &writer).1["backend.connected node02"].clone();
        anyhow::ensure!(away.result == "fail" && away.hint.contains(&backend_identity("node02")), "{away:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}
