//! Definitions of custom resources, generated from the types of their objects.
//!
//! A kind says its names and columns by [`CustomKind`], its schema follows from the types of its spec and status, and [`yaml`]
//! is the file in `deploy/crds`. [`missing_fields`] compares it with what a cluster has.

mod definition;
mod schema;
mod served;

pub use definition::{Column, CustomKind, DefinitionError, ObjectScope, Validation, yaml};
pub use schema::any_object;
pub use served::{ServedDefinition, definition_name, missing_fields};
