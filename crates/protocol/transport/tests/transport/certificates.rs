//! Open and new connections when certificates, authorities or the deny list change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::common::{Pki, SOON, Server, Stream, heartbeat};
use futures::StreamExt as _;
use gimbal_session::{Goodbye, GoodbyeReason, WriterMessage};
use gimbal_transport::{
    AgentSender, Certificate, ClientTls, Denied, DialError, LinkError, Problem, Reloaded, TlsCredentials, TlsFiles,
    WriterMessages, certificate_chain, client_chain, client_tls, open, pb,
};
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_supported_type};
use rustls::sign::CertifiedKey;
use rustls::{HandshakeKind, SignatureScheme, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// An open stream with both of its ends.
struct Pair {
    sender: AgentSender,
    messages: WriterMessages,
    stream: Stream,
}

impl Pair {
    async fn open(server: &mut Server, tls: &ClientTls) -> Self {
        let (sender, messages) =
            open::<gimbal_session::Services>(server.dial(Some(tls.clone())).await.unwrap()).await.unwrap();
        Self { sender, messages, stream: server.stream().await }
    }

    /// Checks that the stream still carries messages.
    async fn lives(&mut self) {
        self.sender.send(heartbeat(7)).await.unwrap();
        assert_eq!(self.stream.next().await.unwrap().unwrap(), heartbeat(7));
    }

    /// Checks that the server ends the stream, with time for a goodbye.
    async fn ends(mut self, words: &str) {
        let error = self.stream.next().await.unwrap().unwrap_err();
        assert!(matches!(error, LinkError::Refused(_)) && error.to_string() == words, "{error}");
        assert!(self.stream.next().await.is_none());
        let goodbye = Goodbye { reason: GoodbyeReason::Certificate, message: words.into(), retry_after: None };
        self.stream.outgoing.send(WriterMessage::Goodbye(goodbye.clone())).await.unwrap();
        drop(self.stream);
        let reloaded = tokio::time::timeout(SOON, self.messages.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(reloaded, WriterMessage::Goodbye(goodbye));
    }
}

const GONE: &str = "the certificate is not accepted any more";

fn own(files: &TlsFiles) -> Certificate {
    TlsCredentials::load(files.clone()).unwrap().0.own()
}

async fn refused(server: &mut Server, tls: &ClientTls, problem: Problem) {
    let error = server.dial(Some(tls.clone())).await.unwrap_err();
    assert!(matches!(error, DialError::ClientCertificate { .. }), "{error}");
    assert_eq!(server.refusal().await.problem, problem);
}

#[tokio::test]
async fn a_denied_certificate_is_refused_and_its_streams_end() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let other = pki.client(&["other"]);
    let mut stays = Pair::open(&mut server, &other).await;
    for by_serial in [false, true] {
        let files = pki.issue(&["a"]);
        let (tls, certificate) = (client_tls(&files).unwrap(), own(&files));
        let pair = Pair::open(&mut server, &tls).await;
        let text = certificate.to_string();
        let forms: Vec<&str> = text.split([' ', ';']).filter(|part| part.contains(':')).collect();
        let form = forms[usize::from(!by_serial)];
        assert!(form.starts_with(if by_serial { "serial:" } else { "sha256:" }), "{text}");
        server.deny.send_replace([form.parse().unwrap()].into_iter().collect());
        pair.ends(GONE).await;
        refused(&mut server, &tls, Problem::Denied).await;
        stays.lives().await;
        // Removing the entry from the deny list lets the peer in again.
        server.deny.send_replace(Denied::default());
        Pair::open(&mut server, &tls).await.lives().await;
    }
}

#[tokio::test]
async fn nothing_more_is_served_on_a_connection_whose_certificate_is_denied() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let files = pki.issue(&["spiffe://test/admin"]);
    let channel = server.dial(Some(client_tls(&files).unwrap())).await.unwrap();
    let mut inspection = pb::inspection_service_client::InspectionServiceClient::new(channel.clone());
    let mut admin = pb::admin_service_client::AdminServiceClient::new(channel.clone());
    let mut events = inspection.watch(pb::WatchRequest::default()).await.unwrap().into_inner();
    events.message().await.unwrap().unwrap();
    let (_sender, _messages) = open::<gimbal_session::Services>(channel.clone()).await.unwrap();
    let mut stream = server.stream().await;

    let form = format!("sha256:{}", own(&files).fingerprint());
    server.deny.send_replace([form.parse().unwrap()].into_iter().collect());
    let status = tokio::time::timeout(SOON, events.message()).await.unwrap().unwrap_err();
    assert_eq!((status.code(), status.message()), (gimbal_transport::Code::Unauthenticated, GONE));
    let status = admin.approve(pb::ApproveRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (gimbal_transport::Code::Unauthenticated, GONE));
    let status = inspection.list_backends(pb::ListBackendsRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (gimbal_transport::Code::Unauthenticated, GONE));
    let error = open::<gimbal_session::Services>(channel.clone()).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains(GONE), "{error}");

    // A `sync` that ignores the error does not keep the connection open.
    assert!(stream.next().await.unwrap().is_err());
    tokio::time::timeout(SOON, stream.outgoing.closed()).await.unwrap();
    let error = open::<gimbal_session::Services>(channel).await.map(|_| ()).unwrap_err();
    assert!(!error.to_string().contains(GONE), "{error}");
}

