//! Certificates of Ingresses, step by step.

use gimbal_kuryr_model::{CloudFacts, DesiredEntry};
use gimbal_kuryr_resource::{ClusterKnowledge, KuryrKind, Sighting};
use gimbal_kuryr_translate::KnownSecret;
use gimbal_model::SourceKey;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::life::served;
use crate::objects::{facts, hash, secret, set_tls};
use crate::world::{KINDS, SHARED, World};

fn hashes(world: &World) -> Vec<String> {
    let tls = world.api.get(Kind::Router, SHARED).unwrap()["spec"]["tls"].clone();
    let tls = tls.as_array().cloned().unwrap_or_default();
    tls.iter().map(|one| one["contentHash"].as_str().unwrap().to_owned()).collect()
}

fn set_secret(world: &mut World, content: u8) {
    world.api.edit(Kind::Secret, "team/cert-a", |it| it["spec"]["content"] = json!(content));
    world.rest();
    world.check();
}

/// A world with an Ingress that has a certificate.
fn with_certificate() -> World {
    let mut world = served();
    world.api.create(Kind::Secret, "team/cert-a", secret(1));
    world.api.edit(Kind::Ingress, "team/a", |it| set_tls(it, Some("cert-a")));
    world.rest();
    world.check();
    assert_eq!(hashes(&world), [hash(1).to_string()]);
    world.purposes.clear();
    world.notices.clear();
    world
}

