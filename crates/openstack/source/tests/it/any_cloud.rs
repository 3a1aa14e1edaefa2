//! A property test: the cloud changes between any two calls, lists fail or lag, and the caller restarts. Nothing that exists
//! throughout is removed, and once the cloud rests, the published Services are those of the cloud.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::common::{Caller, World, failed, id};
use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{CompleteList, Existence, UnreadableRow};
use gimbal_openstack_source::{ListMode, ListScope, MembersError, PollOptions, PollOutcome, Query, Reply};
use proptest::prelude::*;

type Listed<T> = Result<CompleteList<T>, String>;
const BALANCERS: u8 = 4;
/// A name that both projects may have.
const SHARED: &str = "shared";

/// A change of the cloud.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// Creates a load balancer with listener, pool and this number of members. Even numbers belong to one project.
    Create(u8, u8),
    /// Deletes a load balancer with everything below it.
    Delete(u8),
    /// Deletes only the load balancer's pool.
    DeletePool(u8),
    AddMember(u8, u8),
    DeleteMember(u8, u8),
    Weight(u8, u8),
    /// Adds a listener on the same pool.
    AddListener(u8),
    SwitchBalancer(u8),
    DeleteProject(u8),
    CreateProject(u8),
    RenameProject(u8, u8),
    /// Lets time pass.
    Wait(u8),
}

/// A fault of an answer.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Failed,
    /// The rows are reversed.
    Reordered,
    /// One row cannot be read, with or without its ID.
    Spoiled(u8, bool),
    /// The role on the project with odd numbers is lost from this query on, until the end of a poll with `RoleBack`.
    RoleLost,
    RoleBack,
    NeverComes,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Change(Change),
    Fault(Fault),
    Reply,
}

#[derive(Debug, Clone)]
enum Act {
    Poll(Vec<Step>),
    Quiet(Change),
    Restart,
}

fn change() -> impl Strategy<Value = Change> {
    let n = || 0..BALANCERS;
    prop_oneof![
        5 => (n(), 0u8..4).prop_map(|(a, b)| Change::Create(a, b)),
        3 => n().prop_map(Change::Delete),
        1 => n().prop_map(Change::DeletePool),
        4 => (n(), 0u8..6).prop_map(|(a, b)| Change::AddMember(a, b)),
        3 => (n(), 0u8..6).prop_map(|(a, b)| Change::DeleteMember(a, b)),
        3 => (n(), 0u8..6).prop_map(|(a, b)| Change::Weight(a, b)),
        1 => n().prop_map(Change::AddListener),
        1 => n().prop_map(Change::SwitchBalancer),
        1 => (0u8..2).prop_map(Change::DeleteProject),
        2 => (0u8..2).prop_map(Change::CreateProject),
        2 => (0u8..2, 0u8..5).prop_map(|(a, b)| Change::RenameProject(a, b)),
        2 => (0u8..5).prop_map(Change::Wait),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        3 => Just(Fault::Failed),
        2 => Just(Fault::Reordered),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(a, b)| Fault::Spoiled(a, b)),
        1 => Just(Fault::RoleLost),
        2 => Just(Fault::RoleBack),
        1 => Just(Fault::NeverComes),
    ];
    prop_oneof![8 => Just(Step::Reply), 2 => change().prop_map(Step::Change), 1 => fault.prop_map(Step::Fault)]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => proptest::collection::vec(step(), 0..14).prop_map(Act::Poll),
        4 => change().prop_map(Act::Quiet),
        1 => Just(Act::Restart),
    ]
}

fn project_of(balancer: u8) -> &'static str {
    if balancer.is_multiple_of(2) { "pa" } else { "pb" }
}

/// The cloud, and the addresses that have existed without interruption.
struct Truth {
    caller: Caller,
    mode: ListMode,
    role_lost: bool,
    lost_for_a_poll: bool,
    /// Endpoints that have existed without interruption since a complete poll saw them, by Service name and address.
    steady: BTreeSet<(String, IpAddr)>,
    last_create: u32,
    /// The Services that this process has published, change by change.
    heard: BTreeMap<SourceKey, Arc<Service>>,
}

impl Truth {
    fn options() -> PollOptions {
        PollOptions { projects_for: std::time::Duration::from_secs(25), ..crate::common::quiet() }
    }

