//! Which entry of a cluster has an owner. Two entries with one owner, such as a custom resource and its copy in another
//! namespace, would change and remove the same load balancer, so the first one has it.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::{DesiredKey, Text};

/// The owners that the entries of a cluster name.
#[derive(Debug, Default)]
pub(super) struct OwnerClaims {
    holders: BTreeMap<Text, DesiredKey>,
    keys: BTreeMap<DesiredKey, KeyClaims>,
    waiting: BTreeMap<Text, BTreeSet<DesiredKey>>,
    /// Owners that several entries name, without a sign which of them is right.
    contested: BTreeSet<Text>,
    freed: Vec<DesiredKey>,
}

/// Why an entry does not get its owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimRefusal {
    /// This entry has it.
    Held(DesiredKey),
    /// Neither this entry nor the other one has it.
    Contested(DesiredKey),
}

/// What one entry claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct KeyClaims {
    /// The owner that the entry had when it was last allowed. What was made of it stays while the entry is refused.
    made: Option<Text>,
    /// The owner that the entry names now.
    named: Option<Text>,
    /// The owner that the entry names now, and that another entry has.
    waits: Option<Text>,
}

impl OwnerClaims {
    /// Gives an owner to the entry that names it.
    ///
    /// # Errors
    /// Returns the entry that is in the way.
    pub(super) fn claim(&mut self, key: &DesiredKey, owner: &Text) -> Result<(), ClaimRefusal> {
        let made = self.keys.get(key).and_then(|claims| claims.made.clone());
        let holder = self.holders.get(owner).filter(|holder| *holder != key).cloned().map(ClaimRefusal::Held);
        let other = holder.or_else(|| self.rival(key, owner).map(ClaimRefusal::Contested));
        let (named, waits) = if other.is_some() { (None, Some(owner.clone())) } else { (Some(owner.clone()), None) };
        self.replace(key, KeyClaims { made, named, waits });
        other.map_or(Ok(()), Err)
    }

    /// Takes note that several entries name an owner, without a sign which of them is right: none of them gets it, until one
    /// is left.
    pub(super) fn contest(&mut self, owner: &Text, keys: &[DesiredKey]) {
        self.contested.insert(owner.clone());
        for key in keys {
            let made = self.keys.get(key).and_then(|claims| claims.made.clone());
            self.replace(key, KeyClaims { made, named: None, waits: Some(owner.clone()) });
        }
    }

    fn rival(&self, key: &DesiredKey, owner: &Text) -> Option<DesiredKey> {
        let waiting = self.waiting.get(owner).filter(|_| self.contested.contains(owner))?;
        waiting.iter().find(|other| *other != key).cloned()
    }

    /// Takes note that an entry is allowed as it is now: what it named before is no longer its own.
    pub(super) fn allowed(&mut self, key: &DesiredKey) {
        let named = self.keys.get(key).and_then(|claims| claims.named.clone());
        self.replace(key, KeyClaims { made: named.clone(), named, waits: None });
    }

    /// Takes note that an entry is gone.
    pub(super) fn gone(&mut self, key: &DesiredKey) {
        self.replace(key, KeyClaims::default());
    }

    /// Returns the entries that waited for an owner that no entry has any more.
    pub(super) fn take_freed(&mut self) -> Vec<DesiredKey> {
        std::mem::take(&mut self.freed)
    }

    fn replace(&mut self, key: &DesiredKey, claims: KeyClaims) {
        let before = self.keys.remove(key).unwrap_or_default();
        if let Some(owner) = before.waits.as_ref().filter(|owner| claims.waits.as_ref() != Some(*owner))
            && let Some(waiting) = self.waiting.get_mut(owner)
        {
            waiting.remove(key);
            if waiting.len() == 1 && self.contested.remove(owner) {
                self.freed.extend(waiting.iter().cloned());
            }
            if waiting.is_empty() {
                self.waiting.remove(owner);
            }
        }
        if let Some(owner) = &claims.waits {
            self.waiting.entry(owner.clone()).or_default().insert(key.clone());
        }
        for owner in before.made.iter().chain(&before.named) {
            let is_kept = claims.made.as_ref() == Some(owner) || claims.named.as_ref() == Some(owner);
            if !is_kept && self.holders.remove(owner).is_some() {
                self.freed.extend(self.waiting.get(owner).into_iter().flatten().cloned());
            }
        }
        for owner in claims.made.iter().chain(&claims.named) {
            self.holders.insert(owner.clone(), key.clone());
        }
        if claims != KeyClaims::default() {
            self.keys.insert(key.clone(), claims);
        }
    }
}
