//! Access to inspection, and what tools find through reflection.

use crate::common::{Pki, SOON, Server};
use futures::StreamExt as _;
use gimbal_transport::{Channel, Code, pb};
use pb::admin_service_client::AdminServiceClient;
use pb::inspection_service_client::InspectionServiceClient;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1alpha;

const OWN: &str = "gimbal.discovery.v1.";

async fn as_(server: &Server, pki: &Pki, name: &str) -> Channel {
    server.dial(Some(pki.client(&[name]))).await.unwrap()
}

async fn backends(channel: &Channel) -> Result<Vec<String>, Code> {
    let answer = InspectionServiceClient::new(channel.clone()).list_backends(pb::ListBackendsRequest {}).await;
    let backends = answer.map_err(|status| status.code())?.into_inner().backends;
    Ok(backends.into_iter().map(|backend| backend.name).collect())
}

async fn services(channel: &Channel, backend: &str) -> Result<String, Code> {
    let request = pb::ListServicesRequest { backend: backend.into(), ..Default::default() };
    let answer = InspectionServiceClient::new(channel.clone()).list_services(request).await;
    answer.map(|answer| answer.into_inner().services[0].backend.clone()).map_err(|status| status.code())
}

async fn watched(channel: &Channel, backend: &str) -> Result<String, Code> {
    let request = pb::WatchRequest { backend: backend.into(), ..Default::default() };
    let answer = InspectionServiceClient::new(channel.clone()).watch(request).await;
    let event = answer.map_err(|status| status.code())?.into_inner().message().await.unwrap().unwrap().event;
    let Some(pb::watch_response::Event::Gone(gone)) = event else { panic!("{event:?}") };
    Ok(gone.backend)
}

async fn explained(channel: &Channel, backend: &str) -> Result<(), Code> {
    let object = pb::explain_request::Object::Source(pb::SourceRef { backend: backend.into(), key: None });
    let request = pb::ExplainRequest { object: Some(object), ..Default::default() };
    let answer = InspectionServiceClient::new(channel.clone()).explain(request).await;
    answer.map(drop).map_err(|status| status.code())
}

async fn approve(channel: &Channel) -> Result<u64, Code> {
    let answer = AdminServiceClient::new(channel.clone()).approve(pb::ApproveRequest::default()).await;
    answer.map(|answer| answer.into_inner().services_released).map_err(|status| status.code())
}

async fn confirm(channel: &Channel) -> Result<String, Code> {
    let request = pb::ConfirmIncarnationRequest::default();
    let answer = AdminServiceClient::new(channel.clone()).confirm_incarnation(request).await;
    answer.map(|answer| answer.into_inner().previous).map_err(|status| status.code())
}

#[tokio::test]
async fn a_backend_sees_itself_an_admin_everything_a_stranger_nothing() {
    let pki = Pki::new();
    let server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    let denied = Code::PermissionDenied;

    let backend = as_(&server, &pki, "spiffe://test/backend/node02").await;
    assert_eq!(backends(&backend).await, Ok(vec!["node02".into()]));
    for own in ["", "node02"] {
        assert_eq!(services(&backend, own).await, Ok("node02".into()), "every backend is the own one");
        assert_eq!(watched(&backend, own).await, Ok("node02".into()));
        assert_eq!(explained(&backend, own).await, Ok(()));
    }
    assert_eq!(services(&backend, "node01").await, Err(denied));
    assert_eq!(watched(&backend, "node01").await, Err(denied));
    assert_eq!(explained(&backend, "node01").await, Err(denied));
    assert_eq!(approve(&backend).await, Err(denied));
    assert_eq!(confirm(&backend).await, Err(denied));

    let admin = as_(&server, &pki, "spiffe://test/admin").await;
    assert_eq!(backends(&admin).await, Ok(vec!["node01".into(), "node02".into()]));
    assert_eq!(services(&admin, "").await, Ok(String::new()));
    assert_eq!(services(&admin, "node01").await, Ok("node01".into()));
    assert_eq!(approve(&admin).await, Ok(3));
    assert_eq!(confirm(&admin).await, Ok("before".into()));

    let stranger = as_(&server, &pki, "spiffe://test/stranger").await;
    assert_eq!(backends(&stranger).await, Err(denied));
    assert_eq!(services(&stranger, "").await, Err(denied));
    assert_eq!(watched(&stranger, "").await, Err(denied));
    assert_eq!(explained(&stranger, "").await, Err(denied));
    assert_eq!(approve(&stranger).await, Err(denied));
}

