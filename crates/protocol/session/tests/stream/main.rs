//! Tests of each rule of the stream, and a model test of both ends with lost connections, lost messages and restarts.

mod agent;
mod agent_snapshot;
mod capabilities;
mod common;
mod credit;
mod flow;
mod model;
mod overtaking;
mod room;
mod world;
mod writer;
mod writer_trouble;
