//! The keeper on a real API server, with a leadership that the test controls.

use std::time::Duration;

use gimbal_kubernetes_objects::{ConfigMap, Lease};
use gimbal_testkit::{CapturedLog, TestCluster};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use gimbal_kubernetes_client::ApiError;
use gimbal_kubernetes_objects::keys;
use gimbal_lease::{Leadership, Moment};
use tokio::sync::watch;

use crate::store::{NotWritten, RecordChange, Store, StoredRecord};
use crate::{Format, NewerRecord, RecordData, StateEvent, StateKeeper};

/// A second format beside the writer's: one number for each cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Incarnations;

const PREFIX: &str = "gimbal-backend-";

impl Format for Incarnations {
    type Tenant = String;
    type State = String;
    const PREFIX: &str = PREFIX;
    const TENANT_LABEL: &str = "example.com/cluster";
    const VERSION: u32 = 2;
    const OLDEST_READER: u32 = 1;

    fn has_key(key: &str) -> bool {
        key == "incarnation"
    }

    fn parse_tenant(name: &str) -> Option<String> {
        Some(name.into())
    }

    fn render(state: &String) -> RecordData {
        [("incarnation".to_owned(), state.clone())].into()
    }

    fn parse(data: &RecordData) -> (String, Vec<&'static str>) {
        (data.get("incarnation").cloned().unwrap_or_default(), Vec::new())
    }

    fn log_not_written(cluster: &String, error: &ApiError) {
        tracing::warn!(%cluster, %error, "not written");
    }

    fn log_not_read(cluster: &String, config_map: &str, keys: &str) {
        tracing::warn!(%cluster, config_map, keys, "not read");
    }

    fn log_newer(cluster: &String, newer: &NewerRecord) {
        tracing::warn!(%cluster, %newer, "not used");
    }
}

const LIMIT: Duration = Duration::from_secs(20);
const FOR_LONG: Duration = Duration::from_secs(3600);

fn leader(epoch: u64, lasts: Duration) -> Leadership {
    Leadership::Leader { epoch, until: Moment::now() + lasts }
}

fn name(tenant: &str) -> String {
    tenant.into()
}

fn state(incarnation: &str) -> String {
    incarnation.into()
}

fn record(tenant: &str, incarnation: &str) -> StoredRecord<String, String> {
    StoredRecord { tenant: name(tenant), state: state(incarnation), newer: None }
}

struct Stage {
    server: TestCluster,
    leadership: watch::Sender<Leadership>,
    keeper: StateKeeper<Incarnations>,
    task: JoinHandle<()>,
}

impl Stage {
    async fn start() -> Self {
        let server = TestCluster::start().await.unwrap();
        let (leadership, leads) = watch::channel(leader(1, FOR_LONG));
        let permit = leads.clone();
        let cluster = server.client().unwrap().only_while(move || permit.borrow().may_write(Moment::now()));
        let (keeper, task) = StateKeeper::new(cluster, "kube-system", leads);
        Self { server, leadership, keeper, task: tokio::spawn(task) }
    }

    async fn next_event(&mut self) -> StateEvent<Incarnations> {
        timeout(LIMIT, self.keeper.next()).await.unwrap().unwrap()
    }

