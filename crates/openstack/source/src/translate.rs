//! Translation of a load balancer, with its listeners, pools and members, to Services.

mod endpoints;
mod ports;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gimbal_model::{Header, Service, ServicePort, SourceKey};
use gimbal_octavia_rows::{Id, LoadBalancer, ObjectKind, Pool};

use crate::lists::{Belongings, Lists};
use crate::members::PoolMembers;
use crate::options::PollOptions;
use crate::projects::ProjectNamespace;
use crate::safe_name::{name_label, source_name};
use crate::skip::{LeftOut, SkipReason};

use endpoints::endpoints;
pub(crate) use ports::PortSets;
use ports::{Port, port};

/// The labels that the original Gimbal set.
const ID_LABEL: &str = "gimbal.projectcontour.io/load-balancer-id";
const NAME_LABEL: &str = "gimbal.projectcontour.io/load-balancer-name";

/// Translates load balancers with the rows of one poll.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Translator<'a> {
    pub(crate) lists: &'a Lists,
    pub(crate) belongings: &'a Belongings<'a>,
    pub(crate) options: &'a PollOptions,
}

/// A draft of one Service: its ports, and the pool of each.
#[derive(Debug)]
pub(crate) struct ServiceDraft<'a> {
    /// The pool that an L7 policy redirects to; `None` for the load balancer itself.
    redirect: Option<&'a Id>,
    routes: Vec<Route<'a>>,
}

#[derive(Debug)]
struct Route<'a> {
    port: Port,
    pool: Option<&'a Pool>,
    live: bool,
}

impl<'a> ServiceDraft<'a> {
    /// Returns the pools whose members become endpoints.
    pub(crate) fn live_pools(&self) -> impl Iterator<Item = &'a Pool> {
        self.routes.iter().filter(|route| route.live).filter_map(|route| route.pool)
    }
}

impl<'a> Translator<'a> {
    /// Drafts the Services of a load balancer. Adds the objects that are left out to `left_out`.
    pub(crate) fn offers(&self, balancer: &'a LoadBalancer, left_out: &mut Vec<LeftOut>) -> Vec<ServiceDraft<'a>> {
        let mut main = ServiceDraft { redirect: None, routes: Vec::new() };
        let mut redirects: BTreeMap<&Id, ServiceDraft<'a>> = BTreeMap::new();
        let on =
            is_live(ObjectKind::LoadBalancer, &balancer.id, balancer.admin_state_up, balancer.provisioning, left_out);
        let listeners = self.belongings.listeners.get(&balancer.id).map(Vec::as_slice).unwrap_or_default();
        for listener in listeners {
            let taken = |port: &Port| main.routes.iter().any(|route| route.port.same_place(port));
            let port = match port(listener) {
                Ok(port) if taken(&port) => Err(SkipReason::DuplicatePort),
                other => other,
            };
            let port = match port {
                Ok(port) => port,
                Err(skip) => {
                    left_out.push(LeftOut { kind: ObjectKind::Listener, id: listener.id.clone(), skip });
                    continue;
                }
            };
            let live =
                is_live(ObjectKind::Listener, &listener.id, listener.admin_state_up, listener.provisioning, left_out)
                    && on;
            if self.options.l7_pools {
                let policies = self.belongings.policies.get(&listener.id).map(Vec::as_slice).unwrap_or_default();
                let mut targets: BTreeMap<&Id, bool> = BTreeMap::new();
                for policy in policies {
                    let Some(pool) = &policy.redirect_pool else { continue };
                    let up =
                        is_live(ObjectKind::L7Policy, &policy.id, policy.admin_state_up, policy.provisioning, left_out);
                    *targets.entry(pool).or_default() |= up;
                }
                for (pool, up) in targets {
                    let route = self.route(port.clone(), Some(pool), live && up, left_out);
                    let new = || ServiceDraft { redirect: Some(pool), routes: Vec::new() };
                    redirects.entry(pool).or_insert_with(new).routes.push(route);
                }
            }
            if listener.default_pool_id.as_ref().and_then(|pool| self.lists.pools.get(pool)).is_none() {
                left_out.push(LeftOut {
                    kind: ObjectKind::Listener,
                    id: listener.id.clone(),
                    skip: SkipReason::NoPool,
                });
            }
            main.routes.push(self.route(port, listener.default_pool_id.as_ref(), live, left_out));
        }
        std::iter::once(main).chain(redirects.into_values()).collect()
    }

    fn route(&self, port: Port, pool: Option<&Id>, live: bool, left_out: &mut Vec<LeftOut>) -> Route<'a> {
        let pool = pool.and_then(|id| self.lists.pools.get(id)).map(|pool| &**pool);
        let Some(pool) = pool else { return Route { port, pool: None, live: false } };
        match ports::app_protocol(pool) {
            Err(skip) => {
                left_out.push(LeftOut { kind: ObjectKind::Pool, id: pool.id.clone(), skip });
                Route { port, pool: None, live: false }
            }
            Ok(app_protocol) => {
                let up = is_live(ObjectKind::Pool, &pool.id, pool.admin_state_up, pool.provisioning, left_out);
                Route { port: Port { app_protocol, ..port }, pool: Some(pool), live: live && up }
            }
        }
    }

