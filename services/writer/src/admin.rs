//! Decisions of administrators. Only the leader takes them, and it answers once a decision is stored.

use std::time::{Duration, Instant};

use gimbal_model::BackendName;
use gimbal_reconcile::{NotConfirmed, Reconciler};
use gimbal_transport::{Admin, Peer};
use gimbal_wire::pb;
use tonic::Status;

use crate::decommission;
use crate::inspection_service::{Answers, ended};
use crate::rehearsal;
use gimbal_lease::Leadership;

/// Interval of checks whether a decision is stored, and how long a caller waits for it.
const LOOK: Duration = Duration::from_millis(50);
const KEPT_WITHIN: Duration = Duration::from_secs(10);

#[tonic::async_trait]
impl Admin for Answers {
    fn is_admin(&self, peer: &Peer) -> bool {
        self.config.borrow().identify(peer).is_admin()
    }

    async fn approve(&self, request: pb::ApproveRequest) -> Result<pb::ApproveResponse, Status> {
        let backend = parse(&request.backend)?;
        let (name, id) = (backend.clone(), request.id.clone());
        let decided = self.decide(backend, move |state| {
            let none = || Status::not_found(format!("backend {name} holds no change {id:?}"));
            state.approve(&name, &id).ok_or_else(none)
        });
        Ok(pb::ApproveResponse { services_released: decided.await? })
    }

    async fn decommission(&self, request: pb::DecommissionRequest) -> Result<pb::DecommissionResponse, Status> {
        let (backend, any, dry_run) = (parse(&request.backend)?, self.config.borrow().admits_any(), request.dry_run);
        let name = backend.clone();
        let answer = move |state: &mut Reconciler| decommission::answer(state, any, &name, &request);
        if dry_run {
            return self.ask_leader(answer).await;
        }
        let ordered = self.decide(backend.clone(), answer).await?;
        // What was there when the order was stored may have been another.
        self.ask_leader(move |state| decommission::withdrawn(state, &backend).map_or(Ok(()), Err)).await?;
        Ok(ordered)
    }

    async fn confirm_incarnation(
        &self,
        request: pb::ConfirmIncarnationRequest,
    ) -> Result<pb::ConfirmIncarnationResponse, Status> {
        let backend = parse(&request.backend)?;
        if request.source_incarnation.is_empty() {
            return Err(Status::invalid_argument("source_incarnation is empty"));
        }
        let name = backend.clone();
        let decided = self.decide(backend, move |state| {
            state.confirm_incarnation(&name, &request.source_incarnation).map_err(|error| match error {
                NotConfirmed::Unknown(_) => Status::not_found(error.to_string()),
                NotConfirmed::NotShown { .. } => Status::failed_precondition(error.to_string()),
            })
        });
        Ok(pb::ConfirmIncarnationResponse { previous: decided.await?.unwrap_or_default() })
    }

    async fn preview_configuration(
        &self,
        request: pb::PreviewConfigurationRequest,
    ) -> Result<pb::PreviewConfigurationResponse, Status> {
        let now = self.config.borrow().clone();
        let policies = rehearsal::policies(&now, self.backends, &request.text).map_err(Status::invalid_argument)?;
        let ask = move |state: &mut Reconciler| {
            if !state.has_observed() {
                return Err(Status::unavailable("this writer has not seen the whole Gimbal cluster yet; try again"));
            }
            Ok(state.rehearse(&policies, rehearsal::LISTED, Instant::now()))
        };
        Ok(rehearsal::answer(self.ask_leader(ask).await?))
    }
}

fn parse(backend: &str) -> Result<BackendName, Status> {
    BackendName::parse(backend).map_err(|error| Status::invalid_argument(error.to_string()))
}

impl Answers {
    /// Returns the error of a writer that does not lead.
    fn standby(&self) -> Status {
        let who = match &*self.leadership.borrow() {
            Leadership::Follower { holder } if !holder.is_empty() => format!("{holder} does: ask that one"),
            _ => "try again".to_owned(),
        };
        Status::unavailable(format!("this writer does not lead; {who}"))
    }

