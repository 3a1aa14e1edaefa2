//! A Service that refers to a certificate which a user has stored in Barbican.

use gimbal_kuryr_model::{DesiredLoadBalancer, ListenerKind};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_testkit::San;
use serde_json::json;

use super::controller::{wanted, with};
use super::stage::{PROD1, Stage};
use super::tls::expect_certificate;

const OWNER: &str = "cccccccc-0000-4000-8000-000000000002";
const NAME: &str = "referring";
const HOST: &str = "referring.test";
const MEMBER: (&str, &str) = ("10.0.0.4", "four");

fn wish(stage: &Stage, generation: i64, reference: &str) -> DesiredLoadBalancer {
    with(wanted(OWNER, generation, &stage.subnet, &[443], &[MEMBER.0]), |header| {
        header.listeners.iter_mut().for_each(|one| one.kind = ListenerKind::TerminatedHttps);
        header.tls_containers = [reference.into()].into();
    })
}

/// Once the configuration allows it; and then another one instead.
pub async fn a_certificate_that_a_user_has_stored_is_served(stage: &Stage) {
    let controller = stage.controller(PROD1);
    stage.cloud.data_plane().unwrap().member(MEMBER.0, 8080, MEMBER.1).await.unwrap();
    let mut stored = Vec::new();
    for name in ["theirs-1", "theirs-2"] {
        let pair = stage.programs.pki.issue(name, &[San::Dns(HOST)]).unwrap();
        let reference = stage.cloud.store_certificate("alpha", name, &pair).await.unwrap();
        stored.push((reference, gimbal_testkit::fingerprint(&pair.cert).unwrap()));
    }
    assert_ne!(stored[0].1, stored[1].1);

    // Octavia would read it for whoever asks openstack-writer.
    let marks = stage.marks();
    controller.want(NAME, wish(stage, 1, &stored[0].0));
    let words = controller.expect_reject(NAME, KuryrReason::CertificateNotAllowed).await;
    assert!(words.contains(&stored[0].0), "{words}");
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "nothing of it reaches OpenStack");
    let allowed: Vec<String> = stored.iter().map(|(reference, _)| format!("'{reference}'")).collect();
    let allowed = allowed.join(", ");
    stage.configure(&format!("kubernetes: {{enable_ingress: true}}\ncertificates: {{allow: [{allowed}]}}"));

    let mut made = Vec::new();
    for (generation, (reference, fingerprint)) in (1..).zip(&stored) {
        controller.want(NAME, wish(stage, generation, reference));
        let id = controller.expect_ready(NAME, generation).await;
        let [listener] = &stage.rows("listeners", &format!("loadbalancer_id={id}")).await[..] else {
            panic!("not one listener")
        };
        let found = (&listener["protocol"], &listener["default_tls_container_ref"]);
        assert_eq!(found, (&json!("TERMINATED_HTTPS"), &json!(reference)), "{listener}");
        let address = controller.report(NAME).unwrap().objects.load_balancer.unwrap().address.to_string();
        expect_certificate(stage, &address, HOST, MEMBER.1, fingerprint).await;
        made.push(id);
    }
    assert_eq!(made[0], made[1], "it is the same load balancer");
    let marks = stage.marks();
    stage.expect_looks(2).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "nothing is left to do");
    controller.remove(NAME, OWNER).await;
    assert_eq!(stage.secrets().await, ["theirs-1", "theirs-2"], "they are the user's");
}
