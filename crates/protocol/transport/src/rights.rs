//! What a process says of its rights in its own cluster.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use gimbal_wire::pb;

/// Asks the cluster of a process which of its rights are missing.
pub type RightsReview = Arc<dyn Fn() -> BoxFuture<'static, pb::Rights> + Send + Sync>;

/// How long a review may take: whoever asks waits for it.
const LIMIT: Duration = Duration::from_secs(5);
/// Most missing rights that are reported.
const MISSING: usize = 100;

/// Returns what a review found: the rights that are missing, or that they are not known.
pub async fn rights<R: Display, E: Display>(review: impl Future<Output = Result<Vec<R>, E>>) -> pb::Rights {
    let (missing, unknown) = match tokio::time::timeout(LIMIT, review).await {
        Ok(Ok(missing)) => (missing.iter().take(MISSING).map(ToString::to_string).collect(), String::new()),
        Ok(Err(error)) => (Vec::new(), error.to_string()),
        Err(_) => (Vec::new(), format!("the API server did not answer within {} s", LIMIT.as_secs())),
    };
    pb::Rights { missing, unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_is_not_missing() {
        let found = rights(async { Ok::<_, String>(vec!["list services"; 200]) }).await;
        assert_eq!((found.missing.len(), found.unknown.as_str()), (MISSING, ""));
        let refused = rights(async { Err::<Vec<String>, _>("401") }).await;
        assert_eq!((refused.missing.len(), refused.unknown.as_str()), (0, "401"));
        let silent = rights(std::future::pending::<Result<Vec<String>, String>>()).await;
        assert_eq!(silent.unknown, "the API server did not answer within 5 s");
    }
}
