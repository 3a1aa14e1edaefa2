//! Logs, to stderr: stdout belongs to what was asked for.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::Exit;

/// Overrides the level, in the syntax of `RUST_LOG`: `info,gimbal_link=debug`.
const VARIABLE: &str = "GIMBAL_LOG";

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines, one object a line.
    Json,
}

/// Starts logging at `level` (in the syntax of `RUST_LOG`), or at what `GIMBAL_LOG` says.
///
/// # Errors
/// When a level cannot be read, or logging was started before.
pub fn init_logging(format: LogFormat, level: &str) -> Result<(), Exit> {
    let filter = filter(std::env::var(VARIABLE).ok().as_deref(), level)?;
    // Colours are for people: in a file or a collector their codes stand between a field's name and its value.
    let coloured = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(coloured);
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Exit::Failure(format!("cannot start logging: {error}")))
}

fn filter(variable: Option<&str>, level: &str) -> Result<EnvFilter, Exit> {
    let (name, text) = match variable.filter(|text| !text.is_empty()) {
        Some(text) => (VARIABLE, text),
        None => ("--log-level", level),
    };
    EnvFilter::try_new(text).map_err(|error| Exit::Usage(format!("{name} {text:?} is no log level: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_and_is_named_when_wrong() {
        assert_eq!(filter(None, "info").unwrap().to_string(), "info");
        assert_eq!(filter(Some(""), "info").unwrap().to_string(), "info");
        assert_eq!(filter(Some("gimbal_link=debug"), "info").unwrap().to_string(), "gimbal_link=debug");
        assert!(filter(Some("a=b=c"), "info").unwrap_err().line().contains("GIMBAL_LOG"));
        assert!(filter(None, "a=b=c").unwrap_err().line().contains("--log-level"));
    }
}
