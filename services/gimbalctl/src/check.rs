//! `gimbalctl check`: whether everything is as it should be, seen from here to each backend or cluster.

mod backend;
mod cluster;
mod pair;
mod result;

use std::time::{Duration, Instant};

use gimbal_kuryr_wire::pb as kuryr;
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use gimbal_wire::pb;
use jiff::Timestamp;
use kuryr::inspection_service_client::InspectionServiceClient as ClusterClient;
use pb::inspection_service_client::InspectionServiceClient as BackendClient;

use crate::Args;
use crate::output::{OutputForm, print};
use crate::refusal::failed;
use result::{CheckLevel, CheckResult, render};

/// Time from one round to the next while the checks are waited for.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A writer.
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
        let most = if check.wait == 0 { ANSWER } else { left.clamp(BETWEEN, ANSWER) };
        let results = all(asked, args, most).await?;
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

async fn all(asked: Asked, args: &Args, most: Duration) -> Result<Vec<CheckResult>, Exit> {
    let mut results = pair::results(args, Timestamp::now());
    let reached = match crate::connect(args, most).await {
        Ok(channel) => channel,
        // Wrong flags are no state of the server.
        Err(wrong @ Exit::Usage(_)) => return Err(wrong),
        Err(error) => {
            let hint = "is it running, and does --server name it? Its certificate must have that name, and --tls-ca its authority";
            results.push(CheckResult::fail("server.reached", args.server(), error.to_string(), hint));
            return Ok(not_asked(results, asked, args));
        }
    };
    results.push(CheckResult::ok("server.reached", args.server(), ""));
    let no_answer = |_| Err(Exit::Failure(format!("no answer within {} s", most.as_secs())));
    match tokio::time::timeout(most, ask(asked, reached)).await.unwrap_or_else(no_answer) {
        Ok(more) => {
            results.push(CheckResult::ok("server.answers", args.server(), ""));
            results.extend(more);
            Ok(results)
        }
        Err(error) => {
            let (kind, command) = match asked {
                Asked::Writer => ("a writer", "gimbalctl check"),
                Asked::OpenstackWriter => ("an openstack-writer", "gimbalctl lb check"),
            };
            let hint = format!(
                "`{command}` asks {kind}, by https unless that has --plaintext; admins in its configuration names who may ask"
            );
            results.push(CheckResult::fail("server.answers", args.server(), error.to_string(), hint));
            Ok(not_asked(results, asked, args))
        }
    }
}

/// What cannot be checked without an answer.
fn not_asked(mut results: Vec<CheckResult>, asked: Asked, args: &Args) -> Vec<CheckResult> {
    let rest: &[&'static str] = match asked {
        Asked::Writer => &["writer.leads", "backend"],
        Asked::OpenstackWriter => &["cluster"],
    };
    let has = |results: &[CheckResult], id: &str| results.iter().any(|result| result.id == id);
    for id in ["server.answers"].iter().chain(rest) {
        if !has(&results, id) {
            results.push(CheckResult::skip(id, args.server(), "the server was not asked"));
        }
    }
    results
}

async fn ask(asked: Asked, channel: Channel) -> Result<Vec<CheckResult>, Exit> {
    Ok(match asked {
        Asked::Writer => {
            let answer = BackendClient::new(channel).list_backends(pb::ListBackendsRequest {}).await.map_err(failed)?;
            backend::results(&answer.into_inner())
        }
        Asked::OpenstackWriter => {
            let answer =
                ClusterClient::new(channel).list_clusters(kuryr::ListClustersRequest {}).await.map_err(failed)?;
            answer.into_inner().clusters.iter().flat_map(cluster::results).collect()
        }
    })
}
