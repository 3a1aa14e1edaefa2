//! Hostile connections: connections and streams without end, and calls that are reserved for others.

use gimbal_session::{AgentMessage, ChangeAge, Data, Frame, PieceChange, RejectReason};
use gimbal_tests::{Grpcurl, Mirror, expect_log};
use gimbal_wire::pb::SyncRequest;
use prost::Message as _;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::siege::Siege;
use crate::bad_input::agent::{Agent, connect, key, replace};

#[tokio::test(flavor = "multi_thread")]
async fn however_many_doors_it_holds_others_come_in() {
    let mut siege = Siege::begin().await;
    let timeouts = siege.metric("handshake_failures_total", "Timeout").await;

    // Unfinished handshakes, more than are accepted at a time: half of them without a byte.
    let mut half_open = Vec::new();
    for number in 0..300 {
        let mut socket = TcpStream::connect(("127.0.0.1", siege.writer.port)).await.unwrap();
        if number % 2 == 0 {
            socket.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
        }
        half_open.push(socket);
    }
    // Existing connections continue; a new one waits until the handshakes time out, and no longer.
    siege.unharmed().await;
    siege.restart_honest().await;
    siege.unharmed().await;
    siege
        .eventually("they are counted", async || {
            siege.metric("handshake_failures_total", "Timeout").await >= timeouts + 300.0
        })
        .await;
    expect_log(&siege.writer.process, &["refused a connection", "no TLS handshake within"]).await.unwrap();

    // Connections, and streams on one of them, without a Hello: the last ones wait for the first.
    let mut connections = Vec::new();
    for _ in 0..100 {
        connections.push(connect(&siege.scene, &siege.writer).await);
    }
    let mut streams = JoinSet::new();
    for _ in 0..1000 {
        let channel = connections[0].clone();
        streams.spawn(async move { Agent::open(channel, None).await });
    }
    let opened: Vec<Agent> = {
        let mut opened = Vec::new();
        while opened.len() < 100 {
            opened.push(streams.join_next().await.unwrap().unwrap());
        }
        opened
    };
    siege.restart_honest().await;
    siege.unharmed().await;
    siege
        .eventually("who says no Hello is sent away", async || {
            siege.metric("refused_streams_total", "Timeout").await >= 100.0
        })
        .await;
    drop((opened, connections, half_open, streams));

    // An agent that never reads: the answers that wait for it are limited in number and time.
    let deaf = Agent::welcomed(&siege.scene, &siege.writer).await;
    let (long, closed) = ("x".repeat(240), "the agent does not read");
    let chatter = tokio::spawn(async move {
        // Less than ends the stream for what it says, and enough for more answers than the connection holds.
        for round in 1..=7 {
            let change = |n| Ok(replace(&key("kube-system", &format!("{long}{round}-{n}")), &[]));
            let frame = Frame::Delta { changes: (0..1000).map(change).collect(), age: ChangeAge::default() };
            let data = AgentMessage::Data(Data { seq: round, frame, trace: None });
            if deaf.sender.send(SyncRequest::from(data).encode_to_vec()).await.is_err() {
                break;
            }
        }
        // Its heartbeats continue.
        std::future::pending::<()>().await;
        drop(deaf);
    });
    // The writer ends the stream of an agent that does not read.
    expect_log(&siege.writer.process, &["gimbal_writer::agent_streams", closed, "hostile"]).await.unwrap();
    siege.unharmed().await;
    chatter.abort();
    assert!(siege.attackers().await.is_empty());
    assert_eq!(siege.writer.process.exited().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_sees_and_decides_nothing_of_others() {
    let mut siege = Siege::begin().await;
    let mut agent = Agent::welcomed(&siege.scene, &siege.writer).await;
    agent.delta(vec![replace(&key("team1", "own"), &["10.1.0.1"])]).await;
    let own = Grpcurl::tls(&siege.scene.pki, &siege.scene.pair("hostile").unwrap(), siege.writer.port);
    own.expect_synced("hostile", "team1", "own").await.unwrap();
    let refused = |method: &str, request: serde_json::Value| {
        let error = own.call(method, &request).unwrap_err().to_string();
        assert!(error.contains("PermissionDenied"), "{method} {request}: {error}");
        assert!(!error.contains("10.0.0.") && !error.contains("discoverer"), "{error}");
    };

    // Queries about other backends.
    let backends = own.call("InspectionService/ListBackends", &json!({})).unwrap();
    assert_eq!(backends["backends"].as_array().map(Vec::len), Some(1), "{backends}");
    assert!(!backends.to_string().contains("hostile-b"), "names that join its own: {backends}");
    let server = own.call("InspectionService/GetServer", &json!({})).unwrap();
    assert_eq!((&server["server"]["caller"]["only"], server["server"].get("rights")), (&json!("hostile"), None));
    refused("InspectionService/ListServices", json!({"backend": "hostile-b"}));
    refused("InspectionService/Watch", json!({"backend": "hostile-b"}));
    refused(
        "InspectionService/Explain",
        json!({"source": {"backend": "hostile-b", "key": {"namespace": "team1", "name": "web"}}}),
    );
    let target = json!({"target": {"namespace": "team1", "name": "hostile-b-web"}});
    let told = own.call("InspectionService/Explain", &target).unwrap();
    assert_eq!(told, json!({"reasons": ["the name belongs to another backend"]}));
    let services = own.call("InspectionService/ListServices", &json!({})).unwrap().to_string();
    assert!(services.contains("hostile-own") && !services.contains("hostile-b"), "{services}");
    let watch = ["-max-time", "2", "-d", "{}"];
    let watched = own.command(&watch, &["gimbal.discovery.v1.InspectionService/Watch"]).unwrap().output().unwrap();
    let watched = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.contains("snapshotDone") && watched.contains("hostile-own"), "{watched}");
    assert!(!watched.contains("hostile-b"), "{watched}");

    // A held removal of its own: the backend can approve it neither by its id nor by a guess.
    let many: Vec<String> = (0..40).map(|n| format!("10.1.1.{n}")).collect();
    let (many, held) = (many.iter().map(String::as_str).collect::<Vec<_>>(), key("team1", "own"));
    agent.delta(vec![replace(&held, &many[..39])]).await;
    Mirror::expect_count(&siege.scene.gimbal, "team1", "hostile-own", 39).await.unwrap();
    agent.delta(vec![PieceChange::Remove(held.clone())]).await;
    agent.rejected(&held, RejectReason::Held).await;
    let id = own.backend("hostile").unwrap()["heldChanges"][0]["id"].as_str().unwrap().to_owned();
    for (backend, id) in [("hostile", id.as_str()), ("hostile-b", &id), ("hostile", "guess"), ("hostile-b", "")] {
        refused("AdminService/Approve", json!({"backend": backend, "id": id}));
    }
    for backend in ["hostile", "hostile-b"] {
        refused("AdminService/ConfirmIncarnation", json!({"backend": backend, "sourceIncarnation": "mine"}));
        refused("AdminService/Decommission", json!({"backend": backend, "dryRun": true}));
        refused("AdminService/Decommission", json!({"backend": backend, "id": "guess"}));
    }
    let line = expect_log(&siege.writer.process, &["refused a call that is for admins", "Decommission", "hostile"]);
    line.await.unwrap();
    assert!(siege.attackers().await.contains(&"hostile-own".to_owned()), "what is held stays");
    siege.unharmed().await;
    // Even an administrator cannot approve it in the name of another backend.
    let admin = siege.scene.ask(&siege.writer).unwrap();
    let error = admin.call("AdminService/Approve", &json!({"backend": "hostile-b", "id": id})).unwrap_err();
    assert!(error.to_string().contains("NotFound"), "{error}");
    siege.unharmed().await;
}
