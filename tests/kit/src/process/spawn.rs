//! Starts children so that none outlives this process, not even when it is killed.
//!
//! `setpriv --pdeathsig` has the kernel kill a child when the *thread* that started it ends. Test threads are
//! short-lived, so one thread that never ends starts all children.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

type Job = (Command, Sender<std::io::Result<Child>>);

/// Returns a command for `program` that ends with this process if the system has `setpriv` (util-linux). Without it, a
/// test that is killed leaves its servers running.
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
                // The caller may be gone; a child without an owner must not run.
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
