//! Runs staggered attempts and takes the first that succeeds.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::sleep;

/// The result of [`race`].
#[derive(Debug)]
pub(super) struct Raced<T, E> {
    pub(super) won: Option<(usize, T)>,
    pub(super) failed: Vec<(usize, E)>,
    /// Number of attempts that were started, from the first one on.
    pub(super) begun: usize,
}

/// Runs `count` attempts in order. Starts the next when one fails, or concurrently when none has ended for `step`. When
/// one succeeds, the others are dropped.
pub(super) async fn race<T, E, F>(count: usize, step: Duration, attempt: impl Fn(usize) -> F) -> Raced<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let attempt = |index| {
        let attempt = attempt(index);
        async move { (index, attempt.await) }
    };
    let mut running = FuturesUnordered::new();
    let mut raced = Raced { won: None, failed: Vec::new(), begun: 0 };
    loop {
        if raced.begun < count {
            running.push(attempt(raced.begun));
            raced.begun += 1;
        }
        tokio::select! {
            ended = running.next() => match ended {
                Some((index, Ok(won))) => {
                    raced.won = Some((index, won));
                    return raced;
                }
                Some((index, Err(error))) => raced.failed.push((index, error)),
                None => return raced,
            },
            () = sleep(step), if raced.begun < count => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const STEP: Duration = Duration::from_secs(1);

    /// What an attempt does: fail or succeed after some milliseconds, or never end.
    #[derive(Clone, Copy)]
    enum Does {
        Fails(u64),
        Succeeds(u64),
        Hangs,
    }
    use Does::{Fails, Hangs, Succeeds};

    #[tokio::test(start_paused = true)]
    async fn the_first_to_succeed_is_taken_and_none_keeps_another_waiting() {
        for (does, won, begun, millis) in [
            (&[][..], None, 0, 0),
            (&[Succeeds(5)], Some(0), 1, 5),
            (&[Fails(5), Succeeds(5)], Some(1), 2, 10),
            (&[Hangs, Succeeds(5)], Some(1), 2, 1005),
            (&[Hangs, Hangs, Succeeds(5)], Some(2), 3, 2005),
            // A slow attempt continues beside the next one.
            (&[Succeeds(1500), Hangs, Succeeds(5)], Some(0), 2, 1500),
            // A failure starts the next attempt at once.
            (&[Hangs, Fails(10), Succeeds(5)], Some(2), 3, 1015),
            (&[Fails(1), Fails(2)], None, 2, 3),
        ] {
            let start = Instant::now();
            let raced = race(does.len(), STEP, |index| async move {
                match does[index] {
                    Fails(millis) => {
                        sleep(Duration::from_millis(millis)).await;
                        Err(())
                    }
                    Succeeds(millis) => {
                        sleep(Duration::from_millis(millis)).await;
                        Ok(())
                    }
                    Hangs => std::future::pending().await,
                }
            });
            let raced = raced.await;
            assert_eq!((raced.won.map(|(index, ())| index), raced.begun), (won, begun));
            assert_eq!(start.elapsed(), Duration::from_millis(millis));
        }
    }
}
