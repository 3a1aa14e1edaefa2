//! The guard over restarts of the writer, and its floors.

use std::time::{Duration, Instant, SystemTime};

use gimbal_model::TargetKey;
use gimbal_plan::{Floors, Guard, GuardConfig, GuardEvent, HoldRecord, Passage, Release, WindowRecord};
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn key(n: usize) -> TargetKey {
    TargetKey::new(["one", "two"][n % 2], format!("service-{n}"))
}

/// A writer with a guard, and the ConfigMap that outlives it.
struct World {
    config: GuardConfig,
    zero: Instant,
    now: Instant,
    guard: Guard,
    window: Option<WindowRecord>,
    hold: Option<HoldRecord>,
    /// Endpoints of each target in the Gimbal cluster, and how many of them the source has no more.
    there: [(u64, u64); 6],
    /// What was removed, and how many were there, whoever knows of it.
    removed: Vec<(Instant, u64)>,
    totals: Vec<(Instant, u64)>,
}

impl World {
    #[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
    fn new(config: GuardConfig, there: [u64; 6]) -> Self {
        let zero = Instant::now();
        let now = zero + 1000 * SECOND;
        let there = there.map(|endpoints| (endpoints, 0));
        let mut world = Self {
            config,
            zero,
            now,
            guard: Guard::new(config),
            window: None,
            hold: None,
            there,
            removed: Vec::new(),
            totals: Vec::new(),
        };
        world.totals.push((now, world.total()));
        world.begin();
        world
    }

    fn total(&self) -> u64 {
        self.there.iter().map(|(endpoints, _)| endpoints).sum()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30) + (self.now - self.zero)
    }

    /// A writer begins: it sees what is there, reads what was kept, and hears what is gone.
    fn begin(&mut self) {
        self.guard = Guard::new(self.config);
        self.guard.observed(self.total(), self.now);
        for n in 0..6 {
            self.guard.holds(&key(n), 0, self.there[n].0);
        }
        self.guard.restore(self.window.as_ref(), self.hold.as_ref(), self.now, self.wall());
        for n in 0..6 {
            self.tell(n);
        }
    }

    fn tell(&mut self, n: usize) {
        let (of, loss) = self.there[n];
        self.guard.pending(&key(n), loss, of, self.now);
    }

    fn lose(&mut self, n: usize, loss: u64) {
        self.there[n].1 = loss.min(self.there[n].0);
        self.tell(n);
    }

    fn keep(&mut self, answered: bool) {
        if let Some(record) = self.guard.record(self.wall()) {
            self.window = Some(record);
            if answered {
                self.guard.kept();
            }
        }
        self.hold = self.guard.hold_record(self.now, self.wall());
    }

    /// Removes what a target has lost, if it may. `told`: the writer hears the answer.
    fn write(&mut self, n: usize, told: bool) -> bool {
        let loss = self.there[n].1;
        if loss == 0 || self.guard.verdict(&key(n), self.now) != Passage::Allowed {
            return false;
        }
        let before = self.there[n].0;
        self.there[n] = (before - loss, 0);
        self.removed.push((self.now, loss));
        self.totals.push((self.now, self.total()));
        if told {
            self.guard.applied(&key(n), loss, self.now);
            self.guard.holds(&key(n), before, before - loss);
            self.guard.observed(self.total(), self.now);
        }
        true
    }

    fn write_all(&mut self) {
        for _ in 0..3 {
            for n in 0..6 {
                self.write(n, true);
            }
            self.keep(true);
        }
    }

    /// Without a release, no window sees more removals than the share of the most that it has seen, or the minimum.
    fn check(&self) -> Result<(), TestCaseError> {
        let within = |at: Instant| self.now.duration_since(at) < self.config.window;
        let lost: u64 = self.removed.iter().filter(|(at, _)| within(*at)).map(|(_, loss)| loss).sum();
        let start = self.totals.iter().rposition(|(at, _)| !within(*at)).unwrap_or(0);
        let base = self.totals[start..].iter().map(|(_, total)| *total).max().unwrap();
        let share = base * u64::from(self.config.max_drop_percent) / 100;
        prop_assert!(lost <= share.max(self.config.min_endpoints), "{lost} of {base}");
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Lose(usize, u64),
    Grow(usize, u64),
    Write(usize),
    WriteAndDie(usize),
    Keep,
    KeepAndDie,
    Die,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let target = 0..6_usize;
    let step = prop_oneof![
        3 => (0..20_000_u64).prop_map(Step::Wait),
        4 => (target.clone(), 0..60_u64).prop_map(|(n, loss)| Step::Lose(n, loss)),
        1 => (target.clone(), 0..40_u64).prop_map(|(n, more)| Step::Grow(n, more)),
        6 => target.clone().prop_map(Step::Write),
        2 => target.prop_map(Step::WriteAndDie),
        5 => Just(Step::Keep),
        1 => Just(Step::KeepAndDie),
        1 => Just(Step::Die),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// However often the writer is killed, and whatever it had not heard or kept by then.
    #[test]
    fn never_more_than_the_share_over_restarts(
        there in prop::array::uniform6(0..80_u64), percent in 0..100_u8, min in 0..30_u64, steps in steps()
    ) {
        let config = GuardConfig { max_drop_percent: percent, min_endpoints: min, ..GuardConfig::default() };
        let mut world = World::new(config, there);
        for step in steps {
            match step {
                Step::Wait(millis) => world.now += Duration::from_millis(millis),
                Step::Lose(n, loss) => world.lose(n, loss),
                Step::Grow(n, more) => {
                    let before = world.there[n].0;
                    world.there[n].0 += more;
                    world.totals.push((world.now, world.total()));
                    world.guard.holds(&key(n), before, before + more);
                    world.guard.observed(world.total(), world.now);
                    world.tell(n);
                }
                Step::Write(n) => drop(world.write(n, true)),
                Step::WriteAndDie(n) => {
                    world.write(n, false);
                    world.begin();
                }
                Step::Keep => world.keep(true),
                Step::KeepAndDie => {
                    world.keep(false);
                    world.begin();
                }
                Step::Die => world.begin(),
            }
            world.check()?;
        }
    }
}

/// The case that a guard without memory gets wrong: each restart would measure by what the one before left.
#[test]
fn a_drop_goes_no_further_by_killing_the_writer() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    for n in 0..6 {
        world.lose(n, 20);
        world.write_all();
        world.begin();
        world.write_all();
        world.now += SECOND;
    }
    assert_eq!(world.total(), 60, "half of 120, and no more");
    // The window is over, and what is left is judged by what is left.
    world.now += 200 * SECOND;
    world.begin();
    assert!(world.guard.held().is_some_and(|held| held.to_nothing));
}

