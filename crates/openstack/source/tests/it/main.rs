//! The poll of a cloud as its callers see it: cases, worlds that fail, and any cloud at all. `memory.rs` is a test
//! binary of its own.

mod any_cloud;
mod belief;
mod calls;
mod common;
mod doubt;
mod naming;
mod projects;
mod standing;
mod translation;
mod unseen;
