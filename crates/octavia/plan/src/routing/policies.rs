//! The next change of a listener's policies.
//!
//! Between two changes each request goes where it went before or where it is to go, and nowhere else:
//!
//! - A new policy is made last and down, gets its rules, and one request puts it in its place and up. It is never up with only
//!   some of its rules, with which it would take too much. One whose rules are to change is made anew, for the same reason.
//! - What comes forward comes first: policies that are new, that move forward or that lead elsewhere, in their order, each right
//!   behind the one that it is to follow. Whatever reaches such a policy is not taken by an earlier wanted one, so it is where it
//!   is to go.
//! - Then the default pool changes: what gets there is taken by no wanted policy.
//! - Then policies get the names of those whose routes they have: until it has gone, nothing else says whose one is that goes.
//! - What goes back or away comes last, from the last one up: the requests of one that goes are then taken by nothing that is
//!   not wanted.
//!
//! A policy goes in one request, and Octavia takes its rules along in the same change. Without one of its rules it would take
//! more than before, so rules are not removed one by one.
//!
//! Where a policy that is to come has no room in a quota, those that are new and behind it and would take its requests do not come
//! either: the same path must not be answered by another Service.
//!
//! As many policies as possible stay where they are: the longest run of those that are in the wanted order already. What such a
//! change leads to is a listener of which the same is true, so the next change is planned anew from what is seen then.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::Text;
use serde_json::{Map, Value, json};

use crate::change::CloudChange;
use crate::mark::with_missing;
use crate::routing::content::{content, rule_content, wanted_content};
use crate::routing::fold::{HOST, WantedPolicy, WantedRule};
use crate::routing::order::{Found, Order};
use crate::seen::{Provisioning, SeenListener};
use crate::seen_policy::SeenPolicy;

/// A policy, and what can be done about it.
#[derive(Debug, Clone)]
pub(crate) struct PolicyWish {
    pub(crate) policy: WantedPolicy,
    /// The tag that names what it takes.
    pub(crate) tag: String,
    /// Its other tags.
    pub(crate) tags: Vec<String>,
    /// The tags of each of its rules.
    pub(crate) rule_tags: Vec<String>,
    pub(crate) way: PolicyWay,
    pub(crate) repair: PolicyRepair,
}

/// What can be done about a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyWay {
    /// It can be made and changed. It leads there: to the pool with this ID, or to the address.
    Open(String),
    /// Soon, and what it would take stays where it is until then.
    Soon,
    /// When there is room for it. What its owners have of its host serves until then, and what is new and would take its requests
    /// waits for it.
    NoRoom,
    /// When what fails does so no longer. What its owners have of its host serves until then. It stops no other.
    Later,
    /// Not soon. It stops no other.
    Shut,
}

/// The policies of one listener.
pub(crate) struct PolicyPlan<'a> {
    pub(crate) listener: &'a SeenListener,
    pub(crate) wishes: &'a [PolicyWish],
    /// The wanted default pool; unset: it stays as it is.
    pub(crate) default: Option<DefaultPool<'a>>,
    /// When something goes that is not wanted.
    pub(crate) goes: &'a dyn Fn(&SeenPolicy) -> PolicyGoes,
    /// Whose routes a policy has or had.
    pub(crate) names: &'a dyn Fn(&SeenPolicy) -> BTreeSet<Text>,
    /// Whether a policy may be taken for a wanted one.
    pub(crate) may_be_taken: &'a dyn Fn(&SeenPolicy) -> bool,
}

/// When a policy goes that is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyGoes {
    Now,
    /// Soon, and what is to go after it stays until then.
    Soon,
    /// It stays, and is in the way of no other.
    NotYet,
}

/// Where requests go that no policy takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultPool<'a> {
    Pool(&'a str),
    Nowhere,
    /// To a pool that comes soon.
    Soon,
}

/// What is done about policies in `ERROR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyRepair {
    /// Nothing for now.
    Later,
    /// They get everything once more.
    Again,
    /// They are made anew.
    Anew,
}

/// What comes later than something that could be done now.
#[derive(Default)]
struct Awaited<'a> {
    /// Hosts of those that come soon.
    hosts: BTreeSet<Option<&'a str>>,
    /// Those that come later, and those that wait behind them: what their owners have of their hosts stays until then.
    later: Vec<&'a PolicyWish>,
}

