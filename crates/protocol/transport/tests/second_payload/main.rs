//! A server of another payload: load balancers of a cluster, over TLS, with a session's two ends.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // A panic is the report.

mod cloud;
#[path = "../transport/common/mod.rs"]
mod common;
mod controller;
mod services;

use cloud::{Server, facts};
use common::{Pki, SOON};
use controller::{Controller, key, wanted};
use futures::StreamExt as _;
use gimbal_kuryr_model::{DesiredEntry, Phase};
use gimbal_kuryr_wire::pb;
use gimbal_transport::{Code, Peer, Serving};
use pb::admin_service_client::AdminServiceClient;
use pb::inspection_service_client::InspectionServiceClient;
use services::{ADMIN, CLUSTER};
use tonic::Request;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[tokio::test]
async fn a_cluster_is_served_from_its_first_snapshot_to_its_last_finalizer() {
    let pki = Pki::new();
    let server = Server::start(&pki.issue(&["localhost"])).await;
    let mut controller = Controller::open(server.dial(pki.client(&[CLUSTER])).await.unwrap()).await;
    // A snapshot.
    controller.set("web", Some(wanted("web", 1, 3)));
    controller.set("db", Some(wanted("db", 1, 1)));
    controller.until("facts and two reports", |c| c.end.facts().is_some() && c.reports.len() == 2).await;
    assert_eq!(controller.end.facts(), Some(&facts("first")));
    assert_eq!(controller.reports, [(key("db"), Phase::Ready, 1), (key("web"), Phase::Ready, 1)]);
    assert_eq!(server.cloud.held(), [(key("db"), wanted("db", 1, 1)), (key("web"), wanted("web", 1, 3))]);
    assert!(server.cloud.state.lock().unwrap().peers[0].has_san(CLUSTER));
    // Changes.
    controller.set("web", Some(wanted("web", 2, 200)));
    controller.set("db", Some(DesiredEntry::Deleting { owner: "uid-db".into() }));
    controller.until("reports of the changes", |c| c.reports.len() == 4).await;
    assert!(controller.reports[2..].contains(&(key("db"), Phase::Gone, 0)), "{:?}", controller.reports);
    controller.set("db", None);
    controller.until("the acknowledgement", |c| c.end.pending() == 0).await;
    assert_eq!(server.cloud.held(), [(key("web"), wanted("web", 2, 200))]);
    // Facts, as soon as they change.
    server.cloud.set_facts("second");
    controller.until("new facts", |c| c.end.facts() == Some(&facts("second"))).await;
    let mut done = server.cloud.state.lock().unwrap().done.clone();
    done.sort();
    assert_eq!(done, [key("db"), key("db"), key("web"), key("web")]);
    // A reconnect: no entry travels, everything is reported again.
    (controller.data_frames, controller.reports) = (0, Vec::new());
    controller.reopen(server.dial(pki.client(&[CLUSTER])).await.unwrap()).await;
    controller.until("the report", |c| c.reports.len() == 1).await;
    assert_eq!((controller.data_frames, &*controller.reports), (0, [(key("web"), Phase::Ready, 2)].as_slice()));
    server.shutdown.cancel();
    drop(controller);
    tokio::time::timeout(SOON, server.task).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_opens_nothing_and_one_that_is_denied_ends() {
    let pki = Pki::new();
    let server = Server::start(&pki.issue(&["localhost"])).await;
    let stranger = Pki::named("another CA");
    let mut files = stranger.issue(&[CLUSTER]);
    files.ca = pki.ca();
    let error = server.dial(gimbal_transport::client_tls(&files).unwrap()).await.map(drop).unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert!(server.cloud.state.lock().unwrap().peers.is_empty());

    let mut controller = Controller::open(server.dial(pki.client(&[CLUSTER])).await.unwrap()).await;
    controller.until("facts", |c| c.end.facts().is_some()).await;
    let Peer::Certificate(peer) = server.cloud.state.lock().unwrap().peers[0].clone() else { panic!() };
    let form = format!("sha256:{}", peer.fingerprint_sha256);
    server.deny.send_replace([form.parse().unwrap()].into_iter().collect());
    controller.end_of_stream().await;
    assert!(server.dial(pki.client(&[CLUSTER])).await.is_ok(), "another certificate of the cluster");
}

#[tokio::test]
async fn inspection_and_decisions_are_admitted_like_those_of_discovery() {
    let pki = Pki::new();
    let server = Server::start(&pki.issue(&["localhost"])).await;
    let clusters = async |name: &str| {
        let channel = server.dial(pki.client(&[name])).await.unwrap();
        let answer = InspectionServiceClient::new(channel).list_clusters(pb::ListClustersRequest {}).await;
        let clusters = answer.map_err(|status| status.code())?.into_inner().clusters;
        Ok::<_, Code>(clusters.into_iter().map(|cluster| cluster.name).collect::<Vec<_>>())
    };
    assert_eq!(clusters(CLUSTER).await, Ok(vec!["prod1".into()]));
    assert_eq!(clusters(ADMIN).await, Ok(vec!["prod1".into(), "prod2".into()]));
    assert_eq!(clusters("spiffe://test/stranger").await, Err(Code::PermissionDenied));
    let adopt = async |name: &str| {
        let channel = server.dial(pki.client(&[name])).await.unwrap();
        let request = pb::AdoptRequest { load_balancer_id: "cafe".into(), dry_run: true, ..Default::default() };
        let answer = AdminServiceClient::new(channel).adopt(request).await;
        answer.map(|answer| answer.into_inner().changes[0].id.clone()).map_err(|status| status.code())
    };
    assert_eq!(adopt(ADMIN).await, Ok("cafe".into()));
    assert_eq!(adopt(CLUSTER).await, Err(Code::PermissionDenied));
    let channel = server.dial(pki.client(&[CLUSTER])).await.unwrap();
    let mut watching = InspectionServiceClient::new(channel.clone());
    let foreign = watching.watch(pb::WatchRequest { cluster: "prod2".into(), ..Default::default() }).await;
    assert_eq!(foreign.map(drop).map_err(|status| status.code()), Err(Code::PermissionDenied));
    let mut events = watching.watch(pb::WatchRequest::default()).await.unwrap().into_inner();
    let event = events.message().await.unwrap().unwrap().event;
    assert!(matches!(event, Some(pb::watch_response::Event::Gone(gone)) if gone.cluster == "prod1"));
    server.shutdown.cancel();
    assert!(events.message().await.unwrap().is_none(), "ended, not cut");
}

#[tokio::test]
async fn tools_find_the_services_by_reflection_and_their_health_by_name() {
    let pki = Pki::new();
    let server = Server::start(&pki.issue(&["localhost"])).await;
    let channel = server.dial(pki.client(&[ADMIN])).await.unwrap();
    let mut client = ServerReflectionClient::new(channel.clone());
    let ask = |message_request| ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
    let requests = futures::stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("gimbal.kuryr.v1.AdminService".into())),
        ask(MessageRequest::FileByFilename("gimbal/discovery/v1/discovery.proto".into())),
    ]);
    let answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let answers: Vec<_> = tokio::time::timeout(SOON, answers.collect()).await.unwrap();
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().message_response.unwrap()).collect();
    let MessageResponse::ListServicesResponse(list) = &answers[0] else { panic!() };
    let mut names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    let own = ["gimbal.kuryr.v1.AdminService", "gimbal.kuryr.v1.DesiredState", "gimbal.kuryr.v1.InspectionService"];
    assert_eq!(names[..3], own);
    assert_eq!(names[3], "grpc.health.v1.Health");
    for described in &answers[1..] {
        assert!(matches!(described, MessageResponse::FileDescriptorResponse(_)), "{described:?}");
    }
    let health = async |service: &str| {
        let request = tonic_health::pb::HealthCheckRequest { service: service.into() };
        HealthClient::new(channel.clone()).check(request).await.unwrap().into_inner().status()
    };
    for service in own {
        assert_eq!(health(service).await, ServingStatus::Serving, "{service}");
    }
    let mut watched = HealthClient::new(channel.clone());
    let request = tonic_health::pb::HealthCheckRequest { service: own[1].into() };
    let mut states = watched.watch(request).await.unwrap().into_inner();
    assert_eq!(states.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.serving.send_replace(Serving { ready: true, leading: false });
    assert_eq!(states.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(health(own[2]).await, ServingStatus::Serving, "inspection is for all");
}

#[tokio::test]
async fn a_method_that_the_service_does_not_have_is_unimplemented() {
    let pki = Pki::new();
    let server = Server::start(&pki.issue(&["localhost"])).await;
    let mut client = tonic::client::Grpc::new(server.dial(pki.client(&[CLUSTER])).await.unwrap());
    client.ready().await.unwrap();
    let codec = gimbal_wire::TolerantCodec::<pb::SyncRequest, pb::SyncResponse>::default();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/gimbal.kuryr.v1.DesiredState/Other");
    let status = client.unary(Request::new(pb::SyncRequest::default()), path, codec).await.map(drop).unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    assert!(server.cloud.state.lock().unwrap().peers.is_empty());
}
