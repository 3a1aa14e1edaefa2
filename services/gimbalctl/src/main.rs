//! Gimbal's command line for operators: asks its programs over their gRPC services.
//!
//! ```text
//! gimbalctl lb list                          the load balancers that clusters want, and what came of them
//! gimbalctl lb why shop/web                  why one is as it is, and the last steps of the work on it
//! gimbalctl lb watch                         the same as list, and then each change
//! gimbalctl lb adopt shop/web ID --dry-run   what taking over a load balancer of Kuryr or the cloud provider would change
//! gimbalctl lb forget ID --cluster prod1     takes our marks off a load balancer
//! gimbalctl lb decommission --cluster prod1 --dry-run   what removing everything of a cluster would remove
//! ```

mod lb;
mod refusal;
mod table;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use gimbal_runtime::{Exit, TlsArgs};
use gimbal_transport::{Channel, DialError, TlsFiles, client_tls, dial};

/// How long a server may take to answer the dial.
const DIAL: Duration = Duration::from_secs(10);

/// Asks Gimbal's programs.
#[derive(Debug, Parser)]
#[command(name = "gimbalctl", version)]
struct Args {
    /// URL of openstack-writer: https://host:port, or http:// on loopback
    #[arg(long, env = "GIMBAL_SERVER", value_name = "URL", default_value = "https://localhost:7445", global = true)]
    server: String,
    /// The client certificate, which decides what may be seen and done (PEM)
    #[arg(long, env = "GIMBAL_TLS_CERT", value_name = "FILE", global = true)]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM)
    #[arg(long, env = "GIMBAL_TLS_KEY", value_name = "FILE", global = true)]
    tls_key: Option<PathBuf>,
    /// Authorities that sign the server's certificate (PEM)
    #[arg(long, env = "GIMBAL_TLS_CA", value_name = "FILE", global = true)]
    tls_ca: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, env = "GIMBAL_OUTPUT", value_name = "FORM", default_value = "table", global = true)]
    output: OutputForm,
    #[command(subcommand)]
    command: Topic,
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputForm {
    /// Columns for people.
    Table,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Topic {
    /// Load balancers that Kubernetes clusters have in OpenStack
    #[command(subcommand)]
    Lb(lb::LbCommand),
}

fn main() -> ExitCode {
    match gimbal_runtime::parse::<Args>() {
        Ok(args) => gimbal_runtime::run("gimbalctl", NonZeroUsize::MIN, work(args)),
        Err(code) => code,
    }
}

async fn work(args: Args) -> Result<(), Exit> {
    let channel = connect(&args).await?;
    match args.command {
        Topic::Lb(command) => lb::run(command, channel, args.output).await,
    }
}

async fn connect(args: &Args) -> Result<Channel, Exit> {
    let tls = TlsArgs { tls_cert: args.tls_cert.clone(), tls_key: args.tls_key.clone(), tls_ca: args.tls_ca.clone() };
    let files = tls.files().map_err(Exit::Usage)?;
    let tls = files.map(|(cert, key, ca)| client_tls(&TlsFiles { cert, key, ca }));
    let tls = tls.transpose().map_err(|error| Exit::Usage(error.to_string()))?;
    dial(&args.server, tls, DIAL).await.map_err(|error| undialled(&args.server, &error))
}

/// Returns why the server was not reached. A URL that cannot be one is wrong input.
fn undialled(server: &str, error: &DialError) -> Exit {
    match error {
        DialError::Url { problem, .. } => Exit::Usage(format!("--server {server}: {problem}")),
        DialError::Plaintext(_) => Exit::Usage(format!("--server {server}: {error}")),
        _ => Exit::Failure(format!("--server {server}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use gimbal_transport::DialTarget;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_server_that_cannot_be_one_is_wrong_input() {
        for (server, problem) in [
            ("nowhere", "has no scheme: write"),
            ("https://a:1", "is https: give --tls-cert"),
            ("http://a:1/x", "has a path"),
        ] {
            let exit = undialled(server, &DialTarget::parse(server, false).unwrap_err());
            let start = format!("--server {server}: {problem}");
            assert!(exit.code() == 2 && exit.to_string().starts_with(&start), "{exit}");
        }
    }

    #[test]
    fn what_people_type() {
        for good in [
            "lb list",
            "lb list --cluster prod1 -n shop --trouble -o json",
            "lb why shop/web --cluster prod1",
            "lb watch",
            "lb watch --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
            "lb adopt shop/web 1234 --cluster prod1 --dry-run",
            "lb forget 1234 --cluster prod1",
            "lb decommission --cluster prod1 --dry-run",
            "lb decommission --cluster prod1 --id prod1-3-0a",
        ] {
            Args::try_parse_from(["gimbalctl"].into_iter().chain(good.split(' '))).unwrap();
        }
        for bad in [
            "lb",
            "lb why web",
            "lb why shop/web/x",
            "lb why Shop/web",
            "lb list --namespace Bad_NS",
            "lb forget ../x --cluster prod1",
            "lb adopt shop/web 1234",
            "lb list -o yaml",
            "lb forget",
            "lb decommission --cluster prod1",
            "lb decommission --cluster prod1 --dry-run --id 1",
        ] {
            let parsed = Args::try_parse_from(["gimbalctl"].into_iter().chain(bad.split(' ')));
            assert!(parsed.is_err(), "{bad}");
        }
    }
}
