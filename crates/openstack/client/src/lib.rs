//! A client for OpenStack clouds: Keystone v3, and load balancing v2 from Octavia or neutron-lbaas.
//!
//! ```no_run
//! # use gimbal_openstack_client::{Cloud, Credentials, Error, Options, Scope};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let credentials = Credentials::from_dir("/etc/openstack-secret".as_ref())?;
//! let cloud = Cloud::connect(credentials, Options::default()).await?; // asks Keystone: Error::InvalidCredentials
//! for project in cloud.projects().await?.rows {
//!     let session = cloud.session(&Scope::Project(project.id.to_string()));
//!     let load_balancing = session.load_balancing().await?; // Octavia, or neutron-lbaas on the network endpoint
//!     let pools = load_balancing.pools(None).await?; // every page, or an error
//!     println!("{}: {} pools at {:?}", project.name, pools.rows.len(), pools.server_time);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A list is complete or an error, never partial. A change ([`Session::mutate`]) is sent once, and its result says
//! whether it happened, did not happen, or may have happened. Tokens are cached, one for each [`Scope`], and renewed
//! before they expire by one caller at a time; a 401 renews once. Every call is counted in [`Calls`]. Secrets never
//! appear in errors, log lines or `Debug`.

mod answer;
mod calls;
mod catalog;
mod cloud;
mod complaint;
mod credentials;
mod error;
mod keystone;
mod load_balancing;
mod mutation;
mod page;
mod page_size;
mod place;
mod service;
mod session;
mod slot;
mod statuses;
mod token;
mod transport;
mod walk;

pub use calls::{CallKind, CallOutcome, CallSum, Calls, MutationSum};
pub use cloud::{Cloud, Options};
pub use complaint::Complaint;
pub use credentials::{Credentials, CredentialsError, Domain, Interface, Scope};
pub use error::Error;
pub use load_balancing::{Dialect, LoadBalancing, Lookup};
pub use mutation::{Mutation, MutationKind, MutationResult, Refusal, Verb};
pub use place::Place;
pub use service::{ServiceEndpoint, ServiceType};
pub use session::Session;
pub use statuses::{Status, Statuses};
