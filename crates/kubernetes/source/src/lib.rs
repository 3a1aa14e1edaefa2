//! Kubernetes' objects, as a source has them, turned into what a backend offers.
//!
//! [`KubernetesIndex`] joins Services with the slices (or Endpoints) that come beside them, in any order, and tells for
//! each Service that was touched what it now is:
//!
//! ```text
//!   Service events ---> header ---+
//!                                 +--> entry by namespace/name --drain--> (SourceKey, model::Service or none)
//!   slice events -----> part -----+         (parts by slice name)
//! ```
//!
//! Nothing here waits, reads a clock or knows how the objects were fetched.

mod explain;
mod header;
mod index;
mod part;
mod pool;
mod relist;
mod selection;
mod selector;
mod skip;

pub use index::KubernetesIndex;
pub use selection::{Export, Flavour, Selection};
pub use selector::{InvalidSelector, LabelSelector};
pub use skip::Skip;
