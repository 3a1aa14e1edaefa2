//! A scripted controller: what it wants is said by the test, over the real stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use gimbal_kuryr_model::{
    Balancing, CertificateContent, CertificateHash, ClientRanges, CloudFacts, DesiredEntry, DesiredKey, DesiredKind,
    DesiredLoadBalancer, DesiredMember, DesiredMembers, ListenerId, ListenerKind, ListenerWish, LoadBalancerHeader,
    LoadBalancerPlacement, LoadBalancerReport, MemberId, MemberMode, Phase, Timeouts, VipWish,
};
use gimbal_kuryr_wire::{Kuryr, KuryrReason};
use gimbal_model::{Family, Protocol};
use gimbal_session::{AgentConfig, AgentEnd, AgentVerdict, Content as _, Credit, Goodbye, WriterMessage};
use gimbal_testkit::{Pair, Pki, eventually};
use gimbal_tests::SOON;
use gimbal_transport::{ClientTls, TlsFiles, client_tls, dial, open};
use tokio::sync::mpsc;

/// How long a test waits for a load balancer: real services are slow on a busy machine.
pub const MADE: Duration = Duration::from_secs(420);

enum Order {
    Set(DesiredKey, Option<DesiredEntry>),
    /// Drops the connection, and dials no more.
    Silence,
    /// Dials again.
    Speak,
}

/// What the writer said.
#[derive(Default)]
struct Heard {
    reports: BTreeMap<DesiredKey, LoadBalancerReport>,
    rejects: BTreeMap<DesiredKey, (KuryrReason, String)>,
    facts: Option<CloudFacts>,
    goodbyes: Vec<Goodbye>,
    open: bool,
    /// What the cluster answers when it is asked for a certificate, and how often it was.
    contents: BTreeMap<CertificateHash, CertificateContent>,
    asked: usize,
}

/// A controller of one cluster. It dials until it is dropped.
pub struct Controller {
    orders: mpsc::UnboundedSender<Order>,
    heard: Arc<Mutex<Heard>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Controller {
    /// Starts a controller with this certificate.
    pub fn start(pki: &Pki, pair: &Pair, name: &str, uid: &str, port: u16) -> Self {
        let files = TlsFiles { cert: pair.cert.clone(), key: pair.key.clone(), ca: pki.ca().to_owned() };
        let tls = client_tls(&files).unwrap();
        let (orders, received) = mpsc::unbounded_channel();
        let heard = Arc::<Mutex<Heard>>::default();
        let config = AgentConfig { backend: name.into(), instance: format!("{name}-1"), version: "test".into() };
        let mut end = AgentEnd::<Kuryr>::new(config);
        end.set_incarnation(uid.to_owned());
        end.grant_reports(Credit { changes: 100, bytes: 1 << 20 });
        end.source_complete();
        let url = format!("https://localhost:{port}");
        let task = tokio::spawn(run(end, url, tls, received, heard.clone()));
        Self { orders, heard, task }
    }

    /// Wants a load balancer, or something else of it.
    pub fn want(&self, name: &str, wanted: DesiredLoadBalancer) {
        self.orders.send(Order::Set(key(name), Some(DesiredEntry::LoadBalancer(wanted)))).unwrap();
    }

    /// Has a certificate from now on. Returns its hash.
    pub fn has_certificate(&self, chain: &[u8], key: &[u8]) -> CertificateHash {
        let content = CertificateContent::new(chain, key);
        let hash = content.hash();
        self.heard.lock().unwrap().contents.insert(hash, content);
        hash
    }

    /// Returns how many certificates the writer has asked for.
    pub fn asked(&self) -> usize {
        self.heard.lock().unwrap().asked
    }

    /// Says that the owner of a load balancer is going.
    pub fn delete(&self, name: &str, owner: &str) {
        self.orders.send(Order::Set(key(name), Some(DesiredEntry::Deleting { owner: owner.into() }))).unwrap();
    }

    /// Says that the owner is going, and waits until nothing is left.
    pub async fn remove(&self, name: &str, owner: &str) {
        self.delete(name, owner);
        self.expect_gone(name).await;
        self.forget(name);
    }

    /// Says nothing of it any more, as if it had never been.
    pub fn forget(&self, name: &str) {
        self.orders.send(Order::Set(key(name), None)).unwrap();
    }

    /// Drops the stream without a word, and dials no more.
    pub fn silence(&self) {
        self.orders.send(Order::Silence).unwrap();
    }

    /// Dials again after [`Self::silence`].
    pub fn speak(&self) {
        self.orders.send(Order::Speak).unwrap();
    }

    /// Returns the latest report of a load balancer.
    pub fn report(&self, name: &str) -> Option<LoadBalancerReport> {
        self.heard.lock().unwrap().reports.get(&key(name)).cloned()
    }

    /// Waits until a load balancer's report says this.
    pub async fn expect(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&LoadBalancerReport) -> bool,
    ) -> LoadBalancerReport {
        let what = format!("{name} is {what}");
        let wait = eventually(&what, MADE, async || {
            let report = self.report(name);
            let is_it = report.as_ref().is_some_and(&holds);
            report.filter(|_| is_it).ok_or_else(|| format!("{:?}", self.report(name)))
        });
        wait.await.unwrap()
    }

