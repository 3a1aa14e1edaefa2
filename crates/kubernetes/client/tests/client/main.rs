//! The client against scripted servers, and against a real API server.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod connect;
mod connection;
mod server;
mod status;
mod unserved;
