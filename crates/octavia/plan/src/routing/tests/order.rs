//! The order in which policies change.

use std::collections::BTreeMap;

use gimbal_kuryr_model::{Route, RouteTarget};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::evaluate::{Request, any_routes, http, matches, requests, route, routing};
use crate::change::CloudChange;
use crate::mark::{KEEP, route_tag};
use crate::routing::fold::{WantedPolicy, fold};
use crate::routing::policies::{DefaultPool, PolicyGoes, PolicyPlan, PolicyRepair, PolicyWay, PolicyWish};
use crate::seen::{Provisioning, SeenListener};
use crate::seen_policy::{SeenPolicy, SeenRule};

/// A listener, and what is wanted of it.
struct World {
    listener: SeenListener,
    wishes: Vec<PolicyWish>,
    default: Option<&'static str>,
    made: usize,
    /// The place of a policy whose removal fails just now.
    stuck: Option<usize>,
}

impl World {
    fn new() -> Self {
        let listener = SeenListener { id: "l".to_owned(), ..SeenListener::default() };
        Self { listener, wishes: Vec::new(), default: None, made: 0, stuck: None }
    }

    fn wants(&mut self, routes: &[Route], default: Option<&'static str>) {
        let wish = |policy: crate::routing::fold::WantedPolicy| {
            let (RouteTarget::Pool(to) | RouteTarget::Redirect(to)) = &policy.to;
            let way = PolicyWay::Open(to.to_string());
            let tag = route_tag(&policy.identity());
            let (tags, rule_tags, repair) = (vec!["ours".to_owned()], Vec::new(), PolicyRepair::Later);
            PolicyWish { policy, tag, tags, rule_tags, way, repair }
        };
        self.wishes = fold(&routing(routes.to_vec()), http()).policies.into_iter().map(wish).collect();
        self.default = default;
    }

    fn of(routes: &[(&str, &str, &str)]) -> Self {
        let mut world = Self::new();
        world.wants_these(routes);
        world.settle();
        world
    }

    fn wants_these(&mut self, routes: &[(&str, &str, &str)]) {
        let routes: Vec<Route> = routes.iter().map(|(host, path, to)| route(host, path, to)).collect();
        self.wants(&routes, None);
    }

    fn next(&self) -> Option<CloudChange> {
        let is_ours = |seen: &SeenPolicy| seen.tags.iter().any(|tag| tag == "ours");
        let is_kept = |seen: &SeenPolicy| seen.tags.iter().any(|tag| tag == KEEP);
        PolicyPlan {
            listener: &self.listener,
            wishes: &self.wishes,
            default: Some(self.default.map_or(DefaultPool::Nowhere, DefaultPool::Pool)),
            goes: &|seen| match self.stuck.and_then(|at| self.listener.policies.get(at)) {
                _ if is_kept(seen) => PolicyGoes::NotYet,
                Some(stuck) if stuck.id == seen.id => PolicyGoes::Soon,
                _ => PolicyGoes::Now,
            },
            names: &|seen| WantedPolicy::names_in(&seen.name).into_iter().collect(),
            may_be_taken: &|seen| is_ours(seen) || !is_kept(seen),
        }
        .next()
    }

