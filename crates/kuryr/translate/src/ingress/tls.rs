//! The certificates of a router, and which hosts of which Ingress they are for.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::IngressTls;
use gimbal_kuryr_crd::KlrTls;
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use super::index::Routed;
use super::matching::Host;
use super::pools::text;
use super::problem::SecretProblem;
use super::{IngressProblem, SecretIndex};
use crate::Finding;
use crate::finding::shown;

/// The certificates of a router.
#[derive(Debug, Default)]
pub(crate) struct RouterTls {
    /// Those that are served, the default one first.
    pub(crate) served: Vec<KlrTls>,
    covers: BTreeMap<usize, Vec<Cover>>,
}

/// What one entry of an Ingress is for.
#[derive(Debug)]
struct Cover {
    /// Unset: all hosts of the Ingress.
    hosts: Option<BTreeSet<Host>>,
    /// The names in the certificate; unset where they are not known, because the Secret that has it is gone or was changed.
    names: Option<BTreeSet<Host>>,
}

/// How a host of an Ingress is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostTls {
    /// By HTTP alone.
    None,
    /// With a certificate that is not for this host: clients complain.
    OtherName,
    /// With a certificate.
    Served,
}

/// What the certificates of a router are made from.
pub(crate) struct TlsInput<'a, 'b> {
    /// The Ingresses, the oldest first.
    pub(crate) ingresses: &'a [Routed<'b>],
    pub(crate) secrets: &'a SecretIndex,
    /// The hashes that the router has now, by Secret: what is in Barbican serves until something better is there.
    pub(crate) before: &'a BTreeMap<Text, Text>,
    /// Whether the writer serves certificates, as far as it has said.
    pub(crate) are_served: bool,
}

/// What becomes of a Secret.
#[derive(Debug, Clone)]
enum Fate {
    /// Its place among those that are served, and the names in it.
    Served(usize, Option<BTreeSet<Host>>, Option<IngressProblem>),
    Left(IngressProblem),
}

/// Decides which certificates are served. A Secret belongs to the oldest Ingress that names it. haproxy chooses a certificate by the
/// names in it, whatever an Ingress says of hosts: so a new one is left out that has the name of a host of an older Ingress of
/// another namespace, or a wildcard for one that is served with a certificate.
pub(crate) fn router_tls(input: &TlsInput<'_, '_>, findings: &mut Vec<Finding>) -> RouterTls {
    let mut made = Maker { input, claimed: BTreeMap::new(), fates: BTreeMap::new(), tls: RouterTls::default() };
    for (at, routed) in input.ingresses.iter().enumerate() {
        let problems = made.read(at, routed);
        let finding = |problem| Finding::Ingress { ingress: routed.key.clone(), problem };
        if input.are_served {
            findings.extend(problems.into_iter().map(finding));
        } else if !routed.ingress.spec.tls.is_empty() {
            findings.push(finding(IngressProblem::TlsNotServed { hosts: hosts_of(&routed.ingress.spec.tls) }));
        }
        made.claim(at, routed);
    }
    made.tls
}

/// Who has a host.
#[derive(Debug)]
struct HostClaim {
    /// The place of the Ingress.
    by: usize,
    /// Whether its namespace serves the host with a certificate.
    is_served: bool,
}

struct Maker<'a, 'b, 'c> {
    input: &'c TlsInput<'a, 'b>,
    /// Hosts of the Ingresses before this one, with the oldest of each namespace.
    claimed: BTreeMap<Host, Vec<HostClaim>>,
    fates: BTreeMap<SourceKey, Fate>,
    tls: RouterTls,
}

