//! Requests at a steady rate, while everything that is Gimbal's, and a source, is killed, away or busy: none fails.

mod upgrades;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimbal_testkit::process::free_port;
use gimbal_testkit::{Answering, EnvoyClient, eventually};
use gimbal_tests::{Discoverer, Ep, SOON, Writer, expect_metric, metric, slice, svc, writer_rights};
use tokio::task::JoinHandle;

use super::{NAMESPACE, PORT, Stage, TARGET_PORT, is_alone};

const PORTS: [(&str, u16); 1] = [("http", PORT)];
const SERVICES: u8 = 4;
/// Endpoints of a Service.
const ENDPOINTS: u8 = 3;
/// How often a request is sent.
const SEND: Duration = Duration::from_millis(5);
/// Requests of each Service during each trouble, from when it is there.
const REQUESTS: u64 = 150;
/// The second writer, as a user of its own.
const SECOND: &str = "user-1";

fn web(service: u8) -> String {
    format!("web{service}")
}

fn host(service: u8) -> String {
    format!("web{service}.example")
}

fn address(service: u8, number: u8) -> String {
    format!("10.77.{service}.{number}")
}

/// What came of the requests.
#[derive(Debug, Default, Clone)]
struct Traffic {
    /// Answers of each Service.
    answered: BTreeMap<u8, u64>,
    failed: Vec<String>,
}

impl Traffic {
    fn of(&self, service: u8) -> u64 {
        self.answered.get(&service).copied().unwrap_or_default()
    }
}

/// Clients that send until they are dropped, to each Service in turn.
struct Clients {
    traffic: Arc<Mutex<Traffic>>,
    task: JoinHandle<()>,
}

impl Clients {
    fn start(client: &EnvoyClient) -> Self {
        let traffic = Arc::new(Mutex::new(Traffic::default()));
        let (client, counted) = (client.clone(), traffic.clone());
        let task = tokio::spawn(async move {
            let mut turns = tokio::time::interval(SEND);
            for service in (0..SERVICES).cycle() {
                turns.tick().await;
                let (client, counted) = (client.clone(), counted.clone());
                // An answer that takes long delays no other request.
                tokio::spawn(async move {
                    let answer = client.get(&host(service), "/").await;
                    let mut traffic = counted.lock().unwrap();
                    match answer {
                        Ok(answer) if answer.status == 200 && answer.body.starts_with(&address(service, 0)[..8]) => {
                            *traffic.answered.entry(service).or_default() += 1;
                        }
                        other => traffic.failed.push(format!("{}: {other:?}", web(service))),
                    }
                });
            }
        });
        Self { traffic, task }
    }

    fn traffic(&self) -> Traffic {
        self.traffic.lock().unwrap().clone()
    }

