//! Hands the source's changes to the session. Lives as long as the source stays the same. No I/O.

use std::time::Instant;

use gimbal_session::{AgentConfig, AgentEnd, Payload, Scope, Services};

use crate::source::{Changed, Known, Standing};

/// The agent's end of the session, and the state of the source that it was given last.
pub(crate) struct Offer<P: Payload = Services> {
    pub(crate) agent: AgentEnd<P>,
    incarnation: Option<String>,
    told: Standing,
}

/// What [`Offer::publish`] changed in the state of the source as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Whether the state of the source changed.
    pub(crate) standing: bool,
    /// Whether other parts are unknown than before.
    pub(crate) unknown: bool,
}

impl<P: Payload> Offer<P> {
    pub(crate) fn new(config: AgentConfig) -> Self {
        Self { agent: AgentEnd::new(config), incarnation: None, told: Standing::Nothing }
    }

    /// Passes on the changes, and then the state of the source, so that a list counts as complete only after its
    /// entries.
    pub(crate) fn publish(&mut self, source: &dyn Known, changed: &Changed<P>, now: Instant) -> Settled {
        if let Some(incarnation) = source.incarnation()
            && self.incarnation.as_deref() != Some(incarnation)
        {
            self.incarnation = Some(incarnation.to_owned());
            self.agent.set_incarnation(incarnation.to_owned());
        }
        for (key, service) in changed {
            self.agent.set(key.clone(), service.clone(), now);
        }
        self.agent.set_rest_unknown(!source.rest_is_known());
        let standing = source.standing();
        if standing == self.told {
            return Settled { standing: false, unknown: false };
        }
        self.tell(&standing, now);
        let before = std::mem::replace(&mut self.told, standing);
        Settled { standing: true, unknown: !scopes(&before).eq(scopes(&self.told)) }
    }

    fn tell(&mut self, standing: &Standing, now: Instant) {
        // The session forgets unknown scopes only when everything is known. So everything is first marked as known,
        // which makes it send a snapshot of what came back, and then what is still unknown is marked.
        let came_back = self.agent.unknown().iter().any(|(scope, _)| !covers(standing, &scope));
        let rest_is_known = !is_unknown_as_a_whole(standing);
        if *standing == Standing::Complete || (rest_is_known && (came_back || !self.agent.is_complete())) {
            self.agent.source_complete(now);
        }
        for (scope, reason) in parts(standing) {
            self.agent.scope_unknown(scope.clone(), reason.clone());
        }
    }

    /// Returns whether the whole source is known.
    pub(crate) fn is_complete(&self) -> bool {
        self.told == Standing::Complete
    }

    /// Returns whether the source was read and its incarnation is known. Some of its namespaces may still be unknown.
    pub(crate) fn is_read(&self) -> bool {
        !is_unknown_as_a_whole(&self.told) && self.incarnation.is_some()
    }

    /// Returns the unknown parts, as the session last received them.
    pub(crate) fn unknown(&self) -> &[(Scope, String)] {
        parts(&self.told)
    }

    /// Returns why a namespace is unknown, if it is.
    pub(crate) fn unknown_namespace(&self, namespace: &str) -> Option<&str> {
        self.unknown().iter().find(|(scope, _)| scope.contains(namespace)).map(|(_, reason)| &**reason)
    }
}

fn parts(standing: &Standing) -> &[(Scope, String)] {
    match standing {
        Standing::Unknown(parts) => parts,
        Standing::Nothing | Standing::Complete => &[],
    }
}

fn scopes(standing: &Standing) -> impl Iterator<Item = &Scope> {
    parts(standing).iter().map(|(scope, _)| scope)
}

fn is_unknown_as_a_whole(standing: &Standing) -> bool {
    *standing == Standing::Nothing || scopes(standing).any(|scope| *scope == Scope::All)
}

/// Returns whether all of `scope` is unknown.
fn covers(standing: &Standing, scope: &Scope) -> bool {
    let unknown = |namespace: &str| scopes(standing).any(|scope| scope.contains(namespace));
    match scope {
        Scope::All => scopes(standing).any(|scope| *scope == Scope::All),
        Scope::Namespaces(namespaces) => namespaces.iter().all(|namespace| unknown(namespace)),
    }
}

#[cfg(test)]
mod tests;