#[tokio::test]
async fn what_the_server_shows_is_shown_once_it_is_verified() {
    let pki = Pki::new();
    let files = pki.issue(&["localhost"]);
    let mut server = Server::start(Some(&files)).await;
    let url = format!("https://localhost:{}", server.address.port());
    let shown = certificate_chain(&url, &pki.client(&["a"]), SOON).await.unwrap();
    assert_eq!(shown[..], [CertificateDer::from_pem_file(&files.cert).unwrap()]);
    // What no authority vouches for is not shown.
    let stranger = Pki::named("another");
    let other = TlsFiles { ca: stranger.ca(), ..pki.issue(&["a"]) };
    let problem = certificate_chain(&url, &client_tls(&other).unwrap(), SOON).await.unwrap_err();
    assert!(matches!(&problem, DialError::ServerCertificate { .. }), "{problem}");
    server.refusal().await;
}

#[test]
fn a_client_is_verified_as_a_server_would_verify_it() {
    let (pki, other) = (Pki::new(), Pki::named("another"));
    client_chain(&pki.issue(&["a"])).unwrap();
    let own = pki.issue(&["a"]);
    let ended = pki.issue_with(&["a"], |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    let for_servers = pki.issue_with(&["a"], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    for (files, words) in [
        (TlsFiles { ca: other.ca(), ..own.clone() }, "it is not signed by this CA"),
        (ended, "it has expired"),
        (for_servers, "does not allow extended key usage for client authentication"),
        (TlsFiles { key: pki.issue(&["b"]).key, ..own }, "is not the key of the certificate"),
    ] {
        let problem = client_chain(&files).unwrap_err().to_string();
        assert!(problem.contains(words), "{problem}");
    }
}

/// Issues a certificate that expires after `seconds`.
fn ending(pki: &Pki, seconds: u64) -> TlsFiles {
    let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + Duration::from_secs(seconds);
    pki.issue_with(&["a"], |params| params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end)
}

#[tokio::test]
async fn a_stream_does_not_outlive_its_certificate() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let mut stays = Pair::open(&mut server, &pki.client(&["a"])).await;
    let tls = client_tls(&ending(&pki, 2)).unwrap();
    let pair = Pair::open(&mut server, &tls).await;
    pair.ends("the certificate has expired").await;
    refused(&mut server, &tls, Problem::Expired).await;
    stays.lives().await;
}

/// A client other than ours. It resumes sessions where it can, and records the authorities that the server names.
struct Stranger {
    config: Arc<rustls::ClientConfig>,
    hints: Arc<Mutex<Option<usize>>>,
}

#[derive(Debug)]
struct Shows(Option<Arc<CertifiedKey>>, Arc<Mutex<Option<usize>>>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, hints: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        *self.1.lock().unwrap() = Some(hints.len());
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

impl Stranger {
    fn new(pki: &Pki, shows: Option<&TlsFiles>, version: &'static SupportedProtocolVersion) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(pki.ca()).unwrap()).unwrap();
        let pair = shows.map(|files| {
            let key = any_supported_type(&PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap();
            Arc::new(CertifiedKey::new(vec![CertificateDer::from_pem_file(&files.cert).unwrap()], key))
        });
        let hints = Arc::default();
        let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(Shows(pair, Arc::clone(&hints))));
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), hints }
    }

    /// Connects and reads the server's first bytes. Returns the kind of the handshake.
    async fn knock(&self, server: &Server) -> std::io::Result<Option<HandshakeKind>> {
        let socket = TcpStream::connect(server.address).await?;
        let connector = TlsConnector::from(self.config.clone());
        let mut stream = connector.connect("localhost".try_into().unwrap(), socket).await?;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
        stream.read_exact(&mut [0; 9]).await?;
        Ok(stream.get_ref().1.handshake_kind())
    }
}

