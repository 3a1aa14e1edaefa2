//! The client side of `DiscoveryService`: one stream over a connection.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use gimbal_session::{AgentMessage, WriterMessage};
use gimbal_wire::{pb, writer_message};
use pb::discovery_service_client::DiscoveryServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;
use tower::ServiceExt as _;

use crate::compress::compressed;
use crate::{LinkError, MAX_MESSAGE};

/// Messages to the writer. It holds one: wait with `reserve`, and only then decide what to say, so that what is said is
/// the newest. Dropping it ends the agent's side of the stream; the writer then ends its own.
pub type AgentSender = mpsc::Sender<AgentMessage>;

/// What the writer says. After an error that [`LinkError::is_final`], or the end, the stream is over.
pub type WriterMessages = BoxStream<'static, Result<WriterMessage, LinkError>>;

/// Opens a stream over a connection that [`crate::dial`] made.
///
/// # Errors
/// When the writer refuses the call, or the connection breaks.
pub async fn open(channel: Channel) -> Result<(AgentSender, WriterMessages), LinkError> {
    let (sender, messages) = mpsc::channel(1);
    let mut client = DiscoveryServiceClient::new(channel.map_request(compressed))
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(MAX_MESSAGE);
    let responses = client.sync(ReceiverStream::new(messages).map(pb::SyncRequest::from)).await?.into_inner();
    let messages = responses.map(|response| match response {
        Ok(response) => writer_message(response).map_err(LinkError::from),
        Err(status) => Err(LinkError::from(status)),
    });
    Ok((sender, messages.boxed()))
}
