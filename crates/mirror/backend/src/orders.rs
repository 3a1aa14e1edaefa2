//! What people decide by annotations of a Backend.
//!
//! The value of such an annotation names what is decided: the id of a hold, an incarnation. So one that stays on the object decides
//! nothing that comes later. What came of it is in the status, and a value that has its answer there is never acted on again.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_model::BackendName;
use gimbal_reconcile::{Backend, NotConfirmed, NotDecommissioned, Reconciler};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BackendResourceStatus;

/// The longest value that is read, in bytes. What may be decided is named by less.
const LONGEST: usize = 256;
/// How many values that were followed are remembered of an annotation that stays.
const REMEMBERED: usize = 8;

/// What an annotation decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendOrder {
    /// Let a removal through that the guard holds. The value is the id of the hold.
    Approve,
    /// Give the backend's name to another source. The value is the incarnation of that.
    ConfirmIncarnation,
    /// Remove everything of a backend whose object is being deleted. The value is the id in `status.removal`.
    Decommission,
}

impl BackendOrder {
    const ALL: [Self; 3] = [Self::Approve, Self::ConfirmIncarnation, Self::Decommission];

    /// Returns the key of its annotation.
    #[must_use]
    pub fn annotation(self) -> &'static str {
        match self {
            Self::Approve => "gimbal.projectcontour.io/approve",
            Self::ConfirmIncarnation => "gimbal.projectcontour.io/confirm-incarnation",
            Self::Decommission => "gimbal.projectcontour.io/decommission",
        }
    }

    /// Returns the command that sets its annotation. What an agent chose is shown only as far as no shell reads it otherwise. A value
    /// that is there and has its answer already is taken away first: to set it once more would change nothing.
    pub(crate) fn command(self, name: &BackendName, value: &str, answers: &[BackendAnswer]) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let shown = if value.chars().all(is_plain) { value } else { "VALUE" };
        let set = format!("kubectl annotate backend {name} --overwrite {}={shown}", self.annotation());
        let is_there = |answer: &BackendAnswer| answer.annotation == self.annotation() && answer.value == value;
        match answers.iter().any(is_there) {
            true => format!("{} && {set}", self.removing_command(name)),
            false => set,
        }
    }

    fn removing_command(self, name: &BackendName) -> String {
        format!("kubectl annotate backend {name} {}-", self.annotation())
    }

    /// Returns the orders among the annotations of an object, each with its value.
    pub(crate) fn among(annotations: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<Self, String> {
        let value = |order: Self| {
            let text = annotations.get(order.annotation())?.trim();
            let text = &text[..text.floor_char_boundary(LONGEST)];
            (!text.is_empty()).then(|| (order, text.to_owned()))
        };
        Self::ALL.into_iter().filter_map(value).collect()
    }
}

/// What came of an annotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendAnswer {
    /// Key of the annotation.
    pub annotation: String,
    /// Value of the annotation.
    pub value: String,
    /// Done or Refused.
    #[schemars(with = "String")]
    pub result: AnswerResult,
    /// What was done, or why it is refused.
    pub message: String,
    /// Values that were followed before this one, since the annotation was set. None of them is followed again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
}

impl BackendAnswer {
    /// Returns which order it answers.
    pub(crate) fn order(&self) -> Option<BackendOrder> {
        BackendOrder::ALL.into_iter().find(|order| order.annotation() == self.annotation)
    }

    /// Returns the values that are not followed again while the annotation stays.
    fn followed(&self) -> Vec<String> {
        let own = (self.result == AnswerResult::Done).then(|| self.value.clone());
        own.into_iter().chain(self.earlier.iter().cloned()).take(REMEMBERED).collect()
    }
}

/// Whether an annotation was followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub enum AnswerResult {
    /// It was.
    Done,
    /// It was not, and will not be: it has to be removed or changed.
    Refused,
}

impl From<String> for AnswerResult {
    /// Of an answer that only a later release knows, the value was answered, so it is not followed again.
    fn from(text: String) -> Self {
        if text == "Refused" { Self::Refused } else { Self::Done }
    }
}

