//! Admission of tenants other than the writer's backends: clusters that speak to the other writer.

use std::fmt::Display;
use std::sync::Arc;

use gimbal_admission::{Identity, Tenant, Visible, identify};
use gimbal_transport::{Peer, PeerCertificate};

struct Cluster(&'static str, &'static str);

impl Tenant for Cluster {
    const NOUN: &str = "cluster";

    fn name(&self) -> &dyn Display {
        &self.0
    }

    fn identity(&self) -> Option<&str> {
        Some(self.1)
    }
}

static CLUSTERS: [Cluster; 2] = [Cluster("prod", "spiffe://example/prod"), Cluster("test", "test.example")];

fn peer(sans: &[&str]) -> Peer {
    Peer::Certificate(Arc::new(PeerCertificate {
        sans: sans.iter().map(|san| (*san).to_owned()).collect(),
        fingerprint_sha256: String::new(),
        not_after: std::time::SystemTime::UNIX_EPOCH,
        address: ([192, 0, 2, 1], 1).into(),
    }))
}

fn identity(peer: &Peer) -> Identity<'static, Cluster> {
    let Ok(admin) = "admin.example".parse() else { unreachable!("it is a DNS name") };
    identify(peer, &[admin], &CLUSTERS)
}

fn speaker(sans: &[&str]) -> Result<&'static str, String> {
    match identity(&peer(sans)) {
        Identity::Certified { admin: true, .. } => Ok("admin"),
        Identity::Certified { tenant, .. } => tenant.map(|cluster| cluster.0),
        Identity::Anyone => panic!("the peer has a certificate"),
    }
}

#[test]
fn a_certificate_speaks_for_the_cluster_that_it_names() {
    assert_eq!(speaker(&["spiffe://example/prod"]), Ok("prod"));
    assert_eq!(speaker(&["TEST.example"]), Ok("test"), "DNS names have no case");
    assert_eq!(speaker(&["test.example", "admin.example"]), Ok("admin"));
    assert_eq!(speaker(&["spiffe://example/PROD"]), Err("no cluster has the identity spiffe://example/PROD".into()));
    let both = speaker(&["spiffe://example/prod", "test.example"]);
    assert_eq!(both, Err("the certificate has the identities of two clusters, prod and test".into()));
    assert!(speaker(&[]).is_err());
}

#[test]
fn an_admin_sees_everything_and_a_cluster_itself() {
    let seen = |peer: &Peer| {
        identity(peer).visible().map(|visible| match visible {
            Visible::Everything => "everything",
            Visible::Tenant(cluster) => cluster.0,
        })
    };
    assert_eq!(seen(&peer(&["test.example"])), Ok("test"));
    assert_eq!(seen(&peer(&["test.example", "admin.example"])), Ok("everything"));
    assert_eq!(seen(&peer(&["admin.example"])), Ok("everything"));
    assert_eq!(seen(&Peer::Loopback), Ok("everything"));
    let neither = "the certificate is neither an admin's nor a cluster's";
    assert_eq!(seen(&peer(&["other.example"])), Err(neither.to_owned()));
}
