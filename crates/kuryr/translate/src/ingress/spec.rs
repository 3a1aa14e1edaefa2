//! The Ingresses of a router, as its spec.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_crd::{KlbMemberMode, KlrRoute, KuryrL7RouterSpec};
use gimbal_kuryr_model::{CloudFacts, MemberMode, Text};
use gimbal_model::{Family, SourceKey};

use super::claims::claims;
use super::class::class_name;
use super::index::Routed;
use super::matching::Host;
use super::pools::{MembersOf, no_node_port, pools, text};
use super::redirect::redirects;
use super::routes::{Ordered, Placed, ordered};
use super::shorten::{shorten, with_room};
use super::tls::{HostTls, TlsInput, router_tls};
use super::{IngressIndex, IngressProblem, SecretIndex};
use crate::finding::shown;
use crate::spec::klb_algorithm;
use crate::{Chosen, Finding, Nodes, ServiceIndex};

/// What the spec of a router is made from.
#[derive(Debug, Clone, Copy)]
pub struct RouterInput<'a> {
    /// Namespace and name of the router.
    pub router: &'a SourceKey,
    /// The Ingresses.
    pub ingresses: &'a IngressIndex,
    /// Those of them that are not served yet.
    pub without: &'a BTreeSet<SourceKey>,
    /// Those of other routers that are served by this one until the other one does.
    pub moving: &'a BTreeSet<SourceKey>,
    /// The Services that they lead to, with their slices.
    pub services: &'a ServiceIndex,
    /// The nodes of the cluster; they matter only where members are nodes.
    pub nodes: &'a Nodes,
    /// What the writer said; `None` before it spoke. Without facts there is no project, subnet and provider, and such an object
    /// is not streamed.
    pub facts: Option<&'a CloudFacts>,
    /// What was chosen for it before, if it exists.
    pub chosen: Option<&'a Chosen>,
    /// The Secrets that they name.
    pub secrets: &'a SecretIndex,
    /// The hashes of the certificates that it has, by namespace and name of the Secret with a `/` in between. One that is served stays
    /// until there is a better one.
    pub certificates: &'a BTreeMap<Text, Text>,
}

/// The spec of a router, and what was left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterTranslated {
    /// The spec.
    pub spec: KuryrL7RouterSpec,
    /// What was left out of it: first what is of an Ingress, the oldest first.
    pub findings: Vec<Finding>,
}

impl RouterTranslated {
    /// Returns what is of one Ingress.
    pub fn findings_of(&self, ingress: &SourceKey) -> impl Iterator<Item = &IngressProblem> {
        self.findings.iter().filter_map(move |finding| match finding {
            Finding::Ingress { ingress: of, problem } if of == ingress => Some(problem),
            _ => None,
        })
    }
}

/// Returns the spec of a router. The order in which objects arrived does not matter. A router without Ingresses has no routes, and
/// answers with 503.
#[must_use]
pub fn translate_router(input: &RouterInput<'_>) -> RouterTranslated {
    let mut findings = Vec::new();
    let mut ingresses: Vec<Routed<'_>> =
        input.ingresses.routed(input.router).filter(|routed| !input.without.contains(routed.key)).collect();
    let count = ingresses.len();
    for routed in &ingresses {
        about_ingress(routed, count, input, &mut findings);
    }
    ingresses.extend(input.moving.iter().filter_map(|ingress| input.ingresses.routed_one(ingress)));
    ingresses.sort_by(|one, other| age(one).cmp(&age(other)));
    let class = class(&ingresses);
    let serves_tls = input.facts.is_none_or(|facts| facts.certificates) || !input.certificates.is_empty();
    let ingresses = with_room(ingresses, serves_tls, &mut findings);
    let tls = TlsInput {
        ingresses: &ingresses,
        secrets: input.secrets,
        before: input.certificates,
        are_served: input.facts.is_none_or(|facts| facts.certificates),
    };
    let tls = router_tls(&tls, &mut findings);
    let claims = claims(&ingresses, input.services, &mut findings);
    let Ordered { routes, default, default_by } = ordered(claims, &ingresses, &mut findings);

    let mut spec = KuryrL7RouterSpec { ingress_class_name: class, ..KuryrL7RouterSpec::default() };
    let mut cloud = Vec::new();
    if let Some(facts) = input.facts {
        of_cloud(&mut spec, input, facts, &mut cloud);
    }
    let ports: BTreeSet<_> = routes.iter().filter_map(|route| route.to.clone()).chain(default.clone()).collect();
    let members = MembersOf {
        services: input.services,
        nodes: input.nodes,
        mode: input.facts.map_or(MemberMode::Pod, |facts| facts.members),
        family: family(&spec, input.facts),
    };
    let (pools, without) = pools(&ports, members);
    for port in without {
        let leads = |route: &&Placed| route.to.as_ref() == Some(&port);
        if let Some(at) = routes.iter().find(leads).map(|route| route.ingress).or(default_by) {
            let ingress = ingresses[at].key.clone();
            findings.push(Finding::Ingress { ingress, problem: no_node_port(&port) });
        }
    }
    spec.default_pool = default.and_then(|default| {
        let service = text(&default.service);
        let is_default =
            |pool: &&gimbal_kuryr_crd::KlrPool| pool.service == service && pool.port == i64::from(default.port);
        pools.iter().find(is_default).map(|pool| pool.name.clone())
    });
    spec.default_ingress = default_by.map(|at| text(ingresses[at].key));
    spec.pools = pools;
    let redirects = redirects(&routes, &ingresses, &tls, &mut findings);
    spec.routes = routes
        .iter()
        .map(|placed| KlrRoute {
            redirect: redirects.of(placed),
            https: tls.of(placed.ingress, &placed.host) != HostTls::None,
            ..route(placed, &ingresses)
        })
        .collect();
    spec.tls = tls.served;
    cloud.extend(shorten(&mut spec));
    // Each Ingress has its own together.
    let places: BTreeMap<&SourceKey, usize> = ingresses.iter().map(|routed| routed.key).zip(0..).collect();
    findings.sort_by_key(|finding| finding.ingress().and_then(|key| places.get(key)).copied().unwrap_or(usize::MAX));
    findings.extend(cloud);
    RouterTranslated { spec, findings }
}

