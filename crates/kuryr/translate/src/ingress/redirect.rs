//! From HTTP to HTTPS.

use std::collections::BTreeSet;

use gimbal_kuryr_crd::names::annotations;
use gimbal_kuryr_model::Text;

use super::index::Routed;
use super::matching::Host;
use super::routes::Placed;
use super::tls::{HostTls, RouterTls};
use super::{IngressProblem, RedirectProblem};
use crate::Finding;
use crate::finding::shown;

/// The hosts of Ingresses whose requests are sent to HTTPS.
#[derive(Debug, Default)]
pub(crate) struct Redirects(BTreeSet<(usize, Host)>);

impl Redirects {
    /// Returns where HTTP requests of a route are sent.
    pub(crate) fn of(&self, route: &Placed) -> Option<Text> {
        let Host::Exact(host) = &route.host else { return None };
        self.0.contains(&(route.ingress, route.host.clone())).then(|| format!("https://{host}").into())
    }
}

/// Decides which requests are sent to HTTPS. haproxy redirects before it leads to a pool, whatever the order of the routes. So a host
/// for which another Ingress has a route over HTTP that is tried before, such as that of a challenge, is not redirected meanwhile.
pub(crate) fn redirects(
    routes: &[Placed],
    ingresses: &[Routed<'_>],
    tls: &RouterTls,
    findings: &mut Vec<Finding>,
) -> Redirects {
    let asks: Vec<bool> = ingresses.iter().map(|routed| asks(routed, findings)).collect();
    let mut redirects = Redirects::default();
    for of_host in routes.chunk_by(|one, other| one.host == other.host) {
        let may = |route: &Placed| asks[route.ingress] && about(route, tls).is_none();
        let last = of_host.iter().rposition(may).unwrap_or_default();
        let served = of_host[..last].iter().find(|route| !may(route));
        let mut told = BTreeSet::new();
        for route in of_host.iter().filter(|route| asks[route.ingress]) {
            let in_the_way = || {
                let by = ingresses[served?.ingress].key.clone();
                Some(RedirectProblem::HttpPath { by })
            };
            match about(route, tls).or_else(in_the_way) {
                None => drop(redirects.0.insert((route.ingress, route.host.clone()))),
                Some(problem) if told.insert(route.ingress) => {
                    let problem = IngressProblem::NotRedirected { host: route.host.text(), problem };
                    findings.push(Finding::Ingress { ingress: ingresses[route.ingress].key.clone(), problem });
                }
                Some(_) => {}
            }
        }
    }
    redirects
}

/// Why requests of a route are not sent to HTTPS, whatever other routes there are.
fn about(route: &Placed, tls: &RouterTls) -> Option<RedirectProblem> {
    if !matches!(route.host, Host::Exact(_)) {
        return Some(RedirectProblem::NotOneHost);
    }
    (tls.of(route.ingress, &route.host) != HostTls::Served).then_some(RedirectProblem::NoCertificate)
}

/// Whether an Ingress asks for it.
fn asks(routed: &Routed<'_>, findings: &mut Vec<Finding>) -> bool {
    match routed.ingress.annotations().get(annotations::REDIRECT_HTTP).map(|value| value.trim()) {
        Some("true") => true,
        Some("false") | None => false,
        Some(value) => {
            let problem = IngressProblem::RedirectAnnotation { value: shown(value) };
            findings.push(Finding::Ingress { ingress: routed.key.clone(), problem });
            false
        }
    }
}
