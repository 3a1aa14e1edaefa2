//! Which claim a target belongs to.

use gimbal_model::{BackendName, TargetKey};
use gimbal_session::RejectReason;

use super::View;
use crate::target::Target;
use crate::{Backend, Claim};

/// The current ownership of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// This claim wants the target, and has it or gets it now.
    Owned(Claim),
    /// The objects belong to this claim, whose Service may still exist or whose removal the guard holds. Other claims
    /// wait for the name.
    Blocked(Claim),
    /// The objects are to be deleted, because it is proven that their claim no longer has this target.
    Gone(RemovalReason),
    /// The objects belong to this claim, which leads to another target now and has not arrived there yet.
    Moving(Claim, TargetKey),
    /// The objects, or the name, belong to a backend in quarantine: nothing is written.
    Frozen(Claim),
    /// No known claim wants the objects, and nothing proves that they may go. They stay, for this reason.
    Kept(String),
    /// No claim wants the target, and no object of it exists.
    Vacant,
}

/// Why the objects of a target are to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RemovalReason {
    /// The source no longer has the Service.
    Source,
    /// The policy of its backend no longer admits it, for this reason.
    Policy(String),
    /// The Service is published as this target now.
    Moved(TargetKey),
    /// An admin ordered the removal of the backend.
    Decommissioned,
}

/// What happens to objects whose claim does not want their target.
enum Fate {
    Goes(RemovalReason),
    Moves(TargetKey),
    Freezes,
    Stays(String),
}

impl<'a> View<'a> {
    /// Returns the ownership of a target. Existing objects keep the name for their claim, in whatever order agents
    /// come back; without objects, the first claim of a backend that may write gets it.
    pub(crate) fn ownership(self, key: &TargetKey, target: &Target) -> Ownership {
        self.ownership_if(key, target, self.is_held_back(key, target))
    }

    /// Like [`View::ownership`], with `held_back` instead of the guard's answer for the target's removals.
    pub(crate) fn ownership_if(self, key: &TargetKey, target: &Target, held_back: bool) -> Ownership {
        self.resolve(key, target, |backend| self.desired.is_frozen(backend), held_back)
    }

    /// Like [`View::ownership`], as if no backend were in quarantine.
    pub(crate) fn ownership_admitted(self, key: &TargetKey, target: &Target) -> Ownership {
        self.resolve(key, target, |_| false, self.is_held_back(key, target))
    }

    /// Whether a guard of the backend that the target's endpoints count for holds their removal.
    fn is_held_back(self, key: &TargetKey, target: &Target) -> bool {
        let backend = target.counted_for().and_then(|name| self.desired.get(name));
        backend.is_some_and(|backend| backend.holds_back(key))
    }

    fn resolve(
        self,
        key: &TargetKey,
        target: &Target,
        frozen: impl Fn(&BackendName) -> bool,
        held_back: bool,
    ) -> Ownership {
        let claims = target.claims();
        let idle = |claim: &Claim| {
            frozen(&claim.backend) || self.desired.waits_for_room(claim) || self.unwanted(claim, key).is_some()
        };
        let owned = |claim: &Claim| match frozen(&claim.backend) {
            true => Ownership::Frozen(claim.clone()),
            false => Ownership::Owned(claim.clone()),
        };
        let alone = |owner: &Claim| matches!(claims, [only] if only == owner);
        // The owner that was decided keeps the objects even after its claim is gone, because labels and annotations may
        // have been edited since. But where no object exists, a claim that cannot be written now does not keep the name
        // from others.
        let decided = target.owner().cloned();
        let decided = decided.filter(|owner| !target.observed().is_empty() || alone(owner) || !idle(owner));
        let holder = decided.or_else(|| target.holder(key));
        if let Some(holder) = holder.as_ref().filter(|holder| claims.contains(holder)) {
            return owned(holder);
        }
        // Whether a claim can be written is expensive to find out, and matters only where several want the name.
        let first = match claims {
            [only] => Some(only),
            _ => claims.iter().find(|claim| !idle(claim)),
        };
        let first = first.or_else(|| claims.iter().find(|claim| !frozen(&claim.backend))).or_else(|| claims.first());
        match (holder, first) {
            (Some(holder), first) => match (self.fate(&holder, key, target, frozen(&holder.backend)), first) {
                (Fate::Freezes, _) => Ownership::Frozen(holder),
                // Its objects were all that kept the name for the holder.
                (Fate::Stays(_) | Fate::Moves(_), Some(first)) if target.observed().is_empty() => owned(first),
                (Fate::Stays(_), Some(_)) => Ownership::Blocked(holder),
                (Fate::Stays(why), None) => Ownership::Kept(why),
                // Objects whose removal is held keep the name.
                (Fate::Goes(_), Some(first)) if !idle(first) && held_back => Ownership::Blocked(holder),
                (Fate::Moves(to), Some(_)) if held_back => Ownership::Moving(holder, to),
                (Fate::Goes(_) | Fate::Moves(_), Some(first)) if !idle(first) => owned(first),
                // A claim that cannot be written now gets the name after the objects are gone.
                (Fate::Goes(why), _) => Ownership::Gone(why),
                (Fate::Moves(to), _) => Ownership::Moving(holder, to),
            },
            (None, Some(first)) => owned(first),
            (None, None) if target.observed().is_empty() => Ownership::Vacant,
            (None, None) if self.is_labelled_for_removal(key, target) => Ownership::Gone(RemovalReason::Decommissioned),
            (None, None) => {
                Ownership::Kept("its labels and annotations name no source Service that could have it".into())
            }
        }
    }

