//! What is worth an Event of a Backend: what differs between the status that was written last and the next one.
//!
//! That status is stored in the object, so a writer that starts, or another one that leads, repeats nothing of what was said
//! before.

#[cfg(test)]
mod tests;

use gimbal_guard::{LastRelease, Release};
use gimbal_model::BackendName;

use crate::{
    AnswerResult, BackendAnswer, BackendOrder, BackendRemoval, BackendResourceStatus, ConditionType, RemovalPhase,
    Standing,
};

/// What happened to a backend, in the words of an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendNotice {
    /// Whether somebody has to look at it.
    pub is_warning: bool,
    /// Machine-readable, in upper camel case.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

impl BackendNotice {
    fn warning(reason: &'static str, message: String) -> Self {
        Self { is_warning: true, reason, message }
    }

    fn normal(reason: &'static str, message: String) -> Self {
        Self { is_warning: false, reason, message }
    }
}

/// Returns what happened between two statuses of a backend. `said` is the one that was written last.
#[must_use]
pub fn notices(
    name: &BackendName,
    said: &BackendResourceStatus,
    next: &BackendResourceStatus,
    standing: Option<&Standing>,
) -> Vec<BackendNotice> {
    let mut notices: Vec<_> = of_removal(name, said.removal.as_ref(), next, standing).into_iter().collect();
    // Of a backend that is not known there is nothing else to say.
    let Some(standing) = standing else { return notices };
    notices.extend(of_holds(name, said, next, standing));
    // Of who is being removed the loss is forgotten, which is no return.
    if !next.removal.as_ref().is_some_and(|removal| removal.phase.is_under_way()) {
        notices.extend(of_loss(said, next));
    }
    notices.extend(of_incarnation(name, said, next));
    notices.extend(of_answers(said, next));
    notices
}

fn of_holds(
    name: &BackendName,
    said: &BackendResourceStatus,
    next: &BackendResourceStatus,
    standing: &Standing,
) -> Vec<BackendNotice> {
    let mut notices = Vec::new();
    for (id, words) in standing.held.iter().filter(|(id, _)| !said.held_changes.contains(id)) {
        let how = BackendOrder::Approve.command(name, id, &next.answers);
        let message = format!("{words}; `{how}` lets it through, as `gimbalctl approve {id} --backend {name}` does");
        notices.push(BackendNotice::warning("RemovalHeld", message));
    }
    for id in said.held_changes.iter().filter(|id| !next.held_changes.contains(id)) {
        if let Some(LastRelease { endpoints, by, .. }) = standing.released.iter().find(|released| released.id == *id) {
            let why = match by {
                Release::Snapshot => "a later snapshot of its source confirms it",
                Release::Approval => "it was approved",
                Release::Age => "it waited for guard.releaseAllAfter",
            };
            let message = format!("the held removal {id} of {endpoints} endpoints is released: {why}");
            notices.push(BackendNotice::normal("HoldReleased", message));
        } else if next.held_changes.is_empty() {
            // One that grew has another id, and was not released.
            notices.push(BackendNotice::normal("HoldEnded", format!("the removal {id} is no longer held")));
        }
    }
    notices
}

fn of_loss(said: &BackendResourceStatus, next: &BackendResourceStatus) -> Option<BackendNotice> {
    const NOT_LOST: &str = "NotLost";
    let lost = |status: &BackendResourceStatus| {
        let found = status.conditions.iter().find(|condition| condition.type_ == ConditionType::Lost);
        found.map_or_else(|| (NOT_LOST.to_owned(), String::new()), |lost| (lost.reason.clone(), lost.message.clone()))
    };
    let ((before, _), (now, message)) = (lost(said), lost(next));
    match now.as_str() {
        _ if before == now => None,
        "NotReady" => Some(BackendNotice::warning("EndpointsNotReady", message)),
        "Drained" => Some(BackendNotice::warning("EndpointsRemoved", message)),
        _ => Some(BackendNotice::normal("BackendBack", "its endpoints are as its source has them again".into())),
    }
}

fn of_incarnation(
    name: &BackendName,
    said: &BackendResourceStatus,
    next: &BackendResourceStatus,
) -> Vec<BackendNotice> {
    let mut notices = Vec::new();
    let owner = next.incarnation.as_deref().unwrap_or_default();
    if let Some(refused) =
        next.refused_incarnation.as_ref().filter(|_| said.refused_incarnation != next.refused_incarnation)
    {
        let how = BackendOrder::ConfirmIncarnation.command(name, refused, &next.answers);
        let message = format!(
            "an agent of source {refused} was refused: this name belongs to source {owner}; `{how}` gives it to the other"
        );
        notices.push(BackendNotice::warning("IncarnationRefused", message));
    }
    if let (Some(before), Some(now)) = (&said.incarnation, &next.incarnation)
        && before != now
    {
        let message = format!("this name belongs to source {now} now; it belonged to source {before}");
        notices.push(BackendNotice::normal("IncarnationConfirmed", message));
    }
    notices
}

/// One that was followed shows in what it did.
fn of_answers(said: &BackendResourceStatus, next: &BackendResourceStatus) -> Vec<BackendNotice> {
    let new = next.answers.iter().filter(|answer| !said.answers.contains(answer));
    let refused = new.filter(|answer| answer.result == AnswerResult::Refused);
    let message = |answer: &BackendAnswer| format!("{}={}: {}", answer.annotation, answer.value, answer.message);
    refused.map(|answer| BackendNotice::warning("OrderRefused", message(answer))).collect()
}

fn of_removal(
    name: &BackendName,
    said: Option<&BackendRemoval>,
    status: &BackendResourceStatus,
    standing: Option<&Standing>,
) -> Option<BackendNotice> {
    let Some(next) = &status.removal else {
        let is_removing =
            |said: &&BackendRemoval| matches!(said.phase, RemovalPhase::NotReady | RemovalPhase::Removing);
        said.filter(is_removing)?;
        // One in quarantine begins anew when it was removed; one that is admitted meanwhile keeps what is left.
        return Some(match standing {
            Some(Standing { quarantined: false, .. }) => {
                let why = "its removal is over, for its spec admits it again: what is left of it stays, and its agent is let in";
                BackendNotice::normal("RemovalEnded", why.into())
            }
            _ => drained(),
        });
    };
    if !next.is_news(said) {
        return None;
    }
    let (_, _, why) = next.stated();
    Some(match next.phase {
        RemovalPhase::AwaitsApproval => {
            let how = BackendOrder::Decommission.command(name, &next.id, &status.answers);
            let first = next.first.join(", ");
            let message = format!(
                "the object is deleted, and the backend stays in force until its removal is approved by `{how}`: {} would go, first {first}",
                next.figures()
            );
            BackendNotice::warning("RemovalAwaitsApproval", message)
        }
        // It says so itself, and takes a moment: what follows is reported.
        RemovalPhase::Ordered => return None,
        RemovalPhase::NotReady if next.until.is_none() => return None,
        RemovalPhase::NotReady => BackendNotice::warning("NotReadyBeforeRemoval", why),
        RemovalPhase::Removing => BackendNotice::normal("Decommissioning", why),
        RemovalPhase::Removed => drained(),
        RemovalPhase::OfAnotherWriter => BackendNotice::warning("RemovalRefused", why),
    })
}

fn drained() -> BackendNotice {
    BackendNotice::normal("Drained", "nothing of it is left in the Gimbal cluster".into())
}
