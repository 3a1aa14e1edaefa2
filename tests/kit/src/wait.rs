//! Waits for a condition, level-triggered: what counts is the current state, not an event that could be missed.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The shortest and the longest pause between two quick checks. Checks cost computing that what is awaited needs: a pause is
/// an eighth of the time that has passed, so that no wait gets longer by more than that.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(250)];
/// A check that takes long computes much, or is one of many on a busy machine: the pause after it is twice that time, up to
/// this.
const LONGEST_AFTER_SLOW: Duration = Duration::from_secs(1);

/// Polls `condition` until it is `Ok`.
///
/// # Errors
/// After `timeout`; the message has `what` was awaited and the condition's last error.
pub async fn eventually<T, E: Display>(
    what: &str,
    timeout: Duration,
    mut condition: impl AsyncFnMut() -> Result<T, E>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    let deadline = start + timeout;
    let [shortest, longest] = PAUSES;
    let mut last = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let begun = Instant::now();
        // A condition that hangs counts as not met.
        match tokio::time::timeout(left.max(shortest), condition()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(reason)) => last = Some(format!("{reason:#}")),
            Err(_) if last.is_none() => last = Some("the check itself did not return".to_owned()),
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            anyhow::bail!("{what}: not within {timeout:?}: {}", last.unwrap_or_default());
        }
        let pause = (start.elapsed() / 8).clamp(shortest, longest);
        let pause = pause.max((begun.elapsed() * 2).min(LONGEST_AFTER_SLOW));
        tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tells_the_last_reason() {
        let mut tries = 0;
        let result = eventually("the moon", Duration::from_millis(60), async || {
            tries += 1;
            Err::<(), _>(format!("try {tries}"))
        })
        .await;
        assert_eq!(result.unwrap_err().to_string(), format!("the moon: not within 60ms: try {tries}"));
        assert!(tries > 1);
    }

    #[tokio::test]
    async fn a_check_that_hangs_is_a_timeout() {
        let result = eventually("the sun", Duration::from_millis(30), async || {
            std::future::pending::<()>().await;
            Ok::<_, String>(())
        })
        .await;
        assert_eq!(result.unwrap_err().to_string(), "the sun: not within 30ms: the check itself did not return");
    }

    #[tokio::test]
    async fn returns_the_value() {
        let mut tries = 0;
        let value = eventually("three", Duration::from_secs(5), async || {
            tries += 1;
            if tries < 3 { Err("not yet") } else { Ok(tries) }
        });
        assert_eq!(value.await.unwrap(), 3);
    }
}
