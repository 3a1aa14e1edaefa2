//! How long each check may take. What takes longer fails, and what needs it is skipped; the others go on.

use std::time::Duration;

/// The deadlines of the checks of one round.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// What is left of the time that the checks are waited for.
    most: Duration,
}

impl Limits {
    /// The deadlines, none of which is later than `most`.
    pub fn new(most: Duration) -> Self {
        Self { most }
    }

    /// For files, which may lie on a file system that hangs.
    pub fn files(self) -> Duration {
        self.at_most(3)
    }

    /// For a connection: name, TCP, TLS and the server's first bytes.
    pub fn connection(self) -> Duration {
        self.at_most(10)
    }

    /// For one more handshake, with a server that has just done one.
    pub fn handshake(self) -> Duration {
        self.at_most(5)
    }

    /// For the list of backends or clusters.
    pub fn answer(self) -> Duration {
        self.at_most(10)
    }

    /// For what the server says of itself. It gives its API server 5 s for its rights.
    pub fn facts(self) -> Duration {
        self.at_most(8)
    }

    /// For all Services that are in trouble.
    pub fn services(self) -> Duration {
        self.at_most(10)
    }

    fn at_most(self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).min(self.most)
    }
}

/// Does `work` within `limit`. Returns in words that it was too late.
///
/// # Errors
/// It was too late.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, String> {
    let late = |_| format!("no answer within {} s", limit.as_secs_f32());
    tokio::time::timeout(limit, work).await.map_err(late)
}

/// As [`within`], of work that blocks. What is too late goes on without a caller that waits.
///
/// # Errors
/// It was too late, or did not end.
pub async fn blocking<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    within(limit, tokio::task::spawn_blocking(work)).await?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_its_deadline_and_none_outlasts_the_wait() {
        let all = |limits: Limits| {
            [
                limits.files(),
                limits.connection(),
                limits.handshake(),
                limits.answer(),
                limits.facts(),
                limits.services(),
            ]
            .map(|limit| limit.as_secs())
        };
        assert_eq!(all(Limits::new(Duration::from_secs(60))), [3, 10, 5, 10, 8, 10]);
        assert_eq!(all(Limits::new(Duration::from_secs(4))), [3, 4, 4, 4, 4, 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_late_is_told_with_its_limit() {
        let limit = Duration::from_secs(3);
        assert_eq!(within(limit, async { 7 }).await, Ok(7));
        assert_eq!(within(limit, std::future::pending::<()>()).await, Err("no answer within 3 s".to_owned()));
        assert_eq!(blocking(limit, || 7).await, Ok(7));
    }
}
