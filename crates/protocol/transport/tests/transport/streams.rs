//! Errors that a stream survives, and how it ends.

use std::time::{Duration, Instant};

use crate::common::{Pki, SOON, Server, heartbeat};
use bytes::{Buf as _, BufMut as _, Bytes};
use futures::StreamExt as _;
use gimbal_session::{AgentMessage, Credit, Goodbye, GoodbyeReason, Scope, WriterMessage};
use gimbal_transport::{Code, LinkError, WriterMessages, dial, open, pb};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;

async fn next(messages: &mut WriterMessages) -> Option<Result<WriterMessage, LinkError>> {
    tokio::time::timeout(SOON, messages.next()).await.unwrap()
}

fn goodbye(reason: GoodbyeReason) -> Goodbye {
    Goodbye { reason, message: "see you".into(), retry_after: Some(Duration::from_secs(1)) }
}

#[tokio::test]
async fn messages_pass_both_ways_over_tls() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let (sender, mut messages) =
        open::<gimbal_session::Services>(server.dial(Some(pki.client(&["a"]))).await.unwrap()).await.unwrap();
    let mut stream = server.stream().await;
    for backlog in 0..100 {
        sender.send(heartbeat(backlog)).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), heartbeat(backlog));
        let credit = WriterMessage::Credit(Credit { changes: 1, bytes: backlog });
        stream.outgoing.send(credit.clone()).await.unwrap();
        assert_eq!(next(&mut messages).await.unwrap().unwrap(), credit);
    }
    drop(sender);
    assert!(stream.next().await.is_none(), "the agent ended its side");
    stream.outgoing.send(WriterMessage::Ack(1)).await.unwrap();
    drop(stream);
    assert_eq!(next(&mut messages).await.unwrap().unwrap(), WriterMessage::Ack(1), "what was sent still arrives");
    assert!(next(&mut messages).await.is_none());
}

#[tokio::test]
async fn a_writer_that_does_not_read_stops_the_agent() {
    let mut server = Server::start(None).await;
    let (sender, _messages) = open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.unwrap();
    let mut stream = server.stream().await;
    // Text that zstd compresses little, so that windows fill.
    let noise: String = (0..100_000_u64).map(|n| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    let big = || AgentMessage::ScopeUnknown { scope: Scope::All, reason: noise[..1_000_000].to_owned() };
    let mut sent = 0;
    while let Ok(taken) = tokio::time::timeout(Duration::from_millis(500), sender.send(big())).await {
        taken.unwrap();
        sent += 1;
        assert!(sent < 20, "nothing holds the agent back");
    }
    for _ in 0..sent {
        stream.next().await.unwrap().unwrap();
    }
    sender.send(heartbeat(0)).await.unwrap();
}

/// A codec that sends raw bytes.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buf.copy_to_bytes(buf.remaining())))
    }
}

/// Opens a `Sync` stream of raw frames. Returns the sender and the responses.
async fn raw(server: &Server) -> (mpsc::Sender<Bytes>, tonic::Streaming<Bytes>) {
    let mut client = tonic::client::Grpc::new(server.dial(None).await.unwrap());
    client.ready().await.unwrap();
    let (sender, frames) = mpsc::channel(1);
    let path = PathAndQuery::from_static("/gimbal.discovery.v1.DiscoveryService/Sync");
    let request = tonic::Request::new(ReceiverStream::new(frames));
    (sender, client.streaming(request, path, Raw).await.unwrap().into_inner())
}

