//! The process as a whole: it ends when one of its tasks does, and releases its lease last.

use gimbal_runtime::{Exit, Tasks};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Runs until `shutdown` or the first task ends, asks the others to end, then releases the lease, whose task ends last.
pub(crate) async fn supervise(
    mut tasks: Tasks,
    shutdown: CancellationToken,
    lease: Option<(JoinHandle<()>, CancellationToken)>,
) -> Result<(), Exit> {
    let Some((mut lease, release)) = lease else {
        let first = tasks.run().await;
        return first.and(tasks.ended().await);
    };
    let first = tokio::select! {
        first = tasks.run() => first,
        ended = &mut lease => {
            shutdown.cancel();
            tasks.ended().await?;
            return Err(Exit::Failure(format!("the lease's task ended: {ended:?}")));
        }
    };
    let ended = tasks.ended().await;
    release.cancel();
    let released = lease.await.map_err(|error| Exit::Failure(format!("the lease's task failed: {error}")));
    first.and(ended).and(released)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::watch;

    use super::*;

    /// A process with another task and a lease; `released` is how many tasks still ran when the lease was released.
    struct Process {
        tasks: Tasks,
        shutdown: CancellationToken,
        lease: (JoinHandle<()>, CancellationToken),
        released: watch::Receiver<Option<usize>>,
    }

    fn process() -> Process {
        let (shutdown, release) = (CancellationToken::new(), CancellationToken::new());
        let mut tasks = Tasks::new(shutdown.clone());
        let running = Arc::new(());
        let (asked, alive) = (shutdown.clone(), running.clone());
        tasks.spawn("another", async move {
            asked.cancelled().await;
            drop(alive);
            Ok(())
        });
        let (tell, released) = watch::channel(None);
        let asked = release.clone();
        let lease = tokio::spawn(async move {
            asked.cancelled().await;
            tell.send_replace(Some(Arc::strong_count(&running) - 1));
        });
        Process { tasks, shutdown, lease: (lease, release), released }
    }

    #[tokio::test]
    async fn a_panic_ends_the_process_and_gives_the_lease_back_after_everything_else() {
        let mut process = process();
        process.tasks.spawn("the owner", async { panic!("a defect") });
        let exit = supervise(process.tasks, process.shutdown, Some(process.lease)).await.unwrap_err();
        assert_eq!(exit.code(), 1);
        assert!(exit.line().contains("the owner failed"), "{}", exit.line());
        assert_eq!(*process.released.borrow(), Some(0), "the lease is given back when nothing else runs");
    }

    #[tokio::test]
    async fn a_lease_that_nobody_keeps_ends_the_process() {
        let process = process();
        let lease = tokio::spawn(async { panic!("a defect") });
        let exit = supervise(process.tasks, process.shutdown.clone(), Some((lease, CancellationToken::new()))).await;
        assert!(exit.unwrap_err().line().contains("the lease's task ended"));
        assert!(process.shutdown.is_cancelled());
    }

    #[tokio::test]
    async fn asked_to_end_it_ends_well() {
        let process = process();
        process.shutdown.cancel();
        assert_eq!(supervise(process.tasks, process.shutdown, Some(process.lease)).await, Ok(()));
        assert_eq!(*process.released.borrow(), Some(0));
    }
}
