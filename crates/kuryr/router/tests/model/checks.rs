//! How everything has to be once it has come to rest.

use std::collections::BTreeSet;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind};
use gimbal_kuryr_resource::{ClusterKnowledge, ClusterWrite, KuryrKind};
use serde_json::{Value, json};

use crate::api::{self, INGRESS_FINALIZER, Kind, ROUTER_FINALIZER, name_of, named, text};
use crate::objects::{self, known_secret};
use crate::world::{SHARED, World};

impl World {
    /// Everything is as it should be.
    pub fn check(&mut self) {
        assert_eq!(self.controller.knowledge(), ClusterKnowledge::Complete);
        assert_eq!(self.in_flight, Vec::new());
        let is_enabled = self.enabled == Some(true);
        let mut wanted: BTreeSet<String> = if is_enabled { [SHARED.to_owned()].into() } else { BTreeSet::new() };
        for ingress in self.api.of(Kind::Ingress) {
            let name = name_of(&ingress);
            assert!(!api::is_going(&ingress), "{name} is stuck");
            let router = api::asks_for(&ingress).filter(|_| is_enabled);
            let has_address = ingress.pointer("/status/loadBalancer/ingress").is_some_and(|all| all != &json!([]));
            assert_eq!(api::has(&ingress, INGRESS_FINALIZER), router.is_some(), "the finalizer of {name}");
            assert_eq!(has_address, router.is_some(), "the address of {name}: {ingress}");
            if let Some(router) = &router {
                let held = self.api.get(Kind::Router, router).unwrap_or_else(|| panic!("{router} is not there"));
                assert!(named(held).contains(&name), "{router} lacks the routes of {name}: {:?}", self.explain(router));
                self.check_certificate(&ingress, held);
            }
            wanted.extend(router);
        }
        let mut owners = BTreeSet::new();
        for router in self.api.of(Kind::Router) {
            let (name, uid) = (name_of(&router), text(&router, "/metadata/uid"));
            assert!(!api::is_going(&router), "{name} is stuck: {:?}", self.explain(&name));
            let by_hand = router["metadata"]["labels"].is_null();
            assert!(by_hand || wanted.contains(&name), "{name} is still there: {:?}", self.explain(&name));
            if !is_enabled {
                continue;
            }
            assert!(api::has(&router, ROUTER_FINALIZER), "{name} has no finalizer: {:?}", self.explain(&name));
            let ready = &router["status"]["conditions"][0];
            assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")), "{name}: {router}");
            for ingress in named(&router) {
                let asks = self.api.get(Kind::Ingress, &ingress).and_then(api::asks_for);
                assert!(
                    by_hand || asks.as_ref() == Some(&name),
                    "{name} has routes of {ingress}, which asks for {asks:?}"
                );
            }
            self.check_offered(&router);
            owners.insert(uid.to_owned());
            wanted.remove(&name);
        }
        assert!(wanted.is_empty(), "not made: {wanted:?}");
        let is_kept = |owner: &&String| !self.api.leaves(owner);
        let left: Vec<_> = self.writer.made.iter().filter(is_kept).collect();
        assert_eq!(left, owners.iter().filter(is_kept).collect::<Vec<_>>());
        assert!(self.writer.unhandled.is_empty(), "{:?}", self.writer.unhandled);
    }

    /// Whether nothing of a router was offered, so that nothing was made of it, or somebody has let it look so.
    pub fn is_unmade(&self, router: &Value) -> bool {
        let uid = text(router, "/metadata/uid");
        let is_offered = self.offered.values().any(|entry| &**entry.owner() == uid);
        self.api.forced.contains(uid) || !(is_offered || self.writer.made.contains(uid))
    }

