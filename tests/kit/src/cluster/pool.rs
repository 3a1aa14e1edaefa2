//! Clusters that serve one test after the other: to start one costs seconds of computing, to empty one does not.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TestCluster;

/// A cluster from this process's pool, empty but for what an API server creates itself. It goes back when it is dropped,
/// unless the test failed, or did to the servers what emptying does not undo. The pool ends with its last user, because
/// nothing else would remove its servers and folders at the process's end.
pub struct PooledCluster {
    cluster: Option<TestCluster>,
    _user: User,
}

struct Pool {
    idle: Vec<TestCluster>,
    users: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { idle: Vec::new(), users: 0 });

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the pool's idle clusters alive.
struct User;

impl User {
    fn new() -> Self {
        pool().users += 1;
        Self
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut pool = pool();
        pool.users -= 1;
        let ended = if pool.users == 0 { std::mem::take(&mut pool.idle) } else { Vec::new() };
        // Servers are killed without the lock.
        drop(pool);
        drop(ended);
    }
}

impl PooledCluster {
    /// Takes a cluster from the pool and empties it, or starts a new one.
    ///
    /// # Errors
    /// As [`TestCluster::start`].
    pub async fn start() -> anyhow::Result<Self> {
        let user = User::new();
        loop {
            let idle = pool().idle.pop();
            let Some(mut cluster) = idle else {
                return Ok(Self { cluster: Some(Box::pin(TestCluster::start()).await?), _user: user });
            };
            match Box::pin(cluster.empty()).await {
                Ok(()) => return Ok(Self { cluster: Some(cluster), _user: user }),
                Err(error) => eprintln!("a used cluster is not used again: {error:#}"),
            }
        }
    }
}

impl From<TestCluster> for PooledCluster {
    fn from(cluster: TestCluster) -> Self {
        Self { cluster: Some(cluster), _user: User::new() }
    }
}

impl Deref for PooledCluster {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        let Some(cluster) = &self.cluster else { unreachable!("only Drop takes the cluster") };
        cluster
    }
}

impl Drop for PooledCluster {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take().filter(|cluster| cluster.is_reusable())
            && !std::thread::panicking()
        {
            pool().idle.push(cluster);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Rule;

    async fn names(cluster: &TestCluster, path: &str) -> Vec<String> {
        let items = cluster.admin().items(path).await.unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn a_used_cluster_is_used_again_and_is_empty() {
        let _user = User::new();
        let cluster = PooledCluster::start().await.unwrap();
        let server = cluster.api_server().unwrap();
        let user = cluster.user("user-1").unwrap();
        cluster.grant(&user, &[Rule::read("", &["services"])]).await.unwrap();
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
        let config = json!({"metadata": {"name": "state"}});
        let paths = ["/api/v1/namespaces/team1/services", "/api/v1/namespaces/kube-system/configmaps"];
        cluster.namespace("team1").await.unwrap();
        for (path, object) in paths.iter().zip([&service, &config]) {
            cluster.admin().post(path, object).await.unwrap();
        }
        drop(cluster);

        let again = PooledCluster::start().await.unwrap();
        assert_eq!(again.api_server().unwrap(), server);
        assert_eq!(names(&again, "/api/v1/services").await, ["kubernetes"]);
        assert_eq!(names(&again, paths[1]).await, ["extension-apiserver-authentication"]);
        let mut namespaces = names(&again, "/api/v1/namespaces").await;
        namespaces.sort();
        assert_eq!(namespaces, ["default", "kube-node-lease", "kube-public", "kube-system"]);
        let code = again.api(&user).unwrap().get(paths[0]).await.unwrap_err().code;
        assert_eq!(code, 403, "the right of the test before");
        let audit = again.audit().await.unwrap();
        assert!(audit.iter().all(|entry| entry.verb != "create"), "{audit:?}");
        again.namespace("team1").await.unwrap();
        let made: Value = again.admin().post(paths[0], &service).await.unwrap();
        assert_eq!(made["metadata"]["namespace"], "team1");

        again.stop_apiserver().unwrap();
        drop(again);
        assert!(pool().idle.is_empty(), "a stopped server serves no other test");
    }
}
