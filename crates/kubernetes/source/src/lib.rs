//! Translates the Services of a Kubernetes cluster into the Services that a backend offers.
//!
//! [`KubernetesIndex`] translates Services and slices (or Endpoints) as they arrive, joins them, and returns each Service
//! that changed:
//!
//! ```text
//!   Service events --selection, header--+
//!                                       +--> gimbal-kubernetes-join --offer--> (SourceKey, model::Service or none)
//!   slice events ---------part----------+
//! ```
//!
//! Nothing here waits, reads a clock or knows how the objects were fetched.

mod address;
mod explain;
mod header;
mod index;
mod join_output;
mod omission;
mod pool;
mod selection;
mod selector;
mod slice_content;

pub use index::KubernetesIndex;
pub use omission::Omission;
pub use selection::{Export, Flavour, Selection};
pub use selector::{InvalidSelector, LabelSelector};
