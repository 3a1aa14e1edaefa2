//! The wire form of Services, `gimbal.discovery.v1`.

mod agent;
mod encode;
mod entry;
mod writer;

use gimbal_session::{AgentMessage, Services, WriterMessage};

pub use agent::agent_message;
pub use writer::writer_message;

use crate::parse::WireError;
use crate::{WirePayload, pb};

impl WirePayload for Services {
    type Request = pb::SyncRequest;
    type Response = pb::SyncResponse;

    const SERVICE: &'static str = "gimbal.discovery.v1.DiscoveryService";

    fn encode_agent(message: AgentMessage) -> pb::SyncRequest {
        message.into()
    }

    fn parse_agent(request: pb::SyncRequest) -> AgentMessage {
        agent_message(request)
    }

    fn encode_writer(message: WriterMessage) -> pb::SyncResponse {
        message.into()
    }

    fn parse_writer(response: pb::SyncResponse) -> Result<WriterMessage, WireError> {
        writer_message(response)
    }
}
