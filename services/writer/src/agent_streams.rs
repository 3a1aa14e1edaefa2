//! The agents' streams: identifies the peer, then passes frames to the owner and messages back.

use std::sync::Arc;
use std::time::Instant;

use gimbal_admission::Identity;
use gimbal_model::BackendName;
use gimbal_reconcile::Policy;
use gimbal_session::{Goodbye, GoodbyeReason, Hello, WriterMessage};
use gimbal_transport::{
    AgentMessages, Discovery, EndKind, Passing, Peer, Quiet, StreamEnd, goodbye, hello, say_goodbye,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::mailbox::Handle;
use crate::metrics::Metrics;
use crate::misnamed::MisnamedAgents;
use crate::owner::STREAM_QUEUE;

/// Serves the streams of agents.
pub struct Streams {
    /// The configuration in force: which certificates stand for which backends.
    pub config: watch::Receiver<Arc<Config>>,
    /// The owner, which receives the frames.
    pub owner: Handle,
    /// Counts streams that are refused, ended or broken.
    pub metrics: Metrics,
    /// Agents whose certificate is not that of the backend that they name.
    pub misnamed: MisnamedAgents,
    /// Cancelled when the process ends.
    pub shutdown: CancellationToken,
    /// Refusals by peer and reason that were logged recently.
    pub refusals: Quiet<(String, GoodbyeReason)>,
    /// Ends of streams by backend and kind that were logged recently: an agent may come again and again.
    pub ends: Quiet<(BackendName, EndKind)>,
}

#[tonic::async_trait]
impl Discovery for Streams {
    async fn sync(&self, peer: Peer, mut incoming: AgentMessages, outgoing: mpsc::Sender<WriterMessage>) {
        let (backend, policy, hello) = match self.identify(&peer, &mut incoming).await {
            Ok(known) => known,
            Err(goodbye) => return self.refuse(&peer, &outgoing, goodbye).await,
        };
        let (queue, queued) = mpsc::channel(STREAM_QUEUE);
        let generation = match self.owner.open(backend.clone(), policy, hello, peer.not_after(), queue).await {
            Ok(generation) => generation,
            Err(goodbye) => return self.refuse(&peer, &outgoing, goodbye).await,
        };
        self.misnamed.came_in(&backend);
        let stream = Passing { incoming, outgoing: &outgoing, queued, shutdown: &self.shutdown };
        let still = |config: &Arc<Config>| still_speaks(config, &peer, &backend);
        let (owner, of) = (&self.owner, &backend);
        let take = |message, turn| async move { owner.message(of, generation, message, turn).await.is_ok() };
        let end = stream.until_end(self.config.clone(), still, take).await;
        match &end {
            StreamEnd::Dismissed(goodbye) => self.metrics.dismissed(backend.as_str(), goodbye.reason),
            StreamEnd::Broken(_) => self.metrics.broke(backend.as_str()),
            StreamEnd::Unread | StreamEnd::Closed => {}
        }
        self.log_end(&backend, generation, &peer, &end, Instant::now());
        // Before its goodbye, so that nothing more of it counts; an agent that does not read does not delay this.
        self.owner.closed(&backend, generation).await;
        if let StreamEnd::Dismissed(goodbye) = end {
            say_goodbye(&peer, &outgoing, goodbye).await;
        }
    }
}

/// Returns an error if the peer no longer stands for the backend that its stream was opened for.
fn still_speaks(config: &Config, peer: &Peer, backend: &BackendName) -> Result<(), String> {
    match config.identify(peer) {
        Identity::Certified { tenant: Ok(now), .. } if now.name == *backend => Ok(()),
        Identity::Certified { tenant: Ok(now), .. } => Err(format!("the certificate is backend {}'s now", now.name)),
        Identity::Certified { tenant: Err(message), .. } => Err(message),
        Identity::Anyone if config.backend_named(backend).is_some() => Ok(()),
        Identity::Anyone => Err(format!("backend {backend} is not configured")),
    }
}

impl Streams {
    fn log_end(&self, backend: &BackendName, generation: u64, peer: &Peer, end: &StreamEnd, now: Instant) {
        if matches!(end, StreamEnd::Closed) {
            return;
        }
        let Some(untold) = self.ends.tell((backend.clone(), end.into()), now) else { return };
        match end {
            StreamEnd::Dismissed(goodbye) => {
                let (reason, text) = (goodbye.reason, &goodbye.message);
                tracing::info!(%backend, generation, ?reason, text, untold, "goodbye");
            }
            StreamEnd::Broken(error) => {
                tracing::info!(%backend, generation, %peer, %error, untold, "the stream broke");
            }
            StreamEnd::Unread => {
                tracing::warn!(%backend, generation, %peer, untold, "the agent does not read; its stream ends and it may resume");
            }
            StreamEnd::Closed => {}
        }
    }

    async fn identify(
        &self,
        peer: &Peer,
        incoming: &mut AgentMessages,
    ) -> Result<(BackendName, Option<Policy>, Hello), Goodbye> {
        let hello = hello(incoming).await?;
        let unknown = |message| goodbye(GoodbyeReason::UnknownBackend, message);
        let config = self.config.borrow().clone();
        match config.identify(peer) {
            Identity::Certified { tenant, .. } => {
                let stands_for = tenant.as_ref().ok().map(|backend| &backend.name);
                self.misnamed.came(&config, peer, stands_for, &hello.backend, Instant::now());
                Ok((tenant.map_err(unknown)?.name.clone(), None, hello))
            }
            // Plaintext on loopback: any local process may be any backend.
            Identity::Anyone => {
                let name = BackendName::parse(&hello.backend).map_err(|error| unknown(error.to_string()))?;
                let known = config.backend_named(&name);
                let known = known.ok_or_else(|| unknown(format!("backend {name} is not configured")))?;
                // Without a configuration a backend is known from its first Hello on.
                Ok((name, Some(known.policy.clone()), hello))
            }
        }
    }

    async fn refuse(&self, peer: &Peer, outgoing: &mpsc::Sender<WriterMessage>, goodbye: Goodbye) {
        self.metrics.refused(goodbye.reason);
        // A standby refuses every agent, whatever the peer: one line a minute for all of them.
        let whose = if goodbye.reason == GoodbyeReason::NotLeader { "" } else { peer.key() };
        if let Some(untold) = self.refusals.tell((whose.to_owned(), goodbye.reason), Instant::now()) {
            tracing::warn!(%peer, reason = ?goodbye.reason, text = goodbye.message, untold, "stream refused");
        }
        say_goodbye(peer, outgoing, goodbye).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gimbal_session::{AgentMessage, Credit, Data, Frame, Need, PROTOCOL, Scope, Services, Summary, Welcome};
    use gimbal_testkit::CapturedLog;
    use prometheus_client::registry::Registry;
    use tokio_stream::wrappers::UnboundedReceiverStream;
    use tokio_stream::{Stream, StreamExt as _};

    use super::*;
    use crate::mailbox::{BULK, Mail};

    fn hello(backend: &str) -> AgentMessage {
        AgentMessage::Hello(Hello {
            protocol: (PROTOCOL, PROTOCOL),
            capabilities: Default::default(),
            backend: backend.into(),
            agent_instance: "1".into(),
            source_incarnation: "source".into(),
            held: Some(Summary::default()),
            agent_version: "test".into(),
        })
    }

    fn heartbeat() -> AgentMessage {
        AgentMessage::Heartbeat { sources: Vec::new(), backlog: 0, clock_ms: None }
    }

    /// An open stream: where the owner sends messages, and where the agent receives them.
    struct Open {
        owner: mpsc::Sender<WriterMessage>,
        agent: mpsc::Receiver<WriterMessage>,
    }

    /// Opens a stream whose agent sends these messages after Hello, and then nothing.
    async fn open(
        handle: &Handle,
        mail: &mut mpsc::Receiver<Mail>,
        backend: &str,
        says: impl Iterator<Item = AgentMessage> + Send + 'static,
    ) -> Open {
        open_with(handle, mail, backend, tokio_stream::iter(says).chain(tokio_stream::pending())).await
    }

    /// Opens a stream whose agent sends these messages after Hello.
    async fn open_with(
        handle: &Handle,
        mail: &mut mpsc::Receiver<Mail>,
        backend: &str,
        says: impl Stream<Item = AgentMessage> + Send + 'static,
    ) -> Open {
        let (_, config) = watch::channel(Arc::new(Config::first_look()));
        let metrics = Metrics::register(&mut Registry::default());
        let shutdown = CancellationToken::new();
        let streams = Streams {
            config,
            owner: handle.clone(),
            metrics,
            misnamed: MisnamedAgents::default(),
            shutdown,
            refusals: Quiet::default(),
            ends: Quiet::default(),
        };
        let says = Box::pin(tokio_stream::once(hello(backend)).chain(says).map(Ok));
        let (outgoing, agent) = mpsc::channel(1);
        tokio::spawn(async move { streams.sync(Peer::Loopback, says, outgoing).await });
        let Some(Mail::Open { outgoing: owner, reply, .. }) = mail.recv().await else { panic!("it does not open") };
        reply.send(Ok(1)).unwrap();
        Open { owner, agent }
    }

    #[tokio::test]
    async fn a_hello_that_cannot_be_read_is_refused_with_the_field() {
        let (handle, ..) = Handle::new();
        let (_, config) = watch::channel(Arc::new(Config::first_look()));
        let metrics = Metrics::register(&mut Registry::default());
        let shutdown = CancellationToken::new();
        let streams = Streams {
            config,
            owner: handle,
            metrics,
            misnamed: MisnamedAgents::default(),
            shutdown,
            refusals: Quiet::default(),
            ends: Quiet::default(),
        };
        for (first, expected) in [
            (
                AgentMessage::Unreadable { reason: "agent_instance has 2000 bytes, more than 1024".into() },
                "the first message must be Hello, and cannot be read: agent_instance has 2000 bytes, more than 1024",
            ),
            (heartbeat(), "the first message must be Hello"),
        ] {
            let (outgoing, mut agent) = mpsc::channel(1);
            streams.sync(Peer::Loopback, Box::pin(tokio_stream::iter([Ok(first)])), outgoing).await;
            let Some(WriterMessage::Goodbye(goodbye)) = agent.recv().await else { panic!("no goodbye") };
            assert_eq!((goodbye.reason, &*goodbye.message), (GoodbyeReason::ProtocolError, expected));
        }
    }

    #[test]
    fn streams_that_end_again_and_again_are_logged_once_a_minute() {
        let log = CapturedLog::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let (handle, ..) = Handle::new();
        let (_, config) = watch::channel(Arc::new(Config::first_look()));
        let metrics = Metrics::register(&mut Registry::default());
        let shutdown = CancellationToken::new();
        let (refusals, ends) = (Quiet::default(), Quiet::default());
        let streams =
            Streams { config, owner: handle, metrics, misnamed: MisnamedAgents::default(), shutdown, refusals, ends };
        let (first, now) = (BackendName::parse("a").unwrap(), Instant::now());
        for generation in 1..=20 {
            streams.log_end(&first, generation, &Peer::Loopback, &StreamEnd::Unread, now);
        }
        let lines = || log.text().matches("does not read").count();
        assert_eq!(lines(), 1);
        streams.log_end(&BackendName::parse("b").unwrap(), 21, &Peer::Loopback, &StreamEnd::Unread, now);
        assert_eq!(lines(), 2, "another backend's");
        streams.log_end(&first, 22, &Peer::Loopback, &StreamEnd::Unread, now + Duration::from_secs(60));
        assert!(log.text().contains("untold=19"), "{}", log.text());
        // Another reason is another line.
        for reason in [GoodbyeReason::Superseded, GoodbyeReason::ProtocolError, GoodbyeReason::Superseded] {
            let end = StreamEnd::Dismissed(goodbye(reason, "why".to_owned()));
            streams.log_end(&first, 23, &Peer::Loopback, &end, now);
        }
        assert_eq!(log.text().matches("goodbye").count(), 2, "{}", log.text());
    }

    /// Returns what is in the mailbox once no task can make progress.
    async fn waiting(mail: &mut mpsc::Receiver<Mail>) -> Vec<Mail> {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        std::iter::from_fn(|| mail.try_recv().ok()).collect()
    }

    #[tokio::test]
    async fn a_flood_waits_for_itself() {
        let (handle, mut mail, _) = Handle::new();
        let _stream = open(&handle, &mut mail, "flood", std::iter::repeat_with(heartbeat)).await;
        let mut held = waiting(&mut mail).await;
        assert_eq!(held.len(), Passing::<Services>::TURNS, "more of it wait than have a turn");
        assert!(waiting(&mut mail).await.is_empty(), "though there is room, and more to say");
        held.pop();
        assert_eq!(waiting(&mut mail).await.len(), 1, "one was dealt with");
    }

    /// Returns the backends of the pending messages.
    fn whose(mail: &[Mail]) -> Vec<&str> {
        fn of(mail: &Mail) -> &str {
            match mail {
                Mail::Message { backend, .. } => backend.as_str(),
                _ => panic!("another mail"),
            }
        }
        mail.iter().map(of).collect()
    }

    /// A part of a snapshot, which waits where other streams have all the room for such parts.
    fn chunk(seq: u64) -> AgentMessage {
        let frame = Frame::SnapshotChunk { pieces: Vec::new(), digest: None, age: None };
        AgentMessage::Data(Data { seq, frame, trace: None })
    }

    #[tokio::test]
    async fn snapshots_of_everybody_come_in_turns_and_nothing_else_waits_for_them() {
        let (handle, mut mail, _) = Handle::new();
        let names: Vec<String> = (0..2 * BULK).map(|n| format!("b{n:02}")).collect();
        let (mut streams, mut held) = (Vec::new(), Vec::new());
        for name in &names {
            streams.push(open(&handle, &mut mail, name, (1..9).map(chunk)).await);
            held.extend(waiting(&mut mail).await);
        }
        assert_eq!(held.len(), BULK);
        let waits = streams.last_mut().unwrap();
        waits.owner.try_send(WriterMessage::Ack(1)).unwrap();
        let _other = open(&handle, &mut mail, "other", std::iter::once(heartbeat())).await;
        assert_eq!(whose(&waiting(&mut mail).await), ["other"], "a heartbeat passes");
        assert_eq!(waits.agent.try_recv(), Ok(WriterMessage::Ack(1)), "so does what is said to one whose data waits");
        // The room that is released goes to as many other streams.
        held.clear();
        let next = waiting(&mut mail).await;
        let mut fair = whose(&next);
        fair.sort_unstable();
        fair.dedup();
        assert_eq!((next.len(), fair.len()), (BULK, BULK), "{fair:?}");
    }

    /// An open stream of an agent that is granted this many changes, and what it says. Other streams have all the room for parts of
    /// snapshots, which is what is held.
    struct Crowded {
        mail: mpsc::Receiver<Mail>,
        held: Vec<Mail>,
        says: mpsc::UnboundedSender<AgentMessage>,
        _streams: Vec<Open>,
    }

    impl Crowded {
        async fn with_credit(changes: u32) -> Self {
            let (handle, mut mail, _) = Handle::new();
            let (mut streams, mut held) = (Vec::new(), Vec::new());
            while held.len() < BULK {
                let name = format!("b{:02}", streams.len());
                streams.push(open(&handle, &mut mail, &name, (1..9).map(chunk)).await);
                held.extend(waiting(&mut mail).await);
            }
            let (says, heard) = mpsc::unbounded_channel();
            let mut own = open_with(&handle, &mut mail, "own", UnboundedReceiverStream::new(heard)).await;
            let welcome = Welcome {
                protocol: PROTOCOL,
                generation: 1,
                need: Need::All,
                credit: Credit { changes, bytes: 1 << 20 },
                backend: "own".into(),
                heartbeat_timeout: Duration::from_secs(15),
                capabilities: Default::default(),
            };
            own.owner.try_send(WriterMessage::Welcome(welcome.clone())).unwrap();
            assert_eq!(own.agent.recv().await, Some(WriterMessage::Welcome(welcome)));
            streams.push(own);
            Self { mail, held, says, _streams: streams }
        }

        fn say(&self, messages: impl IntoIterator<Item = AgentMessage>) {
            messages.into_iter().for_each(|message| self.says.send(message).unwrap());
        }

        /// Returns what came of the agent, in short. All of it is dealt with.
        async fn came(&mut self) -> Vec<String> {
            let mail = waiting(&mut self.mail).await;
            mail.iter().filter_map(own).collect()
        }

        /// Makes room for one part of a snapshot of this stream. Those of others that come first stay held.
        async fn make_room(&mut self) -> Vec<String> {
            loop {
                self.held.remove(0);
                let (own_mail, others): (Vec<_>, Vec<_>) =
                    waiting(&mut self.mail).await.into_iter().partition(|mail| own(mail).is_some());
                self.held.extend(others);
                if !own_mail.is_empty() {
                    return own_mail.iter().filter_map(own).collect();
                }
            }
        }
    }

    /// Says in short what came of the agent; `None`: it is another's.
    fn own(mail: &Mail) -> Option<String> {
        let message = match mail {
            Mail::Message { backend, message, .. } if backend.as_str() == "own" => message,
            Mail::Closed { backend, .. } if backend.as_str() == "own" => return Some("closed".into()),
            _ => return None,
        };
        Some(match message {
            AgentMessage::Data(data) => format!("data {}", data.seq),
            AgentMessage::Heartbeat { backlog, .. } => format!("heartbeat {backlog}"),
            AgentMessage::ScopeUnknownAhead { .. } => "unknown ahead".into(),
            AgentMessage::ScopeUnknown { .. } => "unknown".into(),
            AgentMessage::Goodbye(_) => "goodbye".into(),
            other => panic!("{other:?}"),
        })
    }

    fn unknown() -> AgentMessage {
        AgentMessage::ScopeUnknown { scope: Scope::All, reason: "forbidden".into() }
    }

    fn leaves() -> AgentMessage {
        AgentMessage::Goodbye(goodbye(GoodbyeReason::Shutdown, "bye".into()))
    }

    #[tokio::test]
    async fn control_passes_data_of_its_own_stream_and_the_rest_keeps_its_order() {
        let mut crowd = Crowded::with_credit(10).await;
        crowd.say([chunk(1), chunk(2), heartbeat(), unknown(), chunk(3), heartbeat(), leaves()]);
        // Each is there once the owner has dealt with the one before. What waits here is a backlog.
        let mut came = Vec::new();
        for _ in 0..5 {
            came.push(crowd.came().await);
        }
        assert_eq!(came.concat(), ["heartbeat 1", "unknown ahead", "heartbeat 3", "goodbye"]);
        assert!(came.iter().all(|came| came.len() <= 1), "{came:?}");
        let mut later = Vec::new();
        while later.last().is_none_or(|last| last != "data 3") {
            later.extend(crowd.make_room().await);
        }
        assert_eq!(later, ["data 1", "data 2", "unknown", "data 3"]);
    }

    #[tokio::test]
    async fn no_more_is_read_than_the_agent_was_granted() {
        let mut crowd = Crowded::with_credit(2).await;
        crowd.say([chunk(1), chunk(2), chunk(3), heartbeat()]);
        assert_eq!(crowd.came().await, [""; 0], "two wait behind the first, and that is all");
        assert_eq!(crowd.make_room().await, ["data 1", "heartbeat 1"]);
    }

    #[tokio::test]
    async fn what_has_room_is_not_overtaken() {
        let mut crowd = Crowded::with_credit(10).await;
        crowd.held.clear();
        waiting(&mut crowd.mail).await;
        crowd.say([chunk(1), leaves()]);
        assert_eq!(crowd.came().await, ["data 1", "goodbye"]);
    }

    #[tokio::test]
    async fn what_waits_when_the_agent_closes_its_side_still_counts() {
        let mut crowd = Crowded::with_credit(10).await;
        crowd.say([chunk(1), chunk(2)]);
        assert_eq!(crowd.came().await, [""; 0]);
        drop(std::mem::replace(&mut crowd.says, mpsc::unbounded_channel().0));
        assert_eq!(crowd.came().await, [""; 0]);
        let mut later = crowd.make_room().await;
        while later.last().is_none_or(|last| last != "closed") {
            later.extend(crowd.make_room().await);
        }
        assert_eq!(later, ["data 1", "data 2", "closed"]);
    }
}