impl PolicyPlan<'_> {
    /// Returns the next change; `None` if there is nothing to do, or nothing that can be done for now.
    pub(crate) fn next(&self) -> Option<CloudChange> {
        let found = self.found();
        let surplus = self.surplus(&found);
        // What is down takes nothing, so it goes whenever it may.
        let is_down = |seen: &SeenPolicy| !seen.admin_state_up && (self.goes)(seen) == PolicyGoes::Now;
        if let Some(at) = surplus.iter().find(|at| is_down(&self.seen()[**at])) {
            return Some(self.deleted(*at));
        }
        let order = Order::of(&found);
        let awaited = match self.forward(&found, &order) {
            Ok(change) => return Some(change),
            Err(awaited) => awaited,
        };
        let default = self.default_change();
        if default.is_some() && awaited.hosts.is_empty() {
            return default;
        }
        // Before anything goes: the name reports it to those whose routes that were.
        if let Some(change) = self.words(&found) {
            return Some(change);
        }
        // What a wanted policy is to take that comes soon stays where it is until then, and what goes may be taken by no default but
        // the wanted one.
        let may_go = default.is_none() && self.default != Some(DefaultPool::Soon);
        may_go.then(|| self.back(&surplus, &found, &order, awaited)).flatten()
    }

    /// Returns how many changes there are to be made, one after the other.
    pub(crate) fn changes(&self) -> usize {
        let found = self.found();
        let order = Order::of(&found);
        let comes = |(at, wish): (usize, &PolicyWish)| match found[at] {
            _ if !matches!(wish.way, PolicyWay::Open(_) | PolicyWay::Soon) => 0,
            Found::Nothing => wish.policy.changes(),
            Found::Down(place) => 1 + wish.missing_rules(&self.seen()[place]).count(),
            Found::Up(place) => {
                let moves = order.comes_forward(at) || order.goes_back(at);
                usize::from(moves || wish.is_led_elsewhere(&self.seen()[place]))
            }
        };
        let goes = |at: &&usize| (self.goes)(&self.seen()[**at]) != PolicyGoes::NotYet;
        let gone = self.surplus(&found).iter().filter(goes).count();
        gone + self.wishes.iter().enumerate().map(comes).sum::<usize>()
    }

    /// Returns the places of what is seen and not wanted.
    fn surplus(&self, found: &[Found]) -> Vec<usize> {
        let taken: BTreeSet<usize> = found.iter().filter_map(|one| one.place()).collect();
        (0..self.seen().len()).filter(|at| !taken.contains(at)).collect()
    }

    fn seen(&self) -> &[SeenPolicy] {
        &self.listener.policies
    }

    /// Returns what is seen of each wanted policy.
    fn found(&self) -> Vec<Found> {
        let mut places = BTreeMap::<String, Vec<usize>>::new();
        for (at, seen) in self.seen().iter().enumerate().filter(|(_, seen)| (self.may_be_taken)(seen)) {
            places.entry(content(&seen.action, &seen.rules)).or_default().push(at);
        }
        let mut found: Vec<Found> = Vec::with_capacity(self.wishes.len());
        for wish in self.wishes {
            let same = places.get(&wanted_content(&wish.policy)).map(Vec::as_slice).unwrap_or_default();
            // Of several the one that leads where it is to lead, and is up.
            let rank = |at: &&usize| {
                let seen = &self.seen()[**at];
                let is_marked = seen.tags.contains(&wish.tag);
                (seen.admin_state_up, wish.leads_there(seen), !seen.is_broken(), is_marked, std::cmp::Reverse(**at))
            };
            let is_kept = |at: &&usize| wish.repair == PolicyRepair::Later || !wish.is_lost(&self.seen()[**at]);
            found.push(match same.iter().filter(is_kept).max_by_key(rank) {
                Some(at) if self.seen()[*at].admin_state_up => Found::Up(*at),
                Some(at) => Found::Down(*at),
                None => self.unfinished(wish),
            });
        }
        self.without_returns(found)
    }

    /// A policy that moves back and is to lead elsewhere would take requests on its way that are not for it: it is made anew.
    fn without_returns(&self, mut found: Vec<Found>) -> Vec<Found> {
        let order = Order::of(&found);
        for (wish, one) in found.iter_mut().enumerate() {
            let Found::Up(at) = *one else { continue };
            if order.goes_back(wish) && self.wishes[wish].is_led_elsewhere(&self.seen()[at]) {
                *one = self.unfinished(&self.wishes[wish]);
            }
        }
        found
    }

    /// Returns the policy that was begun for a wish: it is marked for it, is down, and has only rules of it.
    fn unfinished(&self, wish: &PolicyWish) -> Found {
        let is_begun = |seen: &SeenPolicy| {
            let rules = || seen.rules.iter().map(rule_content);
            !seen.admin_state_up
                && seen.tags.contains(&wish.tag)
                && seen.action == wish.policy.action()
                && rules().all(|rule| wish.policy.rules.iter().any(|one| one.content() == rule))
                && rules().collect::<BTreeSet<_>>().len() == seen.rules.len()
                && (wish.repair == PolicyRepair::Later || !seen.is_broken())
        };
        self.seen().iter().position(is_begun).map_or(Found::Nothing, Found::Down)
    }

    /// Returns the change that brings the first policy forward; without one, what comes later.
    fn forward(&self, found: &[Found], order: &Order) -> Result<CloudChange, Awaited<'_>> {
        let mut awaited = Awaited::default();
        for (at, wish) in self.wishes.iter().enumerate() {
            let change = self.forward_one(at, found, order);
            let is_up = matches!(found[at], Found::Up(_));
            // It would take what one is to take that comes soon and before it.
            let waits = change.is_some() && awaited.hosts.iter().any(|host| overlap(*host, wish.host()));
            // The same of one that there is no room for yet, but for what is up already, which has taken that before, too. One that
            // fails may do so for long, and others must not wait for that.
            let is_of = |one: &&PolicyWish| one.way != PolicyWay::Later && one.policy.takes.meet(&wish.policy.takes);
            let is_held = change.is_some() && !is_up && awaited.later.iter().any(is_of);
            if let Some(change) = change.filter(|_| !waits && !is_held) {
                return Ok(change);
            }
            if waits || wish.way == PolicyWay::Soon {
                awaited.hosts.insert(wish.host());
            }
            if is_held || (matches!(wish.way, PolicyWay::NoRoom | PolicyWay::Later) && !is_up) {
                awaited.later.push(wish);
            }
        }
        Err(awaited)
    }

    /// Returns the change that makes a policy, or brings it forward to its place.
    fn forward_one(&self, wish: usize, found: &[Found], order: &Order) -> Option<CloudChange> {
        let (wanted, PolicyWay::Open(to)) = (&self.wishes[wish], &self.wishes[wish].way) else { return None };
        match found[wish] {
            Found::Nothing => Some(CloudChange::CreatePolicy { body: wanted.body(&self.listener.id, to) }),
            Found::Down(at) => {
                let seen = &self.seen()[at];
                if seen.is_broken() {
                    return None;
                }
                if let Some(rule) = wanted.missing_rules(seen).next() {
                    let body = rule.body(&wanted.rule_tags);
                    return Some(CloudChange::CreateRule { policy: seen.id.clone(), body });
                }
                let mut fields = wanted.words(seen);
                if wanted.is_led_elsewhere(seen) {
                    fields.extend(wanted.target(to));
                }
                fields.insert("admin_state_up".into(), json!(true));
                fields.insert("position".into(), json!(self.position_behind(order.before(wish), at)));
                Some(self.updated(at, fields))
            }
            Found::Up(at) => {
                let seen = &self.seen()[at];
                let broken = seen.is_broken();
                if broken && wanted.repair == PolicyRepair::Later {
                    return None;
                }
                let mut fields = Map::new();
                if broken {
                    fields = wanted.target(to);
                    fields.insert("admin_state_up".into(), json!(true));
                } else if wanted.is_led_elsewhere(seen) {
                    fields = wanted.target(to);
                }
                if order.comes_forward(wish) {
                    fields.insert("position".into(), json!(self.position_behind(order.before(wish), at)));
                }
                (!fields.is_empty()).then(|| self.updated(at, fields))
            }
        }
    }

    /// Returns the change of where requests go that no policy takes.
    fn default_change(&self) -> Option<CloudChange> {
        let wanted = match self.default? {
            DefaultPool::Pool(id) => Some(id),
            DefaultPool::Nowhere => None,
            DefaultPool::Soon => return None,
        };
        let fields = json!({"default_pool_id": wanted});
        let change = CloudChange::UpdateListener { id: self.listener.id.clone(), fields };
        (self.listener.default_pool.as_deref() != wanted).then_some(change)
    }

    /// Returns the change that moves a policy back, or removes one that is not wanted: the last one first.
    fn back<'a>(
        &'a self,
        surplus: &[usize],
        found: &[Found],
        order: &Order,
        awaited: Awaited<'a>,
    ) -> Option<CloudChange> {
        let Awaited { hosts: mut awaited, later } = awaited;
        let moved = (0..found.len()).filter(|wish| order.goes_back(*wish)).filter_map(|wish| {
            let is_open = matches!(self.wishes[wish].way, PolicyWay::Open(_));
            Some((found[wish].place().filter(|_| is_open)?, Some(wish)))
        });
        let mut all: Vec<(usize, Option<usize>)> = surplus.iter().map(|at| (*at, None)).chain(moved).collect();
        all.sort_unstable_by_key(|(at, _)| std::cmp::Reverse((turn(&self.seen()[*at]), *at)));
        let later: BTreeSet<&str> = later.into_iter().filter_map(PolicyWish::host).collect();
        all.into_iter().find_map(|(at, wish)| {
            let seen = &self.seen()[at];
            let is_needed = host_of(seen).is_some_and(|host| later.contains(host));
            if is_needed && (wish.is_some() || self.is_of_wanted_owners(seen)) {
                return None;
            }
            if awaited.iter().any(|host| overlap(*host, host_of(seen))) {
                awaited.insert(host_of(seen));
                return None;
            }
            match wish {
                Some(wish) => {
                    let position = self.position_behind(order.before(wish), at);
                    Some(self.updated(at, Map::from_iter([("position".to_owned(), json!(position))])))
                }
                None => match (self.goes)(seen) {
                    PolicyGoes::Now => Some(self.deleted(at)),
                    PolicyGoes::Soon => {
                        awaited.insert(host_of(seen));
                        None
                    }
                    PolicyGoes::NotYet => None,
                },
            }
        })
    }

    /// Whether a policy has routes of owners that are still there, as far as that is known. What is only of others goes, for they
    /// wait for that, whatever these lack.
    fn is_of_wanted_owners(&self, seen: &SeenPolicy) -> bool {
        let is_wanted = |name: &Text| self.wishes.iter().any(|wish| wish.policy.names.contains(name));
        (self.names)(seen).iter().any(|name| name.is_empty() || is_wanted(name))
    }

    /// Returns the change of what a policy is called and of its tags.
    fn words(&self, found: &[Found]) -> Option<CloudChange> {
        self.wishes.iter().zip(found).find_map(|(wish, found)| {
            let Found::Up(at) = *found else { return None };
            if !matches!(wish.way, PolicyWay::Open(_)) || self.seen()[at].is_broken() {
                return None;
            }
            let fields = wish.words(&self.seen()[at]);
            (!fields.is_empty()).then(|| self.updated(at, fields))
        })
    }

    /// Returns the position right behind a policy, or the first one, for the policy at `moved`: Octavia takes it out first.
    fn position_behind(&self, before: Option<usize>, moved: usize) -> usize {
        before.map_or(1, |at| at + 2 - usize::from(moved < at))
    }

    fn updated(&self, at: usize, fields: Map<String, Value>) -> CloudChange {
        CloudChange::UpdatePolicy { id: self.seen()[at].id.clone(), fields: Value::Object(fields) }
    }

    fn deleted(&self, at: usize) -> CloudChange {
        CloudChange::DeletePolicy { id: self.seen()[at].id.clone() }
    }
}

