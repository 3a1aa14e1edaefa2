//! Hands the source's changes to the session. Lives as long as the source stays the same. No I/O.

use std::time::Instant;

use gimbal_session::{AgentConfig, AgentEnd, ChangeSince, Credit, Payload, Scope, Services};

use crate::source::{Changed, Coverage, SourceStatus};

/// The agent's end of the session, and the state of the source that it was given last.
pub(crate) struct Publisher<P: Payload = Services> {
    pub(crate) agent: AgentEnd<P>,
    incarnation: Option<String>,
    published: Coverage,
}

/// What [`Publisher::publish`] changed in the state of the source as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// Whether the state of the source changed.
    pub(crate) coverage: bool,
    /// Whether other parts are unknown than before.
    pub(crate) unknown: bool,
}

impl<P: Payload> Publisher<P> {
    /// Creates a publisher of a source that was not read yet. The writer may send as many reports as `report_credit`
    /// allows.
    pub(crate) fn new(config: AgentConfig, report_credit: Option<Credit>) -> Self {
        let mut agent = AgentEnd::new(config);
        if let Some(credit) = report_credit {
            agent.grant_reports(credit);
        }
        Self { agent, incarnation: None, published: Coverage::Nothing }
    }

    /// Passes on the changes, and then the state of the source, so that a list counts as complete only after its
    /// entries.
    pub(crate) fn publish(&mut self, source: &dyn SourceStatus<P>, changed: &Changed<P>, now: Instant) -> Published {
        if let Some(incarnation) = source.incarnation()
            && self.incarnation.as_deref() != Some(incarnation)
        {
            self.incarnation = Some(incarnation.to_owned());
            self.agent.set_incarnation(incarnation.to_owned());
        }
        for (key, entry) in changed {
            let since = ChangeSince { reported: now, caused: source.caused(key) };
            self.agent.set_since(key.clone(), entry.clone(), since);
        }
        self.agent.set_rest_unknown(!source.rest_is_known());
        let coverage = source.coverage();
        if coverage == self.published {
            return Published { coverage: false, unknown: false };
        }
        self.update_coverage(&coverage);
        let before = std::mem::replace(&mut self.published, coverage);
        Published { coverage: true, unknown: !scopes(&before).eq(scopes(&self.published)) }
    }

    fn update_coverage(&mut self, coverage: &Coverage) {
        // The session forgets unknown scopes only when everything is known. So everything is first marked as known,
        // which makes it send a snapshot of what came back, and then what is still unknown is marked.
        let came_back = self.agent.unknown().iter().any(|(scope, _)| !covers(coverage, &scope));
        let is_read = has_entries::<P>(coverage);
        if *coverage == Coverage::Complete || (is_read && (came_back || !self.agent.is_complete())) {
            self.agent.source_complete();
        }
        for (scope, reason) in parts(coverage) {
            self.agent.scope_unknown(scope.clone(), reason.clone());
        }
    }

    /// Returns whether the whole source is known.
    pub(crate) fn is_complete(&self) -> bool {
        self.published == Coverage::Complete
    }

    /// Returns whether the source was read and its incarnation is known, so that a stream can carry entries. Something may
    /// still be unknown.
    pub(crate) fn is_read(&self) -> bool {
        has_entries::<P>(&self.published) && self.incarnation.is_some()
    }

    /// Returns the unknown parts, as the session last received them.
    pub(crate) fn unknown(&self) -> &[(Scope, String)] {
        parts(&self.published)
    }

    /// Returns why a namespace is unknown, if it is.
    pub(crate) fn unknown_namespace(&self, namespace: &str) -> Option<&str> {
        self.unknown().iter().find(|(scope, _)| scope.contains(namespace)).map(|(_, reason)| &**reason)
    }
}

fn parts(coverage: &Coverage) -> &[(Scope, String)] {
    match coverage {
        Coverage::Unknown(parts) => parts,
        Coverage::Nothing | Coverage::Complete => &[],
    }
}

fn scopes(coverage: &Coverage) -> impl Iterator<Item = &Scope> {
    parts(coverage).iter().map(|(scope, _)| scope)
}

/// Returns whether the source has entries to send.
fn has_entries<P: Payload>(coverage: &Coverage) -> bool {
    let is_whole = || scopes(coverage).any(|scope| *scope == Scope::All);
    *coverage != Coverage::Nothing && (P::SENDS_UNKNOWN || !is_whole())
}

/// Returns whether all of `scope` is unknown.
fn covers(coverage: &Coverage, scope: &Scope) -> bool {
    let unknown = |namespace: &str| scopes(coverage).any(|scope| scope.contains(namespace));
    match scope {
        Scope::All => scopes(coverage).any(|scope| *scope == Scope::All),
        Scope::Namespaces(namespaces) => namespaces.iter().all(|namespace| unknown(namespace)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
