//! `gimbalctl diff`: what sources offer, what the writer holds, and what is in the Gimbal cluster, where they differ.

mod compare;

use std::path::Path;
use std::time::Duration;

use clap::Args;
use gimbal_runtime::Exit;
use gimbal_transport::{Channel, Status};
use gimbal_wire::pb;
use pb::inspection_service_client::InspectionServiceClient;
use serde_json::{Value, json};

pub use self::compare::{DiffPlace, DifferenceKind, Known, service_id, source_with_writer, writer_with_cluster};
use self::compare::{Difference, that_stay};
use crate::context::{self, Context};
use crate::output::{OutputForm, print, remark};
use crate::refusal::failed;
use crate::table::columns;
use crate::{Args as ServerArgs, DIAL, connect_to};

/// Time after which what differs is looked at again. A change that is on its way needs less.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// What is compared.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Only this backend
    #[arg(long)]
    backend: Option<String>,
    /// A discoverer to compare the writer with: its URL, asked with --tls-cert and --tls-key, or the name of a context that has
    /// both (may be repeated)
    #[arg(long = "discoverer", value_name = "URL|CONTEXT")]
    discoverers: Vec<String>,
}

/// A server, and what it is called in messages.
pub struct Server {
    name: String,
    client: InspectionServiceClient<Channel>,
}

/// What a discoverer knows.
struct Source {
    backend: pb::Backend,
    services: Known,
}

/// Compares, and prints each difference.
///
/// # Errors
/// Something differs, with exit code 1 as of `kubectl diff`; or it cannot be compared, with exit code 2.
pub async fn run(what: &DiffArgs, args: &ServerArgs, contexts: Option<&Path>) -> Result<(), Exit> {
    let differences = differences(what, args, contexts).await.map_err(|error| Exit::Usage(error.to_string()))?;
    print(&match args.output {
        OutputForm::Table if differences.is_empty() => "nothing differs\n".to_owned(),
        OutputForm::Table => table(&differences),
        OutputForm::Json => differences.iter().map(|one| format!("{}\n", json_of(one))).collect(),
    })?;
    match differences.len() {
        0 => Ok(()),
        1 => Err(Exit::Failure("one difference".to_owned())),
        count => Err(Exit::Failure(format!("{count} differences"))),
    }
}

async fn differences(what: &DiffArgs, args: &ServerArgs, contexts: Option<&Path>) -> Result<Vec<Difference>, Exit> {
    let writer = Server::of("--server", args.server().to_owned(), &args.given()).await?;
    let mut discoverers = Vec::new();
    for named in &what.discoverers {
        let (url, with) = discoverer(named, args.given(), contexts)?;
        discoverers.push(Server::of("--discoverer", url, &with).await?);
    }
    if discoverers.is_empty() {
        remark("only the writer and the Gimbal cluster are compared: --discoverer names a source, too");
    }
    let first = look(what, &writer, &discoverers).await?;
    if first.is_empty() {
        return Ok(first);
    }
    tokio::time::sleep(SECOND_LOOK).await;
    Ok(that_stay(&first, look(what, &writer, &discoverers).await?))
}

/// Returns the URL of a discoverer, and the certificates to ask it with: both of a context, or a URL with those that the
/// command line names.
///
/// # Errors
/// There is no such context, or it has no server.
pub fn discoverer(named: &str, given: Context, contexts: Option<&Path>) -> Result<(String, Context), Exit> {
    if named.contains("://") {
        return Ok((named.to_owned(), given));
    }
    let mut found = context::find(contexts, Some(named))?.unwrap_or_default();
    let no_server =
        || format!("--discoverer {named}: the context has no server: gimbalctl context set {named} --server URL");
    let url = found.server.take().ok_or_else(|| Exit::Usage(no_server()))?;
    Ok((url, found))
}

async fn look(what: &DiffArgs, writer: &Server, discoverers: &[Server]) -> Result<Vec<Difference>, Exit> {
    // The sources first: what comes to the writer meanwhile is no difference of a source that is at rest.
    let mut sources = Vec::new();
    for discoverer in discoverers {
        sources.push(discoverer.source(what.backend.as_deref()).await?);
    }
    let held = writer.held(what.backend.as_deref()).await?;
    let mut found = writer_with_cluster(&held);
    for Source { backend, services } in &sources {
        let of_backend = |id: &compare::ServiceId| id.0 == backend.name;
        let held: Known =
            held.iter().filter(|(id, _)| of_backend(id)).map(|(id, status)| (id.clone(), status.clone())).collect();
        found.extend(source_with_writer(services, &held, |namespace| knows(backend, namespace)));
    }
    found.sort();
    Ok(found)
}

/// Whether a discoverer knows all of a namespace now.
pub fn knows(backend: &pb::Backend, namespace: &str) -> bool {
    let covers = |scope: &pb::Scope| scope.namespaces.is_empty() || scope.namespaces.iter().any(|one| one == namespace);
    backend.complete && !backend.unknown.iter().filter_map(|unknown| unknown.scope.as_ref()).any(covers)
}

