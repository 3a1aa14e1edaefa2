//! Two candidates on a real API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Lease;
use gimbal_testkit::TestCluster;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use gimbal_lease::{Candidate, Fitness, Leadership, Moment, Times};

const NAME: &str = "gimbal-writer";

fn code(error: Option<&ApiError>) -> &'static str {
    match error {
        None => "ok",
        Some(ApiError::Timeout { .. }) => "timeout",
        Some(_) => "other",
    }
}

struct Competing {
    leadership: watch::Receiver<Leadership>,
    task: JoinHandle<()>,
    stop: CancellationToken,
    calls: Arc<Mutex<BTreeMap<(&'static str, &'static str), u32>>>,
}

impl Competing {
    fn start(cluster: Cluster, identity: &str) -> Self {
        let (stop, calls) = (CancellationToken::new(), Arc::<Mutex<BTreeMap<_, _>>>::default());
        let counted = calls.clone();
        let candidate = Candidate {
            cluster,
            namespace: "kube-system".into(),
            name: NAME.into(),
            identity: identity.into(),
            times: Times::new(Duration::from_secs(3)),
            fitness: Box::new(|| Fitness::Working),
            called: Box::new(move |verb, error| *counted.lock().unwrap().entry((verb, code(error))).or_default() += 1),
        };
        let (leadership, task) = candidate.start(stop.clone());
        Self { leadership, task, stop, calls }
    }

    /// Waits until this candidate leads. Returns how long that took, and the epoch.
    async fn leads(&mut self) -> (Duration, u64) {
        let start = Instant::now();
        let leads = |leadership: &Leadership| leadership.may_write(Moment::now());
        let leader = timeout(Duration::from_secs(20), self.leadership.wait_for(leads)).await.unwrap().unwrap();
        (start.elapsed(), leader.epoch().unwrap())
    }

    /// Returns how often a call ended with this code.
    fn calls(&self, verb: &'static str, code: &'static str) -> u32 {
        self.calls.lock().unwrap().get(&(verb, code)).copied().unwrap_or_default()
    }

    fn now(&self) -> bool {
        self.leadership.borrow().may_write(Moment::now())
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_changes_hands() {
    let server = TestCluster::start().await.unwrap();
    let mut one = Competing::start(server.client().unwrap(), "one");
    assert_eq!(one.leads().await.1, 1);
    let mut two = Competing::start(server.client().unwrap(), "two");
    let follows = |leadership: &Leadership| *leadership == Leadership::Follower { holder: "one".into() };
    timeout(Duration::from_secs(20), two.leadership.wait_for(follows)).await.unwrap().unwrap();

    // Renewed: the first one leads longer than one lease lasts.
    let Leadership::Leader { until, .. } = *one.leadership.borrow() else { panic!("one leads") };
    let renewed = |leadership: &Leadership| matches!(leadership, Leadership::Leader { until: later, .. } if *later > until + Duration::from_secs(3));
    timeout(Duration::from_secs(20), one.leadership.wait_for(renewed)).await.unwrap().unwrap();
    assert!(!two.now());
    assert_eq!((one.calls("create", "ok"), one.calls("take", "ok")), (1, 0));
    assert!(one.calls("renew", "ok") >= 2, "{:?}", one.calls);
    assert_eq!(two.calls("renew", "ok"), 0);

    // A clean stop hands over at once.
    let calls = one.calls.clone();
    one.stop().await;
    assert_eq!(calls.lock().unwrap().get(&("release", "ok")), Some(&1), "{calls:?}");
    let (took, epoch) = two.leads().await;
    assert!(took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(epoch, 2);

    // A crash: another candidate waits until the lease expires, the same one leads again at once.
    two.task.abort();
    let mut again = Competing::start(server.client().unwrap(), "two");
    let (took, epoch) = again.leads().await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(epoch, 2, "the holder is the same");
    let crashed = Instant::now();
    again.task.abort();
    let mut three = Competing::start(server.client().unwrap(), "three");
    assert_eq!(three.leads().await.1, 3);
    // `again` may have renewed a second before.
    assert!(crashed.elapsed() > Duration::from_secs(2), "{:?}", crashed.elapsed());

    // Without its server it stops leading by its own clock, and knows of no other leader.
    server.pause().unwrap();
    timeout(Duration::from_secs(20), async {
        while three.now() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(three.leadership.borrow().epoch(), Some(3), "late is not lost");
    // Its leadership may end before the call times out.
    timeout(Duration::from_secs(20), async {
        while three.calls("renew", "timeout") + three.calls("read", "timeout") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    server.resume().unwrap();
    assert_eq!(three.leads().await.1, 3);
    three.stop().await;
    let lease: Lease = server.client().unwrap().get("kube-system", NAME).await.unwrap();
    assert_eq!(lease.spec.holder_identity.as_deref().unwrap_or_default(), "");
}
