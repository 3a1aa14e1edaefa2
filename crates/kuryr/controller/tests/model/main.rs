//! The controller against a small API server and a model of the writer.

#![allow(clippy::panic, clippy::unwrap_used)] // A panic is the report.

mod any_life;
mod api;
mod behind;
mod checks;
mod common;
mod doubt;
mod edited;
mod heap;
mod kept;
mod late;
mod life;
mod memory;
mod missing;
mod other_class;
mod rejects;
mod restored;
mod shared_owners;
mod webhooks;
mod went_back;
mod world;

use gimbal_kuryr_testkit as writer;