#[tokio::test]
async fn a_frame_that_cannot_be_decoded_does_not_end_the_stream() {
    let mut server = Server::start(None).await;
    let (sender, _answers) = raw(&server).await;
    let mut stream = server.stream().await;
    let good = |backlog| Bytes::from(prost::Message::encode_to_vec(&pb::SyncRequest::from(heartbeat(backlog))));
    // Decoding fails in the middle: a heartbeat (field 3) claims five bytes and has an invalid tag in them, then more
    // bytes follow.
    let bad = Bytes::from_static(&[0x1A, 5, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for round in 0..3 {
        sender.send(good(round)).await.unwrap();
        sender.send(bad.clone()).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), heartbeat(round));
        let message = stream.next().await.unwrap().unwrap();
        assert!(matches!(message, AgentMessage::Unreadable { .. }), "{message:?}");
    }
}

#[tokio::test]
async fn a_frame_that_is_too_large_is_refused_in_words_and_harms_nobody_else() {
    let mut server = Server::start(None).await;
    // An uncompressed frame, and one that is too large only after decompression.
    let (sender, mut answers) = raw(&server).await;
    let mut stream = server.stream().await;
    sender.send(vec![0; 2 << 20].into()).await.unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.is_final() && error.to_string().contains("too large: found 2097152 bytes"), "{error}");
    drop(stream);
    let status = answers.message().await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");

    let (sender, mut messages) = open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.unwrap();
    let mut stream = server.stream().await;
    sender.send(AgentMessage::ScopeUnknown { scope: Scope::All, reason: "x".repeat(2 << 20) }).await.unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("size limit"), "{error}");
    drop(stream);
    let error = next(&mut messages).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("size limit"), "{error}");

    let (sender, _messages) = open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.unwrap();
    sender.send(heartbeat(1)).await.unwrap();
    assert_eq!(server.stream().await.next().await.unwrap().unwrap(), heartbeat(1));
}

#[tokio::test]
async fn a_message_that_the_agent_cannot_read_does_not_end_the_stream() {
    let mut server = Server::start(None).await;
    let (_sender, mut messages) = open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.unwrap();
    let stream = server.stream().await;
    // An empty name, which the model allows and the protocol does not.
    let bad = WriterMessage::Resolved(gimbal_model::SourceKey::new("a", ""));
    stream.outgoing.send(bad).await.unwrap();
    stream.outgoing.send(WriterMessage::Ack(7)).await.unwrap();
    let error = next(&mut messages).await.unwrap().unwrap_err();
    assert!(!error.is_final(), "{error}");
    assert_eq!(next(&mut messages).await.unwrap().unwrap(), WriterMessage::Ack(7));
}

#[tokio::test]
async fn shutdown_lets_a_stream_say_goodbye() {
    let mut server = Server::start(None).await;
    let (_sender, mut messages) = open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.unwrap();
    let mut stream = server.stream().await;
    server.shutdown.cancel();
    assert!(stream.next().await.is_none(), "incoming ends first");
    let farewell = WriterMessage::Goodbye(goodbye(GoodbyeReason::Shutdown));
    stream.outgoing.send(farewell.clone()).await.unwrap();
    drop(stream);
    assert_eq!(next(&mut messages).await.unwrap().unwrap(), farewell);
    tokio::time::timeout(SOON, server.task).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn shutdown_waits_for_nobody_longer_than_two_seconds() {
    let mut server = Server::start(None).await;
    let (_sender, mut messages) = open::<gimbal_session::Services>(server.dial(None).await.unwrap()).await.unwrap();
    let stream = server.stream().await;
    let begun = Instant::now();
    server.shutdown.cancel();
    server.task.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    // The connection and the task of the stream have ended too, not only the server's future.
    let error = next(&mut messages).await.unwrap().unwrap_err();
    assert!(error.is_final(), "{error}");
    assert!(stream.release.is_closed());
    let url = format!("http://{}", server.address);
    assert!(dial(&url, None, SOON).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn a_connection_is_dialled_once() {
    let server = Server::start(None).await;
    let channel = server.dial(None).await.unwrap();
    server.shutdown.cancel();
    server.task.await.unwrap().unwrap();
    let error = open::<gimbal_session::Services>(channel).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("Unavailable") || error.to_string().contains("closed"), "{error}");
}
