//! Facts, both ways.

use gimbal_kuryr_model::{
    Algorithm, ApiVersion, ClassDefaults, CloudFacts, ExternalNetwork, FreeQuota, LoadBalancerDefaults,
    MemberAddressing, MemberMode, ProviderAbilities, SubnetFacts, Text, VipMode,
};
use gimbal_wire::Interner;
use gimbal_wire::parse::{Parsed, WireError, invalid};

use crate::check::{self, NAME, option_words, words};
use crate::pb;
use crate::values::{Numbered, address, option_text, texts};

pub(crate) fn encode(facts: &CloudFacts) -> pb::CloudFacts {
    let CloudFacts {
        api_version: ApiVersion { major, minor },
        providers,
        provider,
        project,
        allowed_projects,
        subnets,
        service_subnets,
        pod_subnets,
        security_groups,
        external,
        vip,
        members,
        defaults: LoadBalancerDefaults { addressing, algorithm, timeout_client_data, timeout_member_data },
        classes,
        quota: FreeQuota { load_balancers, listeners, pools, members: free_members, ports, floating_ips },
        enable_ingress,
        l7_router_ip,
        certificates,
    } = facts;
    let subnet = |SubnetFacts { network, cidr, name, tags, mtu }: &SubnetFacts| pb::SubnetFacts {
        network: network.to_string(),
        cidr: Some((*cidr).into()),
        name: name.to_string(),
        tags: texts(tags),
        mtu: *mtu,
    };
    let external =
        external.as_ref().map(|ExternalNetwork { network, subnet, allowed, user_addresses }| pb::ExternalNetwork {
            network: network.to_string(),
            subnet: option_text(subnet.as_ref()),
            allowed: texts(allowed),
            user_addresses: *user_addresses,
        });
    pb::CloudFacts {
        api_version: Some(pb::ApiVersion { major: (*major).into(), minor: (*minor).into() }),
        providers: providers.iter().map(|(name, can)| (name.to_string(), encode_abilities(*can))).collect(),
        provider: option_text(provider.as_ref()),
        project: project.to_string(),
        allowed_projects: texts(allowed_projects),
        subnets: subnets.iter().map(|(id, facts)| (id.to_string(), subnet(facts))).collect(),
        service_subnets: texts(service_subnets),
        pod_subnets: texts(pod_subnets),
        security_groups: texts(security_groups),
        external,
        vip: vip.number(),
        members: members.number(),
        defaults: Some(pb::LoadBalancerDefaults {
            addressing: addressing.number(),
            algorithm: Algorithm::option_number(*algorithm),
            timeout_client_data_ms: *timeout_client_data,
            timeout_member_data_ms: *timeout_member_data,
        }),
        classes: classes.iter().map(|(name, class)| (name.to_string(), encode_class(class))).collect(),
        quota: Some(pb::FreeQuota {
            load_balancers: *load_balancers,
            listeners: *listeners,
            pools: *pools,
            members: *free_members,
            ports: *ports,
            floating_ips: *floating_ips,
        }),
        enable_ingress: *enable_ingress,
        l7_router_ip: l7_router_ip.map(address),
        certificates: *certificates,
    }
}

fn encode_abilities(can: ProviderAbilities) -> pb::ProviderAbilities {
    let ProviderAbilities { batch_members, populated_create, weights, client_ranges, l7, own_port } = can;
    pb::ProviderAbilities {
        no_batch_members: !batch_members,
        no_populated_create: !populated_create,
        no_weights: !weights,
        no_client_ranges: !client_ranges,
        no_l7: !l7,
        no_own_port: !own_port,
    }
}

fn parse_abilities(abilities: pb::ProviderAbilities) -> ProviderAbilities {
    let pb::ProviderAbilities {
        no_batch_members,
        no_populated_create,
        no_weights,
        no_client_ranges,
        no_l7,
        no_own_port,
    } = abilities;
    ProviderAbilities {
        batch_members: !no_batch_members,
        populated_create: !no_populated_create,
        weights: !no_weights,
        client_ranges: !no_client_ranges,
        l7: !no_l7,
        own_port: !no_own_port,
    }
}

fn encode_class(class: &ClassDefaults) -> pb::ClassDefaults {
    let ClassDefaults {
        floating_network,
        floating_subnet,
        floating_subnet_tags,
        network,
        subnet,
        member_subnet,
        provider,
        flavor,
        availability_zone,
    } = class;
    pb::ClassDefaults {
        floating_network: option_text(floating_network.as_ref()),
        floating_subnet: option_text(floating_subnet.as_ref()),
        floating_subnet_tags: texts(floating_subnet_tags),
        network: option_text(network.as_ref()),
        subnet: option_text(subnet.as_ref()),
        member_subnet: option_text(member_subnet.as_ref()),
        provider: option_text(provider.as_ref()),
        flavor: option_text(flavor.as_ref()),
        availability_zone: option_text(availability_zone.as_ref()),
    }
}

