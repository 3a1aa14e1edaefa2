//! `InspectionService`. Calls are sent to the owner's mailbox, because only the owner reads its state.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use gimbal_model::BackendName;
use gimbal_status_page::{Histories, PageSource};
use gimbal_transport::{Inspection, Part, Peer, Place, RightsReview, Status, Viewer, pb};
use tokio::sync::{mpsc, oneshot};

use crate::inspection_view::Reader;
use crate::own_names::OwnNames;
use crate::setup::Program;
use crate::watchers::Batch;

/// A call, with the channel for its answer.
#[derive(Debug)]
pub(crate) enum InspectionCall {
    Backend(Reader, oneshot::Sender<pb::Backend>),
    Services(pb::ListServicesRequest, Option<Place>, oneshot::Sender<Part>),
    Explain(pb::ExplainRequest, Option<IpAddr>, Reader, oneshot::Sender<pb::ExplainResponse>),
    Follow(pb::WatchRequest, Weak<()>, oneshot::Sender<u64>),
    Next(u64, oneshot::Sender<Batch>),
}

/// The server's side of the owner's mailbox.
pub(crate) struct Inspector {
    /// The program, with its version.
    pub(crate) program: Program,
    /// Finds the rights in the source that are missing; `None`: that cannot be found out.
    pub(crate) rights: Option<RightsReview>,
    pub(crate) backend: BackendName,
    pub(crate) own_names: OwnNames,
    pub(crate) owner: mpsc::Sender<InspectionCall>,
}

impl Inspector {
    async fn ask<T>(&self, call: impl FnOnce(oneshot::Sender<T>) -> InspectionCall) -> Result<T, Status> {
        ask(&self.owner, call).await
    }
}

async fn ask<T>(
    owner: &mpsc::Sender<InspectionCall>,
    call: impl FnOnce(oneshot::Sender<T>) -> InspectionCall,
) -> Result<T, Status> {
    let ends = || Status::unavailable("the process is ending");
    let (reply, answer) = oneshot::channel();
    owner.send(call(reply)).await.map_err(|_| ends())?;
    answer.await.map_err(|_| ends())
}

#[tonic::async_trait]
impl Inspection for Inspector {
    fn viewer(&self, peer: &Peer) -> Result<Viewer, Status> {
        self.own_names.admit(peer)?;
        Ok(match peer {
            Peer::Loopback => Viewer::All,
            Peer::Certificate(_) => Viewer::Backend(self.backend.clone()),
        })
    }

    async fn server(&self, _: &Viewer) -> Result<pb::Server, Status> {
        let rights = match &self.rights {
            Some(review) => Some(review().await),
            None => None,
        };
        Ok(pb::Server { version: self.program.to_string(), rights, ..pb::Server::default() })
    }

    async fn list_backends(&self, _: &Viewer) -> Result<Vec<pb::Backend>, Status> {
        Ok(vec![self.ask(|reply| InspectionCall::Backend(Reader::Operator, reply)).await?])
    }

    async fn list_services(
        &self,
        _: &Viewer,
        request: &pb::ListServicesRequest,
        after: Option<&Place>,
    ) -> Result<Part, Status> {
        self.ask(|reply| InspectionCall::Services(request.clone(), after.cloned(), reply)).await
    }

    async fn watch(
        &self,
        _: &Viewer,
        request: pb::WatchRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchResponse, Status>>, Status> {
        // The owner drops the call when this is dropped.
        let alive = Arc::new(());
        let weak = Arc::downgrade(&alive);
        let id = self.ask(|reply| InspectionCall::Follow(request, weak, reply)).await?;
        let follower = (self.owner.clone(), alive);
        let batches = stream::unfold(Some(follower), move |follower| async move {
            let follower = follower?;
            match ask(&follower.0, |reply| InspectionCall::Next(id, reply)).await {
                Ok(batch) => Some((stream::iter(batch.into_iter().map(Ok).collect::<Vec<_>>()), Some(follower))),
                Err(status) => Some((stream::iter(vec![Err(status)]), None)),
            }
        });
        Ok(batches.flatten().boxed())
    }

    async fn explain(
        &self,
        _: &Viewer,
        request: pb::ExplainRequest,
        address: Option<IpAddr>,
    ) -> Result<pb::ExplainResponse, Status> {
        self.ask(|reply| InspectionCall::Explain(request, address, Reader::Operator, reply)).await
    }
}

#[tonic::async_trait]
impl PageSource for Inspector {
    fn title(&self) -> String {
        format!("{} of {}", self.program.name, self.backend)
    }

    fn standing(&self, backends: &[pb::Backend]) -> String {
        match backends.iter().any(|backend| backend.connected) {
            true => "It reads its source, and streams what is there to the writer".to_owned(),
            false => "It reads its source. No writer takes its stream".to_owned(),
        }
    }

    async fn shown_backends(&self) -> Result<Vec<pb::Backend>, Status> {
        Ok(vec![self.ask(|reply| InspectionCall::Backend(Reader::Page, reply)).await?])
    }

    async fn shown_reasons(&self, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Status> {
        self.ask(|reply| InspectionCall::Explain(request, None, Reader::Page, reply)).await
    }

    /// Only a writer knows when a change is written.
    async fn histories(&self) -> Result<Option<Histories>, Status> {
        Ok(None)
    }
}