    /// Waits until a load balancer is ready in this generation. Returns its ID.
    pub async fn expect_ready(&self, name: &str, generation: i64) -> String {
        let is_ready = |report: &LoadBalancerReport| report.phase == Phase::Ready && report.generation == generation;
        let report = self.expect(name, &format!("ready in generation {generation}"), is_ready).await;
        report.objects.load_balancer.unwrap().id.to_string()
    }

    /// Waits until nothing is left of a load balancer.
    pub async fn expect_gone(&self, name: &str) {
        self.expect(name, "gone", |report| report.phase == Phase::Gone).await;
    }

    /// Waits until a load balancer is refused for this reason. Returns the message.
    pub async fn expect_reject(&self, name: &str, reason: KuryrReason) -> String {
        let what = format!("{name} is refused");
        let wait = eventually(&what, SOON, async || {
            let rejects = &self.heard.lock().unwrap().rejects;
            match rejects.get(&key(name)) {
                Some((found, message)) if *found == reason => Ok(message.clone()),
                other => Err(format!("{other:?}")),
            }
        });
        wait.await.unwrap()
    }

    /// Waits for the facts.
    pub async fn expect_facts(&self) -> CloudFacts {
        let wait = eventually("facts come", SOON, async || self.heard.lock().unwrap().facts.clone().ok_or("none"));
        wait.await.unwrap()
    }

    /// Waits until the writer has said goodbye with these words.
    pub async fn expect_goodbye(&self, words: &str) {
        let what = format!("goodbye: {words}");
        let wait = eventually(&what, SOON, async || {
            let goodbyes = &self.heard.lock().unwrap().goodbyes;
            let found = goodbyes.iter().any(|goodbye| goodbye.message.contains(words));
            found.then_some(()).ok_or_else(|| format!("{goodbyes:?}"))
        });
        wait.await.unwrap();
    }

    /// Waits until the stream is open, or is not.
    pub async fn expect_open(&self, open: bool) {
        let what = format!("the stream is open: {open}");
        let wait = eventually(&what, SOON, async || {
            (self.heard.lock().unwrap().open == open).then_some(()).ok_or("it is not so")
        });
        wait.await.unwrap();
    }
}