#[tokio::test]
async fn a_session_is_never_resumed_past_a_refusal() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let files = pki.issue(&["a"]);
        let stranger = Stranger::new(&pki, Some(&files), version);
        for _ in 0..2 {
            assert_eq!(stranger.knock(&server).await.unwrap(), Some(HandshakeKind::Full), "{version:?}");
        }
        server
            .deny
            .send_replace([format!("sha256:{}", own(&files).fingerprint()).parse().unwrap()].into_iter().collect());
        let error = stranger.knock(&server).await.unwrap_err();
        assert!(error.to_string().contains("CertificateRevoked"), "{version:?}: {error}");
        assert_eq!(server.refusal().await.problem, Problem::Denied);
    }
}

#[tokio::test]
async fn a_stranger_learns_nothing_of_our_authorities() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let stranger = Stranger::new(&pki, None, version);
        let error = stranger.knock(&server).await.unwrap_err();
        assert!(
            error.to_string().contains("CertificateRequired") || error.to_string().contains("HandshakeFailure"),
            "{error}"
        );
        assert_eq!(*stranger.hints.lock().unwrap(), Some(0), "names of authorities");
        assert_eq!(server.refusal().await.problem, Problem::NoCertificate);
    }
}

#[tokio::test]
async fn a_probe_is_no_failed_handshake() {
    let pki = Pki::new();
    let mut server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    drop(TcpStream::connect(server.address).await.unwrap());
    assert_eq!(server.refusal().await.problem, Problem::Silent);
    // Some load balancers reset the connection.
    let hurried = TcpStream::connect(server.address).await.unwrap();
    hurried.set_zero_linger().unwrap();
    drop(hurried);
    assert_eq!(server.refusal().await.problem, Problem::Silent);
    // A client that closes the connection within its first message has failed.
    let mut half = TcpStream::connect(server.address).await.unwrap();
    half.write_all(&[0x16, 3, 1]).await.unwrap();
    drop(half);
    assert_eq!(server.refusal().await.problem, Problem::Broken);
}

/// The three TLS files, changed in place.
struct Folder {
    _dir: TempDir,
    files: TlsFiles,
}

fn files_in(dir: &Path) -> TlsFiles {
    TlsFiles { cert: dir.join("tls.crt"), key: dir.join("tls.key"), ca: dir.join("ca.crt") }
}

fn put(from: &Path, to: &Path) {
    std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
}

fn put_pair(from: &TlsFiles, to: &TlsFiles) {
    put(&from.key, &to.key);
    put(&from.cert, &to.cert);
}

fn put_cas(cas: &[PathBuf], to: &Path) {
    let bundle: String = cas.iter().map(|ca| std::fs::read_to_string(ca).unwrap()).collect();
    crate::common::write(to, &bundle);
}

impl Folder {
    fn of(from: &TlsFiles) -> Self {
        let dir = TempDir::new().unwrap();
        let files = files_in(dir.path());
        put_pair(from, &files);
        put(&from.ca, &files.ca);
        Self { _dir: dir, files }
    }
}

fn follow(files: &TlsFiles) -> Followed {
    let (credentials, reloader) = TlsCredentials::load(files.clone()).unwrap();
    let (reports, reloaded) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let tell = move |state: &Reloaded| reports.send(state.clone()).unwrap();
    tokio::spawn(reloader.run(tell, stop.clone()));
    Followed { credentials, reloaded, _stop: stop.drop_guard() }
}

struct Followed {
    credentials: TlsCredentials,
    reloaded: mpsc::UnboundedReceiver<Reloaded>,
    _stop: tokio_util::sync::DropGuard,
}

impl Followed {
    async fn next(&mut self) -> Reloaded {
        tokio::time::timeout(SOON, self.reloaded.recv()).await.unwrap().unwrap()
    }

    async fn taken(&mut self) {
        let state = self.next().await;
        assert!(state.taken && state.problem.is_none(), "{state:?}");
        assert_eq!(state.not_after, self.credentials.own().not_after);
    }
}

/// Somebody has put back an old pair.
#[tokio::test]
async fn a_certificate_that_has_expired_takes_no_ones_place_that_has_not() {
    let pki = Pki::new();
    let folder = Folder::of(&pki.issue(&["localhost"]));
    let mut followed = follow(&folder.files);
    let before = followed.next().await.not_after;
    let expired = pki.issue_with(&["localhost"], |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1));
    put_pair(&expired, &folder.files);
    let state = followed.next().await;
    let problem = state.problem.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(!state.taken && problem.ends_with("it expired at 2020-01-01T00:00:00Z"), "{state:?}");
    assert_eq!(followed.credentials.own().not_after, before);
    put_pair(&pki.issue(&["localhost"]), &folder.files);
    followed.taken().await;
}

