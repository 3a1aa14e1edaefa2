//! A writer with several addresses: dead ones, standbys, and ones that stop responding.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::cloud::{Poll, Running};
use gimbal_testkit::eventually;
use gimbal_testkit::scripted_writer::{Said, ScriptedWriter};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Creates a listener whose queue is full, so that a dial gets no answer, as behind a firewall that drops packets.
async fn black_hole() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(stream);
    }
    (address, listener, waiting)
}

async fn offered(writers: &[&str], leader: &ScriptedWriter) -> (Running, Duration) {
    let begun = Instant::now();
    let cloud = Running::start(&["--writer", &writers.join(",")]).await;
    cloud.poll(Poll::of(&["a/web 10.0.0.1"])).await;
    leader.until_held(&["a/web 10.0.0.1"]).await;
    (cloud, begun.elapsed())
}

#[tokio::test]
async fn a_dead_address_keeps_nobody_from_the_next() {
    let leader = ScriptedWriter::start().await;
    let (silent, _listener, _waiting) = black_hole().await;
    // The kernel accepts the connection, but no process reads from it.
    let frozen = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let dead = [silent, frozen.local_addr().unwrap(), refused].map(|address| format!("http://{address}"));
    for dead in &dead {
        let (cloud, took) = offered(&[dead, &leader.url], &leader).await;
        assert!(took < Duration::from_secs(5), "{dead}: after {took:?}");
        cloud.stop().await;
    }
    let (cloud, took) = offered(&[&dead[0], &dead[1], &dead[2], &leader.url], &leader).await;
    assert!(took < Duration::from_secs(8), "after {took:?}");
    cloud.stop().await;
}

/// The leader is found at any position in the list, and again after another writer takes over.
#[tokio::test]
async fn who_does_not_lead_costs_one_dial() {
    let (first, second) = (ScriptedWriter::standby().await, ScriptedWriter::start().await);
    let (cloud, took) = offered(&[&first.url, &second.url], &second).await;
    assert!(took < Duration::from_secs(2), "after {took:?}");
    let hellos = |writer: &ScriptedWriter| writer.said().iter().filter(|said| matches!(said, Said::Hello(_))).count();
    assert_eq!((hellos(&first), hellos(&second)), (1, 1));

    first.lead(true);
    second.lead(false);
    let begun = Instant::now();
    first.until_held(&["a/web 10.0.0.1"]).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "after {:?}", begun.elapsed());
    assert_eq!(hellos(&second), 1, "it was not asked again");

    // No writer leads for a while, and then one does.
    first.lead(false);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let asked = hellos(&first) + hellos(&second);
    assert!(asked < 60, "{asked} times in three seconds");
    second.lead(true);
    let begun = Instant::now();
    cloud.poll(Poll::of(&["a/web 10.0.0.2"])).await;
    second.until_held(&["a/web 10.0.0.2"]).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "after {:?}", begun.elapsed());
    cloud.stop().await;
}

/// Readiness depends on the source only, not on the writer.
#[tokio::test]
async fn a_discoverer_is_ready_without_its_writer() {
    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let cloud = Running::start(&["--writer", &format!("http://{unused}")]).await;
    let (code, text) = cloud.get("/readyz").await;
    assert_eq!((code, text.contains("a complete list of the source")), (503, true), "{text}");
    assert!(!cloud.serves().await, "what it would answer with is not read yet");
    cloud.poll(Poll::of(&["a/web 10.0.0.1"])).await;
    cloud.ready().await;
    let serves = async || if cloud.serves().await { Ok(()) } else { Err("not yet") };
    eventually("grpc.health.v1 says the same", Duration::from_secs(30), serves).await.unwrap();
    cloud.stop().await;
}
