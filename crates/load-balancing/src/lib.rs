//! An OpenStack cloud's load balancers, as rows of lists, turned into what a backend offers.

mod id;
mod list;
pub mod rows;

pub use id::{Id, InvalidId};
pub use list::{List, Unreadable};
