//! Open connections whose peer no longer responds. Takes half a minute of real time, because virtual time does not work
//! with real sockets.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::{Pki, Server, heartbeat};
use futures::StreamExt as _;
use gimbal_transport::{DialTarget, Patience, Problem, connect, dial, open, ways};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

/// The limit of 15 s, and a second for a busy machine.
const NOTICED: Duration = Duration::from_secs(16);

/// Forwards between clients and `target` until `silence`, then keeps every socket open and forwards nothing.
async fn proxy(target: SocketAddr, silence: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(target).await.unwrap();
            let (client, server) = (client.into_split(), server.into_split());
            for (mut from, mut to) in [(client.0, server.1), (server.0, client.1)] {
                let silence = silence.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 16 << 10];
                    let forward = async {
                        while let Ok(length @ 1..) = from.read(&mut buffer).await {
                            if to.write_all(&buffer[..length]).await.is_err() {
                                break;
                            }
                        }
                    };
                    if silence.run_until_cancelled(forward).await.is_none() {
                        std::future::pending::<()>().await;
                    }
                });
            }
        }
    });
    address
}

#[tokio::test]
async fn both_ends_notice_within_15_seconds() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let silence = CancellationToken::new();
    let address = proxy(server.address, silence.clone()).await;
    let url = format!("https://localhost:{}", address.port());
    let channel = dial(&url, Some(pki.client(&["a"])), crate::common::SOON).await.unwrap();
    let (sender, mut messages) = open::<gimbal_session::Services>(channel).await.unwrap();
    let mut stream = server.stream().await;
    sender.send(heartbeat(1)).await.unwrap();
    stream.next().await.unwrap().unwrap();

    // The stream is idle for longer than ping and answer take together: an idle connection is not dead.
    let quiet =
        tokio::time::timeout(Duration::from_secs(16), futures::future::select(messages.next(), stream.incoming.next()));
    assert!(quiet.await.is_err(), "a quiet connection was cut");

    silence.cancel();
    let begun = Instant::now();
    let agent = async {
        let end = messages.next().await;
        assert!(matches!(&end, Some(Err(error)) if error.is_final()), "{end:?}");
        begun.elapsed()
    };
    let writer = async {
        let end = stream.incoming.next().await;
        assert!(!matches!(end, Some(Ok(_))), "{end:?}");
        begun.elapsed()
    };
    let (agent, writer) = tokio::time::timeout(NOTICED * 2, futures::future::join(agent, writer)).await.unwrap();
    assert!(agent <= NOTICED && writer <= NOTICED, "agent after {agent:?}, writer after {writer:?}");
}

/// An agent with another address leaves a silent connection after two seconds, but not an idle one.
#[tokio::test]
async fn an_agent_with_another_address_leaves_after_two_seconds() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let silence = CancellationToken::new();
    let address = proxy(server.address, silence.clone()).await;
    let target = DialTarget::parse(&format!("https://localhost:{}", address.port()), true).unwrap();
    let ways = ways(&[target], crate::common::SOON).await.unwrap();
    let connected = connect(&ways, Some(&pki.client(&["a"])), Patience::Short, crate::common::SOON).await;
    let (_, channel) = connected.channel.unwrap();
    let (sender, mut messages) = open::<gimbal_session::Services>(channel).await.unwrap();
    let mut stream = server.stream().await;
    sender.send(heartbeat(1)).await.unwrap();
    stream.next().await.unwrap().unwrap();

    let quiet = tokio::time::timeout(Duration::from_secs(5), messages.next()).await;
    assert!(quiet.is_err(), "a quiet connection was cut: {quiet:?}");
    silence.cancel();
    let begun = Instant::now();
    let end = tokio::time::timeout(crate::common::SOON, messages.next()).await.unwrap();
    assert!(matches!(&end, Some(Err(error)) if error.is_final()), "{end:?}");
    assert!(begun.elapsed() < Duration::from_secs(4), "after {:?}", begun.elapsed());
}

/// A dial that one address refuses does not wait for another address that drops packets, because the first may be back
/// by then.
#[tokio::test]
async fn a_dial_that_leads_nowhere_is_over_soon() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let silent = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    let patience = Duration::from_millis(200);
    while let Ok(Ok(stream)) = tokio::time::timeout(patience, TcpStream::connect(silent)).await {
        waiting.push(stream);
    }
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let targets = [silent, refused].map(|address| DialTarget::parse(&format!("http://{address}"), false).unwrap());
    let ways = ways(&targets, crate::common::SOON).await.unwrap();
    let begun = Instant::now();
    let connected = connect(&ways, None, Patience::Short, crate::common::SOON).await;
    assert!(connected.channel.is_none());
    assert_eq!((connected.failed.len(), connected.tried), (2, 2));
    assert!(begun.elapsed() < Duration::from_secs(3), "after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_client_that_never_says_a_word_is_refused() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let refusal = tokio::time::timeout(NOTICED, server.refused.recv()).await.unwrap().unwrap();
    assert_eq!((refusal.problem, &*refusal.message), (Problem::Timeout, "no TLS handshake within 10 s"));
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "and its socket is closed");
}
