//! Many backends in this process: the real discoverer framework, each with a simulated source.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use clap::Parser as _;
use gimbal_discoverer::{AgentArgs, Changed, Program, Setup};
use gimbal_model::{Endpoint, EndpointPort, Header, PortSet, Protocol, Service, ServicePort, SourceKey};
use gimbal_runtime::Exit;
use gimbal_tests::Scene;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::content::Content;
use crate::simulated::Simulated;
use crate::{change, fill};

/// The size of each backend.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Services of each backend.
    pub services: usize,
    /// Endpoints of each Service.
    pub endpoints: u32,
}

/// Backends `b001`, `b002` ... that are connected, or try to be.
pub struct Backends {
    size: Size,
    /// Sends changes to each backend's source.
    sources: Vec<mpsc::UnboundedSender<Changed>>,
    /// The newest change of each Service of each backend, by its number.
    newest: Vec<Vec<Option<u32>>>,
    shutdown: CancellationToken,
    tasks: JoinSet<Result<(), Exit>>,
}

/// Returns the name of a backend by its number.
#[must_use]
pub fn name(backend: usize) -> String {
    format!("b{:03}", backend + 1)
}

impl Backends {
    /// Starts `count` simulated backends that connect to the writer at `writer_port`.
    ///
    /// # Errors
    /// A certificate cannot be issued, or a backend's own listeners find no free port.
    pub async fn start(scene: &Scene, count: usize, size: Size, writer_port: u16) -> anyhow::Result<Self> {
        Self::start_with(scene, count, size, &[writer_port]).await
    }

    /// As [`Backends::start`], with several writers of which one leads.
    ///
    /// # Errors
    /// As [`Backends::start`].
    pub async fn start_with(scene: &Scene, count: usize, size: Size, writer_ports: &[u16]) -> anyhow::Result<Self> {
        let (shutdown, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let mut sources = Vec::new();
        for backend in 0..count {
            let setup = Setup::new(args(scene, backend, writer_ports)?, PROGRAM)?;
            let (sender, changes) = mpsc::unbounded_channel();
            let all = (0..size.services).map(|number| (key(number), Some(service(size, backend, number, None))));
            sender.send(all.collect())?;
            let source = Simulated::new(format!("simulated {}", name(backend)), changes);
            let discoverer = setup.discover(source).await?;
            tasks.spawn(discoverer.run(shutdown.clone()));
            sources.push(sender);
        }
        let newest = vec![vec![None; size.services]; count];
        Ok(Self { size, sources, newest, shutdown, tasks })
    }

    /// Returns the number of Services of all backends, each with one slice.
    #[must_use]
    pub fn services(&self) -> usize {
        self.sources.len() * self.size.services
    }

    /// Replaces one endpoint of one Service of each backend in turn. Change `number` appears as the endpoint's address.
    ///
    /// # Errors
    /// The backend has ended.
    pub fn change(&mut self, number: u32) -> anyhow::Result<change::Change> {
        let at = number as usize % self.services();
        let (backend, service_number) = (at % self.sources.len(), at / self.sources.len());
        self.newest[backend][service_number] = Some(number);
        let service = service(self.size, backend, service_number, Some(number));
        let begun = Instant::now();
        self.sources[backend].send(vec![(key(service_number), Some(service))])?;
        Ok(change::Change { key: at, begun, taken: begun })
    }

    /// Returns what should be published.
    #[must_use]
    pub fn wanted(&self) -> Content {
        let mut wanted = Content::new();
        for (backend, services) in self.newest.iter().enumerate() {
            for (number, newest) in services.iter().enumerate() {
                let key = key(number);
                let target = (key.namespace.to_string(), format!("{}-{}", name(backend), key.name));
                let addresses = addresses(self.size, backend, number, *newest);
                wanted.insert(target, addresses.map(|address| address.to_string().into()).collect());
            }
        }
        wanted
    }

    /// Ends all backends.
    ///
    /// # Errors
    /// A backend had failed.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(())
    }
}

const PROGRAM: Program = Program { name: "gimbal-simulated-discoverer", version: env!("CARGO_PKG_VERSION") };

#[derive(clap::Parser)]
struct Args {
    #[command(flatten)]
    agent: AgentArgs,
}

fn args(scene: &Scene, backend: usize, writer_ports: &[u16]) -> anyhow::Result<AgentArgs> {
    let name = name(backend);
    let pair = scene.pair(&name)?;
    let text = |path: &std::path::Path| path.display().to_string();
    let writers: Vec<String> = writer_ports.iter().map(|port| format!("https://localhost:{port}")).collect();
    let writer = writers.join(",");
    let (cert, key, ca) = (text(&pair.cert), text(&pair.key), text(scene.pki.ca()));
    let any = "127.0.0.1:0";
    let flags = [
        ("--backend-name", &*name),
        ("--writer", &*writer),
        ("--tls-cert", &*cert),
        ("--tls-key", &*key),
        ("--tls-ca", &*ca),
        ("--listen", any),
        ("--admin-listen", any),
    ];
    let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
    Ok(Args::try_parse_from(std::iter::once("backend").chain(flags))?.agent)
}

fn key(number: usize) -> SourceKey {
    SourceKey::new(fill::namespace(number), format!("web-{number:03}"))
}

/// Returns a Service of a backend. A change replaces its first endpoint.
fn service(size: Size, backend: usize, number: usize, change: Option<u32>) -> Arc<Service> {
    let (name, protocol): (Arc<str>, _) = ("http".into(), Protocol::Tcp);
    let header = Header {
        labels: [("app".into(), format!("web-{number:03}").into())].into(),
        ports: vec![ServicePort { name: name.clone(), port: 80, protocol, app_protocol: None, target_port: None }],
        ..Header::default()
    };
    let ports = PortSet::new(vec![EndpointPort { name, port: Some(8080), protocol, app_protocol: None }]);
    let endpoints = addresses(size, backend, number, change).map(|address| (ports.clone(), Endpoint::ready(address)));
    Arc::new(Service::new(Arc::new(header), endpoints))
}

/// Returns addresses in 10.0.0.0/9; those of changes are above.
#[allow(clippy::cast_possible_truncation)]
fn addresses(size: Size, backend: usize, number: usize, change: Option<u32>) -> impl Iterator<Item = IpAddr> {
    let first = 0x0a00_0001 + (backend * size.services + number) as u32 * size.endpoints;
    let replaced = change.map_or_else(|| Ipv4Addr::from(first), change::address);
    std::iter::once(replaced).chain((first + 1..first + size.endpoints).map(Ipv4Addr::from)).map(IpAddr::V4)
}