#[tokio::test]
async fn who_asks_is_told_who_it_is_and_a_stranger_nothing() {
    let pki = Pki::new();
    let server = Server::start(Some(&pki.issue(&["localhost"]))).await;
    for (name, only, rights) in
        [("spiffe://test/admin", "", Some(pb::Rights::default())), ("spiffe://test/backend/node02", "node02", None)]
    {
        let mut client = InspectionServiceClient::new(as_(&server, &pki, name).await);
        let before = gimbal_transport::clock_ms();
        let sent = client.get_server(pb::GetServerRequest {}).await.unwrap().into_inner().server.unwrap();
        assert!((before..=gimbal_transport::clock_ms()).contains(&sent.clock_ms), "{sent:?}");
        let caller = pb::Caller { names: vec![name.into()], only: only.into() };
        assert_eq!((sent.version.as_str(), sent.caller, sent.rights), ("test/1.2.3", Some(caller), rights));
    }
    let mut stranger = InspectionServiceClient::new(as_(&server, &pki, "spiffe://test/stranger").await);
    assert_eq!(stranger.get_server(pb::GetServerRequest {}).await.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn pages_of_any_size_show_each_service_once() {
    let server = Server::start(None).await;
    let mut client = InspectionServiceClient::new(server.dial(None).await.unwrap());
    let all: Vec<String> = (0..crate::common::MANY).filter(|n| n % 7 != 0).map(|n| format!("s{n:04}")).collect();
    let request = pb::ListServicesRequest { backend: "node02".into(), namespace: "many".into(), ..Default::default() };
    for (page_size, pages) in [(0, 18), (1, all.len()), (100, 19), (857, 18), (i32::MAX, 18)] {
        let (mut seen, mut count, mut page_token) = (Vec::new(), 0, String::new());
        loop {
            let request = pb::ListServicesRequest { page_size, page_token, ..request.clone() };
            let page = client.list_services(request).await.unwrap().into_inner();
            let (bytes, services) = (gimbal_wire::encoded_len(&page), page.services.len());
            // A Service that is larger than a page has a page of its own.
            assert!(bytes <= 128 << 10 || services == 1, "a page of {bytes} bytes and {services} Services");
            assert!(page_size == 0 || page.services.len() <= usize::try_from(page_size).unwrap());
            seen.extend(page.services.into_iter().map(|service| service.source.unwrap().name));
            count += 1;
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, all, "pages of {page_size}");
        assert_eq!(count, pages, "pages of {page_size}");
    }
    for (page_size, page_token) in [(-1, ""), (0, "node02"), (0, "node02/many"), (0, "NODE/many/x"), (0, "a/b/c/d")] {
        let request = pb::ListServicesRequest { page_size, page_token: page_token.into(), ..request.clone() };
        let refused = client.list_services(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{page_size} {page_token:?}: {refused}");
    }
}

#[tokio::test]
async fn loopback_may_do_both() {
    let server = Server::start(None).await;
    let channel = server.dial(None).await.unwrap();
    assert_eq!(backends(&channel).await, Ok(vec!["node01".into(), "node02".into()]));
    assert_eq!(approve(&channel).await, Ok(3));
}

#[tokio::test]
async fn watches_end_at_shutdown() {
    let server = Server::start(None).await;
    let channel = server.dial(None).await.unwrap();
    let mut events =
        InspectionServiceClient::new(channel).watch(pb::WatchRequest::default()).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().is_some());
    let begun = std::time::Instant::now();
    server.shutdown.cancel();
    assert!(events.message().await.unwrap().is_none(), "ended, not cut");
    server.task.await.unwrap().unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "nothing had to be waited for");
}

#[tokio::test]
async fn every_service_is_healthy_by_name() {
    let server = Server::start(None).await;
    let mut health = HealthClient::new(server.dial(None).await.unwrap());
    let services = ["DiscoveryService", "InspectionService", "AdminService"].map(|name| format!("{OWN}{name}"));
    for service in services.into_iter().chain([String::new(), "grpc.health.v1.Health".into()]) {
        let request = tonic_health::pb::HealthCheckRequest { service: service.clone() };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, ServingStatus::Serving, "{service}");
    }
}

#[tokio::test]
async fn reflection_lists_what_is_served_and_describes_it() {
    let server = Server::start(None).await;
    let mut client = ServerReflectionClient::new(server.dial(None).await.unwrap());
    let ask = |message_request| ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
    let requests = futures::stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(format!("{OWN}InspectionService"))),
    ]);
    let answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let answers: Vec<_> = tokio::time::timeout(SOON, answers.collect()).await.unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = &answers[0].as_ref().unwrap().message_response else {
        panic!()
    };
    let mut names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "gimbal.discovery.v1.AdminService",
            "gimbal.discovery.v1.DiscoveryService",
            "gimbal.discovery.v1.InspectionService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
    );
    let described = &answers[1].as_ref().unwrap().message_response;
    assert!(matches!(described, Some(MessageResponse::FileDescriptorResponse(_))), "{described:?}");
}

#[tokio::test]
async fn older_tools_use_the_older_reflection() {
    use v1alpha::server_reflection_client::ServerReflectionClient;
    use v1alpha::server_reflection_request::MessageRequest;
    let server = Server::start(None).await;
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(server.dial(None).await.unwrap());
    let mut answers = client.server_reflection_info(futures::stream::iter([request])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(list)) = answer else {
        panic!()
    };
    assert_eq!(list.service.len(), 6);
}