impl Maker<'_, '_, '_> {
    fn read(&mut self, at: usize, routed: &Routed<'_>) -> Vec<IngressProblem> {
        let mut problems = Vec::new();
        for entry in &routed.ingress.spec.tls {
            let hosts: BTreeSet<Host> = entry.hosts.iter().filter_map(|host| Host::read(Some(host)).ok()).collect();
            let hosts = (!entry.hosts.is_empty()).then_some(hosts);
            let Some(secret) = entry.secret_name.as_ref().filter(|name| !name.is_empty()) else {
                problems.push(IngressProblem::NoSecretName { hosts: hosts_of([entry]) });
                continue;
            };
            let secret = SourceKey { namespace: routed.key.namespace.clone(), name: secret.clone() };
            let fate = match self.fates.get(&secret) {
                Some(fate) => fate.clone(),
                None => {
                    let fate = self.fate(&secret);
                    self.fates.insert(secret.clone(), fate.clone());
                    fate
                }
            };
            let (place, names, problem) = match fate {
                Fate::Served(place, names, problem) => (place, names, problem),
                Fate::Left(problem) => {
                    add(&mut problems, problem);
                    continue;
                }
            };
            problem.into_iter().for_each(|problem| add(&mut problems, problem));
            let own = hosts.clone().unwrap_or_else(|| rule_hosts(routed).collect());
            if let Some(names) = &names {
                for host in own.iter().filter(|host| !is_named(host, names)) {
                    if let Some(host) = host.text() {
                        add(&mut problems, IngressProblem::NotInCertificate { secret: secret.clone(), host });
                    }
                }
            }
            let listed = &mut self.tls.served[place].hosts;
            listed.extend(own.iter().filter_map(Host::text));
            listed.sort();
            listed.dedup();
            self.tls.covers.entry(at).or_default().push(Cover { hosts, names });
        }
        problems
    }

    fn fate(&mut self, secret: &SourceKey) -> Fate {
        let name = text(secret);
        let problem = match self.input.secrets.get(secret) {
            Some(Ok(certificate)) => {
                let hash: Text = certificate.hash.to_string().into();
                let before = self.input.before.get(&name);
                let is_new = before != Some(&hash);
                match self.taken(secret, &certificate.names, is_new) {
                    None => {
                        let names = certificate.names.iter().filter_map(Host::of_name).collect();
                        return self.serve(name, hash, Some(names), None);
                    }
                    Some((host, by, is_harmed)) if is_harmed || before.is_none() => {
                        return Fate::Left(IngressProblem::CertificateTaken { secret: secret.clone(), host, by });
                    }
                    Some(_) => {}
                }
                SecretProblem::OtherHosts
            }
            Some(Err(problem)) => SecretProblem::Invalid(*problem),
            None if self.input.secrets.is_readable() => SecretProblem::Missing,
            None => SecretProblem::Unreadable,
        };
        match self.input.before.get(&name) {
            Some(hash) => {
                let problem = match problem {
                    // It may well be there.
                    SecretProblem::Unreadable => None,
                    _ => Some(IngressProblem::CertificateKept { secret: secret.clone(), problem }),
                };
                self.serve(name, hash.clone(), None, problem)
            }
            None => Fate::Left(IngressProblem::NoCertificate { secret: secret.clone(), problem }),
        }
    }

    fn serve(
        &mut self,
        secret: Text,
        hash: Text,
        names: Option<BTreeSet<Host>>,
        problem: Option<IngressProblem>,
    ) -> Fate {
        let place = self.tls.served.len();
        self.tls.served.push(KlrTls { hosts: Vec::new(), secret_name: Some(secret), content_hash: Some(hash) });
        Fate::Served(place, names, problem)
    }

    /// The first host of another namespace's older Ingress for which clients would get this certificate, and whether that host has a
    /// certificate and its own name is in this one. One that is served already is taken by nothing else: no host is to lose HTTPS
    /// because somebody else claims a host later.
    fn taken(&self, secret: &SourceKey, names: &[Text], is_new: bool) -> Option<(Text, SourceKey, bool)> {
        let names: BTreeSet<Host> = names.iter().filter_map(Host::of_name).collect();
        let others = |claim: &&HostClaim| self.input.ingresses[claim.by].key.namespace != secret.namespace;
        let taken = self.claimed.iter().filter(|(host, _)| is_named(host, &names)).filter_map(|(host, by)| {
            let exact = names.contains(host);
            let counts = |claim: &&HostClaim| if is_new { exact || claim.is_served } else { exact && claim.is_served };
            let claim = by.iter().filter(others).find(counts)?;
            let key = self.input.ingresses[claim.by].key.clone();
            Some((host.text()?, key, exact && claim.is_served))
        });
        // The gravest decides, whatever the order of the hosts.
        taken.max_by_key(|(host, _, is_harmed)| (*is_harmed, std::cmp::Reverse(host.clone())))
    }

    fn claim(&mut self, at: usize, routed: &Routed<'_>) {
        let of_tls = routed.ingress.spec.tls.iter().flat_map(|tls| &tls.hosts);
        let of_tls = of_tls.filter_map(|host| Host::read(Some(host)).ok());
        let hosts: BTreeSet<Host> = rule_hosts(routed).chain(of_tls).filter(|host| *host != Host::Any).collect();
        for host in hosts {
            let is_served = self.tls.of(at, &host) == HostTls::Served;
            let by = self.claimed.entry(host).or_default();
            let namespace = |at: usize| &self.input.ingresses[at].key.namespace;
            match by.iter_mut().find(|other| namespace(other.by) == namespace(at)) {
                Some(other) => other.is_served |= is_served,
                None => by.push(HostClaim { by: at, is_served }),
            }
        }
    }
}

impl RouterTls {
    /// Returns how a host of an Ingress is served. A certificate is for the hosts of the Ingress that names it, and for no other.
    pub(crate) fn of(&self, ingress: usize, host: &Host) -> HostTls {
        let covers = self.covers.get(&ingress).into_iter().flatten();
        let is_for = |cover: &&Cover| cover.hosts.as_ref().is_none_or(|hosts| is_named(host, hosts));
        let served = covers.filter(is_for).map(|cover| match &cover.names {
            Some(names) if !is_named(host, names) => HostTls::OtherName,
            Some(_) | None => HostTls::Served,
        });
        served.max_by_key(|served| *served as u8).unwrap_or(HostTls::None)
    }
}

/// Whether a host is among names, one of which may be the wildcard that it falls to.
fn is_named(host: &Host, names: &BTreeSet<Host>) -> bool {
    names.contains(host) || host.wildcard().is_some_and(|wildcard| names.contains(&wildcard))
}

fn rule_hosts<'a>(routed: &Routed<'a>) -> impl Iterator<Item = Host> + use<'a> {
    let rules = routed.ingress.spec.rules.iter();
    rules.filter_map(|rule| Host::read(rule.host.as_ref()).ok())
}

/// The hosts of entries, for messages.
fn hosts_of<'a>(entries: impl IntoIterator<Item = &'a IngressTls>) -> Text {
    let hosts: Vec<&str> = entries.into_iter().flat_map(|entry| &entry.hosts).map(|host| &**host).collect();
    if hosts.is_empty() { "every host".into() } else { shown(&hosts.join(", ")) }
}

fn add(problems: &mut Vec<IngressProblem>, problem: IngressProblem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}

/// The Secrets that an Ingress names.
pub(crate) fn secrets(ingress: &gimbal_kubernetes_objects::Ingress) -> BTreeSet<SourceKey> {
    let namespace = &ingress.metadata.meta.namespace;
    let names = ingress.spec.tls.iter().filter_map(|tls| tls.secret_name.as_ref());
    names.map(|name| SourceKey { namespace: namespace.clone(), name: name.clone() }).collect()
}
