//! Command lines. clap explains a mistake over several lines; here it is one line, as for every other wrong input.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::Exit;

/// Parses the command line. If the process has to end, the reason is already written: help and version to stdout with
/// code 0, a mistake as one line to stderr with code 2.
///
/// # Errors
/// Returns the exit code.
pub fn parse<A: Parser>() -> Result<A, ExitCode> {
    parse_from(std::env::args_os()).map_err(|stop| match stop {
        Stop::Shown(text) => match show(&text) {
            Ok(()) => ExitCode::SUCCESS,
            // As with `head`: a reader that has enough closes the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => Exit::Failure(format!("cannot write to standard output: {error}")).report(),
        },
        Stop::Wrong(exit) => exit.report(),
    })
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[derive(Debug)]
enum Stop {
    Shown(String),
    Wrong(Exit),
}

fn parse_from<A: Parser>(args: impl IntoIterator<Item = OsString>) -> Result<A, Stop> {
    A::try_parse_from(args).map_err(|error| {
        // Its text is the help, which begins with what the program is.
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Stop::Wrong(Exit::Usage("a command is missing: --help lists them".to_owned()));
        }
        let text = error.render().to_string();
        if error.use_stderr() { Stop::Wrong(Exit::Usage(first_paragraph(&text))) } else { Stop::Shown(text) }
    })
}

/// Returns the first paragraph of the message; usage and tips follow after an empty line.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HumanDuration;

    #[derive(Debug, Parser)]
    #[command(version)]
    struct Args {
        #[arg(long)]
        backend_name: String,
        #[arg(long, default_value = "30s")]
        poll_interval: HumanDuration,
        #[arg(long, value_parser = ["endpoints", "both"])]
        endpoints_api: Option<String>,
    }

    fn of(args: &[&str]) -> Result<Args, Stop> {
        parse_from(std::iter::once("x").chain(args.iter().copied()).map(OsString::from))
    }

    #[test]
    fn good_arguments() {
        let args = of(&["--backend-name", "a", "--poll-interval", "1h30m"]).unwrap();
        assert_eq!((args.backend_name.as_str(), args.poll_interval.0.as_secs()), ("a", 5400));
        assert_eq!(args.endpoints_api, None);
    }

    #[derive(Debug, Parser)]
    enum Commands {
        Look,
    }

    #[test]
    fn a_command_that_is_missing_is_one_line() {
        let Err(Stop::Wrong(exit)) = parse_from::<Commands>(["x".into()]) else { panic!("it was taken") };
        assert_eq!((exit.line().as_str(), exit.code()), ("error: a command is missing: --help lists them", 2));
        assert!(parse_from::<Commands>(["x".into(), "look".into()]).is_ok());
    }

    #[test]
    fn a_mistake_is_one_line_that_names_the_flag() {
        for (args, parts) in [
            (&[][..], &["--backend-name", "required"][..]),
            (&["--backend-name", "a", "--nonsense"], &["--nonsense"]),
            (&["--backend-name", "a", "--poll-interval", "30"], &["--poll-interval", "\"30\" is no duration"]),
            (
                &["--backend-name", "a", "--endpoints-api", "x"],
                &["--endpoints-api", "possible values: endpoints, both"],
            ),
        ] {
            let Err(Stop::Wrong(exit)) = of(args) else { panic!("{args:?} was taken") };
            let line = exit.line();
            assert_eq!(exit.code(), 2);
            assert!(line.starts_with("error: ") && line.matches("error").count() == 1, "{line}");
            assert!(!line.contains('\n') && !line.contains("Usage"), "{line}");
            for part in parts {
                assert!(line.contains(part), "{line} lacks {part}");
            }
        }
    }

    #[test]
    fn help_and_version_are_no_mistakes() {
        for flag in ["--help", "--version"] {
            assert!(matches!(of(&[flag]), Err(Stop::Shown(_))), "{flag}");
        }
    }
}