    fn change(&mut self, change: Change) {
        let world = &mut self.caller.world;
        world.seconds += 1;
        let names = |n: u8| (format!("lb{n}"), format!("p{n}"));
        match change {
            Change::Create(n, members) => {
                let (balancer, pool) = names(n);
                if world.load_balancers.contains_key(&id(&balancer)) {
                    return;
                }
                world.load_balancer(&balancer, project_of(n), "web");
                world.pool(&pool, &balancer, "TCP");
                world.listener(&format!("l{n}"), &balancer, 80, "TCP", &pool);
                (0..members).for_each(|member| self.change(Change::AddMember(n, member)));
            }
            Change::Delete(n) => world.delete_load_balancer(&names(n).0),
            Change::DeletePool(n) => {
                let (balancer, pool) = names(n);
                world.pools.remove(&id(&pool));
                world.members.remove(&id(&pool));
                if let Some(row) = world.load_balancers.get_mut(&id(&balancer)) {
                    row.pools.clear();
                }
                world
                    .listeners
                    .values_mut()
                    .filter(|row| row.default_pool_id == Some(id(&pool)))
                    .for_each(|row| row.default_pool_id = None);
            }
            Change::AddMember(n, host) => {
                let pool = names(n).1;
                let address = format!("10.0.{n}.{host}");
                let there = world.members.get(&id(&pool)).into_iter().flatten();
                let taken = there
                    .map(|(_, row)| row)
                    .any(|row| row.address == gimbal_octavia_rows::Address::Ip(address.parse().unwrap()));
                if world.pools.contains_key(&id(&pool)) && !taken {
                    self.last_create += 1;
                    world.member(&pool, &format!("m{}", self.last_create), &address, 80);
                }
            }
            Change::DeleteMember(n, host) | Change::Weight(n, host) => {
                let pool = names(n).1;
                let ip = gimbal_octavia_rows::Address::Ip(format!("10.0.{n}.{host}").parse().unwrap());
                let found = world.members.get(&id(&pool)).into_iter().flatten().find(|(_, row)| row.address == ip);
                let Some(member) = found.map(|(member, _)| member.as_str().to_owned()) else { return };
                if matches!(change, Change::DeleteMember(..)) {
                    world.delete_member(&pool, &member);
                } else {
                    let row = world.change_member(&pool, &member);
                    row.weight = 1 - row.weight.min(1);
                }
            }
            Change::AddListener(n) => {
                let (balancer, pool) = names(n);
                if world.load_balancers.contains_key(&id(&balancer))
                    && !world.listeners.contains_key(&id(&format!("k{n}")))
                {
                    world.listener(&format!("k{n}"), &balancer, 81, "TCP", &pool);
                    if !world.pools.contains_key(&id(&pool)) {
                        world.listeners.get_mut(&id(&format!("k{n}"))).unwrap().default_pool_id = None;
                    }
                }
            }
            Change::SwitchBalancer(n) => {
                if let Some(row) = world.load_balancers.get_mut(&id(&names(n).0)) {
                    row.admin_state_up = !row.admin_state_up;
                }
            }
            Change::DeleteProject(n) => drop(world.projects.remove(&id(project_of(n)))),
            Change::CreateProject(n) if !world.projects.contains_key(&id(project_of(n))) => {
                world.project(project_of(n), project_of(n))
            }
            Change::RenameProject(n, name) if world.projects.contains_key(&id(project_of(n))) => {
                let name = match name {
                    0 | 1 => format!("{}{name}", project_of(n)),
                    // A name that the other project may have, the other project's ID, and a name without safe
                    // characters.
                    2 => SHARED.into(),
                    3 => project_of(n + 1).into(),
                    _ => "日本".into(),
                };
                world.project(project_of(n), &name);
            }
            Change::CreateProject(_) | Change::RenameProject(..) => {}
            Change::Wait(seconds) => world.seconds += i64::from(seconds),
        }
        let there = self.there();
        self.steady.retain(|held| there.contains(held));
    }

    /// Returns every endpoint of the cloud now.
    fn there(&self) -> BTreeSet<(String, IpAddr)> {
        let fresh = Self::fresh(&self.caller.world, self.mode);
        endpoints(&fresh)
    }

