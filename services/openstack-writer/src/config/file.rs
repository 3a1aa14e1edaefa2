//! Checks the file as a whole, and converts it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kuryr_model::{ClassDefaults, LoadBalancerDefaults, MemberMode, Text, VipMode};
use gimbal_octavia_registry::{ClusterGuards, OwnPort};
use gimbal_runtime::HumanDuration;
use serde_saphyr::Spanned;

use super::keys::{Keyed, text, texts};
use super::kuryr_conf::KuryrSections;
use super::sections::{
    CidrText, Class, ClusterMode, ClusterSection, ClustersFile, GuardSection, MemberModeName, OwnPortName,
    QuotaSection, VipModeName,
};
use super::{ClusterConfig, ClustersConfig, ClustersConfigError};
use crate::policy::{ClusterPolicy, ClusterQuota};

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
        if file.admins.iter().any(|admin| admin.as_str().eq_ignore_ascii_case(identity)) {
            let problem =
                format!("the identity {identity:?} is one of admins: a cluster must not have an administrator's");
            return Err(wrong(path, &cluster.identity, problem));
        }
        let uid = cluster.cluster_uid.as_ref().map(Keyed::as_str).unwrap_or_default();
        if let Some(former) = cluster.former_uids.iter().find(|former| former.value.as_str() == uid) {
            let problem = format!("formerUids of {name} has its clusterUid {uid:?}: take it out of one of them");
            return Err(wrong(path, former, problem));
        }
    }
    let clusters = file.clusters.into_iter().map(|cluster| cluster.into_config(path));
    Ok(ClustersConfig {
        admins: file.admins,
        denied: file.deny_certificates.into_iter().collect(),
        clusters: clusters.collect::<Result<_, _>>()?,
    })
}

fn wrong<T>(path: &Path, at: &Spanned<T>, problem: impl Into<String>) -> ClustersConfigError {
    ClustersConfigError::at(path, Some((at.referenced.line(), at.referenced.column())), problem)
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
            kept_addresses: self.floating.keep,
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
                algorithm: kuryr.octavia.lb_algorithm.map(|algorithm| algorithm.0),
                timeout_client_data: kuryr.octavia.timeout_client_data.unwrap_or_default(),
                timeout_member_data: kuryr.octavia.timeout_member_data.unwrap_or_default(),
            },
            classes: self.classes.into_iter().map(|(name, class)| (name.into(), class.into_defaults())).collect(),
            enable_ingress: kuryr.kubernetes.enable_ingress.unwrap_or_default(),
            l7_router_ip: kuryr.neutron.l7_router_ip,
            rebuild_above: self.rebuild_above,
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
