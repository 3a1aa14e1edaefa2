//! The guard's rule over random histories: of what was held within the window no more than the share is missing, unless
//! it was released; and a backend that never misses that much is never held.

use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::{Fall, Floors, Guard, GuardConfig, HoldRecord, Passage, WindowRecord};
use gimbal_model::TargetKey;
use proptest::prelude::*;

pub const SECOND: Duration = Duration::from_secs(1);
/// Services of the source.
pub const SERVICES: usize = 6;

/// A source Service, and its two possible targets in the Gimbal cluster.
#[derive(Debug, Clone, Copy, Default)]
struct Service {
    /// Endpoints at each target.
    at: [u64; 2],
    /// Index of the target that it should have.
    home: usize,
    /// Endpoints that the source has.
    wanted: u64,
}

impl Service {
    fn held(&self) -> u64 {
        self.at[0].max(self.at[1])
    }
}

pub fn key(n: usize, place: usize) -> TargetKey {
    TargetKey::new(["one", "two"][n % 2], format!("service-{n}-{place}"))
}

/// A writer with a guard, the `ConfigMap` that survives it, and a log of what the Gimbal cluster held.
pub struct World {
    config: GuardConfig,
    zero: Instant,
    pub now: Instant,
    pub guard: Guard,
    pub window: Option<WindowRecord>,
    hold: Option<HoldRecord>,
    services: [Service; SERVICES],
    /// Endpoints of each Service over time, whether or not the writer knew. Released endpoints count as if they had
    /// never existed.
    history: Vec<(Instant, [u64; SERVICES])>,
    /// Endpoints of each Service that remain once a released removal is written.
    released: [Option<u64>; SERVICES],
}

impl World {
    #[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
    pub fn new(config: GuardConfig, has: [u64; SERVICES]) -> Self {
        let zero = Instant::now();
        let services = has.map(|has| Service { at: [has, 0], home: 0, wanted: has });
        let mut world = Self {
            config,
            zero,
            now: zero + 1000 * SECOND,
            guard: Guard::new(config),
            window: None,
            hold: None,
            services,
            history: Vec::new(),
            released: [None; SERVICES],
        };
        world.begin();
        world.see();
        world
    }

    pub fn total(&self) -> u64 {
        self.services.iter().map(Service::held).sum()
    }

    /// Returns how many endpoints each Service has.
    pub fn held(&self) -> [u64; SERVICES] {
        self.services.map(|service| service.held())
    }