    /// Returns the Services that the last poll confirmed. Services kept because lists did not fit together may have
    /// deleted objects, and an address of theirs that exists again belongs to another object.
    fn seen(&self) -> BTreeMap<SourceKey, Arc<Service>> {
        let is_kept = |key: &SourceKey| {
            self.caller.cloud.explain(key).iter().any(|reason| reason.starts_with("what was last known of it stays"))
        };
        let view = self.caller.view.iter().filter(|(key, _)| !is_kept(key));
        view.map(|(key, service)| (key.clone(), service.clone())).collect()
    }

    /// Returns the Services that a new caller publishes now, with a server without faults.
    fn fresh(world: &World, mode: ListMode) -> BTreeMap<SourceKey, Arc<Service>> {
        let mut caller = Caller::new(mode, Self::options(), world.clone());
        caller.poll();
        caller.poll();
        caller.view
    }

    fn answer(&self, ask: &Query) -> Reply {
        let answer = self.caller.world.answer(ask);
        if !self.role_lost {
            return answer;
        }
        let seen = |project: &str| project == "pa";
        let hidden = |id: &gimbal_octavia_rows::Id| !id.as_str().ends_with(['0', '2']);
        let forbidden = Ok(Existence::Forbidden);
        let of = |balancers: &[gimbal_octavia_rows::Id]| {
            balancers.first().is_none_or(|id| id.as_str().ends_with(['0', '2']))
        };
        match answer {
            Reply::LoadBalancers(ListScope::AllProjects, Ok(mut list)) => {
                list.rows.retain(|row| seen(row.project.as_str()));
                Reply::LoadBalancers(ListScope::AllProjects, Ok(list))
            }
            Reply::Listeners(ListScope::AllProjects, Ok(mut list)) => {
                list.rows.retain(|row| of(&row.load_balancers));
                Reply::Listeners(ListScope::AllProjects, Ok(list))
            }
            Reply::Pools(ListScope::AllProjects, Ok(mut list)) => {
                list.rows.retain(|row| of(&row.load_balancers));
                Reply::Pools(ListScope::AllProjects, Ok(list))
            }
            Reply::LoadBalancer(whose, id, _) if hidden(&id) => Reply::LoadBalancer(whose, id, forbidden),
            Reply::Listener(whose, id, _) if hidden(&id) => Reply::Listener(whose, id, forbidden),
            Reply::Pool(whose, id, _) if hidden(&id) => Reply::Pool(whose, id, forbidden),
            Reply::Roles(whose, _) => Reply::Roles(whose, Ok(vec!["observer".to_owned()])),
            other => other,
        }
    }

    fn poll(&mut self, steps: &[Step]) -> PollOutcome {
        self.caller.now += crate::common::INTERVAL;
        self.caller.world.seconds += 10;
        self.caller.cloud.begin(self.caller.now);
        let mut steps = steps.iter();
        let mut back = false;
        while let Some(ask) = self.caller.cloud.next_query() {
            let mut answer = None;
            let mut never = false;
            for step in steps.by_ref() {
                match step {
                    Step::Reply => break,
                    Step::Change(change) => self.change(*change),
                    Step::Fault(Fault::RoleLost) => self.role_lost = true,
                    // A role that changes between the same two lists of two polls in a row looks like a change of the
                    // cloud.
                    Step::Fault(Fault::RoleBack) => back = true,
                    Step::Fault(Fault::NeverComes) => never = true,
                    Step::Fault(fault) => {
                        answer = Some(spoil(self.answer(&ask), *fault));
                        break;
                    }
                }
            }
            if !never {
                let answer = answer.unwrap_or_else(|| self.answer(&ask));
                self.caller.cloud.answer(answer, self.caller.now);
            }
        }
        // A role stays lost, or present, for at least one whole poll.
        self.role_lost &= !(back && self.lost_for_a_poll);
        self.lost_for_a_poll = self.role_lost;
        let outcome = self.caller.cloud.finish(self.caller.now);
        self.caller.apply(&outcome.changes);
        for (key, service) in outcome.changes.iter().cloned() {
            match service {
                Some(service) => drop(self.heard.insert(key, service)),
                None => assert!(self.heard.remove(&key).is_some(), "a removal of what was never published"),
            }
        }
        let held: BTreeMap<_, _> =
            self.caller.cloud.services().map(|(key, service)| (key.clone(), service.clone())).collect();
        assert_eq!(self.heard, held, "what is held is what was published");
        if outcome.is_complete() {
            // A snapshot of a complete poll removes what it lacks. Until then what a restart left is kept.
            let published = self.caller.cloud.services().map(|(key, service)| (key.clone(), service.clone()));
            self.caller.view = published.collect();
        }
        outcome
    }

