//! An openstack-writer without OpenStack, the other end of a controller under test: it keeps what is streamed in the
//! session's own writer end, and either makes everything at once or reports what a test says.
#![allow(clippy::unwrap_used)] // As in a test: a panic is the report.

mod made;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use gimbal_kuryr_model::{
    CertificateContent, CertificateHash, CloudFacts, DesiredEntry, DesiredKey, DesiredKind, LoadBalancerReport, Phase,
};
use gimbal_kuryr_wire::{Kuryr, KuryrReason};
use gimbal_session::{AgentMessage, Credit, Outcome, Reject, WriterEnd, WriterLimits, WriterMessage, WriterOutput};
use gimbal_transport::{AgentMessages, Discovery, Peer, ServeOptions, ServiceBuilder};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::made::{facts, gone, made};
use crate::eventually;

/// How long a test waits for anything.
const SOON: Duration = Duration::from_secs(30);

/// What the controller streamed of one entry; `None` if it was removed.
pub type Streamed = (DesiredKey, Option<Arc<DesiredEntry>>);

struct State {
    end: WriterEnd<Kuryr>,
    /// Streams so far, and those that are open.
    streams: (u64, usize),
    /// Whether everything is made, or removed, as soon as it is streamed.
    makes: bool,
    /// Entries that are not tried, and why.
    refused: BTreeMap<DesiredKey, (KuryrReason, String)>,
    streamed: Vec<Streamed>,
    heartbeats: u64,
    /// The certificates that have come, or that the controller does not have.
    contents: BTreeMap<CertificateHash, Option<CertificateContent>>,
    /// Whether certificates are served, and all messages of the controller kept.
    has_certificates: bool,
    messages: Vec<AgentMessage<Kuryr>>,
}

/// Serves plaintext on loopback, until it is dropped.
pub struct ScriptedOpenStack {
    /// The URL, for `--writer`.
    pub url: String,
    script: Script,
    _stop: DropGuard,
}

