//! The writer's end of one cluster, behind the server, with its inspection and administration.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use gimbal_kuryr_model::{CloudFacts, DesiredEntry, DesiredKey, LoadBalancerReport, Phase, ReportedObjects};
use gimbal_kuryr_wire::pb::admin_service_server::AdminServiceServer;
use gimbal_kuryr_wire::pb::inspection_service_server::InspectionServiceServer;
use gimbal_kuryr_wire::{FILE_DESCRIPTOR_SET, Kuryr};
use gimbal_session::{AgentMessage, Credit, Outcome, WriterEnd, WriterLimits, WriterMessage, WriterOutput};
use gimbal_transport::{
    AgentMessages, Availability, Channel, ClientTls, Denied, DialError, Discovery, LinkError, Peer, ServeOptions,
    ServiceBuilder, Serving, TlsCredentials, TlsFiles, dial, serve_services,
};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::common::SOON;
use crate::services::{Decisions, Inspected};

pub struct State {
    pub end: WriterEnd<Kuryr>,
    pub generation: u64,
    /// Names of the peers that opened streams.
    pub peers: Vec<Peer>,
    /// Reports that the controller has dealt with.
    pub done: Vec<DesiredKey>,
}

/// The writer's end of one cluster. It reports at once that everything is made.
#[derive(Clone)]
pub struct Cloud {
    pub state: Arc<Mutex<State>>,
    pub news: Arc<Notify>,
}

impl Cloud {
    pub fn new() -> Self {
        let credit = Credit { changes: 100, bytes: 1 << 20 };
        let mut end = WriterEnd::new(WriterLimits { credit, heartbeat_timeout: Duration::from_secs(10) });
        end.set_facts(facts("first")).unwrap();
        let state = State { end, generation: 0, peers: Vec::new(), done: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)), news: Arc::default() }
    }

    pub fn set_facts(&self, project: &str) {
        self.state.lock().unwrap().end.set_facts(facts(project)).unwrap();
        self.news.notify_waiters();
    }

    pub fn held(&self) -> Vec<(DesiredKey, DesiredEntry)> {
        let state = self.state.lock().unwrap();
        state.end.entries().map(|(key, entry)| (key.clone(), (**entry).clone())).collect()
    }
}

impl State {
    pub fn receive(&mut self, message: AgentMessage<Kuryr>) {
        let now = Instant::now();
        let outputs = match message {
            AgentMessage::Hello(hello) => {
                self.generation += 1;
                self.end.open(&hello, "prod1", self.generation, now)
            }
            message => self.end.receive(message, now),
        };
        for output in outputs {
            match output {
                WriterOutput::Changed(key) | WriterOutput::Removed(key) => {
                    if let Some(entry) = self.end.entry(&key).cloned() {
                        self.end.report(key.clone(), report(&entry)).unwrap();
                    }
                    self.end.settle(&key, Outcome::Applied);
                }
                WriterOutput::ReportDone { key, .. } => self.done.push(key),
                WriterOutput::Unreadable { key, reason } => panic!("{key:?}: {reason}"),
                _ => {}
            }
        }
    }
}

pub fn facts(project: &str) -> CloudFacts {
    CloudFacts { project: project.into(), ..CloudFacts::default() }
}

pub fn report(entry: &DesiredEntry) -> LoadBalancerReport {
    let (generation, phase) = match entry {
        DesiredEntry::LoadBalancer(wanted) => (wanted.generation, Phase::Ready),
        DesiredEntry::Deleting { .. } => (0, Phase::Gone),
    };
    LoadBalancerReport {
        owner: entry.owner().clone(),
        generation,
        phase,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: ReportedObjects::default(),
        last_error: None,
        missing: None,
    }
}

#[tonic::async_trait]
impl Discovery<Kuryr> for Cloud {
    async fn sync(&self, peer: Peer, mut incoming: AgentMessages<Kuryr>, outgoing: mpsc::Sender<WriterMessage<Kuryr>>) {
        self.state.lock().unwrap().peers.push(peer);
        loop {
            let news = self.news.notified();
            let messages = self.state.lock().unwrap().end.take_messages();
            for message in messages {
                if outgoing.send(message).await.is_err() {
                    return self.state.lock().unwrap().end.closed();
                }
            }
            tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(message)) => self.state.lock().unwrap().receive(message),
                    Some(Err(_)) | None => return self.state.lock().unwrap().end.closed(),
                },
                () = news => {}
            }
        }
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub cloud: Cloud,
    pub deny: watch::Sender<Denied>,
    pub serving: watch::Sender<Serving>,
    pub shutdown: CancellationToken,
    pub task: JoinHandle<Result<(), LinkError>>,
}

impl Server {
    pub async fn start(tls: &TlsFiles) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (deny, denied) = watch::channel(Denied::default());
        let (serving, serves) = watch::channel(Serving { ready: true, leading: true });
        let options = ServeOptions {
            tls: Some(TlsCredentials::load(tls.clone()).unwrap().0),
            denied: Some(denied),
            on_refusal: None,
            serving: Some(serves),
        };
        let (shutdown, cloud) = (CancellationToken::new(), Cloud::new());
        let writer = Arc::new(cloud.clone());
        let register = |builder: &mut ServiceBuilder| {
            builder.add_sync::<Kuryr>(writer, FILE_DESCRIPTOR_SET);
            let inspection = InspectionServiceServer::new(Inspected(builder.inspection_gate()));
            builder.add(inspection, Availability::Ready, FILE_DESCRIPTOR_SET);
            let admin = AdminServiceServer::new(Decisions::default());
            builder.add(admin, Availability::Leading, FILE_DESCRIPTOR_SET);
        };
        let task = tokio::spawn(serve_services(listener, register, options, shutdown.clone()));
        Self { address, cloud, deny, serving, shutdown, task }
    }

    pub async fn dial(&self, tls: ClientTls) -> Result<Channel, DialError> {
        dial(&format!("https://localhost:{}", self.address.port()), Some(tls), SOON).await
    }
}
