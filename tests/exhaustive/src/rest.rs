//! The beginning and the end of a path: everything on its way arrives, and time passes until all that can be done is
//! done.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use gimbal_session::StreamState;

use crate::part::Part;
use crate::rules::{self, Fault, Rule};
use crate::world::{Agent, Cluster, Small, World, Writer};
use crate::{Action, Setup, Trouble};

/// The maximum number of rounds of deliveries without time passing; more are an endless loop.
const STEPS: usize = 3000;
/// Long enough for back-offs, the guard's quiet time and a comparison of everything to be over.
const LONG: Duration = Duration::from_secs(200);
/// Long enough to carry out what arrived, if nothing is held or fails.
const SHORT: Duration = Duration::from_secs(2);
/// The interval at which agents send heartbeats and the writer handles its timers while time passes.
const STEP: Duration = Duration::from_secs(5);

impl World {
    /// Returns the first state of a world.
    ///
    /// # Errors
    /// Returns a rule that is broken before anything goes wrong.
    pub fn new(setup: Setup) -> Result<Self, Fault> {
        let setup = Rc::new(setup);
        let began = Instant::now();
        let count = setup.backends.len();
        let small = Small {
            clock: Duration::ZERO,
            waits: 0,
            trouble: None,
            over: false,
            epoch: 1,
            in_time: true,
            lasting: BTreeMap::new(),
            next: vec![0; count],
            held: vec![None; count],
            disturbed: false,
        };
        let mut world = Self {
            agents: setup.backends.iter().map(|backend| Part::new(Agent::new(backend))).collect(),
            links: vec![Part::new(Vec::new()); count],
            writer: Part::new(Writer::new(&setup, began)),
            cluster: Part::new(Cluster::default()),
            beginning: Rc::default(),
            small,
            fault: None,
            began,
            setup,
        };
        for backend in &world.setup.backends {
            let keys = backend.has.iter().map(|(key, _)| key).chain(backend.script.iter().map(|(key, _)| key));
            for key in keys {
                world.cluster.edit().server.set_namespace(&backend.target(key).namespace, true);
            }
        }
        world.cluster.edit().server.events.clear();
        world.list_the_rest();
        if world.setup.filled {
            world.settle()?;
            world.check()?;
        }
        world.begin();
        Ok(world)
    }

    /// Takes the present objects as the basis of the rules from here on.
    fn begin(&mut self) {
        self.cluster.edit().server.writes = 0;
        self.small.lasting =
            rules::endpoints(&self.cluster.server).map(|(address, target, _)| (address, target)).collect();
        let guarded = |backend: &crate::Backend| backend.policy.guard.min_endpoints < 20;
        self.small.held = self.setup.backends.iter().map(|backend| guarded(backend).then(BTreeSet::new)).collect();
        rules::look(self);
        self.beginning = Rc::new((*self.cluster).clone());
    }

    /// Whether nothing is on its way and every source's script is complete.
    #[must_use]
    pub(crate) fn is_at_rest(&self, deliveries: &[Action]) -> bool {
        let told = |(next, backend): (&usize, &crate::Backend)| *next == backend.script.len();
        deliveries.is_empty() && self.small.next.iter().zip(&self.setup.backends).all(told)
    }

