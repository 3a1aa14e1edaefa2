//! The mass-change guard of one tenant (`docs/design.md#guard`): of what was there at any time within the window, only
//! a share may be missing unless it was released. What is removed beyond that share is held.
//!
//! The guard counts *weight*, any additive `u64`: the endpoints of a Service in the mirror, or 1 for each load
//! balancer. It is kept by *key* ([`GuardKey`]); a key names the *source* whose weight it carries, so that what a
//! source lost under one key and has under another is not missing, and the *group* that it belongs to, for which a
//! floor can be set.
//!
//! ```text
//!   observed(key, before, after) --+              +--> verdict(key): Allowed | Held | Unkept (store record() first)
//!   pending(key, loss)           --+--> Guard <K> +--> held(): what is held, approve(id)
//!   snapshot_complete(..)        --+              +--> tick(): events for logs, metrics and the source
//! ```
//!
//! The guard performs no I/O and reads no clock. [`Guard::record`] and [`Guard::hold_record`] return what a process
//! must store so that its successor continues the count with [`Guard::restore`].

mod account;
mod config;
mod event;
mod floors;
mod guard;
mod hold;
mod key;
mod pending;
mod record;

pub use config::GuardConfig;
pub use event::{Fall, GuardEvent, HeldDrop, LastRelease, Passage, Release};
pub use floors::Floors;
pub use guard::Guard;
pub use hold::HoldRecord;
pub use key::GuardKey;
pub use record::WindowRecord;