/// The orders of an object, and its status as it was written last.
#[derive(Debug, Clone)]
pub struct AskedOrders {
    /// The backend.
    pub name: BackendName,
    /// UID of the object. Another object of this name has orders of its own.
    pub uid: Arc<str>,
    /// Whether the object is being deleted.
    pub is_leaving: bool,
    /// The orders and their values.
    pub orders: BTreeMap<BackendOrder, String>,
    /// The status, with the answers to earlier orders.
    pub said: BackendResourceStatus,
}

/// Orders that were carried out, and whose answer may not be in the status yet.
#[derive(Debug, Default)]
pub struct OrderBook(BTreeMap<(BackendName, Arc<str>, BackendOrder), UnderWay>);

#[derive(Debug)]
struct UnderWay {
    value: String,
    message: String,
    /// The version of the backend's stored state that has the decision.
    version: Option<u64>,
}

/// What is made of an order.
enum Decision {
    /// It cannot be known yet.
    Wait,
    Refuse(String),
    Decided(String),
}

impl OrderBook {
    /// Forgets what was carried out: another process leads. It knows from the status and the stored state what was decided.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Carries out the orders of an object that have no answer yet. Returns all answers; while one is not known, that to the value
    /// before. A decision is answered once it is stored, so that a restart does not forget what the status says was done. Only a
    /// leader may call this.
    pub fn carry_out(&mut self, state: &mut Reconciler, asked: &AskedOrders) -> Vec<BackendAnswer> {
        // One that is taken back and given again is another one.
        self.0.retain(|(name, uid, order), _| {
            *name != asked.name || (*uid == asked.uid && asked.orders.contains_key(order))
        });
        let orders = asked.orders.iter();
        orders.filter_map(|(order, value)| self.answer(state, asked, (*order, value.as_str()))).collect()
    }

    fn answer(
        &mut self,
        state: &mut Reconciler,
        asked: &AskedOrders,
        (order, value): (BackendOrder, &str),
    ) -> Option<BackendAnswer> {
        let slot = (asked.name.clone(), asked.uid.clone(), order);
        let under_way = self.0.remove(&slot).filter(|under_way| under_way.value == value);
        let last = asked.said.answers.iter().find(|answer| answer.annotation == order.annotation());
        if let Some(said) = last.filter(|said| said.value == value) {
            return Some(said.clone());
        }
        let earlier = last.map(BackendAnswer::followed).unwrap_or_default();
        let is_consumed = earlier.iter().any(|earlier| earlier == value);
        let answer = |result, message| {
            let (annotation, value, earlier) = (order.annotation().to_owned(), value.to_owned(), earlier.clone());
            Some(BackendAnswer { annotation, value, result, message, earlier })
        };
        let refuse = |why: &str| {
            // The same value on top of itself changes nothing.
            let again = order.removing_command(&asked.name);
            answer(AnswerResult::Refused, format!("{why}; `{again}` comes before the same value is set once more"))
        };
        if is_consumed {
            // Programs that apply files set an annotation to and fro; no person asks for the same once more by that.
            return refuse("this value was followed before");
        }
        let under_way = match under_way {
            Some(under_way) => under_way,
            None => match decide(state, asked, (order, value)) {
                Decision::Wait => return last.cloned(),
                Decision::Refuse(why) => return refuse(&why),
                Decision::Decided(message) => {
                    UnderWay { value: value.to_owned(), message, version: state.keep_decision(&asked.name) }
                }
            },
        };
        let is_stored = under_way.version.is_none_or(|version| state.is_kept(&asked.name, version));
        let backend = state.backends().get(&asked.name).filter(|_| is_stored && order == BackendOrder::Decommission);
        if let Some(why) = backend.and_then(Backend::withdrawal) {
            return refuse(&format!("its removal was approved, and is over: {}", why.reason()));
        }
        let done = is_stored.then(|| under_way.message.clone());
        self.0.insert(slot, under_way);
        match done {
            Some(done) => answer(AnswerResult::Done, done),
            None => last.cloned(),
        }
    }
}

