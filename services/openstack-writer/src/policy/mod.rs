//! What a cluster may have, compared with what it wants. Pure.
//!
//! The certificate decides which cluster speaks; an ID in what it sends is a wish. One that its policy does not allow is
//! refused with its reason, before anything of it reaches OpenStack.

mod following;
mod kinds;
mod members;
mod quota;
mod sharing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kuryr_model::{
    ApiVersion, ClassDefaults, CloudFacts, DesiredLoadBalancer, ExternalNetwork, FloatingWish, FreeQuota,
    LoadBalancerDefaults, LoadBalancerPlacement, MemberMode, SubnetFacts, Text, VipMode, VipWish,
};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_model::AddressRules;
use gimbal_octavia_registry::OwnPort;

pub use members::with_most_members;
pub use quota::{ClusterQuota, ClusterUse, EntrySize};
pub(crate) use sharing::namespace_of_group;

/// Providers that are allowed where the configuration names none.
const USUAL_PROVIDERS: [&str; 2] = ["amphora", "ovn"];

/// What a cluster may have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // Each field is a key of the configuration file.
pub struct ClusterPolicy {
    pub project: Text,
    pub projects: BTreeSet<Text>,
    pub former_projects: BTreeSet<Text>,
    pub certificates: BTreeSet<Text>,
    pub service_subnet: Option<Text>,
    pub pod_subnet: Option<Text>,
    pub worker_subnets: Vec<Text>,
    pub security_groups: Vec<Text>,
    pub enforce_groups: bool,
    pub external_network: Option<Text>,
    pub external_subnet: Option<Text>,
    pub floating_networks: BTreeSet<Text>,
    pub user_addresses: bool,
    pub kept_addresses: bool,
    pub vip: VipMode,
    pub own_port: OwnPort,
    pub vip_subnets: BTreeSet<Text>,
    pub vip_networks: BTreeSet<Text>,
    pub vip_ports: BTreeSet<Text>,
    pub members: MemberMode,
    pub addresses: AddressRules,
    pub provider: Option<Text>,
    pub providers: Option<BTreeSet<Text>>,
    pub flavors: BTreeSet<Text>,
    pub availability_zones: BTreeSet<Text>,
    pub defaults: LoadBalancerDefaults,
    pub classes: BTreeMap<Text, ClassDefaults>,
    pub enable_ingress: bool,
    pub l7_router_ip: Option<IpAddr>,
    pub rebuild_above: Option<u32>,
    pub resource_tags: Vec<Text>,
    pub shared_groups: BTreeMap<Text, Vec<Text>>,
    pub quota: ClusterQuota,
}

/// What was read about the cloud for one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CloudKnowledge {
    /// Version of Octavia's API.
    pub api_version: ApiVersion,
    /// Subnets by ID: those that the policy names, and those of the external networks.
    pub subnets: BTreeMap<Text, SubnetFacts>,
    /// What is left of the quota.
    pub quota: FreeQuota,
    /// Whether the cloud has a key manager.
    pub key_manager: bool,
}

/// Why a wish is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PolicyBreach {
    /// What of it, for programs.
    pub reason: KuryrReason,
    /// A sentence that names the value and what to do.
    pub message: String,
}

fn breach(reason: KuryrReason, message: String) -> Result<(), PolicyBreach> {
    Err(PolicyBreach { reason, message })
}

impl ClusterPolicy {
    /// Returns what the controller of the cluster is to know.
    #[must_use]
    pub fn facts(&self, known: &CloudKnowledge) -> CloudFacts {
        let external = self.external_network.as_ref().map(|network| ExternalNetwork {
            network: network.clone(),
            subnet: self.external_subnet.clone(),
            allowed: self.floating_networks.clone(),
            user_addresses: self.user_addresses,
        });
        CloudFacts {
            api_version: known.api_version,
            // What providers can do is learned from their answers.
            providers: BTreeMap::new(),
            provider: self.provider.clone(),
            project: self.project.clone(),
            allowed_projects: self.projects.clone(),
            subnets: known.subnets.clone(),
            service_subnets: self.service_subnet.iter().cloned().collect(),
            pod_subnets: self.pod_subnet.iter().chain(&self.worker_subnets).cloned().collect(),
            security_groups: if self.enforce_groups { self.security_groups.clone() } else { Vec::new() },
            external,
            vip: self.vip,
            members: self.members,
            defaults: self.defaults.clone(),
            classes: self.classes.clone(),
            quota: known.quota,
            enable_ingress: self.enable_ingress,
            l7_router_ip: self.l7_router_ip,
            certificates: self.enable_ingress && known.key_manager,
        }
    }

