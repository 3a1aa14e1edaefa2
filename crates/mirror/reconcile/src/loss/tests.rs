//! Checks the loss stages against a model: a loss takes effect only after its full time, whatever restarts and clock
//! changes happen.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const T1: Duration = Duration::from_secs(60);
const T2: Duration = Duration::from_secs(300);
const POLICY: LossPolicy =
    LossPolicy { not_ready_after: Some(T1), drain_after: Some(T2), source_stale_after: Some(Duration::from_secs(120)) };

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Connected(bool),
    /// The agent reports that its source has been silent for this many seconds.
    Tell(u64),
    /// The writer is killed, and another one begins after this many seconds.
    Restart(u64),
    /// The wall clock is set back by this many seconds.
    Back(u64),
}

struct World {
    loss: Loss,
    kept: Option<LossRecord>,
    now: Instant,
    wall: SystemTime,
    connected: bool,
    reported: Option<(Instant, Duration)>,
    /// Since when the backend has not been well, as far as the writer can know.
    bad: Option<Instant>,
    stage: Stage,
}

impl World {
    #[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
    fn new() -> Self {
        let now = Instant::now();
        Self {
            loss: Loss::default(),
            kept: None,
            now,
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30),
            connected: false,
            reported: None,
            bad: None,
            stage: Stage::Hold,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall += time;
    }

    fn silence(&self) -> Option<Duration> {
        self.reported.filter(|_| self.connected).map(|(at, age)| age + (self.now - at))
    }

    fn tick(&mut self) {
        let facts = Facts { connected: self.connected, silence: self.silence() };
        let limit = POLICY.source_stale_after.unwrap();
        let well = self.connected && self.silence().is_some_and(|silence| silence < limit);
        let bad = !self.connected || self.silence().is_some_and(|silence| silence >= limit);
        if well {
            self.bad = None;
        } else if bad {
            self.bad.get_or_insert(self.now);
        }
        self.stage = self.loss.observe(facts, &POLICY, GRACE, self.now, self.wall);
        self.kept = self.loss.record();
    }

    fn age(&self) -> Duration {
        self.bad.map_or(Duration::ZERO, |since| self.now - since)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(seconds) => {
                for _ in 0..*seconds {
                    self.pass(SECOND);
                    self.tick();
                }
            }
            Step::Connected(connected) => {
                self.reported = self.reported.filter(|_| self.connected && *connected);
                self.connected = *connected;
            }
            Step::Tell(age) => self.reported = Some((self.now, Duration::from_secs(*age))),
            Step::Restart(down) => {
                self.connected = false;
                self.reported = None;
                self.bad.get_or_insert(self.now);
                self.pass(Duration::from_secs(*down));
                self.loss = Loss::restore(self.kept, self.now, self.wall);
            }
            Step::Back(seconds) => self.wall -= Duration::from_secs(*seconds),
        }
        self.tick();
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..90_u64).prop_map(Step::Wait),
        2 => any::<bool>().prop_map(Step::Connected),
        3 => prop_oneof![0..100_u64, 0..1000_u64].prop_map(Step::Tell),
        1 => (0..400_u64).prop_map(Step::Restart),
        1 => (0..4000_u64).prop_map(Step::Back),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_before_its_full_time_and_in_the_end_always(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            let least = match world.stage {
                Stage::Hold => Duration::ZERO,
                Stage::NotReady => T1,
                Stage::Drained => T2,
            };
            prop_assert!(world.age() >= least, "{:?} after {:?}", world.stage, world.age());
        }
        // Lost for good, each stage is reached.
        world.step(&Step::Connected(false));
        world.step(&Step::Wait((T2 + GRACE).as_secs()));
        prop_assert_eq!(world.stage, Stage::Drained);
        prop_assert!(world.kept.is_some_and(|kept| kept.stage == Stage::Drained));
        // A restart then changes nothing.
        world.step(&Step::Restart(0));
        prop_assert_eq!(world.stage, Stage::Drained);
        // When the backend is back and well, the stage ends at once.
        world.step(&Step::Connected(true));
        prop_assert_eq!(world.stage, Stage::Drained, "it has not reported on its source");
        world.step(&Step::Tell(1));
        prop_assert_eq!(world.stage, Stage::Hold);
        prop_assert_eq!(world.kept, None);
    }
}