    /// Checks that no endpoint that has existed since a complete poll is missing from the published Services.
    fn check(&self) -> Result<(), TestCaseError> {
        let published = endpoints(&self.caller.view);
        for held in &self.steady {
            prop_assert!(published.contains(held), "{held:?} is missing: {published:?}");
        }
        Ok(())
    }
}

/// Returns the endpoints by Service name, not by key: a renamed project moves its Services, which is not a removal.
fn endpoints(view: &BTreeMap<SourceKey, Arc<Service>>) -> BTreeSet<(String, IpAddr)> {
    let each = |(key, service): (&SourceKey, &Arc<Service>)| {
        let name = key.name.to_string();
        service.endpoints().map(|(_, endpoint)| (name.clone(), endpoint.address)).collect::<Vec<_>>()
    };
    view.iter().flat_map(each).collect()
}

/// Returns the Services without their namespaces and what follows from these.
fn wherever(view: &BTreeMap<SourceKey, Arc<Service>>) -> Vec<String> {
    let nowhere = |key: &SourceKey| SourceKey { namespace: "".into(), name: key.name.clone() };
    let shown = |(key, service): (&SourceKey, &Arc<Service>)| {
        format!("{}{:?}", crate::common::show(&nowhere(key), service), service.header.labels)
    };
    let mut shown: Vec<String> = view.iter().map(shown).collect();
    shown.sort();
    shown
}

/// Checks that each project is in the namespace of its name with its annotation, or under its ID if another project has
/// that namespace. What the writer does with these is not tested here.
fn in_place(world: &World, view: &BTreeMap<SourceKey, Arc<Service>>) -> Result<(), TestCaseError> {
    let mut shared = BTreeSet::new();
    for (key, service) in view {
        let balancer = key.name.strip_prefix("web-").unwrap_or_default();
        let project = &world.projects[&world.load_balancers[&id(balancer)].project];
        let annotation = service.header.annotations.get(gimbal_kubernetes_objects::keys::PROJECT);
        let found = (&*key.namespace, annotation.map(|id| &**id));
        let own = project.id.as_str();
        let both = world.projects.values().all(|row| *row.name == *SHARED) && world.projects.len() == 2;
        match &*project.name {
            "日本" => prop_assert_eq!(found, (own, None)),
            name if name == own => prop_assert_eq!(found, (own, None)),
            name if world.projects.contains_key(&id(name)) => prop_assert_eq!(found, (own, Some(own))),
            name => {
                prop_assert!(found == (name, Some(own)) || (both && found == (own, Some(own))), "{:?}", found);
                shared.extend((found.0 == SHARED).then_some(own));
            }
        }
    }
    prop_assert!(shared.len() < 2, "two projects in one namespace");
    Ok(())
}

