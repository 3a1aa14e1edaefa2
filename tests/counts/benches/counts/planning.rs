//! Plans of writes from desired and observed state.

use std::collections::BTreeSet;

use gimbal_kubernetes_objects::Meta;
use gimbal_model::{AddressRules, BackendName, Service, SourceKey, TargetKey};
use gimbal_plan::{
    Action, AppProtocols, Body, EndpointsApi, Keep, Observed, Plan, Removals, ReportOrder, Rules, Strip, Wanted,
    plan as compare,
};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::source::{service, with_one_changed};

/// The inputs of a Service's plan.
struct Case {
    backend: BackendName,
    source: SourceKey,
    target: TargetKey,
    strip: Strip,
    addresses: AddressRules,
    service: Service,
    observed: Observed,
}

impl Case {
    fn first(endpoints: u32) -> Self {
        Self {
            backend: BackendName::parse("node02").unwrap(),
            source: SourceKey::new("team", "web"),
            target: TargetKey::new("team", "node02-web"),
            strip: Strip::default(),
            addresses: AddressRules::default(),
            service: service(endpoints),
            observed: Observed::default(),
        }
    }

    fn written(endpoints: u32) -> Self {
        let mut case = Self::first(endpoints);
        for action in case.plan().actions() {
            let Action::Create(body) = action else { panic!("{action:?}") };
            assert!(match stored(body.clone(), 1) {
                Body::Service(object) => case.observed.set_service(&object, ReportOrder::Unordered),
                Body::Slice(object) => case.observed.set_slice(&object, ReportOrder::Unordered),
                Body::Endpoints(object) => case.observed.set_endpoints(&object, ReportOrder::Unordered),
            });
        }
        case
    }

    fn changed(endpoints: u32) -> Self {
        let mut case = Self::written(endpoints);
        case.service = with_one_changed(&case.service);
        case
    }

    fn plan(&self) -> Plan {
        let (keep, app_protocols) = (&Keep::default(), &AppProtocols::default());
        let (strip, addresses, api) = (&self.strip, &self.addresses, EndpointsApi::EndpointSlices);
        let rules = Rules { strip, keep, app_protocols, addresses, api };
        let wanted = Wanted::new(&self.backend, &self.source, &self.target, &self.service, &rules).unwrap();
        compare(&self.target, Some(&wanted), &self.observed, Removals::Allowed, &BTreeSet::new())
    }
}

/// Returns an object as the API server answers.
pub fn stored(mut body: Body, version: u64) -> Body {
    let meta: &mut Meta = match &mut body {
        Body::Service(object) => &mut object.metadata,
        Body::Slice(object) => &mut object.metadata,
        Body::Endpoints(object) => &mut object.metadata,
    };
    meta.uid = "0b3f2c1e-6d1f-4b7a-9c55-0a1b2c3d4e5f".into();
    meta.resource_version = version.to_string().into();
    body
}

#[library_benchmark(setup = Case::first)]
#[bench::of_20(20)]
fn first_plan(case: Case) -> (Plan, Case) {
    (case.plan(), case)
}

#[library_benchmark(setup = Case::changed)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn one_endpoint_changed(case: Case) -> (Plan, Case) {
    (case.plan(), case)
}

#[library_benchmark(setup = Case::written)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn nothing_to_do(case: Case) -> (Plan, Case) {
    (case.plan(), case)
}

library_benchmark_group!(name = plan; benchmarks = first_plan, one_endpoint_changed, nothing_to_do);
