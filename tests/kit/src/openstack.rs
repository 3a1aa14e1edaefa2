//! An OpenStack cloud without hardware: the real Keystone and Octavia, and optionally Neutron and neutron-lbaas.
//!
//! `tests/openstack/README.md` describes how they are installed. A provider driver of this repository makes load
//! balancers ACTIVE; tests control it with tags (`lab:stall`, `lab:prov=ERROR`, `lab:op=ERROR`), and all services with
//! rules ([`Steer`]). With a [`DataPlane`] the load balancers answer, each by a real haproxy.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use gimbal_testkit::openstack::{OpenStack, Service, User};
//! use serde_json::json;
//!
//! let cloud = OpenStack::start().await?;
//! let balancer = cloud.create_load_balancer("alpha", &json!({"name": "web"})).await?;
//! let pool = json!({"loadbalancer_id": balancer["id"], "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
//! let pool = cloud.create("/pools", &pool).await?;
//! let credentials = cloud.credentials(User::Discoverer);
//! let mark = cloud.calls_mark(Service::Octavia)?;
//! // … a client polls with the credentials …
//! println!("{} calls", cloud.calls_since(Service::Octavia, mark)?.len());
//! # Ok(())
//! # }
//! ```
//!
//! A stack takes some 400 MB and four seconds, so a test binary shares one if it can.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

mod answer_cutter;
mod api;
mod calls;
mod data_plane;
mod database;
mod environment;
mod key_manager;
mod layout;
mod load_balancing;
mod projects;
mod scale;
mod seed;
mod snapshot;
mod steer;
mod users;

pub use answer_cutter::AnswerCutter;
pub use api::{Api, Refused, USER_AGENT};
pub use calls::Call;
pub use data_plane::{ClientRequest, DataPlane, Got, Reply, Traffic};
pub use scale::Scale;
pub use steer::{Steer, Steered};
pub use users::{Credentials, User};

use crate::Process;
use database::Database;
use environment::Environment;
use layout::Layout;

/// The projects that every stack has; the discoverer is a member of each.
pub const PROJECTS: [&str; 3] = ["alpha", "beta", "gamma"];
/// The domain of the projects, and of every user but the administrator.
pub const DOMAIN: &str = "lab";
/// The region of Keystone, Octavia and Neutron.
pub const REGION: &str = "RegionOne";

const ADMIN_PASSWORD: &str = "admin-secret";
/// How long a service may take to get ready, on a machine that is busy with other tests.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A service of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Identity.
    Keystone,
    /// Load balancing.
    Octavia,
    /// Networks; see [`Options::neutron`].
    Neutron,
    /// Secrets; see [`Options::key_manager`].
    Barbican,
    /// Load balancing of the Mitaka era; see [`OpenStack::with_lbaas`].
    NeutronLbaas,
}

/// Reports that a test is skipped on this machine. Does not use `eprintln!`, whose output the test harness hides when a
/// test passes.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Without a reader of stderr the message is lost.
    drop(writeln!(std::io::stderr().lock(), "SKIPPED {test}: {why}"));
}

impl Service {
    const ALL: [Self; 5] = [Self::Keystone, Self::Octavia, Self::Neutron, Self::Barbican, Self::NeutronLbaas];

    fn name(self) -> &'static str {
        match self {
            Self::Keystone => "keystone",
            Self::Octavia => "octavia",
            Self::Neutron => "neutron",
            Self::Barbican => "barbican",
            Self::NeutronLbaas => "neutron-lbaas",
        }
    }
}

/// Configuration of a stack.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether the services speak HTTPS, with certificates of an authority of their own.
    pub tls: bool,
    /// How long a token lives; whole seconds.
    pub token_ttl: Duration,
    /// How long Octavia caches a validated token; `None` for no cache, so that a revoked token and a Keystone that is
    /// down show at once. OpenStack's default is 300 s.
    pub token_cache: Option<Duration>,
    /// Maximum of rows in a page of Octavia's lists.
    pub page_max: u32,
    /// Maximum of rows that Keystone reads of a list (`max_db_limit`).
    pub keystone_max: u32,
    /// Number of processes of Octavia's API behind its address.
    pub octavia_workers: u32,
    /// How long each change of a load balancer stays PENDING.
    pub settle_delay: Duration,
    /// Whether Neutron runs, and Octavia creates VIPs in it: real subnets and ports, but 2 load balancers a second
    /// instead of 29. Without Neutron every subnet ID is accepted.
    pub neutron: bool,
    /// Whether Barbican runs, and Octavia reads certificates there. Without it the catalog has none, and Octavia takes every
    /// reference for that of some certificate.
    pub key_manager: bool,
    /// Whether load balancers answer: see [`OpenStack::data_plane`].
    pub data_plane: bool,
    /// Load balancers that exist from the start, in projects of their own.
    pub scale: Option<Scale>,
}

