//! The session's writer end, behind a gRPC server. It makes an object of each note, and reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use gimbal_session::{AgentMessage, Entry as _, Outcome, Reject, WriterEnd, WriterMessage, WriterOutput};
use gimbal_wire::{TolerantCodec, WirePayload};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status, Streaming};

use crate::payload::{Header, Note, NoteKey, Notes, Phase, Refusal, Report, Secret, new_writer};
use crate::wire::Number;

struct State {
    end: WriterEnd<Notes>,
    generation: u64,
    /// Streams that are open now.
    open: usize,
    contents: BTreeMap<u64, Secret>,
    /// What it does not try.
    refused: BTreeSet<NoteKey>,
}

/// Serves plaintext on loopback, until it is dropped.
pub struct NotesWriter {
    pub url: String,
    server: NotesServer,
    _stop: DropGuard,
}

impl NotesWriter {
    pub async fn start(facts: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut end = new_writer();
        end.set_facts(facts).unwrap();
        let state = State { end, generation: 0, open: 0, contents: BTreeMap::new(), refused: BTreeSet::new() };
        let server = NotesServer { state: Arc::new(Mutex::new(state)), news: Arc::default(), cut: Arc::default() };
        let stop = CancellationToken::new();
        let router = tonic::transport::Server::builder().add_service(server.clone());
        let connections = TcpListenerStream::new(listener);
        tokio::spawn(router.serve_with_incoming_shutdown(connections, stop.clone().cancelled_owned()));
        Self { url, server, _stop: stop.drop_guard() }
    }

    pub fn set_facts(&self, facts: u64) {
        self.server.state.lock().unwrap().end.set_facts(facts).unwrap();
        self.server.news.notify_waiters();
    }

    /// Tries a note from now on, or does not.
    pub fn refuse(&self, key: &NoteKey, is_refused: bool) {
        let mut state = self.server.state.lock().unwrap();
        match is_refused {
            true => state.refused.insert(key.clone()),
            false => state.refused.remove(key),
        };
        if state.end.entry(key).is_some() {
            state.act(key);
        }
        drop(state);
        self.server.news.notify_waiters();
    }

    /// Reports something of a note.
    pub fn report(&self, key: &NoteKey, report: Report) {
        self.server.state.lock().unwrap().end.report(key.clone(), report).unwrap();
        self.server.news.notify_waiters();
    }

    /// Ends the stream.
    pub fn cut(&self) {
        self.server.cut.notify_waiters();
    }

    /// Returns the number of streams so far, and of those that are open.
    pub fn streams(&self) -> (u64, usize) {
        let state = self.server.state.lock().unwrap();
        (state.generation, state.open)
    }

    pub fn held(&self) -> Vec<NoteKey> {
        self.server.state.lock().unwrap().end.entries().map(|(key, _)| key.clone()).collect()
    }

    pub fn contents(&self) -> Vec<Secret> {
        self.server.state.lock().unwrap().contents.values().cloned().collect()
    }

    /// Returns whether a report was not acknowledged.
    pub fn awaits(&self, key: &NoteKey) -> bool {
        self.server.state.lock().unwrap().end.is_report_pending(key)
    }
}

#[derive(Clone)]
struct NotesServer {
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
    cut: Arc<Notify>,
}

impl NamedService for NotesServer {
    const NAME: &'static str = "gimbal.notes.v1.NotesService";
}

impl Service<http::Request<Body>> for NotesServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = TolerantCodec::<Number, Number>::default();
        let mut grpc = Grpc::new(codec).accept_compressed(CompressionEncoding::Zstd);
        let method = Method(self.clone());
        Box::pin(async move { Ok(grpc.streaming(method, request).await) })
    }
}

struct Method(NotesServer);

impl tonic::server::StreamingService<Number> for Method {
    type Response = Number;
    type ResponseStream = futures::stream::BoxStream<'static, Result<Number, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Number>>) -> Self::Future {
        let (outgoing, messages) = mpsc::channel(16);
        tokio::spawn(self.0.clone().stream(request.into_inner(), outgoing));
        let messages = ReceiverStream::new(messages).map(|message| Ok(Notes::encode_writer(message)));
        Box::pin(async move { Ok(Response::new(messages.boxed())) })
    }
}

impl NotesServer {
    async fn stream(self, mut incoming: Streaming<Number>, outgoing: mpsc::Sender<WriterMessage<Notes>>) {
        self.state.lock().unwrap().open += 1;
        // From now on, whatever is done when it comes.
        let mut cut = std::pin::pin!(self.cut.notified());
        loop {
            let news = self.news.notified();
            let messages = self.state.lock().unwrap().end.take_messages();
            for message in messages {
                // The agent is gone: its end of the stream says so below.
                outgoing.send(message).await.ok();
            }
            tokio::select! {
                message = incoming.message() => match message {
                    Ok(Some(number)) => self.state.lock().unwrap().receive(Notes::parse_agent(number)),
                    _ => break,
                },
                () = news => {}
                () = &mut cut => break,
            }
        }
        let mut state = self.state.lock().unwrap();
        state.open -= 1;
        state.end.closed();
    }
}

impl State {
    fn receive(&mut self, message: AgentMessage<Notes>) {
        let now = Instant::now();
        let outputs = match message {
            AgentMessage::Hello(hello) => {
                self.generation += 1;
                self.end.open(&hello, "b", self.generation, now)
            }
            message => self.end.receive(message, now),
        };
        for output in outputs {
            match output {
                WriterOutput::Changed(key) | WriterOutput::Removed(key) => self.act(&key),
                WriterOutput::Content { hash, content: Some(content) } => drop(self.contents.insert(hash, content)),
                WriterOutput::ReportDone { key, report } if report.phase == Phase::Gone => {
                    self.end.forget_report(&key);
                }
                WriterOutput::Unreadable { reason, .. } => panic!("{reason}"),
                _ => {}
            }
        }
    }

    /// Makes or removes the object of a note, and reports that.
    fn act(&mut self, key: &NoteKey) {
        if self.refused.contains(key) {
            let (reason, message) = (Refusal::Invalid, "no such notes".to_owned());
            let reject = Reject { key: Some(key.clone()), reason, retryable: true, message };
            return self.end.settle(key, Outcome::Rejected(reject));
        }
        if let Some(note) = self.end.entry(key).cloned() {
            let phase = if note.is_deleting() { Phase::Gone } else { Phase::Made };
            self.end.report(key.clone(), Report { uid: note.uid(), phase, lines: note.part_count() }).unwrap();
            self.ask_for_content(&note);
        }
        self.end.settle(key, Outcome::Applied);
    }

    fn ask_for_content(&mut self, note: &Note) {
        if let Header::Present { sealed: Some(hash), .. } = &*note.header
            && !self.contents.contains_key(hash)
        {
            self.end.want_content(*hash);
        }
    }
}
