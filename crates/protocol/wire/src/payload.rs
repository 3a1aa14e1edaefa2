//! What a payload needs to travel.

use gimbal_session::{AgentMessage, Payload, WriterMessage};

use crate::WireError;

/// A payload with a protobuf form. Each has a package with a bidirectional `Sync` method of its own; the messages that are
/// not about entries are those of `gimbal.discovery.v1`.
pub trait WirePayload: Payload {
    /// What an agent sends.
    type Request: prost::Message + Default + 'static;
    /// What the writer sends.
    type Response: prost::Message + Default + 'static;

    /// The path of the method: `/package.Service/Sync`.
    const SYNC: &'static str;

    /// Turns an agent's message into its wire form.
    fn encode_agent(message: AgentMessage<Self>) -> Self::Request;

    /// Reads what an agent sent. A message that breaks a rule as a whole is [`AgentMessage::Unreadable`]; one entry of a
    /// frame that does is an `Err` among the others.
    fn parse_agent(request: Self::Request) -> AgentMessage<Self>;

    /// Turns a writer's message into its wire form.
    fn encode_writer(message: WriterMessage<Self>) -> Self::Response;

    /// Reads what a writer sent.
    ///
    /// # Errors
    /// When it breaks a rule of the protocol, or is of a kind that this version does not know.
    fn parse_writer(response: Self::Response) -> Result<WriterMessage<Self>, WireError>;
}