    /// Returns every subnet that VIPs may be in, whatever a wish names.
    pub fn subnets_of_vips(&self) -> impl Iterator<Item = &Text> {
        let classes = self.classes.values().filter_map(|class| class.subnet.as_ref());
        self.service_subnet.iter().chain(&self.vip_subnets).chain(classes)
    }

    /// Returns every subnet that members may be reached in.
    pub fn subnets_of_members(&self) -> impl Iterator<Item = &Text> {
        let classes = self.classes.values().filter_map(|class| class.member_subnet.as_ref());
        self.subnets_of_vips().chain(&self.pod_subnet).chain(&self.worker_subnets).chain(classes)
    }

    /// Returns every network that floating IPs may come from.
    pub fn networks_of_floating_ips(&self) -> impl Iterator<Item = &Text> {
        let classes = self.classes.values().filter_map(|class| class.floating_network.as_ref());
        self.external_network.iter().chain(&self.floating_networks).chain(classes)
    }

    /// Whether it names anything of Neutron, so that the cloud has to have that.
    #[must_use]
    pub fn names_network(&self) -> bool {
        let networks = self.networks_of_floating_ips().chain(&self.vip_networks).chain(&self.vip_ports);
        self.subnets_of_members().chain(networks).next().is_some()
    }

    /// Checks that the cluster may have this load balancer, whatever its members are.
    ///
    /// # Errors
    /// Returns the first thing that it may not have.
    pub fn check(&self, known: &CloudKnowledge, wanted: &DesiredLoadBalancer) -> Result<(), PolicyBreach> {
        let header = &wanted.header;
        self.placement(&header.placement)?;
        self.vip(known, &header.vip)?;
        if let Some(floating) = &header.floating {
            self.floating(known, floating, header.routing.is_some())?;
        }
        // Octavia reads them with the rights of this process, which may be those of several clusters.
        if let Some(container) = header.tls_containers.iter().find(|one| !self.allows_certificate(one)) {
            let message = format!("certificate {container:?} is not allowed (certificates.allow of the writer)");
            return breach(KuryrReason::CertificateNotAllowed, message);
        }
        for member in wanted.members.as_slice() {
            if let Some(subnet) = &member.subnet
                && !self.allows_subnet_of_members(subnet)
            {
                return breach(
                    KuryrReason::NetworkNotAllowed,
                    format!("subnet {subnet} of members is not one of the cluster's"),
                );
            }
        }
        Ok(())
    }

    fn allows_subnet_of_members(&self, subnet: &Text) -> bool {
        self.subnets_of_members().any(|allowed| allowed == subnet)
    }

