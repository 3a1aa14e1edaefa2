//! The wire form of a payload.

use gimbal_session::{AgentMessage, Payload, WriterMessage};

use crate::WireError;

/// A payload with a protobuf form. Each has its own package with a bidirectional `Sync` method; messages that are not
/// about entries are those of `gimbal.discovery.v1`.
pub trait WirePayload: Payload {
    /// The message of an agent.
    type Request: prost::Message + Default + 'static;
    /// The message of the writer.
    type Response: prost::Message + Default + 'static;

    /// The name of the gRPC service, with its package. Its method for streams is called `Sync`.
    const SERVICE: &'static str;

    /// Converts an agent's message to its wire form.
    fn encode_agent(message: AgentMessage<Self>) -> Self::Request;

    /// Parses an agent's message. A message that violates a rule as a whole becomes [`AgentMessage::Unreadable`]; an
    /// entry of a frame that does becomes an `Err` among the others.
    fn parse_agent(request: Self::Request) -> AgentMessage<Self>;

    /// Converts a writer's message to its wire form.
    fn encode_writer(message: WriterMessage<Self>) -> Self::Response;

    /// Parses a writer's message.
    ///
    /// # Errors
    /// Returns an error when the message violates a rule of the protocol, or its kind is not known in this version.
    fn parse_writer(response: Self::Response) -> Result<WriterMessage<Self>, WireError>;
}
