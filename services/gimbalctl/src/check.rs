//! `gimbalctl check`: whether everything is as it should be, seen from here to each backend or cluster.

mod backend;
mod cluster;
mod facts;
mod ids;
mod limits;
mod names;
mod pair;
mod result;
mod server;
mod versions;

use std::time::{Duration, Instant};

use gimbal_kuryr_wire::pb as kuryr;
use gimbal_runtime::Exit;
use gimbal_transport::{Channel, Code, Status};
use gimbal_wire::pb;
use jiff::Timestamp;
use kuryr::inspection_service_client::InspectionServiceClient as ClusterClient;
use pb::inspection_service_client::InspectionServiceClient as BackendClient;

use crate::Args;
use crate::certs::ShownCertificate;
use crate::output::{OutputForm, print};
use crate::refusal::failed;
use backend::WriterFacts;
use facts::ServerAnswer;
pub use ids::help;
use limits::{Limits, within};
use result::{CheckLevel, CheckResult, render};

/// Time from one round to the next while the checks are waited for.
const BETWEEN: Duration = Duration::from_secs(1);
/// No check of a single round takes longer.
const ROUND: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A writer, or a discoverer.
    Writer,
    /// An openstack-writer.
    OpenstackWriter,
}

/// How to check.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    /// Checks again until nothing fails, for at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    wait: u32,
}

/// Checks, and prints each check with what to do.
///
/// # Errors
/// A check fails, the flags are wrong, or standard output cannot be written to.
pub async fn run(check: &CheckArgs, asked: Asked, args: &Args) -> Result<(), Exit> {
    let end = Instant::now() + Duration::from_secs(check.wait.into());
    let results = loop {
        let left = end.saturating_duration_since(Instant::now());
        let most = if check.wait == 0 { ROUND } else { left.clamp(BETWEEN, ROUND) };
        let results = all(asked, args, Limits::new(most)).await?;
        // What is on its way is waited for, too.
        let waits =
            |one: &CheckResult| one.level == CheckLevel::Fail || (one.level == CheckLevel::Warn && one.passes());
        if !results.iter().any(waits) || Instant::now() + BETWEEN > end {
            break results;
        }
        tokio::time::sleep(BETWEEN).await;
    };
    print(&match args.output {
        OutputForm::Table => render(&results),
        OutputForm::Json => results.iter().map(|result| format!("{}\n", result.json())).collect(),
    })?;
    let failed: Vec<String> =
        results.iter().filter(|result| result.level == CheckLevel::Fail).map(CheckResult::to_string).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => {
            Err(Exit::Failure(format!("{} of {} checks fail: {}", failed.len(), results.len(), failed.join(", "))))
        }
    }
}

async fn all(asked: Asked, args: &Args, limits: Limits) -> Result<Vec<CheckResult>, Exit> {
    let server = args.server();
    let files = crate::tls_files(server, &args.given())?;
    let mut results = pair::results(args, limits).await;
    let reached = server::reach(server, files, limits).await?;
    results.extend(reached.results);
    let more = match reached.channel {
        None => Vec::new(),
        Some(channel) => match within(limits.answer(), list(asked, channel.clone())).await {
            Ok(Ok(listed)) => ask_more(listed, channel, server, limits).await,
            Ok(Err(status)) if status.code() == Code::PermissionDenied => {
                // It has answered: what is wrong is who asks.
                let names = own_names(args, limits).await;
                vec![CheckResult::ok("server.answers", server, ""), facts::stranger(server, status.message(), &names)]
            }
            Ok(Err(status)) => vec![silent(asked, server, &failed(status).to_string())],
            Err(late) => vec![silent(asked, server, &late)],
        },
    };
    results.extend(more);
    Ok(not_asked(results, asked, server))
}

/// What a server lists.
enum Listed {
    Backends(pb::ListBackendsResponse),
    Clusters(kuryr::ListClustersResponse),
}

