//! Hostile frames: sizes, numbers, kinds and ages that no honest agent sends.

use std::time::Duration;

use gimbal_model::SourceKey;
use gimbal_session::{
    AgentMessage, ChangeAge, Data, Frame, Freshness, GoodbyeReason, PieceChange, Scope, Summary, WriterMessage,
};
use gimbal_tests::Mirror;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic::codec::CompressionEncoding;

use super::siege::Siege;
use crate::bad_input::agent::{Agent, connect, hello, key, piece, replace, service, summary};

/// Returns the status that ends the stream.
async fn cut_off(agent: &mut Agent) -> Code {
    let end = async {
        loop {
            match agent.answers.next().await {
                Some(Ok(_)) => {}
                Some(Err(status)) => return status.code(),
                None => panic!("it ended without a status"),
            }
        }
    };
    tokio::time::timeout(gimbal_tests::SOON, end).await.expect("it goes on")
}

async fn acknowledged(agent: &mut Agent) {
    let wanted = agent.seq;
    agent.until(|message| matches!(message, WriterMessage::Ack(seq) if *seq >= wanted)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_frame_costs_more_than_its_own_stream() {
    let mut siege = Siege::begin().await;
    let kept = key("team1", "kept");
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;
    agent.delta(vec![replace(&kept, &["10.1.0.1"])]).await;
    let mirror = Mirror::expect(&siege.scene.gimbal, "team1", "hostile-kept", &["10.1.0.1:8080"]).await.unwrap();

    // Larger than a frame may be, plain and compressed: a gigabyte of zeros is 100 KiB of zstd.
    let mut cuts = 0.0;
    for (size, compression, code) in [
        (2 << 20, None, Code::OutOfRange),
        (5 << 20, None, Code::OutOfRange),
        (256 << 20, Some(CompressionEncoding::Zstd), Code::ResourceExhausted),
    ] {
        let bomber = Agent::open(connect(&siege.scene, &siege.writer).await, compression).await;
        bomber.say(hello()).await;
        let mut bomber = bomber.greeted().await;
        bomber.raw(vec![0; size]).await;
        assert_eq!(cut_off(&mut bomber).await, code, "{size}");
        cuts += 1.0;
        siege.expect_metric("broken_streams_total", "hostile", cuts).await;
    }
    let peak = memory(siege.writer.process.id());
    assert!(peak < 256 << 10, "the writer took {peak} KiB at a time");
    siege.unharmed().await;

    // Messages and frames of an unknown kind, as of a later version: each counts as a missing one and has no other
    // effect.
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;
    let unreadable = siege.metric("unreadable", "").await;
    let unknown_kind = [0x9a, 0x06, 0x02, 0x08, 0x01]; // Field 99: a message with field 1.
    let data_of_unknown_kind = [0x12, 0x06, 0x08, 0x01, 0x9a, 0x06, 0x01, 0x00]; // Data 1 of field 99.
    agent.raw(unknown_kind.to_vec()).await;
    agent.raw(data_of_unknown_kind.to_vec()).await;
    agent.asked_again("a message could not be read").await;
    siege.expect_metric("unreadable", "", unreadable + 2.0).await;
    siege.unharmed().await;

    // Sequence numbers: repeated, ahead, and the largest one.
    let again = vec![Ok(replace(&kept, &["10.6.6.6"]))];
    agent.delta(vec![replace(&kept, &["10.1.0.1"])]).await;
    let first = Frame::Delta { changes: again, age: ChangeAge { waited: Duration::MAX, caused: None } };
    agent.say(AgentMessage::Data(Data { seq: 1, frame: first.clone(), trace: None })).await;
    agent.say(AgentMessage::Data(Data { seq: 0, frame: first, trace: None })).await;
    agent.seq += 1000;
    agent.delta(vec![PieceChange::Remove(kept.clone())]).await;
    agent.asked_again("was expected and").await;
    agent.seq = u64::MAX - 1;
    agent.delta(vec![PieceChange::Remove(kept.clone())]).await;
    agent
        .say(AgentMessage::Data(Data { seq: 1, frame: Frame::SnapshotBegin { scope: Scope::All }, trace: None }))
        .await;
    agent.dismissed(GoodbyeReason::ProtocolError).await;
    mirror.expect_unchanged(&siege.scene.gimbal, Duration::from_millis(1)).await.unwrap();
    siege.unharmed().await;

    // Invalid snapshots: an end without a beginning, a count that no snapshot has, entries of another scope.
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;
    agent.frame(Frame::SnapshotEnd { summary: Summary::default() }).await;
    agent.snapshot(&[], Summary { count: u64::MAX, ..Summary::default() }).await;
    agent.asked_again("where the agent froze 18446744073709551615").await;
    let scope = Scope::Namespaces(vec!["theirs".into(), "kube-system".into()]);
    agent.frame(Frame::SnapshotBegin { scope }).await;
    let outside = [(key("own-1", "outside"), service(&["10.1.0.1"]))];
    agent
        .frame(Frame::SnapshotChunk { pieces: vec![Ok(piece(&outside[0].0, &outside[0].1))], digest: None, age: None })
        .await;
    agent.frame(Frame::SnapshotEnd { summary: summary(&outside) }).await;
    agent.asked_again("a part of the snapshot could not be read").await;
    // A complete and empty snapshot of others' namespaces: the backend had nothing there.
    let scope = Scope::Namespaces(vec!["theirs".into(), "kube-system".into(), "default".into()]);
    agent.frame(Frame::SnapshotBegin { scope: scope.clone() }).await;
    agent.frame(Frame::SnapshotEnd { summary: Summary::default() }).await;
    acknowledged(&mut agent).await;
    mirror.expect_unchanged(&siege.scene.gimbal, Duration::from_millis(1)).await.unwrap();
    siege.unharmed().await;

    // Unknown scopes: others' namespaces, and many that do not exist. Heartbeats: unknown kinds, and the largest age.
    agent.say(AgentMessage::ScopeUnknown { scope, reason: "forbidden\nlevel=ERROR".into() }).await;
    let shown = async |siege: &Siege, kind: &str| {
        let (_, text) = gimbal_tests::get(siege.writer.admin_port, "/metrics").await.unwrap();
        text.contains(&format!("kind=\"{kind}\""))
    };
    for round in 0..3 {
        let names = (0..20_000).map(|n| format!("r{round}n{n}").into()).collect();
        agent.say(AgentMessage::ScopeUnknown { scope: Scope::Namespaces(names), reason: "x".repeat(5000) }).await;
        let age = Some(Duration::from_millis(u64::MAX));
        let kinds = (0..60).map(|n| Freshness { kind: format!("r{round}k{n}"), age });
        let heartbeat =
            AgentMessage::Heartbeat { sources: kinds.collect(), backlog: u64::MAX, clock_ms: Some(i64::MIN) };
        siege
            .eventually("what it says is shown", async || {
                agent.say(heartbeat.clone()).await;
                shown(&siege, "other").await
            })
            .await;
        assert!(!shown(&siege, &format!("r{round}k59")).await, "an unknown kind makes no series of its own");
    }
    agent.delta(vec![PieceChange::Remove(key("team1", "absent"))]).await;
    acknowledged(&mut agent).await;
    let shown = siege.scene.ask(&siege.writer).unwrap().backend("hostile").unwrap();
    assert!(shown.to_string().len() < 100_000, "{shown}");
    siege.unharmed().await;

    // Only its own Services are removed by a snapshot that matches its summary.
    let own: [(SourceKey, _); 1] = [(key("own-1", "new"), service(&["10.1.0.7"]))];
    agent.snapshot(&own, summary(&own)).await;
    Mirror::expect(&siege.scene.gimbal, "own-1", "hostile-new", &["10.1.0.7:8080"]).await.unwrap();
    Mirror::expect_gone(&siege.scene.gimbal, "team1", "hostile-kept").await.unwrap();
    siege.unharmed().await;
    assert_eq!(siege.writer.process.exited().unwrap(), None);
}

/// While the API server is away nothing is acknowledged, and the agent goes on all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_beyond_the_credit_ends_its_stream_and_no_other() {
    let mut siege = Siege::begin().await;
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;
    siege.scene.gimbal.pause().unwrap();
    agent.delta(vec![replace(&key("team1", "kept"), &["10.1.0.1"])]).await;
    for frame in 0..9 {
        let removals = (0..1000).map(|n| PieceChange::Remove(key("team1", &format!("absent-{frame}-{n}"))));
        agent.delta(removals.collect()).await;
    }
    agent.dismissed(GoodbyeReason::ProtocolError).await;
    siege.scene.gimbal.resume().unwrap();
    siege.expect_metric("goodbyes_total", "ProtocolError", 1.0).await;
    siege.unharmed().await;
}

/// Returns the peak memory of a process, in KiB.
fn memory(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
