//! What clusters were reported, and what they make of it.

use gimbal_kuryr_model::{DesiredKey, Phase};

use super::World;

impl World {
    pub fn phase(&self, cluster: &str, key: &DesiredKey) -> Option<Phase> {
        self.reports.get(&(cluster.to_owned(), key.clone())).map(|report| report.phase)
    }

    /// Returns the conditions of a report, as `Type/Reason`.
    pub fn conditions(&self, cluster: &str, key: &DesiredKey) -> Vec<String> {
        let report = self.reports.get(&(cluster.to_owned(), key.clone()));
        let conditions = report.map(|report| report.conditions.as_slice()).unwrap_or_default();
        conditions.iter().map(|one| format!("{}/{}", one.kind, one.reason)).collect()
    }

    /// Makes the controller's answer to a report: the status names what exists.
    pub fn status_written(&mut self, cluster: &str, key: &DesiredKey) {
        let mut wish = self.wishes[&(cluster.to_owned(), key.clone())].clone();
        wish.known = true;
        self.want(cluster, key.clone(), wish);
    }
}