impl PolicyWish {
    /// Returns the rules that a policy does not have yet.
    fn missing_rules(&self, seen: &SeenPolicy) -> impl Iterator<Item = &WantedRule> {
        let has = |rule: &WantedRule| seen.rules.iter().any(|one| rule_content(one) == rule.content());
        self.policy.rules.iter().filter(move |rule| !has(rule))
    }

    /// Whether a policy in `ERROR` does not become well again by getting everything once more.
    fn is_lost(&self, seen: &SeenPolicy) -> bool {
        let rules_are_well = seen.rules.iter().all(|rule| rule.provisioning != Provisioning::Error);
        let again = self.repair == PolicyRepair::Again && rules_are_well && seen.admin_state_up;
        seen.is_broken() && !again
    }

    fn leads_there(&self, seen: &SeenPolicy) -> bool {
        let PolicyWay::Open(to) = &self.way else { return false };
        let led = if self.policy.is_redirect() { &seen.prefix } else { &seen.pool };
        led.as_ref() == Some(to)
    }

    fn is_led_elsewhere(&self, seen: &SeenPolicy) -> bool {
        matches!(self.way, PolicyWay::Open(_)) && !self.leads_there(seen)
    }

    fn target(&self, to: &str) -> Map<String, Value> {
        let field = if self.policy.is_redirect() { "redirect_prefix" } else { "redirect_pool_id" };
        Map::from_iter([(field.to_owned(), json!(to))])
    }

