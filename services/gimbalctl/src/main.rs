//! Gimbal's command line for operators: asks its programs over their gRPC services.
//!
//! ```text
//! gimbalctl check                            whether anything of the writer, its backends or this client's certificate is wrong
//! gimbalctl backends                         the backends of the writer: what is connected, held, rejected
//! gimbalctl services --trouble               their Services that are rejected, held or pending
//! gimbalctl why team1/web --backend node02   why a Service is as it is; without a backend, one of the Gimbal cluster
//! gimbalctl why team1/web/10.0.0.1 --backend node02 --discoverer node02   where one address of it is, asking both ends
//! gimbalctl diff --discoverer node02         where source, writer and Gimbal cluster differ
//! gimbalctl watch                            the same as services, and then each change
//! gimbalctl approve HOLD --backend node02    releases a removal that the guard holds
//! gimbalctl confirm SOURCE --backend node02  gives a backend's name to another source
//! gimbalctl config diff writer.yaml          what another configuration of the writer would change
//! gimbalctl decommission --backend node02 --dry-run     what removing everything of a backend would remove
//! gimbalctl adopt --backend node02 --dry-run            which objects of the original Gimbal the writer would take over
//!
//! gimbalctl context set prod --server URL    keeps a server and certificates under a name, for all commands
//! gimbalctl certs authority --dir authority  makes an authority of its own
//! gimbalctl certs issue node02 --uri spiffe://gimbal.example/backend/node02   a pair for a program, signed by it
//! gimbalctl certs show tls.crt               what certificates say, and when they end
//!
//! gimbalctl lb check                         the same of openstack-writer and its clusters
//! gimbalctl lb clusters                      the clusters, what is held of them, and their trouble
//! gimbalctl lb list                          the load balancers that clusters want, and what came of them
//! gimbalctl lb why shop/web                  why one is as it is, and the last steps of the work on it
//! gimbalctl lb diff shop/web                 what openstack-writer would change about one
//! gimbalctl lb watch                         the same as list, and then each change
//! gimbalctl lb adopt shop/web ID --dry-run   what taking over a load balancer of Kuryr or the cloud provider would change
//! gimbalctl lb approve HOLD --cluster prod1  releases a removal that the guard holds
//! gimbalctl lb confirm UID --cluster prod1   gives the name of a cluster to another one
//! gimbalctl lb forget ID --cluster prod1     takes our marks off a load balancer
//! gimbalctl lb decommission --cluster prod1 --dry-run   what removing everything of a cluster would remove
//! ```

mod adopt;
mod backends;
mod certs;
mod check;
mod clusters;
mod configuration;
mod context;
mod decisions;
mod diff;
mod lb;
mod manual;
mod output;
mod refusal;
mod services;
mod table;
mod why;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use gimbal_runtime::{Exit, TlsArgs};
use gimbal_transport::{Channel, DialError, TlsFiles, client_tls, dial};

use crate::check::Asked;
use crate::output::OutputForm;

/// How long a server may take to answer the dial.
const DIAL: Duration = Duration::from_secs(10);

/// Asks Gimbal's programs.
#[derive(Debug, Parser)]
#[command(name = "gimbalctl", version)]
struct Args {
    /// URL of the writer, or for `lb` of openstack-writer: https://host:port, or http:// on loopback
    /// [default: https://localhost:7443, for `lb` https://localhost:7445]
    #[arg(long, env = "GIMBAL_SERVER", value_name = "URL", global = true)]
    server: Option<String>,
    /// The client certificate, which decides what may be seen and done (PEM)
    #[arg(long, env = "GIMBAL_TLS_CERT", value_name = "FILE", global = true)]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM)
    #[arg(long, env = "GIMBAL_TLS_KEY", value_name = "FILE", global = true)]
    tls_key: Option<PathBuf>,
    /// Authorities that sign the server's certificate (PEM)
    #[arg(long, env = "GIMBAL_TLS_CA", value_name = "FILE", global = true)]
    tls_ca: Option<PathBuf>,
    /// The context to use, instead of the one in use (`gimbalctl context`)
    #[arg(long, env = "GIMBAL_CONTEXT", value_name = "NAME", global = true)]
    context: Option<String>,
    /// The file of contexts [default: gimbal/gimbalctl.yaml in the user's folder of configuration]
    #[arg(long, env = "GIMBALCTL_CONFIG", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, env = "GIMBAL_OUTPUT", value_name = "FORM", default_value = "table", global = true)]
    output: OutputForm,
    /// The discoverers that the context names, by backend.
    #[arg(skip)]
    discoverers: BTreeMap<String, String>,
    #[command(subcommand)]
    command: Topic,
}

