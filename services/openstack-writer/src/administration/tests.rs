//! Administrators who go away in the middle of an order.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_octavia_registry::{ClusterGuards, RegistrySettings};
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use super::*;
use crate::config::{ClusterConfig, ClustersConfig};
use crate::mailbox::ClusterMail;
use crate::policy::ClusterPolicy;

const PATH: &str = "/loadbalancers/lb";

/// A cloud with a load balancer of cluster `prod1`, which is in quarantine, and the owner's mailbox.
struct Stage {
    fake: FakeOpenStack,
    orders: AdminOrders,
    mail: mpsc::Receiver<ClusterMail>,
    clusters: Clusters,
}

impl Stage {
    async fn start() -> Self {
        let fake = FakeOpenStack::start().await.unwrap();
        let row = json!({"id": "lb", "project_id": "p1", "provisioning_status": "ACTIVE", "listeners": [], "pools": [],
            "tags": ["k8s-cluster:uid", "gimbal-cluster:prod1", "k8s-svc-uid:u1"]});
        fake.set(|cloud| {
            cloud.project("p1", "alpha");
            cloud.load_balancer("p1", "lb", "web");
            cloud.change("lb", "tags", row["tags"].clone());
        });
        fake.fail(Fault::on(PATH).text(200, &json!({"loadbalancer": row}).to_string()));
        let cloud = crate::cloud_access::tests::connected(&fake);
        let config = ClusterConfig {
            name: "prod1".parse().unwrap(),
            identity: "spiffe://prod1".to_owned(),
            uid: Some("uid".into()),
            former_uids: BTreeSet::new(),
            policy: ClusterPolicy { project: "p1".into(), ..ClusterPolicy::default() },
            guards: ClusterGuards::default(),
            quarantine: true,
        };
        let config = ClustersConfig { clusters: vec![config], ..ClustersConfig::default() };
        let (owner, mail, _) = OwnerHandle::new();
        let clusters = Clusters::new(RegistrySettings::default(), &config, 0, Instant::now());
        let orders = AdminOrders { owner, cloud, dry_run: false, shutdown: CancellationToken::new() };
        Self { fake, orders, mail, clusters }
    }

    /// Answers the owner's next questions.
    async fn answer(&mut self, questions: usize) {
        for _ in 0..questions {
            let Some(ClusterMail::Ask(question)) = self.mail.recv().await else { panic!("no question") };
            question(&mut self.clusters);
        }
    }

    fn may_release(&self) -> bool {
        self.clusters.may_release(&"prod1".into(), &"u1".into()).is_ok()
    }
}

/// Lets a call go until a question has come to the owner, and drops it.
async fn drop_when_asked<T>(mail: &mut mpsc::Receiver<ClusterMail>, call: impl Future<Output = T>) -> ClusterMail {
    let mut call = Box::pin(call);
    let asked = poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "it ended before it asked");
        mail.poll_recv(context)
    });
    asked.await.unwrap()
}

fn forget() -> pb::ForgetRequest {
    pb::ForgetRequest { cluster: "prod1".to_owned(), load_balancer_id: "lb".to_owned(), dry_run: false }
}

#[tokio::test]
async fn a_forget_that_nobody_waits_for_comes_to_its_end() {
    let mut stage = Stage::start().await;
    let gate = Arc::new(Semaphore::new(0));
    // It is read for the preview, and before the change.
    stage.fake.fail(Fault::on(PATH).after(2).times(1).hold(&gate));
    let call = tokio::spawn(detached(stage.orders.clone().forget(forget())));
    stage.answer(1).await;
    let Some(ClusterMail::Ask(begin)) = stage.mail.recv().await else { panic!("no question") };
    // The admin goes away before the answer.
    call.abort();
    call.await.unwrap_err();
    begin(&mut stage.clusters);
    assert!(!stage.may_release(), "it goes on");
    gate.add_permits(1);
    tokio::time::timeout(Duration::from_secs(30), stage.answer(1)).await.unwrap();
    assert!(stage.may_release(), "and has ended");
    assert_eq!(stage.fake.count("PUT /v2/lbaas/loadbalancers/lb"), 1);
}

#[tokio::test]
async fn a_removal_that_nobody_waits_for_comes_to_its_end() {
    let mut stage = Stage::start().await;
    let dry = pb::DecommissionRequest { cluster: "prod1".to_owned(), dry_run: true, id: String::new() };
    let shown = tokio::spawn(stage.orders.clone().decommission(dry));
    stage.answer(1).await;
    let shown = shown.await.unwrap().unwrap();
    assert_eq!(shown.objects["loadbalancer"], 1);
    let order = pb::DecommissionRequest { cluster: "prod1".to_owned(), dry_run: false, id: shown.id };
    let (orders, again) = (stage.orders.clone(), order.clone());
    let call = async move { detached(orders.decommission(order)).await };
    let first = drop_when_asked(&mut stage.mail, call).await;
    let ClusterMail::Ask(question) = first else { panic!("no question") };
    question(&mut stage.clusters);
    tokio::time::timeout(Duration::from_secs(30), stage.answer(1)).await.unwrap();
    assert!(stage.clusters.removal("prod1").is_some(), "it goes on");
    // Somebody else removes it.
    stage.fake.set(|cloud| cloud.remove("lb"));
    stage.fake.heal();
    tokio::time::timeout(Duration::from_secs(60), stage.answer(1)).await.unwrap();
    assert!(stage.clusters.removal("prod1").is_none(), "and has ended");
    let call = tokio::spawn(stage.orders.clone().decommission(again));
    stage.answer(1).await;
    let refused = call.await.unwrap().unwrap_err();
    assert!(refused.message().starts_with("nothing carries the mark of cluster prod1 any more"), "{refused}");
    assert!(refused.message().contains("take the cluster out of the configuration"), "{refused}");
}
