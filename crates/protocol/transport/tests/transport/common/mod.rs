//! A CA, a server that passes its streams to the test, and a client.
#![allow(dead_code)]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_model::SourceKey;
use gimbal_session::{AgentMessage, WriterMessage};
use gimbal_transport::{
    Admin, AgentMessages, Channel, ClientTls, Denied, DialError, Discovery, Inspection, LinkError, Part, Peer, Place,
    Refusal, ServeOptions, ServedServices, Status, TlsCredentials, TlsFiles, Viewer, client_tls, dial, pb, serve,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Time limit of each step of a test.
pub const SOON: Duration = Duration::from_secs(10);

/// Number of Services in namespace "many". Every seventh is left out, as by a filter.
pub const MANY: usize = 1000;

pub struct Pki {
    pub folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    count: Mutex<u32>,
}

impl Pki {
    pub fn new() -> Self {
        Self::named("test CA")
    }

    pub fn named(name: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key), count: Mutex::new(0) }
    }

    pub fn ca(&self) -> std::path::PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Issues a certificate. Names with "://" are URIs, the others DNS names or addresses.
    pub fn issue(&self, names: &[&str]) -> TlsFiles {
        self.issue_with(names, |_| ())
    }

    pub fn issue_with(&self, names: &[&str], adjust: impl FnOnce(&mut CertificateParams)) -> TlsFiles {
        let (uris, plain): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
        let mut params = CertificateParams::new(plain.into_iter().map(String::from).collect::<Vec<_>>()).unwrap();
        for uri in uris {
            params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        }
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let mut count = self.count.lock().unwrap();
        *count += 1;
        let file = |name: &str| self.folder.path().join(format!("{count}-{name}.pem"));
        let files = TlsFiles { cert: file("cert"), key: file("key"), ca: self.ca() };
        write(&files.cert, &cert.pem());
        write(&files.key, &key.serialize_pem());
        files
    }

    pub fn client(&self, names: &[&str]) -> ClientTls {
        client_tls(&self.issue(names)).unwrap()
    }
}

pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// A stream as `Discovery::sync` received it. Dropping it makes `sync` return.
pub struct Stream {
    pub peer: Peer,
    pub incoming: AgentMessages,
    pub outgoing: mpsc::Sender<WriterMessage>,
    pub release: oneshot::Sender<()>,
}

impl Stream {
    pub async fn next(&mut self) -> Option<Result<AgentMessage, LinkError>> {
        tokio::time::timeout(SOON, self.incoming.next()).await.unwrap()
    }
}

struct Handover(mpsc::UnboundedSender<Stream>);

#[tonic::async_trait]
impl Discovery for Handover {
    async fn sync(&self, peer: Peer, incoming: AgentMessages, outgoing: mpsc::Sender<WriterMessage>) {
        let (release, released) = oneshot::channel();
        if self.0.send(Stream { peer, incoming, outgoing, release }).is_ok() {
            released.await.ok();
        }
    }
}

struct Answers;

#[tonic::async_trait]
impl Inspection for Answers {
    fn viewer(&self, peer: &Peer) -> Result<Viewer, Status> {
        if *peer == Peer::Loopback || peer.has_san("spiffe://test/admin") {
            return Ok(Viewer::All);
        }
        if peer.has_san("spiffe://test/backend/node02") {
            return Ok(Viewer::Backend("node02".parse().unwrap()));
        }
        Err(Status::permission_denied("no admin"))
    }

    async fn list_backends(&self, viewer: &Viewer) -> Result<Vec<pb::Backend>, Status> {
        let names = ["node01", "node02"].into_iter().filter(|name| viewer.sees(name));
        Ok(names.map(|name| pb::Backend { name: name.into(), ..Default::default() }).collect())
    }

    /// Returns the requested backend; for namespace "many" a number of Services, three in each batch.
    async fn list_services(
        &self,
        _: &Viewer,
        request: &pb::ListServicesRequest,
        after: Option<&Place>,
    ) -> Result<Part, Status> {
        let backend = request.backend.clone();
        if request.namespace != "many" {
            let services = vec![pb::ServiceStatus { backend, ..Default::default() }];
            return Ok(Part { services, seen: None });
        }
        let next = after.map_or(0, |after| after.key.name[1..].parse::<usize>().unwrap() + 1);
        let numbers = next..MANY.min(next + 3);
        let key = |n| pb::ServiceKey { namespace: "many".into(), name: format!("s{n:04}") };
        let last =
            Place { backend: "node02".parse().unwrap(), key: SourceKey::new("many", format!("s{:04}", next + 2)) };
        let status = |n: usize| pb::ServiceStatus {
            backend: backend.clone(),
            source: Some(key(n)),
            message: "x".repeat(if n % 100 == 99 { 300_000 } else { 100 }),
            ..Default::default()
        };
        let services = numbers.filter(|n| n % 7 != 0).map(status).collect();
        Ok(Part { services, seen: (next + 3 < MANY).then_some(last) })
    }

