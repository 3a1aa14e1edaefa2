//! Signals: the first one asks, the second one does not.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::Exit;

/// A token that SIGTERM, SIGINT or SIGHUP cancels: a terminal that is closed is no reason to leave without a goodbye. A second signal ends the process at once, with code 1.
///
/// # Errors
/// When signals cannot be watched.
pub fn shutdown_token() -> Result<CancellationToken, Exit> {
    let failed = |error| Exit::Failure(format!("cannot watch signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let token = CancellationToken::new();
    let asked = token.clone();
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                _ = hangup.recv() => "SIGHUP",
            };
            if asked.is_cancelled() {
                tracing::warn!(signal = name, "told to end a second time: ending at once");
                crate::logging::flush();
                std::process::exit(1);
            }
            tracing::info!(signal = name, "told to end");
            asked.cancel();
        }
    });
    Ok(token)
}
