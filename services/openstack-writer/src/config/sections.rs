//! The form of the YAML file. Keys in snake case are Kuryr's, with Kuryr's meaning; the others are in camel case.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gimbal_admission::AdminPrincipal;
use gimbal_model::{BackendName, is_certificate_name};
use gimbal_runtime::HumanDuration;
use gimbal_transport::DeniedCertificate;
use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::keys::{self, Keyed, Listed};
use super::kuryr_conf::{KubernetesSection, NeutronDefaults, OctaviaDefaults, PodVifNested, VifPool};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ClustersFile {
    pub(super) admins: Vec<AdminPrincipal>,
    pub(super) deny_certificates: Vec<DeniedCertificate>,
    pub(super) clusters: Vec<ClusterSection>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClusterSection {
    pub(super) name: Spanned<ClusterName>,
    pub(super) identity: Spanned<SubjectName>,
    #[serde(default)]
    pub(super) cluster_uid: Option<Keyed<keys::ClusterUid>>,
    #[serde(default)]
    pub(super) former_uids: Vec<Spanned<Listed<keys::FormerUid>>>,
    #[serde(default)]
    pub(super) kuryr_conf: Option<Spanned<PathBuf>>,
    #[serde(default, rename = "neutron_defaults")]
    pub(super) neutron: NeutronDefaults,
    #[serde(default, rename = "octavia_defaults")]
    pub(super) octavia: OctaviaDefaults,
    #[serde(default)]
    pub(super) kubernetes: KubernetesSection,
    #[serde(default, rename = "pod_vif_nested")]
    pub(super) nested: PodVifNested,
    #[serde(default, rename = "vif_pool")]
    pub(super) pool: VifPool,
    #[serde(default)]
    pub(super) projects: ProjectsSection,
    #[serde(default)]
    pub(super) former_projects: Vec<Listed<keys::FormerProject>>,
    #[serde(default)]
    pub(super) vip: VipSection,
    #[serde(default, rename = "podSubnets")]
    pub(super) _pod_subnets: PodSubnets,
    #[serde(default)]
    pub(super) members: Members,
    #[serde(default)]
    pub(super) floating: Floating,
    #[serde(default)]
    pub(super) certificates: Certificates,
    #[serde(default)]
    pub(super) providers: Providers,
    #[serde(default)]
    pub(super) classes: BTreeMap<Listed<keys::ClassName>, Class>,
    #[serde(default)]
    pub(super) shared_groups: BTreeMap<Listed<keys::SharedGroup>, Vec<Listed<keys::JoiningNamespace>>>,
    #[serde(default)]
    pub(super) rebuild_above: Option<u32>,
    #[serde(default)]
    pub(super) quota: QuotaSection,
    #[serde(default)]
    pub(super) guard: GuardSection,
    #[serde(default)]
    pub(super) mode: ClusterMode,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProjectsSection {
    pub(super) allow: Vec<Listed<keys::AllowedProject>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Certificates {
    pub(super) allow: Vec<Listed<keys::Certificate>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct VipSection {
    pub(super) mode: VipModeName,
    pub(super) own_port: OwnPortName,
    pub(super) subnets: Vec<Listed<keys::VipSubnet>>,
    pub(super) networks: Vec<Listed<keys::VipNetwork>>,
    pub(super) ports: Vec<Listed<keys::VipPort>>,
}

#[derive(Deserialize, Default, Clone, Copy)]
pub(super) enum VipModeName {
    #[default]
    #[serde(rename = "clusterIP")]
    ClusterIp,
    #[serde(rename = "allocate")]
    Allocate,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) enum OwnPortName {
    Never,
    #[default]
    LoadBalancer,
    Always,
}

/// Networks of Pods: read, and used once Pods get ports.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct PodSubnets {
    #[serde(rename = "mode")]
    pub(super) _mode: PodSubnetMode,
    #[serde(rename = "subnetPool")]
    pub(super) _subnet_pool: Option<Keyed<keys::SubnetPool>>,
    #[serde(rename = "router")]
    pub(super) _router: Option<Keyed<keys::Router>>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) enum PodSubnetMode {
    #[default]
    Namespace,
    Node,
    Flat,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Members {
    pub(super) mode: MemberModeName,
    pub(super) allow: Option<Vec<CidrText>>,
    pub(super) refuse: Vec<CidrText>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
pub(super) enum MemberModeName {
    #[default]
    Pod,
    Node,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Floating {
    pub(super) allow: Vec<Listed<keys::FloatingNetwork>>,
    pub(super) user: bool,
    pub(super) keep: bool,
}

impl Default for Floating {
    fn default() -> Self {
        Self { allow: Vec::new(), user: true, keep: true }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Providers {
    pub(super) allow: Option<Vec<Listed<keys::Provider>>>,
    pub(super) flavors: Vec<Listed<keys::Flavor>>,
    pub(super) availability_zones: Vec<Listed<keys::AvailabilityZone>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Class {
    pub(super) floating_network: Option<Keyed<keys::ClassFloatingNetwork>>,
    pub(super) floating_subnet: Option<Keyed<keys::ClassFloatingSubnet>>,
    pub(super) floating_subnet_tags: Vec<Listed<keys::ClassFloatingSubnetTag>>,
    pub(super) network: Option<Keyed<keys::ClassNetwork>>,
    pub(super) subnet: Option<Keyed<keys::ClassSubnet>>,
    pub(super) member_subnet: Option<Keyed<keys::ClassMemberSubnet>>,
    pub(super) provider: Option<Keyed<keys::ClassProvider>>,
    pub(super) flavor: Option<Keyed<keys::ClassFlavor>>,
    pub(super) availability_zone: Option<Keyed<keys::ClassAvailabilityZone>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct QuotaSection {
    pub(super) load_balancers: Option<u64>,
    pub(super) listeners: Option<u64>,
    pub(super) members: Option<u64>,
    pub(super) ports: Option<u64>,
    pub(super) floating_ips: Option<u64>,
    pub(super) mutations_per_second: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct GuardSection {
    pub(super) max_drop_percent: Option<Spanned<u8>>,
    pub(super) min_members: Option<u64>,
    pub(super) min_load_balancers: Option<u64>,
    pub(super) window: Option<Spanned<HumanDuration>>,
    pub(super) quiet_time: Option<Spanned<HumanDuration>>,
    pub(super) release_all_after: Option<Spanned<HumanDuration>>,
    pub(super) explicit: bool,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) enum ClusterMode {
    #[default]
    Admit,
    Quarantine,
}

pub(super) struct ClusterName(pub(super) BackendName);

impl<'de> Deserialize<'de> for ClusterName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        // Octavia's filters divide tags at commas.
        BackendName::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

/// A URI or DNS name, as in a certificate's subject alternative names.
pub(super) struct SubjectName(pub(super) String);

impl<'de> Deserialize<'de> for SubjectName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if is_certificate_name(&text) {
            return Ok(Self(text));
        }
        let message = format!("{text:?} is no identity: use one URI or DNS name of its certificate, without wildcards");
        Err(D::Error::custom(message))
    }
}

pub(super) struct CidrText(pub(super) IpNet);

impl<'de> Deserialize<'de> for CidrText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong =
            |_| D::Error::custom(format!("members: {text:?} is no range of addresses: write it as in 10.0.0.0/8"));
        text.parse::<IpNet>().map(Self).map_err(wrong)
    }
}
