//! A scene for tests across processes: a source cluster, the Gimbal cluster, and Gimbal's real binaries between them,
//! over mTLS and with the rights of `deploy/rbac`.

mod alerts;
mod ask;
mod gimbalctl;
mod grpcurl;
mod ingresses;
mod many;
mod mirror;
mod objects;
mod openstack;
mod programs;
mod proxy;
mod running;
mod scene;
mod signs;
mod watching;
mod way_back;

pub use alerts::{Alerts, Target};
pub use ask::{expect_log, expect_metric, get, metric};
pub use gimbalctl::{Printed, gimbalctl, gimbalctl_beside, gimbalctl_watch};
pub use grpcurl::Grpcurl;
pub use ingresses::{INGRESSES, ROUTERS, SECRETS, ingress_path};
pub use many::{expect_slices, offer_many};
pub use mirror::{Mirror, addresses};
pub use objects::{Ep, slice, slice_of, svc};
pub use openstack::{dry_openstack_discoverer, member, pool, web};
pub use programs::Programs;
pub use proxy::{Passed, Proxy};
pub use running::{Discoverer, Writer};
pub use scene::{Scene, discoverer_rights, put, writer_rights};
pub use signs::in_parallel;
pub use watching::Watching;
pub use way_back::{CLUSTER, NAMESPACE, OFTEN, PROJECT, WayBack, WayBackProgram};

use std::time::Duration;

/// How long a test waits for what should take milliseconds: the machine may be busy with other tests.
pub const SOON: Duration = Duration::from_secs(30);