    /// Waits until more requests of each Service are answered.
    async fn more(&self) {
        let before = self.traffic();
        let what = format!("{REQUESTS} more requests of each Service are answered");
        let result = eventually(&what, SOON, async || {
            let now = self.traffic();
            let more = |service| now.of(service) >= before.of(service) + REQUESTS;
            anyhow::ensure!((0..SERVICES).all(more), "{now:?}");
            Ok::<_, anyhow::Error>(())
        });
        result.await.unwrap();
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Two writers and a discoverer, and a server at each endpoint.
struct Running {
    stage: Stage,
    config: PathBuf,
    ports: [u16; 2],
    /// One of them leads.
    writers: [Option<Writer>; 2],
    discoverer: Option<Discoverer>,
    /// By Service and number.
    servers: BTreeMap<(u8, u8), Answering>,
}

impl Running {
    async fn start() -> Self {
        let stage = Stage::start().await;
        let scene = &stage.scene;
        scene.gimbal.bind(&scene.gimbal.user(SECOND).unwrap(), &writer_rights().unwrap()).await.unwrap();
        let config = scene.config(&["node02"], "guard: {minEndpoints: 6}").unwrap();
        let ports = [free_port().unwrap(), free_port().unwrap()];
        let mut running =
            Self { stage, config, ports, writers: [None, None], discoverer: None, servers: BTreeMap::new() };
        for service in 0..SERVICES {
            running.stage.scene.put(&svc(NAMESPACE, &web(service), &PORTS)).await.unwrap();
            for number in 1..=ENDPOINTS {
                running.serve(service, number).await;
            }
            running.offer(service, 1..=ENDPOINTS, None).await;
        }
        running.write(0).await;
        running.expect_leading(0).await;
        running.write(1).await;
        running.discover().await;
        for service in 0..SERVICES {
            running.stage.proxy(&host(service), &format!("node02-{}", web(service)), PORT).await;
            running.expect_endpoints(service, 1..=ENDPOINTS).await;
            running.stage.expect(&host(service), "/", 200, "").await;
        }
        running
    }

    async fn serve(&mut self, service: u8, number: u8) {
        let server = Answering::start(address(service, number).parse().unwrap(), TARGET_PORT).await.unwrap();
        self.servers.insert((service, number), server);
    }

    /// Has the source say that a Service has these endpoints.
    async fn offer(&self, service: u8, numbers: std::ops::RangeInclusive<u8>, leaving: Option<u8>) {
        let addresses: Vec<(u8, String)> = numbers.map(|number| (number, address(service, number))).collect();
        let endpoints: Vec<Ep<'_>> = addresses
            .iter()
            .map(
                |(number, address)| {
                    if leaving == Some(*number) { Ep::Terminating(address) } else { Ep::Ready(address) }
                },
            )
            .collect();
        self.stage.scene.put(&slice(NAMESPACE, &web(service), "a", &PORTS, &endpoints)).await.unwrap();
    }

    async fn expect_endpoints(&self, service: u8, numbers: std::ops::RangeInclusive<u8>) {
        let mut wanted: Vec<String> =
            numbers.map(|number| format!("{}:{TARGET_PORT}", address(service, number))).collect();
        wanted.sort();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        self.stage.expect_endpoints(&format!("node02-{}", web(service)), &wanted).await;
    }

    fn writer(&self, which: usize) -> &Writer {
        self.writers[which].as_ref().unwrap()
    }

    /// Returns which writer leads, once one does. After a while without any, it can be either.
    async fn leading(&self) -> usize {
        let result = eventually("a writer leads", SOON, async || {
            for (which, writer) in self.writers.iter().enumerate() {
                let Some(writer) = writer else { continue };
                if metric(writer.admin_port, "gimbal_writer_leading", "").await? > 0.5 {
                    return Ok(which);
                }
            }
            anyhow::bail!("none does")
        });
        result.await.unwrap()
    }

    async fn expect_leading(&self, which: usize) {
        expect_metric(self.writer(which).admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
    }

    async fn write(&mut self, which: usize) {
        let user = ["writer", SECOND][which];
        let started = self.stage.scene.writer_as(user, self.ports[which], &self.config, &[]).await.unwrap();
        self.writers[which] = Some(started);
    }

    async fn discover(&mut self) {
        let writers = self.ports.map(|port| format!("https://localhost:{port}")).join(",");
        let scene = &self.stage.scene;
        let mut args = scene.to_writer(&scene.pair("node02").unwrap(), self.ports[0]);
        args[0] = format!("--writer={writers}");
        let kubeconfig = scene.source.user("discoverer").unwrap().kubeconfig().to_owned();
        let started = scene.start_discoverer("node02", &kubeconfig, &args).unwrap();
        started.ready().await.unwrap();
        self.discoverer = Some(started);
    }

    /// Waits until a change of the source arrives at Envoy: everything works again.
    async fn works(&mut self) {
        self.roll(0).await;
    }

    /// Replaces the first endpoint of a Service, as a rollout does: the new one is ready before the old one leaves, and that one
    /// answers until no client sends to it.
    async fn roll(&mut self, service: u8) {
        let numbers = self.numbers(service);
        let (old, new) = (*numbers.start(), numbers.end() + 1);
        self.serve(service, new).await;
        self.offer(service, old..=new, None).await;
        self.expect_endpoints(service, old..=new).await;
        self.offer(service, old..=new, Some(old)).await;
        self.expect_endpoints(service, old + 1..=new).await;
        self.offer(service, old + 1..=new, None).await;
        self.servers.remove(&(service, old)).unwrap().end().await.unwrap();
    }

    fn numbers(&self, service: u8) -> std::ops::RangeInclusive<u8> {
        let numbers = || self.servers.keys().filter(|(of, _)| *of == service).map(|(_, number)| *number);
        numbers().min().unwrap()..=numbers().max().unwrap()
    }
}

async fn a_killed_discoverer(running: &mut Running, clients: &Clients) {
    running.discoverer.take().unwrap().process.kill().unwrap();
    clients.more().await;
    running.discover().await;
    running.works().await;
}

async fn a_killed_leader(running: &mut Running, clients: &Clients) {
    let first = running.leading().await;
    let second = 1 - first;
    running.writers[first].take().unwrap().process.kill().unwrap();
    running.expect_leading(second).await;
    clients.more().await;
    running.works().await;
    running.write(first).await;
    // Now the other one leads, and stops of its own.
    running.writers[second].take().unwrap().process.terminate(SOON).await.unwrap();
    running.expect_leading(first).await;
    running.works().await;
    running.write(second).await;
}

async fn a_leader_that_sleeps(running: &mut Running, clients: &Clients) {
    let first = running.leading().await;
    running.writer(first).process.freeze().unwrap();
    running.expect_leading(1 - first).await;
    clients.more().await;
    running.works().await;
    // It wakes with what it believed, and has to let the other one lead.
    running.writer(first).process.signal("CONT").unwrap();
    expect_metric(running.writer(first).admin_port, "gimbal_writer_leading", "", 0.0).await.unwrap();
    clients.more().await;
    running.works().await;
}

async fn no_writer(running: &mut Running, clients: &Clients) {
    running.writers = [None, None];
    clients.more().await;
    running.write(0).await;
    running.write(1).await;
    running.works().await;
}

async fn a_source_that_is_away(running: &mut Running, clients: &Clients) {
    running.stage.scene.source.stop_apiserver().unwrap();
    // Only after a while is the source unknown: until then the discoverer has just lost its watches.
    let discoverer = running.discoverer.as_ref().unwrap().admin_port;
    expect_metric(discoverer, "gimbal_discoverer_source_complete", "", 0.0).await.unwrap();
    clients.more().await;
    running.stage.scene.source.start_apiserver().await.unwrap();
    running.works().await;
}

async fn no_api_server(running: &mut Running, clients: &Clients) {
    running.stage.scene.gimbal.stop_apiserver().unwrap();
    for which in [0, 1] {
        expect_metric(running.writer(which).admin_port, "gimbal_writer_leading", "", 0.0).await.unwrap();
    }
    clients.more().await;
    running.stage.scene.gimbal.start_apiserver().await.unwrap();
    running.works().await;
}

async fn rollouts(running: &mut Running, clients: &Clients) {
    for _ in 0..ENDPOINTS {
        for service in 0..SERVICES {
            running.roll(service).await;
        }
    }
    clients.more().await;
}

/// The source has lost everything when the discoverer comes back, and all of it goes on serving.
async fn a_held_removal(running: &mut Running, clients: &Clients) {
    running.discoverer.take().unwrap().process.kill().unwrap();
    for service in 0..SERVICES {
        running.stage.scene.remove(NAMESPACE, &web(service)).await.unwrap();
    }
    running.discover().await;
    let (leader, all) = (running.writer(running.leading().await).admin_port, f64::from(SERVICES * ENDPOINTS));
    expect_metric(leader, "gimbal_writer_backend_held_endpoints", "node02", all).await.unwrap();
    clients.more().await;
    // All of it comes back at once: of a source that has a part again, the rest may go once that is no more than the guard's share.
    running.discoverer.take().unwrap().process.kill().unwrap();
    for service in 0..SERVICES {
        running.stage.scene.put(&svc(NAMESPACE, &web(service), &PORTS)).await.unwrap();
        running.offer(service, running.numbers(service), None).await;
    }
    running.discover().await;
    expect_metric(leader, "gimbal_writer_backend_held_endpoints", "node02", 0.0).await.unwrap();
    running.works().await;
}

/// How often each trouble comes; `GIMBAL_PROVE` says it.
fn rounds() -> u32 {
    std::env::var("GIMBAL_PROVE").map_or(1, |rounds| rounds.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn none_fails() {
    if !is_alone("requests::none_fails") {
        return;
    }
    let mut running = Running::start().await;
    let clients = Clients::start(&running.stage.client);
    for round in 0..rounds() {
        println!("round {round}");
        steps!(
            clients.more(),
            a_killed_discoverer(&mut running, &clients),
            a_killed_leader(&mut running, &clients),
            a_leader_that_sleeps(&mut running, &clients),
            no_writer(&mut running, &clients),
            a_source_that_is_away(&mut running, &clients),
            no_api_server(&mut running, &clients),
            rollouts(&mut running, &clients),
            a_held_removal(&mut running, &clients),
        );
        assert_eq!(clients.traffic().failed, [] as [String; 0], "{}", running.stage.contour.logs());
    }
    let answered = clients.traffic().answered;
    println!("{} requests, none failed", answered.values().sum::<u64>());

    // A failure would have been seen: servers that vanish are the source's own fault.
    running.servers.retain(|(service, _), _| *service != 1);
    let result = eventually("a request fails", SOON, async || {
        anyhow::ensure!(!clients.traffic().failed.is_empty(), "none does");
        Ok::<_, anyhow::Error>(())
    });
    result.await.unwrap();
}
