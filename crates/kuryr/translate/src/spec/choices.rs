//! What the cloud has to offer, and what is chosen of it: by annotation, else by class, else by the cluster's defaults. For where the
//! floating IP comes from the class goes first, as with cloud-provider-openstack.

use super::*;
use gimbal_kuryr_model::{ClassDefaults, SubnetFacts};
use gimbal_model::wildcard_matches;

pub(super) struct Choices<'a> {
    pub service: &'a BalancedService,
    pub annotations: &'a Annotations,
    pub facts: &'a CloudFacts,
    pub chosen: Option<&'a Chosen>,
    pub findings: &'a mut Vec<Finding>,
}

impl<'a> Choices<'a> {
    pub(super) fn fill(mut self, spec: &mut KuryrLoadBalancerSpec) {
        let class = self.class();
        let (annotations, facts) = (self.annotations, self.facts);
        spec.project_id = Some(self.project());
        spec.provider = class.provider.clone().or_else(|| facts.provider.clone());
        spec.flavor_id = annotations.flavor.clone().or_else(|| class.flavor.clone());
        spec.availability_zone = annotations.availability_zone.clone().or_else(|| class.availability_zone.clone());
        spec.security_groups_ids = facts.security_groups.clone();
        spec.member_mode = Some(match facts.members {
            MemberMode::Pod => KlbMemberMode::Pod,
            MemberMode::Node => KlbMemberMode::Node,
        });
        spec.member_subnet_id = annotations.member_subnet.clone().or_else(|| class.member_subnet.clone());
        spec.vip_network_id = annotations.network.clone().or_else(|| class.network.clone());
        spec.subnet_id = self.subnet(spec, &class);
        self.second_family(spec);
        self.floating(spec, &class);
    }

    fn reject(&mut self, name: &'static str, value: &str, problem: AnnotationProblem) {
        self.findings.push(Finding::Annotation { name, value: shown(value), problem });
    }

