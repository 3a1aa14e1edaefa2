//! `gimbalctl diff` on real programs.

use gimbal_testkit::eventually;
use gimbal_tests::{Discoverer, Mirror, SOON, Scene, Writer, gimbalctl, slice_of, svc};
use serde_json::Value;

/// Compares the writer with a discoverer. Returns the exit code and the differences.
fn compared(scene: &Scene, writer: &Writer, discoverer: &Discoverer) -> (Option<i32>, Vec<String>) {
    let words = format!("diff --discoverer http://127.0.0.1:{} -o json", discoverer.port);
    let printed = gimbalctl(scene, writer.port, &words).unwrap();
    let line = |line| {
        let one: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {printed:?}"));
        let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {} {}", text("service"), text("at"), text("difference"), text("what"))
    };
    (printed.code, printed.out.lines().map(line).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_source_has_the_writer_holds_and_the_cluster_shows_is_compared() {
    let scene = Scene::start().await.unwrap();
    for cluster in [&scene.source, &scene.gimbal] {
        cluster.namespace("team2").await.unwrap();
    }
    scene.source.namespace("nowhere").await.unwrap();
    for (namespace, name) in [("team1", "web"), ("team2", "api"), ("nowhere", "lost")] {
        scene.put(&svc(namespace, name, &[("http", 80)])).await.unwrap();
        scene.put(&slice_of(namespace, name, "a", 1, 3)).await.unwrap();
    }
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer =
        scene.discoverer("node02", &scene.source, writer.port, &["--exclude-namespaces", "team2"]).unwrap();
    discoverer.ready().await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();

    // One end is not published as it should be.
    let (code, found) = compared(&scene, &writer, &discoverer);
    assert_eq!((code, found.len()), (Some(1), 1), "{found:?}");
    let words = ["nowhere/lost cluster missing rejected (namespace missing)", "namespace nowhere does not exist"];
    assert!(words.iter().all(|words| found[0].contains(words)), "{found:?}");
    scene.gimbal.namespace("nowhere").await.unwrap();
    eventually("nothing differs", SOON, async || {
        let (code, found) = compared(&scene, &writer, &discoverer);
        anyhow::ensure!((code, found.len()) == (Some(0), 0), "{found:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();

    // Another view of the same source: it has what the agent leaves out, and leaves out what the agent has.
    let other = scene.dry_run("node02", &scene.source, &["--exclude-namespaces", "nowhere"]).unwrap();
    other.ready().await.unwrap();
    drop(discoverer);
    scene.put(&slice_of("team1", "web", "a", 1, 5)).await.unwrap();
    let expected = [
        "nowhere/lost writer extra the source does not offer it",
        "team1/web writer different 3 endpoints, the source has 5; 3 ready endpoints, the source has 5; no writer is configured: a dry run",
        "team2/api writer missing no writer is configured: a dry run",
    ];
    eventually("three differences", SOON, async || {
        let (code, found) = compared(&scene, &writer, &other);
        anyhow::ensure!(code == Some(1) && found == expected, "{found:#?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    let words = format!("diff --discoverer http://127.0.0.1:{}", other.port);
    let table = gimbalctl(&scene, writer.port, &words).unwrap();
    assert!(table.out.starts_with("BACKEND  SERVICE") && table.error.contains("3 differences"), "{table:?}");

    // What cannot be compared is no difference.
    for words in ["diff --backend unheard-of", "diff --discoverer http://127.0.0.1:1", "diff --discoverer no-context"] {
        let printed = gimbalctl(&scene, writer.port, words).unwrap();
        assert_eq!(printed.code, Some(2), "{words}: {printed:?}");
    }
}
