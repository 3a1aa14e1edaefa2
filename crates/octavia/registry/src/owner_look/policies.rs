//! Policies of listeners and their rules, as a look reads them.

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, SeenListener, SeenPolicy, SeenRule};
use serde_json::Value;

use super::{LookPart, LookRead, OwnerLook, ids, list};

impl OwnerLook {
    /// Returns the reads that show the policies of a listener. Only those of routers have any.
    pub(super) fn policies_of(&mut self, listener: &str, row: &Value, project: &Text) -> Vec<LookRead> {
        let policies = ids(&row["l7policies"]);
        if policies.iter().any(|id| !self.rows.policies.contains_key(id)) {
            let query = vec![("listener_id", listener.to_owned())];
            let read = list(ApiService::Octavia, "l7policy", "l7policies", query);
            return self.ask(LookPart::Policies(listener.to_owned()), project, read).into_iter().collect();
        }
        policies.into_iter().filter_map(|id| self.rules_of(id, project)).collect()
    }

    /// Takes the policies that a listener names. One that was made since is seen by the next look, with its rules.
    pub(super) fn take_policies(&mut self, listener: &str, rows: Vec<Value>, project: &Text) -> Vec<LookRead> {
        let named = self.rows.listeners.get(listener).map(|row| ids(&row["l7policies"])).unwrap_or_default();
        let mut reads = Vec::new();
        for row in rows {
            let Some(id) = row["id"].as_str().filter(|id| named.iter().any(|one| one == id)) else { continue };
            reads.extend(self.rules_of(id.to_owned(), project));
            self.rows.policies.insert(id.to_owned(), row);
        }
        reads
    }

    /// A list of policies names the IDs of their rules alone.
    fn rules_of(&mut self, policy: String, project: &Text) -> Option<LookRead> {
        let read = list(ApiService::Octavia, "l7rule", &format!("l7policies/{policy}/rules"), Vec::new());
        self.ask(LookPart::Rules(policy), project, read)
    }

    /// Returns a listener with its policies and their rules.
    pub(super) fn listener(&self, row: &Value) -> SeenListener {
        let policy = |id: String| {
            let row = self.rows.policies.get(&id)?;
            let rules = self.rules.get(&id).map(Vec::as_slice).unwrap_or_default();
            Some(SeenPolicy { rules: rules.iter().map(SeenRule::read).collect(), ..SeenPolicy::read(row) })
        };
        let policies = ids(&row["l7policies"]).into_iter().filter_map(policy).collect();
        SeenListener { policies, ..SeenListener::read(row) }
    }
}
