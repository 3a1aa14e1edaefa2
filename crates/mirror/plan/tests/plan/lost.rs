//! The plan for a lost backend is the same whether it is made from the observed or from the wanted objects.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::{Meta, Service as ServiceObject};
use gimbal_model::{Endpoint, Service};
use gimbal_plan::{Action, Body, EndpointsApi, Lost, Plan, Removals, plan, plan_lost};

use crate::server::Server;
use crate::world::{converged, http, planned, target, v4, v6, wanted_by, web};

const APIS: [EndpointsApi; 3] = [EndpointsApi::EndpointSlices, EndpointsApi::Endpoints, EndpointsApi::Both];

fn service() -> Service {
    let mut service = web((0..150).map(v4).chain((0..3).map(v6)));
    let mut terminating = Endpoint::ready(v4(500));
    terminating.conditions.ready = false;
    terminating.conditions.terminating = true;
    service = Service::new(
        service.header.clone(),
        service
            .endpoints()
            .map(|(ports, endpoint)| (ports.clone(), endpoint))
            .chain([(http(), terminating)])
            .collect::<Vec<_>>(),
    );
    service
}

/// Labels, annotations, name and ports of every object in the server.
fn frame(server: &Server) -> BTreeMap<String, (Meta, String)> {
    let plain = |meta: &Meta| Meta { resource_version: "".into(), ..meta.clone() };
    let of = |body: &Body| match body {
        Body::Service(ServiceObject { spec, .. }) => format!("{spec:?}"),
        Body::Slice(slice) => format!("{:?} {:?} {}", slice.ports, slice.address_type, slice.endpoints.len()),
        Body::Endpoints(_) => String::new(),
    };
    let entry = |body: &Body| (format!("{} {}", body.kind().kind, body.name()), (plain(body.meta()), of(body)));
    server.objects.values().map(entry).collect()
}

fn ready(server: &Server) -> usize {
    let slices = server.slices().flat_map(|slice| &slice.endpoints);
    let serving = slices.filter(|e| e.conditions.ready != Some(false) || e.conditions.serving != Some(false)).count();
    let packed = server.objects.values().filter_map(|body| match body {
        Body::Endpoints(object) => Some(object.subsets.iter().map(|subset| subset.addresses.len()).sum::<usize>()),
        _ => None,
    });
    serving + packed.sum::<usize>()
}

fn patches(plan: &Plan) -> bool {
    plan.actions().all(|action| matches!(action, Action::Patch(_)))
}

#[test]
fn not_ready_changes_conditions_and_nothing_else() {
    for api in APIS {
        let mut server = converged(&service(), api);
        let before = frame(&server);
        assert!(ready(&server) > 0);
        let plan = plan_lost(&target(), &server.observe(), Lost::NotReady);
        assert!(patches(&plan) && plan.phases.len() == 1, "{api:?}");
        server.run(&plan);
        assert_eq!((ready(&server), frame(&server)), (0, before), "{api:?}");
        assert!(plan_lost(&target(), &server.observe(), Lost::NotReady).is_empty(), "{api:?}: once is enough");
        let terminating = server.slices().flat_map(|slice| &slice.endpoints);
        let terminating = terminating.filter(|endpoint| endpoint.conditions.terminating == Some(true)).count();
        assert_eq!(terminating, usize::from(api != EndpointsApi::Endpoints));

        // A writer that still knows the wanted state finds nothing to write, and writes each object once when the
        // backend is back.
        let wanted = wanted_by(&service(), api);
        assert!(planned(Some(&wanted.clone().lost(Lost::NotReady)), &server.observe()).is_empty(), "{api:?}");
        let back = planned(Some(&wanted), &server.observe());
        let names: BTreeSet<_> = back.actions().map(|action| (action.kind().kind, action.name().clone())).collect();
        assert_eq!(names.len(), back.actions().count());
        server.run(&back);
        assert!(planned(Some(&wanted), &server.observe()).is_empty());
    }
}

#[test]
fn draining_leaves_the_service() {
    for api in APIS {
        for (name, knows) in [("observed", false), ("wanted", true)] {
            let mut server = converged(&service(), api);
            let wanted = wanted_by(&service(), api);
            let drained = |server: &Server| match knows {
                true => planned(Some(&wanted.clone().lost(Lost::Drained)), &server.observe()),
                false => plan_lost(&target(), &server.observe(), Lost::Drained),
            };
            server.run(&drained(&server));
            assert_eq!(server.slices().count() + ready(&server), 0, "{api:?} {name}");
            assert!(server.objects.contains_key(&("services", "node02-web".to_owned())), "{api:?} {name}");
            assert!(drained(&server).is_empty(), "{api:?} {name}: once is enough");
            assert!(plan_lost(&target(), &server.observe(), Lost::Drained).is_empty(), "{api:?} {name}");
            server.run(&planned(Some(&wanted), &server.observe()));
            assert!(planned(Some(&wanted), &server.observe()).is_empty());
        }
    }
}

/// Endpoints that the guard keeps are marked not ready like all others, even if their ports are no longer wanted.
#[test]
fn what_is_held_is_not_ready_either() {
    for api in APIS {
        let mut server = converged(&service(), api);
        let other = Service::new(
            service().header.clone(),
            (0..20).map(|n| (crate::world::ports(&[("http", 9090)]), Endpoint::ready(v4(n)))).collect::<Vec<_>>(),
        );
        for after in [web((0..20).map(v4)), other] {
            let wanted = wanted_by(&after, api).lost(Lost::NotReady);
            let held =
                |server: &Server| plan(&target(), Some(&wanted), &server.observe(), Removals::Held, &BTreeSet::new());
            let count = server.observe().endpoint_count();
            server.run(&held(&server));
            assert_eq!(ready(&server), 0, "{api:?}");
            assert!(server.observe().endpoint_count() >= count, "{api:?}: something went");
            assert!(held(&server).is_empty(), "{api:?}");
        }
    }
}
