//! What is known of each watched kind. No I/O.
//!
//! Objects count as deleted only after a complete list, and only if the cluster was found to be the same at the end of the
//! list. Otherwise another cluster behind the same address would look like one whose Services were all deleted
//! (docs/way-back.md#rule-5). A kind that is not served is unknown, never empty.

use std::time::Instant;

use gimbal_discoverer::{KindFailure, KindHealth};
use gimbal_kubernetes_agent::kind_failure;
use gimbal_kubernetes_client::ApiError;
use gimbal_kuryr_resource::KuryrKind;
use gimbal_session::Freshness;

/// Returns the name of a kind in logs, metrics and messages to the writer.
pub(crate) fn kind_name(kind: KuryrKind) -> &'static str {
    match kind {
        KuryrKind::Service => "services",
        KuryrKind::Slice => "endpointslices",
        KuryrKind::LoadBalancer => "kuryrloadbalancers",
        KuryrKind::Node => "nodes",
        KuryrKind::Ingress => "ingresses",
        KuryrKind::IngressClass => "ingressclasses",
        KuryrKind::Router => "kuryrl7routers",
        KuryrKind::Secret => "secrets",
    }
}

/// The health of the watched kinds, for as long as the cluster is the same one.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    health: [KindHealth; KuryrKind::ALL.len()],
    /// The message of the last failure of each kind, for the operator of this controller only: it may contain output of a
    /// credential plug-in.
    last_errors: [Option<String>; KuryrKind::ALL.len()],
    complete: [bool; KuryrKind::ALL.len()],
    nodes_wanted: bool,
    /// Whether Ingresses are served. That never changes.
    ingress: bool,
    /// Complete lists that count once the cluster is confirmed to be the same.
    unproven: Vec<KuryrKind>,
    incarnation: Option<String>,
    identity_trouble: Option<String>,
    /// The number of the last check of the identity that was requested.
    asked: u64,
}

impl Kinds {
    /// Returns what is known before anything was read.
    pub(crate) fn new(ingress: bool) -> Self {
        Self { ingress, ..Self::default() }
    }

    /// Forgets everything but the incarnation, if it is known. Checks that were requested before do not confirm later lists.
    pub(crate) fn start_over(&mut self, incarnation: Option<String>) {
        let identity_trouble = self.identity_trouble.take();
        let Self { asked, nodes_wanted, ingress, .. } = *self;
        *self = Self { asked, nodes_wanted, ingress, incarnation, identity_trouble, ..Self::default() };
    }

    /// Called on any response.
    pub(crate) fn heard(&mut self, kind: KuryrKind, now: Instant) {
        self.health[kind as usize].heard(now);
    }

    /// Called when a list begins.
    pub(crate) fn list_began(&mut self, kind: KuryrKind) {
        self.unproven.retain(|other| *other != kind);
    }

    /// Called when all kinds are listed anew: a list that has not counted yet never will.
    pub(crate) fn read_anew(&mut self) {
        self.unproven.clear();
    }

    /// Called when a list is complete. Returns whether it counts now; else it is returned by [`Kinds::identified`].
    #[must_use]
    pub(crate) fn list_done(&mut self, kind: KuryrKind, now: Instant) -> bool {
        if self.incarnation.is_none() {
            self.listed(kind, now);
            return true;
        }
        self.asked += 1;
        self.unproven.push(kind);
        self.health[kind as usize].awaits("it was listed, but the cluster not yet found to be the same as before", now);
        false
    }

    fn listed(&mut self, kind: KuryrKind, now: Instant) {
        self.complete[kind as usize] = true;
        self.health[kind as usize].listed(now);
    }

    /// Called when a list or a watch fails. Returns whether only a complete list ends the failure.
    pub(crate) fn failed(&mut self, kind: KuryrKind, error: &ApiError, now: Instant) -> bool {
        self.last_errors[kind as usize] = Some(error.to_string());
        let failure = match error {
            // Removed while it was watched: what is gone with it was not deleted by anyone who meant it.
            ApiError::NotServed { .. } => KindFailure::Denied,
            error => kind_failure(error),
        };
        self.health[kind as usize].failed(failure, error.public_reason(), now);
        failure != KindFailure::Passing
    }

    /// Called when a check found this incarnation. `asked` is the number of the last request before the check started.
    /// Returns the lists that count now, or `None` if this is another cluster: nothing that is known is true of it.
    pub(crate) fn identified(&mut self, incarnation: &str, asked: u64, now: Instant) -> Option<Vec<KuryrKind>> {
        match &self.incarnation {
            None => self.incarnation = Some(incarnation.to_owned()),
            Some(known) if known != incarnation => return None,
            Some(_) => {}
        }
        if asked < self.asked {
            return Some(Vec::new());
        }
        let proven = std::mem::take(&mut self.unproven);
        for kind in &proven {
            self.listed(*kind, now);
        }
        Some(proven)
    }

