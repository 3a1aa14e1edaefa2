//! Octavia's objects as its API lists them: typed rows, statuses, IDs, and tables of rows that survive unreadable ones.
//!
//! ```
//! use gimbal_octavia_rows::{CompleteList, Pool, ProvisioningStatus, Table};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let row = r#"{"id": "p1", "protocol": "HTTP", "provisioning_status": "PENDING_UPDATE", "members": [{"id": "m1"}]}"#;
//! let pool: Pool = serde_json::from_str(row)?;
//! assert_eq!(pool.provisioning, ProvisioningStatus::Pending);
//!
//! let (table, unreadable) = Table::merge(CompleteList::from(vec![pool]), None);
//! assert_eq!((table.len(), unreadable.len()), (1, 0));
//! # Ok(())
//! # }
//! ```
//!
//! The same rows come from Octavia and from neutron-lbaas. This crate does no I/O and reads no clock; who fetches the rows
//! and what they mean is up to its callers.

mod existence;
mod id;
mod kind;
mod list;
mod reading;
mod rows;
mod table;

pub use existence::Existence;
pub use id::{Id, InvalidId};
pub use kind::ObjectKind;
pub use list::{CompleteList, UnreadableRow};
pub use reading::Reading;
pub use rows::{
    Address, L7Policy, Listener, LoadBalancer, Member, OperatingStatus, Pool, Project, Protocol, ProvisioningStatus,
};
pub use table::{Row, Table};
