//! A mutation is sent once, whatever happens to its answer.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimbal_openstack_client::{
    CallKind, CallOutcome, Cloud, Complaint, Error, Mutation, MutationRefusal, MutationResult, NotSent,
    ServiceEndpoint, ServiceType, Session, TokenScope,
};
use gimbal_testkit::eventually;
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::common::{credentials, options};

/// What the service does after it has read a request completely.
#[derive(Clone, Copy)]
enum Reaction {
    Answer(&'static str, &'static str),
    /// An answer with this status line, header line and body.
    With(&'static str, &'static str, &'static str),
    /// The connection breaks before the answer.
    Break,
    /// The connection breaks in the middle of the answer's body.
    BreakInBody,
    Hang,
}

const CREATED: Reaction = Reaction::Answer("201 Created", r#"{"pool":{"id":"1"}}"#);
const IMMUTABLE: &str =
    r#"{"faultcode":"Client","faultstring":"Load Balancer 1 is immutable and cannot be updated.","debuginfo":null}"#;
const BUSY: &str = r#"{"faultcode":"Server","faultstring":"Project busy.  Unable to lock the project.  Please try again.","debuginfo":null}"#;
const DENIED: &str = r#"{"error":{"code":401,"message":"The request you have made requires authentication."}}"#;

/// A load balancing service with a scripted reaction to each request, which breaks every connection after the last one.
struct Service {
    keystone: FakeOpenStack,
    requests: Arc<Mutex<Vec<String>>>,
    cloud: Cloud,
}

impl Service {
    async fn start(reactions: &[Reaction]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, reactions) = (requests.clone(), reactions.to_vec());
        tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(connection, seen.clone(), reactions.clone()));
            }
        });
        let keystone = FakeOpenStack::start().await.unwrap();
        keystone.set(|cloud| cloud.project("p1", "alpha"));
        let more = [("OS_LOAD_BALANCER_ENDPOINT_OVERRIDE", &*url), ("OS_NETWORK_ENDPOINT_OVERRIDE", &*url)];
        let cloud = Cloud::connect(credentials(&keystone.url(), &more), options()).await.unwrap();
        Self { keystone, requests, cloud }
    }

    async fn session(&self) -> (Session, ServiceEndpoint) {
        let session = self.cloud.session(&TokenScope::Project("p1".into()));
        let endpoint = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
        (session, endpoint)
    }

    async fn send(&self, mutation: &Mutation) -> MutationResult {
        let (session, endpoint) = self.session().await;
        session.mutate(&endpoint, mutation, || true).await
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut connection: TcpStream, seen: Arc<Mutex<Vec<String>>>, reactions: Vec<Reaction>) {
    while let Some(request) = read(&mut connection).await {
        let count = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len()
        };
        let (status, line, body) = match reactions.get(count - 1) {
            Some(Reaction::Answer(status, body)) => (*status, "x-nothing: 1", *body),
            Some(Reaction::With(status, line, body)) => (*status, *line, *body),
            Some(Reaction::Break) | None => return,
            Some(Reaction::BreakInBody) => {
                let cut = "HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"pool\"";
                connection.write_all(cut.as_bytes()).await.unwrap();
                return;
            }
            Some(Reaction::Hang) => return std::future::pending().await,
        };
        let head = format!("HTTP/1.1 {status}\r\n{line}\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}

fn not_sent(result: &MutationResult) -> &NotSent {
    match result {
        MutationResult::NotSent(not_sent) => not_sent,
        other => panic!("sent: {other:?}"),
    }
}

/// Reads one complete request. Returns its first line and body.
async fn read(connection: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = connection.read(&mut piece).await.unwrap_or_default();
        if count == 0 {
            // A request that was cut off counts, too.
            return Some(String::from_utf8(bytes).unwrap()).filter(|cut| !cut.is_empty());
        }
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8(bytes.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(format!("{} {body}", head.lines().next().unwrap()).trim_end().to_owned());
        }
    }
}

fn create() -> Mutation {
    Mutation::create("pool", &["pools"], &json!({"pool": {"name": "web"}}))
}

fn refused(result: &MutationResult) -> &MutationRefusal {
    match result {
        MutationResult::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_change_that_is_accepted() {
    let service =
        Service::start(&[CREATED, Reaction::Answer("202 Accepted", ""), Reaction::Answer("204 No Content", "")]).await;
    assert_eq!(service.send(&create()).await, MutationResult::Accepted(r#"{"pool":{"id":"1"}}"#.into()));
    let members = Mutation::update("members", &["pools", "1", "members"], &json!({"members": []}));
    assert_eq!(service.send(&members.with_query("additive_only", "true")).await, MutationResult::Accepted("".into()));
    let delete = Mutation::delete("load balancer", &["loadbalancers", "1"]).with_query("cascade", "true");
    assert_eq!(service.send(&delete).await, MutationResult::Accepted("".into()));
    assert_eq!(
        service.requests(),
        [
            r#"POST /v2/lbaas/pools HTTP/1.1 {"pool":{"name":"web"}}"#,
            r#"PUT /v2/lbaas/pools/1/members?additive_only=true HTTP/1.1 {"members":[]}"#,
            "DELETE /v2/lbaas/loadbalancers/1?cascade=true HTTP/1.1",
        ]
    );
    let calls = service.cloud.calls().by_labels();
    let labels: Vec<_> = calls.keys().map(|key| (key.service.as_str(), key.verb.as_str(), key.resource)).collect();
    let expected = [
        ("identity", "create", "token"),
        ("load-balancer", "create", "pool"),
        ("load-balancer", "update", "members"),
        ("load-balancer", "delete", "load balancer"),
    ];
    assert_eq!(labels, expected);
    assert_eq!(calls[&CallKind::Token.labels()].outcomes, [(CallOutcome::Ok, 4)].into());
    assert_eq!(calls[&create().labels(ServiceType::LoadBalancer)].outcomes, [(CallOutcome::Ok, 1)].into());
}

#[tokio::test]
async fn without_the_services_own_answer_nothing_is_known_or_repeated() {
    let page = "<html>no healthy upstream</html>";
    for (reaction, expected) in [
        (Reaction::Break, "cannot reach the server"),
        (Reaction::BreakInBody, "cannot reach the server"),
        (Reaction::Hang, "timed out"),
        (Reaction::Answer("502 Bad Gateway", page), "server error"),
        (Reaction::Answer("503 Service Unavailable", page), "server error"),
        (Reaction::Answer("504 Gateway Timeout", page), "server error"),
        (Reaction::Answer("500 Internal Server Error", page), "server error"),
        (Reaction::Answer("200 OK", page), "cannot read the answer"),
    ] {
        let service = Service::start(&[reaction, CREATED]).await;
        let result = service.send(&create().with_timeout(Duration::from_millis(400))).await;
        let MutationResult::Unknown(error) = result else { panic!("{expected}: {result:?}") };
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(service.requests().len(), 1, "{error}");
        assert_eq!(service.cloud.calls().retries(), 0, "{error}");
    }
}

/// The same on a connection that was used before, which the client may take for one that was closed while idle.
#[tokio::test]
async fn an_answer_that_is_lost_on_a_used_connection() {
    let service = Service::start(&[CREATED, Reaction::Break, CREATED]).await;
    assert!(matches!(service.send(&create()).await, MutationResult::Accepted(_)));
    let result = service.send(&create()).await;
    assert!(matches!(result, MutationResult::Unknown(Error::Unreachable { .. })), "{result:?}");
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn a_refusal_is_returned_and_not_waited_for() {
    let throttled = Reaction::With("429 Too Many Requests", "retry-after: 30", "slow down");
    for (reaction, complaint, wait) in [
        (Reaction::Answer("409 Conflict", IMMUTABLE), Complaint::Immutable, None),
        (Reaction::Answer("503 Service Unavailable", BUSY), Complaint::ProjectBusy, None),
        (Reaction::With("503 Service Unavailable", "retry-after: 30", BUSY), Complaint::ProjectBusy, Some(30)),
        (throttled, Complaint::Busy, Some(30)),
    ] {
        let service = Service::start(&[reaction, CREATED]).await;
        let result = tokio::time::timeout(Duration::from_secs(20), service.send(&create())).await.unwrap();
        let refusal = refused(&result);
        assert_eq!(refusal.complaint, Some(complaint), "{result:?}");
        assert_eq!(refusal.error.retry_after(), wait.map(Duration::from_secs), "{result:?}");
        assert_eq!(service.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once() {
    let denied = Reaction::Answer("401 Unauthorized", DENIED);
    let service = Service::start(&[denied, CREATED]).await;
    assert!(matches!(service.send(&create()).await, MutationResult::Accepted(_)));
    assert_eq!((service.requests().len(), service.cloud.calls().tokens_rejected()), (2, 1));

    let service = Service::start(&[denied, denied, CREATED]).await;
    let result = service.send(&create()).await;
    assert_eq!(refused(&result).status, 401, "{result:?}");
    assert_eq!(service.requests().len(), 2);
}

#[tokio::test]
async fn without_a_token_or_another_endpoint_nothing_is_sent() {
    let service = Service::start(&[CREATED]).await;
    let (session, endpoint) = service.session().await;
    let other = Service::start(&[CREATED]).await;
    let (_, elsewhere) = other.session().await;
    let result = session.mutate(&elsewhere, &create(), || true).await;
    assert!(matches!(not_sent(&result), NotSent::Failed(Error::Catalog { .. })), "{result:?}");
    let network = session.endpoint(ServiceType::Network).await.unwrap();
    assert!(network.to_string().ends_with("/v2.0"), "{network}");
    assert!(matches!(session.endpoint(ServiceType::KeyManager).await, Err(Error::Catalog { .. })));
    let outside = Mutation::delete("pool", &["pools", ".."]);
    not_sent(&session.mutate(&endpoint, &outside, || true).await);

    let keystone = service.keystone.url();
    drop(service.keystone);
    let cloud = Cloud::new(credentials(&keystone, &[]), options()).unwrap();
    let result = cloud.session(&TokenScope::Project("p1".into())).mutate(&endpoint, &create(), || true).await;
    assert!(matches!(not_sent(&result), NotSent::Failed(Error::Unreachable { .. })), "{result:?}");
    assert_eq!(service.requests.lock().unwrap().len(), 0);
}

/// The service is not there: other than a connection that breaks, this leaves no doubt.
#[tokio::test]
async fn without_a_connection_nothing_is_sent() {
    let keystone = FakeOpenStack::start().await.unwrap();
    keystone.set(|cloud| cloud.project("p1", "alpha"));
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap());
    let more = [("OS_LOAD_BALANCER_ENDPOINT_OVERRIDE", &*url)];
    let cloud = Cloud::connect(credentials(&keystone.url(), &more), options()).await.unwrap();
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let endpoint = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
    let result = session.mutate(&endpoint, &create(), || true).await;
    assert!(matches!(not_sent(&result), NotSent::Failed(Error::Unreachable { .. })), "{result:?}");
}

/// The caller's reason to change something ends while Keystone is slow to issue a token.
#[tokio::test]
async fn a_permit_that_ends_while_a_token_is_awaited() {
    for mutation in [create(), Mutation::delete("pool", &["pools", "1"])] {
        let service = Service::start(&[CREATED]).await;
        let (session, endpoint) = service.session().await;
        service.keystone.set(|cloud| cloud.revoke_tokens());
        let cloud = service.cloud.session(&TokenScope::Unscoped);
        cloud.roles_now().await.unwrap();
        let gate = Arc::new(Semaphore::new(0));
        service.keystone.forget_calls();
        service.keystone.fail(Fault::on("/auth/tokens").hold(&gate));
        drop(session);
        let session = service.cloud.session(&TokenScope::Project("p1".into()));
        let may = Arc::new(AtomicBool::new(true));
        let permit = may.clone();
        let (result, ()) = tokio::join!(session.mutate(&endpoint, &mutation, move || permit.load(SeqCst)), async {
            let asked = || match service.keystone.count("POST /v3/auth/tokens") {
                0 => Err("no token is requested"),
                _ => Ok(()),
            };
            eventually("a token is requested", Duration::from_secs(5), async || asked()).await.unwrap();
            may.store(false, SeqCst);
            gate.add_permits(100);
        });
        assert_eq!(not_sent(&result), &NotSent::NotPermitted);
        assert_eq!(service.requests(), [""; 0]);
        assert!(service.cloud.calls().by_labels().keys().all(|labels| labels.service == ServiceType::Identity));
    }
}

/// The service refuses the token, and the permit ends before it could be sent with another one.
#[tokio::test]
async fn a_permit_is_asked_again_after_a_401() {
    let service = Service::start(&[Reaction::Answer("401 Unauthorized", DENIED), CREATED]).await;
    let (session, endpoint) = service.session().await;
    let seen = service.requests.clone();
    let result = session.mutate(&endpoint, &create(), move || seen.lock().unwrap().is_empty()).await;
    assert_eq!(not_sent(&result), &NotSent::NotPermitted);
    assert_eq!(service.requests().len(), 1);
}

/// Also over a connection that was used before, and the client goes on to work.
#[tokio::test]
async fn a_change_without_a_permit_leaves_nothing_behind() {
    let service = Service::start(&[CREATED, CREATED, CREATED]).await;
    let (session, endpoint) = service.session().await;
    for mutation in [create(), Mutation::delete("pool", &["pools", "1"])] {
        assert!(matches!(session.mutate(&endpoint, &create(), || true).await, MutationResult::Accepted(_)));
        let result = session.mutate(&endpoint, &mutation, || false).await;
        assert_eq!(not_sent(&result), &NotSent::NotPermitted);
    }
    assert!(matches!(session.mutate(&endpoint, &create(), || true).await, MutationResult::Accepted(_)));
    assert_eq!(service.requests().len(), 3, "{:?}", service.requests());
}