#[derive(Debug, Subcommand)]
enum Topic {
    /// Checks this client's certificate, the writer and its backends; exit code 1 if anything fails
    Check(check::CheckArgs),
    /// Lists the backends of a writer: their state, what is rejected and held, and trouble
    Backends,
    /// Lists Services, and where they are published
    Services(services::WhichServices),
    /// Prints the Services that there are, and then each change
    Watch(services::WhichServices),
    /// Compares sources, the writer and the Gimbal cluster; exit code 1 if anything differs, 2 if that is not known
    Diff(diff::DiffArgs),
    /// Says why a Service, or one address of it, is as it is, and asks both ends
    Why(why::WhyArgs),
    /// Releases a removal that the guard holds
    Approve {
        /// The id of what is held, from `gimbalctl backends`
        id: String,
        /// The backend
        #[arg(long)]
        backend: String,
    },
    /// Gives a backend's name to another source
    Confirm {
        /// The source that is refused, as the trouble of the backend names it (`gimbalctl backends`)
        #[arg(allow_hyphen_values = true)]
        source: String,
        /// The backend
        #[arg(long)]
        backend: String,
    },
    /// Removes everything of a backend that the configuration no longer admits
    Decommission(decisions::Removal),
    /// A configuration of the writer that is not in force yet
    #[command(subcommand)]
    Config(configuration::ConfigurationCommand),
    /// Gives the Services and Endpoints that the original Gimbal made of a backend to the writer
    Adopt(adopt::Adoption),
    /// Certificates for the programs, made and shown without any server
    #[command(subcommand)]
    Certs(certs::CertsCommand),
    /// Servers and certificates under a name, so that they need no flags
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// Prints a script that completes these commands in a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Writes a manual page of each command
    Man {
        /// The folder that they are written into
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
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

async fn work(mut args: Args) -> Result<(), Exit> {
    let contexts = context::file(args.config.as_deref());
    if let Topic::Context(command) = &args.command {
        return context::run(command, contexts.as_deref(), args.given(), args.output);
    }
    if !args.is_local() {
        args.fill(contexts.as_deref())?;
    }
    let output = args.output;
    let channel = match &args.command {
        Topic::Certs(command) => return certs::run(command, output),
        Topic::Completion { shell } => return manual::completion(*shell, Args::command()),
        Topic::Man { dir } => return manual::pages(dir, Args::command()),
        // Whether there is a connection is one of the checks.
        Topic::Check(how) => return check::run(how, Asked::Writer, &args).await,
        Topic::Diff(what) => return diff::run(what, &args, contexts.as_deref()).await,
        Topic::Why(what) => return why::run(what, &args, contexts.as_deref()).await,
        Topic::Adopt(what) => return adopt::run(what, &args).await,
        Topic::Lb(lb::LbCommand::Check(how)) => return check::run(how, Asked::OpenstackWriter, &args).await,
        Topic::Lb(lb::LbCommand::Diff(which)) => return lb::difference(which, &args).await,
        _ => connect(&args, DIAL).await?,
    };
    match args.command {
        Topic::Certs(_)
        | Topic::Completion { .. }
        | Topic::Man { .. }
        | Topic::Check(_)
        | Topic::Diff(_)
        | Topic::Why(_)
        | Topic::Adopt(_)
        | Topic::Context(_) => Ok(()),
        Topic::Backends => backends::list(channel, output).await,
        Topic::Services(which) => services::list(which, channel, output).await,
        Topic::Watch(which) => services::watch(which, channel, output).await,
        Topic::Approve { id, backend } => decisions::approve(backend, id, channel, output).await,
        Topic::Confirm { source, backend } => decisions::confirm(backend, source, channel, output).await,
        Topic::Decommission(removal) => decisions::decommission(removal, channel, output).await,
        Topic::Config(configuration::ConfigurationCommand::Diff(what)) => {
            configuration::diff(&what, channel, output).await
        }
        Topic::Lb(command) => lb::run(command, channel, output).await,
    }
}

impl Args {
    /// Whether it asks no server.
    fn is_local(&self) -> bool {
        matches!(self.command, Topic::Certs(_) | Topic::Completion { .. } | Topic::Man { .. } | Topic::Context(_))
    }

    /// Returns what flags say of a context.
    fn given(&self) -> context::Context {
        context::Context {
            server: self.server.clone(),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            tls_ca: self.tls_ca.clone(),
            ..context::Context::default()
        }
    }

    /// Takes from the context what no flag says. A flag for a server means another one, and its certificates are not those of the
    /// context unless that is named, too.
    fn fill(&mut self, file: Option<&Path>) -> Result<(), Exit> {
        if self.context.is_none() && self.server.is_some() {
            return Ok(());
        }
        let Some(found) = context::find(file, self.context.as_deref())? else { return Ok(()) };
        let (server, flag) = match self.command {
            Topic::Lb(_) => (found.openstack_server, "--openstack-server"),
            _ => (found.server, "--server"),
        };
        self.server = self.server.take().or(server);
        if self.server.is_none() {
            let name = found.name;
            return Err(Exit::Usage(format!(
                "context {name:?} has no such server: gimbalctl context set {name} {flag} URL"
            )));
        }
        self.discoverers = found.discoverers;
        self.tls_cert = self.tls_cert.take().or(found.tls_cert);
        self.tls_key = self.tls_key.take().or(found.tls_key);
        self.tls_ca = self.tls_ca.take().or(found.tls_ca);
        Ok(())
    }

    fn server(&self) -> &str {
        self.server.as_deref().unwrap_or(match self.command {
            Topic::Lb(_) => "https://localhost:7445",
            _ => "https://localhost:7443",
        })
    }
}

async fn connect(args: &Args, most: Duration) -> Result<Channel, Exit> {
    connect_to("--server", args.server(), &args.given(), most).await
}

/// Connects to a server that a flag names, with the certificates of a context.
async fn connect_to(flag: &str, server: &str, with: &context::Context, most: Duration) -> Result<Channel, Exit> {
    let tls = TlsArgs { tls_cert: with.tls_cert.clone(), tls_key: with.tls_key.clone(), tls_ca: with.tls_ca.clone() };
    // An http URL is plaintext over loopback, even where certificates for other servers are in the environment.
    let files = tls.files().map_err(Exit::Usage)?.filter(|_| !server.starts_with("http:"));
    let tls = files.map(|(cert, key, ca)| client_tls(&TlsFiles { cert, key, ca }));
    let tls = tls.transpose().map_err(|error| Exit::Usage(error.to_string()))?;
    dial(server, tls, most).await.map_err(|error| undialled(flag, server, &error))
}

/// Returns why the server was not reached. A URL that cannot be one is wrong input.
fn undialled(flag: &str, server: &str, error: &DialError) -> Exit {
    match error {
        DialError::Url { problem, .. } => Exit::Usage(format!("{flag} {server}: {problem}")),
        DialError::Plaintext(_) => Exit::Usage(format!("{flag} {server}: {error}")),
        _ => Exit::Failure(format!("{flag} {server}: {error}")),
    }
}

#[cfg(test)]
mod tests {
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
            ("http://127.0.0.1:99999", "has no port that there is"),
            ("http://127.0.0.1:abc", "has no port that there is"),
        ] {
            let exit = undialled("--server", server, &DialTarget::parse(server, false).unwrap_err());
            let start = format!("--server {server}: {problem}");
            assert!(exit.code() == 2 && exit.to_string().starts_with(&start), "{exit}");
        }
    }

