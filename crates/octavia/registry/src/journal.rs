//! The last steps of an owner, for people.

use std::time::Duration;

use gimbal_octavia_plan::{ApiVerb, CloudChange};

/// How many steps are kept.
const KEPT: usize = 20;

/// Resources, in the words of [`gimbal_octavia_plan::ServiceCall::resource`].
const RESOURCES: [&str; 11] = [
    "port",
    "loadbalancer",
    "listener",
    "pool",
    "healthmonitor",
    "members",
    "member",
    "floatingip",
    "l7policy",
    "l7rule",
    "secret",
];

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Wanted,
    Deleting,
    Looked,
    LookFailed,
    Drifted,
    Settled,
    Vanished,
    Sent,
    Accepted,
    Refused,
    Unknown,
    NotSent,
    Held,
    Finished,
}

/// One step, in eight bytes: there are twenty for each owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StepNote {
    /// Tenths of a second since the start.
    at: u32,
    deed: Deed,
    /// Verb and place in [`RESOURCES`].
    about: Option<(u8, u8)>,
}

/// The last steps, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Journal(Vec<StepNote>);

impl Journal {
    pub(crate) fn note(&mut self, at: Duration, deed: Deed) {
        self.add(at, deed, None);
    }

    pub(crate) fn change(&mut self, at: Duration, deed: Deed, change: &CloudChange) {
        let call = change.request();
        let verb = match call.verb {
            ApiVerb::Create => 0,
            ApiVerb::Update => 1,
            ApiVerb::Delete => 2,
        };
        let resource = RESOURCES.iter().position(|name| *name == call.resource);
        self.add(at, deed, resource.and_then(|at| u8::try_from(at).ok()).map(|resource| (verb, resource)));
    }

    fn add(&mut self, at: Duration, deed: Deed, about: Option<(u8, u8)>) {
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        if self.0.capacity() == self.0.len() {
            self.0.reserve_exact(4);
        }
        let at = u32::try_from(at.as_millis() / 100).unwrap_or(u32::MAX);
        self.0.push(StepNote { at, deed, about });
    }

    /// Returns the steps with their age.
    pub(crate) fn told(&self, now: Duration) -> Vec<(Duration, String)> {
        let age = |at: u32| now.saturating_sub(Duration::from_millis(u64::from(at) * 100));
        self.0.iter().map(|note| (age(note.at), words(note))).collect()
    }
}

fn words(note: &StepNote) -> String {
    let deed = match note.deed {
        Deed::Wanted => "wanted something else",
        Deed::Deleting => "wanted to be gone",
        Deed::Looked => "looked",
        Deed::LookFailed => "could not look",
        Deed::Drifted => "found that something was changed by somebody else",
        Deed::Settled => "Octavia had finished",
        Deed::Vanished => "found the load balancer gone",
        Deed::Sent => "sent",
        Deed::Accepted => "accepted",
        Deed::Refused => "refused",
        Deed::Unknown => "outcome unknown",
        Deed::NotSent => "not sent",
        Deed::Held => "held by the guard",
        Deed::Finished => "everything was as it is wanted",
    };
    let Some((verb, resource)) = note.about else { return deed.to_owned() };
    let verb = ["create", "update", "delete"].get(usize::from(verb)).copied().unwrap_or_default();
    let resource = RESOURCES.get(usize::from(resource)).copied().unwrap_or_default();
    format!("{deed}: {verb} {resource}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_are_kept_with_their_age() {
        let mut journal = Journal::default();
        let change = CloudChange::DeletePool { id: "p".into() };
        for second in 0..30 {
            journal.change(Duration::from_secs(second), Deed::Sent, &change);
        }
        journal.note(Duration::from_secs(30), Deed::Finished);
        let told = journal.told(Duration::from_secs(40));
        assert_eq!((told.len(), journal.0.capacity()), (KEPT, KEPT));
        assert_eq!(told[0], (Duration::from_secs(29), "sent: delete pool".into()));
        assert_eq!(told[19], (Duration::from_secs(10), "everything was as it is wanted".into()));
        assert_eq!(size_of::<StepNote>(), 8);
    }
}
