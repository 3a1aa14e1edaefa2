//! What was chosen for a load balancer that exists.

use gimbal_kuryr_crd::names::annotations as names;
use gimbal_kuryr_crd::{KlbProxyProtocol, KuryrL7RouterSpec, KuryrLoadBalancerSpec};
use gimbal_kuryr_model::{
    ClassDefaults, CloudFacts, DesiredMembers, ListenerKind, LoadBalancerHeader, ProxyVersion, Text,
};

use crate::finding::shown;
use crate::members::own_subnet;
use crate::{Annotations, Finding};

/// What was chosen for a load balancer that exists, and would be another one if it were chosen anew: what it keeps for its life,
/// where its floating IP comes from, and what its clients and members speak. Where the writer's configuration does not have any more what a Service names, or where that
/// cannot be read any more, this stays (docs/way-back.md#which-services).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chosen {
    pub(crate) project: Option<Text>,
    pub(crate) provider: Option<Text>,
    pub(crate) flavor: Option<Text>,
    pub(crate) availability_zone: Option<Text>,
    pub(crate) network: Option<Text>,
    pub(crate) subnet: Option<Text>,
    pub(crate) port: Option<Text>,
    pub(crate) member_subnet: Option<Text>,
    pub(crate) floating_network: Option<Text>,
    pub(crate) floating_subnet: Option<Text>,
    pub(crate) floating_address: Option<Text>,
    pub(crate) shared_group: Option<Text>,
    pub(crate) proxy_protocol: Option<KlbProxyProtocol>,
    pub(crate) x_forwarded_for: Option<bool>,
    /// The subnet that the load balancer was made in, whatever its spec says.
    pub(crate) made_in: Option<Text>,
}

impl Chosen {
    /// Reads it from the spec of its KuryrLoadBalancer.
    #[must_use]
    pub fn of_spec(spec: &KuryrLoadBalancerSpec) -> Self {
        Self {
            project: spec.project_id.clone(),
            provider: spec.provider.clone(),
            flavor: spec.flavor_id.clone(),
            availability_zone: spec.availability_zone.clone(),
            network: spec.vip_network_id.clone(),
            subnet: spec.subnet_id.clone(),
            port: spec.vip_port_id.clone(),
            member_subnet: spec.member_subnet_id.clone(),
            floating_network: spec.floating_network_id.clone(),
            floating_subnet: spec.floating_subnet_id.clone(),
            floating_address: spec.lb_ip.clone(),
            shared_group: spec.shared_group.clone(),
            proxy_protocol: spec.proxy_protocol.filter(|proxy| *proxy != KlbProxyProtocol::None),
            x_forwarded_for: spec.x_forwarded_for.filter(|is_set| *is_set),
            made_in: None,
        }
    }

    /// Reads it from the spec of a KuryrL7Router.
    #[must_use]
    pub fn of_router_spec(spec: &KuryrL7RouterSpec) -> Self {
        Self {
            project: spec.project_id.clone(),
            provider: spec.provider.clone(),
            subnet: spec.subnet_id.clone(),
            floating_network: spec.floating_network_id.clone(),
            floating_subnet: spec.external_svc_subnet.clone(),
            floating_address: spec.l7_router_ip.clone(),
            ..Self::default()
        }
    }

    /// Adds the subnet that the load balancer was made in, as its status says.
    #[must_use]
    pub fn made_in(self, subnet: Option<Text>) -> Self {
        Self { made_in: subnet.filter(|subnet| !subnet.is_empty()), ..self }
    }

    /// Adds that it was made in the subnet that was chosen, where no status says in which one and that one `was_kept`, as this finding
    /// says: a status that somebody has emptied stays so while the writer refuses the subnet.
    #[must_use]
    pub fn kept(self, was_kept: impl Fn(&Finding) -> bool) -> Self {
        let is_kept = |subnet: &Text| was_kept(&Finding::SubnetAsBefore { subnet: shown(subnet) });
        let made_in = self.made_in.clone().or_else(|| self.subnet.clone().filter(is_kept));
        Self { made_in, ..self }
    }

    /// Returns the subnet that it was made in, if the configuration does not have that any more.
    pub(crate) fn subnet_that_is_gone(&self, facts: &CloudFacts) -> Option<&Text> {
        self.made_in.as_ref().filter(|subnet| !facts.subnets.contains_key(*subnet))
    }

