//! Responses that the client does not read.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use gimbal_transport::{Inspection, Part, Peer, Place, ServeOptions, ServedServices, Status, Viewer, pb, serve};
use pb::inspection_service_client::InspectionServiceClient;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

const SOON: Duration = Duration::from_secs(10);

/// Counts the calls, and returns long responses.
struct Talker(watch::Sender<usize>);

#[tonic::async_trait]
impl Inspection for Talker {
    fn viewer(&self, _: &Peer) -> Result<Viewer, Status> {
        Ok(Viewer::All)
    }

    async fn list_backends(&self, _: &Viewer) -> Result<Vec<pb::Backend>, Status> {
        self.0.send_modify(|asked| *asked += 1);
        Ok(vec![pb::Backend { name: "x".repeat(500_000), ..Default::default() }])
    }

    async fn list_services(&self, _: &Viewer, _: &pb::ListServicesRequest, _: Option<&Place>) -> Result<Part, Status> {
        Err(Status::unimplemented("not asked"))
    }

    async fn watch(
        &self,
        _: &Viewer,
        _: pb::WatchRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchResponse, Status>>, Status> {
        Err(Status::unimplemented("not asked"))
    }

    async fn explain(
        &self,
        _: &Viewer,
        _: pb::ExplainRequest,
        _: Option<IpAddr>,
    ) -> Result<pb::ExplainResponse, Status> {
        Err(Status::unimplemented("not asked"))
    }
}

#[tokio::test]
async fn of_answers_that_are_not_read_a_few_are_held() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, mut count) = watch::channel(0);
    let services = ServedServices { discovery: None, inspection: Arc::new(Talker(asked)), admin: None };
    tokio::spawn(serve(listener, services, ServeOptions::default(), CancellationToken::new()));

    // A window of 0: the server cannot send it any byte of a response.
    let deaf = Endpoint::new(url.clone()).unwrap().initial_stream_window_size(0).connect().await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..32 {
        let mut client = InspectionServiceClient::new(deaf.clone());
        calls.spawn(async move { client.list_backends(pb::ListBackendsRequest {}).await.map(drop) });
    }
    let more = tokio::time::timeout(Duration::from_secs(1), count.wait_for(|asked| *asked > 4)).await.is_ok();
    assert!(!more, "{} answers are held", *count.borrow());
    assert_eq!(*count.borrow(), 4);

    // A client that leaves frees its slots, and a client that reads its responses is never refused.
    calls.shutdown().await;
    let channel = Endpoint::new(url).unwrap().connect().await.unwrap();
    for _ in 0..20 {
        let mut client = InspectionServiceClient::new(channel.clone());
        let answer = tokio::time::timeout(SOON, client.list_backends(pb::ListBackendsRequest {})).await.unwrap();
        assert_eq!(answer.unwrap().into_inner().backends.len(), 1);
    }
}