/// A stage that became due while the writer was down waits until the agents had time to come back.
#[test]
fn after_a_restart_agents_have_a_grace() {
    let mut world = World::new();
    world.step(&Step::Wait(20));
    world.step(&Step::Restart(3600));
    world.step(&Step::Wait(GRACE.as_secs() - 1));
    assert_eq!(world.stage, Stage::Hold);
    world.step(&Step::Wait(2));
    assert_eq!(world.stage, Stage::Drained);
}

/// Agents may be away when a writer begins to lead because its API server or the previous leader was away.
#[test]
fn a_loss_at_the_first_look_is_none_before_agents_could_come_back() {
    let policy =
        LossPolicy { not_ready_after: Some(5 * SECOND), drain_after: Some(10 * SECOND), ..LossPolicy::default() };
    let World { now, wall, .. } = World::new();
    let at = |loss: &mut Loss, second: u64, connected: bool| {
        let (facts, later) = (Facts { connected, silence: None }, Duration::from_secs(second));
        loss.observe(facts, &policy, GRACE, now + later, wall + later)
    };
    // With a record of the previous leader, and without.
    let before = LossRecord { since: wall - 3 * SECOND, stage: Stage::Hold };
    for kept in [None, Some(before)] {
        let mut loss = Loss::restore(kept, now, wall);
        for second in 0..GRACE.as_secs() {
            assert_eq!(at(&mut loss, second, false), Stage::Hold, "at second {second}");
        }
        // The backend is back within the grace period. A loss that begins later has only its own time.
        assert_eq!(at(&mut loss, GRACE.as_secs(), true), Stage::Hold);
        assert_eq!(at(&mut loss, 100, false), Stage::Hold);
        assert_eq!(at(&mut loss, 105, false), Stage::NotReady);
        // A backend that does not come back is lost.
        let mut loss = Loss::restore(kept, now, wall);
        assert_eq!(at(&mut loss, 0, false), Stage::Hold);
        assert_eq!(at(&mut loss, GRACE.as_secs(), false), Stage::Drained);
    }
}

/// Nothing is stored for a mere reconnect, or for a loss without effect under the policy.
#[test]
fn what_is_kept() {
    let mut world = World::new();
    world.tick();
    world.step(&Step::Wait(4));
    assert_eq!(world.kept, None);
    world.step(&Step::Wait(1));
    let kept = world.kept.unwrap();
    assert_eq!(kept, LossRecord { since: world.wall - Duration::from_secs(5), stage: Stage::Hold });
    world.step(&Step::Wait(20));
    assert_eq!(world.kept, Some(kept), "it does not change with time");

    let (now, wall) = (world.now, world.wall);
    let mut loss = Loss::default();
    let facts = Facts { connected: false, silence: None };
    for seconds in [0, 100, 10_000] {
        let later = Duration::from_secs(seconds);
        assert_eq!(loss.observe(facts, &LossPolicy::default(), GRACE, now + later, wall + later), Stage::Hold);
        assert_eq!(loss.record(), None);
        assert_eq!(loss.disconnected_for(now + later), Some(later));
    }
}

/// Either time may be set alone, and a policy that changes takes effect at once.
#[test]
fn the_policy_as_it_is_now() {
    let policy = |not_ready: Option<u64>, drain: Option<u64>| LossPolicy {
        not_ready_after: not_ready.map(Duration::from_secs),
        drain_after: drain.map(Duration::from_secs),
        source_stale_after: None,
    };
    let facts = Facts { connected: false, silence: None };
    let world = World::new();
    let at = |loss: &mut Loss, seconds: u64, policy: LossPolicy| {
        let later = Duration::from_secs(seconds);
        loss.observe(facts, &policy, GRACE, world.now + later, world.wall + later)
    };
    let mut loss = Loss::default();
    assert_eq!(at(&mut loss, 0, policy(None, Some(100))), Stage::Hold);
    assert_eq!(at(&mut loss, 99, policy(None, Some(100))), Stage::Hold);
    assert_eq!(at(&mut loss, 100, policy(None, Some(100))), Stage::Drained);
    assert_eq!(at(&mut loss, 101, policy(Some(100), None)), Stage::NotReady);
    assert_eq!(
        at(&mut loss, 102, policy(Some(1000), None)),
        Stage::NotReady,
        "what was done is not undone by a longer time"
    );
    assert_eq!(at(&mut loss, 103, policy(None, None)), Stage::Hold);
    assert_eq!(at(&mut loss, 104, policy(Some(100), Some(100))), Stage::Drained);
}
