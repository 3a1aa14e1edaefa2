//! `/loadbalancers`.

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimResponse};
use crate::objects::{ApiObject, Progress};
use crate::schema::{self, ApiKind};

impl CloudModel {
    pub(crate) fn create_balancer(&mut self, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let mut fields = schema::created(ApiKind::LoadBalancer, body, &["listeners", "pools"])?;
        Self::check_graph(body)?;
        let project = fields.get("project_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        if project.is_empty() {
            return Err(ApiRefusal::invalid("Missing project ID in request where one is required."));
        }
        self.quotas.check(&self.store, &project, ApiKind::LoadBalancer, 1)?;
        let populated =
            ["listeners", "pools"].iter().any(|key| body[*key].as_array().is_some_and(|all| !all.is_empty()));
        if let Some(provider) = fields.get("provider").and_then(Value::as_str)
            && provider != self.provider.name
        {
            return Err(ApiRefusal::new(400, format!("Provider '{provider}' is not enabled.")));
        }
        fields.insert("provider", json!(self.provider.name));
        let id = self.store.new_id();
        let given = !fields["vip_port_id"].is_null();
        let port = self.place_vip(&id, &project, &mut fields)?;
        self.store.insert(&id, ApiObject::new(ApiKind::LoadBalancer, None, &project, fields, self.now));
        let allowed = !populated || self.provider.populated;
        let allowed =
            if allowed { Ok(()) } else { Err(self.provider.refuse("create a fully populated load balancer")) };
        let has_policies = |one: &Value| one["l7policies"].as_array().is_some_and(|all| !all.is_empty());
        let routes = body["listeners"].as_array().is_some_and(|all| all.iter().any(has_policies));
        let allowed = if routes { allowed.and_then(|()| self.check_l7("creating l7policies")) } else { allowed };
        let made = self.create_graph(&id, body).and(allowed).and_then(|()| self.dispatch(&id));
        if let Err(refused) = made {
            self.store.remove(&id);
            // Octavia rolls its own rows back, and leaves the port that it has made.
            if given {
                self.network.release(&id, port.as_deref());
            }
            return Err(refused);
        }
        let object = self.store.get(ApiKind::LoadBalancer, &id)?;
        Ok(SimResponse::ok(201, json!({"loadbalancer": self.store.full_row(&id, object)})))
    }

    pub(crate) fn update_balancer(&mut self, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::LoadBalancer, id)?;
        let fields = schema::updated(ApiKind::LoadBalancer, body)?;
        self.check_groups(&fields)?;
        self.transaction(id, |cloud| {
            cloud.store.lock_for_itself(id, Progress::PendingUpdate)?;
            if let Some(object) = cloud.store.get_mut(id) {
                object.fields.extend(fields);
            }
            cloud.dispatch(id)
        })?;
        self.show(ApiKind::LoadBalancer, id)
    }

    /// Replaces what a load balancer runs on. Nothing is sent to the provider about its objects.
    pub(crate) fn fail_over(&mut self, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::LoadBalancer, id)?;
        if !self.provider.failover {
            return Err(ApiRefusal::new(403, "Policy does not allow this request to be performed."));
        }
        self.transaction(id, |cloud| {
            cloud.store.lock_for_failover(id)?;
            cloud.dispatch(id)
        })?;
        Ok(SimResponse::empty(202))
    }

    pub(crate) fn delete_balancer(&mut self, id: &str, cascade: bool) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::LoadBalancer, id)?;
        if !cascade && self.store.tree(id).len() > 1 {
            return Err(ApiRefusal::invalid(format!("Cannot delete Load Balancer {id} - it has children")));
        }
        self.transaction(id, |cloud| {
            cloud.store.lock_for_itself(id, Progress::PendingDelete)?;
            cloud.dispatch(id)
        })?;
        Ok(SimResponse::empty(204))
    }

    /// Forgets a load balancer whose deletion has ended.
    pub(crate) fn remove_balancer(&mut self, id: &str) {
        let port = self.store.find(id).map(|one| one.text("vip_port_id").to_owned());
        self.remove_deleted(id);
        self.applied.remove(id);
        self.routed.remove(id);
        self.network.release(id, port.as_deref());
    }

    /// Checks the security groups of the VIP: `validate.security_group_exists`.
    fn check_groups(&self, fields: &schema::Fields) -> Result<(), ApiRefusal> {
        let groups = fields.get("vip_sg_ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if groups.is_empty() {
            return Ok(());
        }
        if !self.provider.security_groups {
            return Err(self.provider.refuse("vip_sg_ids"));
        }
        let unknown = groups.iter().filter_map(Value::as_str).find(|id| !self.network.has_group(id));
        unknown.map_or(Ok(()), |id| Err(ApiRefusal::invalid(format!("Security Group {id} not found."))))
    }

    /// Gives a load balancer its VIP: `_validate_vip_request_object` and `_create_vip_port_if_not_exist`. Returns the port.
    fn place_vip(
        &mut self,
        id: &str,
        project: &str,
        fields: &mut schema::Fields,
    ) -> Result<Option<String>, ApiRefusal> {
        let given = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let (port, subnet, address) = (given("vip_port_id"), given("vip_subnet_id"), given("vip_address"));
        if port.is_none() && subnet.is_none() && given("vip_network_id").is_none() {
            let one_of = "VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.";
            return Err(ApiRefusal::invalid(one_of));
        }
        if port.is_some() && !self.provider.own_port {
            let words = "use of vip_port_id is disallowed by this deployment's configuration.";
            return Err(ApiRefusal::invalid(words));
        }
        self.check_groups(fields)?;
        let groups = fields["vip_sg_ids"].clone();
        let more = fields["additional_vips"].as_array().cloned().unwrap_or_default();
        let vip = if self.provider.invents_vips {
            self.network.invented_vip(port, subnet, address)
        } else if let Some(port) = port {
            self.network.check_subnets(subnet.as_deref(), &more)?;
            let claims = self.provider.claims_ports;
            self.network.given_vip(id, &port, subnet.as_deref(), address.as_deref(), claims)?
        } else {
            self.network.check_subnets(subnet.as_deref(), &more)?;
            self.network.made_vip(id, project, subnet.as_deref(), address.as_deref(), &more, &groups)?
        };
        let more = more.iter().zip(&vip.additional).map(|(_, one)| one.clone());
        fields.insert("additional_vips", more.collect());
        fields.insert("vip_port_id", json!(vip.port));
        fields.insert("vip_subnet_id", json!(vip.subnet));
        fields.insert("vip_network_id", json!(vip.network));
        fields.insert("vip_address", json!(vip.address));
        Ok(Some(vip.port))
    }
}