impl ScriptedOpenStack {
    /// Starts one on a free port that makes everything at once, in a cloud of these facts.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(facts: CloudFacts) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let limits = WriterLimits {
            credit: Credit { changes: 10_000, bytes: 64 << 20 },
            heartbeat_timeout: Duration::from_secs(15),
        };
        let mut end = WriterEnd::new(limits);
        let has_certificates = facts.certificates;
        end.set_facts(facts).unwrap();
        let state = State {
            end,
            streams: (0, 0),
            makes: true,
            refused: BTreeMap::new(),
            streamed: Vec::new(),
            heartbeats: 0,
            contents: BTreeMap::new(),
            has_certificates,
            messages: Vec::new(),
        };
        let script = Script { state: Arc::new(Mutex::new(state)), news: Arc::default() };
        let stop = CancellationToken::new();
        let discovery = Arc::new(script.clone());
        let register = move |builder: &mut ServiceBuilder| {
            builder.add_sync::<Kuryr>(discovery, gimbal_kuryr_wire::FILE_DESCRIPTOR_SET);
        };
        tokio::spawn(gimbal_transport::serve_services(listener, register, ServeOptions::default(), stop.clone()));
        Self { url, script, _stop: stop.drop_guard() }
    }

    /// From now on, makes everything at once, or only takes note of it. What was streamed before is made now.
    ///
    /// # Panics
    /// If the server panicked.
    pub fn make_at_once(&self, makes: bool) {
        self.with(|state| {
            state.makes = makes;
            let keys: Vec<_> = state.end.entries().map(|(key, _)| key.clone()).collect();
            keys.iter().filter(|_| makes).for_each(|key| state.make(key));
        });
    }

    /// Reports something about an entry.
    ///
    /// # Panics
    /// If the entry is not held.
    pub fn report(&self, namespace: &str, name: &str, report: LoadBalancerReport) {
        self.with(|state| state.end.report(key(namespace, name), report).unwrap());
    }

    /// From now on, does not try an entry for this reason and in these words, or tries it again.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    pub fn refuse(&self, namespace: &str, name: &str, why: Option<(KuryrReason, &str)>) {
        let key = key(namespace, name);
        self.with(|state| {
            match why {
                Some((reason, words)) => drop(state.refused.insert(key.clone(), (reason, words.to_owned()))),
                None => drop(state.refused.remove(&key)),
            }
            if state.end.entry(&key).is_some() {
                state.judge(&key);
            }
        });
    }

    /// Says other facts.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    pub fn set_facts(&self, facts: CloudFacts) {
        self.with(|state| {
            state.has_certificates = facts.certificates;
            state.end.set_facts(facts).unwrap();
        });
    }

    /// Returns the names of what is held, each with `deleting` where its owner is going.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn held(&self) -> Vec<String> {
        self.with(|state| {
            let name = |(key, entry): (&DesiredKey, &Arc<DesiredEntry>)| {
                format!("{}/{}{}", key.namespace, key.name, if entry.is_deleting() { " deleting" } else { "" })
            };
            state.end.entries().map(name).collect()
        })
    }

    /// Returns an entry that is held.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn entry(&self, namespace: &str, name: &str) -> Option<Arc<DesiredEntry>> {
        self.with(|state| state.end.entry(&key(namespace, name)).cloned())
    }

    /// Returns what is held of a router.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn router(&self, namespace: &str, name: &str) -> Option<Arc<DesiredEntry>> {
        let key = DesiredKey::new(DesiredKind::L7Router, namespace, name);
        self.with(|state| state.end.entry(&key).cloned())
    }

    /// Returns the answers to its requests for certificates, the latest of each.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn contents(&self) -> BTreeMap<CertificateHash, Option<CertificateContent>> {
        self.with(|state| state.contents.clone())
    }

    /// Asks for a certificate, whether an entry has it or not.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    pub fn want_content(&self, hash: CertificateHash) {
        self.with(|state| {
            state.contents.remove(&hash);
            state.end.want_content(hash);
        });
    }

    /// Returns everything that the controller has sent since there are certificates in these facts.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn messages(&self) -> Vec<AgentMessage<Kuryr>> {
        self.with(|state| state.messages.clone())
    }

    /// Returns `address:port` of every member of an entry that is held.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn members(&self, namespace: &str, name: &str) -> Vec<String> {
        let entry = self.entry(namespace, name);
        let Some(DesiredEntry::LoadBalancer(wanted)) = entry.as_deref() else { return Vec::new() };
        wanted.members.as_slice().iter().map(|member| format!("{}:{}", member.id.address, member.id.port)).collect()
    }

    /// Returns everything that was streamed of an entry, in order.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn streamed(&self, namespace: &str, name: &str) -> Vec<Option<Arc<DesiredEntry>>> {
        let wanted = key(namespace, name);
        self.with(|state| {
            state.streamed.iter().filter(|(key, _)| *key == wanted).map(|(_, entry)| entry.clone()).collect()
        })
    }

    /// Returns the number of streams so far, and of those that are open.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn streams(&self) -> (u64, usize) {
        self.with(|state| state.streams)
    }

    /// Returns the number of heartbeats so far.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn heartbeats(&self) -> u64 {
        self.with(|state| state.heartbeats)
    }

    /// Returns whether the latest report of an entry was not acknowledged.
    ///
    /// # Panics
    /// As [`Self::make_at_once`].
    #[must_use]
    pub fn awaits(&self, namespace: &str, name: &str) -> bool {
        self.with(|state| state.end.is_report_pending(&key(namespace, name)))
    }

    /// Waits until exactly these are held, in the form of [`Self::held`].
    ///
    /// # Panics
    /// If they are not in time.
    pub async fn until_held(&self, expected: &[&str]) {
        eventually("the writer holds it", SOON, async || {
            let held = self.held();
            if held == expected { Ok(()) } else { Err(format!("it holds {held:?}")) }
        })
        .await
        .unwrap();
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let result = work(&mut self.script.state.lock().unwrap());
        self.script.news.notify_waiters();
        result
    }
}

fn key(namespace: &str, name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, namespace, name)
}

#[derive(Clone)]
struct Script {
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
}

