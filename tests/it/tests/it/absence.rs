//! An absent Service is deleted only when its absence is proven, and then once.

use gimbal_tests::{Discoverer, Mirror, SOON, Scene, slice_of, svc};

const OFTEN: [&str; 2] = ["--comparison-interval", "1s"];

async fn offer(scene: &Scene, name: &str) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "v4", 7, 3)).await.unwrap();
}

/// Starts an agent. Those of both backends watch the same source; `other` stays, and its changes show that the writer
/// still works.
fn agent(scene: &Scene, backend: &str, port: u16) -> Discoverer {
    scene.discoverer(backend, &scene.source, port, &[]).unwrap()
}

async fn arrived(scene: &Scene, name: &str) -> Mirror {
    Mirror::expect_count(&scene.gimbal, "team1", name, 3).await.unwrap()
}

/// Returns the writes to one Service and its slices since `mark`, in order.
async fn writes_to(scene: &Scene, mark: usize, name: &str) -> Vec<String> {
    let writes = scene.writes_since(mark).await.unwrap();
    let word = |write: &String| write.split(' ').take(2).collect::<Vec<_>>().join(" ");
    writes.iter().filter(|write| write.contains(&format!("/{name}"))).map(word).collect()
}

const DELETED: [&str; 2] = ["delete endpointslices", "delete services"];

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_agent_deletes_nothing_and_what_it_missed_is_deleted_once_when_it_is_back() {
    let scene = Scene::start().await.unwrap();
    for name in ["stays", "first", "second", "third", "fourth"] {
        offer(&scene, name).await;
    }
    let config = scene.config(&["node02", "other"], "").unwrap();
    let mut writer = scene.writer(&config, &OFTEN).await.unwrap();
    let mut lost = agent(&scene, "node02", writer.port);
    let mut other = agent(&scene, "other", writer.port);
    for name in ["stays", "first", "second", "third", "fourth"] {
        arrived(&scene, &format!("node02-{name}")).await;
        arrived(&scene, &format!("other-{name}")).await;
    }
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let before = scene.published().await.unwrap();
    let of_lost = |all: &std::collections::BTreeMap<String, String>| {
        all.iter().filter(|(name, _)| name.contains("/node02-")).map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>()
    };

    // Killed: the other agent's deletion is applied, this one's Service stays.
    lost.process.kill().unwrap();
    scene.remove("team1", "first").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "other-first").await.unwrap();
    assert_eq!(of_lost(&scene.published().await.unwrap()), of_lost(&before), "the agent is killed");

    // A writer that never heard of the agent deletes nothing either.
    writer.process.kill().unwrap();
    writer = scene.writer_at(writer.port, &config, &OFTEN).await.unwrap();
    scene.remove("team1", "second").await.unwrap();
    offer(&scene, "late").await;
    Mirror::expect_gone(&scene.gimbal, "team1", "other-second").await.unwrap();
    arrived(&scene, "other-late").await;
    writer.settled(1).await.unwrap();
    assert_eq!(of_lost(&scene.published().await.unwrap()), of_lost(&before), "the agent is unknown to the writer");

    // Back: what is gone is deleted, once, slices first; nothing else changes.
    lost = agent(&scene, "node02", writer.port);
    for name in ["node02-first", "node02-second"] {
        Mirror::expect_gone(&scene.gimbal, "team1", name).await.unwrap();
        assert_eq!(writes_to(&scene, mark, name).await, DELETED, "{name}");
    }
    arrived(&scene, "node02-late").await;
    writer.settled(2).await.unwrap();
    assert_eq!(writes_to(&scene, mark, "node02-stays").await, [""; 0]);

    // Deleted while the agent is away and the writer is not: the writer requests only the differences.
    lost.process.terminate(SOON).await.unwrap();
    scene.remove("team1", "third").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "other-third").await.unwrap();
    assert!(scene.published().await.unwrap().contains_key("/api/v1/services team1/node02-third"));
    lost = agent(&scene, "node02", writer.port);
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-third").await.unwrap();
    assert_eq!(writes_to(&scene, mark, "node02-third").await, DELETED);

    // Deleted while both are away.
    lost.process.kill().unwrap();
    writer.process.terminate(SOON).await.unwrap();
    scene.remove("team1", "fourth").await.unwrap();
    writer = scene.writer_at(writer.port, &config, &OFTEN).await.unwrap();
    lost = agent(&scene, "node02", writer.port);
    for name in ["node02-fourth", "other-fourth"] {
        Mirror::expect_gone(&scene.gimbal, "team1", name).await.unwrap();
        assert_eq!(writes_to(&scene, mark, name).await, DELETED, "{name}");
    }
    writer.settled(2).await.unwrap();
    for backend in ["node02", "other"] {
        assert_eq!(writes_to(&scene, mark, &format!("{backend}-stays")).await, [""; 0]);
    }
    for agent in [&mut lost, &mut other] {
        agent.process.terminate(SOON).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_deleted_while_the_writer_is_down_is_deleted_when_it_is_back() {
    let scene = Scene::start().await.unwrap();
    for name in ["gone", "reborn", "stays"] {
        offer(&scene, name).await;
    }
    let config = scene.config(&["node02"], "").unwrap();
    let mut writer = scene.writer(&config, &OFTEN).await.unwrap();
    let _agent = agent(&scene, "node02", writer.port);
    for name in ["gone", "reborn", "stays"] {
        arrived(&scene, &format!("node02-{name}")).await;
    }
    let mark = scene.gimbal.audit_mark().await.unwrap();

    writer.process.kill().unwrap();
    scene.remove("team1", "gone").await.unwrap();
    // Deleted and created again with the same content: no change is sent.
    scene.remove("team1", "reborn").await.unwrap();
    offer(&scene, "reborn").await;
    writer = scene.writer_at(writer.port, &config, &OFTEN).await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-gone").await.unwrap();
    writer.settled(1).await.unwrap();
    assert_eq!(writes_to(&scene, mark, "node02-gone").await, DELETED);
    assert_eq!(scene.writes_since(mark).await.unwrap().len(), 2);
}
