//! The controller against a small API server and a model of the writer.

#![allow(clippy::panic, clippy::unwrap_used)] // A panic is the report.

mod any_life;
mod api;
mod checks;
mod former;
mod health;
mod life;
mod objects;
mod tls;
mod trouble;
mod webhooks;
mod world;
