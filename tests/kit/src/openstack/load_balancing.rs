//! Creates and changes load balancers and their parts as a tenant's tools would, and waits until they have settled.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::api::{Api, Refused};
use super::{OpenStack, Service};

/// A subnet that does not exist; without Neutron it is not checked.
const SUBNET: &str = "50b00000-0000-4000-8000-000000000000";
/// How Octavia refuses a change of a load balancer that is PENDING, or of a part of it.
const BUSY: [&str; 2] = ["immutable", "Invalid state"];
/// How long a change may take to settle, on a busy machine.
const SETTLED_WITHIN: Duration = Duration::from_secs(240);

impl OpenStack {
    /// Creates a load balancer in the project of this name, and waits until it has settled. `body` is Octavia's
    /// request, a whole tree with `listeners` and `pools` if wanted; a subnet for the VIP is added if it names none.
    /// Returns the settled load balancer.
    ///
    /// # Errors
    /// Octavia's error.
    pub async fn create_load_balancer(&self, project: &str, body: &Value) -> anyhow::Result<Value> {
        let mut body = body.clone();
        body["project_id"] = json!(self.project(project).await?);
        if ["vip_subnet_id", "vip_network_id", "vip_port_id"].iter().all(|key| body[key].is_null()) {
            body["vip_subnet_id"] = json!(SUBNET);
        }
        self.create("/loadbalancers", &body).await
    }

    /// Creates an object in a collection of Octavia: `/listeners`, `/pools`, `/pools/ID/members`, `/healthmonitors`,
    /// `/l7policies`, `/l7policies/ID/rules`. Waits until its load balancer accepts changes, and until the object has
    /// settled, which one with the tag `lab:stall` never does. Returns the settled object.
    ///
    /// # Errors
    /// Octavia's error.
    pub async fn create(&self, collection: &str, body: &Value) -> anyhow::Result<Value> {
        let singular = singular(collection)?;
        let body = json!({singular: body});
        let made = self.mutable(async || self.octavia.post(collection, &body).await).await?;
        let id = made[singular]["id"].as_str().with_context(|| format!("no ID in {made}"))?;
        self.settled(&format!("{collection}/{id}")).await
    }

    /// Changes fields of an object, for instance of `/pools/ID/members/ID`, and waits as [`OpenStack::create`] does.
    ///
    /// # Errors
    /// Octavia's error.
    pub async fn update(&self, object: &str, fields: &Value) -> anyhow::Result<Value> {
        let (collection, _) = object.rsplit_once('/').context("no object")?;
        let body = json!({singular(collection)?: fields});
        self.mutable(async || self.octavia.put(object, &body).await).await?;
        self.settled(object).await
    }

    /// Deletes an object (a load balancer with all its parts), and waits until it is gone and the load balancer that it
    /// belonged to has settled.
    ///
    /// # Errors
    /// Octavia's error.
    pub async fn delete(&self, object: &str) -> anyhow::Result<()> {
        let whole = object.starts_with("/loadbalancers/");
        let balancer = if whole { None } else { Some(self.balancer(object).await?) };
        let path = if whole { format!("{object}?cascade=true") } else { object.to_owned() };
        self.mutable(async || self.octavia.delete(&path).await).await?;
        crate::eventually(&format!("{object} is gone"), SETTLED_WITHIN, async || {
            match self.octavia.get(object).await {
                Err(error) if error.code == 404 => Ok(()),
                Err(error) => Err(error.to_string()),
                Ok(there) => Err(there.to_string()),
            }
        })
        .await?;
        if let Some(balancer) = balancer {
            self.settled(&format!("/loadbalancers/{balancer}")).await?;
        }
        Ok(())
    }

    /// Waits until an object and its load balancer are not PENDING, and returns the object.
    ///
    /// # Errors
    /// They are PENDING for too long, or Octavia's error.
    pub async fn settled(&self, object: &str) -> anyhow::Result<Value> {
        let balancer = format!("/loadbalancers/{}", self.balancer(object).await?);
        let what = format!("{object} is settled");
        crate::eventually(&what, SETTLED_WITHIN, async || {
            let mut found = Value::Null;
            for path in [balancer.as_str(), object] {
                found = self.read(path).await?;
                let status = found["provisioning_status"].as_str().unwrap_or_default();
                anyhow::ensure!(!status.starts_with("PENDING"), "{path} is {status}");
            }
            Ok(found)
        })
        .await
    }

