//! How everything has to be once it has come to rest.

use std::collections::BTreeSet;

use gimbal_kuryr_resource::ClusterKnowledge;
use serde_json::json;

use crate::api::{self, INGRESS_FINALIZER, Kind, ROUTER_FINALIZER, name_of, named, text};
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
            owners.insert(uid.to_owned());
            wanted.remove(&name);
        }
        assert!(wanted.is_empty(), "not made: {wanted:?}");
        let is_kept = |owner: &&String| !self.api.leaves(owner);
        let left: Vec<_> = self.writer.made.iter().filter(is_kept).collect();
        assert_eq!(left, owners.iter().filter(is_kept).collect::<Vec<_>>());
        assert!(self.writer.unhandled.is_empty(), "{:?}", self.writer.unhandled);
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
