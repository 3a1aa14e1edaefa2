//! What is said of a source on the stream, for as long as it stays the same one. No I/O.

use std::time::Instant;

use gimbal_session::{AgentConfig, AgentEnd, Scope};

use crate::source::{Changed, Known, Standing};

/// The stream's end, and what it was last told of the source as a whole.
pub(crate) struct Offer {
    pub(crate) agent: AgentEnd,
    incarnation: Option<String>,
    told: Standing,
}

/// What [`Offer::settle`] changed in what is known of the source as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// How much is known is another thing than before.
    pub(crate) standing: bool,
    /// Other parts are unknown than before.
    pub(crate) unknown: bool,
}

impl Offer {
    pub(crate) fn new(config: AgentConfig) -> Self {
        Self { agent: AgentEnd::new(config), incarnation: None, told: Standing::Nothing }
    }

    /// Hands on what changed in the source, and then how much of it is known: a list that is complete follows what it
    /// told.
    pub(crate) fn settle(&mut self, source: &dyn Known, changed: &Changed, now: Instant) -> Settled {
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
        // The stream's end forgets what is unknown only when everything is known: it is told that first, and then what
        // is unknown still. It owes the writer a snapshot of what came back.
        let came_back = self.agent.unknown().iter().any(|(scope, _)| !covers(standing, &scope));
        let rest_is_known = !is_unknown_as_a_whole(standing);
        if *standing == Standing::Complete || (rest_is_known && (came_back || !self.agent.is_complete())) {
            self.agent.source_complete(now);
        }
        for (scope, reason) in parts(standing) {
            self.agent.scope_unknown(scope.clone(), reason.clone());
        }
    }

    /// Everything of the source is known now.
    pub(crate) fn is_complete(&self) -> bool {
        self.told == Standing::Complete
    }

    /// The source was read, and there is something to offer, though parts may be unknown.
    pub(crate) fn is_read(&self) -> bool {
        !is_unknown_as_a_whole(&self.told) && self.incarnation.is_some()
    }

    /// What is unknown, as the writer was told.
    pub(crate) fn unknown(&self) -> &[(Scope, String)] {
        parts(&self.told)
    }

    /// Why nothing new is known of a namespace, if so.
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

/// Whether all of `scope` is unknown.
fn covers(standing: &Standing, scope: &Scope) -> bool {
    let unknown = |namespace: &str| scopes(standing).any(|scope| scope.contains(namespace));
    match scope {
        Scope::All => scopes(standing).any(|scope| *scope == Scope::All),
        Scope::Namespaces(namespaces) => namespaces.iter().all(|namespace| unknown(namespace)),
    }
}

#[cfg(test)]
mod tests;