fn conditions(world: &World) -> Vec<String> {
    let all = world.api.get(Kind::Router, SHARED).unwrap()["status"]["conditions"].as_array().unwrap().clone();
    let is_true = |one: &&Value| one["status"] == "True" && one["type"] != "Ready" && one["type"] != "Synced";
    all.iter().filter(is_true).map(|one| one["reason"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_certificate_that_is_rotated_takes_the_place_of_the_one_before() {
    let mut world = with_certificate();
    set_secret(&mut world, 2);
    assert_eq!(hashes(&world), [hash(2).to_string()]);
    assert_eq!((conditions(&world), world.reasons(KuryrKind::Ingress)), (vec![], vec![]));
    assert_eq!(world.purposes.len(), 2, "spec and status: {:?}", world.purposes);
    assert_eq!(world.controller.secrets_with(hash(1)), []);
    world.check_restart(&KINDS);
}

#[test]
fn a_secret_that_is_broken_or_gone_leaves_what_was_served() {
    let mut world = with_certificate();
    set_secret(&mut world, 0);
    assert_eq!(hashes(&world), [hash(1).to_string()]);
    assert_eq!(
        (conditions(&world), world.reasons(KuryrKind::Ingress)),
        (vec!["CertificateKept".into()], vec!["KuryrCertificateNotAsAsked"])
    );
    world.check_restart(&KINDS);
    world.api.delete(Kind::Secret, "team/cert-a");
    world.rest();
    world.check();
    assert_eq!(hashes(&world), [hash(1).to_string()]);
    world.check_restart(&[Kind::Secret, Kind::Router, Kind::Ingress, Kind::Class]);
    world.api.create(Kind::Secret, "team/cert-a", secret(3));
    world.rest();
    world.check();
    assert_eq!((hashes(&world), conditions(&world)), (vec![hash(3).to_string()], vec![]));
    world.api.edit(Kind::Ingress, "team/a", |it| set_tls(it, None));
    world.rest();
    world.check();
    assert_eq!(hashes(&world), [] as [String; 0]);
}

#[test]
fn one_without_its_secret_is_served_over_http_until_that_comes() {
    let mut world = served();
    world.api.edit(Kind::Ingress, "team/a", |it| set_tls(it, Some("cert-a")));
    world.rest();
    world.check();
    assert_eq!(
        (conditions(&world), world.reasons(KuryrKind::Ingress)),
        (vec!["NoSecret".into()], vec!["KuryrTlsNotServed"])
    );
    world.api.create(Kind::Secret, "team/cert-a", secret(1));
    world.rest();
    world.check();
    assert_eq!((hashes(&world), conditions(&world)), (vec![hash(1).to_string()], vec![]));
    assert_eq!(world.reasons(KuryrKind::Ingress).len(), 1, "{:?}", world.notices);
}

/// A controller without the right to read Secrets serves everything else.
#[test]
fn secrets_that_cannot_be_read_hold_nothing_else_up() {
    let mut world = with_certificate();
    let order = [Kind::Class, Kind::Ingress, Kind::Router];
    world.restart(&order);
    world.api.create(Kind::Ingress, "team/b", crate::objects::ingress("kuryr", None, "s2"));
    while KINDS[..3].iter().any(|kind| world.watch(*kind)) {}
    assert!(!world.plan() || !world.purposes.iter().any(|one| one.contains("spec")), "{:?}", world.purposes);
    world.controller.saw::<KnownSecret>(Sighting::Unreadable("no rights".into()));
    world.rest_without_secrets();
    let router = world.api.get(Kind::Router, SHARED).unwrap();
    assert_eq!(crate::api::named(router).len(), 2, "{:?}", world.explain(SHARED));
    assert_eq!(hashes(&world), [hash(1).to_string()], "what is served stays");
    assert!(world.explain(SHARED).iter().any(|said| said.contains("Secret cannot be read")));
    world.quiet();
    world.check();
}

#[test]
fn a_hash_that_is_not_offered_gets_nothing() {
    let mut world = with_certificate();
    assert_eq!(world.controller.secrets_with(hash(1)).len(), 1);
    world.api.create(Kind::Secret, "team/cert-b", secret(2));
    world.rest();
    assert_eq!(world.controller.secrets_with(hash(2)), [], "no Ingress names it");
    // The same content in another Secret that an Ingress names will do.
    world.api.create(Kind::Ingress, "team/b", crate::objects::ingress("kuryr", None, "s2"));
    world.api.edit(Kind::Ingress, "team/b", |it| set_tls(it, Some("cert-b")));
    world.api.edit(Kind::Secret, "team/cert-b", |it| it["spec"]["content"] = json!(1));
    world.rest();
    world.check();
    assert_eq!(world.controller.secrets_with(hash(1)).len(), 2);
    world.lead(false);
    assert_eq!(world.controller.secrets_with(hash(1)), []);
}

/// It gets its label back, and the writer hears of nothing.
#[test]
fn a_label_that_is_taken_off_takes_no_certificate_away() {
    for is_refused in [false, true] {
        let mut world = with_certificate();
        world.heard.clear();
        if is_refused {
            world.api.webhook = Some(|kind, object| {
                if kind == Kind::Router {
                    object["metadata"].as_object_mut().unwrap().remove("labels");
                }
            });
        }
        world.api.edit(Kind::Router, SHARED, |it| {
            it["metadata"].as_object_mut().unwrap().remove("labels");
        });
        world.patience = std::time::Duration::from_secs(10);
        world.rest();
        assert_eq!(world.heard, [""; 0]);
        world.api.webhook = None;
        world.pass(std::time::Duration::from_secs(600));
        world.rest();
        world.check();
        assert_eq!(hashes(&world), [hash(1).to_string()]);
    }
}

/// Returns how many certificates are offered.
fn offered(world: &World) -> usize {
    let of_entry = |entry: &DesiredEntry| match entry {
        DesiredEntry::LoadBalancer(wanted) => wanted.header.routing.as_ref().map_or(0, |it| it.certificates.len()),
        DesiredEntry::Deleting { .. } => 0,
    };
    world.offered.values().map(|entry| of_entry(entry)).sum()
}

/// The writer was started anew, and does not find the key manager.
#[test]
fn a_wiped_status_takes_no_certificate_away() {
    let mut world = with_certificate();
    world.controller.set_facts(&CloudFacts { certificates: false, ..facts(true) });
    world.rest();
    assert_eq!(offered(&world), 1);
    world.api.edit(Kind::Router, SHARED, |it| drop(it.as_object_mut().unwrap().remove("status")));
    while world.watch(Kind::Router) {}
    world.drain();
    assert_eq!(offered(&world), 1);
    world.rest();
    world.check();
    assert_eq!((offered(&world), hashes(&world)), (1, vec![hash(1).to_string()]));
}

/// Whoever may make a KuryrL7Router may label it.
#[test]
fn a_copy_that_a_tenant_has_labeled_gets_nothing_of_others_and_keeps_no_ingress() {
    for label in ["shared", "own", "group"] {
        for restarts in [false, true] {
            let mut world = with_certificate();
            let spec = world.api.get(Kind::Router, SHARED).unwrap()["spec"].clone();
            let labels = json!({"kuryr.openstack.org/l7-router": label});
            world.api.create(Kind::Router, "evil/copy", json!({"metadata": {"labels": labels}, "spec": spec}));
            world.rest();
            if restarts {
                world.restart(&KINDS);
                world.rest();
            }
            assert_eq!(offered(&world), 1, "{label} {restarts}");
            world.api.delete(Kind::Ingress, "team/a");
            world.rest();
            assert!(world.api.get(Kind::Ingress, "team/a").is_none(), "{label} {restarts}");
        }
    }
}

/// As one of a controller that was moved, or one that somebody gave a status.
#[test]
fn a_labeled_router_with_a_status_gets_no_certificate_of_others() {
    let mut world = with_certificate();
    let shared = world.api.get(Kind::Router, SHARED).unwrap().clone();
    let mut copy = json!({"spec": shared["spec"], "status": shared["status"]});
    copy["metadata"] = json!({
        "labels": {"kuryr.openstack.org/l7-router": "shared"}, "finalizers": shared["metadata"]["finalizers"],
        // Its creation is one more.
        "generation": shared["metadata"]["generation"].as_i64().unwrap() - 1,
    });
    world.api.create(Kind::Router, "evil/copy", copy);
    world.restart(&KINDS);
    world.rest();
    let of_copy = world.offered.iter().filter(|(key, _)| &*key.namespace == "evil");
    assert_eq!(of_copy.count(), 1, "it is offered");
    assert_eq!(offered(&world), 1, "with no certificate");
}

/// A router that a tenant has made with the hash of another one's certificate, and under the name of a Secret of its own namespace.
fn intruder(world: &World, secret: &str, label: Option<&str>) -> Value {
    let mut spec = world.api.get(Kind::Router, SHARED).unwrap()["spec"].clone();
    spec["tls"] = json!([{"hosts": ["www.example.com"], "secretName": secret, "contentHash": hash(1).to_string()}]);
    let labels = label.map(|label| json!({"kuryr.openstack.org/l7-router": label})).unwrap_or_else(|| json!({}));
    json!({"metadata": {"labels": labels}, "spec": spec})
}

#[test]
fn a_hash_under_the_name_of_an_own_secret_gets_nothing_of_others() {
    for secret in ["evil/x", "x", "team/cert-a"] {
        for label in [None, Some("own"), Some("shared")] {
            let mut world = with_certificate();
            world.api.create(Kind::Router, "evil/copy", intruder(&world, secret, label));
            world.rest();
            assert_eq!(offered(&world), 1, "{secret} {label:?}");
            // A label is no other generation.
            world.api.edit(Kind::Router, "evil/copy", |it| {
                it["metadata"]["labels"] = json!({"kuryr.openstack.org/l7-router": "shared"});
            });
            world.rest();
            assert_eq!(offered(&world), 1, "{secret} {label:?}");
            world.restart(&KINDS);
            world.rest();
            assert_eq!(offered(&world), 1, "{secret} {label:?}");
            assert_eq!(world.controller.secrets_with(hash(1)).len(), 1);
        }
    }
}

/// No Secret has the certificate while the Secret is broken, and the shared router is not made with it.
#[test]
fn a_hash_that_becomes_another_ones_is_taken_back() {
    let mut world = served();
    let mut copy = intruder(&world, "evil/x", None);
    copy["metadata"] = json!({});
    world.api.create(Kind::Router, "evil/copy", copy);
    world.rest();
    world.api.edit(Kind::Router, "evil/copy", |it| {
        it["metadata"]["labels"] = json!({"kuryr.openstack.org/l7-router": "shared"});
    });
    world.rest();
    assert_eq!(offered(&world), 1, "no Secret has it");
    assert_eq!(world.controller.secrets_with(hash(1)), [SourceKey::new("evil", "x")], "which is not there");
    world.api.create(Kind::Secret, "team/cert-a", secret(1));
    world.api.edit(Kind::Ingress, "team/a", |it| set_tls(it, Some("cert-a")));
    while world.watch(Kind::Secret) {}
    assert_eq!(world.controller.secrets_with(hash(1)), [], "it is not taken back yet");
    world.rest();
    assert_eq!(hashes(&world), [hash(1).to_string()]);
    assert_eq!(offered(&world), 1, "the shared one's");
    assert_eq!(world.controller.secrets_with(hash(1)), [SourceKey::new("team", "cert-a")]);
}

/// What is not known of a namespace keeps the orphans of the whole cluster.
#[test]
fn a_router_with_the_label_of_a_shared_one_elsewhere_holds_nothing_up() {
    for is_empty in [true, false] {
        let mut world = with_certificate();
        let finalizers = world.api.get(Kind::Router, SHARED).unwrap()["metadata"]["finalizers"].clone();
        let mut copy = intruder(&world, "evil/x", Some("shared"));
        copy["metadata"]["finalizers"] = finalizers;
        if is_empty {
            copy["spec"] = json!({});
        }
        world.api.create(Kind::Router, "evil/copy", copy);
        world.rest();
        assert_eq!(world.controller.knowledge(), ClusterKnowledge::Complete, "{is_empty}");
        world.restart(&KINDS);
        world.rest();
        assert_eq!(world.controller.knowledge(), ClusterKnowledge::Complete, "{is_empty}, after a restart");
        assert_eq!(offered(&world), 1, "with no certificate");
    }
}
