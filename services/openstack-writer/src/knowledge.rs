//! Reads what the policy of a cluster rests on: subnets, quota, Octavia's version, and roles.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kuryr_model::{ApiVersion, FreeQuota, SubnetFacts, Text};
use gimbal_openstack_client::{Error, RawQuery, ServiceEndpoint, Session};
use serde_json::Value;

use crate::cloud_access::CloudAccess;
use crate::policy::{CloudKnowledge, ClusterPolicy};

/// Roles of which a user needs one to change load balancers, under Octavia's own policy.
const OCTAVIA_ROLES: [&str; 4] = ["load-balancer_member", "load-balancer_admin", "admin", "member"];
/// Roles of which a user needs one to make ports and floating IPs.
const NEUTRON_ROLES: [&str; 4] = ["member", "manager", "admin", "_member_"];

/// Roles of which a user needs one to store certificates, under Barbican's own policies, former and present.
const BARBICAN_ROLES: [&str; 4] = ["creator", "member", "key-manager:service-admin", "admin"];

/// What was read for a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudReading {
    /// What the policy rests on.
    pub known: CloudKnowledge,
    /// What is missing, one sentence each: a role, a subnet, a network.
    pub missing: Vec<String>,
}

/// Reads everything for one policy.
///
/// # Errors
/// See [`Error`]. An object that does not exist is no error.
pub async fn read(cloud: &CloudAccess, policy: &ClusterPolicy) -> Result<CloudReading, Error> {
    let session = cloud.session(&policy.project);
    if policy.names_network() {
        cloud.need_network();
    }
    let (octavia, neutron) = (cloud.services(&session).await?.octavia, cloud.neutron(&session).await?);
    let mut missing = missing_roles(cloud, policy).await?;
    let version = session.load_balancing().await?.version().await?.unwrap_or_default();
    let number = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    let mut known = CloudKnowledge {
        api_version: ApiVersion { major: number(version.0), minor: number(version.1) },
        subnets: BTreeMap::new(),
        quota: free_quota(cloud, &session, &octavia, neutron.as_ref(), policy).await,
        key_manager: policy.enable_ingress && cloud.key_manager(&session).await?.is_some(),
    };
    if known.key_manager {
        missing.extend(missing_key_role(cloud, policy).await?);
    }
    if let Some(neutron) = &neutron {
        known.subnets = subnets(&session, neutron, policy, &mut missing).await?;
    }
    Ok(CloudReading { known, missing })
}

