//! The status page of a program, on its admin port: what `gimbalctl` shows, for a browser. It changes nothing, and asks for nothing
//! from elsewhere.

mod answer;
mod guard;
mod shown;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::middleware;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt as _, stream};
use gimbal_transport::{Inspection, Viewer};
use gimbal_wire::pb;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use answer::{PageQuery, find, why};
pub use shown::{Histories, LagMinute};

/// What a page shows, beside what every [`Inspection`] answers.
#[tonic::async_trait]
pub trait PageSource: Inspection {
    /// Returns the page's title: what the program is.
    fn title(&self) -> String;

    /// Returns in a sentence what the program does now.
    fn standing(&self, backends: &[pb::Backend]) -> String;

    /// Returns the backends, as they are shown to everybody who reaches the page.
    ///
    /// # Errors
    /// The process ends.
    async fn shown_backends(&self) -> Result<Vec<pb::Backend>, Status> {
        self.list_backends(&Viewer::All).await
    }

    /// Explains an object, as everybody who reaches the page may know it.
    ///
    /// # Errors
    /// As [`Inspection::explain`].
    async fn shown_reasons(&self, request: pb::ExplainRequest) -> Result<pb::ExplainResponse, Status> {
        self.explain(&Viewer::All, request, None).await
    }

    /// Returns the lag of each backend over the last hour; `None` where none is measured.
    ///
    /// # Errors
    /// The process ends.
    async fn histories(&self) -> Result<Option<Histories>, Status>;
}

/// Most browsers that are kept up to date, out of the connections of the admin port: the others are for metrics and
/// probes.
const STREAMS: usize = 16;
/// Most questions about Services at a time. More are refused, since one that waits would hold a connection, too.
const QUESTIONS: usize = 4;
/// Interval of what a browser is sent.
const INTERVAL: Duration = Duration::from_secs(2);
/// What one connection is sent before the browser opens another one. The admin port cuts those that last longer.
const SENT: usize = 25;

/// What the page is made from. Cheap to clone.
#[derive(Clone)]
pub struct StatusPage {
    /// Set once the program's parts are there.
    source: Arc<OnceLock<Arc<dyn PageSource>>>,
    streams: Arc<Semaphore>,
    questions: Arc<Semaphore>,
}

impl Default for StatusPage {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { source: Arc::default(), streams: places(STREAMS), questions: places(QUESTIONS) }
    }
}

impl StatusPage {
    /// Sets what the page shows. Only the first call counts.
    pub fn show(&self, source: Arc<dyn PageSource>) {
        self.source.get_or_init(|| source);
    }

    /// Returns the routes of the page, which answer under `localhost`, any address and the names `hosts`. A request for
    /// another name comes from a page elsewhere that pretends to be this one.
    pub fn router(&self, hosts: &[String]) -> Router {
        let text =
            |kind: &'static str, text: &'static str| get(move || async move { ([(header::CONTENT_TYPE, kind)], text) });
        let routes = Router::new()
            .route("/status", text("text/html; charset=utf-8", include_str!("page.html")))
            .route("/status/page.css", text("text/css; charset=utf-8", include_str!("page.css")))
            .route("/status/page.js", text("text/javascript; charset=utf-8", include_str!("page.js")))
            .route("/status/events", get(events))
            .route("/status/services", get(services))
            .route("/status/why", get(explanation))
            .with_state(self.clone());
        routes.layer(middleware::from_fn_with_state(Arc::<[String]>::from(hosts), guard::guard))
    }

    fn ready(&self) -> Result<Arc<dyn PageSource>, Refusal> {
        self.source.get().cloned().ok_or(Refusal::Starting)
    }
}

/// Why there is no answer.
enum Refusal {
    Starting,
    Busy,
    Failed(String),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Self::Starting => (StatusCode::SERVICE_UNAVAILABLE, "the program is starting: try again\n".to_owned()),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many use this page now: try again\n".to_owned()),
            Self::Failed(text) => (StatusCode::BAD_REQUEST, text + "\n"),
        };
        (status, [(header::RETRY_AFTER, "2"), (header::CONTENT_TYPE, "text/plain; charset=utf-8")], text)
            .into_response()
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Failed(status.message().to_owned())
    }
}

/// Sends the state of all backends, again and again.
async fn events(State(page): State<StatusPage>) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let source = page.ready()?;
    let place = page.streams.try_acquire_owned().map_err(|_| Refusal::Busy)?;
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let states = stream::unfold((source, ticks, place), |(source, mut ticks, place)| async move {
        ticks.tick().await;
        // None: the process ends.
        let state = state(&*source).await.ok()?;
        Some((Ok(state), (source, ticks, place)))
    });
    // The browser takes the end for a failure otherwise, and the page would say so to a screen reader each minute.
    let planned = stream::once(async { Ok(Event::default().event("again").data("as planned")) });
    Ok(Sse::new(states.take(SENT).chain(planned)))
}

async fn state(source: &dyn PageSource) -> Result<Event, Status> {
    let backends = source.shown_backends().await?;
    let histories = source.histories().await?;
    let state = shown::state(&source.title(), &source.standing(&backends), &backends, histories.as_ref());
    Ok(Event::default().event("state").retry(INTERVAL).data(state.to_string()))
}

async fn services(State(page): State<StatusPage>, uri: Uri) -> Result<Response, Refusal> {
    let (source, _place) = page.question()?;
    let found = find(&*source, &PageQuery::read(&uri)?).await?;
    Ok(json(&found))
}

async fn explanation(State(page): State<StatusPage>, uri: Uri) -> Result<Response, Refusal> {
    let (source, _place) = page.question()?;
    Ok(json(&shown::explanation(&why(&*source, &PageQuery::read(&uri)?).await?)))
}

impl StatusPage {
    fn question(&self) -> Result<(Arc<dyn PageSource>, OwnedSemaphorePermit), Refusal> {
        let source = self.ready()?;
        let place = self.questions.clone().try_acquire_owned().map_err(|_| Refusal::Busy)?;
        Ok((source, place))
    }
}

fn json(value: &serde_json::Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}
