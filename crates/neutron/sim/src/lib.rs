//! A model of the part of Neutron's API that Pods need, for tests: ports, networks, subnets, routers and their refusals as the real
//! service has them.
//!
//! [`NeutronModel::handle`] answers one request as Neutron would, in JSON. Nothing happens by itself: [`NeutronModel::wire`] does what
//! the agent of a node does once the interface of a port is there.
//!
//! ```
//! use gimbal_neutron_sim::NeutronModel;
//! use gimbal_octavia_sim::SimRequest;
//! use serde_json::json;
//!
//! let mut neutron = NeutronModel::new();
//! let network = neutron.add_network("p1", "10.0.0.0/24");
//! let ports = json!({"ports": [{"network_id": network, "project_id": "p1"}, {"network_id": network, "project_id": "p1"}]});
//! let made = neutron.handle(&SimRequest::post("/v2.0/ports", ports));
//! assert_eq!((made.status, &made.body["ports"][1]["fixed_ips"][0]["ip_address"]), (201, &json!("10.0.0.3")));
//! ```
//!
//! What it knows was read in neutron 28 and neutron-lib (`neutron_lib/exceptions`). A request for several ports makes all of them or
//! none. A change compares the revision that it names; a deletion compares none. A change of tags is one of the object's revisions.
//!
//! A test of gimbal-testkit compares it with the real one.
//!
//! Not modelled: rules of security groups, floating IPs, trunks, address scopes, IPv6.

mod addresses;
mod list;
mod model;
mod networks;
mod ports;
mod routers;

pub use model::NeutronModel;
