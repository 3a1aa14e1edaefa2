//! Checks the rule of the mass-change guard on the whole writer, by looking only at the API server: of the endpoints
//! that a backend had within the window, no more than the share is missing unless they were released, and a backend
//! that never misses that many is never held.

mod once_wrong;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_guard::GuardConfig;
use gimbal_kubernetes_objects::keys;
use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_plan::EndpointsApi;
use gimbal_reconcile::Policy;
use proptest::prelude::*;

use super::server::{Luck, id};
use super::world::{BACKENDS, World, service};

const SECOND: Duration = Duration::from_secs(1);
/// Number of Services of each backend.
const SERVICES: u8 = 10;

/// The number of endpoints of each source Service in the Gimbal cluster.
type Counts = BTreeMap<SourceKey, u64>;

fn name(agent: usize) -> BackendName {
    BackendName::parse(BACKENDS[agent]).unwrap()
}

/// Returns a key that leads to a name that no other Service of any backend wants.
fn source(n: u8) -> SourceKey {
    SourceKey::new(["one", "two"][usize::from(n % 2)], format!("s{n}"))
}

/// Counts endpoints in the Gimbal cluster. A moving Service exists at two places; the larger count is taken.
fn held(world: &World, agent: usize) -> Counts {
    let mut places = BTreeMap::<(SourceKey, Arc<str>), u64>::new();
    for slice in world.slices().filter(|slice| *slice.metadata.labels[keys::BACKEND] == *BACKENDS[agent]) {
        let source = SourceKey::from_annotation(&slice.metadata.annotations[keys::SOURCE]).unwrap();
        *places.entry((source, slice.metadata.namespace.clone())).or_default() += slice.endpoints.len() as u64;
    }
    let mut counts = Counts::new();
    for ((source, _), count) in places {
        let largest = counts.entry(source).or_default();
        *largest = count.max(*largest);
    }
    counts
}

fn wanted(world: &World, agent: usize) -> Counts {
    world.agents[agent].source.iter().map(|(key, service)| (key.clone(), service.endpoint_count() as u64)).collect()
}

/// Counts the endpoints that the writer has received from the agent.
fn heard(world: &World, agent: usize) -> Counts {
    let end = &world.writer.backends()[&name(agent)].end();
    let count = |n| Some((source(n), end.service(&source(n))?.endpoint_count() as u64));
    (0..SERVICES).filter_map(count).collect()
}

fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

/// The endpoint counts of a backend over time.
#[derive(Default)]
struct Seen(Vec<(Instant, Counts)>);

impl Seen {
    /// Returns how many endpoints existed within a time, and how many of them are missing if there are only `now`.
    fn missing(&self, within: Duration, at: Instant, now: &Counts) -> (u64, u64) {
        let start = self.0.iter().rposition(|(seen, _)| at.duration_since(*seen) >= within).unwrap_or(0);
        let mut peaks = now.clone();
        for (source, count) in self.0[start..].iter().flat_map(|(_, counts)| counts) {
            let peak = peaks.entry(source.clone()).or_default();
            *peak = (*peak).max(*count);
        }
        (total(&peaks), total(&peaks) - total(now))
    }

    fn look(&mut self, at: Instant, counts: &Counts, calm: bool) {
        let had = match self.0.last() {
            Some((_, last)) if !calm => last
                .iter()
                .map(|(source, had)| (source.clone(), (*had).min(counts.get(source).copied().unwrap_or_default())))
                .collect(),
            _ => counts.clone(),
        };
        if self.0.last().is_none_or(|(_, last)| *last != had) {
            self.0.push((at, had));
        }
    }

