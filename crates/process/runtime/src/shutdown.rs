//! Signals: the first one asks the process to end, the second one ends it.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::Exit;

/// Returns a token that SIGTERM, SIGINT or SIGHUP cancels, so that a closed terminal, too, leads to an orderly end.
/// SIGHUP is ignored if the process was started to ignore it. A signal after the token was cancelled, by a signal or
/// otherwise, ends the process at once, with code 1.
///
/// # Errors
/// Returns an error if signals cannot be watched.
pub fn shutdown_token() -> Result<CancellationToken, Exit> {
    let failed = |error| Exit::Failure(format!("cannot watch signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    // Listening would undo what `nohup` does: it starts a process with the signal ignored.
    let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup()).map_err(failed)?) };
    let token = CancellationToken::new();
    let asked = token.clone();
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
                Some(_) = of(hangup.as_mut()) => "SIGHUP",
            };
            if asked.is_cancelled() {
                tracing::warn!(signal = name, "second signal received: exiting at once");
                crate::logging::flush();
                std::process::exit(1);
            }
            tracing::info!(signal = name, "signal received: shutting down");
            asked.cancel();
        }
    });
    Ok(token)
}

async fn of(signal: Option<&mut Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => None,
    }
}

/// Returns whether the process was started with SIGHUP ignored; false if the kernel does not say.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // The first bit is signal 1.
    mask & 1 != 0
}