    fn is_labelled_for_removal(self, key: &TargetKey, target: &Target) -> bool {
        self.only_labelled(key, target).is_some_and(|name| self.desired.is_being_removed(name))
    }

    /// Returns the backend that owns a target by its labels alone: no annotation names a source Service, but a label
    /// names the backend, and the target's name is one that the backend could have chosen.
    pub(crate) fn only_labelled(self, key: &TargetKey, target: &Target) -> Option<&'a BackendName> {
        let mut labels = target.observed().strays();
        let prefix =
            |name: &BackendName| key.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('-'));
        labels.find_map(|label| self.desired.name(label).filter(|name| prefix(name)))
    }

    /// Returns what happens to the objects of `holder`, which has no claim on this target.
    fn fate(self, holder: &Claim, key: &TargetKey, target: &Target, frozen: bool) -> Fate {
        if self.desired.is_being_removed(&holder.backend) {
            return Fate::Goes(RemovalReason::Decommissioned);
        }
        if self.desired.is_not_ready_for_removal(&holder.backend) {
            // Whatever its policy says: nothing goes before somebody had the time to notice, and to take the order back.
            let name = &holder.backend;
            return Fate::Stays(format!(
                "the removal of backend {name} is ordered; its endpoints are not ready until it begins (onRemoval.notReadyFor)"
            ));
        }
        let Some(backend) = self.desired.get(&holder.backend).filter(|backend| backend.is_listed()) else {
            let name = &holder.backend;
            return Fate::Stays(format!(
                "backend {name} is not configured; its objects stay until it is decommissioned"
            ));
        };
        if frozen {
            return Fate::Freezes;
        }
        // A policy forbids the namespace whatever the agent says. But one label edited by hand does not prove who
        // owns the objects: all of them must agree.
        let sure = target.owner() == Some(holder) || target.is_all_of(holder);
        if let Err(refused) = backend.policy().namespaces.permits(&key.namespace)
            && sure
        {
            return Fate::Goes(RemovalReason::Policy(refused.to_string()));
        }
        if backend.end().service(&holder.key).is_none() {
            return fate_of_absent(holder, backend);
        }
        match self.desired.target_of(&holder.backend, &holder.key) {
            Some(Err(refused)) => Fate::Goes(RemovalReason::Policy(refused.to_string())),
            Some(Ok(to)) if to != *key => {
                // Where only labels name the owner of the objects, an edit by hand could hide that another Service of
                // the backend is about to claim the target. A complete view rules that out.
                let known = match target.owner() == Some(holder) {
                    true => backend.end().knows(&holder.key.namespace),
                    false => backend.end().is_complete(),
                };
                if known && self.has_arrived(holder, &to) {
                    Fate::Goes(RemovalReason::Moved(to))
                } else {
                    Fate::Moves(to)
                }
            }
            _ => Fate::Stays(format!("{holder} is what it stands for")),
        }
    }

    /// Whether a claim is published at `to` as its source has it.
    fn has_arrived(self, claim: &Claim, to: &TargetKey) -> bool {
        let Some(target) = self.targets.get(to) else { return false };
        let rejected = self.desired.get(&claim.backend).and_then(|backend| backend.end().rejects().get(&claim.key));
        let whole = rejected.is_none_or(|reject| reject.reason == RejectReason::AddressRefused);
        target.owner() == Some(claim) && target.has_converged() && !target.observed().is_empty() && whole
    }
}

/// Returns what happens to the objects of a claim whose Service the agent does not hold: they go only if the source
/// said that the Service is gone, explicitly or by a complete snapshot without it (`docs/design.md#rule-4`).
fn fate_of_absent(holder: &Claim, backend: &Backend) -> Fate {
    if backend.is_absent(&holder.key) {
        return Fate::Goes(RemovalReason::Source);
    }
    Fate::Stays(if backend.is_connected() {
        format!("{holder} is what it stands for, and no complete snapshot has shown that it is gone")
    } else {
        format!("{holder} is what it stands for, and no agent of that backend is connected")
    })
}
