//! Everything that carries the mark of a cluster, and what removing it would change.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use gimbal_kuryr_model::Text;
use gimbal_kuryr_wire::pb;
use gimbal_octavia_plan::ApiService::{Neutron, Octavia};
use gimbal_octavia_plan::{KEEP, SeenFloatingIp, owner_tag_of, owners_in};
use serde_json::Value;

use super::{MarkScope, ProjectReader, description, ids, tags, text};
use crate::cloud_access::CloudAccess;

/// Ports that are asked for in one request.
const PORTS: usize = 40;

/// Everything that carries the mark of a cluster.
#[derive(Debug, Default)]
pub(crate) struct MarkedInventory {
    owners: BTreeSet<Text>,
    /// By kind and ID.
    changes: BTreeMap<(&'static str, String), pb::PlannedChange>,
}

impl MarkedInventory {
    /// Reads it.
    ///
    /// # Errors
    /// Something could not be read, in words: what is not seen would stay.
    pub(crate) async fn read(cloud: &CloudAccess, scope: &MarkScope) -> Result<Self, String> {
        let mut inventory = Self::default();
        for project in &scope.settings.projects {
            let reader = ProjectReader { cloud, project };
            let of_project = ("project_id", project.to_string());
            let query = vec![("tags", scope.cluster_tag()), of_project.clone()];
            let balancers = reader.list(Octavia, "loadbalancer", "loadbalancers", "loadbalancers", query).await?;
            let floating = reader.list(Neutron, "floatingip", "floatingips", "floatingips", vec![of_project.clone()]);
            let floating = floating.await?;
            let unused = vec![("device_id", String::new()), of_project];
            let mut ports = reader.list(Neutron, "port", "ports", "ports", unused).await?;
            let vips: Vec<&str> = balancers.iter().filter_map(|row| row["vip_port_id"].as_str()).collect();
            for some in vips.chunks(PORTS) {
                let query = some.iter().map(|id| ("id", (*id).to_owned())).collect();
                ports.extend(reader.list(Neutron, "port", "ports", "ports", query).await?);
            }
            inventory.add(scope, &balancers, &floating, &ports);
            inventory.add_secrets(scope, &reader.secrets(scope).await?);
        }
        Ok(inventory)
    }

    fn add(&mut self, scope: &MarkScope, balancers: &[Value], floating: &[Value], ports: &[Value]) {
        let mut vips = BTreeSet::new();
        for row in balancers {
            let Some(owner) = scope.owner_of_tags(row) else { continue };
            self.owners.insert(owner);
            vips.extend(row["vip_port_id"].as_str());
            self.removed("loadbalancer", text(row, "id"), text(row, "name"), tags(row));
            for (kind, key) in [("listener", "listeners"), ("pool", "pools")] {
                ids(&row[key]).for_each(|id| self.removed(kind, id, "", std::iter::empty()));
            }
        }
        for row in floating {
            let (id, address) = (text(row, "id"), text(row, "floating_ip_address"));
            let leads_to_one = vips.contains(text(row, "port_id"));
            match scope.owner_in_description(row) {
                Some(owner) => {
                    self.owners.insert(owner);
                    if SeenFloatingIp::read(row).is_kept() {
                        self.left("floatingip", id, address, &format!("~ description: {KEEP}"), leads_to_one);
                    } else {
                        self.removed("floatingip", id, address, description(row).split_whitespace());
                    }
                }
                // Somebody else made it, and it stays.
                None if leads_to_one => self.left("floatingip", id, address, "", true),
                None => {}
            }
        }
        for row in ports {
            if let Some(owner) = scope.owner_in_description(row) {
                self.owners.insert(owner);
                self.removed("port", text(row, "id"), text(row, "name"), description(row).split_whitespace());
            }
        }
    }

    fn add_secrets(&mut self, scope: &MarkScope, secrets: &[Value]) {
        for row in secrets {
            let Some(owner) = scope.owner_of_secret(row) else { continue };
            let diff = vec![format!("- {}", owner_tag_of(&owner))];
            self.owners.insert(owner);
            let id = text(row, "secret_ref").rsplit('/').next().unwrap_or_default();
            self.change("delete", "secret", id, text(row, "name"), diff);
        }
    }

    fn removed<'a>(&mut self, kind: &'static str, id: &str, name: &str, words: impl Iterator<Item = &'a str>) {
        let owner = owners_in(words).map(|owner| format!("- {}", owner_tag_of(owner))).collect();
        self.change("delete", kind, id, name, owner);
    }

