//! A sync from empty into a Gimbal cluster: by Gimbal, and by raw creates of the same objects.

use std::time::Duration;

use gimbal_testkit::TestCluster;
use gimbal_tests::{Scene, writer_rights};

use crate::fill::namespaces;
use crate::proc::Usage;
use crate::raw;
use crate::sight::{self, Sight, Span};

/// Number of concurrent writes of both.
pub const WORKERS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// The cost of a sync by Gimbal.
pub struct Ours {
    /// From the first to the last arrival.
    pub span: Span,
    /// CPU seconds of discoverer and writer since their start.
    pub own: f64,
    /// CPU seconds of the API server in the same time.
    pub server: f64,
    /// Peak memory of the discoverer and the writer, in MB.
    pub peaks: (f64, f64),
    /// Growth of the API server's memory, in MB: its watch cache, and garbage that is not yet collected.
    pub grown: f64,
}

/// Replaces the Gimbal cluster by an empty one.
///
/// # Errors
/// A server's error.
pub async fn fresh(scene: &mut Scene) -> anyhow::Result<()> {
    scene.gimbal = TestCluster::start().await?.into();
    scene.gimbal.bind(&scene.gimbal.user("writer")?, &writer_rights()?).await?;
    namespaces(&scene.gimbal).await
}

/// Starts a writer and a discoverer of the scene's source, and waits until `objects` objects have arrived.
///
/// # Errors
/// A process does not start, or no object arrives for too long.
pub async fn sync(scene: &Scene, objects: usize) -> anyhow::Result<Ours> {
    let eyes = scene.gimbal.client()?;
    let mut sight = Sight::open(&eyes);
    sight::watches_open(&eyes).await?;
    let server = scene.gimbal.api_server()?;
    let before = Usage::of(server)?;
    let concurrency = WORKERS.to_string();
    let config = scene.config(&["bench"], "")?;
    let writer = scene.writer(&config, &["--write-concurrency", &concurrency]).await?;
    let discoverer = scene.discoverer("bench", &scene.source, writer.port, &[])?;
    let span = sight.span(objects, PATIENCE).await?;
    let (writer, discoverer) = (Usage::of(writer.process.id())?, Usage::of(discoverer.process.id())?);
    let after = Usage::of(server)?;
    Ok(Ours {
        span,
        own: (writer.cpu + discoverer.cpu).as_secs_f64(),
        server: (after.cpu - before.cpu).as_secs_f64(),
        peaks: (discoverer.peak, writer.peak),
        grown: after.resident - before.resident,
    })
}

/// Creates the targets, with the same watches open as a writer has. Also returns the CPU seconds of the API server.
///
/// # Errors
/// The API server's error.
pub async fn create(scene: &Scene, targets: &[raw::Target], objects: usize) -> anyhow::Result<(Span, f64)> {
    let eyes = scene.gimbal.client()?;
    let mut sight = Sight::open(&eyes);
    let _companions = sight::companions(&scene.gimbal.client()?);
    sight::watches_open(&eyes).await?;
    let server = scene.gimbal.api_server()?;
    let before = Usage::of(server)?;
    let hands = raw::hands(&scene.gimbal).await?;
    let (span, created) = tokio::join!(sight.span(objects, PATIENCE), raw::create(&hands, targets, WORKERS));
    created?;
    Ok((span?, (Usage::of(server)?.cpu - before.cpu).as_secs_f64()))
}
