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
/// A check fails, or standard output cannot be written to.
pub async fn run(check: &CheckArgs, asked: Asked, args: &Args) -> Result<(), Exit> {
    let end = Instant::now() + Duration::from_secs(check.wait.into());
    let findings = loop {
        let findings = all(asked, args).await;
        let fails = findings.iter().any(|finding| finding.level == CheckLevel::Fail);
        if !fails || Instant::now() + BETWEEN > end {
            break findings;
        }
        tokio::time::sleep(BETWEEN).await;
    };
    print(&match args.output {
        OutputForm::Table => render(&findings),
        OutputForm::Json => findings.iter().map(|finding| format!("{}\n", finding.json())).collect(),
    })?;
    let failed: Vec<String> =
        findings.iter().filter(|finding| finding.level == CheckLevel::Fail).map(CheckResult::to_string).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => {
            Err(Exit::Failure(format!("{} of {} checks fail: {}", failed.len(), findings.len(), failed.join(", "))))
        }
    }
}

async fn all(asked: Asked, args: &Args) -> Vec<CheckResult> {
    let mut findings = pair::findings(args, Timestamp::now());
    let channel = match crate::connect(args).await {
        Ok(channel) => channel,
        Err(error) => {
            let hint = "is it running, and does --server name it? Its certificate must have that name, and --tls-ca its authority";
            findings.push(CheckResult::fail("server.reached", args.server(), error.to_string(), hint));
            return not_asked(findings, asked, args);
        }
    };
    findings.push(CheckResult::ok("server.reached", args.server(), ""));
    let answer = tokio::time::timeout(ANSWER, ask(asked, channel));
    let answer =
        answer.await.unwrap_or_else(|_| Err(Exit::Failure(format!("no answer within {} s", ANSWER.as_secs()))));
    match answer {
        Ok(more) => {
            findings.push(CheckResult::ok("server.answers", args.server(), ""));
            findings.extend(more);
            findings
        }
        Err(error) => {
            let hint =
                "the names in the client's certificate decide what may be asked: admins in the server's configuration";
            findings.push(CheckResult::fail("server.answers", args.server(), error.to_string(), hint));
            not_asked(findings, asked, args)
        }
    }
}

/// What cannot be checked without an answer.
fn not_asked(mut findings: Vec<CheckResult>, asked: Asked, args: &Args) -> Vec<CheckResult> {
    let rest: &[&'static str] = match asked {
        Asked::Writer => &["writer.leads", "backend"],
        Asked::OpenstackWriter => &["cluster"],
    };
    let has = |findings: &[CheckResult], id: &str| findings.iter().any(|finding| finding.id == id);
    for id in ["server.answers"].iter().chain(rest) {
        if !has(&findings, id) {
            findings.push(CheckResult::skip(id, args.server(), "the server was not asked"));
        }
    }
    findings
}

async fn ask(asked: Asked, channel: Channel) -> Result<Vec<CheckResult>, Exit> {
    Ok(match asked {
        Asked::Writer => {
            let answer = BackendClient::new(channel).list_backends(pb::ListBackendsRequest {}).await.map_err(failed)?;
            backend::findings(&answer.into_inner())
        }
        Asked::OpenstackWriter => {
            let answer =
                ClusterClient::new(channel).list_clusters(kuryr::ListClustersRequest {}).await.map_err(failed)?;
            answer.into_inner().clusters.iter().flat_map(cluster::findings).collect()
        }
    })
}