/// The older comes first; one that does not say when it was made is younger.
fn age<'a>(routed: &Routed<'a>) -> (bool, &'a Option<Text>, &'a SourceKey) {
    let created = &routed.ingress.metadata.creation_timestamp;
    (created.is_none(), created, routed.key)
}

/// What does not depend on the other Ingresses.
fn about_ingress(routed: &Routed<'_>, count: usize, input: &RouterInput<'_>, findings: &mut Vec<Finding>) {
    let mut found = |problem| findings.push(Finding::Ingress { ingress: routed.key.clone(), problem });
    if let Some((value, problem)) = &routed.placement.problem {
        let (value, router) = (value.clone(), input.router.clone());
        found(IngressProblem::RouterAnnotation { value, router, problem: *problem });
    }
    if routed.placement.alone && (count > 1 || *input.router == input.ingresses.settings().shared) {
        found(IngressProblem::NotAlone { router: input.router.clone() });
    }
    if routed.lacks_class {
        let class = class_name(routed.ingress).map(|class| shown(class)).unwrap_or_default();
        found(IngressProblem::NoClass { class });
    }
    if let Some(facts) = input.facts {
        if !facts.enable_ingress {
            found(IngressProblem::NotEnabled);
        }
        if !facts.abilities(facts.provider.as_deref()).l7 {
            let provider = facts.provider.clone().unwrap_or_default();
            found(IngressProblem::NoPolicies { provider });
        }
    }
}

/// The class, if all have one and the same.
fn class(ingresses: &[Routed<'_>]) -> Option<Text> {
    let first = class_name(ingresses.first()?.ingress)?;
    ingresses.iter().all(|routed| class_name(routed.ingress) == Some(first)).then(|| first.clone())
}

fn route(placed: &Placed, ingresses: &[Routed<'_>]) -> KlrRoute {
    let Placed { ingress, host, path, to } = placed;
    let (path, path_type) = path.text().unzip();
    KlrRoute {
        ingress: Some(text(ingresses[*ingress].key)),
        host: Host::text(host),
        path,
        path_type,
        service: to.as_ref().map(|to| text(&to.service)),
        port: to.as_ref().map(|to| i64::from(to.port)),
        ..KlrRoute::default()
    }
}

/// Where it is made, and what it is there.
fn of_cloud(spec: &mut KuryrL7RouterSpec, input: &RouterInput<'_>, facts: &CloudFacts, findings: &mut Vec<Finding>) {
    spec.project_id = Some(facts.project.clone());
    spec.provider = facts.provider.clone();
    spec.security_groups_ids = facts.security_groups.clone();
    spec.member_mode = Some(match facts.members {
        MemberMode::Pod => KlbMemberMode::Pod,
        MemberMode::Node => KlbMemberMode::Node,
    });
    spec.lb_algorithm = facts.defaults.algorithm.map(klb_algorithm);
    let timeout = |time: u32| Some(time).filter(|time| *time > 0).map(i64::from);
    spec.timeout_client_data = timeout(facts.defaults.timeout_client_data);
    spec.timeout_member_data = timeout(facts.defaults.timeout_member_data);
    spec.subnet_id = facts.service_subnets.first().cloned();
    let gone = input.chosen.and_then(|chosen| chosen.subnet_that_is_gone(facts));
    if let Some(before) = gone.filter(|before| spec.subnet_id.as_ref() != Some(*before)) {
        findings.push(Finding::SubnetAsBefore { subnet: shown(before) });
        spec.subnet_id = Some(before.clone());
    }
    if *input.router == input.ingresses.settings().shared {
        spec.l7_router_ip = facts.l7_router_ip.map(|address| address.to_string().into());
    }
    if let Some(external) = &facts.external {
        spec.floating_network_id = Some(external.network.clone());
        spec.external_svc_subnet = external.subnet.clone();
        return;
    }
    // The address of one that is let go is lost for good. The writer refuses it, and nothing changes.
    match input.chosen.filter(|chosen| chosen.floating_network.is_some()) {
        Some(before) => {
            spec.floating_network_id = before.floating_network.clone();
            spec.external_svc_subnet = before.floating_subnet.clone();
            spec.l7_router_ip = spec.l7_router_ip.take().or_else(|| before.floating_address.clone());
            findings.push(Finding::FloatingAsBefore);
        }
        None => {
            spec.l7_router_ip = None;
            findings.push(Finding::NoExternalNetwork);
        }
    }
}

/// The family of the members is that of the VIP.
pub(crate) fn family(spec: &KuryrL7RouterSpec, facts: Option<&CloudFacts>) -> Family {
    let subnet = spec.subnet_id.as_ref().and_then(|id| facts?.subnets.get(id));
    subnet.map_or(Family::V4, |subnet| Family::of(subnet.cidr.addr()))
}
