//! Each rule of the stream in a table, and both ends together in a world that cuts, restarts and loses.

mod agent;
mod agent_snapshot;
mod common;
mod flow;
mod model;
mod world;
mod writer;
mod writer_trouble;
