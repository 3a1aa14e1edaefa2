//! Logs, to stderr: stdout is for the output that was asked for.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::Exit;
use crate::json_lines::JsonLines;
use crate::log_lines::LogLines;

/// Overrides the level, in the syntax of `RUST_LOG`: `info,gimbal_transport=debug`.
const VARIABLE: &str = "GIMBAL_LOG";

/// How long the last lines may take when the process ends.
const LAST: Duration = Duration::from_secs(1);

static LINES: OnceLock<LogLines> = OnceLock::new();

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines of text, for people.
    #[default]
    Text,
    /// For machines, one object a line.
    Json,
}

/// Starts logging at `level` (in the syntax of `RUST_LOG`), or at the level in the variable `GIMBAL_LOG`.
///
/// # Errors
/// Returns an error if the level is not valid, or if logging cannot be started, for example because it was before.
pub fn init_logging(format: LogFormat, level: &str) -> Result<(), Exit> {
    let filter = filter(std::env::var(VARIABLE).ok().as_deref(), level)?;
    // Colours are for terminals: in a file or a collector their codes come between a field's name and its value.
    let coloured = std::io::stderr().is_terminal();
    let lines = LogLines::start(std::io::stderr());
    let lines = lines.map_err(|error| Exit::Failure(format!("cannot start logging: {error}")))?;
    let lines = LINES.get_or_init(|| lines).clone();
    // Otherwise a line that cannot be written is reported by eprintln!, which panics for the same reason.
    let builder = tracing_subscriber::fmt().log_internal_errors(false);
    let builder = builder.with_env_filter(filter).with_writer(OneLine { coloured, to: lines }).with_ansi(coloured);
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.event_format(JsonLines).try_init(),
    };
    started.map_err(|error| Exit::Failure(format!("cannot start logging: {error}")))
}

/// Writes the last line of a process after its log. Waits at most a second, because the reader may be gone.
pub(crate) fn last_line(line: &str) {
    match LINES.get() {
        Some(lines) => {
            lines.push(format!("{line}\n").as_bytes());
            lines.flush(LAST);
        }
        None => {
            // If that fails, too, the exit code still says it.
            writeln!(std::io::stderr().lock(), "{line}").ok();
        }
    }
}

/// Waits until everything logged is written, at most a second.
pub(crate) fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(LAST);
    }
}

/// Writes each event as one line, whatever its fields contain: text from a peer must not look like a line of ours.
struct OneLine<M> {
    /// Whether escape characters are kept, because our own colours begin with them.
    coloured: bool,
    to: M,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for OneLine<M> {
    type Writer = OneLineWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        OneLineWriter { coloured: self.coloured, to: self.to.make_writer() }
    }
}

struct OneLineWriter<W> {
    coloured: bool,
    to: W,
}

impl<W: Write> Write for OneLineWriter<W> {
    /// Writes one event, which comes in one piece with the end of its line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.to.write_all(&one_line(event, self.coloured))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Returns the event with everything escaped that ends or rewrites a line on a terminal, or changes the order in which it is
/// read, except for the newline at its end. An escape reads the same in a line of text and in a string of JSON.
fn one_line(event: &[u8], coloured: bool) -> Cow<'_, [u8]> {
    let text = event.strip_suffix(b"\n").unwrap_or(event);
    if text.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(event);
    }
    let odd = |c: char| is_odd(c) && !(coloured && c == '\u{1b}');
    let text = String::from_utf8_lossy(text);
    if !text.contains(odd) {
        return Cow::Borrowed(event);
    }
    let mut line = String::with_capacity(event.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => line.extend(c.escape_default()),
            odd_one if odd(odd_one) => line.push_str(&format!("\\u{:04x}", u32::from(odd_one))),
            plain => line.push(plain),
        }
    }
    if event.ends_with(b"\n") {
        line.push('\n');
    }
    Cow::Owned(line.into_bytes())
}

/// Whether a character is a control character, a separator of lines, or sets the direction of what follows.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn filter(variable: Option<&str>, level: &str) -> Result<EnvFilter, Exit> {
    let (name, text) = match variable.filter(|text| !text.is_empty()) {
        Some(text) => (VARIABLE, text),
        None => ("the default log level", level),
    };
    EnvFilter::try_new(text).map_err(|error| Exit::Usage(format!("{name} {text:?} is no log level: {error}")))
}

#[cfg(test)]
pub(crate) mod kept {
    use std::sync::{Arc, Mutex};

    use super::{Write, io};

    /// A writer that keeps what is logged.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::kept::Kept;
    use super::*;

    /// Ends the line, clears it, and turns the direction in which it is read.
    const FORGED: &str = "bye\n2026-01-01T00:00:00Z  INFO an admin decided\r\u{1b}[2K\u{7f}\u{85}\u{9b}2K\u{2028}\u{202e}\u{2066} \u{fc}";

    #[test]
    fn what_others_say_makes_no_line_of_its_own() {
        let (text, json) = (Kept::default(), Kept::default());
        let builder = |kept: &Kept| {
            let to = kept.clone();
            tracing_subscriber::fmt().with_writer(OneLine { coloured: false, to: move || to.clone() }).with_ansi(false)
        };
        let log = || tracing::info!(quoted = FORGED, shown = %FORGED, "the agent says goodbye");
        tracing::subscriber::with_default(builder(&text).finish(), log);
        tracing::subscriber::with_default(builder(&json).event_format(JsonLines).finish(), log);
        for line in [text.text(), json.text()] {
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(line.ends_with('\n') && !line.trim_end().contains(is_odd), "{line:?}");
            assert!(line.contains("bye\\n2026"), "{line}");
        }
        let line: serde_json::Value = serde_json::from_str(&json.text()).unwrap();
        assert_eq!(
            (&line["quoted"], &line["shown"]),
            (&FORGED.into(), &FORGED.into()),
            "a machine reads what was said"
        );
    }

    #[test]
    fn our_own_colours_stay() {
        assert_eq!(&*one_line(b"\x1b[32mINFO\x1b[0m a\tb\n", true), b"\x1b[32mINFO\x1b[0m a\\tb\n");
        assert!(matches!(one_line(b"plain \xc3\xbc\n", false), Cow::Borrowed(_)));
    }

    #[test]
    fn the_variable_wins_and_is_named_when_wrong() {
        assert_eq!(filter(None, "info").unwrap().to_string(), "info");
        assert_eq!(filter(Some(""), "info").unwrap().to_string(), "info");
        assert_eq!(filter(Some("gimbal_transport=debug"), "info").unwrap().to_string(), "gimbal_transport=debug");
        assert!(filter(Some("a=b=c"), "info").unwrap_err().line().contains("GIMBAL_LOG"));
        let line = filter(None, "a=b=c").unwrap_err().line();
        assert!(line.contains("the default log level") && !line.contains("--"), "{line}");
    }
}
