//! One operator serves a Gimbal cluster. A second one, in another namespace, would say something else of each Backend and run a
//! second discoverer with the same identity, so that it does nothing instead.
//!
//! A Lease outside of both namespaces has the namespace that serves. It is not renewed and does not end: an operator that is away
//! comes back, and another one must not take its Backends meanwhile. Only a person gives them to another one, by deleting it.

use std::time::{Duration, Instant};

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{Lease, LeaseSpec, Meta};

/// Where the Lease is: a namespace that every cluster has, and where only administrators may change one.
const PLACE: &str = "kube-system";
/// Its name. That of the Lease by which the operators of one namespace agree is another one.
const NAME: &str = "gimbal-operator-namespace";
/// Interval of looks at it.
const LOOK: Duration = Duration::from_secs(20);
/// The same while it could not be read or written.
const AGAIN: Duration = Duration::from_secs(2);

/// Whose the Backends of this cluster are.
#[derive(Debug, Default)]
pub(crate) struct ClusterClaim {
    /// The namespace that serves, as it was seen last.
    holder: Option<String>,
    next: Option<Instant>,
    /// A failure was logged, and its end not yet.
    troubled: bool,
}

impl ClusterClaim {
    /// Returns whether the operators of the namespace `own` serve this cluster. `cluster` writes only while this process leads.
    pub(crate) async fn is_of(&mut self, own: &str, cluster: &Cluster, now: Instant) -> bool {
        if self.next.is_none_or(|next| now >= next) {
            match holder(own, cluster).await {
                Ok(holder) => self.take(own, holder, now),
                Err(error) => self.failed(&error, now),
            }
        }
        self.is_held_by(own)
    }

    /// Whether this namespace serves, as it was seen last.
    pub(crate) fn is_held_by(&self, own: &str) -> bool {
        self.holder.as_deref() == Some(own)
    }

    fn take(&mut self, own: &str, holder: String, now: Instant) {
        (self.next, self.troubled) = (Some(now + LOOK), false);
        if self.holder.as_ref() == Some(&holder) {
            return;
        }
        if holder == own {
            tracing::info!("this operator serves the Backends of the cluster");
        } else {
            tracing::warn!(
                namespace = holder,
                "an operator in another namespace serves the Backends of this cluster, and this one does nothing: uninstall one of them; \
                 if the other one is gone: kubectl delete lease {NAME} --namespace {PLACE}"
            );
        }
        self.holder = Some(holder);
    }

    /// What was seen last stays.
    fn failed(&mut self, error: &ApiError, now: Instant) {
        self.next = Some(now + AGAIN);
        // Not sent: this process does not lead any more.
        if !matches!(error, ApiError::Withheld) && !std::mem::replace(&mut self.troubled, true) {
            tracing::warn!(%error, "cannot read or make the Lease {NAME} in {PLACE}, which says whose the Backends are; it is tried again");
        }
    }
}

/// Returns the namespace that serves. Where there is none, it becomes `own`.
async fn holder(own: &str, cluster: &Cluster) -> Result<String, ApiError> {
    let spec = LeaseSpec { holder_identity: Some(own.to_owned()), ..LeaseSpec::default() };
    let metadata = Meta { namespace: PLACE.into(), name: NAME.into(), ..Meta::default() };
    let there = match cluster.get::<Lease>(PLACE, NAME).await {
        Ok(there) => there,
        // Of two that make it at once, one is refused, and looks again.
        Err(ApiError::NotFound { .. }) => {
            return cluster.create(&Lease { metadata, spec }).await.map(|_| own.to_owned());
        }
        Err(error) => return Err(error),
    };
    match there.spec.holder_identity.filter(|holder| !holder.is_empty()) {
        Some(holder) => Ok(holder),
        None => cluster.replace(&Lease { metadata: there.metadata, spec }).await.map(|_| own.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use gimbal_testkit::ScriptedCluster;
    use serde_json::{Value, json};

    use super::*;

    const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

    fn lease(holder: &str) -> Value {
        json!({"metadata": {"name": NAME, "namespace": PLACE, "uid": "u", "resourceVersion": "7"},
            "spec": {"holderIdentity": holder}})
    }

    fn refused(code: u16, reason: &str) -> (u16, Value) {
        let details = json!({"name": NAME, "kind": "leases"});
        (code, json!({"kind": "Status", "reason": reason, "code": code, "message": "m", "details": details}))
    }

    struct Stage {
        server: ScriptedCluster,
        claim: ClusterClaim,
        now: Instant,
    }

    impl Stage {
        async fn start() -> Self {
            let server = ScriptedCluster::start().await.unwrap();
            Self { server, claim: ClusterClaim::default(), now: Instant::now() }
        }

        /// Asks for the namespace `here`, and returns the answer and the calls.
        async fn ask(&mut self, answers: &[(u16, Value)]) -> (bool, Vec<String>) {
            answers.iter().for_each(|(code, body)| self.server.answer(*code, body));
            let is_own = self.claim.is_of("here", &self.server.cluster, self.now).await;
            (is_own, self.server.requests())
        }
    }

    #[tokio::test]
    async fn the_first_one_serves_and_looks_now_and_then() {
        let mut stage = Stage::start().await;
        let (is_own, calls) = stage.ask(&[refused(404, "NotFound"), (201, lease("here"))]).await;
        assert!(is_own);
        assert_eq!(calls, [format!("get {PATH}/{NAME}"), format!("post {PATH}")]);
        stage.now += LOOK - Duration::from_millis(1);
        assert_eq!(stage.ask(&[]).await, (true, vec![]));
        stage.now += Duration::from_millis(1);
        assert_eq!(stage.ask(&[(200, lease("here"))]).await, (true, vec![format!("get {PATH}/{NAME}")]));
    }

    #[tokio::test]
    async fn another_one_does_nothing_until_a_person_says_so() {
        let mut stage = Stage::start().await;
        for _ in 0..2 {
            let (is_own, calls) = stage.ask(&[(200, lease("elsewhere"))]).await;
            assert!(!is_own);
            assert_eq!(calls, [format!("get {PATH}/{NAME}")], "nothing is written");
            stage.now += LOOK;
        }
        assert!(stage.ask(&[refused(404, "NotFound"), (201, lease("here"))]).await.0);
        // And the former one serves no more, once it has looked.
        stage.now += LOOK;
        assert!(!stage.ask(&[(200, lease("elsewhere"))]).await.0);
    }

    #[tokio::test]
    async fn one_that_was_emptied_is_taken_as_it_was_read() {
        let mut stage = Stage::start().await;
        let (is_own, calls) = stage.ask(&[(200, lease("")), (200, lease("here"))]).await;
        assert!(is_own);
        assert_eq!(calls, [format!("get {PATH}/{NAME}"), format!("put {PATH}/{NAME}")]);
    }

    /// Whoever does not know serves nothing, and whoever served goes on.
    #[tokio::test]
    async fn without_an_answer_all_stays_as_it_was() {
        let mut stage = Stage::start().await;
        assert!(!stage.ask(&[refused(403, "Forbidden")]).await.0);
        assert_eq!(stage.ask(&[]).await, (false, vec![]), "it waits");
        stage.now += AGAIN;
        assert!(
            !stage.ask(&[refused(404, "NotFound"), refused(409, "AlreadyExists")]).await.0,
            "another one was first"
        );
        stage.now += AGAIN;
        assert!(stage.ask(&[(200, lease("here"))]).await.0);
        stage.now += LOOK;
        assert!(stage.ask(&[refused(500, "InternalError")]).await.0);
    }
}
