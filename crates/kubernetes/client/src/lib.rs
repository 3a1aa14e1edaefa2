//! A client of Kubernetes API servers, and the only user of `kube`.
//!
//! A [`Cluster`] makes calls, each once and with a time-out. [`ApiError`] has a variant for each way in which callers react.
//! [`watch()`] watches a kind for ever and reports every answer of the server. `kube` supplies kubeconfigs and TLS; its
//! retries, its plug-ins and its watcher, which hides bookmarks, are not used.

mod access;
mod cluster;
mod credentials;
mod error;
mod list_page;
mod page_bytes;
mod page_tokens;
mod permit;
mod plugin;
mod public_reason;
mod reach;
mod request;
mod rights;
mod shallow;
mod watch;

pub use access::{Access, ConnectError};
pub use cluster::Cluster;
pub use error::ApiError;
pub use rights::Right;
pub use watch::{WatchEvent, WatchScope, watch};
