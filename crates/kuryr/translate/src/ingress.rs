//! From Ingresses to routers, and from reports about them back to Ingresses.

mod backend;
mod claims;
mod class;
mod desired;
mod index;
mod matching;
mod placement;
mod pools;
mod problem;
mod redirect;
mod routes;
mod secrets;
mod shorten;
mod spec;
mod status;
mod tls;

pub use desired::{desired_router, router_owner_alone};
pub use index::{IngressIndex, IngressSettings};
pub use problem::{HostProblem, IngressProblem, PathProblem, RedirectProblem, RouterAnnotationProblem, SecretProblem};
pub use secrets::{CertificateProblem, KnownSecret, SecretIndex, SecretState, ServableCertificate};
pub use spec::{RouterInput, RouterTranslated, translate_router};
pub use status::{RouterStatusInput, ingress_status, router_knowledge, router_status};
