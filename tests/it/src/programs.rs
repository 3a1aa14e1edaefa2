//! Gimbal's programs with their certificates and files: a scene without the clusters.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gimbal_testkit::process::{binary, free_port, wait_url};
use gimbal_testkit::{Pair, Pki, Process};

use crate::{Discoverer, SOON, Writer};

/// Starts Gimbal's programs over mTLS. Certificates, configuration and logs are in a folder that is removed with this
/// value.
pub struct Programs {
    /// The authority that issues every certificate.
    pub pki: Pki,
    /// The folder of the programs; `None` to build them.
    bin_dir: Option<PathBuf>,
    dir: tempfile::TempDir,
}

impl Programs {
    /// Creates the folder and the authority. Programs are taken from `bin_dir`, or found as [`binary`] does.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(bin_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("gimbal-scene-").tempdir().context("no temporary folder")?;
        let pki = Pki::create(dir.path().join("pki"))?;
        Ok(Self { pki, bin_dir, dir })
    }

    pub(crate) fn take_from(&mut self, bin_dir: Option<PathBuf>) {
        self.bin_dir = bin_dir;
    }

    /// Returns the path of a file in the folder, which is removed with this value.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a configuration file for the writer, with these backends under the identities of [`Pki::backend`], and
    /// `spiffe://gimbal.example/admin` as admin. `extra` is inserted into each backend.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn config(&self, backends: &[&str], extra: &str) -> anyhow::Result<PathBuf> {
        let mut text = "admins: [\"spiffe://gimbal.example/admin\"]\nbackends:\n".to_owned();
        for name in backends {
            let identity = gimbal_testkit::pki::backend_identity(name);
            text.push_str(&format!("- name: {name}\n  identity: {identity}\n"));
            for line in extra.lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
        let path = self.path("writer.yaml");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Starts a writer over mTLS, and waits until it is ready.
    ///
    /// # Errors
    /// It does not get ready; the message has the end of its log.
    pub async fn start_writer(
        &self,
        kubeconfig: &Path,
        port: u16,
        config: &Path,
        args: &[&str],
    ) -> anyhow::Result<Writer> {
        let admin_port = free_port()?;
        let all = self.writer_args(kubeconfig, port, admin_port, config, args)?;
        let log = self.path(&format!("writer-{port}-{admin_port}.log"));
        let process = Process::start("gimbal-writer", &self.binary("gimbal-writer")?, &all, &log)?;
        let writer = Writer { process, port, admin_port };
        ready(&writer.process, admin_port).await?;
        Ok(writer)
    }

    /// Returns the command line of a writer.
    ///
    /// # Errors
    /// Its certificate cannot be written.
    pub fn writer_args(
        &self,
        kubeconfig: &Path,
        port: u16,
        admin_port: u16,
        config: &Path,
        args: &[&str],
    ) -> anyhow::Result<Vec<String>> {
        let pair = self.pki.server("writer")?;
        let mut all = vec![
            "--config".to_owned(),
            config.display().to_string(),
            "--kubeconfig".to_owned(),
            kubeconfig.display().to_string(),
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
            "--admin-listen".to_owned(),
            format!("127.0.0.1:{admin_port}"),
        ];
        all.extend(self.tls(&pair));
        all.extend(args.iter().map(ToString::to_string));
        Ok(all)
    }

    /// Starts `gimbal-kubernetes-discoverer` for a backend. Does not wait until it is ready, because its source may be
    /// down.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_discoverer(&self, backend: &str, kubeconfig: &Path, args: &[String]) -> anyhow::Result<Discoverer> {
        let source = ["--kubeconfig".to_owned(), kubeconfig.display().to_string()];
        self.start_any_discoverer("gimbal-kubernetes-discoverer", backend, &[&source[..], args].concat())
    }

    /// Starts a discoverer of an OpenStack cloud for a backend, over mTLS with that backend's certificate.
    /// `credentials` is a folder with a file for each key. Does not wait until it is ready, because the cloud may be
    /// down.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn openstack_discoverer(
        &self,
        backend: &str,
        credentials: &Path,
        writer_port: u16,
        args: &[&str],
    ) -> anyhow::Result<Discoverer> {
        let source = [format!("--credentials={}", credentials.display())];
        let writer = self.to_writer(&self.pair(backend)?, writer_port);
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        self.start_any_discoverer("gimbal-openstack-discoverer", backend, &[&source[..], &writer, &args].concat())
    }

    /// Starts `gimbal-openstack-writer` over mTLS, and waits until it is ready. `credentials` is a folder with a file for
    /// each key.
    ///
    /// # Errors
    /// It does not get ready; the message has the end of its log.
    pub async fn start_openstack_writer(
        &self,
        credentials: &Path,
        port: u16,
        config: &Path,
        args: &[&str],
        env: &[(&str, &str)],
    ) -> anyhow::Result<Writer> {
        let admin_port = free_port()?;
        let mut all = vec![
            format!("--config={}", config.display()),
            format!("--credentials={}", credentials.display()),
            format!("--listen=127.0.0.1:{port}"),
            format!("--admin-listen=127.0.0.1:{admin_port}"),
        ];
        all.extend(self.tls(&self.pki.server("openstack-writer")?));
        all.extend(args.iter().map(ToString::to_string));
        let log = self.path(&format!("openstack-writer-{port}-{admin_port}.log"));
        let name = "gimbal-openstack-writer";
        let process = Process::start_with(name, &self.binary(name)?, &all, env, &log)?;
        let writer = Writer { process, port, admin_port };
        ready(&writer.process, admin_port).await?;
        Ok(writer)
    }

    fn start_any_discoverer(&self, program: &str, backend: &str, args: &[String]) -> anyhow::Result<Discoverer> {
        let (port, admin_port) = (free_port()?, free_port()?);
        let common = [
            format!("--backend-name={backend}"),
            format!("--listen=127.0.0.1:{port}"),
            format!("--admin-listen=127.0.0.1:{admin_port}"),
        ];
        let log = self.path(&format!("discoverer-{backend}-{port}.log"));
        let process = Process::start(program, &self.binary(program)?, &[&common[..], args].concat(), &log)?;
        Ok(Discoverer { process, port, admin_port })
    }

    /// Returns the flags of a discoverer that has a writer.
    ///
    /// The writer is addressed as `localhost`, the name in its certificate.
    #[must_use]
    pub fn to_writer(&self, pair: &Pair, port: u16) -> Vec<String> {
        let mut args = vec![format!("--writer=https://localhost:{port}")];
        args.extend(self.tls(pair));
        args
    }

    /// Returns a backend's certificate, which is issued only once: a process that was just started may be reading it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn pair(&self, backend: &str) -> anyhow::Result<Pair> {
        let dir = self.pki.ca().with_file_name("");
        let pair = Pair { cert: dir.join(format!("{backend}.pem")), key: dir.join(format!("{backend}.key")) };
        if pair.cert.exists() { Ok(pair) } else { self.pki.backend(backend) }
    }

    /// Returns the flags for a backend's certificate.
    ///
    /// # Errors
    /// As [`Programs::pair`].
    pub fn tls_of(&self, backend: &str) -> anyhow::Result<Vec<String>> {
        Ok(self.tls(&self.pair(backend)?))
    }

    /// Returns the flags of a program that serves with this certificate.
    #[must_use]
    pub fn tls(&self, pair: &Pair) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        vec![
            "--tls-cert".to_owned(),
            text(&pair.cert),
            "--tls-key".to_owned(),
            text(&pair.key),
            "--tls-ca".to_owned(),
            text(self.pki.ca()),
        ]
    }

    fn binary(&self, name: &str) -> anyhow::Result<PathBuf> {
        match &self.bin_dir {
            Some(dir) => Ok(dir.join(name)),
            None => binary(name),
        }
    }
}

pub(crate) async fn ready(process: &Process, admin_port: u16) -> anyhow::Result<()> {
    let url = format!("http://127.0.0.1:{admin_port}/readyz");
    match wait_url(&url, SOON).await {
        Ok(_) => Ok(()),
        Err(error) => anyhow::bail!("{error:#}\n{}", process.log_tail()),
    }
}
