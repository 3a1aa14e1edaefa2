//! An agent for which the test chooses every byte.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{
    Conditions, DigestTree, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey,
};
use gimbal_session::{
    AgentMessage, ChangeAge, Data, Frame, GoodbyeReason, Hello, Need, Piece, PieceChange, RejectReason, Scope, Summary,
    WriterMessage,
};
use gimbal_tests::{SOON, Scene as Clusters, Writer};
use gimbal_transport::{Channel, ClientTls, TlsFiles, client_tls, dial};
use gimbal_wire::pb;
use prost::Message as _;
use prost::bytes::{Buf as _, BufMut as _};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Status, Streaming};

/// Sends and receives bytes unchanged.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; buf.remaining()];
        buf.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}

/// An agent of backend `hostile` for which the test chooses every byte.
pub struct Agent {
    pub sender: mpsc::Sender<Vec<u8>>,
    pub answers: Streaming<Vec<u8>>,
    pub seq: u64,
}

impl Agent {
    pub async fn dial(scene: &Clusters, writer: &Writer) -> Self {
        Self::open(connect(scene, writer).await, None).await
    }

    /// Opens a stream over a connection that may have others.
    pub async fn open(channel: Channel, compression: Option<CompressionEncoding>) -> Self {
        let (sender, messages) = mpsc::channel(1);
        let mut client = tonic::client::Grpc::new(channel);
        if let Some(compression) = compression {
            client = client.send_compressed(compression);
        }
        client.ready().await.unwrap();
        let path = "/gimbal.discovery.v1.DiscoveryService/Sync".parse().unwrap();
        let request = tonic::Request::new(ReceiverStream::new(messages));
        let answers = client.streaming(request, path, Raw).await.unwrap().into_inner();
        Self { sender, answers, seq: 0 }
    }

    pub async fn welcomed(scene: &Clusters, writer: &Writer) -> Self {
        let agent = Self::dial(scene, writer).await;
        agent.say(hello()).await;
        agent.greeted().await
    }