    async fn kept(&self, backend: &str) -> Option<String> {
        let map: ConfigMap =
            self.server.client().unwrap().get("kube-system", &format!("{PREFIX}{backend}")).await.ok()?;
        map.data.get("incarnation").cloned()
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_written_keeps_no_others_from_being_kept() {
    let mut stage = Stage::start().await;
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let labels = serde_json::json!({keys::MANAGED_BY: keys::MANAGER});
    let map = serde_json::json!({"metadata": {"name": "gimbal-backend-aaa", "labels": labels}, "immutable": true});
    stage.server.admin().post(maps, &map).await.unwrap();
    stage.keeper.keep(1, name("aaa"), 1, state("a"));
    for version in 1..=3 {
        stage.keeper.keep(1, name("node02"), version, state("b"));
        assert_eq!(stage.next_event().await, StateEvent::Kept(name("node02"), version));
    }
    // The change is written once it can be.
    stage.server.admin().delete(&format!("{maps}/gimbal-backend-aaa")).await.unwrap();
    assert_eq!(stage.next_event().await, StateEvent::Kept(name("aaa"), 1));
    assert_eq!(stage.kept("aaa").await.as_deref(), Some("a"));
}

#[tokio::test]
async fn what_is_to_be_kept_waits_for_a_lease_that_is_late() {
    let mut stage = Stage::start().await;
    stage.leadership.send_replace(leader(1, Duration::ZERO));
    stage.keeper.keep(1, name("node02"), 1, state("a"));
    stage.keeper.keep(1, name("node02"), 2, state("b"));
    // The read, requested later, is answered first: the change was accepted and is pending.
    stage.keeper.read(1);
    assert_eq!(stage.next_event().await, StateEvent::Read(1, Vec::new()));
    stage.leadership.send_replace(leader(1, FOR_LONG));
    assert_eq!(stage.next_event().await, StateEvent::Kept(name("node02"), 2));
    assert_eq!(stage.kept("node02").await.as_deref(), Some("b"));

    // After a change of epoch it is older than what the leader between may have stored.
    stage.leadership.send_replace(leader(1, Duration::ZERO));
    stage.keeper.keep(1, name("node02"), 3, state("old"));
    stage.leadership.send_replace(leader(3, FOR_LONG));
    stage.keeper.read(3);
    assert_eq!(stage.next_event().await, StateEvent::Read(3, vec![record("node02", "b")]));
    stage.keeper.keep(3, name("other"), 1, state("c"));
    assert_eq!(stage.next_event().await, StateEvent::Kept(name("other"), 1));
    assert_eq!(stage.kept("node02").await.as_deref(), Some("b"));
    drop(stage.keeper);
    timeout(LIMIT, stage.task).await.unwrap().unwrap();
}

/// Another tool removes the labels: the next leader would not find the record.
#[tokio::test]
async fn a_record_that_lost_its_labels_gets_them_back() {
    let server = TestCluster::start().await.unwrap();
    let store = Store::<Incarnations>::new(server.client().unwrap(), "kube-system");
    let keep = RecordChange::Keep(1, state("a"));
    store.write(&name("node02"), &keep).await.unwrap();
    let path = "/api/v1/namespaces/kube-system/configmaps/gimbal-backend-node02";
    server.admin().patch(path, &serde_json::json!({"metadata": {"labels": null}})).await.unwrap();
    assert_eq!(store.read().await, Ok(Vec::new()));
    store.write(&name("node02"), &keep).await.unwrap();
    assert_eq!(store.read().await, Ok(vec![record("node02", "a")]));
}

/// The lease ends between the answer to the read and the write that would replace what was read.
#[tokio::test]
async fn nothing_is_replaced_that_was_read_under_a_lease_that_ended() {
    let server = TestCluster::start().await.unwrap();
    let (leadership, leads) = watch::channel(leader(1, FOR_LONG));
    let store = |permit: watch::Receiver<Leadership>, ends: bool| {
        let leadership = leadership.clone();
        let permit = move || {
            // Called when the write is about to be sent, that is, after the read was answered.
            if ends {
                leadership.send_replace(leader(1, Duration::ZERO));
            }
            permit.borrow().may_write(Moment::now())
        };
        Store::<Incarnations>::new(server.client().unwrap().only_while(permit), "kube-system")
    };
    let keep = |incarnation: &str| RecordChange::Keep(1, state(incarnation));
    let store_of_the_leader = store(leads.clone(), false);
    store_of_the_leader.write(&name("node02"), &keep("first")).await.unwrap();
    for change in [keep("late"), RecordChange::Forget] {
        leadership.send_replace(leader(1, FOR_LONG));
        let late = store(leads.clone(), true).write(&name("node02"), &change).await;
        assert_eq!(late, Err(NotWritten::Api(ApiError::Withheld)));
    }
    assert_eq!(store_of_the_leader.read().await, Ok(vec![record("node02", "first")]));
    let lease = server.client().unwrap().get::<Lease>("kube-system", "none").await;
    assert!(matches!(lease, Err(ApiError::NotFound { .. })), "reads need no permit");
}

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

/// As a later release writes it, whose records need programs that know format 3.
fn newer_record() -> serde_json::Value {
    let labels = serde_json::json!({keys::MANAGED_BY: keys::MANAGER});
    let data = serde_json::json!({"format": "4", "oldestReader": "3", "incarnation": "a", "since": "x"});
    serde_json::json!({"metadata": {"name": "gimbal-backend-node02", "labels": labels}, "data": data})
}

#[tokio::test]
async fn a_record_for_newer_programs_is_told_and_stays_as_it_is() {
    let server = TestCluster::start().await.unwrap();
    let store = Store::<Incarnations>::new(server.client().unwrap(), "kube-system");
    server.admin().post(MAPS, &newer_record()).await.unwrap();
    let newer = NewerRecord { config_map: "gimbal-backend-node02".into(), needed: "3".into(), known: 2 };
    let told = StoredRecord { newer: Some(newer.clone()), ..record("node02", "a") };
    for change in [RecordChange::Keep(1, state("b")), RecordChange::Forget] {
        assert_eq!(store.read().await, Ok(vec![told.clone()]));
        assert_eq!(store.write(&name("node02"), &change).await, Err(NotWritten::Newer(newer.clone())));
    }
    let path = format!("{MAPS}/gimbal-backend-node02");
    let data = async || server.admin().get(&path).await.unwrap()["data"].clone();
    assert_eq!(data().await, newer_record()["data"]);
    // The newer release says that this one may use it.
    server.admin().patch(&path, &serde_json::json!({"data": {"oldestReader": "2"}})).await.unwrap();
    assert_eq!(store.read().await, Ok(vec![record("node02", "a")]));
    store.write(&name("node02"), &RecordChange::Keep(1, state("b"))).await.unwrap();
    let expected = serde_json::json!({"format": "4", "oldestReader": "2", "incarnation": "b", "since": "x"});
    assert_eq!(data().await, expected, "and keeps what it does not know");
}

#[tokio::test]
async fn a_record_for_newer_programs_keeps_no_others_and_no_end_waiting() {
    let log = CapturedLog::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut stage = Stage::start().await;
    stage.server.admin().post(MAPS, &newer_record()).await.unwrap();
    stage.keeper.keep(1, name("node02"), 1, state("b"));
    stage.keeper.keep(1, name("other"), 1, state("c"));
    assert_eq!(stage.next_event().await, StateEvent::Kept(name("other"), 1));
    // It is written once it is gone.
    let path = format!("{MAPS}/gimbal-backend-node02");
    stage.server.admin().delete(&path).await.unwrap();
    assert_eq!(stage.next_event().await, StateEvent::Kept(name("node02"), 1));
    assert_eq!(stage.kept("node02").await.as_deref(), Some("b"));
    // The process does not wait for one that cannot be written.
    stage.server.admin().delete(&path).await.unwrap();
    stage.server.admin().post(MAPS, &newer_record()).await.unwrap();
    stage.keeper.keep(1, name("node02"), 2, state("c"));
    drop(stage.keeper);
    timeout(LIMIT, stage.task).await.unwrap().unwrap();
    assert!(!log.text().contains("could not be written in time"), "{}", log.text());
}