#[test]
fn nothing_that_counts_goes_before_it_is_kept_and_few_records_are() {
    let mut world = World::new(GuardConfig::default(), [100; 6]);
    world.lose(0, 10);
    assert!(!world.write(0, true), "nothing is kept yet");
    world.keep(false);
    assert!(!world.write(0, true), "no answer yet");
    world.guard.kept();
    assert!(world.write(0, true));
    let mut records = 1;
    for n in 0..250 {
        world.lose(n % 6, 1);
        while !world.write(n % 6, true) {
            let before = world.window;
            world.keep(true);
            assert_ne!(world.window, before, "it waits for a record and asks for none");
            records += 1;
        }
        world.now += SECOND / 10;
    }
    assert!(records <= 6, "{records} records for 260 removals within a window");
}

/// An old record is no reason to hold anything.
#[test]
fn what_was_lost_long_before_the_restart_counts_no_more() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    for n in 0..3 {
        world.lose(n, 20);
    }
    world.write_all();
    assert_eq!(world.total(), 60);
    world.now += 151 * SECOND;
    world.begin();
    world.lose(3, 20);
    world.write_all();
    assert_eq!(world.total(), 40);
}

#[test]
fn a_hold_goes_on_after_a_restart_with_its_id_and_its_age() {
    let config = GuardConfig { release_all_after: Some(600 * SECOND), ..GuardConfig::default() };
    let mut world = World::new(config, [20; 6]);
    let lose = |world: &mut World, targets: std::ops::Range<usize>| targets.for_each(|n| world.lose(n, 20));
    lose(&mut world, 0..4);
    world.keep(true);
    let id = world.guard.held().unwrap().id;
    world.now += 40 * SECOND;
    world.begin();
    assert_eq!(world.guard.held().map(|held| held.id), Some(id.clone()), "the same figures");
    assert_eq!(world.guard.held_for(world.now), Some(40 * SECOND));
    // The quiet time has gone on: 20 s more are enough.
    world.now += 19 * SECOND;
    assert!(!world.guard.wants_snapshot(world.now));
    world.now += SECOND;
    assert!(world.guard.wants_snapshot(world.now));
    assert_eq!(world.guard.approve(&id), Some(80));

    // Another drop is another hold, and begins anew.
    let mut world = World::new(config, [20; 6]);
    lose(&mut world, 0..4);
    world.keep(true);
    world.now += 599 * SECOND;
    (0..5).for_each(|n| world.there[n].1 = 19);
    world.begin();
    assert_eq!(world.guard.held_for(world.now), Some(Duration::ZERO));
    world.now += 2 * SECOND;
    assert!(!world.guard.tick(world.now).iter().any(|event| matches!(event, GuardEvent::Released { .. })));

    // Restarts do not put off the release by age for ever.
    let mut world = World::new(config, [20; 6]);
    lose(&mut world, 0..6);
    world.keep(true);
    for _ in 0..6 {
        world.now += 100 * SECOND;
        world.begin();
        world.keep(true);
    }
    let events = world.guard.tick(world.now);
    let by_age = |event: &GuardEvent| matches!(event, GuardEvent::Released { by: Release::Age, endpoints: 120, .. });
    assert!(events.iter().any(by_age), "{events:?}");
}