    /// Translates a load balancer. Returns its Services, and every object that is left out of them.
    pub(crate) fn translate(
        &self,
        balancer: &'a LoadBalancer,
        place: &ProjectNamespace,
        members: &HashMap<Id, PoolMembers>,
        port_sets: &mut PortSets,
    ) -> (Vec<(SourceKey, Service)>, Vec<LeftOut>) {
        let mut left_out = Vec::new();
        let offers = self.offers(balancer, &mut left_out);
        let labels: BTreeMap<Arc<str>, Arc<str>> =
            [(ID_LABEL.into(), balancer.id.as_str().into()), (NAME_LABEL.into(), name_label(&balancer.name))].into();
        let services = offers.into_iter().map(|mut offer| {
            offer.routes.sort_by(|a, b| a.port.cmp(&b.port));
            let ports = offer.routes.iter().map(|route| service_port(&route.port)).collect();
            let header = Header { labels: labels.clone(), annotations: place.annotations.clone(), ports };
            let mut found = Vec::new();
            for route in &offer.routes {
                let Some(pool) = route.pool.filter(|_| route.live) else { continue };
                let Some(read) = members.get(&pool.id) else { continue };
                for (member_port, endpoint) in endpoints(read.listed(pool), &mut left_out) {
                    found.push((port_sets.get(&route.port, member_port), endpoint));
                }
            }
            let name = source_name(self.options.service_name, balancer, offer.redirect);
            let key = SourceKey { namespace: place.namespace.clone(), name };
            (key, Service::new(Arc::new(header), found))
        });
        let services = services.collect();
        left_out.sort_by(|a, b| (a.kind, &a.id, a.skip).cmp(&(b.kind, &b.id, b.skip)));
        left_out.dedup();
        (services, left_out)
    }
}

fn service_port(port: &Port) -> ServicePort {
    ServicePort {
        name: port.name.clone(),
        port: port.number,
        protocol: port.transport,
        app_protocol: port.app_protocol.clone(),
        target_port: None,
    }
}

/// Returns whether an object carries traffic: it is switched on and not being deleted. `PENDING_*` and `ERROR` withdraw
/// nothing: what was last known of the object stays published.
fn is_live(
    kind: ObjectKind,
    id: &Id,
    admin_state_up: bool,
    provisioning: gimbal_octavia_rows::ProvisioningStatus,
    left_out: &mut Vec<LeftOut>,
) -> bool {
    let skip = if provisioning == gimbal_octavia_rows::ProvisioningStatus::Deleting {
        SkipReason::Deleting
    } else if !admin_state_up {
        SkipReason::Off
    } else {
        return true;
    };
    left_out.push(LeftOut { kind, id: id.clone(), skip });
    false
}
