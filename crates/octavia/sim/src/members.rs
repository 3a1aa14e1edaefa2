//! `/pools/{id}/members`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimRequest, SimResponse};
use crate::listeners::text;
use crate::objects::Progress;
use crate::schema::{self, ApiKind, Fields};

/// What identifies a member in its pool: the address as it was written, and the port.
type Place = (String, i64);

impl CloudModel {
    pub(crate) fn list_members(&self, pool: &str, request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::Pool, pool)?;
        let rows = self.store.below(pool, ApiKind::Member).map(|(id, one)| (id, self.store.row(id, one)));
        self.page(ApiKind::Member, rows, request)
    }

    pub(crate) fn show_member(&self, pool: &str, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.member_of(pool, id)?;
        self.show(ApiKind::Member, id)
    }

    pub(crate) fn create_member(&mut self, pool: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let project = self.store.get(ApiKind::Pool, pool)?.project.clone();
        let mut fields = schema::created(ApiKind::Member, body, &[])?;
        self.quotas.check(&self.store, &project, ApiKind::Member, 1)?;
        let balancer = self.store.balancer_of(pool);
        let id = self.transaction(&balancer, |cloud| {
            cloud.lock_pool(pool)?;
            let id = cloud.insert_member(pool, &project, std::mem::take(&mut fields))?;
            cloud.dispatch(&id)?;
            Ok(id)
        })?;
        self.answer(201, ApiKind::Member, &id)
    }

    pub(crate) fn update_member(&mut self, pool: &str, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        self.member_of(pool, id)?;
        let fields = schema::updated(ApiKind::Member, body)?;
        let balancer = self.store.balancer_of(pool);
        self.transaction(&balancer, |cloud| {
            cloud.lock_pool(pool)?;
            cloud.store.mark(id, Progress::PendingUpdate);
            if let Some(member) = cloud.store.get_mut(id) {
                member.fields.extend(fields);
            }
            cloud.dispatch(id)
        })?;
        self.answer(200, ApiKind::Member, id)
    }

    pub(crate) fn delete_member(&mut self, pool: &str, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.member_of(pool, id)?;
        let balancer = self.store.balancer_of(pool);
        self.transaction(&balancer, |cloud| {
            cloud.lock_pool(pool)?;
            cloud.store.mark(id, Progress::PendingDelete);
            cloud.dispatch(id)
        })?;
        Ok(SimResponse::empty(204))
    }

    /// Changes all members of a pool at once. With `additive`, members that the request leaves out stay.
    pub(crate) fn replace_members(
        &mut self,
        pool: &str,
        body: &Value,
        additive: bool,
    ) -> Result<SimResponse, ApiRefusal> {
        let project = self.store.get(ApiKind::Pool, pool)?.project.clone();
        let wanted = body.as_array().cloned().unwrap_or_default();
        let wanted = wanted.iter().map(schema::batched).collect::<Result<Vec<Fields>, _>>()?;
        let existing: Vec<(Place, String)> =
            self.store.below(pool, ApiKind::Member).map(|(id, one)| (place(&one.fields), id.to_owned())).collect();
        let left_out: Vec<&String> = {
            let places: BTreeSet<Place> = wanted.iter().map(place).collect();
            existing.iter().filter(|(place, _)| !places.contains(place)).map(|(_, id)| id).collect()
        };
        let balancer = self.store.balancer_of(pool);
        if wanted.is_empty() && existing.is_empty() {
            // Octavia takes the lock first, and gives it back.
            return self
                .transaction(&balancer, |cloud| cloud.lock_pool(pool).and_then(|()| Err(ApiRefusal::new(202, ""))))
                .or_else(|refused| if refused.status == 202 { Ok(SimResponse::empty(202)) } else { Err(refused) });
        }
        self.transaction(&balancer, |cloud| {
            cloud.lock_pool(pool)?;
            let mut updated = BTreeSet::new();
            let mut added = Vec::new();
            for fields in &wanted {
                match existing.iter().find(|(at, _)| *at == place(fields)) {
                    None => added.push(fields.clone()),
                    Some((_, id)) if updated.insert(id) => {}
                    Some(_) => {
                        return Err(ApiRefusal::invalid("Member must be updated only once in the same request."));
                    }
                }
            }
            let removed = if additive { 0 } else { left_out.len() };
            let more = added.len().saturating_sub(removed);
            if more > 0 {
                cloud.quotas.check(&cloud.store, &project, ApiKind::Member, more)?;
            }
            if !cloud.provider.batch {
                return Err(cloud.provider.refuse("batch member update"));
            }
            for mut fields in added {
                schema::fill(ApiKind::Member, &mut fields);
                cloud.insert_member(pool, &project, fields)?;
            }
            for fields in wanted {
                let Some((_, id)) = existing.iter().find(|(at, _)| *at == place(&fields)) else { continue };
                if let Some(member) = cloud.store.get_mut(id) {
                    member.fields.extend(fields);
                    member.provisioning = Progress::PendingUpdate;
                }
            }
            if !additive {
                for id in left_out {
                    cloud.store.mark(id, Progress::PendingDelete);
                }
            }
            cloud.dispatch(pool)
        })?;
        Ok(SimResponse::empty(202))
    }

    /// Adds a member, unless another one has its address and port.
    pub(crate) fn insert_member(&mut self, pool: &str, project: &str, fields: Fields) -> Result<String, ApiRefusal> {
        let at = place(&fields);
        if self.store.below(pool, ApiKind::Member).any(|(_, one)| place(&one.fields) == at) {
            let (address, port) = at;
            let words = format!("Another member on this pool is already using ip {address} on protocol_port {port}");
            return Err(ApiRefusal::new(409, words));
        }
        let id = self.insert(ApiKind::Member, pool, project, fields);
        let monitored = self.store.below(pool, ApiKind::Monitor).next().is_some();
        if monitored && let Some(member) = self.store.get_mut(&id) {
            member.operating = "OFFLINE";
        }
        Ok(id)
    }

    fn member_of(&self, pool: &str, id: &str) -> Result<(), ApiRefusal> {
        self.store.get(ApiKind::Pool, pool)?;
        let member = self.store.get(ApiKind::Member, id)?;
        if member.parent.as_deref() == Some(pool) {
            Ok(())
        } else {
            Err(ApiRefusal::not_found(ApiKind::Member.name(), id))
        }
    }
}

fn place(fields: &Fields) -> Place {
    (text(fields, "address").to_owned(), fields.get("protocol_port").and_then(Value::as_i64).unwrap_or_default())
}