#[tokio::test]
async fn authorities_change_with_an_overlap_and_without_a_gap() {
    let (old, new) = (Pki::named("old"), Pki::named("new"));
    let (at_writer, at_agent) = (Folder::of(&old.issue(&["localhost"])), Folder::of(&old.issue(&["agent"])));
    let (mut writer, mut agent) = (follow(&at_writer.files), follow(&at_agent.files));
    assert_eq!((writer.next().await.problem, agent.next().await.problem), (None, None));
    let mut server = Server::start_as(Some(writer.credentials.clone())).await;
    let tls = agent.credentials.client();
    let mut first = Pair::open(&mut server, &tls).await;

    // Both ends trust both authorities.
    for folder in [&at_writer, &at_agent] {
        put_cas(&[old.ca(), new.ca()], &folder.files.ca);
    }
    writer.taken().await;
    agent.taken().await;
    first.lives().await;
    Pair::open(&mut server, &tls).await.lives().await;

    // Each end gets a certificate of the new authority.
    put_pair(&new.issue(&["localhost"]), &at_writer.files);
    writer.taken().await;
    Pair::open(&mut server, &tls).await.lives().await;
    put_pair(&new.issue(&["agent"]), &at_agent.files);
    agent.taken().await;
    let mut second = Pair::open(&mut server, &tls).await;
    first.lives().await;

    // The old authority is removed, so its certificates are no longer accepted.
    for folder in [&at_writer, &at_agent] {
        put_cas(&[new.ca()], &folder.files.ca);
    }
    writer.taken().await;
    // The time for a goodbye starts here.
    first.ends(GONE).await;
    agent.taken().await;
    second.lives().await;
    let mut late = old.issue(&["agent"]);
    late.ca = new.ca();
    refused(&mut server, &client_tls(&late).unwrap(), Problem::UnknownAuthority).await;
    Pair::open(&mut server, &tls).await.lives().await;
}

#[tokio::test]
async fn a_pair_that_is_half_written_is_never_served() {
    let pki = Pki::new();
    let folder = Folder::of(&pki.issue(&["localhost"]));
    let mut writer = follow(&folder.files);
    let first = writer.credentials.own();
    assert_eq!(writer.next().await, Reloaded { not_after: first.not_after, taken: false, problem: None });
    let mut server = Server::start_as(Some(writer.credentials.clone())).await;
    let tls = pki.client(&["agent"]);

    let next = pki.issue(&["localhost"]);
    put(&next.cert, &folder.files.cert);
    let problem = writer.next().await.problem.unwrap().to_string();
    assert!(problem.starts_with("--tls-key") && problem.contains("not the key"), "{problem}");
    assert_eq!(writer.credentials.own(), first);
    Pair::open(&mut server, &tls).await.lives().await;

    put(&next.key, &folder.files.key);
    writer.taken().await;
    assert_eq!(writer.credentials.own(), own(&next));
    Pair::open(&mut server, &tls).await.lives().await;

    // A file is removed, and restored unchanged.
    std::fs::remove_file(&folder.files.ca).unwrap();
    let problem = writer.next().await.problem.unwrap().to_string();
    assert!(problem.starts_with("--tls-ca") && problem.ends_with("no such file"), "{problem}");
    Pair::open(&mut server, &tls).await.lives().await;
    put(&pki.ca(), &folder.files.ca);
    let mended = writer.next().await;
    assert_eq!((mended.problem, mended.taken), (None, false));

    // A file is empty, as an editor leaves it for a moment.
    crate::common::write(&folder.files.ca, "");
    assert!(writer.next().await.problem.unwrap().to_string().contains("no certificate in it"));
    Pair::open(&mut server, &tls).await.lives().await;
}

/// Publishes three files as a kubelet does: in a new directory, to which a symbolic link is switched atomically.
fn publish(dir: &Path, generation: &str, from: &TlsFiles) {
    let inner = dir.join(generation);
    std::fs::create_dir(&inner).unwrap();
    let to = files_in(&inner);
    put_pair(from, &to);
    put(&from.ca, &to.ca);
    std::os::unix::fs::symlink(generation, dir.join("..data_tmp")).unwrap();
    std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
}

#[tokio::test]
async fn a_mounted_secret_swaps_its_link() {
    let (old, new) = (Pki::named("old"), Pki::named("new"));
    let dir = TempDir::new().unwrap();
    publish(dir.path(), "..2026_1", &old.issue(&["localhost"]));
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), dir.path().join(name)).unwrap();
    }
    let mut writer = follow(&files_in(dir.path()));
    writer.next().await;
    let mut server = Server::start_as(Some(writer.credentials.clone())).await;
    let before = Pair::open(&mut server, &old.client(&["agent"])).await;

    publish(dir.path(), "..2026_2", &new.issue(&["localhost"]));
    writer.taken().await;
    before.ends(GONE).await;
    Pair::open(&mut server, &new.client(&["agent"])).await.lives().await;
}
