use gimbal_testkit::ScriptedCluster;
use serde_json::{Value, json};

use super::*;

#[test]
fn what_a_webhook_says_is_about_one_write_whatever_its_code_is() {
    let words = "admission webhook \"quota.example.org\" denied the request: not now";
    let message = || words.to_owned();
    for error in [
        ApiError::Conflict { message: message() },
        ApiError::AlreadyExists { message: message() },
        ApiError::NotFound { message: message(), namespace: false },
        ApiError::Forbidden { message: message() },
        ApiError::Invalid { message: message(), status: Some(422) },
        ApiError::Server { message: message(), status: 500, retry_after: None },
    ] {
        assert_eq!(outcome(Err(error)), WriteOutcome::Refused(words.to_owned()));
    }
    let words_of_policy = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    let forbidden = ApiError::Forbidden { message: format!("services \"a\" is forbidden: {words_of_policy}") };
    assert_eq!(outcome(Err(forbidden)), WriteOutcome::Refused(words_of_policy.to_owned()));
    let throttled = |message: &str| ApiError::Throttled { message: message.to_owned(), retry_after: None };
    for (message, all) in [(words, false), ("too many requests", true)] {
        assert_eq!(asks_all_to_wait(&throttled(message)), all, "{message}");
        assert_eq!(outcome(Err(throttled(message))), WriteOutcome::Throttled(None));
    }
    let conflict = ApiError::Conflict { message: "the object has been modified".to_owned() };
    assert_eq!(outcome(Err(conflict)), WriteOutcome::Conflict);
}

fn status(code: u16, reason: &str, message: &str, details: &Value) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    });
    (code, status)
}

/// A finalizer that is set on a Service.
fn finalizer() -> ClusterWrite {
    let meta = Meta { name: "web".into(), namespace: "shop".into(), ..Meta::default() };
    let object = ClusterObject { namespace: "shop".into(), name: "web".into(), kind: KuryrKind::Service };
    let change = json!({"metadata": {"finalizers": ["kuryr.openstack.org/service-finalizer"]}});
    ClusterWrite { object, body: WriteBody::Patch { meta, change }, purpose: "set the finalizer" }
}

/// From the answer of an API server to what the core learns of it.
#[tokio::test]
async fn each_answer_to_a_finalizer_becomes_an_outcome() {
    let server = ScriptedCluster::start().await.unwrap();
    let metrics = ControllerMetrics::register(&mut prometheus_client::registry::Registry::default());
    let refused = |words: &str| WriteOutcome::Refused(words.to_owned());
    let none = json!({});
    let webhook = "admission webhook \"quota.example.org\" denied the request: not now";
    let no_new = "Service \"web\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object \
                  is being deleted";
    let unreachable = "Internal error occurred: failed calling webhook \"quota.example.org\": no endpoints available";
    let seconds = |seconds: u64| std::time::Duration::from_secs(seconds);
    let name = json!({"name": "web", "kind": "services"});
    for ((code, body), expected, all_wait) in [
        (status(409, "Conflict", "the object has been modified", &name), WriteOutcome::Conflict, false),
        // It would be tried again at once, for ever.
        (status(409, "Conflict", webhook, &none), refused(webhook), false),
        (status(422, "Invalid", webhook, &none), refused(webhook), false),
        (status(400, "BadRequest", webhook, &none), refused(webhook), false),
        (status(404, "NotFound", webhook, &name), refused(webhook), false),
        (
            status(429, "TooManyRequests", "too many requests", &json!({"retryAfterSeconds": 7})),
            WriteOutcome::Throttled(Some(seconds(7))),
            true,
        ),
        // One webhook makes no other write wait.
        (
            status(429, "TooManyRequests", webhook, &json!({"retryAfterSeconds": 3})),
            WriteOutcome::Throttled(Some(seconds(3))),
            false,
        ),
        (status(422, "Invalid", no_new, &name), refused(no_new), false),
        (
            status(422, "Invalid", "m", &json!({"name": "web", "causes": [{"field": "metadata.uid"}]})),
            WriteOutcome::Conflict,
            false,
        ),
        (status(404, "NotFound", "services \"web\" not found", &name), WriteOutcome::NotFound, false),
        // Not the object is missing, but the kind.
        (
            status(404, "NotFound", "the server could not find the requested resource", &none),
            refused("the API server does not serve objects of this kind"),
            false,
        ),
        (
            status(403, "Forbidden", "User \"secret\" cannot patch resource \"services\"", &name),
            refused(
                "forbidden: the API server says that a right is missing, or that a quota or an admission rule is against it",
            ),
            false,
        ),
        // Whether it was carried out is not known.
        (status(500, "InternalError", unreachable, &none), WriteOutcome::Unknown(unreachable.to_owned()), false),
        (status(503, "ServiceUnavailable", "m", &none), WriteOutcome::Unknown("m".to_owned()), false),
    ] {
        server.answer(code, &body);
        let ended = carry_out(server.cluster.clone(), finalizer(), metrics.clone()).await;
        assert_eq!((ended.outcome, ended.asks_all_to_wait), (expected, all_wait), "{body}");
        assert_eq!(ended.object, finalizer().object);
        assert_eq!(server.requests(), ["patch /api/v1/namespaces/shop/services/web"], "each write is one call");
    }

    let found =
        json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop", "uid": "u1"}});
    server.answer(200, &found);
    let ended = carry_out(server.cluster.clone(), finalizer(), metrics.clone()).await;
    assert!(
        matches!(ended.outcome, WriteOutcome::Done(WrittenObject::Service(one)) if &*one.metadata.meta.uid == "u1")
    );
    server.answer(200, &json!("no object"));
    let ended = carry_out(server.cluster.clone(), finalizer(), metrics.clone()).await;
    assert!(matches!(ended.outcome, WriteOutcome::Unknown(_)), "{:?}", ended.outcome);

    // A process that does not lead sends nothing.
    drop(server.requests());
    let ended = carry_out(server.cluster.clone().only_while(|| false), finalizer(), metrics).await;
    assert_eq!((ended.outcome, server.requests().len()), (WriteOutcome::NotSent, 0));
}