async fn run(
    mut end: AgentEnd<Kuryr>,
    url: String,
    tls: ClientTls,
    mut orders: mpsc::UnboundedReceiver<Order>,
    heard: Arc<Mutex<Heard>>,
) {
    let mut speaks = true;
    loop {
        while let Ok(order) = orders.try_recv() {
            speaks = obey(&mut end, order, speaks);
        }
        if !speaks {
            let Some(order) = orders.recv().await else { return };
            speaks = obey(&mut end, order, speaks);
            continue;
        }
        if let Ok(channel) = dial(&url, Some(tls.clone()), Duration::from_secs(5)).await
            && let Ok((sender, incoming)) = open::<Kuryr>(channel).await
        {
            end.connected(Instant::now());
            speaks = converse(&mut end, &sender, incoming, &mut orders, &heard).await;
            end.disconnected();
            heard.lock().unwrap().open = false;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Carries out an order. Returns whether to dial.
fn obey(end: &mut AgentEnd<Kuryr>, order: Order, speaks: bool) -> bool {
    match order {
        Order::Set(key, entry) => {
            end.set(key, entry.map(Into::into), Instant::now());
            speaks
        }
        Order::Silence => false,
        Order::Speak => true,
    }
}

/// Returns whether to dial again.
async fn converse(
    end: &mut AgentEnd<Kuryr>,
    sender: &gimbal_transport::AgentSender<Kuryr>,
    mut incoming: gimbal_transport::WriterMessages<Kuryr>,
    orders: &mut mpsc::UnboundedReceiver<Order>,
    heard: &Mutex<Heard>,
) -> bool {
    let mut sends = true;
    loop {
        let now = Instant::now();
        let deadline = end.next_deadline(now).unwrap_or(now + Duration::from_secs(1));
        tokio::select! {
            permit = sender.reserve(), if sends => {
                let Ok(permit) = permit else { return true };
                match end.next(Instant::now()) {
                    Some(message) => permit.send(message),
                    None => sends = false,
                }
            }
            message = incoming.next() => {
                let Some(Ok(message)) = message else { return true };
                note(heard, &message);
                if end.receive(message, Instant::now()) != AgentVerdict::Continue {
                    return true;
                }
                let asked: Vec<CertificateHash> = end.requested_contents().copied().collect();
                for hash in asked {
                    let mut heard = heard.lock().unwrap();
                    heard.asked += 1;
                    end.answer_content(&hash, heard.contents.get(&hash).cloned());
                }
                while let Some(received) = end.take_report() {
                    heard.lock().unwrap().reports.insert(received.key.clone(), received.report.clone());
                    end.report_done(&received);
                }
                sends = true;
            }
            order = orders.recv() => {
                let Some(order) = order else { return false };
                if !obey(end, order, true) {
                    return false;
                }
                sends = true;
            }
            () = tokio::time::sleep_until(deadline.into()) => sends = true,
        }
    }
}

fn note(heard: &Mutex<Heard>, message: &WriterMessage<Kuryr>) {
    let mut heard = heard.lock().unwrap();
    match message {
        WriterMessage::Welcome(_) => heard.open = true,
        WriterMessage::Facts(facts) => heard.facts = Some(facts.clone()),
        WriterMessage::Goodbye(goodbye) => heard.goodbyes.push(goodbye.clone()),
        WriterMessage::Reject(reject) => {
            if let Some(key) = &reject.key {
                heard.rejects.insert(key.clone(), (reject.reason, reject.message.clone()));
            }
        }
        WriterMessage::Resolved(key) => drop(heard.rejects.remove(key)),
        _ => {}
    }
}

/// The key of a load balancer in the namespace `shop`; of a router, if the name says so.
pub fn key(name: &str) -> DesiredKey {
    let kind = if name.starts_with("router") { DesiredKind::L7Router } else { DesiredKind::LoadBalancer };
    DesiredKey::new(kind, "shop", name)
}

/// With something else in its header.
pub fn with(mut wanted: DesiredLoadBalancer, change: impl FnOnce(&mut LoadBalancerHeader)) -> DesiredLoadBalancer {
    let header = Arc::make_mut(&mut wanted.header);
    change(header);
    header.sort();
    wanted
}

/// With a port of its own, as for a Service of type LoadBalancer.
pub fn from_outside(wanted: DesiredLoadBalancer) -> DesiredLoadBalancer {
    with(wanted, |header| header.vip.from_outside = true)
}

/// A load balancer that is wanted: these ports, and these members of each.
pub fn wanted(owner: &str, generation: i64, subnet: &str, ports: &[u16], members: &[&str]) -> DesiredLoadBalancer {
    let id = |port: u16| ListenerId::new(Protocol::Tcp, port);
    let header = LoadBalancerHeader {
        owner: owner.into(),
        known: false,
        placement: LoadBalancerPlacement::default(),
        vip: VipWish { subnet: Some(subnet.into()), ..VipWish::default() },
        floating: None,
        listeners: ports
            .iter()
            .map(|port| ListenerWish { id: id(*port), kind: ListenerKind::Plain, name: None })
            .collect(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: Box::default(),
        shared_group: None,
        adopt: None,
        routing: None,
    };
    let member = |port: u16, address: &str| DesiredMember {
        id: MemberId { pool: id(port).into(), address: address.parse().unwrap(), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    };
    let all = ports.iter().flat_map(|port| members.iter().map(|address| member(*port, address))).collect();
    DesiredLoadBalancer { generation, header: Arc::new(header), members: DesiredMembers::new(all) }
}