    #[test]
    fn each_topic_has_the_port_of_its_server() {
        let server = |line: &str| Args::try_parse_from(line.split(' ')).unwrap().server().to_owned();
        assert_eq!(server("gimbalctl backends"), "https://localhost:7443");
        assert_eq!(server("gimbalctl lb list"), "https://localhost:7445");
        assert_eq!(server("gimbalctl lb list --server https://a:1"), "https://a:1");
    }

    #[test]
    fn what_people_type() {
        for good in [
            "backends",
            "services --backend node02 -n team1 --trouble -o json",
            "why team1/web --backend node02",
            "why team1/node02-web",
            "why team1/web/10.0.0.1 --backend node02 --discoverer https://a:7444",
            "why team1/node02-web/fd00::1 --discoverer node02 -o json",
            "watch --trouble",
            "approve 1 --backend node02",
            "confirm 1111 --backend node02",
            "decommission --backend node02 --dry-run",
            "decommission --backend node02 --id node02-1",
            "config diff writer.yaml -o json",
            "adopt --backend node02 --dry-run",
            "adopt --backend node02 --kubeconfig gimbal.yaml --drop-gone --id node02-1 --wait 0",
            "check",
            "check --wait 60 -o json",
            "diff",
            "diff --backend node02 --discoverer https://a:7444 --discoverer node03 -o json",
            "lb check --wait 60",
            "context list",
            "context use prod",
            "context set prod --server https://a:1 --openstack-server https://b:1",
            "context set prod --discoverer node02=https://a:7444 --discoverer node03=node03",
            "check --context prod --config contexts.yaml",
            "certs authority",
            "certs authority --dir here --name gimbal-prod",
            "certs issue writer --dns writer.example --authority here --out there --days 90 --replace",
            "certs issue node02 --uri spiffe://a/b --ip 10.0.0.1",
            "certs show a.crt b.crt -o json",
            "completion bash",
            "man pages",
            "lb list",
            "lb list --cluster prod1 -n shop --trouble -o json",
            "lb why shop/web --cluster prod1",
            "lb diff shop/web --cluster prod1",
            "lb diff gimbal/KuryrL7Router:router -o json",
            "lb clusters -o json",
            "lb approve m-1 --cluster prod1",
            "lb confirm 1111 --cluster prod1",
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
            "why web",
            "why team1/web/ten",
            "why team1/web/10.0.0.1/80",
            "context set prod --discoverer https://a:7444",
            "services -n Bad_NS",
            "approve 1",
            "confirm --backend node02",
            "decommission --backend node02",
            "decommission --backend node02 --dry-run --id 1",
            "config",
            "config diff",
            "adopt --backend node02",
            "adopt --backend Node_02 --dry-run",
            "adopt --backend node02 --dry-run --id 1",
            "certs",
            "certs issue node02",
            "certs issue ../node02 --dns a",
            "certs issue node02 --uri node02",
            "certs issue node02 --dns a_b!",
            "certs issue node02 --dns a --days 0",
            "certs show",
            "completion dos",
            "man",
            "lb",
            "lb why web",
            "lb diff web",
            "lb why shop/web/x",
            "lb why Shop/web",
            "lb list --namespace Bad_NS",
            "lb forget ../x --cluster prod1",
            "lb adopt shop/web 1234",
            "lb list -o yaml",
            "lb forget",
            "lb approve m-1",
            "lb decommission --cluster prod1",
            "lb decommission --cluster prod1 --dry-run --id 1",
        ] {
            let parsed = Args::try_parse_from(["gimbalctl"].into_iter().chain(bad.split(' ')));
            assert!(parsed.is_err(), "{bad}");
        }
    }
}
