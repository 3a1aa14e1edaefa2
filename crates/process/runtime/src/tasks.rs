//! The tasks of a process: if one ends or panics, the process ends.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Exit;

/// The tasks of a process. A process without one of its tasks looks alive and is not: it holds its lease and its port,
/// and does nothing. So the first task that ends, ends all. Dropping this aborts the tasks.
#[derive(Debug)]
pub struct Tasks {
    running: JoinSet<Result<(), Exit>>,
    names: Vec<(tokio::task::Id, &'static str)>,
    shutdown: CancellationToken,
}

impl Tasks {
    /// Creates an empty set. Cancelling `shutdown` asks the tasks to end.
    #[must_use]
    pub fn new(shutdown: CancellationToken) -> Self {
        Self { running: JoinSet::new(), names: Vec::new(), shutdown }
    }

    /// Starts a task that lives as long as the process.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = Result<(), Exit>> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.push((id, name));
    }

    /// Waits until the process is asked to end, or a task ends by itself; the other tasks are then asked to end.
    ///
    /// # Errors
    /// Returns the failure of the task that ended.
    pub async fn run(&mut self) -> Result<(), Exit> {
        let ended = tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Ok(()),
            Some(ended) = self.running.join_next_with_id() => ended,
            else => return Ok(()),
        };
        let failure = match ended {
            Ok((id, Ok(()))) => Exit::Failure(format!("{} ended", self.name(id))),
            Ok((_, Err(exit))) => exit,
            Err(error) => Exit::Failure(format!("{} failed: {error}", self.name(error.id()))),
        };
        tracing::error!(%failure, "a part of the process is gone; the rest ends");
        self.shutdown.cancel();
        Err(failure)
    }

    /// Waits until every task has ended, after they were asked to.
    ///
    /// # Errors
    /// Returns the first failure.
    pub async fn ended(mut self) -> Result<(), Exit> {
        let mut first = Ok(());
        while let Some(ended) = self.running.join_next_with_id().await {
            let ended = match ended {
                Ok((_, ended)) => ended,
                Err(error) => Err(Exit::Failure(format!("{} failed: {error}", self.name(error.id())))),
            };
            first = first.and(ended);
        }
        first
    }

    fn name(&self, id: tokio::task::Id) -> &'static str {
        self.names.iter().find(|(known, _)| *known == id).map_or("a task", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> (Tasks, CancellationToken) {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        let asked = shutdown.clone();
        tasks.spawn("a patient one", async move {
            asked.cancelled().await;
            Ok(())
        });
        (tasks, shutdown)
    }

    #[tokio::test]
    async fn whoever_ends_panics_or_fails_ends_all() {
        let panics = async { panic!("on purpose") };
        let text = async |mut tasks: Tasks, shutdown: CancellationToken| {
            let error = tasks.run().await.unwrap_err();
            assert!(shutdown.is_cancelled(), "the others are asked to end");
            assert_eq!(tasks.ended().await, Ok(()), "and do");
            (error.code(), error.line())
        };
        let (mut some, shutdown) = tasks();
        some.spawn("the owner", panics);
        let (code, line) = text(some, shutdown).await;
        assert_eq!(code, 1);
        assert!(line.contains("the owner failed") && line.contains("panic"), "{line}");
        let (mut some, shutdown) = tasks();
        some.spawn("the keeper", async { Ok(()) });
        assert_eq!(text(some, shutdown).await, (1, "error: the keeper ended".to_owned()));
        let (mut some, shutdown) = tasks();
        some.spawn("a server", async { Err(Exit::Failure("no port".into())) });
        assert_eq!(text(some, shutdown).await, (1, "error: no port".to_owned()));
    }

    #[tokio::test]
    async fn asked_to_end_they_end_and_a_late_panic_is_told() {
        let (mut tasks, shutdown) = tasks();
        let asked = shutdown.clone();
        tasks.spawn("the watch", async move {
            asked.cancelled().await;
            panic!("on the way out")
        });
        shutdown.cancel();
        assert_eq!(tasks.run().await, Ok(()));
        assert!(tasks.ended().await.unwrap_err().line().contains("the watch failed"));
    }
}
