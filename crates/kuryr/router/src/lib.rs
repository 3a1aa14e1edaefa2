//! Every decision of the controller that turns Ingresses into KuryrL7Routers, and their reports into statuses. There is no I/O
//! here, no clock and no task.
//!
//! ```text
//!   watches --- saw() ------------+                        +--> next_write() -> the caller writes -> wrote()
//!   Services -- decide() ---------+                        |
//!   writer ---- set_facts() ------+--> RouterController ---+--> drain()          -> the session streams it
//!         |--- reported() -------+                         +--> drain_handled()  -> acknowledged
//!          \--- rejected() -------+                        |
//!   Lease  ---- set_leading() ----+                        +--> drain_notices()  -> Events
//! ```
//!
//! # The life of a router
//!
//! The shared router is wanted for as long as the writer says that Ingresses are served, whether or not there are any; another
//! one for as long as Ingresses ask for it. An Ingress gets its finalizer before its routes are written into the spec of its
//! KuryrL7Router, which has a finalizer of its own. Once the watch has shown both, the KuryrL7Router is offered, as the API server
//! accepted it and never as it is about to be written. It is its own owner.
//!
//! The routes of an Ingress that goes leave the spec, and its finalizer goes when the writer has reported that they are not in
//! Octavia any more, or when the router is gone. A KuryrL7Router that is being deleted is offered as
//! [`Deleting`](gimbal_kuryr_model::DesiredEntry::Deleting); its finalizer goes after the writer has said
//! [`Gone`](gimbal_kuryr_model::Phase::Gone), and never before. If it is still wanted, it is made anew then.
//!
//! # What the caller does
//!
//! One task owns a [`RouterController`] beside the controller of Services, and calls everything as it does there, with one more
//! call: [`decide`](RouterController::decide) gives it the Services as the other controller knows them, after anything has
//! happened and before [`next_write`](RouterController::next_write) and [`drain`](RouterController::drain).

mod certificates;
mod controller;
mod counts;
mod decide;
mod explain;
mod ingress_writes;
mod item;
mod notices;
mod offering;
mod outcome;
mod places;
mod reading;
mod router_status;
mod router_writes;
mod secrets;
mod settings;
mod streaming;
mod translating;

pub use controller::RouterController;
pub use counts::{IngressCounts, RouterUp};
pub use reading::RoutedObject;
pub use settings::RouterSettings;