    /// Returns what has to be changed about what a policy is called, and about its tags.
    fn words(&self, seen: &SeenPolicy) -> Map<String, Value> {
        let mut fields = Map::new();
        if seen.name != self.policy.name() {
            fields.insert("name".into(), json!(self.policy.name()));
        }
        fields.extend(with_missing(&seen.tags, &self.all_tags()).map(|tags| ("tags".to_owned(), tags)));
        fields
    }

    fn all_tags(&self) -> Vec<String> {
        std::iter::once(&self.tag).chain(&self.tags).cloned().collect()
    }

    fn host(&self) -> Option<&str> {
        self.policy.host()
    }

    /// Returns the body of its creation on a listener: down, and without rules.
    fn body(&self, listener: &str, to: &str) -> Value {
        let mut body = self.target(to);
        body.extend(self.described());
        body.insert("listener_id".into(), json!(listener));
        body.insert("admin_state_up".into(), json!(false));
        Value::Object(body)
    }

    /// Returns the policy as a part of a new listener, which leads to `target`: with its rules, and up.
    pub(crate) fn nested(&self, target: (&'static str, Value)) -> Value {
        let mut body = self.described();
        body.insert("admin_state_up".into(), json!(true));
        body.insert(target.0.into(), target.1);
        body.insert("rules".into(), self.policy.rules.iter().map(|rule| rule.body(&self.rule_tags)).collect());
        Value::Object(body)
    }

    fn described(&self) -> Map<String, Value> {
        Map::from_iter([
            ("name".to_owned(), json!(self.policy.name())),
            ("action".to_owned(), json!(self.policy.action())),
            ("tags".to_owned(), json!(self.all_tags())),
        ])
    }
}

impl WantedRule {
    fn body(&self, tags: &[String]) -> Value {
        let mut body = json!({"type": self.kind, "compare_type": self.compare, "value": self.value});
        if !tags.is_empty() {
            body["tags"] = json!(tags);
        }
        body
    }
}

/// Returns what a policy compares the host with.
pub(crate) fn host_of(seen: &SeenPolicy) -> Option<&str> {
    seen.rules.iter().find(|rule| rule.kind == HOST).map(|rule| rule.value.as_str())
}

/// Whether one host may be both of these, as far as that is simple to say. Unset: any.
fn overlap(one: Option<&str>, other: Option<&str>) -> bool {
    let is_wild = |value: &str| value.starts_with("^[");
    let (Some(one), Some(other)) = (one, other) else { return true };
    one == other || is_wild(one) || is_wild(other)
}

/// Returns when a policy is tried, whatever its position: those that reject first, then those that send clients elsewhere.
fn turn(seen: &SeenPolicy) -> u8 {
    match seen.action.as_str() {
        "REJECT" => 0,
        "REDIRECT_TO_POOL" => 2,
        _ => 1,
    }
}
