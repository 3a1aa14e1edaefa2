//! The programs of the testbed: MariaDB from the system, OpenStack in a Python environment that is created once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use crate::assets::{cache, once};

/// Names of Python, in the order in which they are tried.
const PYTHONS: [&str; 5] = ["python3", "python3.11", "python3.12", "python3.13", "python3.10"];
/// The minor versions of Python 3 for which the lock works: there are no wheels of its packages for older ones, and
/// newer ones are untried.
const VERSIONS: std::ops::RangeInclusive<u32> = 10..=13;

/// Returns `tests/openstack`, the folder of locks, plug-ins and configuration files.
pub(super) fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../openstack")
}

/// The programs, found or installed.
#[derive(Debug, Clone)]
pub(super) struct Environment {
    /// A virtual environment with Keystone, Octavia and Neutron.
    pub(super) venv: PathBuf,
    /// An environment with neutron-lbaas, if requested.
    pub(super) lbaas: Option<PathBuf>,
    pub(super) mariadbd: PathBuf,
}

impl Environment {
    /// Finds or installs the programs. Blocks, for about a minute if nothing is installed yet.
    ///
    /// # Errors
    /// Python, MariaDB or a package is missing and cannot be installed.
    pub(super) fn find() -> anyhow::Result<Self> {
        let python = PYTHONS.iter().map(PathBuf::from).chain(pyenv("3.1")).find(|python| suits(python, VERSIONS));
        let python = python.context(
            "the OpenStack testbed needs Python 3.10 to 3.13 with its venv module: install python3 and python3-venv",
        )?;
        Ok(Self { venv: venv(&python, "requirements.lock", &[])?, lbaas: None, mariadbd: mariadbd()? })
    }

    /// As [`Environment::find`], with neutron-lbaas; `None` without a Python 3.7.
    ///
    /// # Errors
    /// As [`Environment::find`].
    pub(super) fn find_with_lbaas() -> anyhow::Result<Option<Self>> {
        let mut pythons = std::iter::once(PathBuf::from("python3.7")).chain(pyenv("3.7."));
        let Some(python) = pythons.find(|python| suits(python, 7..=7)) else { return Ok(None) };
        // Packages of that time need these versions of the build tools.
        let tools = ["pip<24", "setuptools<58", "wheel"];
        // In parallel, because an installation mostly waits.
        let (lbaas, rest) = std::thread::scope(|scope| {
            let lbaas = scope.spawn(|| venv(&python, "requirements-lbaas.lock", &tools));
            let rest = Self::find();
            (lbaas.join().unwrap_or_else(|_| Err(anyhow::anyhow!("installing neutron-lbaas panicked"))), rest)
        });
        Ok(Some(Self { lbaas: Some(lbaas?), ..rest? }))
    }

    /// Runs a program of the environment to its end, with its output in `log`.
    ///
    /// # Errors
    /// It fails; the message has its output.
    pub(super) fn run(program: &Path, args: &[&str], log: &Path) -> anyhow::Result<()> {
        let out = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
        let said = || std::fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
        anyhow::ensure!(status.success(), "{} {} failed ({status}): {}", program.display(), args.join(" "), said());
        Ok(())
    }
}

/// Returns the first digits of the hash of all parts.
pub(super) fn hash(parts: impl IntoIterator<Item = Vec<u8>>) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part.len().to_be_bytes());
        sha.update(&part);
    }
    sha.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns pyenv's installed versions that begin with `prefix`.
fn pyenv(prefix: &str) -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let entries = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path().join("bin/python"))
        .collect();
    found.sort();
    found
}

/// Whether it is a Python 3 of these minor versions that can create environments.
fn suits(python: &Path, minor: std::ops::RangeInclusive<u32>) -> bool {
    let script = format!(
        "import sys, venv, ensurepip; sys.exit(not (3, {}) <= sys.version_info[:2] <= (3, {}))",
        minor.start(),
        minor.end()
    );
    let run = Command::new(python).args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

/// Returns the environment that `lock` describes. An environment cannot be moved, so it is created in place, and a
/// marker file is written atomically once it is complete.
fn venv(python: &Path, lock: &str, tools: &[&str]) -> anyhow::Result<PathBuf> {
    let lock = source().join(lock);
    let text = std::fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let version = Command::new(python).args(["-c", "import sys; print(sys.version, sys.prefix)"]).output();
    let key = hash([text, version.with_context(|| format!("cannot run {}", python.display()))?.stdout]);
    let dir = cache()?.join(format!("openstack-{key}"));
    let venv = dir.join("venv");
    once(&dir.join("made"), |work| {
        crate::assets::say(&format!("installing OpenStack once into {}; this takes a minute", venv.display()));
        if venv.exists() {
            std::fs::remove_dir_all(&venv).with_context(|| format!("cannot remove {}", venv.display()))?;
        }
        let log = work.join("log");
        Environment::run(python, &["-m", "venv", &venv.display().to_string()], &log)?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let own = venv.join("bin/python");
        if !tools.is_empty() {
            Environment::run(&own, &[&pip, tools].concat(), &log)?;
        }
        Environment::run(&own, &[&pip[..], &["--no-deps", "-r", &lock.display().to_string()]].concat(), &log)?;
        Ok(std::fs::write(work.join("made"), "")?)
    })?;
    Ok(venv)
}

/// Returns MariaDB's server, installed by apt-get if it is missing and the user is root.
fn mariadbd() -> anyhow::Result<PathBuf> {
    // Tests of one process may ask at the same time.
    static ASKED: Mutex<()> = Mutex::new(());
    let _one = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = find_mariadbd() {
        return Ok(found);
    }
    crate::assets::debian(&["mariadb-server-core", "mariadb-client-core"]).context(
        "the OpenStack testbed needs MariaDB: install mariadb-server-core and mariadb-client-core, or run as root \
         where there is apt-get",
    )?;
    find_mariadbd().context("apt-get installed mariadb-server-core, but there is no mariadbd")
}

fn find_mariadbd() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    dirs.map(|dir| dir.join("mariadbd")).find(|file| file.is_file())
}