    /// Reads it from what is streamed of it, which says nothing of the members' subnet.
    #[must_use]
    pub fn of_header(header: &LoadBalancerHeader) -> Self {
        let LoadBalancerHeader { placement, vip, floating, shared_group, balancing, listeners, .. } = header;
        let floating = floating.as_deref();
        let is_http = listeners.iter().any(|listener| listener.kind == ListenerKind::Http);
        Self {
            project: Some(placement.project.clone()),
            provider: placement.provider.clone(),
            flavor: placement.flavor.clone(),
            availability_zone: placement.availability_zone.clone(),
            network: vip.network.clone(),
            subnet: vip.subnet.clone(),
            port: vip.port.clone(),
            member_subnet: None,
            floating_network: floating.and_then(|floating| floating.network.clone()),
            floating_subnet: floating.and_then(|floating| floating.subnet.clone()),
            floating_address: floating.and_then(|floating| floating.address).map(|address| address.to_string().into()),
            shared_group: shared_group.as_ref().map(|group| group.name.clone()),
            proxy_protocol: balancing.proxy.map(|version| match version {
                ProxyVersion::V1 => KlbProxyProtocol::V1,
                ProxyVersion::V2 => KlbProxyProtocol::V2,
            }),
            x_forwarded_for: is_http.then_some(true),
            made_in: None,
        }
    }

    /// Adds the subnet that was chosen for the members, as far as those that are streamed tell: all are in it, and would not be by
    /// themselves.
    #[must_use]
    pub fn with_members(self, members: &DesiredMembers, facts: &CloudFacts) -> Self {
        let members = members.as_slice();
        let chosen = members.first().and_then(|member| member.subnet.as_ref());
        let is_of_all = members.iter().all(|member| member.subnet.as_ref() == chosen);
        let is_own = members.iter().all(|member| own_subnet(facts, member.id.address) == chosen);
        Self { member_subnet: chosen.filter(|_| is_of_all && !is_own).cloned(), ..self }
    }

    /// Lets what was chosen stand in for annotations that cannot be read: a slip of the pen replaces no load balancer and no listener,
    /// lets no address go, leaves no group, and changes nothing of what members are sent. The writer refuses what it does not allow.
    pub(crate) fn stand_in(&self, annotations: &mut Annotations, findings: &mut [Finding]) {
        for finding in findings {
            let Finding::Annotation { name, value, problem } = finding else { continue };
            let as_before = Finding::AsBefore { name, value: value.clone(), problem: *problem };
            let stays = match *name {
                names::PROJECT => keep(&mut annotations.project, &self.project),
                names::SHARED_GROUP => keep(&mut annotations.shared_group, &self.shared_group),
                "loadbalancer.openstack.org/floating-network-id" => {
                    keep(&mut annotations.floating_network, &self.floating_network)
                }
                "loadbalancer.openstack.org/subnet-id" => keep(&mut annotations.subnet, &self.subnet),
                "loadbalancer.openstack.org/member-subnet-id" => {
                    keep(&mut annotations.member_subnet, &self.member_subnet)
                }
                "loadbalancer.openstack.org/network-id" => keep(&mut annotations.network, &self.network),
                "loadbalancer.openstack.org/port-id" => keep(&mut annotations.port, &self.port),
                "loadbalancer.openstack.org/flavor-id" => keep(&mut annotations.flavor, &self.flavor),
                "loadbalancer.openstack.org/availability-zone" => {
                    keep(&mut annotations.availability_zone, &self.availability_zone)
                }
                "loadbalancer.openstack.org/proxy-protocol" => {
                    keep(&mut annotations.proxy_protocol, &self.proxy_protocol)
                }
                "loadbalancer.openstack.org/x-forwarded-for" => {
                    keep(&mut annotations.x_forwarded_for, &self.x_forwarded_for)
                }
                // See `Choices::class`.
                "loadbalancer.openstack.org/class" => true,
                _ => false,
            };
            if stays {
                *finding = as_before;
            }
        }
    }

    /// Returns it as a class: annotations outrank it, and it outranks the defaults of the cluster.
    pub(crate) fn as_class(&self) -> ClassDefaults {
        ClassDefaults {
            floating_network: self.floating_network.clone(),
            floating_subnet: self.floating_subnet.clone(),
            floating_subnet_tags: Vec::new(),
            network: self.network.clone(),
            subnet: self.subnet.clone(),
            member_subnet: self.member_subnet.clone(),
            provider: self.provider.clone(),
            flavor: self.flavor.clone(),
            availability_zone: self.availability_zone.clone(),
        }
    }
}

/// Lets what was chosen before stand in for what is asked, and returns whether anything was chosen.
fn keep<T: Clone>(asked: &mut Option<T>, before: &Option<T>) -> bool {
    if before.is_some() {
        asked.clone_from(before);
    }
    before.is_some()
}