    /// What is asked for cannot be had. Of a load balancer that exists that may be news, and it would be replaced: what was chosen
    /// for it stays, and is returned.
    fn reject_or_keep(&mut self, name: &'static str, value: &str, problem: AnnotationProblem) -> Option<&'a Chosen> {
        let chosen = self.chosen;
        match chosen {
            Some(_) => self.findings.push(Finding::AsBefore { name, value: shown(value), problem }),
            None => self.reject(name, value, problem),
        }
        chosen
    }

    fn class(&mut self) -> ClassDefaults {
        let annotation = "loadbalancer.openstack.org/class";
        let Some(name) = &self.annotations.class else {
            // One that cannot be read takes nothing away.
            let is_unreadable = self.service.annotations().contains_key(annotation);
            return self.chosen.filter(|_| is_unreadable).map(Chosen::as_class).unwrap_or_default();
        };
        if let Some(class) = self.facts.classes.get(name) {
            return class.clone();
        }
        let chosen = self.reject_or_keep(annotation, name, AnnotationProblem::NoSuchClass);
        chosen.map(Chosen::as_class).unwrap_or_default()
    }

    /// The writer refuses a project that it does not allow any more, and what was made there stays.
    fn project(&mut self) -> Text {
        match &self.annotations.project {
            Some(asked) if *asked == self.facts.project || self.facts.allowed_projects.contains(asked) => asked.clone(),
            Some(asked) => {
                let annotation = gimbal_kuryr_crd::names::annotations::PROJECT;
                let chosen = self.reject_or_keep(annotation, asked, AnnotationProblem::NotAllowed);
                chosen.and_then(|chosen| chosen.project.clone()).unwrap_or_else(|| self.facts.project.clone())
            }
            None => self.facts.project.clone(),
        }
    }

    /// The subnet that holds the address, else the first one of its family. [`crate::desired`] refuses an address outside. Where
    /// the configuration does not have the one any more that the load balancer was made in, that stays.
    fn subnet(&mut self, spec: &KuryrLoadBalancerSpec, class: &ClassDefaults) -> Option<Text> {
        let asked = self.annotations.subnet.as_ref().or(class.subnet.as_ref());
        if asked.is_some() {
            return asked.cloned();
        }
        if spec.vip_port_id.is_some() || (spec.vip_network_id.is_some() && spec.ip.is_none()) {
            return None;
        }
        let services = &self.facts.service_subnets;
        let holding = spec.ip.as_deref().and_then(address).and_then(|ip| self.facts.subnet_of(services, ip));
        let default =
            holding.or_else(|| self.service_subnet(primary_family(spec))).or_else(|| services.first()).cloned();
        let before = self.chosen.and_then(|chosen| chosen.subnet_that_is_gone(self.facts));
        let Some(before) = before.filter(|before| default.as_ref() != Some(*before)) else { return default };
        self.findings.push(Finding::SubnetAsBefore { subnet: shown(before) });
        Some(before.clone())
    }

    fn service_subnet(&self, family: Family) -> Option<&Text> {
        self.facts
            .service_subnets
            .iter()
            .find(|id| self.facts.subnets.get(*id).is_some_and(|subnet| Family::of(subnet.cidr.addr()) == family))
    }

    fn second_family(&mut self, spec: &mut KuryrLoadBalancerSpec) {
        let Some(second) = spec.ip_families.get(1) else { return };
        let family = if *second == KlbIpFamily::IPv4 { Family::V4 } else { Family::V6 };
        if self.facts.api_version < ApiVersion::ADDITIONAL_VIPS {
            self.findings.push(Finding::SecondFamily("this Octavia is older than API 2.26"));
            return;
        }
        let network = |id: Option<&Text>| id.and_then(|id| self.facts.subnets.get(id)).map(|subnet| &subnet.network);
        let own = self.facts.vip == VipMode::ClusterIp && spec.shared_group.is_none();
        let of_family = |text: &&Text| address(text).is_some_and(|ip| Family::of(ip) == family);
        let ip = self.service.spec.cluster_ips.iter().skip(1).find(of_family).filter(|_| own);
        let second = match ip.and_then(|text| address(text)) {
            Some(ip) => {
                let holding = self.facts.subnet_of(&self.facts.service_subnets, ip);
                if holding.is_none() {
                    self.findings.push(Finding::SecondFamily("no subnet of Services holds its cluster IP"));
                    return;
                }
                holding
            }
            None => self.service_subnet(family),
        };
        if second.is_some() && network(second) == network(spec.subnet_id.as_ref()) {
            spec.additional_vip_subnet_ids = second.cloned().into_iter().collect();
            spec.additional_ips = ip.and_then(canonical).into_iter().collect();
        } else {
            self.findings.push(Finding::SecondFamily("the network of the first has no subnet of it"));
        }
    }

    fn floating(&mut self, spec: &mut KuryrLoadBalancerSpec, class: &ClassDefaults) {
        let outside = spec.type_.as_deref() == Some("LoadBalancer");
        // Whatever else asks for one.
        if spec.internal == Some(true) {
            return;
        }
        let before = self.chosen.filter(|chosen| chosen.floating_network.is_some());
        let is_asked = |address: &&Text| {
            self.service.spec.external_ips.iter().filter_map(canonical).any(|asked| asked == **address)
        };
        if spec.lb_ip.is_none() {
            // Of several, another one is no reason to let the present one go, which is lost then.
            let has = before.and_then(|before| before.floating_address.as_ref()).filter(is_asked);
            let external = |text: &&Text| address(text).is_some_and(|address: IpAddr| self.facts.is_external(address));
            let first = || self.service.spec.external_ips.iter().find(external).and_then(canonical);
            spec.lb_ip = has.filter(external).cloned().or_else(|| if has.is_some() { None } else { first() });
        }
        if spec.lb_ip.is_none()
            && let Some(before) = before
            && let Some(address) = before.floating_address.as_ref().filter(is_asked)
        {
            spec.lb_ip = Some(address.clone());
            // The address of one that is let go is lost for good. The writer refuses it, and nothing changes.
            if self.facts.external.is_some() {
                spec.floating_network_id = before.floating_network.clone();
                spec.floating_subnet_id = before.floating_subnet.clone();
                self.findings.push(Finding::AddressAsBefore { address: address.clone() });
                return;
            }
        }
        if spec.lb_ip.is_none() && !outside {
            return;
        }
        let Some(external) = &self.facts.external else {
            // The address of one that is let go is lost for good. The writer refuses it, and nothing changes.
            if let Some(before) = before {
                spec.floating_network_id = before.floating_network.clone();
                spec.floating_subnet_id = before.floating_subnet.clone();
                self.findings.push(Finding::FloatingAsBefore);
                return;
            }
            spec.lb_ip = None;
            self.findings.push(Finding::NoExternalNetwork);
            return;
        };
        if let Some(asked) = spec.lb_ip.take_if(|_| !external.user_addresses) {
            // One that it has would be lost for good. The writer refuses it, and nothing changes.
            if before.is_some_and(|before| before.floating_address.as_ref() == Some(&asked)) {
                spec.lb_ip = Some(asked.clone());
                self.findings.push(Finding::AddressAsBefore { address: asked });
            } else {
                self.findings.push(Finding::FloatingAddress { address: asked });
                if !outside {
                    return;
                }
            }
        }
        let network = match (class.floating_network.as_ref(), self.annotations.floating_network.as_ref()) {
            (None, Some(asked)) if *asked != external.network && !external.allowed.contains(asked) => {
                let name = "loadbalancer.openstack.org/floating-network-id";
                if let Some(before) = before {
                    self.reject_or_keep(name, asked, AnnotationProblem::NotAllowed);
                    spec.floating_network_id = before.floating_network.clone();
                    spec.floating_subnet_id = before.floating_subnet.clone();
                    return;
                }
                self.reject(name, asked, AnnotationProblem::NotAllowed);
                None
            }
            (of_class, asked) => of_class.or(asked),
        };
        let network = network.unwrap_or(&external.network);
        let asked = self.floating_subnet(network, class);
        let default = external.subnet.as_ref().filter(|_| *network == external.network);
        spec.floating_subnet_id = asked.or_else(|| default.cloned());
        spec.floating_network_id = Some(network.clone());
    }

    /// By ID, else by name and tags; of the class, else of the Service.
    fn floating_subnet(&mut self, network: &Text, class: &ClassDefaults) -> Option<Text> {
        let (annotations, facts) = (self.annotations, self.facts);
        let of_class = &class.floating_subnet_tags;
        let mut of_network = facts.subnets.iter().filter(|(_, subnet)| subnet.network == *network);
        if class.floating_subnet.is_some() {
            return class.floating_subnet.clone();
        }
        if !of_class.is_empty() {
            return of_network.find(|(_, subnet)| has_tags(subnet, of_class)).map(|(id, _)| id.clone());
        }
        if annotations.floating_subnet.is_some() {
            return annotations.floating_subnet.clone();
        }
        let (name, tags) = (annotations.floating_subnet_name.as_ref(), annotations.floating_subnet_tags.as_deref());
        let (asked, value) = match (name, tags) {
            (Some(name), _) => ("loadbalancer.openstack.org/floating-subnet", name.to_string()),
            (None, Some(tags)) => ("loadbalancer.openstack.org/floating-subnet-tags", tags.join(",")),
            (None, None) => return None,
        };
        let found = of_network.find(|(_, subnet)| {
            name.is_none_or(|name| wildcard_matches(name, &subnet.name))
                && tags.is_none_or(|tags| has_tags(subnet, tags))
        });
        if found.is_none() {
            self.reject(asked, &value, AnnotationProblem::NoSuchSubnet);
        }
        found.map(|(id, _)| id.clone())
    }
}

/// Whether a subnet has one of these tags; all of them, if the first begins with `&`.
fn has_tags(subnet: &SubnetFacts, tags: &[Text]) -> bool {
    let has = |tag: &str| subnet.tags.contains(tag);
    match tags.split_first().and_then(|(first, others)| Some((first.strip_prefix('&')?, others))) {
        Some((first, others)) => has(first) && others.iter().all(|tag| has(tag)),
        None => tags.iter().any(|tag| has(tag)),
    }
}
