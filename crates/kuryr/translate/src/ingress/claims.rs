//! What the Ingresses of a router ask for, before it is put into order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gimbal_kubernetes_objects::{HttpIngressPath, IngressRule};
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use super::IngressProblem;
use super::backend::{Destination, resolve};
use super::index::Routed;
use super::matching::{Host, Path};
use super::problem::place;
use crate::finding::shown;
use crate::{Finding, ServiceIndex};

/// One rule that counts.
#[derive(Debug)]
pub(crate) struct RuleClaim {
    /// Place of its Ingress among those of the router, the oldest first.
    pub(crate) ingress: usize,
    pub(crate) to: Destination,
}

/// What the Ingresses of a router ask for.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Each host and path once.
    pub(crate) routes: BTreeMap<(Host, Path), RuleClaim>,
    /// Hosts that have a rule, with the Ingresses that have one, the oldest first.
    pub(crate) hosts: BTreeMap<Host, Vec<usize>>,
    /// Default backends, by Ingress.
    pub(crate) defaults: BTreeMap<usize, Destination>,
}

/// Reads what these Ingresses ask for, the oldest first.
pub(crate) fn claims(ingresses: &[Routed<'_>], services: &ServiceIndex, findings: &mut Vec<Finding>) -> Claims {
    let mut claims = Claims::default();
    for (at, routed) in ingresses.iter().enumerate() {
        let mut reader = Reader { claims: &mut claims, ingresses, at, routed, services, findings };
        reader.read();
    }
    claims
}

struct Reader<'a, 'b> {
    claims: &'a mut Claims,
    ingresses: &'a [Routed<'b>],
    at: usize,
    routed: &'a Routed<'b>,
    services: &'a ServiceIndex,
    findings: &'a mut Vec<Finding>,
}

impl Reader<'_, '_> {
    fn read(&mut self) {
        let spec = &self.routed.ingress.spec;
        for rule in &spec.rules {
            self.rule(rule);
        }
        if let Some(backend) = &spec.default_backend {
            let (to, problem) =
                resolve(&self.routed.key.namespace, backend, self.services, || "its default backend".into());
            self.found(problem);
            self.claims.defaults.insert(self.at, to);
        }
    }

    fn rule(&mut self, rule: &IngressRule) {
        let host = match Host::read(rule.host.as_ref()) {
            Ok(host) => host,
            Err(problem) => {
                let host = shown(rule.host.as_deref().unwrap_or_default());
                self.found(Some(IngressProblem::Host { host, problem }));
                return;
            }
        };
        // Also without a path, or without one that can be served: requests for it are not for the rules of other hosts.
        let ingresses = self.claims.hosts.entry(host.clone()).or_default();
        if ingresses.last() != Some(&self.at) {
            ingresses.push(self.at);
        }
        let paths = rule.http.as_ref().map(|http| &*http.paths).unwrap_or_default();
        if paths.is_empty() {
            self.found(Some(IngressProblem::NoPaths { host: host.text() }));
        }
        paths.iter().for_each(|path| self.path(&host, path));
    }

    fn path(&mut self, host: &Host, rule: &HttpIngressPath) {
        let path = match Path::read(rule) {
            Ok(path) => path,
            Err(problem) => {
                let path = shown(rule.path.as_deref().unwrap_or_default());
                self.found(Some(IngressProblem::Path { host: host.text(), path, problem }));
                return;
            }
        };
        let (host_text, path_text): (Option<Text>, Option<Text>) = (host.text(), path.text().map(|(path, _)| path));
        let said = || place(&host_text, &path_text);
        let (to, problem) = resolve(&self.routed.key.namespace, &rule.backend, self.services, said);
        let taken = match self.claims.routes.entry((host.clone(), path)) {
            Entry::Vacant(free) => {
                free.insert(RuleClaim { ingress: self.at, to });
                None
            }
            Entry::Occupied(claim) if claim.get().ingress != self.at => {
                let by: SourceKey = self.ingresses[claim.get().ingress].key.clone();
                Some(IngressProblem::Taken { host: host_text.clone(), path: path_text.clone(), by })
            }
            Entry::Occupied(claim) if claim.get().to == to => None,
            Entry::Occupied(_) => Some(IngressProblem::Twice { host: host_text.clone(), path: path_text.clone() }),
        };
        self.found(problem);
        self.found(taken);
    }

    fn found(&mut self, problem: Option<IngressProblem>) {
        let Some(problem) = problem else { return };
        let finding = Finding::Ingress { ingress: self.routed.key.clone(), problem };
        // Several rules may lead to the same Service that is not there.
        let mut of_this = self.findings.iter().rev().take_while(|one| one.ingress() == Some(self.routed.key));
        if !of_this.any(|one| *one == finding) {
            self.findings.push(finding);
        }
    }
}
