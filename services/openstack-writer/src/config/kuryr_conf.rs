//! Kuryr's own sections: as part of the YAML file, and read from a `kuryr.conf`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use gimbal_kuryr_model::{Algorithm, MemberAddressing};
use serde::{Deserialize, Deserializer};

use super::ClustersConfigError;
use super::keys::{self, Keyed, Listed, TextKey};

/// Kuryr's sections. What is unset was not given.
#[derive(Debug, Default)]
pub(super) struct KuryrSections {
    pub neutron: NeutronDefaults,
    pub octavia: OctaviaDefaults,
    pub kubernetes: KubernetesSection,
    pub nested: PodVifNested,
    pub pool: VifPool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct NeutronDefaults {
    pub project: Option<Keyed<keys::Project>>,
    pub service_subnet: Option<Keyed<keys::ServiceSubnet>>,
    pub pod_subnet: Option<Keyed<keys::PodSubnet>>,
    pub pod_security_groups: Option<Vec<Listed<keys::PodSecurityGroup>>>,
    pub external_svc_net: Option<Keyed<keys::ExternalNetwork>>,
    pub external_svc_subnet: Option<Keyed<keys::ExternalSubnet>>,
    pub l7_router_ip: Option<IpAddr>,
    pub resource_tags: Option<Vec<Listed<keys::ResourceTag>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct OctaviaDefaults {
    pub member_mode: Option<Addressing>,
    pub lb_algorithm: Option<AlgorithmName>,
    pub timeout_client_data: Option<u32>,
    pub timeout_member_data: Option<u32>,
    pub enforce_sg_rules: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KubernetesSection {
    pub enable_ingress: Option<bool>,
    pub endpoints_driver_octavia_provider: Option<Keyed<keys::UsualProvider>>,
    pub pod_vif_driver: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PodVifNested {
    pub worker_nodes_subnets: Option<Vec<Listed<keys::WorkerSubnet>>>,
}

/// Pools of ports for Pods: read, and used once Pods get ports.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct VifPool {
    pub ports_pool_min: Option<u32>,
    pub ports_pool_max: Option<u32>,
    pub ports_pool_batch: Option<u32>,
}

/// `member_mode`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addressing(pub MemberAddressing);

impl FromStr for Addressing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "L2" => Ok(Self(MemberAddressing::L2)),
            "L3" => Ok(Self(MemberAddressing::L3)),
            _ => Err(format!("{text:?} is no member_mode: use L2 or L3")),
        }
    }
}

impl<'de> Deserialize<'de> for Addressing {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// `lb_algorithm`.
#[derive(Debug, Clone, Copy)]
pub(super) struct AlgorithmName(pub Algorithm);

impl FromStr for AlgorithmName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "ROUND_ROBIN" => Algorithm::RoundRobin,
            "LEAST_CONNECTIONS" => Algorithm::LeastConnections,
            "SOURCE_IP" => Algorithm::SourceIp,
            "SOURCE_IP_PORT" => Algorithm::SourceIpPort,
            _ => {
                let all = "ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP or SOURCE_IP_PORT";
                return Err(format!("{text:?} is no lb_algorithm: use {all}"));
            }
        }))
    }
}

impl<'de> Deserialize<'de> for AlgorithmName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl KuryrSections {
    /// Reads the keys that have a meaning here from the text of a `kuryr.conf`. Its many others are for Kuryr alone.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ClustersConfigError> {
        let ini = Ini::parse(path, text)?;
        Ok(Self {
            neutron: NeutronDefaults {
                project: ini.keyed("neutron_defaults", "project")?,
                service_subnet: ini.keyed("neutron_defaults", "service_subnet")?,
                pod_subnet: ini.keyed("neutron_defaults", "pod_subnet")?,
                pod_security_groups: ini.list("neutron_defaults", "pod_security_groups")?,
                external_svc_net: ini.keyed("neutron_defaults", "external_svc_net")?,
                external_svc_subnet: ini.keyed("neutron_defaults", "external_svc_subnet")?,
                l7_router_ip: ini.read("neutron_defaults", "l7_router_ip")?,
                resource_tags: ini.list("neutron_defaults", "resource_tags")?,
            },
            octavia: OctaviaDefaults {
                member_mode: ini.read("octavia_defaults", "member_mode")?,
                lb_algorithm: ini.read("octavia_defaults", "lb_algorithm")?,
                timeout_client_data: ini.read("octavia_defaults", "timeout_client_data")?,
                timeout_member_data: ini.read("octavia_defaults", "timeout_member_data")?,
                enforce_sg_rules: ini.boolean("octavia_defaults", "enforce_sg_rules")?,
            },
            kubernetes: KubernetesSection {
                enable_ingress: ini.boolean("kubernetes", "enable_ingress")?,
                endpoints_driver_octavia_provider: ini.keyed("kubernetes", "endpoints_driver_octavia_provider")?,
                pod_vif_driver: ini.text("kubernetes", "pod_vif_driver"),
            },
            nested: PodVifNested { worker_nodes_subnets: ini.list("pod_vif_nested", "worker_nodes_subnets")? },
            pool: VifPool {
                ports_pool_min: ini.read("vif_pool", "ports_pool_min")?,
                ports_pool_max: ini.read("vif_pool", "ports_pool_max")?,
                ports_pool_batch: ini.read("vif_pool", "ports_pool_batch")?,
            },
        })
    }

    /// Fills what is unset from `other`.
    pub(super) fn or(self, other: Self) -> Self {
        let Self { neutron: n, octavia: o, kubernetes: k, nested, pool: p } = self;
        Self {
            neutron: NeutronDefaults {
                project: n.project.or(other.neutron.project),
                service_subnet: n.service_subnet.or(other.neutron.service_subnet),
                pod_subnet: n.pod_subnet.or(other.neutron.pod_subnet),
                pod_security_groups: n.pod_security_groups.or(other.neutron.pod_security_groups),
                external_svc_net: n.external_svc_net.or(other.neutron.external_svc_net),
                external_svc_subnet: n.external_svc_subnet.or(other.neutron.external_svc_subnet),
                l7_router_ip: n.l7_router_ip.or(other.neutron.l7_router_ip),
                resource_tags: n.resource_tags.or(other.neutron.resource_tags),
            },
            octavia: OctaviaDefaults {
                member_mode: o.member_mode.or(other.octavia.member_mode),
                lb_algorithm: o.lb_algorithm.or(other.octavia.lb_algorithm),
                timeout_client_data: o.timeout_client_data.or(other.octavia.timeout_client_data),
                timeout_member_data: o.timeout_member_data.or(other.octavia.timeout_member_data),
                enforce_sg_rules: o.enforce_sg_rules.or(other.octavia.enforce_sg_rules),
            },
            kubernetes: KubernetesSection {
                enable_ingress: k.enable_ingress.or(other.kubernetes.enable_ingress),
                endpoints_driver_octavia_provider: k
                    .endpoints_driver_octavia_provider
                    .or(other.kubernetes.endpoints_driver_octavia_provider),
                pod_vif_driver: k.pod_vif_driver.or(other.kubernetes.pod_vif_driver),
            },
            nested: PodVifNested {
                worker_nodes_subnets: nested.worker_nodes_subnets.or(other.nested.worker_nodes_subnets),
            },
            pool: VifPool {
                ports_pool_min: p.ports_pool_min.or(other.pool.ports_pool_min),
                ports_pool_max: p.ports_pool_max.or(other.pool.ports_pool_max),
                ports_pool_batch: p.ports_pool_batch.or(other.pool.ports_pool_batch),
            },
        }
    }
}