    /// Lets everything come to rest from here, and checks the rules of the end.
    ///
    /// # Errors
    /// Returns a rule that is broken at the end.
    pub fn end(mut self) -> Result<(), Fault> {
        let for_good = matches!(
            self.small.trouble,
            Some(Trouble::RefusedKeep(_) | Trouble::Conflicts(_) | Trouble::Refused { for_good: true, .. })
        );
        if !for_good {
            self.go_well();
        }
        self.cluster.edit().late.clear();
        self.arrive()?;
        self.pass(SHORT);
        self.arrive()?;
        let held = self.writer.state.backends().values().find_map(|backend| backend.guards().removals().held());
        if let Some(held) = held.filter(|_| self.setup.everyday) {
            let what = format!("the loss of {} of {} endpoints is held", held.endpoints_removed, held.endpoints_before);
            return Err(Fault { rule: Rule::Guard, what });
        }
        self.settle()?;
        self.check_owners()?;
        if self.approve() {
            self.settle()?;
        }
        self.check()?;
        if for_good {
            return Ok(());
        }
        if self.small.disturbed {
            let what = "a stream was ended for a lease that was still its writer's".into();
            return Err(Fault { rule: Rule::Lease, what });
        }
        let before = self.writer.state.counters().comparison_differences;
        if before > 0 {
            let what = format!("comparisons found {before} differences");
            return Err(Fault { rule: Rule::Comparison, what });
        }
        for agent in 0..self.agents.len() {
            self.kill_agent(agent);
        }
        self.kill_writer(false);
        self.cluster.edit().server.writes = 0;
        self.settle()?;
        match self.cluster.server.writes {
            0 => self.check(),
            writes => Err(Fault { rule: Rule::Quiet, what: format!("a restart wrote {writes} times") }),
        }
    }

    /// Approves all held removals. Returns whether there were any.
    fn approve(&mut self) -> bool {
        let held = |backend: &gimbal_reconcile::Backend| {
            backend.guards().removals().held().map(|held| (backend.name().clone(), held.id))
        };
        let held: Vec<_> = self.writer.state.backends().values().filter_map(held).collect();
        for (name, id) in &held {
            self.writer.edit().state.approve(name, id);
            let number = self.setup.backends.iter().position(|backend| backend.name == *name);
            number.into_iter().for_each(|number| self.small.held[number] = None);
        }
        self.tick();
        !held.is_empty()
    }

    fn settle(&mut self) -> Result<(), Fault> {
        self.arrive()?;
        self.pass(LONG);
        self.arrive()
    }

    /// Lets time pass. Everything that becomes due arrives, except what becomes due at the last moment.
    pub(crate) fn pass(&mut self, mut time: Duration) {
        loop {
            let step = time.min(STEP);
            self.small.clock += step;
            time -= step;
            self.tick();
            if time.is_zero() {
                return;
            }
            if let Err(fault) = self.arrive() {
                return self.fail(fault);
            }
        }
    }

    /// Delivers everything on its way, in one order.
    fn arrive(&mut self) -> Result<(), Fault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        for _ in 0..STEPS {
            let actions = self.deliveries();
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                let was_there = match &action {
                    Action::Up(agent, number) => self.links[*agent].len() > *number,
                    _ => true,
                };
                if was_there {
                    self.take(&action);
                }
                if let Some(fault) = self.fault.take() {
                    return Err(fault);
                }
            }
        }
        let what = format!("it goes on for ever: {:?}", self.deliveries());
        Err(Fault { rule: Rule::Rest, what })
    }

    /// Whether a backend's removals wait forever, because their record is never stored.
    pub(crate) fn waits_for_ever(&self, agent: usize) -> bool {
        self.small.trouble == Some(Trouble::RefusedKeep(agent))
    }

    fn check(&self) -> Result<(), Fault> {
        let rest = |what: String| Err(Fault { rule: Rule::Rest, what });
        for (number, agent) in self.agents.iter().enumerate() {
            let name = &self.setup.backends[number].name;
            let (state, pending) = (agent.end.stream_state(), agent.end.pending());
            if !self.waits_for_ever(number) && (state != StreamState::Open || pending > 0) {
                return rest(format!("the stream of {name} is {state:?}, and {pending} Services of it wait"));
            }
        }
        let pending = self.writer.state.pending();
        if pending > 0
            && !matches!(
                self.small.trouble,
                Some(Trouble::RefusedKeep(_) | Trouble::Conflicts(_) | Trouble::Refused { .. })
            )
        {
            return rest(format!("{pending} targets of the writer wait"));
        }
        let backends = self.writer.state.backends().values();
        for backend in backends {
            if let (Some(held), None) = (
                backend.guards().removals().held(),
                self.small.trouble.filter(|trouble| matches!(trouble, Trouble::RefusedKeep(_))),
            ) {
                return rest(format!("{} endpoints of {} are held", held.endpoints_removed, backend.name()));
            }
        }
        self.check_content()
    }
}