    /// Asks the state a question that only a leader can answer.
    async fn ask_leader<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Reconciler) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let led = move |state: &mut Reconciler| state.is_leading().then(|| question(state));
        self.owner.ask(led).await.map_err(ended)?.ok_or_else(|| self.standby())?
    }

    /// Decides something for a backend, and waits until the decision is stored.
    async fn decide<T: Send + 'static>(
        &self,
        backend: BackendName,
        decision: impl FnOnce(&mut Reconciler) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let name = backend.clone();
        let decided = move |state: &mut Reconciler| -> Result<(T, Option<u64>), Status> {
            Ok((decision(state)?, state.keep_decision(&name)))
        };
        let (answer, version) = self.ask_leader(decided).await?;
        let Some(version) = version else { return Ok(answer) };
        let deadline = Instant::now() + KEPT_WITHIN;
        let mut look = tokio::time::interval(LOOK);
        loop {
            let name = backend.clone();
            if self.ask_leader(move |state| Ok(state.is_kept(&name, version))).await? {
                return Ok(answer);
            }
            if Instant::now() >= deadline {
                let message = "it is decided, but not stored yet: a restart of the writer would forget it; ListBackends shows the backend's state";
                return Err(Status::deadline_exceeded(message));
            }
            look.tick().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_reconcile::{Output, Policy, Settings, Watched};
    use gimbal_session::{Credit, WriterLimits};
    use tokio::sync::{mpsc, watch};

    use super::*;
    use crate::args::BackendsIn;
    use crate::config::Config;
    use crate::links::Links;
    use crate::mailbox::{Handle, Mail};
    use gimbal_lease::Moment;

    fn name() -> BackendName {
        BackendName::parse("node02").unwrap()
    }

    /// A writer that knows node02, and the mailbox of its owner.
    fn writer(leadership: Leadership) -> (Answers, Reconciler, mpsc::Receiver<Mail>) {
        let (owner, mail, _) = Handle::new();
        let limits =
            WriterLimits { credit: Credit { changes: 1, bytes: 1 }, heartbeat_timeout: Duration::from_secs(15) };
        let comparison_interval = Duration::from_secs(600);
        let mut state = Reconciler::new(Settings { api: Default::default(), limits, comparison_interval });
        state.add_backend(&name(), Policy::default(), Instant::now());
        let (_, config) = watch::channel(Arc::new(Config::first_look()));
        let backends = BackendsIn::File;
        (
            Answers {
                config,
                backends,
                owner,
                identity: String::new(),
                leadership: watch::channel(leadership).1,
                misnamed: Default::default(),
                rights: None,
            },
            state,
            mail,
        )
    }

    fn request() -> pb::ConfirmIncarnationRequest {
        pb::ConfirmIncarnationRequest { backend: "node02".into(), source_incarnation: "two".into() }
    }

    #[tokio::test]
    async fn a_standby_decides_nothing_and_names_the_leader() {
        let (answers, mut state, mut mail) = writer(Leadership::Follower { holder: "other_10.0.0.1:7443".into() });
        let owner = tokio::spawn(async move {
            while let Some(Mail::Ask(question)) = mail.recv().await {
                question(&mut state, &Links::default());
            }
            state
        });
        let approve = pb::ApproveRequest { backend: "node02".into(), id: "1".into() };
        let order = pb::DecommissionRequest { backend: "node02".into(), ..Default::default() };
        let refused = [
            answers.confirm_incarnation(request()).await.unwrap_err(),
            answers.approve(approve).await.unwrap_err(),
            answers.decommission(pb::DecommissionRequest { dry_run: true, ..order.clone() }).await.unwrap_err(),
            answers.decommission(order).await.unwrap_err(),
        ];
        for status in refused {
            assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
            assert!(status.message().contains("other_10.0.0.1:7443"), "{status}");
        }
        drop(answers);
        assert_eq!(owner.await.unwrap().backends()[&name()].state().incarnation, None, "nothing came of it");
    }

    #[tokio::test]
    async fn a_leader_answers_when_what_was_decided_is_kept() {
        let until = Moment::now() + Duration::from_secs(3600);
        let (answers, mut state, mut mail) = writer(Leadership::Leader { epoch: 1, until });
        state.lead(Some(1));
        let mut asked = tokio::spawn(async move { answers.confirm_incarnation(request()).await });
        let mut kept = None;
        for _ in 0..5 {
            let Some(Mail::Ask(question)) = mail.recv().await else { panic!("no question") };
            question(&mut state, &Links::default());
            let versions = state.take_outputs().into_iter().filter_map(|output| match output {
                Output::Keep { version, state, .. } if state.incarnation.as_deref() == Some("two") => Some(version),
                _ => None,
            });
            kept = versions.max().or(kept);
        }
        assert!(!asked.is_finished(), "nothing is kept yet");
        state.kept(&name(), kept.unwrap(), Instant::now());
        let answer = loop {
            tokio::select! {
                answer = &mut asked => break answer.unwrap(),
                Some(Mail::Ask(question)) = mail.recv() => question(&mut state, &Links::default()),
            }
        };
        assert_eq!(answer.unwrap().previous, "");
    }

    #[tokio::test]
    async fn an_order_that_is_over_when_it_is_kept_is_no_success() {
        let until = Moment::now() + Duration::from_secs(3600);
        let (answers, mut state, mut mail) = writer(Leadership::Leader { epoch: 1, until });
        let now = Instant::now();
        state.lead(Some(1));
        for kind in Watched::ALL {
            state.list_begin(kind);
            state.list_end(kind, now);
        }
        state.confirm_incarnation(&name(), "two").unwrap();
        let id = state.inventory(&name()).id(&name());
        let order = pb::DecommissionRequest { backend: "node02".into(), id, ..Default::default() };
        let asked = tokio::spawn(async move { answers.decommission(order).await });
        let Some(Mail::Ask(question)) = mail.recv().await else { panic!("no question") };
        question(&mut state, &Links::default());
        let web = serde_json::json!({"metadata": {
            "name": "node02-web", "namespace": "team1", "uid": "1", "resourceVersion": "1",
            "labels": {"gimbal.projectcontour.io/backend": "node02"},
            "annotations": {"gimbal.projectcontour.io/source": "team1/web"},
        }});
        state.apply_service(&serde_json::from_value(web).unwrap(), now);
        for output in state.take_outputs() {
            if let Output::Keep { version, .. } = output {
                state.kept(&name(), version, now);
            }
        }
        while let Some(Mail::Ask(question)) = mail.recv().await {
            question(&mut state, &Links::default());
        }
        let status = asked.await.unwrap().unwrap_err();
        assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("is over: "), "{status}");
        assert_eq!(state.inventory(&name()).services, 1);
    }
}