impl Server {
    /// Connects to a server that a flag names, with the certificates of a context.
    ///
    /// # Errors
    /// It is not reached, or the flags are wrong.
    pub async fn of(flag: &str, url: String, with: &Context) -> Result<Self, Exit> {
        let client = InspectionServiceClient::new(connect_to(flag, &url, with, DIAL).await?);
        Ok(Self { name: format!("{flag} {url}"), client })
    }

    /// Returns what the writer holds.
    ///
    /// # Errors
    /// The server does not answer, is no writer or does not lead, or knows no such backend.
    pub async fn held(&self, backend: Option<&str>) -> Result<Known, Exit> {
        let backends = self.backends_of_leader().await?;
        if let Some(backend) = backend.filter(|name| !backends.iter().any(|one| one.name == **name)) {
            return Err(self.no_backend(backend));
        }
        self.services(backend).await
    }

    /// Returns a backend as the writer knows it, and what the writer holds of it after that.
    ///
    /// # Errors
    /// As [`held`](Self::held).
    pub async fn held_of(&self, backend: &str) -> Result<(pb::Backend, Known), Exit> {
        let backends = self.backends_of_leader().await?;
        let found = backends.into_iter().find(|one| one.name == backend).ok_or_else(|| self.no_backend(backend))?;
        Ok((found, self.services(Some(backend)).await?))
    }

    fn no_backend(&self, backend: &str) -> Exit {
        Exit::Failure(format!("{}: no backend {backend:?}: gimbalctl backends lists them", self.name))
    }

    async fn backends_of_leader(&self) -> Result<Vec<pb::Backend>, Exit> {
        let answer = self.backends().await?;
        let Some(standing) = answer.writer else {
            return Err(Exit::Failure(format!("{}: it is a discoverer, and --server has to be a writer", self.name)));
        };
        if !standing.leading {
            let leader = if standing.leader.is_empty() { "not known" } else { &standing.leader };
            return Err(Exit::Failure(format!(
                "{}: it does not lead; the leader is {leader}: ask that one",
                self.name
            )));
        }
        Ok(answer.backends)
    }

    /// Returns what a discoverer offers.
    async fn source(&self, backend: Option<&str>) -> Result<Source, Exit> {
        let answer = self.backends().await?;
        let name = &self.name;
        let [own] = answer.backends.as_slice() else {
            return Err(Exit::Failure(format!("{name}: it is no discoverer, which has one backend")));
        };
        if answer.writer.is_some() {
            return Err(Exit::Failure(format!("{name}: it is a writer")));
        }
        if let Some(backend) = backend.filter(|backend| *backend != own.name) {
            return Err(Exit::Failure(format!("{name}: it is of backend {}, not {backend}", own.name)));
        }
        if !own.complete && own.unknown.is_empty() {
            return Err(Exit::Failure(format!("{name}: it has not read its source yet: {}", own.trouble)));
        }
        for unknown in &own.unknown {
            remark(&format!(
                "{}: a part of the source cannot be read and is not compared: {}",
                own.name, unknown.reason
            ));
        }
        Ok(Source { services: self.services(Some(&own.name)).await?, backend: own.clone() })
    }

    async fn backends(&self) -> Result<pb::ListBackendsResponse, Exit> {
        let answer = self.client.clone().list_backends(pb::ListBackendsRequest {}).await;
        Ok(answer.map_err(|status| self.failed(status))?.into_inner())
    }

    async fn services(&self, backend: Option<&str>) -> Result<Known, Exit> {
        let (mut known, mut page_token) = (Known::new(), String::new());
        loop {
            let backend = backend.unwrap_or_default().to_owned();
            let request = pb::ListServicesRequest { backend, page_token, ..Default::default() };
            let page = self.client.clone().list_services(request).await.map_err(|status| self.failed(status))?;
            let page = page.into_inner();
            let is_unsaid =
                |status: &pb::ServiceStatus| status.digest.is_empty() && status.state() == pb::ServiceState::Synced;
            if page.services.iter().any(is_unsaid) {
                let name = &self.name;
                return Err(Exit::Failure(format!("{name}: it does not say what it holds: it is of an older version")));
            }
            known.extend(page.services.into_iter().map(|status| (service_id(&status), status)));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(known);
            }
        }
    }

    fn failed(&self, status: Status) -> Exit {
        Exit::Failure(format!("{}: {}", self.name, failed(status)))
    }
}

fn table(differences: &[Difference]) -> String {
    let heads = ["BACKEND", "SERVICE", "AT", "DIFFERENCE", "WHAT"].map(str::to_owned).to_vec();
    let row = |one: &Difference| {
        let (backend, namespace, name) = &one.service;
        let (place, kind) = (one.place.name().to_owned(), one.kind.name().to_owned());
        vec![backend.clone(), format!("{namespace}/{name}"), place, kind, one.what.clone()]
    };
    columns(&std::iter::once(heads).chain(differences.iter().map(row)).collect::<Vec<_>>())
}

fn json_of(one: &Difference) -> Value {
    let (backend, namespace, name) = &one.service;
    json!({
        "backend": backend,
        "service": format!("{namespace}/{name}"),
        "at": one.place.name(),
        "difference": one.kind.name(),
        "what": one.what,
    })
}
