//! Many small Services, for tests of what depends on their number.

use std::sync::Arc;

use gimbal_testkit::eventually;

use crate::{SOON, Scene, in_parallel, put, slice_of, svc};

/// Creates Services `web-<n>` in the source's `team1`, with a slice `v4` of three endpoints each. All addresses are
/// consecutive.
///
/// # Errors
/// The API server's error.
pub async fn offer_many(scene: &Arc<Scene>, services: u32) -> anyhow::Result<()> {
    let offers = (0..services).map(|n| {
        let scene = scene.clone();
        async move {
            let name = format!("web-{n}");
            put(&scene.source, &svc("team1", &name, &[("http", 80)])).await?;
            put(&scene.source, &slice_of("team1", &name, "v4", 1 + n * 3, 3)).await
        }
    });
    in_parallel(offers).await
}

/// Waits until the Gimbal cluster has exactly `count` slices.
///
/// # Errors
/// It does not have them in time.
pub async fn expect_slices(scene: &Scene, count: u32) -> anyhow::Result<()> {
    eventually(&format!("{count} slices have arrived"), 4 * SOON, async || {
        let there = scene.gimbal.admin().items("/apis/discovery.k8s.io/v1/endpointslices").await?.len();
        anyhow::ensure!(there == count as usize, "{there} slices");
        Ok::<_, anyhow::Error>(())
    })
    .await
}