#[tonic::async_trait]
impl Discovery<Kuryr> for Script {
    async fn sync(&self, _: Peer, mut incoming: AgentMessages<Kuryr>, outgoing: mpsc::Sender<WriterMessage<Kuryr>>) {
        self.state.lock().unwrap().streams.1 += 1;
        loop {
            let news = self.news.notified();
            let messages = self.state.lock().unwrap().end.take_messages();
            for message in messages {
                // The agent is gone: its end of the stream says so below.
                outgoing.send(message).await.ok();
            }
            tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(message)) => self.state.lock().unwrap().receive(message),
                    _ => break,
                },
                () = news => {}
            }
        }
        let mut state = self.state.lock().unwrap();
        state.streams.1 -= 1;
        // A newer stream may have taken its place.
        if state.streams.1 == 0 {
            state.end.closed();
        }
    }
}

impl State {
    fn receive(&mut self, message: AgentMessage<Kuryr>) {
        let now = Instant::now();
        if self.has_certificates {
            self.messages.push(message.clone());
        }
        let outputs = match message {
            AgentMessage::Hello(hello) => {
                self.streams.0 += 1;
                let backend = hello.backend.clone();
                self.end.open(&hello, &backend, self.streams.0, now)
            }
            message => {
                self.heartbeats += u64::from(matches!(message, AgentMessage::Heartbeat { .. }));
                self.end.receive(message, now)
            }
        };
        for output in outputs {
            match output {
                WriterOutput::Changed(key) | WriterOutput::Removed(key) => {
                    let entry = self.end.entry(&key).cloned();
                    if entry.is_none() {
                        self.end.forget_report(&key);
                        self.end.forget_removed(&key);
                    }
                    self.want_contents(entry.as_deref());
                    self.streamed.push((key.clone(), entry));
                    self.judge(&key);
                }
                WriterOutput::ReportDone { key, report } if report.phase == Phase::Gone => {
                    self.end.forget_report(&key);
                }
                WriterOutput::Content { hash, content } => {
                    self.contents.insert(hash, content);
                    let keys: Vec<_> = self.end.entries().map(|(key, _)| key.clone()).collect();
                    keys.iter().filter(|key| key.kind == DesiredKind::L7Router).for_each(|key| self.judge(key));
                }
                WriterOutput::Unreadable { reason, .. } | WriterOutput::ReportUnreadable { reason, .. } => {
                    panic!("{reason}")
                }
                _ => {}
            }
        }
    }

    /// Asks for the certificates of an entry that have not come.
    fn want_contents(&mut self, entry: Option<&DesiredEntry>) {
        let Some(DesiredEntry::LoadBalancer(wanted)) = entry else { return };
        for wish in wanted.header.routing.iter().flat_map(|routing| &routing.certificates) {
            if !matches!(self.contents.get(&wish.hash), Some(Some(_))) {
                self.end.want_content(wish.hash);
            }
        }
    }

    /// Refuses an entry, or makes it.
    fn judge(&mut self, key: &DesiredKey) {
        let is_deleting = self.end.entry(key).is_some_and(|entry| entry.is_deleting());
        let refused = self.refused.get(key).filter(|_| !is_deleting).cloned();
        let outcome = match refused {
            Some((reason, message)) => {
                Outcome::Rejected(Reject { key: Some(key.clone()), reason, retryable: true, message })
            }
            None => {
                if self.makes {
                    self.make(key);
                }
                Outcome::Applied
            }
        };
        self.end.settle(key, outcome);
    }

    /// Reports an entry as made, or as gone if its owner is going.
    fn make(&mut self, key: &DesiredKey) {
        let Some(entry) = self.end.entry(key).cloned() else { return };
        let report = match &*entry {
            DesiredEntry::LoadBalancer(wanted) => {
                let mut report = made(key, wanted);
                report.objects.certificates.retain(|one| matches!(self.contents.get(&one.hash), Some(Some(_))));
                report
            }
            DesiredEntry::Deleting { owner } => gone(owner),
        };
        self.end.report(key.clone(), report).unwrap();
    }
}
