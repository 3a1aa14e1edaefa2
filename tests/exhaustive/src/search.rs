//! Every state of a world, the nearest first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use crate::rules::{Fault, Rule};
use crate::{Action, Setup, Trouble, World};

/// A path of so many steps does not end: what a world has takes fewer than half as many.
const LONGEST: usize = 300;

/// What a search saw.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// States, each once.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// States where a path ends.
    pub ends: usize,
    /// Detours up to which everything was seen.
    pub detours: usize,
    /// States, by what went wrong on the way there.
    pub states_by_trouble: BTreeMap<String, usize>,
    /// Whether there was more to see.
    pub cut_short: bool,
    /// For each rule and trouble, the shortest path that breaks it.
    pub broken: BTreeMap<(Rule, String), Path>,
}

/// A way from the beginning of a world to where a rule is broken.
#[derive(Debug, Clone)]
pub struct Path {
    /// What happens.
    pub actions: Vec<Action>,
    /// What is wrong then.
    pub fault: Fault,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.fault)?;
        self.actions.iter().try_for_each(|action| writeln!(f, "  {action}"))
    }
}

/// How much of a world is looked at; what is not set has no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// On each path so many steps may be another than the one that is next in the ordinary order. A change of a source and a
    /// trouble may come at any moment, and do not count.
    pub detours: Option<usize>,
    /// States in all.
    pub states: Option<usize>,
}

/// Looks at every state within bounds: those with the fewest detours first, of these the nearest.
///
/// # Errors
/// A rule that is broken before anything happens.
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

/// How a state was come to.
struct Way {
    detours: usize,
    steps: usize,
    /// `None`: it is the beginning.
    from: Option<(u64, Action)>,
}

type Waiting = VecDeque<(u64, World)>;

impl Search {
    /// Judges a state, and lines up those that follow it.
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
