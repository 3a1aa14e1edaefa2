//! Definitions of custom resources, generated from the types of their objects.
//!
//! A kind says its names and columns by [`CustomKind`], its schema follows from the types of its spec and status, and [`yaml`]
//! is the file in `deploy/crds`.

mod definition;
mod schema;

pub use definition::{Column, CustomKind, DefinitionError, Scope, yaml};
pub use schema::any_object;
