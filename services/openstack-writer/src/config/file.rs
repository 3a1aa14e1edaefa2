//! The form of the YAML file, and its conversion. Keys in snake case are Kuryr's, with Kuryr's meaning; the others are in
//! camel case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kuryr_model::{Algorithm, ClassDefaults, LoadBalancerDefaults, MemberMode, Text, VipMode};
use gimbal_model::BackendName;
use gimbal_octavia_registry::{ClusterGuards, OwnPort};
use gimbal_runtime::HumanDuration;
use gimbal_transport::{DeniedCertificate, InvalidDenial};
use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::kuryr_conf::{KubernetesSection, KuryrSections, NeutronDefaults, OctaviaDefaults, PodVifNested, VifPool};
use super::{ClusterConfig, ClustersConfig, ClustersConfigError};
use crate::policy::{ClusterPolicy, ClusterQuota};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ClustersFile {
    admins: Vec<SubjectName>,
    deny_certificates: Vec<Parsed<DeniedCertificate>>,
    clusters: Vec<ClusterSection>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClusterSection {
    name: Spanned<ClusterName>,
    identity: Spanned<SubjectName>,
    #[serde(default)]
    cluster_uid: Option<String>,
    #[serde(default)]
    former_uids: Vec<Spanned<String>>,
    #[serde(default)]
    kuryr_conf: Option<Spanned<PathBuf>>,
    #[serde(default, rename = "neutron_defaults")]
    neutron: NeutronDefaults,
    #[serde(default, rename = "octavia_defaults")]
    octavia: OctaviaDefaults,
    #[serde(default)]
    kubernetes: KubernetesSection,
    #[serde(default, rename = "pod_vif_nested")]
    nested: PodVifNested,
    #[serde(default, rename = "vif_pool")]
    pool: VifPool,
    #[serde(default)]
    projects: AllowedIds,
    #[serde(default)]
    former_projects: Vec<String>,
    #[serde(default)]
    vip: Vip,
    #[serde(default, rename = "podSubnets")]
    _pod_subnets: PodSubnets,
    #[serde(default)]
    members: Members,
    #[serde(default)]
    floating: Floating,
    #[serde(default)]
    certificates: AllowedIds,
    #[serde(default)]
    providers: Providers,
    #[serde(default)]
    classes: BTreeMap<String, Class>,
    #[serde(default)]
    shared_groups: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    quota: QuotaSection,
    #[serde(default)]
    guard: GuardSection,
    #[serde(default)]
    mode: ClusterMode,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct AllowedIds {
    allow: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Vip {
    mode: VipModeName,
    own_port: OwnPortName,
    subnets: Vec<String>,
    networks: Vec<String>,
    ports: Vec<String>,
}

#[derive(Deserialize, Default, Clone, Copy)]
enum VipModeName {
    #[default]
    #[serde(rename = "clusterIP")]
    ClusterIp,
    #[serde(rename = "allocate")]
    Allocate,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum OwnPortName {
    Never,
    #[default]
    LoadBalancer,
    Always,
}

/// Networks of Pods: read, and used once Pods get ports.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodSubnets {
    #[serde(rename = "mode")]
    _mode: PodSubnetMode,
    #[serde(rename = "subnetPool")]
    _subnet_pool: Option<String>,
    #[serde(rename = "router")]
    _router: Option<String>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum PodSubnetMode {
    #[default]
    Namespace,
    Node,
    Flat,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Members {
    mode: MemberModeName,
    allow: Option<Vec<CidrText>>,
    refuse: Vec<CidrText>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum MemberModeName {
    #[default]
    Pod,
    Node,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Floating {
    allow: Vec<String>,
    user: bool,
}

impl Default for Floating {
    fn default() -> Self {
        Self { allow: Vec::new(), user: true }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Providers {
    allow: Option<Vec<String>>,
    flavors: Vec<String>,
    availability_zones: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Class {
    floating_network: Option<String>,
    floating_subnet: Option<String>,
    floating_subnet_tags: Vec<String>,
    network: Option<String>,
    subnet: Option<String>,
    member_subnet: Option<String>,
    provider: Option<String>,
    flavor: Option<String>,
    availability_zone: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct QuotaSection {
    load_balancers: Option<u64>,
    listeners: Option<u64>,
    members: Option<u64>,
    ports: Option<u64>,
    floating_ips: Option<u64>,
    mutations_per_second: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GuardSection {
    max_drop_percent: Option<Spanned<u8>>,
    min_members: Option<u64>,
    min_load_balancers: Option<u64>,
    window: Option<Spanned<HumanDuration>>,
    quiet_time: Option<Spanned<HumanDuration>>,
    release_all_after: Option<Spanned<HumanDuration>>,
    explicit: bool,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "camelCase")]
enum ClusterMode {
    #[default]
    Admit,
    Quarantine,
}

struct ClusterName(BackendName);

impl<'de> Deserialize<'de> for ClusterName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        // Octavia's filters divide tags at commas.
        BackendName::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

/// A URI or DNS name, as in a certificate's subject alternative names.
struct SubjectName(String);

impl<'de> Deserialize<'de> for SubjectName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let printable = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        let uri = text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
        let dns = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'.';
        if printable && !text.contains('*') && (uri || text.bytes().all(dns)) {
            return Ok(Self(text));
        }
        let message = format!("{text:?} is no identity: use one URI or DNS name of its certificate, without wildcards");
        Err(D::Error::custom(message))
    }
}

/// A value that is written as text.
struct Parsed<T>(T);

impl<'de, T: FromStr<Err = InvalidDenial>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

struct CidrText(IpNet);

impl<'de> Deserialize<'de> for CidrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong =
            |_| D::Error::custom(format!("members: {text:?} is no range of addresses: write it as in 10.0.0.0/8"));
        text.parse::<IpNet>().map(Self).map_err(wrong)
    }
}

/// Shortest time that is accepted for the guard: a removal held for less would be released by the next look.
const SHORTEST_GUARD_TIME: Duration = Duration::from_secs(1);

/// This many load balancers may be missing whatever the share.
const MIN_LOAD_BALANCERS: u64 = 3;

/// Parses and checks the text of a file, and reads the `kuryr.conf` that it names. `path` is used in errors, and to find
/// files with relative names.
pub(super) fn read(path: &Path, text: &str) -> Result<ClustersConfig, ClustersConfigError> {
    // A file that is being written is empty for a moment, which must never read as "no clusters".
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        let problem = "is empty: name at least one cluster, or write {} for none";
        return Err(ClustersConfigError::at(path, None, problem));
    }
    let file: ClustersFile = serde_saphyr::from_str(text).map_err(|error| {
        let position = error.location().map(|at| (at.line(), at.column()));
        ClustersConfigError::at(path, position, plain(&error))
    })?;
    let (mut names, mut identities) = (BTreeSet::new(), BTreeSet::new());
    for cluster in &file.clusters {
        let (name, identity) = (&cluster.name.value.0, &cluster.identity.value.0);
        if !names.insert(name.clone()) {
            let problem = format!("two clusters have the name {name}: give one of them another");
            return Err(wrong(path, &cluster.name, problem));
        }
        if !identities.insert(identity.to_ascii_lowercase()) {
            let problem = format!("two clusters have the identity {identity:?}: each needs its own");
            return Err(wrong(path, &cluster.identity, problem));
        }
        if file.admins.iter().any(|admin| admin.0.eq_ignore_ascii_case(identity)) {
            let problem =
                format!("the identity {identity:?} is one of admins: a cluster must not have an administrator's");
            return Err(wrong(path, &cluster.identity, problem));
        }
        let uid = cluster.cluster_uid.as_deref().unwrap_or_default();
        if let Some(former) = cluster.former_uids.iter().find(|former| former.value == uid) {
            let problem = format!("formerUids of {name} has its clusterUid {uid:?}: take it out of one of them");
            return Err(wrong(path, former, problem));
        }
    }
    let clusters = file.clusters.into_iter().map(|cluster| cluster.into_config(path));
    Ok(ClustersConfig {
        admins: file.admins.into_iter().map(|identity| identity.0).collect(),
        denied: file.deny_certificates.into_iter().map(|denial| denial.0).collect(),
        clusters: clusters.collect::<Result<_, _>>()?,
    })
}

fn wrong<T>(path: &Path, at: &Spanned<T>, problem: impl Into<String>) -> ClustersConfigError {
    ClustersConfigError::at(path, Some((at.referenced.line(), at.referenced.column())), problem)
}

fn texts<T: FromIterator<Text>>(texts: Vec<String>) -> T {
    texts.into_iter().map(Text::from).collect()
}

fn text(text: Option<String>) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(Text::from)
}

impl ClusterSection {
    fn into_config(self, path: &Path) -> Result<ClusterConfig, ClustersConfigError> {
        let name = self.name.value.0.clone();
        let own = KuryrSections {
            neutron: self.neutron,
            octavia: self.octavia,
            kubernetes: self.kubernetes,
            nested: self.nested,
            pool: self.pool,
        };
        let kuryr = match &self.kuryr_conf {
            Some(file) => own.or(read_kuryr_conf(path, file)?),
            None => own,
        };
        let project = text(kuryr.neutron.project).ok_or_else(|| {
            let problem = format!("neutron_defaults.project of {name}: name the project of its load balancers");
            wrong(path, &self.name, problem)
        })?;
        let provider = text(kuryr.kubernetes.endpoints_driver_octavia_provider);
        let ranges = |ranges: Vec<CidrText>| ranges.into_iter().map(|range| range.0).collect::<Vec<_>>();
        let policy = ClusterPolicy {
            project,
            projects: texts(self.projects.allow),
            former_projects: texts(self.former_projects),
            certificates: texts(self.certificates.allow),
            service_subnet: text(kuryr.neutron.service_subnet),
            pod_subnet: text(kuryr.neutron.pod_subnet),
            worker_subnets: texts(kuryr.nested.worker_nodes_subnets.unwrap_or_default()),
            security_groups: texts(kuryr.neutron.pod_security_groups.unwrap_or_default()),
            // Kuryr's default.
            enforce_groups: kuryr.octavia.enforce_sg_rules.unwrap_or(true),
            external_network: text(kuryr.neutron.external_svc_net),
            external_subnet: text(kuryr.neutron.external_svc_subnet),
            floating_networks: texts(self.floating.allow),
            user_addresses: self.floating.user,
            vip: match self.vip.mode {
                VipModeName::ClusterIp => VipMode::ClusterIp,
                VipModeName::Allocate => VipMode::Allocate,
            },
            own_port: match self.vip.own_port {
                OwnPortName::Never => OwnPort::Never,
                OwnPortName::LoadBalancer => OwnPort::LoadBalancer,
                OwnPortName::Always => OwnPort::Always,
            },
            vip_subnets: texts(self.vip.subnets),
            vip_networks: texts(self.vip.networks),
            vip_ports: texts(self.vip.ports),
            members: match self.members.mode {
                MemberModeName::Pod => MemberMode::Pod,
                MemberModeName::Node => MemberMode::Node,
            },
            addresses: gimbal_model::AddressRules {
                refused: ranges(self.members.refuse),
                allowed: self.members.allow.map(ranges),
            },
            // Kuryr's word for Octavia's own choice.
            provider: provider.filter(|provider| &**provider != "default"),
            providers: self.providers.allow.map(texts),
            flavors: texts(self.providers.flavors),
            availability_zones: texts(self.providers.availability_zones),
            defaults: LoadBalancerDefaults {
                addressing: kuryr.octavia.member_mode.map(|mode| mode.0).unwrap_or_default(),
                algorithm: kuryr.octavia.lb_algorithm.map(|algorithm| algorithm.0).or(Some(Algorithm::RoundRobin)),
                timeout_client_data: kuryr.octavia.timeout_client_data.unwrap_or_default(),
                timeout_member_data: kuryr.octavia.timeout_member_data.unwrap_or_default(),
            },
            classes: self.classes.into_iter().map(|(name, class)| (name.into(), class.into_defaults())).collect(),
            enable_ingress: kuryr.kubernetes.enable_ingress.unwrap_or_default(),
            l7_router_ip: kuryr.neutron.l7_router_ip,
            resource_tags: texts(kuryr.neutron.resource_tags.unwrap_or_default()),
            shared_groups: self.shared_groups.into_iter().map(|(group, names)| (group.into(), texts(names))).collect(),
            quota: self.quota.into_quota(),
        };
        Ok(ClusterConfig {
            name,
            identity: self.identity.value.0,
            uid: text(self.cluster_uid),
            former_uids: self.former_uids.into_iter().map(|uid| Text::from(uid.value)).collect(),
            policy,
            guards: self.guard.into_guards(path)?,
            quarantine: self.mode == ClusterMode::Quarantine,
        })
    }
}

fn read_kuryr_conf(path: &Path, file: &Spanned<PathBuf>) -> Result<KuryrSections, ClustersConfigError> {
    // A relative name is relative to the file that names it.
    let from = path.parent().map_or_else(|| file.value.clone(), |folder| folder.join(&file.value));
    let text = std::fs::read_to_string(&from)
        .map_err(|error| wrong(path, file, format!("kuryrConf: {} cannot be read: {error}", from.display())))?;
    KuryrSections::parse(&from, &text)
}

impl Class {
    fn into_defaults(self) -> ClassDefaults {
        ClassDefaults {
            floating_network: text(self.floating_network),
            floating_subnet: text(self.floating_subnet),
            floating_subnet_tags: texts(self.floating_subnet_tags),
            network: text(self.network),
            subnet: text(self.subnet),
            member_subnet: text(self.member_subnet),
            provider: text(self.provider),
            flavor: text(self.flavor),
            availability_zone: text(self.availability_zone),
        }
    }
}

impl QuotaSection {
    fn into_quota(self) -> ClusterQuota {
        let default = ClusterQuota::default();
        ClusterQuota {
            load_balancers: self.load_balancers.unwrap_or(default.load_balancers),
            listeners: self.listeners.unwrap_or(default.listeners),
            members: self.members.unwrap_or(default.members),
            ports: self.ports.unwrap_or(default.ports),
            floating_ips: self.floating_ips.unwrap_or(default.floating_ips),
            mutations_per_second: self.mutations_per_second.unwrap_or(default.mutations_per_second),
        }
    }
}

impl GuardSection {
    fn into_guards(self, path: &Path) -> Result<ClusterGuards, ClustersConfigError> {
        let default = GuardConfig::default();
        let time = |key: &str, time: Option<Spanned<HumanDuration>>| match time {
            Some(time) if time.value.0 < SHORTEST_GUARD_TIME => Err(wrong(
                path,
                &time,
                format!("guard.{key}: shorter than 1s, which would hold nothing: make it longer"),
            )),
            time => Ok(time.map(|time| time.value.0)),
        };
        let max_drop_percent = match self.max_drop_percent {
            Some(share) if share.value > 100 => {
                return Err(wrong(
                    path,
                    &share,
                    format!("guard.maxDropPercent: {} is no percentage: use 0 to 100", share.value),
                ));
            }
            share => share.map_or(default.max_drop_percent, |share| share.value),
        };
        let members = GuardConfig {
            max_drop_percent,
            min_endpoints: self.min_members.unwrap_or(default.min_endpoints),
            window: time("window", self.window)?.unwrap_or(default.window),
            quiet_time: time("quietTime", self.quiet_time)?.unwrap_or(default.quiet_time),
            release_all_after: time("releaseAllAfter", self.release_all_after)?,
            ..default
        };
        let min_load_balancers = self.min_load_balancers.unwrap_or(MIN_LOAD_BALANCERS);
        let load_balancers = GuardConfig { min_endpoints: min_load_balancers, ..members };
        Ok(ClusterGuards { load_balancers, members, explicit: self.explicit })
    }
}

/// Returns the message on one line, without the place, which is printed before it.
fn plain(error: &serde_saphyr::Error) -> String {
    let options = serde_saphyr::render_options! {
        formatter: &serde_saphyr::UserMessageFormatter,
        snippets: serde_saphyr::SnippetMode::Off,
    };
    let text = error.render_with_options(options);
    let line = text.lines().next().unwrap_or_default();
    line.rsplit_once(" at line ").map_or(line, |(message, _)| message).to_owned()
}
