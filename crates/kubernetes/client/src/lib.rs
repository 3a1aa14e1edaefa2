//! The edge to Kubernetes API servers, and the only user of `kube`.
//!
//! A [`Cluster`] makes calls, each once and under a time-out, with errors that tell apart what callers act on; [`watch()`]
//! follows a kind for ever and shows every sign of life. kube reads kubeconfigs and gives TLS; its retries, its plug-ins and its
//! watcher, which hides bookmarks, are not used.

mod access;
mod cluster;
mod credentials;
mod error;
mod page;
mod page_size;
mod permit;
mod plugin;
mod reach;
mod request;
mod told;
mod watch;

pub use access::{Access, ConnectError};
pub use cluster::Cluster;
pub use error::ApiError;
pub use watch::{WatchEvent, WatchScope, watch};