/// A poller that sees the same wrong view again and again does not confirm itself to nothing.
#[test]
fn no_number_of_equal_views_confirms_a_drop_to_nothing() {
    let mut world = World::new(GuardConfig::default(), [20; 6]);
    for n in 0..6 {
        world.lose(n, 20);
    }
    for _ in 0..100 {
        world.now += 61 * SECOND;
        assert!(!world.guard.wants_snapshot(world.now));
        for n in 0..6 {
            world.tell(n);
        }
        assert!(!world.guard.snapshot_complete(world.now, world.now));
        world.write_all();
    }
    assert_eq!(world.total(), 120);
}

#[test]
fn floors_hold_what_would_leave_too_little() {
    // floors, endpoints, losses, what is there in the end
    let floor =
        |endpoints_per_namespace, endpoints_per_service| Floors { endpoints_per_namespace, endpoints_per_service };
    // Namespace "one" has targets 0, 2 and 4.
    for (floors, there, lose, left) in [
        (floor(0, 0), [2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0]),
        (floor(0, 1), [2, 2, 2, 2, 2, 2], [2, 1, 0, 0, 0, 0], [2, 1, 2, 2, 2, 2]),
        (floor(0, 2), [2, 3, 2, 2, 2, 2], [1, 1, 0, 0, 0, 0], [2, 2, 2, 2, 2, 2]),
        (floor(0, 3), [2, 2, 9, 0, 0, 0], [2, 1, 7, 0, 0, 0], [0, 1, 9, 0, 0, 0]),
        (floor(4, 0), [2, 2, 2, 2, 2, 2], [2, 2, 0, 0, 0, 0], [0, 0, 2, 2, 2, 2]),
        (floor(4, 0), [2, 2, 2, 2, 2, 2], [2, 2, 1, 0, 0, 0], [2, 0, 2, 2, 2, 2]),
        (floor(4, 1), [2, 3, 2, 3, 2, 3], [1, 3, 0, 2, 0, 0], [1, 3, 2, 1, 2, 3]),
        (floor(100, 0), [2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0]),
    ] {
        let mut world = World::new(GuardConfig { floors, ..GuardConfig::default() }, there);
        for (n, loss) in lose.into_iter().enumerate() {
            world.lose(n, loss);
        }
        world.write_all();
        assert_eq!(world.there.map(|(endpoints, _)| endpoints), left, "{floors:?} {there:?} {lose:?}");
        let held: u64 = world.there.iter().map(|(_, loss)| loss).sum();
        assert_eq!(world.guard.held().map_or(0, |held| held.endpoints_removed), held, "{floors:?} {there:?} {lose:?}");
        // Held as any partial drop is, or by a person where nothing would remain; and so after a restart.
        world.begin();
        world.write_all();
        assert_eq!(world.there.map(|(endpoints, _)| endpoints), left);
        if let Some(held) = world.guard.held() {
            world.guard.approve(&held.id);
            world.write_all();
            assert_eq!(world.there.map(|(_, loss)| loss), [0; 6], "{floors:?} {there:?} {lose:?}");
        }
    }
}
