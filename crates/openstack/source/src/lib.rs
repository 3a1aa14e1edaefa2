//! An OpenStack cloud's load balancers, as rows of lists, turned into what a backend offers.
//!
//! ```text
//!   rows (lists, members) --answer--> Cloud --finish--> (SourceKey, model::Service or none)
//!                         <--next_ask--
//! ```
//!
//! [`Cloud`] decides what to fetch and what may be believed; the translation follows DESIGN 3.3. Nothing here waits, reads a
//! clock or knows how the rows were fetched.

mod explain;
mod lists;
mod members;
mod options;
mod outcome;
mod poller;
mod projects;
mod query;
mod safe_name;
mod skip;
mod translate;

pub use options::{EmptyProjectPattern, Mode, Options, ProjectPattern, ServiceName};
pub use outcome::{Outcome, Trouble};
pub use poller::Cloud;
pub use query::{Answer, Ask, NoMembers, Whose};
pub use safe_name::safe_name;
pub use skip::{LeftOut, Skip};
