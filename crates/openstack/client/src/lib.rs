//! A client for OpenStack clouds: Keystone v3, and load balancing v2 from Octavia or neutron-lbaas.
//!
//! ```no_run
//! # use gimbal_openstack_client::{Cloud, CloudCredentials, Error, ClientOptions, TokenScope};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let credentials = CloudCredentials::from_dir("/etc/openstack-secret".as_ref())?;
//! let cloud = Cloud::connect(credentials, ClientOptions::default()).await?; // asks Keystone: Error::InvalidCredentials
//! for project in cloud.projects().await?.rows {
//!     let session = cloud.session(&TokenScope::Project(project.id.to_string()));
//!     let load_balancing = session.load_balancing().await?; // Octavia, or neutron-lbaas on the network endpoint
//!     let pools = load_balancing.pools(None).await?; // every page, or an error
//!     println!("{}: {} pools at {:?}", project.name, pools.rows.len(), pools.server_time);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A list is complete or an error, never partial. Whoever changes objects reads them as JSON ([`Session::rows`]). A change ([`Session::mutate`]) is sent once, if its permit still
//! holds when the request is written, and its result says whether it happened, did not happen, or may have happened.
//! Tokens are cached, one for each [`TokenScope`], and renewed before they expire by one caller at a time; a 401 renews once.
//! Every call is counted in [`Calls`]. Secrets never appear in errors, log lines or `Debug`.

mod answer;
mod api_location;
mod call_labels;
mod calls;
mod catalog;
mod cloud;
mod complaint;
mod credentials;
mod error;
mod keystone;
mod list_page;
mod list_walk;
mod load_balancing;
mod mutation;
mod mutation_result;
mod page_size;
mod paged_list;
mod raw_rows;
mod secret_rows;
mod send_permit;
mod service;
mod service_fault;
mod session;
mod slot;
mod statuses;
mod token;
mod transport;

pub use api_location::ApiLocation;
pub use call_labels::{CallLabels, Verb};
pub use calls::{CallKind, CallOutcome, CallSum, CallTotals, Calls};
pub use cloud::{ClientOptions, Cloud};
pub use complaint::Complaint;
pub use credentials::{CloudCredentials, CredentialsError, Domain, Interface, TokenScope};
pub use error::Error;
pub use load_balancing::{Dialect, LoadBalancing, Lookup};
pub use mutation::Mutation;
pub use mutation_result::{MutationRefusal, MutationResult, NotSent};
pub use raw_rows::RawQuery;
pub use service::{ServiceEndpoint, ServiceType};
pub use session::Session;
pub use statuses::{ObjectStatus, Statuses};
