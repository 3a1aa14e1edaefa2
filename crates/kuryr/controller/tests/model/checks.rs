//! How everything has to be once it has come to rest.

use gimbal_kuryr_resource::ClusterKnowledge;
use serde_json::json;

use crate::api::{self, BALANCER_FINALIZER, Kind, SERVICE_FINALIZER, text};
use crate::world::World;

impl World {
    /// What the writer does not try says so, and nothing else does.
    pub fn check_refusals(&self) {
        for balancer in self.api.of(Kind::Balancer) {
            let name = text(&balancer, "/metadata/name");
            let ready = &balancer["status"]["conditions"][0];
            let expected = self.writer.refuses.get(name).map(|words| ("ProjectNotAllowed", &**words));
            let (reason, said) = (text(ready, "/reason"), text(ready, "/message"));
            match expected {
                Some(expected) => assert_eq!((reason, said), expected, "{name}: {:?}", self.explain(name)),
                None => assert_ne!(reason, "ProjectNotAllowed", "{name}: {:?}", self.explain(name)),
            }
            let of_service = self.api.get(Kind::Service, name);
            let of_service = of_service.filter(|service| text(service, "/metadata/uid") == api::owner_of(&balancer));
            let Some(service) = of_service else { continue };
            let shown = service["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter().any(|one| text(one, "/type") == "kuryr.openstack.org/LoadBalancerRefused")
            });
            assert_eq!(shown, expected.is_some(), "{name}: {service}");
        }
    }

    /// Everything is as it should be.
    pub fn check(&mut self) {
        assert_eq!(self.controller.knowledge(), ClusterKnowledge::Complete);
        assert_eq!(self.in_flight, Vec::new());
        let mut owners = Vec::new();
        for service in self.api.of(Kind::Service) {
            let (name, uid) = (text(&service, "/metadata/name"), text(&service, "/metadata/uid"));
            assert!(!api::is_going(&service), "{name} is stuck: {:?}", self.explain(name));
            let balancer = self.api.get(Kind::Balancer, name).cloned();
            let by_itself = balancer.as_ref().is_some_and(|balancer| api::owner_of(balancer) != uid);
            if !api::wants(&service) || by_itself {
                assert!(!api::has(&service, SERVICE_FINALIZER), "{name} keeps its finalizer: {:?}", self.explain(name));
                assert!(by_itself || balancer.is_none(), "{name} keeps its load balancer: {:?}", self.explain(name));
                let shows = service.pointer("/status/loadBalancer/ingress").is_some_and(|all| all != &json!([]));
                assert!(!shows, "{name} shows an address");
                continue;
            }
            assert!(api::has(&service, SERVICE_FINALIZER), "{name} has no finalizer: {:?}", self.explain(name));
            let balancer = balancer.unwrap_or_else(|| panic!("{name} has no load balancer: {:?}", self.explain(name)));
            let ports = (&balancer["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["port"]);
            assert_eq!(ports.0, ports.1, "{name}");
            let shown = text(&service, "/status/loadBalancer/ingress/0/ip");
            let expected = if text(&service, "/spec/type") == "LoadBalancer" { "10.96.0.10" } else { "" };
            assert_eq!(shown, expected, "{name}: {:?}", self.explain(name));
        }
        for balancer in self.api.of(Kind::Balancer) {
            let name = text(&balancer, "/metadata/name");
            assert!(!api::is_going(&balancer), "{name} is stuck: {:?}", self.explain(name));
            assert!(api::has(&balancer, BALANCER_FINALIZER), "{name} has no finalizer: {:?}", self.explain(name));
            let ready = &balancer["status"]["conditions"][0];
            let expected = (&json!("Ready"), &json!("True"));
            assert_eq!((&ready["type"], &ready["status"]), expected, "{name}: {:?} {balancer}", self.explain(name));
            owners.push(api::owner_of(&balancer));
        }
        self.check_refusals();
        owners.sort();
        let left: Vec<_> = self.writer.made.iter().filter(|owner| !self.api.leaves(owner)).collect();
        let wanted: Vec<_> = owners.iter().filter(|owner| !self.api.leaves(owner)).collect();
        assert_eq!(left, wanted);
        assert!(self.writer.unhandled.is_empty(), "{:?}", self.writer.unhandled);
    }

    /// A new process changes nothing.
    pub fn check_restart(&mut self, order: &[Kind]) {
        let (offered, writes, told) = (self.offered.clone(), self.writes, self.notices.len());
        self.restart(order);
        assert_eq!(self.offered, offered);
        self.quiet();
        assert_eq!(self.writes, writes, "{:?}", &self.purposes[writes..]);
        assert_eq!(self.notices.len(), told, "{:?}", &self.notices[told..]);
        assert_eq!(self.offered, offered);
        self.check();
    }
}