async fn list(asked: Asked, channel: Channel) -> Result<Listed, Status> {
    Ok(match asked {
        Asked::Writer => {
            Listed::Backends(BackendClient::new(channel).list_backends(pb::ListBackendsRequest {}).await?.into_inner())
        }
        Asked::OpenstackWriter => Listed::Clusters(
            ClusterClient::new(channel).list_clusters(kuryr::ListClustersRequest {}).await?.into_inner(),
        ),
    })
}

/// Asks a server that has answered for the rest, and checks it all.
async fn ask_more(listed: Listed, channel: Channel, server: &str, limits: Limits) -> Vec<CheckResult> {
    let mut results = vec![CheckResult::ok("server.answers", server, "")];
    let is_openstack = matches!(listed, Listed::Clusters(_));
    let told = within(limits.facts(), tell(is_openstack, channel.clone())).await;
    let told = told.and_then(|told| {
        told.map_err(|status| match status.code() {
            Code::Unimplemented => "the server is older than this check".to_owned(),
            _ => failed(status).to_string(),
        })
    });
    let shows_all = is_openstack || matches!(&listed, Listed::Backends(answer) if answer.writer.is_some());
    results.extend(match &told {
        Ok(told) => facts::results(told, server, shows_all),
        Err(why) => facts::IDS.map(|id| CheckResult::skip(id, server, why)).to_vec(),
    });
    // It has no credentials of a Kubernetes cluster.
    results.retain(|result| !is_openstack || result.id != "server.rights");
    let version = told.ok().map(|told| versions::number(&told.server.version).to_owned());
    match listed {
        Listed::Clusters(answer) => {
            results.extend(answer.clusters.iter().flat_map(|one| cluster::results(one, version.as_deref())));
        }
        Listed::Backends(answer) => {
            let conflicts = match &answer.writer {
                Some(_) => names::conflicts(channel, limits.services()).await,
                None => Err("it is a discoverer".to_owned()),
            };
            results.extend(backend::results(&answer, &WriterFacts { version, conflicts }));
        }
    }
    results
}

async fn tell(is_openstack: bool, channel: Channel) -> Result<ServerAnswer, Status> {
    let asked = Timestamp::now();
    let server = if is_openstack {
        ClusterClient::new(channel).get_server(kuryr::GetServerRequest {}).await?.into_inner().server
    } else {
        BackendClient::new(channel).get_server(pb::GetServerRequest {}).await?.into_inner().server
    };
    Ok(ServerAnswer { server: server.unwrap_or_default(), asked, answered: Timestamp::now() })
}

/// The names of this client's certificate. That it could be read is known by now.
async fn own_names(args: &Args, limits: Limits) -> Vec<String> {
    let Some(file) = args.tls_cert.clone() else { return Vec::new() };
    let read = move || ShownCertificate::of_pem(&std::fs::read(file).map_err(|error| error.to_string())?);
    let read = limits::blocking(limits.files(), read).await.and_then(|read| read);
    read.ok().and_then(|all| all.into_iter().next()).map(|own| own.names).unwrap_or_default()
}

fn silent(asked: Asked, server: &str, problem: &str) -> CheckResult {
    let (kind, command) = match asked {
        Asked::Writer => ("a writer or a discoverer", "gimbalctl check"),
        Asked::OpenstackWriter => ("an openstack-writer", "gimbalctl lb check"),
    };
    let hint = format!("`{command}` asks {kind}, by https unless that has --plaintext; is it ready (/readyz)?");
    CheckResult::fail("server.answers", server, problem, hint)
}

/// Adds what could not be checked.
fn not_asked(mut results: Vec<CheckResult>, asked: Asked, server: &str) -> Vec<CheckResult> {
    let rest: &[&'static str] = match asked {
        Asked::Writer => &["server.rights", "writer.leads", "backend"],
        Asked::OpenstackWriter => &["cluster"],
    };
    let is_there = |results: &[CheckResult], id: &str| results.iter().any(|result| result.id == id);
    if is_there(&results, "server.version") {
        return results;
    }
    for id in ["server.answers", "client.identity", "server.version", "server.clock"].iter().chain(rest) {
        if !is_there(&results, id) {
            results.push(CheckResult::skip(id, server, "the server was not asked"));
        }
    }
    results
}
