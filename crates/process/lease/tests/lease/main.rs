//! The lease: one candidate step by step, several in a simulation, and two on a real API server.

mod on_server;
mod one_candidate;
mod simulation;