    fn allows_certificate(&self, container: &str) -> bool {
        self.certificates.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(start) => container.starts_with(start),
            None => **allowed == *container,
        })
    }

    fn placement(&self, wish: &LoadBalancerPlacement) -> Result<(), PolicyBreach> {
        let LoadBalancerPlacement { project, provider, flavor, availability_zone } = wish;
        if !project.is_empty() && *project != self.project && !self.projects.contains(project) {
            let message = format!("project {project:?} is not allowed (projects.allow of the writer)");
            return breach(KuryrReason::ProjectNotAllowed, message);
        }
        let of_class = |get: fn(&ClassDefaults) -> &Option<Text>, wish: &Text| {
            self.classes.values().any(|class| get(class).as_ref() == Some(wish))
        };
        if let Some(provider) = provider {
            let listed = match &self.providers {
                Some(allowed) => allowed.contains(provider),
                None => USUAL_PROVIDERS.contains(&&**provider),
            };
            if !listed && self.provider.as_ref() != Some(provider) && !of_class(|class| &class.provider, provider) {
                let message = format!("provider {provider:?} is not allowed (providers.allow of the writer)");
                return breach(KuryrReason::ProviderNotAllowed, message);
            }
        }
        if let Some(flavor) = flavor
            && !self.flavors.contains(flavor)
            && !of_class(|class| &class.flavor, flavor)
        {
            let message = format!("flavor {flavor:?} is not allowed (providers.flavors of the writer)");
            return breach(KuryrReason::ProviderNotAllowed, message);
        }
        if let Some(zone) = availability_zone
            && !self.availability_zones.contains(zone)
            && !of_class(|class| &class.availability_zone, zone)
        {
            let message =
                format!("availability zone {zone:?} is not allowed (providers.availabilityZones of the writer)");
            return breach(KuryrReason::ProviderNotAllowed, message);
        }
        Ok(())
    }

    fn vip(&self, known: &CloudKnowledge, wish: &VipWish) -> Result<(), PolicyBreach> {
        for subnet in wish.subnet.iter().chain(&wish.additional_subnets) {
            if !self.subnets_of_vips().any(|allowed| allowed == subnet) {
                let message = format!("subnet {subnet:?} of the VIP is not allowed (vip.subnets of the writer)");
                return breach(KuryrReason::NetworkNotAllowed, message);
            }
        }
        if let Some(network) = &wish.network {
            let classes = self.classes.values().filter_map(|class| class.network.as_ref());
            // A subnet that is allowed lies in a network that is.
            let of_subnets = self.subnets_of_vips().filter_map(|subnet| known.subnets.get(subnet));
            let mut allowed = self.vip_networks.iter().chain(classes).chain(of_subnets.map(|subnet| &subnet.network));
            if !allowed.any(|allowed| allowed == network) {
                let message = format!("network {network:?} of the VIP is not allowed (vip.networks of the writer)");
                return breach(KuryrReason::NetworkNotAllowed, message);
            }
        }
        if let Some(port) = &wish.port
            && !self.vip_ports.contains(port)
        {
            let message = format!("port {port:?} of the VIP is not allowed (vip.ports of the writer)");
            return breach(KuryrReason::NetworkNotAllowed, message);
        }
        if wish.subnet.is_none() && wish.network.is_none() && wish.port.is_none() {
            let message = "no subnet for the VIP (neutron_defaults.service_subnet of the writer)".to_owned();
            return breach(KuryrReason::NetworkNotAllowed, message);
        }
        if let Some(group) = wish.security_groups.iter().find(|group| !self.security_groups.contains(group)) {
            let message = format!("security group {group:?} is not allowed (neutron_defaults.pod_security_groups)");
            return breach(KuryrReason::NetworkNotAllowed, message);
        }
        if let (Some(address), Some(subnet)) = (wish.address, &wish.subnet)
            && let Some(facts) = known.subnets.get(subnet)
            && !facts.cidr.contains(&address)
        {
            let message = format!("address {address} of the VIP is not in {}, its subnet {subnet}", facts.cidr);
            return breach(KuryrReason::NetworkNotAllowed, message);
        }
        Ok(())
    }

    fn floating(&self, known: &CloudKnowledge, wish: &FloatingWish, is_router: bool) -> Result<(), PolicyBreach> {
        let network = wish.network.as_ref().or(self.external_network.as_ref());
        let Some(network) = network else {
            let message = "a floating IP has no network (neutron_defaults.external_svc_net of the writer)".to_owned();
            return breach(KuryrReason::FloatingNotAllowed, message);
        };
        if !self.networks_of_floating_ips().any(|allowed| allowed == network) {
            let message =
                format!("network {network:?} of the floating IP is not allowed (floating.allow of the writer)");
            return breach(KuryrReason::FloatingNotAllowed, message);
        }
        if let Some(subnet) = &wish.subnet
            && known.subnets.get(subnet).is_some_and(|facts| facts.network != *network)
        {
            let message = format!("subnet {subnet:?} of the floating IP is not in network {network}");
            return breach(KuryrReason::FloatingNotAllowed, message);
        }
        if let Some(address) = wish.address {
            let is_of_router = self.l7_router_ip == Some(address);
            if is_of_router && !is_router {
                let message = format!("floating IP {address} is that of the router (l7_router_ip of the writer)");
                return breach(KuryrReason::FloatingNotAllowed, message);
            }
            if !is_of_router && !self.user_addresses {
                let message =
                    format!("floating IP {address} may not be asked for by address (floating.user of the writer)");
                return breach(KuryrReason::FloatingNotAllowed, message);
            }
        }
        Ok(())
    }

    /// Returns the load balancer without the wish to leave its floating IP behind where none may be left, with what is
    /// reported of that.
    #[must_use]
    pub fn without_kept(&self, mut wanted: DesiredLoadBalancer) -> (DesiredLoadBalancer, Option<String>) {
        let Some(wish) = wanted.header.floating.as_deref().filter(|wish| wish.keep && !self.kept_addresses) else {
            return (wanted, None);
        };
        let wish = FloatingWish { keep: false, ..wish.clone() };
        Arc::make_mut(&mut wanted.header).floating = Some(Box::new(wish));
        (wanted, Some("the floating IP goes with its owner: none may be kept (floating.keep of the writer)".to_owned()))
    }

    /// Returns the load balancer in the cluster's own project where it names none.
    #[must_use]
    pub fn placed(&self, wanted: &DesiredLoadBalancer) -> DesiredLoadBalancer {
        let mut placed = wanted.clone();
        if placed.header.placement.project.is_empty() {
            Arc::make_mut(&mut placed.header).placement.project = self.project.clone();
        }
        placed
    }
}