    /// Waits for the Welcome that answers the Hello. The agent sends heartbeats from now on.
    pub async fn greeted(self) -> Self {
        let mut agent = self;
        // Heartbeats keep silence from ending the stream.
        let sender = agent.sender.clone();
        tokio::spawn(async move {
            let alive =
                pb::SyncRequest::from(AgentMessage::Heartbeat { sources: Vec::new(), backlog: 0, clock_ms: None });
            while sender.send(alive.encode_to_vec()).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        let welcome = agent.until(|message| matches!(message, WriterMessage::Welcome(_))).await;
        let WriterMessage::Welcome(welcome) = welcome else { unreachable!() };
        assert_ne!(welcome.need, Need::Nothing, "no agent of this test holds what it says");
        assert_eq!(welcome.backend, "hostile");
        agent
    }

    pub async fn raw(&self, bytes: Vec<u8>) {
        self.sender.send(bytes).await.expect("the stream is over");
    }

    pub async fn say(&self, message: AgentMessage) {
        self.raw(pb::SyncRequest::from(message).encode_to_vec()).await;
    }

    pub async fn frame(&mut self, frame: Frame) {
        self.seq += 1;
        self.say(AgentMessage::Data(Data { seq: self.seq, frame, trace: None })).await;
    }

    pub async fn delta(&mut self, changes: Vec<PieceChange>) {
        let changes = changes.into_iter().map(Ok).collect();
        self.frame(Frame::Delta { changes, age: ChangeAge::default() }).await;
    }

    pub async fn snapshot(&mut self, services: &[(SourceKey, Service)], summary: Summary) {
        self.frame(Frame::SnapshotBegin { scope: Scope::All }).await;
        let pieces = services.iter().map(|(key, service)| Ok(piece(key, service))).collect();
        self.frame(Frame::SnapshotChunk { pieces, digest: None, age: None }).await;
        self.frame(Frame::SnapshotEnd { summary }).await;
    }

    /// Returns the next answer that `wanted` accepts, and skips those before it.
    pub async fn until(&mut self, wanted: impl Fn(&WriterMessage) -> bool) -> WriterMessage {
        let search = async {
            while let Some(bytes) = self.answers.next().await {
                let answer = pb::SyncResponse::decode(&*bytes.expect("the stream ended")).unwrap();
                let answer = gimbal_wire::writer_message(answer).unwrap();
                if wanted(&answer) {
                    return answer;
                }
            }
            panic!("the stream ended");
        };
        tokio::time::timeout(SOON, search).await.expect("no such answer came")
    }

    pub async fn rejected(&mut self, key: &SourceKey, reason: RejectReason) -> String {
        let is = |message: &WriterMessage| matches!(message, WriterMessage::Reject(r) if r.key.as_ref() == Some(key));
        let WriterMessage::Reject(reject) = self.until(is).await else { unreachable!() };
        assert_eq!(reject.reason, reason, "{reject:?}");
        reject.message
    }

    pub async fn asked_again(&mut self, parts: &str) {
        let is = |m: &WriterMessage| matches!(m, WriterMessage::Resync { reason, .. } if reason.contains(parts));
        self.until(is).await;
    }

    pub async fn dismissed(&mut self, reason: GoodbyeReason) {
        let goodbye = self.until(|message| matches!(message, WriterMessage::Goodbye(_))).await;
        let WriterMessage::Goodbye(goodbye) = goodbye else { unreachable!() };
        assert_eq!(goodbye.reason, reason, "{goodbye:?}");
    }
}

/// Connects with the certificate of `hostile`.
pub async fn connect(scene: &Clusters, writer: &Writer) -> Channel {
    let pair = scene.pair("hostile").unwrap();
    let files = TlsFiles { cert: pair.cert, key: pair.key, ca: scene.pki.ca().to_owned() };
    let tls: ClientTls = client_tls(&files).unwrap();
    dial(&format!("https://localhost:{}", writer.port), Some(tls), SOON).await.unwrap()
}

pub fn hello() -> AgentMessage {
    AgentMessage::Hello(Hello {
        protocol: (1, 1),
        backend: "hostile".into(),
        agent_instance: "of-the-test".into(),
        source_incarnation: "hostile-source".into(),
        held: Some(Summary { count: 1, ..Summary::default() }),
        agent_version: "hostile/1".into(),
        capabilities: Default::default(),
    })
}

pub fn key(namespace: &str, name: &str) -> SourceKey {
    SourceKey::new(namespace, name)
}

pub fn service(addresses: &[&str]) -> Service {
    let port =
        ServicePort { name: "http".into(), port: 80, protocol: Protocol::Tcp, app_protocol: None, target_port: None };
    let header = Header { ports: vec![port], ..Header::default() };
    let ports = PortSet::new(vec![EndpointPort {
        name: "http".into(),
        port: Some(8080),
        protocol: Protocol::Tcp,
        app_protocol: None,
    }]);
    let conditions = Conditions { ready: true, serving: true, terminating: false };
    let endpoint = |text: &&str| {
        let address: IpAddr = text.parse().unwrap();
        (ports.clone(), Endpoint { address, conditions, detail: None })
    };
    Service::new(Arc::new(header), addresses.iter().map(endpoint))
}

pub fn piece(key: &SourceKey, service: &Service) -> Piece {
    let endpoints = service.endpoints().map(|(ports, endpoint)| (ports.clone(), endpoint)).collect();
    Piece { key: key.clone(), header: Some(service.header.clone()), parts: endpoints, more: false }
}

pub fn replace(key: &SourceKey, addresses: &[&str]) -> PieceChange {
    PieceChange::Replace(piece(key, &service(addresses)))
}

pub fn summary(services: &[(SourceKey, Service)]) -> Summary {
    let tree = DigestTree::of(services.iter().map(|(key, service)| (key, service)));
    Summary { count: tree.count(), digest: tree.root() }
}