    pub fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30) + (self.now - self.zero)
    }

    fn see(&mut self) {
        let mut held = self.held();
        for (held, released) in held.iter_mut().zip(&mut self.released) {
            released.take_if(|left| *held <= *left);
            *held = released.unwrap_or(*held);
        }
        self.history.push((self.now, held));
    }

    /// Returns how many endpoints existed within a time, and how many of them would be missing if each Service had
    /// `now`.
    fn missing(&self, within: Duration, now: [u64; SERVICES]) -> (u64, u64) {
        let start = self.history.iter().rposition(|(at, _)| self.now.duration_since(*at) >= within).unwrap_or(0);
        let mut peaks = now;
        for (_, held) in &self.history[start..] {
            peaks.iter_mut().zip(held).for_each(|(peak, held)| *peak = (*peak).max(*held));
        }
        let (base, left) = (peaks.iter().sum::<u64>(), now.iter().sum::<u64>());
        (base, base - left)
    }

    /// Starts a writer: it observes what exists, restores what was stored, and learns what is to be removed.
    pub fn begin(&mut self) {
        self.guard = Guard::new(self.config);
        for (n, service) in self.services.iter().enumerate() {
            for place in 0..2 {
                self.guard.observed(&key(n, place), None, 0, service.at[place], Fall::Lost, self.now);
            }
        }
        let services = self.services;
        let has = |target: &TargetKey| {
            let places = (0..SERVICES).flat_map(|n| [(n, 0), (n, 1)]);
            places.into_iter().find(|(n, at)| key(*n, *at) == *target).map_or(0, |(n, at)| services[n].at[at])
        };
        self.guard.restore(self.window.as_ref(), self.hold.as_ref(), has, self.now, self.wall());
        self.tell_all();
    }

    pub fn tell_all(&mut self) {
        (0..SERVICES).for_each(|n| self.tell(n));
    }

    fn tell(&mut self, n: usize) {
        let Service { at, home, wanted } = self.services[n];
        let other = 1 - home;
        // The old target goes once the new one is complete.
        let left = if at[home] >= wanted { at[home] } else { at[other] };
        for (place, left) in [(home, wanted), (other, left)] {
            self.guard.pending(&key(n, place), at[place].saturating_sub(left), at[place], self.now);
        }
        self.guard.set_duplicates(&key(n, other), at[other].min(at[home]), at[other], self.now);
    }

    pub fn want(&mut self, n: usize, wanted: u64) {
        self.services[n].wanted = wanted;
        // What the source has again is no longer released.
        let held = self.services[n].held();
        self.released[n] = self.released[n].filter(|_| wanted < held).map(|left| left.max(wanted));
        self.tell(n);
    }

    pub fn lose(&mut self, n: usize, loss: u64) {
        self.want(n, self.services[n].held().saturating_sub(loss));
    }

    fn put(&mut self, n: usize, place: usize, count: u64, answered: bool) {
        let before = std::mem::replace(&mut self.services[n].at[place], count);
        self.see();
        if answered {
            self.guard.observed(&key(n, place), None, before, count, Fall::Lost, self.now);
            self.tell(n);
        }
    }

    /// Stores what has to be stored. `answered`: the writer receives the answer.
    pub fn keep(&mut self, answered: bool) {
        self.guard.note(self.now);
        if let Some(record) = self.guard.record(self.wall()) {
            self.window = Some(record);
            if answered {
                self.guard.kept();
            }
        }
        self.hold = self.guard.hold_record(self.now, self.wall());
    }

    /// Writes a Service's gains, and its losses as far as the verdict allows. `answered`: the writer receives the answers.
    /// Returns true if the Service lost endpoints.
    pub fn write(&mut self, n: usize, answered: bool) -> bool {
        let Service { at, home, wanted } = self.services[n];
        if wanted > at[home] {
            self.put(n, home, wanted, answered);
            if !answered {
                return false;
            }
        }
        let mut lost = false;
        let other = 1 - home;
        let arrived = self.services[n].at[home] >= wanted;
        if arrived && at[other] > 0 && self.guard.verdict(&key(n, other), self.now) == Passage::Allowed {
            let before = std::mem::take(&mut self.services[n].at[other]);
            self.see();
            lost = before > self.services[n].at[home];
            if !answered {
                return lost;
            }
            self.guard.moved(&key(n, other), before, &key(n, home), self.services[n].at[home], self.now);
            self.tell(n);
        }
        let has = self.services[n].at[home];
        if wanted < has && self.guard.verdict(&key(n, home), self.now) == Passage::Allowed {
            self.put(n, home, wanted, answered);
            lost = true;
        }
        lost
    }

    pub fn write_all(&mut self) {
        for _ in 0..3 {
            for n in 0..SERVICES {
                self.write(n, true);
            }
            self.keep(true);
        }
    }

    /// Removes `by` endpoints as another client would; the writer observes it.
    pub fn hand(&mut self, n: usize, by: u64) {
        let home = self.services[n].home;
        let left = self.services[n].at[home].saturating_sub(by);
        self.put(n, home, left, true);
        // A record that is outstanding is stored first, then this one.
        (0..3).for_each(|_| self.keep(true));
    }

    /// Approves what is held.
    fn approve(&mut self) {
        let Some(held) = self.guard.held() else { return };
        let targets: Vec<TargetKey> = self.guard.held_targets().cloned().collect();
        self.guard.approve(&held.id);
        for (n, service) in self.services.iter().enumerate() {
            if targets.iter().any(|target| *target == key(n, 0) || *target == key(n, 1)) {
                self.history.iter_mut().for_each(|(_, held)| held[n] = held[n].min(service.wanted));
                self.released[n] = Some(service.wanted);
            }
        }
    }

    /// Writes, and checks the rule. The writer cannot prevent what others removed, but must add nothing to it.
    fn write_checked(&mut self, n: usize, answered: bool) -> Result<(), TestCaseError> {
        let (_, before) = self.missing(self.config.window, self.held());
        if self.write(n, answered) {
            let (base, missing) = self.missing(self.config.window, self.held());
            let share = base * u64::from(self.config.max_drop_percent) / 100;
            let allowed = share.max(self.config.min_endpoints).max(before);
            prop_assert!(missing <= allowed, "{missing} of {base} are missing");
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Want(usize, u64),
    /// All that the Service had at first, or nothing, as Services come and go.
    Toggle(usize),
    Move(usize),
    Write(usize),
    WriteAndDie(usize),
    Keep,
    KeepAndDie,
    Die,
    Tick,
    Approve,
    Hand(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = || 0..SERVICES;
    let step = prop_oneof![
        3 => (0..20_000_u64).prop_map(Step::Wait),
        4 => (n(), 0..80_u64).prop_map(|(n, wanted)| Step::Want(n, wanted)),
        4 => n().prop_map(Step::Toggle),
        2 => n().prop_map(Step::Move),
        8 => n().prop_map(Step::Write),
        2 => n().prop_map(Step::WriteAndDie),
        6 => Just(Step::Keep),
        1 => Just(Step::KeepAndDie),
        1 => Just(Step::Die),
        1 => Just(Step::Tick),
        1 => Just(Step::Approve),
        1 => (n(), 0..40_u64).prop_map(|(n, by)| Step::Hand(n, by)),
    ];
    prop::collection::vec(step, 1..150)
}

/// Holds however often the writer is killed, whatever it had not stored by then, and whatever was removed by hand.
#[test]
fn no_more_than_the_share_is_missing() {
    gimbal_property::check(
        128,
        &(prop::array::uniform6(0..80_u64), 0..100_u8, 0..30_u64, steps()),
        |(has, percent, min, steps)| {
            let config = GuardConfig { max_drop_percent: percent, min_endpoints: min, ..GuardConfig::default() };
            let mut world = World::new(config, has);
            for step in steps {
                match step {
                    Step::Wait(millis) => world.now += Duration::from_millis(millis),
                    Step::Want(n, wanted) => world.want(n, wanted),
                    Step::Toggle(n) => world.want(n, if world.services[n].wanted == 0 { has[n] } else { 0 }),
                    // A Service that comes back elsewhere is another one.
                    Step::Move(n) => {
                        if world.services[n].held() > 0 {
                            world.services[n].home = 1 - world.services[n].home;
                            world.tell(n);
                        }
                    }
                    Step::Write(n) => world.write_checked(n, true)?,
                    Step::WriteAndDie(n) => {
                        world.write_checked(n, false)?;
                        world.begin();
                    }
                    Step::Keep => world.keep(true),
                    Step::KeepAndDie => {
                        world.keep(false);
                        world.begin();
                    }
                    Step::Die => world.begin(),
                    Step::Tick => drop(world.guard.tick(world.now)),
                    Step::Approve => world.approve(),
                    Step::Hand(n, by) => world.hand(n, by),
                }
            }
            Ok(())
        },
    );
}

/// A backend that never misses more than the share is never held; over restarts of the writer half the share,
/// because a new writer does not know when the losses happened.
#[test]
fn an_everyday_history_is_never_held() {
    gimbal_property::check(
        128,
        &(prop::array::uniform6(0..80_u64), any::<bool>(), steps()),
        |(has, restarts, steps)| {
            let config = GuardConfig::default();
            let mut world = World::new(config, has);
            // The window with the tolerance of its steps; over restarts, as long as a record may count.
            let within = if restarts { config.window * 7 / 2 } else { config.window * 65 / 64 };
            for step in steps {
                let before = world.services;
                match step {
                    Step::Wait(millis) => world.now += Duration::from_millis(millis),
                    Step::Want(n, wanted) => world.services[n].wanted = wanted,
                    Step::Toggle(n) => world.services[n].wanted = if before[n].wanted == 0 { has[n] } else { 0 },
                    // A Service that comes back elsewhere is another one.
                    Step::Move(n) if before[n].held() > 0 => world.services[n].home = 1 - before[n].home,
                    Step::Die if restarts => world.begin(),
                    _ => {}
                }
                let (base, missing) = world.missing(within, world.services.map(|service| service.wanted));
                let allowed = if restarts { (base / 4).max(10) } else { (base / 2).max(20) };
                let total: u64 = world.services.iter().map(|service| service.wanted).sum();
                if missing > allowed || total == 0 {
                    world.services = before;
                    continue;
                }
                world.tell_all();
                prop_assert_eq!(world.guard.held(), None, "{} of {} are missing", missing, base);
                world.write_all();
                prop_assert_eq!(world.total(), total);
            }
            Ok(())
        },
    );
}

/// The record names the targets of single removals, so that what is back is not lost for the next writer either.
#[test]
fn what_is_back_before_a_restart_is_not_lost_after_it() {
    let mut world = World::new(GuardConfig::default(), [20; SERVICES]);
    for round in 0..30 {
        let n = round % SERVICES;
        world.lose(n, 20);
        world.write_all();
        assert_eq!(world.total(), 100, "round {round}");
        world.begin();
        world.want(n, 20);
        world.write_all();
        world.now += SECOND;
        world.begin();
    }
}

#[test]
fn few_records_are_kept() {
    let mut world = World::new(GuardConfig { floors: Floors::default(), ..GuardConfig::default() }, [100; SERVICES]);
    world.lose(0, 10);
    assert!(!world.write(0, true), "nothing is kept yet");
    world.keep(false);
    assert!(!world.write(0, true), "no answer yet");
    world.guard.kept();
    assert!(world.write(0, true));
    let mut records = 1;
    for n in 0..250 {
        world.lose(n % SERVICES, 1);
        while !world.write(n % SERVICES, true) {
            let before = world.window.clone();
            world.keep(true);
            assert_ne!(world.window, before, "it waits for a record and asks for none");
            records += 1;
        }
        world.now += SECOND / 10;
    }
    assert!(records <= 12, "{records} records for 260 removals within a window");
}
