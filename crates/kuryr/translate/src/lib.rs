//! From Services and Ingresses to load balancers, and from reports about them back to them.
//!
//! ```text
//!   Service, slices, nodes --ServiceIndex--> Joined --translate--> spec of the KuryrLoadBalancer  (the controller writes it)
//!   KuryrLoadBalancer, as the API server accepted it --desired--> DesiredEntry                    (the controller streams it)
//!   LoadBalancerReport --status, service_status--> status of the KuryrLoadBalancer, status of the Service
//!
//!   Ingresses, classes --IngressIndex--+
//!   Secrets --SecretIndex--------------+
//!   Services, slices --ServiceIndex----+--translate_router--> spec of the KuryrL7Router
//!   KuryrL7Router, as the API server accepted it --desired_router--> DesiredEntry
//!   LoadBalancerReport --router_status, ingress_status--> status of the KuryrL7Router, status of each Ingress
//! ```
//!
//! Every function here is pure: the same arguments yield the same result, in whatever order the objects arrived. What
//! cannot be read or had is a [`Finding`], and everything else proceeds.

mod address;
mod annotations;
mod bounds;
mod chosen;
mod desired;
mod finding;
mod index;
mod ingress;
mod kept_service;
mod members;
mod nodes;
mod rediscover;
mod service_status;
mod slices;
mod spec;
mod status;
mod vip;
mod wanted;

pub use annotations::{AnnotationProblem, Annotations, NodeSelector};
pub use bounds::{
    LEAN_ABOVE, MOST_BYTES, MOST_DESIRED_MEMBERS, MOST_LISTED, MOST_MEMBERS, MOST_WITH_STATUS, encoded_len,
};
pub use chosen::Chosen;
pub use desired::{NotStreamed, Streamed, desired, is_uid, named_service, owner_alone};
pub use finding::{Finding, PortProblem, RangeProblem};
pub use index::{Joined, ServiceIndex};
pub use ingress::{
    CertificateProblem, HostProblem, IngressIndex, IngressProblem, IngressSettings, KnownSecret, PathProblem,
    RedirectProblem, RouterAnnotationProblem, RouterInput, RouterStatusInput, RouterTranslated, SecretIndex,
    SecretProblem, SecretState, ServableCertificate, desired_router, ingress_status, router_knowledge,
    router_owner_alone, router_status, translate_router,
};
pub use kept_service::KeptService;
pub use nodes::{NodeChange, Nodes};
pub use rediscover::{StatusKnowledge, status_knowledge};
pub use service_status::{ServiceOutcome, service_status, without_addresses};
pub use slices::SlicePart;
pub use spec::{Input, Translated, translate};
pub use status::{StatusInput, status};
pub use wanted::{ControllerSettings, NotBalanced, unwanted};
