//! The gRPC service of a payload's streams. Generic, because generated code has one codec and one service.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use gimbal_wire::{TolerantCodec, WirePayload};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use crate::MAX_MESSAGE;
use crate::discovery::{DiscoveryEdge, Responses};

/// Returns the path of the method for streams.
pub(crate) fn sync_path<P: WirePayload>() -> String {
    format!("/{}/Sync", P::SERVICE)
}

/// Serves `Sync` of a payload's service.
pub(crate) struct SyncServer<P: WirePayload>(pub(crate) Arc<DiscoveryEdge<P>>);

impl<P: WirePayload> Clone for SyncServer<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: WirePayload> NamedService for SyncServer<P> {
    const NAME: &'static str = P::SERVICE;
}

impl<P: WirePayload> Service<http::Request<Body>> for SyncServer<P> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != sync_path::<P>() {
            return Box::pin(async { Ok(Status::unimplemented(format!("{} has only Sync", P::SERVICE)).into_http()) });
        }
        let method = SyncMethod(self.0.clone());
        // Responses are not compressed, because most are short.
        let mut grpc = Grpc::new(TolerantCodec::<P::Response, P::Request>::default())
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(MAX_MESSAGE);
        Box::pin(async move { Ok(grpc.streaming(method, request).await) })
    }
}

struct SyncMethod<P: WirePayload>(Arc<DiscoveryEdge<P>>);

impl<P: WirePayload> StreamingService<P::Request> for SyncMethod<P> {
    type Response = P::Response;
    type ResponseStream = Responses<P>;
    type Future = BoxFuture<'static, Result<Response<Responses<P>>, Status>>;

    fn call(&mut self, request: Request<Streaming<P::Request>>) -> Self::Future {
        let edge = self.0.clone();
        Box::pin(async move { edge.stream(request) })
    }
}
