//! Between messages and bytes.

use gimbal_stream::AgentMessage;
use gimbal_wire::{agent_message, pb};
use gungraun::{library_benchmark, library_benchmark_group};
use prost::Message as _;

use crate::streaming::messages;

fn delta() -> AgentMessage {
    messages(1).0
}

fn chunk() -> AgentMessage {
    messages(100).1
}

fn bytes(message: AgentMessage) -> Vec<u8> {
    pb::SyncRequest::from(message).encode_to_vec()
}

fn delta_bytes() -> Vec<u8> {
    bytes(delta())
}

fn chunk_bytes() -> Vec<u8> {
    bytes(chunk())
}

#[library_benchmark]
#[bench::delta(setup = delta)]
#[bench::chunk_of_100_services(setup = chunk)]
fn encode(message: AgentMessage) -> Vec<u8> {
    bytes(message)
}

#[library_benchmark]
#[bench::delta(setup = delta_bytes)]
#[bench::chunk_of_100_services(setup = chunk_bytes)]
fn decode(bytes: Vec<u8>) -> (AgentMessage, Vec<u8>) {
    (agent_message(pb::SyncRequest::decode(&*bytes).unwrap()), bytes)
}

library_benchmark_group!(name = wire; benchmarks = encode, decode);