    /// No finalizer goes while anything of its owner is left.
    pub fn check_release(&self, write: &ClusterWrite, before: &Value) {
        let (kind, finalizer) = match write.object.kind {
            KuryrKind::Router => (Kind::Router, ROUTER_FINALIZER),
            _ => (Kind::Ingress, INGRESS_FINALIZER),
        };
        let stays = self.api.get(kind, &name_of(before)).is_some_and(|after| api::has(after, finalizer));
        if !api::has(before, finalizer) || stays {
            return;
        }
        let (uid, name) = (text(before, "/metadata/uid"), name_of(before));
        let left: Vec<&String> = match kind {
            Kind::Router => self.writer.made.iter().filter(|owner| *owner == uid).collect(),
            _ => self.writer.routed(&name).collect(),
        };
        // What somebody has written into a router of their own holds no Ingress.
        let of_hand = self.api.of(Kind::Router).into_iter().filter(|router| router["metadata"]["labels"].is_null());
        let of_hand: Vec<String> = of_hand.map(|router| text(&router, "/metadata/uid").to_owned()).collect();
        let is_of_hand = |owner: &String| kind == Kind::Ingress && of_hand.contains(owner);
        // Where the writer does nothing, one waits that has asked for the router: of another one a new process does not know.
        let others = self.api.of(Kind::Router).into_iter().filter(|router| {
            self.writer.refuses.contains_key(text(router, "/metadata/name"))
                && api::annotated_router(before) != name_of(router)
        });
        let others: Vec<String> = others.map(|router| text(&router, "/metadata/uid").to_owned()).collect();
        let is_others = |owner: &String| kind == Kind::Ingress && others.contains(owner);
        let holds = |owner: &&String| !self.api.leaves(owner) && !is_of_hand(owner) && !is_others(owner);
        let left: Vec<_> = left.into_iter().filter(holds).collect();
        assert!(left.is_empty(), "{name} loses its finalizer before it is gone from {left:?}");
    }

    /// The certificate that an Ingress names is at its router as it is now. One that was good before is there until there is a better
    /// one.
    fn check_certificate(&self, ingress: &Value, router: &Value) {
        let name = ingress["spec"]["tls"][0]["secretName"].as_str().map(|name| format!("team/{name}"));
        let tls = router["spec"]["tls"].as_array().cloned().unwrap_or_default();
        let served = name.as_ref().and_then(|name| tls.iter().find(|one| one["secretName"] == **name));
        let has = |route: &&Value| text(route, "/ingress") == name_of(ingress) && route["https"] == true;
        let routes = router["spec"]["routes"].as_array().into_iter().flatten().filter(has).count();
        assert_eq!(routes > 0, served.is_some(), "{router}");
        let object = name.as_ref().and_then(|name| self.api.get(Kind::Secret, name));
        match object.map(|object| known_secret(object).state) {
            Some(Ok(certificate)) => {
                assert_eq!(served.unwrap()["contentHash"], certificate.hash.to_string(), "{router}");
            }
            Some(Err(_)) | None => {
                let was = |hash: &Value| (1..4).any(|content| *hash == objects::hash(content).to_string());
                assert!(served.is_none_or(|served| was(&served["contentHash"])), "{router}");
            }
        }
    }

    /// What is offered of a router has the certificates of its spec, and a listener for them.
    fn check_offered(&self, router: &Value) {
        let key =
            DesiredKey::new(DesiredKind::L7Router, text(router, "/metadata/namespace"), text(router, "/metadata/name"));
        let Some(DesiredEntry::LoadBalancer(wanted)) = self.offered.get(&key).map(|entry| &**entry) else { return };
        let tls = router["spec"]["tls"].as_array().cloned().unwrap_or_default();
        let hashes: BTreeSet<&str> = tls.iter().map(|one| text(one, "/contentHash")).collect();
        let certificates = &wanted.header.routing.as_ref().unwrap().certificates;
        let offered: BTreeSet<String> = certificates.iter().map(|one| one.hash.to_string()).collect();
        assert_eq!(offered.iter().map(|hash| &**hash).collect::<BTreeSet<_>>(), hashes);
        assert_eq!(wanted.header.listeners.len(), if hashes.is_empty() { 1 } else { 2 });
        for wish in certificates {
            let secrets = self.controller.secrets_with(wish.hash);
            assert!(secrets.iter().any(|secret| secret.to_string() == *wish.secret), "{secrets:?}");
        }
        assert_eq!(self.controller.secrets_with(objects::hash(99)), []);
    }

    /// A new process changes nothing.
    pub fn check_restart(&mut self, order: &[Kind]) {
        let (offered, writes, told) = (self.offered.clone(), self.purposes.len(), self.notices.len());
        self.restart(order);
        assert_eq!(self.offered, offered);
        self.quiet();
        assert_eq!(self.purposes[writes..], [] as [String; 0]);
        assert_eq!(self.notices[told..], []);
        assert_eq!(self.offered, offered);
        self.check();
    }
}
