//! The server side of a session: `Sync` of `DiscoveryService`, or of another payload's service.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use gimbal_session::{AgentMessage, Services, WriterMessage};
use gimbal_wire::WirePayload;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};

use crate::certificate_state::{CertificateState, farewell, refused};
use crate::connection::ConnectionInfo;
use crate::{LinkError, Peer};

/// Messages from an agent. The stream ends with the call, at shutdown, or after an error. After [`LinkError::Refused`]
/// there is time to send a goodbye.
pub type AgentMessages<P = Services> = BoxStream<'static, Result<AgentMessage<P>, LinkError>>;

/// Capacity of the channel to an agent. It is small, so that queued messages are recent.
const OUTGOING: usize = 16;

/// Serves the streams of agents.
#[tonic::async_trait]
pub trait Discovery<P: WirePayload = Services>: Send + Sync + 'static {
    /// Serves one stream. When it returns, the stream ends after all messages have been sent.
    ///
    /// While `incoming` is not read, the agent is blocked: nothing is buffered beyond the HTTP/2 window.
    async fn sync(&self, peer: Peer, incoming: AgentMessages<P>, outgoing: mpsc::Sender<WriterMessage<P>>);
}

/// Connects gRPC with a [`Discovery`].
pub(crate) struct DiscoveryEdge<P: WirePayload> {
    pub(crate) discovery: Arc<dyn Discovery<P>>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) abort: CancellationToken,
    pub(crate) streams: TaskTracker,
}

/// The writer's messages, encoded.
pub(crate) type Responses<P> = Pin<Box<dyn Stream<Item = Result<<P as WirePayload>::Response, Status>> + Send>>;

impl<P: WirePayload> DiscoveryEdge<P> {
    pub(crate) fn stream(&self, request: Request<Streaming<P::Request>>) -> Result<Response<Responses<P>>, Status> {
        let ConnectionInfo { peer, certificate_state } = known(&request)?;
        // The error that ends the incoming side becomes the status of the call, so that the agent sees the reason.
        let cause = Arc::new(OnceLock::new());
        let incoming = incoming::<P>(request.into_inner(), cause.clone(), certificate_state, self.shutdown.clone());
        let (outgoing, messages) = mpsc::channel(OUTGOING);
        let (discovery, abort) = (self.discovery.clone(), self.abort.clone());
        self.streams.spawn(abort.run_until_cancelled_owned(async move {
            discovery.sync(peer, incoming, outgoing).await;
        }));
        let end = futures::stream::once(async move { cause.get().cloned().map(Err) });
        let responses = ReceiverStream::new(messages).map(|message| Ok(P::encode_writer(message)));
        Ok(Response::new(Box::pin(responses.chain(end.filter_map(std::future::ready)))))
    }
}

fn incoming<P: WirePayload>(
    requests: Streaming<P::Request>,
    cause: Arc<OnceLock<Status>>,
    certificate_state: CertificateState,
    shutdown: CancellationToken,
) -> AgentMessages<P> {
    let messages = requests.map(move |request| match request {
        Ok(request) => Ok(P::parse_agent(request)),
        Err(status) => {
            cause.get_or_init(|| status.clone());
            Err(LinkError::from(status))
        }
    });
    let lost = certificate_state.clone().lost();
    let end = async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = lost => {}
        }
    };
    let refusal = async move { certificate_state.problem().map(|problem| Err(LinkError::Refused(farewell(problem)))) };
    let refusal = futures::stream::once(refusal).filter_map(std::future::ready);
    messages.take_until(Box::pin(end)).chain(refusal).boxed()
}

/// Returns the peer of a call. Returns an error if its certificate is no longer accepted.
pub(crate) fn known<T>(request: &Request<T>) -> Result<ConnectionInfo, Status> {
    let known = request.extensions().get::<ConnectionInfo>().cloned();
    let known = known.ok_or_else(|| Status::internal("the connection has no peer"))?;
    match known.certificate_state.problem() {
        Some(problem) => Err(refused(problem)),
        None => Ok(known),
    }
}
