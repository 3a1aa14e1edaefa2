//! Starts children so that none outlives this process, not even when it is killed.
//!
//! `setpriv --pdeathsig` has the kernel kill a child when the *thread* that started it ends. Tests' threads come and go, so
//! one thread that never ends starts them all.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Job = (Command, Sender<std::io::Result<Child>>);

/// A command for `program` that dies with us where the system has `setpriv` (util-linux). Elsewhere a test that is killed,
/// and only such a one, leaves its servers behind.
pub(super) fn command(program: &Path) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let available =
        SETPRIV.get_or_init(|| Command::new("setpriv").arg("--version").output().is_ok_and(|out| out.status.success()));
    if *available {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Starts `command` on the thread that never ends.
pub(super) fn spawn(command: Command) -> std::io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, answer) in queue {
                // Whoever asked may be gone; a child that nobody takes must not run.
                if let Err(unclaimed) = answer.send(command.spawn())
                    && let Ok(mut child) = unclaimed.0
                {
                    child.kill().and_then(|()| child.wait()).ok();
                }
            }
        });
        jobs
    });
    let (answer, result) = channel();
    let gone = || std::io::Error::other("the thread that starts processes is gone");
    spawner.send((command, answer)).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}
