//! What is left in the cloud.

use super::World;

impl World {
    /// Returns what of the clouds belongs to a cluster.
    pub fn left_of(&mut self, cluster: &str) -> Vec<String> {
        let mark = format!("k8s-cluster:uid-{cluster}");
        let lists = [
            ("/v2/lbaas/loadbalancers", "loadbalancers"),
            ("/v2/lbaas/listeners", "listeners"),
            ("/v2/lbaas/pools", "pools"),
            ("/v2.0/ports", "ports"),
            ("/v2.0/floatingips", "floatingips"),
        ];
        let mut left = Vec::new();
        for (path, key) in lists {
            let rows = self.rows(path, key);
            let of = rows.iter().filter(|row| {
                row["tags"].to_string().contains(&mark) || row["description"].to_string().contains(&mark)
            });
            left.extend(of.map(|row| format!("{key} {}", row["id"])));
        }
        let secrets = self.cloud.secrets();
        let start = format!("gimbal/{cluster}/uid-{cluster}/");
        left.extend(
            secrets.into_values().filter(|name| name.starts_with(&start)).map(|name| format!("secrets {name}")),
        );
        left
    }
}
