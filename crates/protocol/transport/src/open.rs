//! The client side of a session: one stream over a connection.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_session::{AgentMessage, Services, WriterMessage};
use gimbal_wire::{TolerantCodec, WirePayload};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tower::ServiceExt as _;

use crate::compress::compressed;
use crate::sync::sync_path;
use crate::{LinkError, MAX_MESSAGE};

/// Messages to the writer. The channel holds one: wait with `reserve` and create the message after that, so that it has
/// the newest state. Dropping the sender ends the agent's side of the stream; the writer then ends its own.
pub type AgentSender<P = Services> = mpsc::Sender<AgentMessage<P>>;

/// Messages from the writer. The stream is over after its end or an error that [`LinkError::is_final`].
pub type WriterMessages<P = Services> = BoxStream<'static, Result<WriterMessage<P>, LinkError>>;

/// Opens a stream over a connection made by [`crate::dial`], on the `Sync` method of the payload.
///
/// # Errors
/// Returns an error when the writer refuses the call, or the connection breaks.
pub async fn open<P: WirePayload>(channel: Channel) -> Result<(AgentSender<P>, WriterMessages<P>), LinkError> {
    let (sender, messages) = mpsc::channel(1);
    let mut client = Grpc::new(channel.map_request(compressed))
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(MAX_MESSAGE);
    client.ready().await.map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
    let requests = Request::new(ReceiverStream::new(messages).map(P::encode_agent));
    let codec = TolerantCodec::<P::Request, P::Response>::default();
    let path = sync_path::<P>().parse().map_err(|error| Status::internal(format!("{}: {error}", P::SERVICE)))?;
    let responses = client.streaming(requests, path, codec).await?.into_inner();
    let messages = responses.map(|response| match response {
        Ok(response) => P::parse_writer(response).map_err(LinkError::from),
        Err(status) => Err(LinkError::from(status)),
    });
    Ok((sender, messages.boxed()))
}