async fn missing_roles(cloud: &CloudAccess, policy: &ClusterPolicy) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for project in std::iter::once(&policy.project).chain(&policy.projects) {
        let roles = match cloud.session(project).roles().await {
            Ok(roles) => roles,
            Err(Error::Forbidden { .. }) => {
                missing.push(format!("no role on project {project}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        missing.extend(lacking(project, &roles));
    }
    Ok(missing)
}

/// Returns the roles that these lack in a project.
fn lacking(project: &str, roles: &BTreeSet<String>) -> Vec<String> {
    let has = |wanted: &[&str]| wanted.iter().any(|role| roles.contains(*role));
    let mut missing = Vec::new();
    if !has(&OCTAVIA_ROLES) {
        missing.push(format!("project {project}: no role load-balancer_member (or load-balancer_admin)"));
    }
    if !has(&NEUTRON_ROLES) {
        missing.push(format!("project {project}: no role member, for ports and floating IPs"));
    }
    missing
}

/// Returns what is missing for the certificates of Ingresses.
async fn missing_key_role(cloud: &CloudAccess, policy: &ClusterPolicy) -> Result<Vec<String>, Error> {
    let mut missing = Vec::new();
    for project in std::iter::once(&policy.project).chain(&policy.projects) {
        let roles = match cloud.session(project).roles().await {
            Ok(roles) => roles,
            // It was said that there is none.
            Err(Error::Forbidden { .. }) => continue,
            Err(error) => return Err(error),
        };
        missing.extend(lacking_key_role(project, &roles));
    }
    Ok(missing)
}

fn lacking_key_role(project: &str, roles: &BTreeSet<String>) -> Option<String> {
    let has = BARBICAN_ROLES.iter().any(|role| roles.contains(*role));
    (!has).then(|| format!("project {project}: no role creator, for the certificates of Ingresses"))
}

async fn subnets(
    session: &Session,
    neutron: &ServiceEndpoint,
    policy: &ClusterPolicy,
    missing: &mut Vec<String>,
) -> Result<BTreeMap<Text, SubnetFacts>, Error> {
    let mut rows = Vec::new();
    let named: BTreeSet<&Text> = policy.subnets_of_members().chain(&policy.external_subnet).collect();
    for id in named {
        match session.row(neutron, &RawQuery::new("subnet", "subnet", &["subnets", id])).await? {
            Some(row) => rows.push(row),
            None => missing.push(format!("subnet {id} does not exist, or this user may not see it")),
        }
    }
    let networks: BTreeSet<&Text> = policy.networks_of_floating_ips().collect();
    for network in networks {
        let query = RawQuery::new("subnet", "subnets", &["subnets"]).with("network_id", network);
        let list = session.rows::<Value>(neutron, &query).await?;
        if list.rows.is_empty() {
            missing.push(format!("external network {network} has no subnet that this user may see"));
        }
        rows.extend(list.rows);
    }
    let mut mtus: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for row in rows {
        let network = row["network_id"].as_str().unwrap_or_default().to_owned();
        if !mtus.contains_key(&network) && !network.is_empty() {
            let query = RawQuery::new("network", "network", &["networks", &network]);
            // The subnets of an external network are often visible where the network's details are not.
            let row = session.row(neutron, &query).await?.unwrap_or_default();
            let mtu = row["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()).unwrap_or_default();
            mtus.insert(network.clone(), mtu);
        }
        if let Some((id, facts)) = subnet(&row, mtus.get(&network).copied().unwrap_or_default()) {
            found.insert(id, facts);
        }
    }
    Ok(found)
}

fn subnet(row: &Value, mtu: u32) -> Option<(Text, SubnetFacts)> {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let tags = row["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    let facts = SubnetFacts {
        network: text("network_id").into(),
        cidr: text("cidr").parse().ok()?,
        name: text("name").into(),
        tags: tags.iter().filter_map(Value::as_str).map(Text::from).collect(),
        mtu,
    };
    Some((text("id").into(), facts))
}

/// Returns what is left of the quota, as far as that can be read: nothing else is to wait for it.
async fn free_quota(
    cloud: &CloudAccess,
    session: &Session,
    octavia: &ServiceEndpoint,
    neutron: Option<&ServiceEndpoint>,
    policy: &ClusterPolicy,
) -> FreeQuota {
    let (project, mut quota) = (&*policy.project, FreeQuota::default());
    let read = async {
        if let Some(neutron) = neutron {
            let query = RawQuery::new("quota", "quota", &["quotas", project, "details.json"]);
            let details = or_default_if_hidden(session.row(neutron, &query).await)?.unwrap_or_default();
            quota.ports = free_of(&details["port"]);
            quota.floating_ips = free_of(&details["floatingip"]);
        }
        count_quota(session, octavia, project, &mut quota).await
    };
    let error = read.await.err().map(|error| error.to_string());
    cloud.note(project, "quota", error.as_deref());
    quota
}

/// Octavia tells limits and not what is used, so that is counted, for limited kinds alone.
async fn count_quota(
    session: &Session,
    octavia: &ServiceEndpoint,
    project: &str,
    quota: &mut FreeQuota,
) -> Result<(), Error> {
    let limits = session.row(octavia, &RawQuery::new("quota", "quota", &["quotas", project])).await;
    let limits = or_default_if_hidden(limits)?.unwrap_or_default();
    for (resource, collection, key, free) in [
        ("loadbalancer", "loadbalancers", ["load_balancer", "loadbalancer"], &mut quota.load_balancers),
        ("listener", "listeners", ["listener", "listeners"], &mut quota.listeners),
        ("pool", "pools", ["pool", "pools"], &mut quota.pools),
    ] {
        let limit = key.iter().find_map(|key| limits[*key].as_i64());
        let Some(limit) = limit.and_then(|limit| u32::try_from(limit).ok()) else { continue };
        let query = RawQuery::new(resource, collection, &[collection]).with("project_id", project).with("fields", "id");
        let used = session.rows::<Value>(octavia, &query).await?.rows.len();
        *free = Some(limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX)));
    }
    Ok(())
}

/// Quotas are for members in some clouds, and for administrators in others.
fn or_default_if_hidden(row: Result<Option<Value>, Error>) -> Result<Option<Value>, Error> {
    match row {
        Err(Error::Forbidden { .. } | Error::Refused { .. }) => Ok(None),
        row => row,
    }
}

fn free_of(details: &Value) -> Option<u32> {
    let limit = u32::try_from(details["limit"].as_i64()?).ok()?;
    let used = details["used"].as_i64().unwrap_or_default() + details["reserved"].as_i64().unwrap_or_default();
    Some(limit.saturating_sub(u32::try_from(used).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
    use serde_json::json;

    use super::*;
    use crate::cloud_access::tests::connected;

    #[tokio::test]
    async fn a_quota_that_cannot_be_counted_is_unknown_and_the_rest_is_read() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| cloud.project("p1", "alpha"));
        let policy = ClusterPolicy { project: "p1".into(), ..ClusterPolicy::default() };
        for (fails, pools) in [(true, None), (false, Some(5))] {
            fake.heal();
            fake.fail(Fault::on("/quotas/p1").text(200, r#"{"quota": {"load_balancer": 7, "pool": 5}}"#));
            if fails {
                fake.fail(Fault::on("/pools"));
            }
            let known = read(&connected(&fake), &policy).await.unwrap().known;
            assert_eq!((known.quota.load_balancers, known.quota.pools), (Some(7), pools));
            assert_eq!(known.api_version, ApiVersion { major: 2, minor: 26 });
        }
    }

    #[tokio::test]
    async fn a_policy_that_names_a_network_is_not_read_from_a_catalog_without_neutron() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| cloud.project("p1", "alpha"));
        let cloud = connected(&fake);
        let policy = |subnet: Option<&str>| ClusterPolicy {
            project: "p1".into(),
            service_subnet: subnet.map(Text::from),
            ..ClusterPolicy::default()
        };
        read(&cloud, &policy(None)).await.unwrap();
        let error = read(&cloud, &policy(Some("services"))).await.unwrap_err();
        assert!(matches!(error, Error::Catalog { .. }), "{error}");
    }

    #[test]
    fn a_subnet_as_neutron_shows_it() {
        let row = json!({"id": "s", "network_id": "n", "cidr": "10.96.0.0/16", "name": "services", "tags": ["a"]});
        let (id, facts) = subnet(&row, 1450).unwrap();
        assert_eq!((&*id, &*facts.network, facts.cidr.to_string(), facts.mtu), ("s", "n", "10.96.0.0/16".into(), 1450));
        assert!(facts.tags.contains("a"));
        assert_eq!(subnet(&json!({"id": "s"}), 0), None);
    }

    #[test]
    fn a_missing_role_is_named_with_its_project() {
        let octavia = "project p1: no role load-balancer_member (or load-balancer_admin)";
        let neutron = "project p1: no role member, for ports and floating IPs";
        let key_manager = "project p1: no role creator, for the certificates of Ingresses";
        for (roles, expected) in [
            (&["reader"][..], &[octavia, neutron, key_manager][..]),
            (&["reader", "load-balancer_member", "creator"], &[neutron]),
            (&["manager", "creator"], &[octavia]),
            (&["load-balancer_member", "manager"], &[key_manager]),
            // One role for all of it.
            (&["member"], &[]),
            (&["admin"], &[]),
        ] {
            let has: BTreeSet<String> = roles.iter().map(ToString::to_string).collect();
            let found: Vec<String> = lacking("p1", &has).into_iter().chain(lacking_key_role("p1", &has)).collect();
            assert_eq!(found, expected, "{roles:?}");
        }
    }

    #[test]
    fn what_is_left_of_neutrons_quota() {
        for (details, free) in [
            (json!({"limit": 50, "used": 12, "reserved": 1}), Some(37)),
            (json!({"limit": 5, "used": 12, "reserved": 0}), Some(0)),
            (json!({"limit": -1, "used": 12, "reserved": 0}), None),
            (json!(null), None),
        ] {
            assert_eq!(free_of(&details), free, "{details}");
        }
    }
}
