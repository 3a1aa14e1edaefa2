//! A model of the APIs of Octavia and of a part of Neutron and Barbican, for tests: locks, statuses, quotas and refusals as the real
//! services have them, with a virtual clock and a provider that fails on request.
//!
//! [`CloudModel::handle`] answers one request as the real services would, in JSON, so that a client can be run against it
//! unchanged. Nothing happens by itself: [`CloudModel::advance`] moves the clock and lets the provider finish what
//! is due.
//!
//! ```
//! use std::time::Duration;
//!
//! use gimbal_octavia_sim::{CloudModel, SimRequest};
//! use serde_json::json;
//!
//! let mut cloud = CloudModel::new();
//! let subnet = cloud.add_subnet("10.0.0.0/24");
//! let made = cloud.handle(&SimRequest::post(
//!     "/v2/lbaas/loadbalancers",
//!     json!({"loadbalancer": {"name": "web", "project_id": "p1", "vip_subnet_id": subnet}}),
//! ));
//! assert_eq!((made.status, &made.body["loadbalancer"]["provisioning_status"]), (201, &json!("PENDING_CREATE")));
//!
//! cloud.advance(Duration::from_secs(60));
//! let path = format!("/v2/lbaas/loadbalancers/{}", made.body["loadbalancer"]["id"].as_str().unwrap_or_default());
//! assert_eq!(cloud.handle(&SimRequest::get(&path)).body["loadbalancer"]["provisioning_status"], "ACTIVE");
//! ```
//!
//! What it knows of Octavia was read in version 18.0.1 (`octavia/api/v2/controllers`, `octavia/db/repositories.py`), and is
//! compared with the real services by a test of gimbal-testkit: the same random requests, equal rows. As in the real one, a
//! creation that is refused leaves the port of the VIP behind, if Octavia made it.
//!
//! Secrets of a key manager have names and nothing in them.
//!
//! Not modelled: what flavors and availability zones mean, quality of service, routers.

mod balancers;
mod cloud;
mod data_plane;
mod dice;
mod graph;
mod http;
mod key_manager;
mod list;
mod listeners;
mod members;
mod monitors;
mod network;
mod objects;
mod policies;
mod pools;
mod provider;
mod quota;
mod render;
mod requests;
mod rules;
mod schema;
mod version;

pub use cloud::CloudModel;
pub use data_plane::{ForwardTarget, Forwarding};
pub use dice::Dice;
pub use http::{Method, SimRequest, SimResponse};
pub use key_manager::KeyManagerMode;
pub use provider::{Fate, Provider};
pub use quota::ProjectQuota;
pub use requests::Answered;