    /// Lowers the recorded counts of released sources to what is wanted, so that their loss does not count.
    fn release(&mut self, sources: &BTreeSet<SourceKey>, wanted: &Counts) {
        for (source, count) in self.0.iter_mut().flat_map(|(_, counts)| counts) {
            if sources.contains(source) {
                *count = (*count).min(wanted.get(source).copied().unwrap_or_default());
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Set(usize, u8, u8),
    Remove(usize, u8),
    /// Several Services are removed (`false`), or added.
    Many(usize, u8, u8, bool),
    Move(usize, bool),
    RestartWriter,
    LoseLease,
    RestartAgent(usize),
    Cut(usize),
    Luck(Luck),
    Speak(usize),
    Approve(usize),
    Hand(u8),
    Pass(u16),
    /// Runs for a moment without troubles.
    Run(u8),
    /// Runs until nothing is left to do.
    Calm,
}

fn op() -> impl Strategy<Value = Op> {
    let agent = || 0usize..2;
    let n = || 0..SERVICES;
    let luck = prop_oneof![3 => Just(Luck::Good), 1 => Just(Luck::Refused)];
    prop_oneof![
        6 => (agent(), n(), 0..12u8).prop_map(|(agent, n, hosts)| Op::Set(agent, n, hosts)),
        6 => (agent(), n()).prop_map(|(agent, n)| Op::Remove(agent, n)),
        2 => (agent(), n(), n(), any::<bool>()).prop_map(|(agent, from, to, come)| Op::Many(agent, from, to, come)),
        1 => (agent(), any::<bool>()).prop_map(|(agent, there)| Op::Move(agent, there)),
        2 => Just(Op::RestartWriter),
        1 => Just(Op::LoseLease),
        1 => agent().prop_map(Op::RestartAgent),
        1 => agent().prop_map(Op::Cut),
        3 => luck.prop_map(Op::Luck),
        3 => agent().prop_map(Op::Speak),
        1 => agent().prop_map(Op::Approve),
        1 => any::<u8>().prop_map(Op::Hand),
        3 => (0u16..30_000).prop_map(Op::Pass),
        4 => (1u8..12).prop_map(Op::Run),
        8 => Just(Op::Calm),
    ]
}

fn hosts(count: u8) -> Vec<u8> {
    (0..count).collect()
}

fn moved(world: &mut World, agent: usize, there: bool) {
    let mut policy: Policy = world.policy(agent).unwrap().clone();
    policy.namespaces.map.clear();
    if there {
        policy.namespaces.map.insert("one".into(), "three".into());
    }
    world.configure(agent, Some(policy));
}

/// Applies a change of a source or of an operator.
fn change(world: &mut World, op: &Op) {
    match *op {
        Op::Set(agent, n, count) => world.set(agent, &source(n), Some(service(0, 0, &hosts(count)))),
        Op::Remove(agent, n) => world.set(agent, &source(n), None),
        Op::Many(agent, from, to, come) => {
            for n in from..to {
                world.set(agent, &source(n), come.then(|| service(0, 0, &hosts(8))));
            }
        }
        Op::Move(agent, there) => moved(world, agent, there),
        Op::RestartWriter => world.restart_writer(),
        Op::LoseLease => world.regain_lease(),
        Op::RestartAgent(agent) => world.restart_agent(agent),
        Op::Cut(agent) => world.cut(agent),
        Op::Speak(agent) => drop(world.speak(agent)),
        Op::Pass(ms) => world.pass(Duration::from_millis(ms.into())),
        _ => {}
    }
}

fn filled() -> World {
    let mut world = World::new(EndpointsApi::EndpointSlices, GuardConfig::default());
    world.server.set_namespace("three", true);
    for agent in 0..2 {
        for n in 0..SERVICES {
            world.set(agent, &source(n), Some(service(0, 0, &hosts(8))));
        }
    }
    world.settle_for(SECOND);
    world
}

/// Returns the Services whose removals the guard holds.
fn held_back(world: &World, agent: usize) -> BTreeSet<SourceKey> {
    let targets: BTreeSet<&TargetKey> =
        world.writer.backends()[&name(agent)].guards().removals().held_targets().collect();
    let slices = world.slices().filter(|slice| {
        let target =
            TargetKey::new(slice.metadata.namespace.clone(), slice.metadata.labels[keys::SERVICE_NAME].clone());
        targets.contains(&target)
    });
    slices.map(|slice| SourceKey::from_annotation(&slice.metadata.annotations[keys::SOURCE]).unwrap()).collect()
}

/// Checks the API server after each step.
struct Watcher {
    window: Duration,
    seen: [Seen; 2],
    before: [(Counts, BTreeSet<SourceKey>, Counts); 2],
}

impl Watcher {
    fn new(world: &World) -> Self {
        let mut watcher =
            Self { window: GuardConfig::default().window, seen: Default::default(), before: Default::default() };
        watcher.look(world, true);
        watcher
    }

    /// Records the present counts. Only if nothing is in progress (`calm`) can a count rise, because during a write
    /// old endpoints may exist beside new ones. Endpoints that no longer exist are missing from now on.
    fn look(&mut self, world: &World, calm: bool) {
        for agent in 0..2 {
            let counts = held(world, agent);
            self.seen[agent].look(world.now, &counts, calm);
            self.before[agent] = (counts, held_back(world, agent), heard(world, agent));
        }
    }

    /// Runs everything until nothing is left to do, with a check after each write.
    fn rest(&mut self, world: &mut World) -> Result<(), TestCaseError> {
        let mut end = Ok(());
        world.settle_watched(SECOND, |world| {
            if end.is_ok() {
                end = self.check(world);
            }
            self.look(world, false);
        });
        self.look(world, true);
        end
    }

    /// Called after the writer did something: checks that it was allowed to remove what it removed.
    fn check(&mut self, world: &mut World) -> Result<(), TestCaseError> {
        // A release is reported with the next tick.
        world.pass(Duration::ZERO);
        world.collect();
        for (backend, released) in std::mem::take(&mut world.releases) {
            let agent = BACKENDS.iter().position(|name| *name == backend.as_str()).unwrap();
            let (before, held_back, wanted) = &self.before[agent];
            let falls = |source: &SourceKey, wanted: &Counts| {
                let [had, wanted] = [before, wanted].map(|counts| counts.get(source).copied().unwrap_or_default());
                had.saturating_sub(wanted)
            };
            if released <= held_back.iter().map(|source| falls(source, wanted)).sum() {
                self.seen[agent].release(held_back, wanted);
            } else {
                // A new writer may meet a hold again, all of it or the rest of it, and release it at once.
                let wanted = heard(world, agent);
                let let_go = before.keys().filter(|source| falls(source, &wanted) > 0).cloned().collect();
                self.seen[agent].release(&let_go, &wanted);
            }
        }
        for (agent, backend) in BACKENDS.iter().enumerate() {
            let (before, ..) = &self.before[agent];
            let counts = held(world, agent);
            let less = before.iter().any(|(source, count)| counts.get(source).copied().unwrap_or_default() < *count);
            if less {
                // The writer cannot prevent removals by others, but must not add to them.
                let (_, already) = self.seen[agent].missing(self.window, world.now, before);
                let (base, missing) = self.seen[agent].missing(self.window, world.now, &counts);
                let allowed = (base / 2).max(20).max(already);
                prop_assert!(missing <= allowed, "{backend}: {missing} of {base} are missing");
            }
        }
        Ok(())
    }
}

/// Executes a history, and checks the API server after each step.
fn play(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut world = filled();
    let mut watcher = Watcher::new(&world);
    for op in ops {
        match op {
            Op::Luck(luck) => {
                world.start_job();
                world.carry_out_job(luck);
                watcher.check(&mut world)?;
                world.finish_job(Luck::Good);
            }
            Op::Run(rounds) => {
                for _ in 0..rounds {
                    for agent in 0..2 {
                        world.speak(agent);
                        world.hear(agent);
                    }
                    watcher.look(&world, false);
                    world.start_job();
                    world.finish_job(Luck::Good);
                    watcher.check(&mut world)?;
                    watcher.look(&world, false);
                }
            }
            Op::Approve(agent) => {
                let backend = name(agent);
                let held = world.writer.backends()[&backend].guards().removals().held();
                if let Some(held) = held {
                    world.writer.approve(&backend, &held.id);
                    let (_, held_back, wanted) = &watcher.before[agent];
                    watcher.seen[agent].release(held_back, wanted);
                }
            }
            Op::Hand(n) => {
                watcher.rest(&mut world)?;
                let slice = world.slices().nth(usize::from(n)).map(|slice| slice.metadata.clone());
                if let Some(meta) = slice {
                    world.server.remove(&id(
                        <gimbal_kubernetes_objects::EndpointSlice as gimbal_kubernetes_objects::Object>::KIND,
                        &meta,
                    ));
                    // No writer can know of earlier losses that no record contains. This one records the present state.
                    watcher.look(&world, false);
                    watcher.rest(&mut world)?;
                }
            }
            Op::Calm => watcher.rest(&mut world)?,
            op => change(&mut world, &op),
        }
        watcher.look(&world, false);
    }
    Ok(())
}

#[test]
fn no_more_than_the_share_is_missing() {
    gimbal_property::check(32, &proptest::collection::vec(op(), 0..80), play);
}

/// Generates the steps of an everyday history, each with time for all of its effects.
fn everyday() -> impl Strategy<Value = Vec<Op>> {
    let op = op().prop_filter("what a source or an operator does, or time", |op| {
        !matches!(op, Op::Luck(_) | Op::Speak(_) | Op::Approve(_) | Op::Hand(_) | Op::Run(_) | Op::Calm | Op::Cut(_))
    });
    proptest::collection::vec(op, 0..60)
}

/// Executes an everyday history. A step that would make too many endpoints missing is undone before any agent sends it.
fn play_everyday(restarts: bool, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut world = filled();
    let mut watcher = Watcher::new(&world);
    let within = if restarts { watcher.window * 7 / 2 } else { watcher.window * 11 / 10 };
    for op in ops {
        if !restarts && matches!(op, Op::RestartWriter | Op::LoseLease) {
            continue;
        }
        let before: Vec<_> = world.agents.iter().map(|agent| agent.source.clone()).collect();
        change(&mut world, &op);
        let everyday = (0..2).all(|agent| {
            let (base, missing) = watcher.seen[agent].missing(within, world.now, &wanted(&world, agent));
            missing <= if restarts { (base / 4).max(10) } else { (base / 2).max(20) }
        });
        if !everyday {
            for (agent, source) in before.into_iter().enumerate() {
                for n in 0..SERVICES {
                    let service = source.get(&self::source(n)).cloned();
                    world.set(agent, &self::source(n), service);
                }
            }
        }
        world.settle_for(SECOND);
        for agent in 0..2 {
            prop_assert_eq!(world.writer.backends()[&name(agent)].guards().removals().held(), None, "after {:?}", op);
            prop_assert_eq!(
                held(&world, agent),
                wanted(&world, agent).into_iter().filter(|(_, n)| *n > 0).collect::<Counts>()
            );
        }
        watcher.look(&world, true);
    }
    Ok(())
}

/// Of the endpoints that existed within a window and a little longer, no more than half are missing at any moment; a
/// quarter over restarts, whatever a stored record still contains.
#[test]
fn an_everyday_history_is_never_held() {
    gimbal_property::check(16, &(any::<bool>(), everyday()), |(restarts, ops)| play_everyday(restarts, ops));
}
