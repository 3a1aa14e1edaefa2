//! A relay between Envoy and Contour that sees when Envoy has taken in what Contour says of endpoints: Envoy answers each message on
//! the stream on which it came, once the endpoints are in use. The relay passes every byte on as it comes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::change::{Eyes, Seen};
use crate::xds::Conversation;

/// The streams of endpoints; Envoy opens one for each Service.
const ENDPOINTS: &str = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints";
/// More streams than there are Services.
const STREAMS: u32 = 1 << 20;
/// Bytes that may be under way.
const WINDOW: u32 = 1 << 24;

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Starts a relay to Contour at this port. Returns the port for Envoy, and what Envoy has taken in. Both end with the returned value.
///
/// # Errors
/// It cannot listen.
pub async fn relay(contour: u16) -> anyhow::Result<(u16, Eyes)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the relay cannot listen")?;
    let port = listener.local_addr().context("the relay has no address")?.port();
    let contour = SocketAddr::from((Ipv4Addr::LOCALHOST, contour));
    let (sender, seen) = tokio::sync::mpsc::unbounded_channel();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((envoy, _)) = listener.accept().await {
            let sender = sender.clone();
            // Envoy dials again: until Contour serves, and when a connection ends.
            connections.spawn(async move {
                if let Err(error) = serve(envoy, contour, sender).await {
                    eprintln!("between Contour and Envoy: {error:#}");
                }
            });
            while connections.try_join_next().is_some() {}
        }
    });
    Ok((port, Eyes::of(seen, task)))
}

/// Relays one connection of Envoy's.
async fn serve(envoy: TcpStream, contour: SocketAddr, seen: UnboundedSender<Seen>) -> anyhow::Result<()> {
    let contour = TcpStream::connect(contour).await?;
    envoy.set_nodelay(true)?;
    contour.set_nodelay(true)?;
    let mut client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    client.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let (sender, connection) = client.handshake(TokioIo::new(contour)).await?;
    let service = service_fn(move |request| forward(request, sender.clone(), seen.clone()));
    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    server.max_concurrent_streams(STREAMS).initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
    tokio::select! {
        ended = server.serve_connection(TokioIo::new(envoy), service) => Ok(ended?),
        ended = connection => Ok(ended?),
    }
}

/// Relays one stream.
async fn forward(
    request: Request<Incoming>,
    mut contour: SendRequest<Body>,
    seen: UnboundedSender<Seen>,
) -> Result<Response<Body>, hyper::Error> {
    let conversation = (request.uri().path() == ENDPOINTS).then(Arc::<Mutex<Conversation>>::default);
    let asks = conversation.clone();
    let request = request.map(|body| {
        watched(body, move |data| {
            let at = Instant::now();
            let taken = asks.as_ref().map(|asks| lock(asks).asked(data)).unwrap_or_default();
            for number in taken {
                // The reader is gone.
                seen.send(Seen { number, at }).ok();
            }
        })
    });
    contour.ready().await?;
    let answer = contour.send_request(request).await?;
    Ok(answer.map(|body| {
        watched(body, move |data| {
            if let Some(conversation) = &conversation {
                lock(conversation).told(data);
            }
        })
    }))
}

fn lock(conversation: &Mutex<Conversation>) -> std::sync::MutexGuard<'_, Conversation> {
    conversation.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the same body, of which `see` gets all data as it passes.
fn watched(body: Incoming, mut see: impl FnMut(&[u8]) + Send + 'static) -> Body {
    let look = move |frame: Frame<Bytes>| {
        if let Some(data) = frame.data_ref() {
            see(data);
        }
        frame
    };
    body.map_frame(look).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http_body_util::{Full, StreamBody};

    use super::*;
    use crate::change::{Change, address};
    use crate::xds;

    /// Contour's place: reports an endpoint on each stream, whatever is asked.
    async fn teller(listener: TcpListener, told: Vec<u8>) {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = service_fn(move |request: Request<Incoming>| {
            let told = told.clone();
            // What is asked is read to its end, as by Contour.
            tokio::spawn(request.into_body().collect());
            async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(told)))) }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        server.serve_connection(TokioIo::new(stream), answer).await.ok();
    }

    #[tokio::test]
    async fn what_envoy_has_taken_in_is_seen_and_all_bytes_pass() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let contour = listener.local_addr().unwrap().port();
        let told = xds::tests::told("3", &[&address(7).to_string()]);
        tokio::spawn(teller(listener, told.clone()));
        let (port, mut eyes) = relay(contour).await.unwrap();

        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.unwrap();
        tokio::spawn(connection);
        let (says, said) = tokio::sync::mpsc::unbounded_channel::<Result<Frame<Bytes>, Infallible>>();
        let body = StreamBody::new(tokio_stream(said));
        let request = Request::post(format!("http://contour{ENDPOINTS}")).body(body).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), told);
        let before = Instant::now();
        says.send(Ok(Frame::data(xds::tests::asked("3", None).into()))).unwrap();
        let change = Change { key: 0, begun: before, taken: before };
        let seen = eyes.all(&[(7, change)].into(), Duration::from_secs(10)).await.unwrap();
        assert_eq!(seen.len(), 1);
        assert!(seen[0].number == 7 && seen[0].at >= before);
    }

    fn tokio_stream<T: Send + 'static>(
        receiver: tokio::sync::mpsc::UnboundedReceiver<T>,
    ) -> impl futures::Stream<Item = T> + Send + Unpin {
        Box::pin(futures::stream::unfold(receiver, |mut receiver| async move {
            let next = receiver.recv().await?;
            Some((next, receiver))
        }))
    }
}
