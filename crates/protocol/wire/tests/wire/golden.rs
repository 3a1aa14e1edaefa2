//! A recorded session, byte for byte. Deployed agents and writers rely on its digests, sizes and wire bytes.
//!
//! `GOLDEN=write cargo test -p gimbal-wire --test wire golden` records it again. A line that changes is a change of the
//! protocol.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{
    Conditions, Detail, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey, TargetPort,
};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, Credit, Freshness, GoodbyeReason, Outcome, Reject, RejectReason, Scope,
    WriterEnd, WriterLimits, WriterMessage, WriterOutput, estimated_len, service_len,
};
use gimbal_wire::pb;
use prost::Message as _;

const RECORDING: &str = include_str!("golden/session.txt");

struct Recorder {
    now: Instant,
    agent: AgentEnd,
    writer: WriterEnd,
    text: String,
    generation: u64,
}

impl Recorder {
    fn new() -> Self {
        let config = AgentConfig { backend: "node02".into(), instance: "instance".into(), version: "agent 1".into() };
        let credit = Credit { changes: 40, bytes: 16 << 10 };
        let limits = WriterLimits { credit, heartbeat_timeout: Duration::from_secs(15) };
        let (agent, writer) = (AgentEnd::new(config), WriterEnd::new(limits));
        Self { now: Instant::now(), agent, writer, text: String::new(), generation: 0 }
    }

    fn title(&mut self, title: &str) {
        writeln!(self.text, "# {title}").unwrap();
    }

    fn line(&mut self, kind: &str, len: Option<usize>, bytes: &[u8]) {
        let len = len.map_or(String::new(), |len| format!(" estimated {len}"));
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let shown: String = bytes.iter().take(60).map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.text, "{kind}{len} bytes {} fnv {hash:016x} {shown}", bytes.len()).unwrap();
    }

    /// Exchanges messages until neither end has more, and settles what the writer reports with `settle`.
    fn pump(&mut self, mut settle: impl FnMut(&SourceKey) -> Outcome) {
        loop {
            let mut busy = false;
            while let Some(message) = self.agent.next(self.now) {
                busy = true;
                let len = match &message {
                    AgentMessage::Data(data) => Some(estimated_len(data)),
                    _ => None,
                };
                self.line("agent ", len, &pb::SyncRequest::from(message.clone()).encode_to_vec());
                let outputs = match &message {
                    AgentMessage::Hello(hello) => {
                        self.generation += 1;
                        self.writer.open(hello, "node02", self.generation, self.now)
                    }
                    _ => self.writer.receive(message, self.now),
                };
                for output in outputs {
                    if let WriterOutput::Changed(key) | WriterOutput::Removed(key) = output {
                        let outcome = settle(&key);
                        self.writer.settle(&key, outcome);
                    }
                }
            }
            for message in self.writer.take_messages() {
                busy = true;
                self.line("writer", None, &pb::SyncResponse::from(message.clone()).encode_to_vec());
                if let WriterMessage::Welcome(welcome) = &message {
                    writeln!(self.text, "need {:?}", welcome.need).unwrap();
                }
                let _ended = self.agent.receive(message, self.now);
            }
            if !busy {
                break;
            }
        }
        let tree = self.writer.tree();
        writeln!(self.text, "root {} of {}", tree.root(), tree.count()).unwrap();
        for (namespace, count, digest) in tree.namespaces() {
            writeln!(self.text, "namespace {namespace} {digest} of {count}").unwrap();
        }
    }

    fn set(&mut self, name: &str, service: Option<Service>) {
        let key = SourceKey::from_annotation(name).unwrap();
        if let Some(service) = &service {
            let (digest, len) = (service.digest(&key), service_len(&key, service));
            writeln!(self.text, "set {key} {digest} estimated {len}").unwrap();
        }
        self.agent.set(key, service.map(Arc::new), self.now);
    }
}

fn port(name: &str, number: Option<u16>, protocol: Protocol) -> EndpointPort {
    EndpointPort {
        name: name.into(),
        port: number,
        protocol,
        app_protocol: (name == "grpc").then(|| "kubernetes.io/h2c".into()),
    }
}

fn header(tag: &str) -> Arc<Header> {
    let map = |text: &str| [(Arc::from("example.org/tag"), Arc::from(text)), ("app".into(), "shop".into())].into();
    let ports = vec![
        ServicePort {
            name: "http".into(),
            port: 80,
            protocol: Protocol::Tcp,
            app_protocol: Some("http".into()),
            target_port: Some(TargetPort::Name("web".into())),
        },
        ServicePort {
            name: "dns".into(),
            port: 53,
            protocol: Protocol::Udp,
            app_protocol: None,
            target_port: Some(TargetPort::Number(5353)),
        },
    ];
    Arc::new(Header { labels: map(tag), annotations: map("annotation"), ports })
}

