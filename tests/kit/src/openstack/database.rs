//! MariaDB on a socket of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::environment::Environment;
use crate::Process;

const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running server.
pub(super) struct Database {
    process: Process,
    sql: Sql,
}

/// Runs SQL on the server.
#[derive(Debug, Clone)]
pub(super) struct Sql {
    socket: PathBuf,
}

impl Database {
    /// Creates the data folder `db` in `dir`, without databases.
    pub(super) fn create(dir: &Path) -> anyhow::Result<()> {
        let data = format!("--datadir={}", dir.join("db").display());
        let user = format!("--user={}", user()?);
        let args =
            ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
        let args = [&args[..], &["--innodb-log-file-size=8M", &user, &data]].concat();
        Environment::run(Path::new("mariadb-install-db"), &args, &dir.join("mariadb-install-db.log"))
    }

    /// Starts it over the data folder `db` in `dir`, and waits until it answers.
    pub(super) async fn start(program: &Path, dir: &Path) -> anyhow::Result<Self> {
        let socket = dir.join("db.sock");
        let path = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut args = vec!["--no-defaults".to_owned(), format!("--user={}", user()?)];
        args.extend([path("datadir", &dir.join("db")), path("socket", &socket), path("pid-file", &dir.join("db.pid"))]);
        // The data are deleted with the test, so they need not survive a power cut.
        let rest = "--skip-networking --skip-log-bin --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 \
            --sync-frm=0 --innodb-buffer-pool-size=128M --innodb-log-file-size=8M --innodb-temp-data-file-path=ibtmp1:1M:autoextend \
            --performance-schema=0 --max-connections=300 --character-set-server=utf8mb3";
        args.extend(rest.split_whitespace().map(str::to_owned));
        let mut process = Process::start("mariadbd", program, &args, &dir.join("mariadbd.log"))?;
        let sql = Sql { socket };
        let ready = crate::eventually("mariadbd answers", READY_WITHIN, async || {
            if let Some(status) = process.exited()? {
                return Ok(Err(anyhow::anyhow!("mariadbd ended with {status}")));
            }
            sql.run("select 1").await.map(|_| Ok(()))
        });
        let ready = ready.await.and_then(|ready| ready);
        ready.map_err(|error| anyhow::anyhow!("{error:#}; the end of its log:\n{}", process.log_tail()))?;
        Ok(Self { process, sql })
    }

    pub(super) fn sql(&self) -> &Sql {
        &self.sql
    }

    /// Ends it cleanly, so that its files are complete.
    pub(super) async fn shut_down(mut self) -> anyhow::Result<()> {
        // These data are kept for later starts, which need no recovery then.
        self.sql.run("set global innodb_fast_shutdown = 0").await?;
        self.process.terminate(READY_WITHIN).await.map(drop)
    }
}

impl Sql {
    /// Runs statements as root; returns the rows, with columns separated by tabs.
    pub(super) async fn run(&self, statements: &str) -> anyhow::Result<String> {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "--socket"]);
        command.arg(&self.socket).arg("--execute").arg(statements).stdin(Stdio::null());
        let out = tokio::task::spawn_blocking(move || command.output()).await?.context("cannot run mariadb")?;
        let said = String::from_utf8_lossy(&out.stderr);
        anyhow::ensure!(out.status.success(), "the database says {}", said.trim());
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }
}

/// Returns the current user, because mariadbd runs as root only with an explicit `--user=root`.
pub(super) fn user() -> anyhow::Result<String> {
    let out = Command::new("id").arg("-un").output().context("cannot run id")?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