    fn left(&mut self, kind: &'static str, id: &str, name: &str, diff: &str, is_led: bool) {
        let led = is_led.then(|| "~ port_id: null".to_owned());
        let diff = led.into_iter().chain((!diff.is_empty()).then(|| diff.to_owned())).collect();
        self.change("update", kind, id, name, diff);
    }

    fn change(&mut self, verb: &str, kind: &'static str, id: &str, name: &str, diff: Vec<String>) {
        let (id, name) = (id.to_owned(), name.to_owned());
        let change = pb::PlannedChange { verb: verb.to_owned(), kind: kind.to_owned(), id: id.clone(), name, diff };
        self.changes.insert((kind, id), change);
    }

    pub(crate) fn owners(&self) -> &BTreeSet<Text> {
        &self.owners
    }

    /// Returns the number of objects that go, by kind.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for change in self.changes.values().filter(|change| change.verb == "delete") {
            *counts.entry(change.kind.clone()).or_default() += 1;
        }
        counts
    }

    /// Returns what is changed, by kind.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &pb::PlannedChange> {
        self.changes.values()
    }

    /// Returns what names it: another inventory has another one.
    pub(crate) fn id(&self, scope: &MarkScope) -> String {
        let mut hash = DefaultHasher::new();
        scope.settings.uid.hash(&mut hash);
        for change in self.changes.values() {
            (&change.verb, &change.kind, &change.id, &change.diff).hash(&mut hash);
        }
        format!("{}-{}-{:016x}", scope.cluster(), self.changes.len(), hash.finish())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::scope;
    use super::*;

    const MARK: &str = "gimbal-cluster:prod1 k8s-cluster:c-1 k8s-svc-uid:s-1";
    const OTHER: &str = "gimbal-cluster:prod2 k8s-cluster:c-1 k8s-svc-uid:s-2";

    fn balancer(id: &str, mark: &str) -> Value {
        let tags: Vec<&str> = mark.split(' ').collect();
        json!({"id": id, "name": "shop/web", "vip_port_id": format!("vip-{id}"), "tags": tags,
            "listeners": [{"id": format!("listener-{id}")}], "pools": [{"id": format!("pool-{id}")}]})
    }

    #[test]
    fn what_goes_what_stays_and_what_is_anothers() {
        let floating = |id: &str, port: &str, words: &str| json!({"id": id, "floating_ip_address": "172.24.4.9", "port_id": port, "description": words});
        let mut all = MarkedInventory::default();
        all.add(
            &scope(),
            &[balancer("a", MARK), balancer("b", OTHER)],
            &[
                floating("ours", "vip-a", MARK),
                floating("kept", "", &MARK.replace("s-1", "s-3").replace("s-3", "s-3 gimbal:keep")),
                floating("users", "vip-a", "mine"),
                floating("strangers", "vip-b", OTHER),
            ],
            &[json!({"id": "vip-a", "description": MARK}), json!({"id": "vip-b", "description": OTHER})],
        );
        let found: Vec<_> = all.changes().map(|one| (&*one.verb, &*one.kind, &*one.id, one.diff.join(" "))).collect();
        let mark = "- k8s-svc-uid:s-1".to_owned();
        assert_eq!(
            found,
            [
                ("update", "floatingip", "kept", "~ description: gimbal:keep".to_owned()),
                ("delete", "floatingip", "ours", mark.clone()),
                ("update", "floatingip", "users", "~ port_id: null".to_owned()),
                ("delete", "listener", "listener-a", String::new()),
                ("delete", "loadbalancer", "a", mark.clone()),
                ("delete", "pool", "pool-a", String::new()),
                ("delete", "port", "vip-a", mark),
            ]
        );
        assert_eq!(all.owners().iter().map(|owner| &**owner).collect::<Vec<_>>(), ["s-1", "s-3"]);
        let name = |cluster: &str| format!("gimbal/{cluster}/c-1/s-4/{}/shop/tls", "07".repeat(32));
        all.add_secrets(
            &scope(),
            &[
                json!({"name": name("prod1"), "secret_ref": "http://b/v1/secrets/ours"}),
                json!({"name": name("prod2"), "secret_ref": "http://b/v1/secrets/anothers"}),
                json!({"name": null, "secret_ref": "http://b/v1/secrets/mine"}),
            ],
        );
        let secrets: Vec<_> =
            all.changes().filter(|one| one.kind == "secret").map(|one| (&*one.id, &*one.name)).collect();
        assert_eq!(secrets, [("ours", &*name("prod1"))]);
        assert!(all.owners().contains("s-4"));
        assert_eq!(all.counts()["floatingip"], 1);
        let id = all.id(&scope());
        all.add(&scope(), &[balancer("c", MARK)], &[], &[]);
        assert_ne!(all.id(&scope()), id);
    }
}