fn parse_class(class: pb::ClassDefaults, intern: &mut Interner) -> Parsed<ClassDefaults> {
    let pb::ClassDefaults {
        floating_network,
        floating_subnet,
        floating_subnet_tags,
        network,
        subnet,
        member_subnet,
        provider,
        flavor,
        availability_zone,
    } = class;
    let mut option = |text| option_words("value of a class", text, NAME, intern);
    Ok(ClassDefaults {
        floating_network: option(floating_network)?,
        floating_subnet: option(floating_subnet)?,
        network: option(network)?,
        subnet: option(subnet)?,
        member_subnet: option(member_subnet)?,
        provider: option(provider)?,
        flavor: option(flavor)?,
        availability_zone: option(availability_zone)?,
        floating_subnet_tags: list("tag", floating_subnet_tags, intern)?,
    })
}

fn list<C: FromIterator<Text>>(field: &'static str, texts: Vec<String>, intern: &mut Interner) -> Parsed<C> {
    texts.into_iter().map(|text| words(field, text, NAME, intern)).collect()
}

fn parse_subnet(subnet: pb::SubnetFacts, intern: &mut Interner) -> Parsed<SubnetFacts> {
    let pb::SubnetFacts { network, cidr, name, tags, mtu } = subnet;
    Ok(SubnetFacts {
        network: words("network of a subnet", network, NAME, intern)?,
        cidr: check::cidr(cidr.ok_or(WireError::Missing("cidr"))?)?,
        name: words("name of a subnet", name, NAME, intern)?,
        tags: list("tag", tags, intern)?,
        mtu,
    })
}

fn parse_external(external: pb::ExternalNetwork, intern: &mut Interner) -> Parsed<ExternalNetwork> {
    let pb::ExternalNetwork { network, subnet, allowed, user_addresses } = external;
    Ok(ExternalNetwork {
        network: words("external network", network, NAME, intern)?,
        subnet: option_words("external subnet", subnet, NAME, intern)?,
        allowed: list("external network", allowed, intern)?,
        user_addresses,
    })
}

fn parse_version(version: pb::ApiVersion) -> Parsed<ApiVersion> {
    let pb::ApiVersion { major, minor } = version;
    match (u16::try_from(major), u16::try_from(minor)) {
        (Ok(major), Ok(minor)) => Ok(ApiVersion { major, minor }),
        _ => invalid("api_version", format!("is {major}.{minor}")),
    }
}

pub(crate) fn parse(facts: pb::CloudFacts, intern: &mut Interner) -> Parsed<CloudFacts> {
    let pb::CloudFacts {
        api_version,
        providers,
        provider,
        project,
        allowed_projects,
        subnets,
        service_subnets,
        pod_subnets,
        security_groups,
        external,
        vip,
        members,
        defaults,
        classes,
        quota,
        enable_ingress,
        l7_router_ip,
        certificates,
    } = facts;
    let pb::LoadBalancerDefaults { addressing, algorithm, timeout_client_data_ms, timeout_member_data_ms } =
        defaults.ok_or(WireError::Missing("defaults"))?;
    let pb::FreeQuota { load_balancers, listeners, pools, members: free_members, ports, floating_ips } =
        quota.ok_or(WireError::Missing("quota"))?;
    let providers = providers
        .into_iter()
        .map(|(name, abilities)| Ok((words("provider", name, NAME, intern)?, parse_abilities(abilities))))
        .collect::<Parsed<_>>()?;
    let subnets = subnets
        .into_iter()
        .map(|(id, subnet)| Ok((words("subnet", id, NAME, intern)?, parse_subnet(subnet, intern)?)))
        .collect::<Parsed<_>>()?;
    let classes = classes
        .into_iter()
        .map(|(name, class)| Ok((words("class", name, NAME, intern)?, parse_class(class, intern)?)))
        .collect::<Parsed<_>>()?;
    Ok(CloudFacts {
        api_version: parse_version(api_version.ok_or(WireError::Missing("api_version"))?)?,
        providers,
        provider: option_words("provider", provider, NAME, intern)?,
        project: words("project", project, NAME, intern)?,
        allowed_projects: list("project", allowed_projects, intern)?,
        subnets,
        service_subnets: list("subnet", service_subnets, intern)?,
        pod_subnets: list("subnet", pod_subnets, intern)?,
        security_groups: list("security group", security_groups, intern)?,
        external: external.map(|external| parse_external(external, intern)).transpose()?,
        vip: VipMode::from_number(vip)?,
        members: MemberMode::from_number(members)?,
        defaults: LoadBalancerDefaults {
            addressing: MemberAddressing::from_number(addressing)?,
            algorithm: Algorithm::from_option_number(algorithm)?,
            timeout_client_data: timeout_client_data_ms,
            timeout_member_data: timeout_member_data_ms,
        },
        classes,
        quota: FreeQuota { load_balancers, listeners, pools, members: free_members, ports, floating_ips },
        enable_ingress,
        l7_router_ip: check::option_address(l7_router_ip)?,
        certificates,
    })
}