impl Options {
    /// The default, in which services believe a token for a while once they have checked it, as they do by default in
    /// production. Keystone computes less then.
    #[must_use]
    pub fn with_checked_tokens() -> Self {
        Self { token_cache: Some(Duration::from_secs(300)), ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: false,
            token_ttl: Duration::from_secs(3600),
            token_cache: None,
            page_max: 1000,
            keystone_max: 1000,
            octavia_workers: 1,
            settle_delay: Duration::ZERO,
            neutron: false,
            key_manager: false,
            data_plane: false,
            scale: None,
        }
    }
}

/// A cloud of one test. Its services and data are removed when it is dropped.
pub struct OpenStack {
    services: Mutex<BTreeMap<Service, Process>>,
    layout: Layout,
    identity: Api,
    octavia: Api,
    data_plane: Option<DataPlane>,
    // The services end before the database that they use.
    database: Database,
    _dir: tempfile::TempDir,
}

impl OpenStack {
    /// Starts Keystone and Octavia and waits until they answer.
    ///
    /// # Errors
    /// A program is missing and cannot be installed, or a service does not get ready; the message has the end of its
    /// log.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Starts a cloud with these options.
    ///
    /// # Errors
    /// As [`OpenStack::start`].
    pub async fn start_with(options: Options) -> anyhow::Result<Self> {
        let environment = tokio::task::spawn_blocking(Environment::find).await??;
        Self::start_in(&environment, &options).await
    }

    /// Starts a cloud with neutron-lbaas too; `None` without a Python 3.7 to run it with.
    ///
    /// # Errors
    /// As [`OpenStack::start`].
    pub async fn with_lbaas(options: Options) -> anyhow::Result<Option<Self>> {
        match tokio::task::spawn_blocking(Environment::find_with_lbaas).await?? {
            Some(environment) => Self::start_in(&environment, &options).await.map(Some),
            None => Ok(None),
        }
    }

    /// Installs and prepares what a start needs, with neutron-lbaas if it can run, so that tests need not wait for it.
    /// Returns the path of the initial data.
    ///
    /// # Errors
    /// As [`OpenStack::start`].
    pub async fn prepare() -> anyhow::Result<PathBuf> {
        if let Some(environment) = tokio::task::spawn_blocking(Environment::find_with_lbaas).await?? {
            snapshot::find(&environment).await?;
        }
        let environment = tokio::task::spawn_blocking(Environment::find).await??;
        snapshot::find(&environment).await
    }

    async fn start_in(environment: &Environment, options: &Options) -> anyhow::Result<Self> {
        let snapshot = snapshot::find(environment).await?;
        // Another process may take a free port before the server binds it.
        let mut last = None;
        for _ in 0..3 {
            match Self::try_start(environment, &snapshot, options).await {
                Ok(stack) => return Ok(stack),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("not tried")?)
    }

    async fn try_start(environment: &Environment, snapshot: &Path, options: &Options) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("gimbal-openstack-").tempdir().context("no temporary folder")?;
        let layout = Layout::write(dir.path(), environment, options)?;
        snapshot::unpack(snapshot, dir.path()).await?;
        let database = Database::start(&environment.mariadbd, dir.path()).await?;
        database.sql().run(&layout.catalog()).await?;
        if let Some(scale) = options.scale {
            database.sql().run(&scale.statements()).await?;
        }
        let data_plane = match options.data_plane {
            true => Some(DataPlane::start(dir.path(), environment).await?),
            false => None,
        };
        let services = Mutex::new(Self::start_services(&layout, &layout.services()).await?);
        let (identity, octavia) = (Api::admin(&layout)?, Api::octavia(&layout)?);
        Ok(Self { services, layout, identity, octavia, data_plane, database, _dir: dir })
    }