    /// Has the health monitor report a member as `ONLINE`, `ERROR`, `DRAINING` and so on; `None` restores the member's
    /// own status. As in a real cloud the change does not pass the API, so the load balancer's `updated_at` changes
    /// only if its own status does.
    ///
    /// # Errors
    /// The member does not exist, or Octavia does not know the status.
    pub async fn set_health(&self, member: &str, status: Option<&str>) -> anyhow::Result<()> {
        let hook = Api::hooks(&self.layout, Service::Octavia)?;
        hook.put("/health", &json!({member: status})).await?;
        Ok(())
    }

    /// Creates a network with this IPv4 subnet in Neutron, and returns the subnet's ID, for `vip_subnet_id` and
    /// members.
    ///
    /// # Errors
    /// Neutron's error, or it does not run.
    pub async fn create_subnet(&self, project: &str, cidr: &str) -> anyhow::Result<String> {
        let neutron = self.neutron(Service::Neutron)?;
        let project = self.project(project).await?;
        let network = neutron.post("/networks", &json!({"network": {"name": cidr, "project_id": project}})).await?;
        let subnet = json!({
            "network_id": network["network"]["id"], "ip_version": 4, "cidr": cidr, "project_id": project,
        });
        let made = neutron.post("/subnets", &json!({"subnet": subnet})).await?;
        Ok(super::api::id(&made["subnet"])?)
    }

    /// Creates an external network with this IPv4 subnet, for floating IPs, and returns the network's ID. Every project
    /// may use it.
    ///
    /// # Errors
    /// Neutron's error, or it does not run.
    pub async fn create_external_network(&self, cidr: &str) -> anyhow::Result<String> {
        let neutron = self.neutron(Service::Neutron)?;
        let network = neutron.post("/networks", &json!({"network": {"name": cidr, "router:external": true}})).await?;
        let network = super::api::id(&network["network"])?;
        let subnet = json!({"network_id": network, "ip_version": 4, "cidr": cidr, "enable_dhcp": false});
        neutron.post("/subnets", &json!({"subnet": subnet})).await?;
        Ok(network)
    }

    /// Creates a router between an external network and a subnet, given by their IDs, and returns its ID. Without it,
    /// Neutron refuses floating IPs for the subnet's ports.
    ///
    /// # Errors
    /// Neutron's error, or it does not run.
    pub async fn create_router(&self, project: &str, network: &str, subnet: &str) -> anyhow::Result<String> {
        let neutron = self.neutron(Service::Neutron)?;
        let router =
            json!({"project_id": self.project(project).await?, "external_gateway_info": {"network_id": network}});
        let router = super::api::id(&neutron.post("/routers", &json!({"router": router})).await?["router"])?;
        neutron.put(&format!("/routers/{router}/add_router_interface"), &json!({"subnet_id": subnet})).await?;
        Ok(router)
    }

    /// Retries a change while the load balancer is busy with an earlier one.
    async fn mutable(&self, change: impl AsyncFn() -> Result<Value, Refused>) -> anyhow::Result<Value> {
        crate::eventually("the load balancer takes changes", SETTLED_WITHIN, async || match change().await {
            Err(refused) if refused.code == 409 && BUSY.iter().any(|busy| refused.message.contains(busy)) => {
                Err(refused)
            }
            other => Ok(other),
        })
        .await?
        .map_err(Into::into)
    }

    async fn read(&self, object: &str) -> anyhow::Result<Value> {
        let (collection, _) = object.rsplit_once('/').context("no object")?;
        let mut found = self.octavia.get(object).await?;
        Ok(found[singular(collection)?].take())
    }

    /// Returns the ID of the load balancer that an object belongs to.
    async fn balancer(&self, object: &str) -> anyhow::Result<String> {
        let mut object = object.to_owned();
        loop {
            let parts: Vec<&str> = object.trim_start_matches('/').split('/').collect();
            let next = match parts[..] {
                ["loadbalancers", id] => return Ok(id.to_owned()),
                [parent, id, _, _] => format!("/{parent}/{id}"),
                ["healthmonitors", _] => format!("/pools/{}", text(&self.read(&object).await?["pools"][0]["id"])?),
                ["l7policies", _] => format!("/listeners/{}", text(&self.read(&object).await?["listener_id"])?),
                _ => return text(&self.read(&object).await?["loadbalancers"][0]["id"]),
            };
            object = next;
        }
    }
}

fn text(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).context("the object names no parent")
}

/// Returns Octavia's name of one object of a collection.
fn singular(collection: &str) -> anyhow::Result<&'static str> {
    Ok(match collection.rsplit('/').next().unwrap_or_default() {
        "loadbalancers" => "loadbalancer",
        "listeners" => "listener",
        "pools" => "pool",
        "members" => "member",
        "healthmonitors" => "healthmonitor",
        "l7policies" => "l7policy",
        "rules" => "rule",
        other => anyhow::bail!("Octavia has no collection {other:?}"),
    })
}