    /// Does what Octavia does.
    fn take(&mut self, change: &CloudChange) {
        match change {
            CloudChange::CreatePolicy { body } => {
                self.made += 1;
                let id = format!("new-{}", self.made);
                let new = SeenPolicy { id, ..SeenPolicy::read(body) };
                assert!(!new.admin_state_up && body.get("position").is_none());
                self.listener.policy_made(new);
            }
            CloudChange::CreateRule { policy, body } => {
                let policy = self.listener.policies.iter_mut().find(|one| one.id == *policy).unwrap();
                assert!(!policy.admin_state_up, "a policy that is up gets no rules");
                policy.rules.push(SeenRule::read(body));
            }
            CloudChange::UpdatePolicy { id, fields } => {
                let policy = self.listener.policies.iter().find(|one| one.id == *id).unwrap();
                let set = |key: &str, seen: &Value| fields.get(key).cloned().unwrap_or_else(|| seen.clone());
                let row: Map<String, Value> = [
                    ("name", policy.name.as_str().into()),
                    ("redirect_pool_id", policy.pool.clone().into()),
                    ("redirect_prefix", policy.prefix.clone().into()),
                    ("admin_state_up", policy.admin_state_up.into()),
                    ("tags", policy.tags.clone().into()),
                    ("action", policy.action.as_str().into()),
                    ("id", id.as_str().into()),
                ]
                .map(|(key, seen)| (key.to_owned(), set(key, &seen)))
                .into_iter()
                .collect();
                let position = fields["position"].as_u64().map(|position| usize::try_from(position).unwrap());
                self.listener.policy_changed(SeenPolicy::read(&Value::Object(row)), position);
            }
            CloudChange::DeletePolicy { id } => self.listener.policy_gone(id),
            CloudChange::UpdateListener { fields, .. } => {
                self.listener.default_pool = fields["default_pool_id"].as_str().map(str::to_owned);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the next change while one about this wish fails, or this policy cannot be removed.
    fn next_beside(&mut self, fails: &prop::sample::Index) -> Option<CloudChange> {
        let (wishes, policies) = (self.wishes.len(), self.listener.policies.len());
        let before = self.wishes.clone();
        if wishes > 0 {
            self.wishes[fails.index(wishes)].way = PolicyWay::Soon;
        }
        self.stuck = (policies > 0).then(|| fails.index(policies));
        let next = self.next();
        (self.wishes, self.stuck) = (before, None);
        next
    }

    /// Takes all changes, and returns them in short.
    fn settle(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(change) = self.next() {
            all.push(short(&change));
            self.take(&change);
            assert!(all.len() < 200, "no end: {all:#?}");
        }
        all
    }

    /// Returns who answers a request: clients are sent elsewhere before requests go to pools.
    fn answers(&self, request: Request) -> Option<&str> {
        let up = self.listener.policies.iter().filter(|one| one.admin_state_up && !one.rules.is_empty());
        let takes =
            |one: &&SeenPolicy| one.rules.iter().all(|one| matches(&one.kind, &one.compare, &one.value, request));
        let (elsewhere, pools): (Vec<&SeenPolicy>, Vec<&SeenPolicy>) =
            up.filter(takes).partition(|one| one.pool.is_none());
        let first = elsewhere.into_iter().chain(pools).next();
        first.map_or(self.listener.default_pool.as_deref(), |one| one.prefix.as_deref().or(one.pool.as_deref()))
    }

    fn all_answers(&self) -> BTreeMap<Request, Option<String>> {
        requests().map(|request| (request, self.answers(request).map(str::to_owned))).collect()
    }

    fn repairs(&mut self, repair: PolicyRepair) {
        self.wishes.iter_mut().for_each(|wish| wish.repair = repair);
    }

    fn policy(&mut self, at: usize) -> &mut SeenPolicy {
        &mut self.listener.policies[at]
    }
}

fn short(change: &CloudChange) -> String {
    match change {
        CloudChange::CreatePolicy { .. } => "make".to_owned(),
        CloudChange::CreateRule { body, .. } => format!("rule {}", body["type"].as_str().unwrap()),
        CloudChange::UpdatePolicy { id, fields } => format!("{id} {fields}"),
        CloudChange::DeletePolicy { id } => format!("{id} goes"),
        CloudChange::UpdateListener { fields, .. } => fields.to_string(),
        other => panic!("{other:?}"),
    }
}

const FOUR: [(&str, &str, &str); 4] =
    [("a.test", "", "p1"), ("b.test", "", "p1"), ("c.test", "", "p2"), ("d.test", "", "p2")];

#[test]
fn a_policy_is_down_until_it_has_its_rules_and_its_place() {
    let mut world = World::of(&FOUR[1..]);
    world.wants_these(&[("a.test", "/a", "p2"), FOUR[1], FOUR[2], FOUR[3]]);
    let up = r#"new-4 {"admin_state_up":true,"position":1}"#;
    assert_eq!(world.settle(), ["make", "rule HOST_NAME", "rule PATH", up]);
    world.wants_these(&[("a.test", "/a", "p2"), FOUR[1], FOUR[2], ("c.test", "", "p1"), ("x.test", "", "p1"), FOUR[3]]);
    let up = r#"new-5 {"admin_state_up":true,"position":4}"#;
    assert_eq!(world.settle(), ["make", "rule HOST_NAME", up]);
}

#[test]
fn as_few_move_as_can() {
    let order = |world: &World| -> Vec<String> { world.listener.policies.iter().map(|one| one.id.clone()).collect() };
    for (places, moves) in [
        ([1, 2, 3, 0], vec![r#"new-1 {"position":4}"#]),
        ([3, 0, 1, 2], vec![r#"new-4 {"position":1}"#]),
        ([0, 2, 1, 3], vec![r#"new-3 {"position":2}"#]),
        ([3, 2, 1, 0], vec![r#"new-4 {"position":1}"#, r#"new-3 {"position":2}"#, r#"new-2 {"position":3}"#]),
    ] {
        let mut world = World::of(&FOUR);
        world.wants_these(&places.map(|at| FOUR[at]));
        assert_eq!(world.settle(), moves, "{places:?}");
        assert_eq!(order(&world), places.map(|at| format!("new-{}", at + 1)), "{places:?}");
    }
}

#[test]
fn another_pool_is_one_change_and_other_rules_are_another_policy() {
    let mut world = World::of(&FOUR);
    world.wants_these(&[FOUR[0], ("b.test", "", "p3"), FOUR[2], FOUR[3]]);
    assert_eq!(world.settle(), [r#"new-2 {"redirect_pool_id":"p3"}"#]);
    world.wants_these(&[FOUR[0], ("b.test", "/b", "p3"), FOUR[2], FOUR[3]]);
    let up = r#"new-5 {"admin_state_up":true,"position":2}"#;
    assert_eq!(world.settle(), ["make", "rule HOST_NAME", "rule PATH", up, "new-2 goes"]);
}

/// On its way back it would lead requests there that are not for it.
#[test]
fn one_that_goes_back_and_leads_elsewhere_is_made_anew() {
    let mut world = World::of(&[("", "/a", "p1"), ("a.test", "", "p2"), ("b.test", "", "p3")]);
    world.wants_these(&[("a.test", "", "p2"), ("b.test", "", "p3"), ("", "/a", "p4")]);
    let up = r#"new-4 {"admin_state_up":true,"position":4}"#;
    assert_eq!(world.settle(), ["make", "rule PATH", up, "new-1 goes"]);
}

#[test]
fn the_default_pool_changes_between_what_comes_and_what_goes() {
    let mut world = World::of(&[("", "/a", "p1")]);
    world.wants(&[route("", "/b", "p2")], Some("p3"));
    let all = world.settle();
    let default = all.iter().position(|one| one == r#"{"default_pool_id":"p3"}"#);
    assert_eq!((default, all.len(), all.last().map(String::as_str)), (Some(3), 5, Some("new-1 goes")), "{all:?}");
}

#[test]
fn what_was_begun_for_something_else_goes_and_what_was_begun_is_finished() {
    let mut world = World::new();
    world.wants_these(&[("a.test", "/a", "p1")]);
    for _ in 0..2 {
        let change = world.next().unwrap();
        world.take(&change);
    }
    assert_eq!(short(&world.next().unwrap()), "rule PATH", "planned anew from what is there");
    world.wants_these(&[("a.test", "/b", "p1")]);
    assert_eq!(world.settle()[0], "new-1 goes");
}

#[test]
fn drift_is_set_back() {
    type Drift = fn(&mut World);
    let drifts: [(Drift, &[&str]); 5] = [
        (|world| world.policy(1).admin_state_up = false, &[r#"new-2 {"admin_state_up":true,"position":2}"#]),
        (|world| world.policy(1).pool = Some("other".into()), &[r#"new-2 {"redirect_pool_id":"p1"}"#]),
        (|world| world.policy(1).name = "mine".into(), &[r#"new-2 {"name":"shop/web"}"#]),
        (|world| world.listener.default_pool = Some("other".into()), &[r#"{"default_pool_id":null}"#]),
        (
            |world| world.policy(1).rules[0].value = "^x".into(),
            &["make", "rule HOST_NAME", r#"new-5 {"admin_state_up":true,"position":2}"#, "new-2 goes"],
        ),
    ];
    for (drift, changes) in drifts {
        let mut world = World::of(&FOUR);
        drift(&mut world);
        assert_eq!(world.settle(), changes);
    }
}

#[test]
fn of_two_that_are_the_same_one_goes_and_what_is_kept_stays() {
    let mut world = World::of(&FOUR);
    let twin = SeenPolicy { id: "twin".into(), ..world.policy(0).clone() };
    let kept = SeenPolicy { id: "kept".into(), tags: vec![KEEP.into()], ..world.policy(0).clone() };
    world.listener.policies.insert(0, kept);
    world.listener.policies.push(twin);
    assert_eq!(world.settle(), ["twin goes"]);
}

#[test]
fn a_broken_policy_gets_everything_once_more_and_is_then_made_anew() {
    let mut world = World::of(&FOUR);
    world.policy(1).provisioning = Provisioning::Error;
    assert_eq!(world.settle(), [""; 0]);
    world.repairs(PolicyRepair::Again);
    let Some(CloudChange::UpdatePolicy { id, fields }) = world.next() else { panic!() };
    assert_eq!((&*id, fields.to_string()), ("new-2", r#"{"admin_state_up":true,"redirect_pool_id":"p1"}"#.to_owned()));
    world.repairs(PolicyRepair::Anew);
    let up = r#"new-5 {"admin_state_up":true,"position":2}"#;
    assert_eq!(world.settle(), ["make", "rule HOST_NAME", up, "new-2 goes"]);
    // One that was never up is removed before another one is made.
    world.wants_these(&[("a.test", "", "p1"), ("x.test", "", "p1")]);
    world.repairs(PolicyRepair::Anew);
    let made = world.next().unwrap();
    world.take(&made);
    world.listener.policies.last_mut().unwrap().provisioning = Provisioning::Error;
    assert_eq!(short(&world.next().unwrap()), "new-6 goes");
}

#[test]
fn what_comes_soon_is_waited_for_by_what_it_concerns() {
    let mut world = World::of(&FOUR);
    world.wants_these(&[("a.test", "/a", "p2"), ("b.test", "/b", "p2"), FOUR[2]]);
    world.wishes[0].way = PolicyWay::Soon;
    let all = world.settle();
    assert_eq!(all[4..], ["new-4 goes", "new-2 goes"], "{all:?}");
    world.wishes[0].way = PolicyWay::Later;
    assert_eq!(world.settle(), [""; 0], "it fails, and what serves its host stays");
    world.wishes[0].way = PolicyWay::Shut;
    assert_eq!(world.settle(), ["new-1 goes"]);
}

/// Its requests would be answered by another Service.
#[test]
fn what_is_new_does_not_take_what_is_of_one_that_there_is_no_room_for() {
    let mut world = World::of(&FOUR[1..2]);
    let wanted = [("a.test", "/a", "p3"), ("a.test", "", "p1"), FOUR[1], ("c.test", "/c", "p2"), ("*.test", "", "p2")];
    world.wants_these(&wanted);
    world.wishes[0].way = PolicyWay::NoRoom;
    let up = r#"new-2 {"admin_state_up":true,"position":2}"#;
    assert_eq!(world.settle(), ["make", "rule HOST_NAME", "rule PATH", up], "neither its host's nor the wildcard's");
    // One bad route must not stop others for good.
    world.wishes[0].way = PolicyWay::Shut;
    let made = world.settle().iter().filter(|one| *one == "make").count();
    assert_eq!((made, world.listener.policies.len()), (2, 4));
    // What is up has taken its requests before.
    world.wants_these(&[wanted[0], ("a.test", "", "p2"), FOUR[1], wanted[3], wanted[4]]);
    world.wishes[0].way = PolicyWay::NoRoom;
    assert_eq!(world.settle(), [r#"new-3 {"redirect_pool_id":"p2"}"#]);
}

#[derive(Debug, Clone)]
struct Wishes {
    routes: Vec<Route>,
    default: Option<&'static str>,
    /// How many changes are made before the next wish.
    steps: usize,
}

fn any_wishes() -> impl Strategy<Value = Vec<Wishes>> {
    let default = prop::sample::select(vec![None, Some("p1"), Some("p9")]);
    let one = (any_routes(8), default, prop_oneof![0..12_usize, Just(1_000)]);
    prop::collection::vec(one.prop_map(|(routes, default, steps)| Wishes { routes, default, steps }), 1..4)
}

/// Between any two changes each request goes where it went when the wish came, or where it is to go.
#[test]
fn no_request_is_led_anywhere_else() {
    let some = || prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    gimbal_property::check(192, &(any_wishes(), some(), some()), |(wishes, shuffled, fails)| {
        let mut world = World::new();
        for Wishes { routes, default, steps } in &wishes {
            world.wants(routes, *default);
            // Somebody moves a policy.
            for (from, to) in shuffled.iter().zip(shuffled.iter().skip(1)) {
                let count = world.listener.policies.len();
                if count > 0 {
                    let moved = world.policy(from.index(count)).clone();
                    world.listener.policy_changed(moved, Some(to.index(count) + 1));
                }
            }
            let mut wanted = World::new();
            wanted.wants(routes, *default);
            wanted.settle();
            let (before, after) = (world.all_answers(), wanted.all_answers());
            for nth in 0..=*steps {
                let beside = fails.get(nth % 4).and_then(|fails| world.next_beside(fails));
                let Some(change) = beside.or_else(|| world.next()).filter(|_| nth < *steps) else { break };
                world.take(&change);
                prop_assert!(nth < 200, "no end");
                for request in requests() {
                    let led = world.answers(request).map(str::to_owned);
                    prop_assert!(
                        led == before[&request] || led == after[&request],
                        "{request:?} goes to {led:?} after {}; {:?}, {:?}",
                        short(&change),
                        before[&request],
                        after[&request]
                    );
                }
            }
            if *steps == 1_000 {
                prop_assert_eq!(world.all_answers(), after);
                prop_assert_eq!(world.listener.policies.len(), world.wishes.len());
            }
        }
        Ok(())
    });
}
