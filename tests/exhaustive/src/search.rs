//! Visits every state of a world, the nearest first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use crate::rules::{Fault, Rule};
use crate::{Action, Setup, Trouble, World};

/// A path with this many steps counts as endless; a real one takes fewer than half as many.
const LONGEST: usize = 300;

/// The result of a search.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Number of distinct states.
    pub states: usize,
    /// Number of steps between them.
    pub steps: usize,
    /// Number of states where a path ends.
    pub ends: usize,
    /// The number of detours up to which every state was visited.
    pub detours: usize,
    /// Number of states by the trouble on the way there.
    pub states_by_trouble: BTreeMap<String, usize>,
    /// Whether the bounds left states unvisited.
    pub cut_short: bool,
    /// For each rule and trouble, the shortest path that breaks it.
    pub broken: BTreeMap<(Rule, String), Path>,
}

/// The path from the beginning of a world to a state in which a rule is broken.
#[derive(Debug, Clone)]
pub struct Path {
    /// The steps.
    pub actions: Vec<Action>,
    /// The fault in the last state.
    pub fault: Fault,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.fault)?;
        self.actions.iter().try_for_each(|action| writeln!(f, "  {action}"))
    }
}

/// Bounds of a search. A bound that is not set is unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// The number of steps on each path that may differ from the next one of the ordinary order. Changes of a source
    /// and troubles may come at any moment and do not count.
    pub detours: Option<usize>,
    /// The number of states in all.
    pub states: Option<usize>,
}

/// Visits every state within the bounds: those with the fewest detours first, and of these the nearest.
///
/// # Errors
/// Returns a rule that is broken before anything happens.
pub fn explore(setup: Setup, bounds: Bounds) -> Result<Seen, Fault> {
    let mut search = Search { came: HashMap::new(), seen: Seen::default() };
    let mut first = World::new(setup)?;
    let print = first.fingerprint();
    search.came.insert(print, Way { detours: 0, steps: 0, from: None });
    let mut now = VecDeque::from([(print, first)]);
    for detours in 0.. {
        let mut later = VecDeque::new();
        while let Some((print, world)) = now.pop_front() {
            if search.came.get(&print).is_some_and(|way| way.detours < detours) {
                continue;
            }
            if bounds.states.is_some_and(|most| search.seen.states >= most) {
                search.seen.cut_short = true;
                return Ok(search.seen);
            }
            search.look(print, world, detours, &mut now, &mut later);
        }
        search.seen.detours = detours;
        if later.is_empty() {
            break;
        }
        if bounds.detours.is_some_and(|most| detours >= most) {
            search.seen.cut_short = true;
            break;
        }
        now = later;
    }
    Ok(search.seen)
}

fn name(trouble: Option<Trouble>) -> String {
    trouble.map_or_else(|| "no trouble".into(), |trouble| format!("{trouble:?}"))
}

struct Search {
    came: HashMap<u64, Way>,
    seen: Seen,
}

/// How a state was reached.
struct Way {
    detours: usize,
    steps: usize,
    /// The state before it and the step from there; `None` at the beginning.
    from: Option<(u64, Action)>,
}

type Waiting = VecDeque<(u64, World)>;

impl Search {
    /// Checks a state, and queues the states that follow it.
    fn look(&mut self, print: u64, world: World, detours: usize, now: &mut Waiting, later: &mut Waiting) {
        self.seen.states += 1;
        let steps = self.came.get(&print).map_or(0, |way| way.steps) + 1;
        *self.seen.states_by_trouble.entry(name(world.trouble())).or_default() += 1;
        let mut actions = world.deliveries();
        if world.is_at_rest(&actions) {
            self.seen.ends += 1;
            let trouble = world.trouble();
            if let Err(fault) = world.clone().end() {
                self.broken(print, None, fault, trouble);
            }
        }
        world.others(&mut actions);
        for (number, action) in actions.into_iter().enumerate() {
            let mut next = world.clone();
            next.take(&action);
            self.seen.steps += 1;
            if let Some(fault) = next.fault.take() {
                self.broken(print, Some(action), fault, next.trouble());
                continue;
            }
            if steps > LONGEST {
                let fault = Fault { rule: Rule::Rest, what: format!("after {steps} steps there is more to do") };
                self.broken(print, Some(action), fault, next.trouble());
                continue;
            }
            let detour = number > 0 && !action.is_free();
            let (there, detours) = (next.fingerprint(), detours + usize::from(detour));
            if self.came.get(&there).is_none_or(|way| way.detours > detours) {
                self.came.insert(there, Way { detours, steps, from: Some((print, action)) });
                if detour { &mut *later } else { &mut *now }.push_back((there, next));
            }
        }
    }

    fn broken(&mut self, print: u64, last: Option<Action>, fault: Fault, trouble: Option<Trouble>) {
        let key = (fault.rule, name(trouble));
        if self.seen.broken.contains_key(&key) {
            return;
        }
        let mut actions: Vec<Action> = last.into_iter().collect();
        let mut at = print;
        while let Some(Way { from: Some((before, action)), .. }) = self.came.get(&at) {
            actions.push(action.clone());
            at = *before;
        }
        actions.reverse();
        self.seen.broken.insert(key, Path { actions, fault });
    }
}
