//! What the cloud answers, and what that means.

use gimbal_testkit::fake_openstack::FakeOpenStack;

use super::*;

/// Connects to a scripted cloud.
pub(crate) fn connected(fake: &FakeOpenStack) -> CloudAccess {
    let url = fake.url();
    let all = [("OS_AUTH_URL", url.as_str()), ("OS_USERNAME", "fake"), ("OS_PASSWORD", "fake-secret")];
    let find = |name: &str| all.iter().find(|(key, _)| *key == name).map(|pair| pair.1.to_owned());
    CloudAccess::new(CloudCredentials::from_env(find).unwrap(), ClientOptions::default()).unwrap()
}

fn refused(status: u16, complaint: Option<Complaint>, error: Error) -> ServiceRefusal {
    match answer_of(MutationResult::Refused(MutationRefusal { error, status, complaint })) {
        CallAnswer::Changed(ChangeOutcome::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// What it does not show must not be taken for gone.
#[tokio::test]
async fn a_catalog_without_neutron_says_nothing_where_a_policy_names_a_network() {
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| cloud.project("p1", "alpha"));
    let read = |service, resource, path: &str, key| {
        CloudCall::Read(CloudRead {
            service,
            resource,
            path: path.to_owned(),
            query: Vec::new(),
            key,
            list: true,
            is_long: false,
        })
    };
    let (ports, balancers) = (
        read(ApiService::Neutron, "port", "ports", "ports"),
        read(ApiService::Octavia, "loadbalancer", "loadbalancers", "loadbalancers"),
    );
    let create = || ServiceCall {
        service: ApiService::Neutron,
        verb: ApiVerb::Create,
        resource: "floatingip",
        path: "floatingips".to_owned(),
        query: None,
        body: serde_json::json!({"floatingip": {}}),
        payload: None,
        revision: None,
    };
    let cloud = connected(&fake);
    assert_eq!(cloud.call("p1", &ports, || true).await, CallAnswer::Rows(Vec::new()));
    let answer = cloud.change("p1", &create(), || true).await;
    assert!(
        matches!(answer, CallAnswer::Changed(ChangeOutcome::Refused(ServiceRefusal::Unsupported(_)))),
        "{answer:?}"
    );
    cloud.need_network();
    let CallAnswer::ReadFailed { words, .. } = cloud.call("p1", &ports, || true).await else { panic!("it is read") };
    assert_eq!(words, "OpenStack's catalog lacks the service, or has it elsewhere");
    let answer = cloud.change("p1", &create(), || true).await;
    assert!(matches!(answer, CallAnswer::Unsendable { .. }), "{answer:?}");
    // Load balancers are there all the same.
    assert_eq!(cloud.call("p1", &balancers, || true).await, CallAnswer::Rows(Vec::new()));
}

/// The pool went between two reads. What is missing at the top is another thing: the address of the service is wrong.
#[tokio::test]
async fn members_of_a_pool_that_is_gone_are_no_outage() {
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| cloud.project("p1", "alpha"));
    let cloud = connected(&fake);
    for (path, is_outage) in [("pools/gone/members", false), ("nothing-such", true)] {
        let read = CloudRead {
            service: ApiService::Octavia,
            resource: "member",
            path: path.to_owned(),
            query: Vec::new(),
            key: "members",
            list: true,
            is_long: false,
        };
        let answer = cloud.call("p1", &CloudCall::Read(read), || true).await;
        let CallAnswer::ReadFailed { words, .. } = &answer else { panic!("{path}: {answer:?}") };
        // Tenants of the cluster see these words.
        assert!(words.starts_with("OpenStack answers 404") && !words.contains("://"), "{path}: {words}");
        let over = cloud.0.outages.lock().unwrap().called("p1", "member", true, Instant::now());
        assert_eq!(over.is_some(), is_outage, "{path}");
    }
}

#[test]
fn what_came_of_a_change() {
    let message = || "words".to_owned();
    let unknown = || Error::Timeout { message: message() };
    let at = |answer: &str| format!("POST http://a/v2.0/ports: {answer}");
    let not_known = |words: &str| CallAnswer::Changed(ChangeOutcome::Unknown(words.to_owned()));
    for (result, expected) in [
        (MutationResult::Accepted(Default::default()), CallAnswer::Changed(ChangeOutcome::Accepted(Value::Null))),
        (
            MutationResult::Accepted("{\"pool\":1}".into()),
            CallAnswer::Changed(ChangeOutcome::Accepted(serde_json::json!({"pool": 1}))),
        ),
        (MutationResult::NotSent(NotSent::NotPermitted), CallAnswer::NotSent),
        (
            MutationResult::NotSent(NotSent::Failed(unknown())),
            CallAnswer::Unsendable { words: "OpenStack cannot be reached".to_owned() },
        ),
        (MutationResult::Unknown(unknown()), not_known("OpenStack did not answer")),
        (
            MutationResult::Unknown(Error::Forbidden { message: at("403 Forbidden") }),
            not_known("the answer \"403 Forbidden\" does not tell whether it was done"),
        ),
        (
            MutationResult::Unknown(Error::Server {
                message: at("500 cannot connect to http://10.0.0.5:9696"),
                status: 500,
                retry_after: None,
            }),
            not_known("the answer \"500\" does not tell whether it was done"),
        ),
        (
            MutationResult::Unknown(Error::Refused {
                message: at("302 Found (redirects, to http://b, are not followed)"),
            }),
            not_known("the answer \"302\" does not tell whether it was done"),
        ),
        (
            MutationResult::ProviderFailed(unknown()),
            CallAnswer::Changed(ChangeOutcome::Refused(ServiceRefusal::ProviderFailed)),
        ),
    ] {
        assert_eq!(answer_of(result), expected);
    }
}

#[test]
fn what_a_refusal_means() {
    let error = || Error::Refused { message: "POST http://10.0.0.1:9696/v2.0/ports: 403 words: no".to_owned() };
    let text = || "403 words: no".to_owned();
    for (status, complaint, expected) in [
        (409, Some(Complaint::Immutable), ServiceRefusal::Pending),
        (409, Some(Complaint::InvalidState), ServiceRefusal::Pending),
        (409, Some(Complaint::Duplicate), ServiceRefusal::Duplicate),
        (409, Some(Complaint::PoolInUseByPolicy), ServiceRefusal::InUse),
        (409, None, ServiceRefusal::Changed(text())),
        (409, Some(Complaint::Exhausted { words: "no".into() }), ServiceRefusal::Exhausted("no".into())),
        (404, Some(Complaint::Unreachable { words: "no".into() }), ServiceRefusal::Unreachable("no".into())),
        (
            403,
            Some(Complaint::Quota { resource: "Load Balancer".into() }),
            ServiceRefusal::Quota("Load Balancer".into()),
        ),
        (403, None, ServiceRefusal::Forbidden(text())),
        (404, None, ServiceRefusal::NotFound(text())),
        (412, Some(Complaint::PreconditionFailed), ServiceRefusal::Changed(String::new())),
        (400, Some(Complaint::Validation { detail: "no".into() }), ServiceRefusal::Invalid("no".into())),
        (501, Some(Complaint::Unsupported { what: "no".into() }), ServiceRefusal::Unsupported("no".into())),
        (503, Some(Complaint::Busy), ServiceRefusal::Busy(None)),
        (418, None, ServiceRefusal::Invalid(text())),
    ] {
        assert_eq!(refused(status, complaint, error()), expected, "{status}");
    }
    let later = Error::RateLimited { message: "m".into(), retry_after: Some(Duration::from_secs(7)) };
    assert_eq!(refused(429, Some(Complaint::Busy), later), ServiceRefusal::Busy(Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn a_pause_that_is_asked_for_is_not_waited_for() {
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| cloud.project("p1", "shop"));
    fake.fail(gimbal_testkit::fake_openstack::Fault::on("/loadbalancers").retry_after("1"));
    let (service, resource, key) = (ApiService::Octavia, "loadbalancer", "loadbalancers");
    let read =
        CloudRead { service, resource, path: key.to_owned(), query: Vec::new(), key, list: true, is_long: false };
    let answer = connected(&fake).call("p1", &CloudCall::Read(read), || true).await;
    let CallAnswer::ReadFailed { retry_after, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((retry_after, fake.count("GET /v2/lbaas/loadbalancers")), (Some(Duration::from_secs(1)), 1));
}
