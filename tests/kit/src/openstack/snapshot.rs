//! Snapshots of a newly prepared stack's data, so that later starts need not prepare them.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::api::Api;
use super::database::Database;
use super::environment::{Environment, hash, source};
use super::layout::Layout;
use super::{ADMIN_PASSWORD, OpenStack, Options, REGION, Service, seed};
use crate::assets::{cache, once, say};

/// The folders in a snapshot.
const KEPT: [&str; 3] = ["db", "fernet", "credential"];

/// Returns the snapshot for this environment, and creates it first if it is missing.
///
/// # Errors
/// The schemas cannot be created, or a service does not start.
pub(super) async fn find(environment: &Environment) -> anyhow::Result<PathBuf> {
    let path = cache()?.join(format!("openstack-data-{}", key(environment)?)).join("data.tar");
    if path.is_file() {
        return Ok(path);
    }
    let (environment, target, runtime) = (environment.clone(), path.clone(), tokio::runtime::Handle::current());
    // The lock blocks the thread, and is held during all of the preparation.
    tokio::task::spawn_blocking(move || {
        once(&target, |work| {
            say("setting up Keystone, Octavia and Neutron once; this takes some 15 seconds");
            runtime.block_on(make(&environment, &work.join("data.tar")))
        })
    })
    .await??;
    Ok(path)
}

/// Unpacks the snapshot into `dir`.
///
/// # Errors
/// The error of tar.
pub(super) async fn unpack(snapshot: &Path, dir: &Path) -> anyhow::Result<()> {
    tar(&["-xf", &snapshot.display().to_string(), "-C", &dir.display().to_string()]).await
}

/// Returns a hash of all inputs of the data, so that a change of any of them creates the data anew.
fn key(environment: &Environment) -> anyhow::Result<String> {
    let mut parts = vec![environment.venv.display().to_string().into_bytes()];
    parts.extend(environment.lbaas.as_ref().map(|venv| venv.display().to_string().into_bytes()));
    for folder in ["conf", "plugins"] {
        let folder = source().join(folder);
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        files.retain(|path| path.is_file());
        files.sort();
        for file in files {
            parts.push(std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?);
        }
    }
    parts.extend([include_str!("snapshot.rs"), include_str!("seed.rs")].map(|text| text.as_bytes().to_vec()));
    Ok(hash(parts))
}

async fn make(environment: &Environment, target: &Path) -> anyhow::Result<()> {
    // Not beside the target, because the path of a socket must be short.
    let dir = tempfile::Builder::new().prefix("gimbal-openstack-").tempdir().context("no temporary folder")?;
    let layout = Layout::write(dir.path(), environment, &Options::default())?;
    let data = dir.path().to_owned();
    tokio::task::spawn_blocking(move || Database::create(&data)).await??;
    let database = Database::start(&environment.mariadbd, dir.path()).await?;
    for name in ["keystone", "octavia", "neutron", "nlbaas", "barbican"] {
        database.sql().run(&format!("create database {name} character set utf8mb3")).await?;
    }
    schemas(&layout).await?;
    let services = OpenStack::start_services(&layout, &[Service::Keystone]).await?;
    let admin = Api::admin(&layout)?;
    seed::catalog(&admin, &layout).await?;
    seed::people(&admin).await?;
    drop(services);
    database.shut_down().await?;
    let mut args =
        vec!["-cSf".to_owned(), target.display().to_string(), "-C".to_owned(), dir.path().display().to_string()];
    args.extend(KEPT.map(str::to_owned));
    tar(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// Creates the tables with each service's own programs, in parallel, because each mostly waits for Python to start.
async fn schemas(layout: &Layout) -> anyhow::Result<()> {
    let bin = |name: &str| layout.environment.venv.join("bin").join(name);
    let conf = |service: Service| format!("--config-file={}", layout.conf(service).display());
    let log = |name: &str| layout.dir.join(format!("{name}-setup.log"));
    let (keystone_conf, identity) = (conf(Service::Keystone), layout.identity());
    let keystone = {
        let (program, log, dir) = (bin("keystone-manage"), log("keystone"), layout.dir.clone());
        let user = super::database::user()?;
        move || {
            for folder in ["fernet", "credential"] {
                // Keystone logs a warning at each use of keys that others can read.
                let made = std::fs::DirBuilder::new().mode(0o700).create(dir.join(folder));
                made.with_context(|| format!("cannot make {folder}"))?;
            }
            Environment::run(&program, &[&keystone_conf, "db_sync"], &log)?;
            for setup in ["fernet_setup", "credential_setup"] {
                let owner = ["--keystone-user", &user, "--keystone-group", &user];
                Environment::run(&program, &[&[&keystone_conf, setup], &owner[..]].concat(), &log)?;
            }
            let mut args = vec![keystone_conf.as_str(), "bootstrap", "--bootstrap-password", ADMIN_PASSWORD];
            for url in ["--bootstrap-public-url", "--bootstrap-internal-url", "--bootstrap-admin-url"] {
                args.extend([url, &identity]);
            }
            args.extend(["--bootstrap-region-id", REGION]);
            Environment::run(&program, &args, &log)
        }
    };
    let octavia = {
        let (program, conf, log) = (bin("octavia-db-manage"), conf(Service::Octavia), log("octavia"));
        move || Environment::run(&program, &[&conf, "upgrade", "head"], &log)
    };
    let neutron = {
        let (program, conf, log) = (bin("neutron-db-manage"), conf(Service::Neutron), log("neutron"));
        move || Environment::run(&program, &[&conf, "upgrade", "heads"], &log)
    };
    let lbaas = {
        let program = layout.environment.lbaas.as_ref().map(|venv| venv.join("bin/neutron-db-manage"));
        let (conf, log) = (conf(Service::NeutronLbaas), log("neutron-lbaas"));
        move || {
            let Some(program) = program else { return Ok(()) };
            for project in ["neutron", "neutron-lbaas"] {
                Environment::run(&program, &[&conf, "--subproject", project, "upgrade", "heads"], &log)?;
            }
            Ok(())
        }
    };
    let (keystone, octavia, neutron, lbaas) = tokio::try_join!(
        tokio::task::spawn_blocking(keystone),
        tokio::task::spawn_blocking(octavia),
        tokio::task::spawn_blocking(neutron),
        tokio::task::spawn_blocking(lbaas),
    )?;
    keystone?;
    octavia?;
    neutron?;
    lbaas
}

async fn tar(args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("tar");
    command.args(args);
    let out = tokio::task::spawn_blocking(move || command.output()).await?.context("cannot run tar")?;
    anyhow::ensure!(out.status.success(), "tar failed: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}
