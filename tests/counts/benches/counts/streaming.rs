//! Both ends of the stream, joined without a wire.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{Service, SourceKey};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit, Data, Frame, Outcome, WriterEnd, WriterLimits,
    WriterOutput,
};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::source::{key, service, with_one_changed};

/// High enough that nothing waits for an Ack.
pub const LIMITS: WriterLimits =
    WriterLimits { credit: Credit { changes: 100_000, bytes: 1 << 30 }, heartbeat_timeout: Duration::from_secs(15) };

/// Returns an agent whose source offers these Services.
pub fn agent(name: &str, services: impl IntoIterator<Item = (SourceKey, Service)>, now: Instant) -> AgentEnd {
    let config = AgentConfig { backend: name.into(), instance: "one".into(), version: "1".into() };
    let mut agent = AgentEnd::new(config);
    agent.set_incarnation("uid".into());
    services.into_iter().for_each(|(key, service)| agent.set(key, Some(Arc::new(service)), now));
    agent.source_complete();
    agent
}

/// The two ends of one stream.
struct Pair {
    agent: AgentEnd,
    writer: WriterEnd,
    now: Instant,
}

impl Pair {
    fn new(services: impl IntoIterator<Item = (SourceKey, Service)>) -> Self {
        let now = Instant::now();
        Self { agent: agent("node02", services, now), writer: WriterEnd::new(LIMITS), now }
    }

    fn connect(&mut self, generation: u64) {
        self.agent.connected(self.now);
        let Some(AgentMessage::Hello(hello)) = self.agent.next(self.now) else { panic!("Hello comes first") };
        self.writer.open(&hello, "node02", generation, self.now);
        for message in self.writer.take_messages() {
            assert_eq!(self.agent.receive(message, self.now), AgentVerdict::Continue);
        }
    }

    fn next(&mut self) -> Option<AgentMessage> {
        self.agent.next(self.now)
    }

    /// Returns all messages that the agent has to send.
    fn say(&mut self) -> Vec<AgentMessage> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn hear(&mut self, messages: Vec<AgentMessage>) -> Vec<WriterOutput> {
        messages.into_iter().flat_map(|message| self.writer.receive(message, self.now)).collect()
    }
}

/// Reports every key as written to the writer's end.
fn applied(pair: &mut Pair, outputs: Vec<WriterOutput>) {
    for output in outputs {
        if let WriterOutput::Changed(key) = output {
            pair.writer.settle(&key, Outcome::Applied);
        }
    }
    for message in pair.writer.take_messages() {
        assert_eq!(pair.agent.receive(message, pair.now), AgentVerdict::Continue);
    }
}

fn fleet(services: u32) -> impl Iterator<Item = (SourceKey, Service)> {
    let one = service(20);
    (0..services).map(move |n| (key(n), one.clone()))
}

/// Returns two ends with the same content, where everything is acknowledged.
fn at_rest(services: impl IntoIterator<Item = (SourceKey, Service)>) -> Pair {
    let mut pair = Pair::new(services);
    pair.connect(1);
    let said = pair.say();
    let outputs = pair.hear(said);
    applied(&mut pair, outputs);
    assert!(pair.say().is_empty() && pair.agent.pending() == 0);
    pair
}

fn about_to_change(endpoints: u32) -> (Pair, Arc<Service>) {
    let service = service(endpoints);
    let changed = Arc::new(with_one_changed(&service));
    (at_rest([(key(0), service)]), changed)
}

#[library_benchmark(setup = about_to_change)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn change_noted((mut pair, service): (Pair, Arc<Service>)) -> Pair {
    pair.agent.set(key(0), Some(service), pair.now);
    pair
}

fn changed(endpoints: u32) -> Pair {
    let (mut pair, service) = about_to_change(endpoints);
    pair.agent.set(key(0), Some(service), pair.now);
    pair
}

#[library_benchmark(setup = changed)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn delta_out(mut pair: Pair) -> (Option<AgentMessage>, Pair) {
    (pair.next(), pair)
}

fn delta_sent(endpoints: u32) -> (Pair, AgentMessage) {
    let mut pair = changed(endpoints);
    let delta = pair.next().unwrap();
    (pair, delta)
}

#[library_benchmark(setup = delta_sent)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn delta_in((mut pair, delta): (Pair, AgentMessage)) -> (Vec<WriterOutput>, Pair) {
    (pair.writer.receive(delta, pair.now), pair)
}

fn unsent(services: u32) -> Pair {
    let mut pair = Pair::new(fleet(services));
    pair.connect(1);
    pair
}

#[library_benchmark(setup = unsent)]
#[bench::of_1000_services(1000)]
fn snapshot_out(mut pair: Pair) -> (Vec<AgentMessage>, Pair) {
    (pair.say(), pair)
}

fn sent(services: u32) -> (Pair, Vec<AgentMessage>) {
    let mut pair = unsent(services);
    let said = pair.say();
    (pair, said)
}

#[library_benchmark(setup = sent)]
#[bench::of_1000_services(1000)]
fn snapshot_in((mut pair, said): (Pair, Vec<AgentMessage>)) -> (Vec<WriterOutput>, Pair) {
    (pair.hear(said), pair)
}

fn resting(services: u32) -> Pair {
    at_rest(fleet(services))
}

#[library_benchmark(setup = resting)]
#[bench::of_1000_services(1000)]
fn unchanged_reconnect(mut pair: Pair) -> (Vec<AgentMessage>, Pair) {
    pair.connect(2);
    (pair.say(), pair)
}

/// Returns the agent's message for one changed endpoint of a hundred.
pub fn delta() -> AgentMessage {
    delta_sent(100).1
}

/// Returns the agent's first message of a whole source.
pub fn chunk(services: u32) -> AgentMessage {
    let is_chunk =
        |said: &AgentMessage| matches!(said, AgentMessage::Data(Data { frame: Frame::SnapshotChunk { .. }, .. }));
    unsent(services).say().into_iter().find(is_chunk).unwrap()
}

library_benchmark_group!(
    name = stream;
    benchmarks = change_noted, delta_out, delta_in, snapshot_out, snapshot_in, unchanged_reconnect
);
