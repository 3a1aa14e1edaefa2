//! Every decision of the controller that turns Services into KuryrLoadBalancers, and their reports into statuses. There is no
//! I/O here, no clock and no task.
//!
//! ```text
//!   watches --- saw() ------------+                        +--> next_write() -> the caller writes -> wrote()
//!   writer ---- set_facts() ------+--> KuryrController ----+--> drain()          -> the session streams it
//!         |--- reported() -------+                        +--> drain_handled()  -> acknowledged
//!          \--- rejected() -------+                        |
//!   Lease  ---- set_leading() ----+                        +--> drain_notices()  -> Events
//! ```
//!
//! # The life of a load balancer
//!
//! A Service that wants one gets its finalizer, then a KuryrLoadBalancer with a finalizer of its own. Once the watch has shown
//! both, the KuryrLoadBalancer is offered, as the API server accepted it and never as it is about to be written. What the
//! writer reports becomes its status and that of the Service. When the owner goes (the Service is deleted, is gone, or wants
//! none any more), a [`Deleting`](gimbal_kuryr_model::DesiredEntry::Deleting) is offered; the finalizers go after the writer
//! has said [`Gone`](gimbal_kuryr_model::Phase::Gone) of this owner, and never before.
//!
//! A KuryrLoadBalancer that is deleted beside its living Service is made again, and the writer does not hear of it. One that
//! was made without a Service is served as well; it is its own owner.
//!
//! # What the caller does
//!
//! One task owns a [`KuryrController`] and calls everything.
//!
//! 1. It feeds every event of the four watches to [`saw`](KuryrController::saw), with the objects of *all* namespaces: what is
//!    left out counts as deleted. A kind that is not served, or may not be read, is [`Unreadable`], which is
//!    never the same as empty. After [`WentBack`] it lists all kinds anew, and does not end the list that showed
//!    it. Nodes are watched, or not, as [`needs_nodes`](KuryrController::needs_nodes) says.
//! 2. After anything has happened, and at the [`deadline`](KuryrController::deadline), it calls
//!    [`next_write`](KuryrController::next_write) until that returns `None` and carries out each write, as many at a time as it
//!    likes: there is never more than one for an object. It passes how each of them ended to
//!    [`wrote`](KuryrController::wrote), whatever happened meanwhile.
//! 3. [`drain`](KuryrController::drain) and [`drain_handled`](KuryrController::drain_handled) are what a discoverer's source
//!    returns from its methods of the same purpose, [`knowledge`](KuryrController::knowledge) is its coverage. Reports and facts
//!    come in by [`reported`](KuryrController::reported) and [`set_facts`](KuryrController::set_facts); what identifies a report
//!    towards the session is a token of any type, which comes back when the report has been written or changes nothing.
//!    What the writer does not even try comes in by [`rejected`](KuryrController::rejected), and goes by
//!    [`resolved`](KuryrController::resolved); [`stream_opened`](KuryrController::stream_opened) comes before either.
//! 4. [`set_leading`](KuryrController::set_leading) follows the Lease. A controller that does not lead writes and offers
//!    nothing. When leadership ends, the caller also starts its stream over, so that the next
//!    [`drain`](KuryrController::drain) can offer everything anew.
//!
//! [`Unreadable`]: gimbal_kuryr_resource::Sighting::Unreadable
//! [`WentBack`]: gimbal_kuryr_resource::Sighting::WentBack

mod balancer_writes;
mod controller;
mod decide;
mod explain;
mod followed;
mod foreseen;
mod held;
mod item;
mod outcome;
mod reading;
mod rejects;
mod routers;
mod service_writes;
mod settings;
mod sighting;
mod situation;
mod timing;
mod went_back;

pub use controller::KuryrController;
pub use settings::KuryrSettings;
pub use sighting::WatchedObject;