/// The keys of an INI file as oslo.config reads it, each with its line.
struct Ini<'a> {
    path: &'a Path,
    values: BTreeMap<(String, String), (u64, String)>,
}

impl<'a> Ini<'a> {
    fn parse(path: &'a Path, text: &str) -> Result<Self, ClustersConfigError> {
        let mut values: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
        let (mut section, mut last) = (String::new(), None);
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                last = None;
            } else if line.starts_with([' ', '\t']) {
                // The value of the key before goes on.
                let Some((_, value)) = last.as_ref().and_then(|key| values.get_mut(key)) else {
                    return Err(ClustersConfigError::at(path, Some((number, 1)), "continues no key"));
                };
                value.push_str(trimmed);
            } else if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                (section, last) = (name.trim().to_owned(), None);
            } else if section.is_empty() && !trimmed.starts_with('[') {
                // oslo.config refuses such a file, too. It may be any file, so what it says is not repeated.
                return Err(ClustersConfigError::at(
                    path,
                    Some((number, 1)),
                    "is in no section: is this a kuryr.conf?",
                ));
            } else if let Some((key, value)) = trimmed.split_once(['=', ':']) {
                let key = (section.clone(), key.trim().to_owned());
                values.insert(key.clone(), (number, value.trim().to_owned()));
                last = Some(key);
            } else {
                return Err(ClustersConfigError::at(path, Some((number, 1)), "is neither [section] nor key = value"));
            }
        }
        Ok(Self { path, values })
    }

    fn get(&self, section: &str, key: &str) -> Option<&(u64, String)> {
        self.values.get(&(section.to_owned(), key.to_owned())).filter(|(_, value)| !value.is_empty())
    }

    fn text(&self, section: &str, key: &str) -> Option<String> {
        self.get(section, key).map(|(_, value)| unquoted(value).to_owned())
    }

    fn keyed<K: TextKey>(&self, section: &str, key: &str) -> Result<Option<Keyed<K>>, ClustersConfigError> {
        let Some((line, value)) = self.get(section, key) else { return Ok(None) };
        unquoted(value).parse::<Keyed<K>>().map(Some).map_err(|problem| self.at(*line, problem))
    }

    fn list<K: TextKey>(&self, section: &str, key: &str) -> Result<Option<Vec<Listed<K>>>, ClustersConfigError> {
        let Some((line, value)) = self.get(section, key) else { return Ok(None) };
        let items = value.split(',').map(|item| unquoted(item.trim())).filter(|item| !item.is_empty());
        items
            .map(|item| item.parse::<Listed<K>>())
            .collect::<Result<_, _>>()
            .map(Some)
            .map_err(|problem| self.at(*line, problem))
    }

    fn read<T: FromStr>(&self, section: &str, key: &str) -> Result<Option<T>, ClustersConfigError> {
        let Some((line, value)) = self.get(section, key) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| self.wrong(*line, section, key, value))
    }

    fn boolean(&self, section: &str, key: &str) -> Result<Option<bool>, ClustersConfigError> {
        let Some((line, value)) = self.get(section, key) else { return Ok(None) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(Some(true)),
            "false" | "0" | "no" | "off" => Ok(Some(false)),
            _ => Err(self.wrong(*line, section, key, value)),
        }
    }

    fn wrong(&self, line: u64, section: &str, key: &str, value: &str) -> ClustersConfigError {
        self.at(line, format!("[{section}] {key}: {value:?} is not valid"))
    }

    fn at(&self, line: u64, problem: String) -> ClustersConfigError {
        ClustersConfigError::at(self.path, Some((line, 1)), problem)
    }
}

/// oslo.config takes quotes as part of a text, and people write them.
fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}