fn spoil(answer: Reply, fault: Fault) -> Reply {
    fn list<T>(list: Listed<T>, fault: Fault, id: impl Fn(&T) -> String) -> Listed<T> {
        let mut list = list?;
        match fault {
            Fault::Reordered => list.rows.reverse(),
            Fault::Spoiled(which, named) if !list.rows.is_empty() => {
                let row = list.rows.remove(usize::from(which) % list.rows.len());
                let (id, problem) = (named.then(|| id(&row)), "odd".into());
                list.unreadable.push(UnreadableRow { id, project: None, problem });
            }
            Fault::Spoiled(..) => {}
            _ => return Err(failed()),
        }
        Ok(list)
    }
    match answer {
        Reply::Projects(rows) => Reply::Projects(list(rows, fault, |row| row.id.to_string())),
        Reply::LoadBalancers(whose, rows) => Reply::LoadBalancers(whose, list(rows, fault, |row| row.id.to_string())),
        Reply::Listeners(whose, rows) => Reply::Listeners(whose, list(rows, fault, |row| row.id.to_string())),
        Reply::Pools(whose, rows) => Reply::Pools(whose, list(rows, fault, |row| row.id.to_string())),
        Reply::L7Policies(whose, rows) => Reply::L7Policies(whose, list(rows, fault, |row| row.id.to_string())),
        Reply::Members(whose, pool, rows) => {
            let rows = match (rows, fault) {
                (_, Fault::Failed) => Err(MembersError::Failed(failed())),
                (Ok(rows), fault) => list(Ok(rows), fault, |row| row.id.to_string()).map_err(MembersError::Failed),
                (rows, _) => rows,
            };
            Reply::Members(whose, pool, rows)
        }
        other if matches!(fault, Fault::Failed) => crate::common::faults::fail(&other.query()),
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::common::cases(), ..ProptestConfig::default() })]

    #[test]
    fn nothing_goes_unproven_and_rest_brings_the_truth(acts in proptest::collection::vec(act(), 0..40), per_project: bool) {
        let mode = if per_project { ListMode::PerProject } else { ListMode::Bulk };
        let mut world = World::default();
        world.project("pa", "pa");
        world.project("pb", "pb");
        let caller = Caller::new(mode, Truth::options(), world);
        let mut truth = Truth { caller, mode, role_lost: false, lost_for_a_poll: false, steady: BTreeSet::new(), last_create: 0, heard: BTreeMap::new() };
        for act in acts {
            match act {
                Act::Quiet(change) => truth.change(change),
                Act::Restart => {
                    // The writer keeps what was published; a new snapshot replaces it only once a poll is complete.
                    truth.caller.cloud = gimbal_openstack_source::CloudPoller::new(mode, Truth::options());
                    truth.steady.clear();
                    truth.heard.clear();
                }
                Act::Poll(steps) => {
                    let outcome = truth.poll(&steps);
                    truth.check()?;
                    if outcome.is_complete() {
                        let published = endpoints(&truth.seen());
                        truth.steady.extend(truth.there().intersection(&published).cloned());
                        truth.check()?;
                    }
                }
            }
        }
        // The cloud rests. Let polls reread what changed within a second of being read, and the list of projects.
        truth.role_lost = false;
        let mut last = PollOutcome::default();
        for _ in 0..6 {
            last = truth.poll(&[]);
            truth.check()?;
        }
        prop_assert!(last.changes.is_empty(), "{:?}", last.changes);
        if truth.caller.world.projects.is_empty() {
            return Ok(()); // An empty list of projects is a lost role: everything is kept.
        }
        prop_assert!(last.is_complete(), "{:?}", last);
        let published: BTreeMap<SourceKey, Arc<Service>> =
            truth.caller.cloud.services().map(|(key, service)| (key.clone(), service.clone())).collect();
        prop_assert_eq!(&truth.caller.view, &published);
        let fresh = Truth::fresh(&truth.caller.world, mode);
        if truth.caller.world.projects.values().filter(|row| *row.name == *SHARED).count() < 2 {
            prop_assert_eq!(&published, &fresh);
        }
        // Only the namespaces depend on which project had a name first.
        prop_assert_eq!(wherever(&published), wherever(&fresh));
        in_place(&truth.caller.world, &published)?;
    }
}

/// Tests the property itself: it detects a removal that is not proven.
#[test]
fn the_property_sees_a_removal() {
    let mut world = World::default();
    world.project("pa", "pa");
    world.tree(0, "pa", 2);
    world.seconds += 60;
    let mut caller = Caller::new(ListMode::Bulk, Truth::options(), world);
    caller.poll();
    let steady = endpoints(&caller.view);
    assert_eq!(steady.len(), 2);
    let mut truth = Truth {
        caller,
        mode: ListMode::Bulk,
        role_lost: false,
        lost_for_a_poll: false,
        steady,
        last_create: 0,
        heard: BTreeMap::new(),
    };
    assert!(truth.check().is_ok());
    truth.caller.view.clear();
    assert!(truth.check().is_err());
    // Objects that the cloud itself deletes are no longer required.
    truth.change(Change::Delete(0));
    assert!(truth.check().is_ok());
}