fn endpoint(address: &str, conditions: Conditions, detail: bool) -> Endpoint {
    let address: IpAddr = address.parse().unwrap();
    let detail = detail.then(|| {
        Arc::new(Detail {
            hostname: Some("web-0".into()),
            zone: Some("zone-a".into()),
            for_zones: vec!["zone-a".into(), "zone-b".into()],
        })
    });
    Endpoint { address, conditions, detail }
}

/// A Service with two port sets, both address families, every condition and detail.
fn shop(tag: &str, last: u8) -> Service {
    let http = PortSet::new(vec![port("http", Some(8080), Protocol::Tcp), port("grpc", Some(9090), Protocol::Tcp)]);
    let dns = PortSet::new(vec![port("dns", None, Protocol::Udp)]);
    let leaving = Conditions { ready: false, serving: true, terminating: true };
    let endpoints = [
        (http.clone(), endpoint("10.0.0.1", Conditions::READY, true)),
        (http.clone(), endpoint("10.0.0.2", Conditions::NOT_READY, false)),
        (http, endpoint(&format!("10.0.0.{last}"), leaving, false)),
        (dns, endpoint("fd00::1", Conditions::READY, true)),
    ];
    Service::new(header(tag), endpoints)
}

/// A Service that is larger than a frame of the session's window.
fn large(hosts: u16) -> Service {
    let http = PortSet::new(vec![port("http", Some(8080), Protocol::Tcp)]);
    let endpoints = (0..hosts).map(|host| {
        let address = format!("10.1.{}.{}", host / 250, host % 250);
        (http.clone(), endpoint(&address, Conditions::READY, host % 3 == 0))
    });
    Service::new(header("large"), endpoints)
}

fn record() -> String {
    let mut session = Recorder::new();
    let applied = |_: &SourceKey| Outcome::Applied;
    session.title("a first stream");
    session.set("a/shop", Some(shop("1", 3)));
    session.set("a/large", Some(large(300)));
    session.set("b/empty", Some(Service::new(header("empty"), [])));
    session.agent.set_incarnation("uid".into());
    session.agent.set_freshness(vec![
        Freshness { kind: "services".into(), age: Some(Duration::from_millis(1500)) },
        Freshness { kind: "endpointslices".into(), age: None },
    ]);
    session.agent.source_complete();
    session.agent.connected(session.now);
    session.pump(applied);

    session.title("changes");
    session.set("a/shop", Some(shop("2", 4)));
    session.set("a/large", Some(large(700)));
    session.set("b/empty", None);
    session.set("c/new", Some(shop("1", 9)));
    session.pump(|key| match &*key.name {
        "new" => Outcome::Rejected(Reject {
            key: None,
            reason: RejectReason::NamespaceMissing,
            retryable: true,
            message: "no namespace c".into(),
        }),
        _ => Outcome::Applied,
    });

    session.title("a snapshot that the writer asked for, a scope that cannot be seen, and a rejection that ends");
    session.writer.request_snapshot(["gone".into()], "to confirm a held removal");
    session.writer.settle(&SourceKey::new("c", "new"), Outcome::Applied);
    session.agent.scope_unknown(Scope::Namespaces(vec!["c".into()]), "forbidden".into());
    session.pump(applied);

    session.title("a reconnect after the unknown scope is known again");
    session.agent.disconnected();
    session.agent.source_complete();
    session.agent.connected(session.now);
    session.pump(applied);

    session.title("a reconnect with two namespaces that differ");
    session.agent.disconnected();
    session.set("b/back", Some(shop("3", 5)));
    session.set("c/new", Some(shop("3", 5)));
    session.agent.connected(session.now);
    session.pump(applied);

    session.title("a reconnect with nothing changed");
    session.agent.disconnected();
    session.agent.connected(session.now);
    session.pump(applied);

    session.title("goodbye");
    session.agent.goodbye(GoodbyeReason::Shutdown, "the discoverer ends");
    session.pump(applied);
    session.text
}

#[test]
fn a_recorded_session_stays_byte_for_byte() {
    let text = record();
    if std::env::var("GOLDEN").is_ok_and(|mode| mode == "write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/golden/session.txt");
        std::fs::write(path, &text).unwrap();
        return;
    }
    for (recorded, line) in RECORDING.lines().zip(text.lines()) {
        assert_eq!(recorded, line);
    }
    assert_eq!(RECORDING.lines().count(), text.lines().count());
}