    async fn start_services(layout: &Layout, wanted: &[Service]) -> anyhow::Result<BTreeMap<Service, Process>> {
        let mut started = BTreeMap::new();
        for service in wanted {
            started.insert(*service, layout.start(*service)?);
        }
        for (service, process) in &mut started {
            Self::ready(layout, *service, process).await?;
        }
        Ok(started)
    }

    async fn ready(layout: &Layout, service: Service, process: &mut Process) -> anyhow::Result<()> {
        let client = api::client(layout.ca.as_deref())?;
        let url = format!("{}/", layout.url(service));
        let what = format!("{} answers", service.name());
        let wait = crate::eventually(&what, READY_WITHIN, async || {
            if let Some(status) = process.exited()? {
                return Ok(Err(anyhow::anyhow!("{} ended with {status}", service.name())));
            }
            // The status does not matter: Keystone answers 300 here.
            client.get(&url).send().await?;
            anyhow::Ok(Ok(()))
        });
        let result = wait.await.and_then(|ready| ready);
        result.map_err(|error| anyhow::anyhow!("{error:#}; the end of its log:\n{}", process.log_tail()))
    }

    /// Returns Keystone's URL, with `/v3`.
    #[must_use]
    pub fn keystone_url(&self) -> String {
        self.layout.identity()
    }

    /// Returns the URL of a service, without a path.
    #[must_use]
    pub fn url(&self, service: Service) -> String {
        self.layout.url(service)
    }

    /// Returns Keystone's API, below `/v3`, as the administrator.
    #[must_use]
    pub fn identity(&self) -> &Api {
        &self.identity
    }

    /// Returns Octavia's API, below `/v2/lbaas`, as the administrator, who sees all projects.
    #[must_use]
    pub fn octavia(&self) -> &Api {
        &self.octavia
    }

    /// Returns the API of Neutron or neutron-lbaas, below `/v2.0`, as the administrator.
    ///
    /// # Errors
    /// It is another service, or the authority's certificate cannot be read.
    pub fn neutron(&self, service: Service) -> anyhow::Result<Api> {
        anyhow::ensure!(matches!(service, Service::Neutron | Service::NeutronLbaas), "{service:?} is no Neutron");
        Api::neutron(&self.layout, service)
    }

    /// Returns what answers at the addresses of the load balancers.
    ///
    /// # Errors
    /// The cloud was started without [`Options::data_plane`].
    pub fn data_plane(&self) -> anyhow::Result<&DataPlane> {
        self.data_plane.as_ref().context("the cloud was started without a data plane")
    }

    /// Runs SQL as root, in the databases `keystone`, `octavia` and `neutron`: for states that no API creates. Returns
    /// the rows, with columns separated by tabs.
    ///
    /// # Errors
    /// The database's error.
    pub async fn sql(&self, statements: &str) -> anyhow::Result<String> {
        self.database.sql().run(statements).await
    }

    /// Kills a service (SIGKILL). Its data stay.
    ///
    /// # Errors
    /// It does not run, or its port is still served after a while.
    pub async fn stop(&self, service: Service) -> anyhow::Result<()> {
        let process = self.services().remove(&service);
        process.with_context(|| format!("{} does not run", service.name()))?.kill()?;
        // The process that serves is a child of the killed one and ends a moment later.
        let client = api::client(self.layout.ca.as_deref())?;
        let what = format!("{} answers no more", service.name());
        crate::eventually(&what, READY_WITHIN, async || match client.get(self.url(service)).send().await {
            Err(error) if error.is_connect() => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
    }

    /// Starts a service again, on the same port with the same data, and waits until it answers.
    ///
    /// # Errors
    /// It is running already, or does not get ready.
    pub async fn resume(&self, service: Service) -> anyhow::Result<()> {
        anyhow::ensure!(!self.services().contains_key(&service), "{} runs already", service.name());
        let mut process = self.layout.start(service)?;
        Self::ready(&self.layout, service, &mut process).await?;
        self.services().insert(service, process);
        Ok(())
    }

    /// Returns the end of a service's log.
    #[must_use]
    pub fn log_tail(&self, service: Service) -> String {
        self.services().get(&service).map(Process::log_tail).unwrap_or_default()
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<Service, Process>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
