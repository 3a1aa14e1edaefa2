use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gimbal_kubernetes_objects::Meta;
use gimbal_testkit::ScriptedCluster;
use serde_json::{Value, json};

use super::*;

/// Counts Events that were dropped.
#[derive(Debug, Clone, Default)]
struct Dropped(Arc<AtomicU64>);

impl EventQueueCounts for Dropped {
    fn event_written(&self, _: Option<&ApiError>) {}

    fn event_dropped(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn set_events_waiting(&self, _: usize) {}
}

fn event(name: &str) -> Event {
    let metadata = Meta { name: name.into(), namespace: "shop".into(), ..Meta::default() };
    Event { metadata, ..Event::default() }
}

/// A queue, the API server that it writes to, and a clock.
struct Queued {
    server: ScriptedCluster,
    queue: EventQueue<Dropped>,
    dropped: Dropped,
    now: Instant,
}

impl Queued {
    async fn new() -> Self {
        let (server, dropped) = (ScriptedCluster::start().await.unwrap(), Dropped::default());
        let queue = EventQueue::new(&server.cluster, dropped.clone());
        Self { server, queue, dropped, now: Instant::now() }
    }

    /// Answers the calls of one Event with these statuses. Returns the calls.
    async fn write(&mut self, answers: &[(u16, Value)]) -> Vec<String> {
        answers.iter().for_each(|(status, body)| self.server.answer(*status, body));
        self.queue.write_next(self.now);
        assert!(self.queue.current.is_some(), "nothing is written");
        let result = self.queue.written().await;
        self.queue.handle(result, self.now);
        self.server.requests()
    }

    /// Returns how many wait, and how many were dropped.
    fn left(&self) -> (usize, u64) {
        (self.queue.waiting.len(), self.dropped.0.load(Ordering::Relaxed))
    }
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "message": "m", "reason": reason, "details": {"name": "web", "kind": "events"}}))
}

fn written() -> (u16, Value) {
    (201, json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop"}}))
}

#[tokio::test]
async fn one_that_is_there_is_counted_again() {
    let mut queued = Queued::new().await;
    queued.queue.push(event("web"));
    let calls = queued.write(&[refused(409, "AlreadyExists"), written(), written()]).await;
    let path = "/api/v1/namespaces/shop/events";
    assert_eq!(calls, [format!("post {path}"), format!("patch {path}/web"), format!("patch {path}/web")]);
    assert_eq!((queued.left(), queued.queue.deadline()), ((0, 0), None));
}

#[tokio::test]
async fn one_that_fails_is_tried_three_times_with_pauses_and_what_is_useless_once() {
    let mut queued = Queued::new().await;
    queued.queue.push(event("web"));
    queued.queue.push(event("other"));
    for (tries, waiting) in [(1, 2), (2, 2), (3, 1)] {
        queued.write(&[refused(500, "InternalError")]).await;
        assert_eq!(queued.left(), (waiting, u64::from(tries == 3)), "try {tries}");
        if tries < 3 {
            assert_eq!(queued.queue.deadline(), Some(queued.now + PAUSE));
            // Not before the pause is over.
            queued.queue.write_next(queued.now + PAUSE - Duration::from_millis(1));
            assert!(queued.queue.current.is_none());
            queued.now += PAUSE;
        }
    }
    // The other one has its own tries.
    queued.write(&[refused(500, "InternalError")]).await;
    assert_eq!(queued.left(), (1, 1));
    queued.now += PAUSE;
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid")] {
        let (_, dropped) = queued.left();
        queued.write(&[refused(code, reason)]).await;
        assert_eq!(queued.left(), (0, dropped + 1), "{reason}");
        queued.queue.push(event("next"));
    }
}

#[tokio::test]
async fn a_namespace_that_goes_takes_its_events_along() {
    let mut queued = Queued::new().await;
    for details in [
        json!({"name": "shop", "kind": "namespaces"}),
        json!({"name": "web", "causes": [{"reason": "NamespaceTerminating"}]}),
    ] {
        queued.queue.push(event("web"));
        let code = if details["kind"].is_string() { 404 } else { 403 };
        queued.write(&[(code, json!({"kind": "Status", "message": "m", "details": details}))]).await;
        assert_eq!((queued.left(), queued.queue.deadline()), ((0, 0), None), "{details}");
    }
}

#[tokio::test]
async fn a_busy_api_server_is_left_alone_for_as_long_as_it_asks() {
    let mut queued = Queued::new().await;
    queued.queue.push(event("web"));
    let details = json!({"retryAfterSeconds": 30});
    queued.write(&[(429, json!({"kind": "Status", "message": "m", "details": details}))]).await;
    assert_eq!(queued.queue.deadline(), Some(queued.now + Duration::from_secs(30)));
    queued.queue.write_next(queued.now + Duration::from_secs(29));
    assert!(queued.queue.current.is_none());
    queued.now += Duration::from_secs(30);
    queued.write(&[written()]).await;
    assert_eq!(queued.left(), (0, 0));
}

#[tokio::test]
async fn a_mass_of_events_is_written_at_its_pace() {
    let mut queued = Queued::new().await;
    let burst = RATE.0 * RATE.1.as_secs();
    for number in 0..burst + 2 {
        queued.queue.push(event(&format!("e{number}")));
    }
    for _ in 0..burst {
        queued.write(&[written()]).await;
    }
    queued.queue.write_next(queued.now);
    assert!(queued.queue.current.is_none(), "what was saved up is spent");
    let next = queued.queue.deadline().unwrap();
    assert_eq!(next - queued.now, Duration::from_secs(1) / u32::try_from(RATE.0).unwrap());
    queued.now = next;
    queued.write(&[written()]).await;
    assert_eq!(queued.left(), (1, 0));
}

#[tokio::test]
async fn what_waits_for_another_cluster_is_forgotten_and_what_is_being_written_too() {
    let mut queued = Queued::new().await;
    queued.queue.push(event("web"));
    queued.queue.push(event("other"));
    queued.queue.write_next(queued.now);
    assert!(queued.queue.deadline().is_none(), "one is being written");
    queued.queue.clear();
    assert_eq!((queued.queue.task.len(), queued.left()), (0, (0, 0)));
    // A late result is of none that is known.
    queued.queue.handle(Err(ApiError::Withheld), queued.now);
    assert_eq!(queued.left(), (0, 0));
}