    /// Sets whether nodes are watched.
    pub(crate) fn want_nodes(&mut self, wanted: bool) {
        if std::mem::replace(&mut self.nodes_wanted, wanted) && !wanted {
            let nodes = KuryrKind::Node as usize;
            (self.health[nodes], self.last_errors[nodes], self.complete[nodes]) = Default::default();
            self.unproven.retain(|kind| *kind != KuryrKind::Node);
        }
    }

    /// Makes kinds unknown whose failure has lasted. Returns those that were not before, with the reason.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<(KuryrKind, String)> {
        let mut lost = Vec::new();
        for kind in KuryrKind::ALL {
            let health = &mut self.health[kind as usize];
            let was_lost = health.lost().is_some();
            health.tick(now);
            lost.extend(health.lost().filter(|_| !was_lost).map(|reason| (kind, reason.to_owned())));
        }
        lost
    }

    /// Returns when [`Kinds::tick`] changes something.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.watched().filter_map(|(_, health)| health.deadline()).min()
    }

    fn watched(&self) -> impl Iterator<Item = (KuryrKind, &KindHealth)> {
        let watched = |kind: &KuryrKind| *kind != KuryrKind::Node || self.nodes_wanted;
        self.kinds().filter(watched).map(|kind| (kind, &self.health[kind as usize]))
    }

    /// Those that nothing can be done without. Without Secrets everything is served over HTTP, and what has a certificate keeps it.
    fn needed(&self) -> impl Iterator<Item = (KuryrKind, &KindHealth)> {
        self.watched().filter(|(kind, _)| *kind != KuryrKind::Secret)
    }

    /// Returns whether every kind that is needed was listed completely at least once.
    pub(crate) fn is_complete(&self) -> bool {
        self.needed().all(|(kind, _)| self.complete[kind as usize])
    }

    /// Returns which kinds are unknown and why, in words that may be sent to the writer.
    pub(crate) fn lost(&self) -> Option<String> {
        let lost: Vec<_> = self
            .needed()
            .filter_map(|(kind, health)| Some(format!("{}: {}", kind_name(kind), health.lost()?)))
            .collect();
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    /// Returns what is wrong now, for the operator.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble_with(Option::as_deref)
    }

    /// Returns what [`Self::trouble`] does, without what a server or a plug-in said.
    pub(crate) fn public_trouble(&self) -> Option<String> {
        self.trouble_with(|_| None)
    }

    fn trouble_with(&self, said: impl Fn(&Option<String>) -> Option<&str>) -> Option<String> {
        let trouble = |(kind, health): (KuryrKind, &KindHealth)| {
            let trouble = health.trouble()?;
            Some(format!("{}: {}", kind_name(kind), said(&self.last_errors[kind as usize]).unwrap_or(trouble)))
        };
        let trouble: Vec<_> = self.watched().filter_map(trouble).collect();
        (!trouble.is_empty()).then(|| trouble.join("; "))
    }

    fn kinds(&self) -> impl Iterator<Item = KuryrKind> {
        let ingress = self.ingress;
        KuryrKind::ALL.into_iter().filter(move |kind| ingress || !kind.is_of_ingress())
    }

    /// Returns the time since the last response, by kind. Nodes are always among them: the kinds never change.
    pub(crate) fn freshness(&self, now: Instant) -> Vec<Freshness> {
        let age = |kind: KuryrKind| self.health[kind as usize].age(now);
        self.kinds().map(|kind| Freshness { kind: kind_name(kind).to_owned(), age: age(kind) }).collect()
    }

    pub(crate) fn incarnation(&self) -> Option<&str> {
        self.incarnation.as_deref()
    }

    pub(crate) fn identity_trouble(&self) -> Option<&str> {
        self.identity_trouble.as_deref()
    }

    /// Sets why the incarnation cannot be read, or `None` if it can. Returns whether that changed.
    pub(crate) fn set_identity_trouble(&mut self, trouble: Option<String>) -> bool {
        std::mem::replace(&mut self.identity_trouble, trouble.clone()) != trouble
    }

    /// Returns the number of the last check of the identity that was requested.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use gimbal_discoverer::PATIENCE;

    use super::*;

    fn not_served() -> ApiError {
        ApiError::NotServed { message: "404 page not found".into() }
    }

    #[test]
    fn a_kind_that_is_not_served_is_unknown_until_it_is_listed() {
        let (mut kinds, now) = (Kinds::default(), Instant::now());
        for kind in [KuryrKind::Service, KuryrKind::Slice] {
            assert!(kinds.list_done(kind, now));
        }
        assert!(kinds.failed(KuryrKind::LoadBalancer, &not_served(), now));
        assert!(!kinds.is_complete());
        assert!(kinds.lost().unwrap().starts_with("kuryrloadbalancers: "));
        assert!(kinds.list_done(KuryrKind::LoadBalancer, now));
        assert_eq!((kinds.is_complete(), kinds.lost()), (true, None));
        // Taken away while it is watched, what was known of it is not current any more.
        assert!(kinds.failed(KuryrKind::LoadBalancer, &not_served(), now));
        kinds.heard(KuryrKind::LoadBalancer, now);
        assert!(kinds.lost().is_some());
    }

    #[test]
    fn a_list_counts_once_the_cluster_is_found_to_be_the_same() {
        let (mut kinds, now) = (Kinds::default(), Instant::now());
        assert_eq!(kinds.identified("one", 0, now), Some(Vec::new()));
        assert!(!kinds.list_done(KuryrKind::Service, now));
        assert_eq!(kinds.identified("one", 0, now), Some(Vec::new()), "that check began before the list ended");
        assert_eq!(kinds.identified("one", kinds.asked(), now), Some(vec![KuryrKind::Service]));
        assert!(!kinds.list_done(KuryrKind::Slice, now));
        assert_eq!(kinds.identified("two", kinds.asked(), now), None);
        kinds.start_over(Some("two".into()));
        assert_eq!(kinds.identified("two", kinds.asked(), now), Some(Vec::new()), "nothing of before counts");
    }

    #[test]
    fn an_outage_makes_a_kind_unknown_once() {
        let (mut kinds, now) = (Kinds::default(), Instant::now());
        assert!(kinds.list_done(KuryrKind::Slice, now));
        assert!(!kinds.failed(KuryrKind::Slice, &ApiError::Transport { message: "refused".into() }, now));
        assert_eq!((kinds.tick(now), kinds.lost()), (Vec::new(), None));
        let lost = kinds.tick(now + PATIENCE);
        assert_eq!(lost.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [KuryrKind::Slice]);
        assert_eq!(kinds.tick(now + PATIENCE), Vec::new());
    }

    #[test]
    fn routers_count_only_where_ingresses_are_served() {
        let now = Instant::now();
        for (ingress, kinds) in [(false, 4), (true, 8)] {
            let mut known = Kinds::new(ingress);
            for kind in [KuryrKind::Service, KuryrKind::Slice, KuryrKind::LoadBalancer] {
                assert!(known.list_done(kind, now));
            }
            assert_eq!((known.is_complete(), known.freshness(now).len()), (!ingress, kinds));
            known.start_over(None);
            assert_eq!(known.freshness(now).len(), kinds);
        }
    }

    /// Without the right to Secrets everything is served over HTTP, and a Pod that is not ready for ever stops every roll-out.
    #[test]
    fn secrets_that_cannot_be_read_are_trouble_and_no_reason_to_be_unready() {
        let (mut kinds, now) = (Kinds::new(true), Instant::now());
        let watched: Vec<KuryrKind> = kinds.watched().map(|(kind, _)| kind).collect();
        for kind in watched.into_iter().filter(|kind| *kind != KuryrKind::Secret) {
            assert!(kinds.list_done(kind, now));
        }
        assert!(kinds.failed(KuryrKind::Secret, &ApiError::Forbidden { message: "no".into() }, now));
        assert_eq!((kinds.is_complete(), kinds.lost()), (true, None));
        assert!(kinds.trouble().is_some_and(|trouble| trouble.contains("secrets")));
        assert!(kinds.public_trouble().is_some_and(|trouble| trouble.contains("secrets: forbidden")));
    }

    #[test]
    fn nodes_count_only_where_they_are_wanted() {
        let (mut kinds, now) = (Kinds::default(), Instant::now());
        for kind in [KuryrKind::Service, KuryrKind::Slice, KuryrKind::LoadBalancer] {
            assert!(kinds.list_done(kind, now));
        }
        assert!(kinds.is_complete());
        kinds.want_nodes(true);
        assert!(!kinds.is_complete());
        assert!(kinds.failed(KuryrKind::Node, &ApiError::Forbidden { message: "no".into() }, now));
        assert!(kinds.lost().is_some());
        kinds.want_nodes(false);
        assert_eq!((kinds.is_complete(), kinds.lost(), kinds.trouble()), (true, None, None));
    }
}