/// The name is taken, by one that the watch shows soon.
#[tokio::test]
async fn what_was_made_already_is_a_conflict_and_no_refusal() {
    let server = ScriptedCluster::start().await.unwrap();
    let metrics = ControllerMetrics::register(&mut prometheus_client::registry::Registry::default());
    let meta = Meta { name: "web".into(), namespace: "shop".into(), ..Meta::default() };
    let mut new = KuryrLoadBalancer::default();
    new.metadata.meta = meta.clone();
    let object = ClusterObject { namespace: "shop".into(), name: "web".into(), kind: KuryrKind::LoadBalancer };
    let create = || ClusterWrite {
        object: object.clone(),
        body: WriteBody::Create(NewObject::LoadBalancer(Box::new(new.clone()))),
        purpose: "create it",
    };
    let balancers = "/apis/openstack.org/v1/namespaces/shop/kuryrloadbalancers";
    let gone = "its namespace is not there";
    for ((code, body), expected) in [
        (status(409, "AlreadyExists", "m", &json!({"name": "web"})), WriteOutcome::Conflict),
        (
            status(404, "NotFound", "m", &json!({"name": "shop", "kind": "namespaces"})),
            WriteOutcome::Refused(gone.into()),
        ),
    ] {
        server.answer(code, &body);
        let ended = carry_out(server.cluster.clone(), create(), metrics.clone()).await;
        assert_eq!((ended.outcome, server.requests()), (expected, vec![format!("post {balancers}")]), "{body}");
    }

    let body = WriteBody::Delete { meta };
    let (code, missing) = status(404, "NotFound", "m", &json!({"name": "web", "kind": "kuryrloadbalancers"}));
    for ((code, answer), expected) in [
        ((200, json!({"kind": "Status", "status": "Success"})), WriteOutcome::Done(WrittenObject::Deleted)),
        ((code, missing), WriteOutcome::NotFound),
    ] {
        server.answer(code, &answer);
        let write = ClusterWrite { object: object.clone(), body: body.clone(), purpose: "delete it" };
        let ended = carry_out(server.cluster.clone(), write, metrics.clone()).await;
        assert_eq!((ended.outcome, server.requests()), (expected, vec![format!("delete {balancers}/web")]), "{answer}");
    }
}