fn decide(state: &mut Reconciler, asked: &AskedOrders, (order, value): (BackendOrder, &str)) -> Decision {
    match order {
        BackendOrder::Approve => approve(state, &asked.name, value),
        BackendOrder::ConfirmIncarnation => confirm(state, asked, value),
        BackendOrder::Decommission => decommission(state, asked, value),
    }
}

fn approve(state: &mut Reconciler, name: &BackendName, id: &str) -> Decision {
    if let Some(services) = state.approve(name, id) {
        return Decision::Decided(format!("the removal is released, of endpoints of {services} Services"));
    }
    let Some(backend) = state.backends().get(name) else { return Decision::Wait };
    let guards = [backend.guards().removals(), backend.guards().readiness()];
    // Whether a hold of before this writer led goes on, shows when the agent has sent everything.
    if guards.iter().filter_map(|guard| guard.unmatched()).any(|record| record.id == id) {
        return Decision::Wait;
    }
    let held: Vec<String> = guards.iter().filter_map(|guard| guard.held()).map(|held| held.id).collect();
    let now = if held.is_empty() { "nothing is held".to_owned() } else { format!("held is {}", held.join(" and ")) };
    Decision::Refuse(format!("no removal is held under this id: it was released before, ended, or grew; {now}"))
}

fn confirm(state: &mut Reconciler, asked: &AskedOrders, incarnation: &str) -> Decision {
    if state.backends().get(&asked.name).is_none_or(|backend| backend.state().incarnation.is_none()) {
        // An annotation may have come with a copy of another object, and would keep the real source out. `AdminService`, which
        // somebody calls on purpose, confirms in advance.
        return Decision::Wait;
    }
    match state.confirm_incarnation(&asked.name, incarnation) {
        Ok(Some(before)) if before != incarnation => {
            Decision::Decided(format!("the name belongs to this source, and no longer to {before}"))
        }
        Ok(_) => Decision::Decided("the name belongs to this source".into()),
        Err(NotConfirmed::Unknown(_)) => Decision::Wait,
        // A writer that was restarted does not know yet what its predecessor refused.
        Err(NotConfirmed::NotShown { refused: None, .. })
            if asked.said.refused_incarnation.as_deref() == Some(incarnation) =>
        {
            Decision::Wait
        }
        Err(NotConfirmed::NotShown { refused, .. }) => Decision::Refuse(format!(
            "no agent was refused for this incarnation last; refused was {}",
            refused.as_deref().unwrap_or("none")
        )),
    }
}

fn decommission(state: &mut Reconciler, asked: &AskedOrders, id: &str) -> Decision {
    let name = &asked.name;
    if !asked.is_leaving {
        let why =
            "the object is not being deleted: delete it first, then set the annotation to the id in status.removal";
        return Decision::Refuse(why.into());
    }
    let Some(backend) = state.backends().get(name) else { return Decision::Wait };
    if backend.is_listed() && !backend.policy().leaving || state.object(name) != Some(&*asked.uid) {
        // What the object says is in force a moment later.
        return Decision::Wait;
    }
    // Only what this object has shown can have been seen by a person, and its figures have changed since.
    let inventory = state.inventory(name);
    let shown = asked.said.removal.as_ref().filter(|removal| removal.is_about(name, &inventory));
    let id = match shown {
        Some(shown) if shown.id == id => inventory.id(name),
        _ => String::new(),
    };
    match state.decommission(name, &id) {
        Ok(inventory) => Decision::Decided(format!(
            "the removal of {} Services with {} endpoints is ordered",
            inventory.services, inventory.endpoints
        )),
        Err(NotDecommissioned::UnderWay(_)) => Decision::Decided("its removal was ordered before".into()),
        Err(NotDecommissioned::NotReady) => Decision::Wait,
        Err(NotDecommissioned::OtherFigures { .. }) => {
            let now = shown.map_or_else(|| inventory.id(name), |shown| shown.id.clone());
            Decision::Refuse(format!(
                "the status does not show this id, or what would go is another by now: {now} is the id of that"
            ))
        }
        Err(error @ (NotDecommissioned::Unrecorded(_) | NotDecommissioned::Withheld { .. })) => {
            Decision::Refuse(error.to_string())
        }
    }
}
