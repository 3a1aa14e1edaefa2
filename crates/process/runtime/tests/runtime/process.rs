//! Signals, exit codes and logs, each in a process of its own: this test binary, started again as the child.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitCode, Stdio};

use gimbal_runtime::{Exit, LogFormat, init_logging, run, shutdown_token};

const ROLE: &str = "GIMBAL_TEST_ROLE";

fn child(role: &str) -> Command {
    // The tests themselves may run with SIGHUP ignored, as under `nohup`.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "process::as_child", "--nocapture"]).env(ROLE, role).env_remove("GIMBAL_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// The child's work; does nothing when this binary runs as a test.
#[test]
fn as_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let code = match role.as_str() {
        "usage" => run("child", std::num::NonZeroUsize::MIN, async { Err(Exit::Usage("--flag is\nwrong".to_owned())) }),
        "failure" => run("child", std::num::NonZeroUsize::MIN, async { Err(Exit::Failure("it broke".to_owned())) }),
        "obedient" => run("child", std::num::NonZeroUsize::MIN, async {
            init_logging(LogFormat::Json, "info")?;
            let token = shutdown_token()?;
            tracing::info!(answer = 42, "waiting");
            token.cancelled().await;
            Ok(())
        }),
        "talker" => run("child", std::num::NonZeroUsize::MIN, async {
            init_logging(LogFormat::Text, "info")?;
            tracing::info!("seen");
            tracing::error!("heard");
            Ok(())
        }),
        "stubborn" => run("child", std::num::NonZeroUsize::MIN, async {
            init_logging(LogFormat::Text, "info")?;
            let _token = shutdown_token()?;
            tracing::info!("waiting");
            std::future::pending().await
        }),
        other => panic!("no such role: {other}"),
    };
    // The harness would turn any end of a test into 0 or 101.
    std::process::exit(if code == ExitCode::SUCCESS {
        0
    } else if code == ExitCode::from(2) {
        2
    } else {
        1
    });
}

#[test]
fn wrong_input_is_one_line_and_code_2() {
    for (role, code, line) in [("usage", 2, "error: --flag is wrong\n"), ("failure", 1, "error: it broke\n")] {
        let output = child(role).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), line);
    }
}

#[test]
fn the_first_signal_asks() {
    for name in ["-TERM", "-INT", "-HUP"] {
        let mut child = child("obedient").spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&entry["message"], &entry["answer"], &entry["level"]),
            (&"waiting".into(), &42.into(), &"INFO".into())
        );
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// As under `nohup`: a process started with the signal ignored should outlive the session.
#[test]
fn a_hangup_that_is_ignored_at_the_start_stays_so() {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "process::as_child", "--nocapture"]);
    command.env(ROLE, "obedient").env_remove("GIMBAL_LOG");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    signal(&child, "-HUP");
    signal(&child, "-TERM");
    line.clear();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("SIGTERM"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn whoever_reads_the_log_may_be_gone() {
    let mut child = child("obedient").spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    drop(stderr);
    // It logs its end to a closed pipe.
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_second_signal_does_not() {
    let mut child = child("stubborn").spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    signal(&child, "-TERM");
    line.clear();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("shutting down"), "{line}");
    assert!(child.try_wait().unwrap().is_none(), "it was only asked");
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    stderr.read_to_string(&mut line).unwrap();
    assert!(line.contains("second signal"), "{line}");
}

#[test]
fn the_level_can_be_set_from_outside() {
    for (level, lines) in [(None, &["seen", "heard"][..]), (Some("error"), &["heard"]), (Some("off"), &[])] {
        let mut command = child("talker");
        if let Some(level) = level {
            command.env("GIMBAL_LOG", level);
        }
        let stderr = String::from_utf8(command.output().unwrap().stderr).unwrap();
        let words: Vec<_> = stderr.lines().filter_map(|line| line.split(' ').next_back()).collect();
        assert_eq!(words, lines, "{stderr}");
        assert!(!stderr.contains('\u{1b}'), "colours are for terminals: {stderr:?}");
    }
}