    /// Sends one event, then nothing.
    async fn watch(
        &self,
        _: &Viewer,
        request: pb::WatchRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchResponse, Status>>, Status> {
        let gone = pb::ServiceGone { backend: request.backend, source: None };
        let event = pb::WatchResponse { event: Some(pb::watch_response::Event::Gone(gone)) };
        Ok(futures::stream::once(async { Ok(event) }).chain(futures::stream::pending()).boxed())
    }

    async fn explain(
        &self,
        _: &Viewer,
        _: pb::ExplainRequest,
        _: Option<IpAddr>,
    ) -> Result<pb::ExplainResponse, Status> {
        Ok(pb::ExplainResponse { reasons: vec!["because".into()], ..Default::default() })
    }
}

struct Decisions;

#[tonic::async_trait]
impl Admin for Decisions {
    fn is_admin(&self, peer: &Peer) -> bool {
        *peer == Peer::Loopback || peer.has_san("spiffe://test/admin")
    }

    async fn approve(&self, _: pb::ApproveRequest) -> Result<pb::ApproveResponse, Status> {
        Ok(pb::ApproveResponse { services_released: 3 })
    }

    async fn decommission(&self, _: pb::DecommissionRequest) -> Result<pb::DecommissionResponse, Status> {
        Ok(pb::DecommissionResponse { id: "7".into(), ..Default::default() })
    }

    async fn confirm_incarnation(
        &self,
        _: pb::ConfirmIncarnationRequest,
    ) -> Result<pb::ConfirmIncarnationResponse, Status> {
        Ok(pb::ConfirmIncarnationResponse { previous: "before".into() })
    }

    async fn preview_configuration(
        &self,
        _: pb::PreviewConfigurationRequest,
    ) -> Result<pb::PreviewConfigurationResponse, Status> {
        Ok(pb::PreviewConfigurationResponse::default())
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub streams: mpsc::UnboundedReceiver<Stream>,
    /// The refused connections.
    pub refused: mpsc::UnboundedReceiver<Refusal>,
    /// The deny list of the server.
    pub deny: watch::Sender<Denied>,
    pub shutdown: CancellationToken,
    pub task: JoinHandle<Result<(), LinkError>>,
}

impl Server {
    pub async fn start(tls: Option<&TlsFiles>) -> Self {
        Self::start_as(tls.map(|files| TlsCredentials::load(files.clone()).unwrap().0)).await
    }

    pub async fn start_as(tls: Option<TlsCredentials>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (streams_in, streams) = mpsc::unbounded_channel();
        let (refused_in, refused) = mpsc::unbounded_channel();
        let (deny, denied) = watch::channel(Denied::default());
        let shutdown = CancellationToken::new();
        let services = ServedServices {
            discovery: Some(Arc::new(Handover(streams_in))),
            inspection: Arc::new(Answers),
            admin: Some(Arc::new(Decisions)),
        };
        let options = ServeOptions {
            tls,
            denied: Some(denied),
            on_refusal: Some(Arc::new(move |refusal: &Refusal| refused_in.send(refusal.clone()).unwrap())),
            serving: None,
        };
        let task = tokio::spawn(serve(listener, services, options, shutdown.clone()));
        Self { address, streams, refused, deny, shutdown, task }
    }

    pub async fn dial(&self, tls: Option<ClientTls>) -> Result<Channel, DialError> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        dial(&format!("{scheme}://localhost:{}", self.address.port()), tls, SOON).await
    }

    pub async fn stream(&mut self) -> Stream {
        tokio::time::timeout(SOON, self.streams.recv()).await.unwrap().unwrap()
    }

    pub async fn refusal(&mut self) -> Refusal {
        tokio::time::timeout(SOON, self.refused.recv()).await.unwrap().unwrap()
    }
}

pub fn heartbeat(backlog: u64) -> AgentMessage {
    AgentMessage::Heartbeat { sources: Vec::new(), backlog }
}

pub fn inspection() -> Arc<dyn Inspection> {
    Arc::new(Answers)
}
