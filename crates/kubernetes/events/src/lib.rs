//! Kubernetes Events: their form, and a queue that writes them at a limited rate.
//!
//! An object has one Event for each reason, by its name: what happens again is counted in that Event.

mod event;
mod lines;
mod object_event;
mod queue;

pub use event::{short_message, write_event};
pub use object_event::{EventAuthor, EventSubject, EventText, object_event};
pub use queue::{EventQueue, EventQueueCounts};
