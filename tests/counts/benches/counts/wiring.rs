//! Encoding and decoding of messages.

use gimbal_session::AgentMessage;
use gimbal_wire::{agent_message, pb};
use gungraun::{library_benchmark, library_benchmark_group};
use prost::Message as _;

use crate::streaming::{chunk, delta};

fn hundred() -> AgentMessage {
    chunk(100)
}

fn bytes(message: AgentMessage) -> Vec<u8> {
    pb::SyncRequest::from(message).encode_to_vec()
}

fn delta_bytes() -> Vec<u8> {
    bytes(delta())
}

fn chunk_bytes() -> Vec<u8> {
    bytes(hundred())
}

#[library_benchmark]
#[bench::delta(setup = delta)]
#[bench::chunk_of_100_services(setup = hundred)]
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
